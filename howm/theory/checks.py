"""Proposition 4.1 for one model, sample by sample."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from howm.errors import HowmError
from howm.theory.homomorphism import Homomorphism, find_projection, induce, push
from howm.theory.library import EXACT, FullModel, TabularLibrary

# --- The check ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ModelCheck:
    """Proposition 4.1 for one T̂. Expectations are over all s, a, s' and the σ that were asked for.

    Shares are of the samples (s, a, s', σ) that are not 0 = 0, with s' in the scene of s: elsewhere σ̄ of s is not σ̄ of
    s', and a T̂ that keeps the scene has λ_full = 0 but λ_slot > 0.
    """

    model: str
    binding: str
    replacements: str
    not_homomorphic: float  # by how much the homomorphism condition fails
    leak: float  # expected mass outside the scene of s
    lambda_full: float
    lambda_slot: float
    steps: tuple[float, float, float]  # in which share steps (3), (4), (5) of the paper's proof hold
    equal_c: float  # λ_slot = C λ_full
    equal_1: float  # λ_slot = λ_full
    bound_c: float  # λ_slot <= C λ_full
    bound_fibre: float  # λ_slot <= the sum of λ_full over the fibre: what remains of step (4)
    bound_leak: float  # λ_slot <= λ_full + mass outside the scene
    max_ratio: float | None  # of λ_slot to λ_full; None where λ_full = 0 < λ_slot
    scenes: int  # C
    counterexample: str | None  # to λ_slot = C λ_full, the worst

    @property
    def ratio(self) -> float | None:
        """λ_slot / λ_full, in expectation."""
        return self.lambda_slot / self.lambda_full if self.lambda_full > EXACT else None

    @property
    def verdict(self) -> str:
        """What was found at samples and in expectation, and why."""
        if max(self.lambda_full, self.lambda_slot) < EXACT:
            return "0 = 0"
        expected = ""
        if self.ratio is not None:
            relation = "=" if abs(self.ratio - self.scenes) < 1e-9 else "<=" if self.ratio < self.scenes else ">"
            expected = f"in expectation λ_slot = {self.ratio:.3f} λ_full, {relation} C λ_full"
        if self.not_homomorphic > EXACT:
            return f"T̂_slot is not defined, since h is no homomorphism of T̂; with their mean, {expected}"
        if self.lambda_slot < EXACT:
            return "λ_slot = 0 < λ_full: φ merges states of one scene"
        if self.equal_c == 1:
            why = "all C summands are equal" if min(self.steps) == 1 else "though not by the proof's steps"
            return f"λ_slot = C λ_full at every sample, {why}; {expected}"
        if self.equal_1 == 1:
            return f"λ_slot = λ_full at every sample, since C-1 of the C summands are 0; {expected}"
        if self.bound_fibre == 1:
            why = "not equal" if self.steps[1] == 1 else "of both signs"
            return f"only λ_slot <= Σ λ_full over the fibre, since the summands are {why}; {expected}"
        return f"neither = nor <= at every sample: mass leaves the scene, where σ̄ is another; {expected}"


def check_model(
    world: TabularLibrary,
    h: Homomorphism,
    name: str,
    model: FullModel,
    chosen: Sequence[int] | None = None,
    replacements: str = "all",
) -> ModelCheck:
    """Compare the two errors at every sample, for all σ or for those with the indices ``chosen``."""
    chosen = range(len(world.symmetries)) if chosen is None else chosen
    scenes, arrangements = len(world.scenes), len(world.arrangements)
    projection = find_projection(world, h)
    if (projection[list(chosen)] < 0).any():
        raise HowmError(f"the binding {h.name} lacks the projection property: no σ̄ exists for some σ and s")
    slot_model, residual = induce(world, h, model)
    inside = np.broadcast_to(world.own[:, None], (*model.shape[:2], arrangements))  # s' in the scene of s
    image = h.phi[inside]

    def at(table: np.ndarray, index: np.ndarray) -> np.ndarray:
        return np.take_along_axis(table, index, axis=2)

    outside = np.maximum(at(push(world, h, model), image) - at(model, inside), 0)
    here = slot_model[h.phi[:, None, None], h.alpha[:, :, None], image]
    levels, lambda_full = [], []
    for g in chosen:
        states, actions, bar = world.replaced_states[g], world.replaced_actions[g], projection[g]
        difference = model - model[np.ix_(states, actions, states)]
        lambda_full.append(np.abs(difference).mean())
        there = slot_model[
            world.replaced_slot_states[bar, h.phi][:, None, None],
            world.replaced_slot_actions[bar[:, None], h.alpha][:, :, None],
            world.replaced_slot_states[bar[:, None, None], image],
        ]
        levels.append(
            (
                np.abs(here - there),  # (1), (2)
                np.abs(at(push(world, h, difference), image)),  # (3)
                at(push(world, h, np.abs(difference)), image),  # (4)
                np.abs(at(difference, inside)),  # (5), without the factor
                np.maximum(outside, at(outside[np.ix_(states, actions)], states[inside] % arrangements)),
            )
        )
    slot, three, four, full, leak = (np.stack(level) for level in zip(*levels, strict=True))

    def share(holds: np.ndarray, counted: np.ndarray) -> float:
        return float(holds[counted].mean()) if counted.any() else 1.0

    some, error = np.maximum(slot, four) > EXACT, np.maximum(slot, full) > EXACT
    off = np.abs(slot - scenes * full)
    worst = tuple(int(i) for i in np.unravel_index(off.argmax(), off.shape))
    unbounded = ((full < EXACT) & (slot > EXACT)).any()
    example = (
        f"{_describe(world, chosen[worst[0]], *worst[1:])}: λ_slot = {slot[worst]:.4f}, λ_full = {full[worst]:.4f}"
    )
    return ModelCheck(
        model=name,
        binding=h.name,
        replacements=replacements,
        not_homomorphic=residual,
        leak=float(outside.sum(axis=2).mean()),
        lambda_full=float(np.mean(lambda_full)),
        lambda_slot=float(slot.mean()),
        steps=(
            share(np.abs(slot - three) < EXACT, some),
            share(np.abs(three - four) < EXACT, some),
            share(np.abs(four - scenes * full) < EXACT, some),
        ),
        equal_c=share(off < EXACT, error),
        equal_1=share(np.abs(slot - full) < EXACT, error),
        bound_c=share(slot <= scenes * full + EXACT, error),
        bound_fibre=share(slot <= four + EXACT, error),
        bound_leak=share(slot <= full + leak + EXACT, error),
        max_ratio=None if unbounded else float((slot / np.maximum(full, EXACT)).max()),
        scenes=scenes,
        counterexample=example if off[worst] > EXACT else None,
    )


def _describe(world: TabularLibrary, g: int, state: int, action: int, after: int) -> str:
    ids, cells, to = (rows.tolist() for rows in (world.scene_ids[state], world.cells[state], world.arrangements[after]))
    return f"objects {ids} on cells {cells}, action {action}, s' on cells {to}, σ = {world.symmetries[g]}"


@dataclass(frozen=True)
class BindingCheck:
    """Whether a binding is a homomorphism of the true dynamics and projects, and (least, most) sizes of its fibres."""

    name: str
    homomorphism: bool
    projection: bool
    fibre: tuple[int, int]
    fibre_in_scene: tuple[int, int]


def check_binding(world: TabularLibrary, h: Homomorphism) -> BindingCheck:
    """Test the homomorphism condition and the projection property, and count the fibres' states."""
    by_scene = np.zeros((len(world.scenes), len(world.arrangements)), dtype=int)
    np.add.at(by_scene, (np.arange(len(h.phi)) // len(world.arrangements), h.phi), 1)
    sizes = [counts[counts > 0] for counts in (by_scene.sum(axis=0), by_scene)]
    fibre, in_scene = ((int(size.min()), int(size.max())) for size in sizes)
    homomorphism = induce(world, h, world.true_model)[1] < EXACT
    return BindingCheck(h.name, homomorphism, bool((find_projection(world, h) >= 0).all()), fibre, in_scene)
