"""Proposition 4.1 and its corollary, checked."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from howm.theory.checks import BindingCheck, ModelCheck, check_binding, check_model
from howm.theory.homomorphism import (
    NOISE,
    ascending,
    by_position,
    find_projection,
    keep_scene,
    mirrored,
    perturb,
    spread,
    symmetrise,
)
from howm.theory.library import EXACT, TabularLibrary
from howm.worlds.grid import Grid
from howm.worlds.library import ObjectLibrary


@dataclass(frozen=True)
class PropositionReport:
    """What holds of Proposition 4.1 and its corollary on one enumerated Object Library."""

    world: str
    n: int
    k: int
    grid: tuple[int, int]
    scenes: int
    one_bar: tuple[str, ...]  # the σ with one σ̄ for all scenes, ids ascending
    bindings: tuple[BindingCheck, ...]
    models: tuple[ModelCheck, ...]
    corollary: tuple[ModelCheck, ModelCheck]  # two T̂_full with one Σ_K-equivariant image: the lift, and another

    def to_json(self) -> dict[str, Any]:
        models = [asdict(check) | {"ratio": check.ratio, "verdict": check.verdict} for check in self.models]
        return asdict(self) | {"models": models}

    def __str__(self) -> str:
        lines = [
            f"Proposition 4.1, λ_slot = C λ_full, enumerated: {self.world}, N={self.n}, K={self.k}, "
            f"grid {self.grid[0]}x{self.grid[1]}, C = {self.scenes}",
            "",
            "binding         homomorphism  projection  states per fibre  of them in one scene",
        ]
        for b in self.bindings:
            answers = f"{'yes' if b.homomorphism else 'no':13s} {'yes' if b.projection else 'no':11s}"
            lines.append(f"{b.name:15s} {answers} {'-'.join(map(str, sorted(set(b.fibre)))):17s} "
                         f"{'-'.join(map(str, sorted(set(b.fibre_in_scene))))}")  # fmt: skip
        lines += [
            "",
            f"σ with one σ̄ for all scenes, ids ascending: {', '.join(self.one_bar)}",
            "",
            "λ_full and λ_slot in expectation; in which share of samples the steps of the proof and the claim hold",
            "T̂                       σ        λ_full   λ_slot  step 3 step 4 step 5    =C λ   =1 λ  <=C λ  max ratio",
        ]
        for m in self.models:
            steps, claims = (
                "".join(f"{100 * share:5.0f} %" for share in shares)
                for shares in (m.steps, (m.equal_c, m.equal_1, m.bound_c))
            )
            ratio = "infinite" if m.max_ratio is None else f"{m.max_ratio:.3g}"
            lines.append(f"{m.model:24s} {m.replacements:8s} {m.lambda_full:.5f}  {m.lambda_slot:.5f} {steps} {claims}"
                         f"  {ratio}")  # fmt: skip
            lines.append(f"    {m.verdict}")
            if m.counterexample:
                lines.append(f"    e.g. {m.counterexample}")
        lift, other = self.corollary
        lines += [
            "",
            f"Corollary: a Σ_K-equivariant T̂_slot, lifted with the scene kept, has λ_full = {lift.lambda_full:.1e}: "
            + ("holds." if lift.lambda_full < EXACT else "FAILS."),
            "It is the lift that is Σ_N-equivariant, not every T̂_full with that image: one that leaks has "
            f"λ_slot = {other.lambda_slot:.1e}, λ_full = {other.lambda_full:.1e}.",
        ]
        return "\n".join(lines)


def check_proposition(
    world: str = "rush_hour", n: int = 4, k: int = 2, grid: Grid | None = None, seed: int = 0
) -> PropositionReport:
    """Check Proposition 4.1 for the true dynamics and for models made to satisfy, or not, each step of its proof."""
    library = TabularLibrary(ObjectLibrary.make(world, n), k, grid)
    rng = np.random.default_rng(seed)
    h, positions = ascending(library), by_position(library)
    kept, anything = keep_scene(library), rng.exponential(size=library.true_model.shape)
    learned = perturb(library, h, rng)
    # Unequal, and left alone by the σ that reverses the order: for it the C summands have one sign.
    scene_weight = 1.0 + np.abs(library.scenes.sum(axis=1) - k * (n - 1) / 2)
    uneven = np.broadcast_to(scene_weight.repeat(len(library.arrangements)), anything.shape)
    noise = kept * anything / (kept * anything).sum(axis=2, keepdims=True)
    models = {
        "true dynamics": library.true_model,
        "keeps the scene": spread(library, h, learned, kept),
        "differs between scenes": (1 - NOISE) * library.true_model + NOISE * noise,
        "forgets the scene": spread(library, h, learned, np.ones(anything.shape)),
        "forgets it, unevenly": spread(library, h, learned, uneven),
        "leaks at random": spread(library, h, learned, anything),
    }
    one_bar = [g for g, bars in enumerate(find_projection(library, h)) if len(np.unique(bars)) == 1]
    checks = [check_model(library, h, name, model) for name, model in models.items()]
    checks += [check_model(library, h, name, models[name], one_bar, "one σ̄") for name in list(models)[3:]]
    merged = spread(library, positions, perturb(library, positions, rng), noise)
    checks.append(check_model(library, positions, "keeps it; by position", merged))
    equivariant = symmetrise(library, learned)
    return PropositionReport(
        world,
        n,
        k,
        (library.grid.height, library.grid.width),
        len(library.scenes),
        tuple(str(library.symmetries[g]) for g in one_bar),
        tuple(check_binding(library, binding) for binding in (h, positions, mirrored(library))),
        tuple(checks),
        (
            check_model(library, h, "lift", spread(library, h, equivariant, kept)),
            check_model(library, h, "another", spread(library, h, equivariant, anything)),
        ),
    )
