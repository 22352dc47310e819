"""Object replacement σ ∈ Σ_N, and how far a learned world model is from commuting with it (Section 4.2).

σ acts in two ways, which Rush Hour tells apart. On *true states* object j's cell is taken over by object σ(j), which
has a heading of its own: σ.a turns the relative direction by the difference of headings, so that the absolute one is
kept; without the turn even the true dynamics would have λ > 0. On *latent states* σ moves the contents of slot j,
with whatever it holds of a heading, to slot σ(j) ("identical appearance but with object labels being replaced"), so
there the action factor, which is relative to that heading, moves along unturned.

Equivariance is not accuracy: a model that predicts no change, or a constant, has λ = 0.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from howm.dataset import Episodes
from howm.envs import Info, RewardFn
from howm.errors import HowmError
from howm.models.worldmodel import State, WorldModel, device_of, evaluating
from howm.render import Renderer
from howm.scenes import Scene, as_scene

TOLERANCE = 1e-4  # a sample counts as equivariant up to this share of the scale: float32 sums depend on their order


@dataclass(frozen=True)
class Replacement:
    """σ: object i is replaced by object ``image[i]``. ``(a @ b)(i)`` is ``a(b(i))``."""

    image: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "image", tuple(int(i) for i in self.image))
        if sorted(self.image) != list(range(self.n)):
            raise HowmError(f"{self.image} is no permutation; give each of 0-{self.n - 1} once")

    @classmethod
    def identity(cls, n: int) -> "Replacement":
        return cls(tuple(range(n)))

    @classmethod
    def random(cls, n: int, rng: np.random.Generator) -> "Replacement":
        return cls(tuple(rng.permutation(n)))

    @classmethod
    def from_cycles(cls, n: int, *cycles: Iterable[int]) -> "Replacement":
        """Disjoint cycles, counted from 0: the paper's (1 2 3)(4 5) is ``from_cycles(5, (0, 1, 2), (3, 4))``."""
        image, seen = list(range(n)), set[int]()
        for cycle in map(tuple, cycles):
            if seen.intersection(cycle) or len(set(cycle)) < len(cycle) or not set(cycle) <= set(range(n)):
                raise HowmError(f"the cycle {cycle} repeats an object or leaves 0-{n - 1}; give disjoint cycles")
            seen.update(cycle)
            for i, j in zip(cycle, cycle[1:] + cycle[:1], strict=True):
                image[i] = j
        return cls(tuple(image))

    @property
    def n(self) -> int:
        return len(self.image)

    @cached_property
    def inverse(self) -> "Replacement":
        return Replacement(tuple(np.argsort(self.image)))

    def __matmul__(self, other: "Replacement") -> "Replacement":
        if self.n != other.n:
            raise HowmError(f"replacements of {self.n} and {other.n} objects cannot be composed")
        return Replacement(tuple(self.image[i] for i in other.image))

    def __str__(self) -> str:
        cycles, left = [], set(range(self.n))
        while left:
            cycle = [min(left)]
            while (following := self.image[cycle[-1]]) != cycle[0]:
                cycle.append(following)
            left.difference_update(cycle)
            cycles.append(cycle)
        return "".join(f"({' '.join(map(str, cycle))})" for cycle in cycles if len(cycle) > 1) or "()"

    def __call__(self, ids: Int[np.ndarray, "*shape"]) -> Int[np.ndarray, "*shape"]:
        """p_L: what each library object is replaced by."""
        return np.asarray(np.asarray(self.image)[ids])

    def scene(self, scene: Iterable[int]) -> Scene:
        """p_K: the set of objects that take the places of a scene's, ascending."""
        return as_scene(self.image[i] for i in scene)

    def states(
        self, scene_ids: Int[np.ndarray, "B K"], cells: Int[np.ndarray, "B K"]
    ) -> tuple[Int[np.ndarray, "B K"], Int[np.ndarray, "B K"]]:
        """σ.s as ascending ids and their cells: object σ(j) stands where j stood."""
        ids = self(scene_ids)
        order = ids.argsort(axis=1)
        return np.take_along_axis(ids, order, axis=1), np.take_along_axis(cells, order, axis=1)

    def actions(
        self, actions: Int[np.ndarray, "*shape"], headings: Int[np.ndarray, "N"] | None = None
    ) -> Int[np.ndarray, "*shape"]:
        """σ.a: the action of object σ(i) in the same absolute direction, given the library's headings; without them,
        in the same relative direction, which is what a permutation of latent slots carries along."""
        objects, relative = np.divmod(np.asarray(actions, dtype=np.int64), 4)
        replaced = self(objects)
        if headings is not None:
            turn = headings.astype(np.int64)
            relative = (relative + turn[objects] - turn[replaced]) % 4
        return 4 * replaced + relative

    def latents(self, latents: Shaped[Tensor, "B N *D"]) -> Shaped[Tensor, "B N *D"]:
        """σ on a latent state of the full MDP: slot σ(i) receives what slot i held."""
        return latents[:, list(self.inverse.image)]

    def state(self, state: State) -> State | None:
        """σ on a model's state: on the rows of its binding, or else on its slots; None where it has neither N rows
        nor N slots, and so is no state of the full MDP."""
        if state.binding is not None:
            return replace(state, binding=self.latents(state.binding))
        return replace(state, slots=self.latents(state.slots)) if state.slots.shape[1] == self.n else None


@dataclass(frozen=True)
class SampleErrors:
    """Errors of single samples (s, a, σ), and the scale of the quantity they are errors of."""

    errors: Float[np.ndarray, "samples"]
    scale: float

    @property
    def expected(self) -> float:
        """The expectation over samples."""
        return float(self.errors.mean())

    @property
    def relative(self) -> float | None:
        """The expectation as a share of the scale; None where nothing varies."""
        return self.expected / self.scale if self.scale > 0 else None

    def sample_lambda(self, tolerance: float = TOLERANCE) -> Float[np.ndarray, "samples"]:
        """The paper's λ^σ at s' = T̂(s, a). A deterministic T̂ gives σ.s' the probability 1 or 0, so λ^σ is 0 or 1."""
        return (self.errors > tolerance * self.scale).astype(float)

    def to_json(self) -> dict[str, float | None]:
        return {
            "expected": self.expected,
            "scale": self.scale,
            "relative": self.relative,
            "lambda": float(self.sample_lambda().mean()),
        }


Part = Literal["transition", "encoder", "whole"]
MEANINGS: dict[Part, str] = {
    "transition": "σ.T̂(z,a) - T̂(σ.z,σ.a), as a share of the change T̂(z,a) - z",
    "encoder": "σ.φ(s) - φ(σ.s), as a share of the distance to the same objects elsewhere",
    "whole": "σ.T̂(φ(s),a) - T̂(φ(σ.s),σ.a), as a share of the distance to the same objects elsewhere",
}


@dataclass(frozen=True)
class EquivarianceReport:
    """λ of a learned model in its state-space form, and of its predictions read as true states.

    ``transition``, ``encoder`` and ``whole`` are None where the model's state is not in the full MDP. A transition that
    reads actions through a binding alone commutes by construction: all error is then the encoder's. In Rush Hour the
    encoder and the whole model commute only if slots hold no headings. ``decoded`` needs none of this: it is the share
    of samples with σ.ŝ(s, a) ≠ ŝ(σ.s, σ.a), where ŝ is the next state (of all that s can become) whose embedding is
    nearest to the prediction; that is the paper's λ at s' = ŝ(s, a), for every model.
    """

    n: int
    samples: int
    replacements: int
    transition: SampleErrors | None
    encoder: SampleErrors | None
    whole: SampleErrors | None
    decoded: float

    def to_json(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in MEANINGS}
        return {
            "n": self.n,
            "samples": self.samples,
            "replacements": self.replacements,
            **{name: None if part is None else part.to_json() for name, part in parts.items()},
            "decoded": self.decoded,
        }

    def __str__(self) -> str:
        return equivariance_text(self.to_json())


def equivariance_text(found: Mapping[str, Any]) -> str:
    """The JSON of a report, for people."""
    lines = ["equivariance error, {samples} samples, {replacements} replacements σ of {n} objects".format(**found)]
    for name, meaning in MEANINGS.items():
        part = found[name]
        if part is None:
            lines.append(f"  {name:11s} not in the full MDP: neither N slots nor a binding of N objects")
        else:
            share = "nothing varies" if part["relative"] is None else f"{part['relative']:.3g}"
            lines.append(f"  {name:11s} {share:10s} λ = {part['lambda']:.3f}   {meaning}")
    lines.append(f"  {'decoded':11s} {'':10s} λ = {found['decoded']:.3f}   σ.ŝ(s,a) ≠ ŝ(σ.s,σ.a), read as true states")
    return "\n".join(lines)


@torch.no_grad()
def equivariance_error(
    model: WorldModel,
    episodes: Episodes,
    rng: np.random.Generator,
    *,
    samples: int = 512,
    replacements: int = 32,
) -> EquivarianceReport:
    """λ of a model on random transitions of some episodes; each of ``replacements`` random σ gets an equal share."""
    renderer, _, _ = episodes.state()
    with evaluating(model):
        found = [_measure(model, renderer, rng, *draw) for draw in _draws(episodes, rng, samples, replacements)]

    def collect(name: Part) -> SampleErrors | None:
        if name not in found[0]:
            return None
        errors, scales = torch.cat([part[name] for part in found], dim=1).double()
        return SampleErrors(errors.numpy(), float(scales.mean()))

    return EquivarianceReport(
        renderer.library.n,
        samples,
        replacements,
        collect("transition"),
        collect("encoder"),
        collect("whole"),
        float(torch.cat([part["decoded"] for part in found]).double().mean()),
    )


def _draws(
    episodes: Episodes, rng: np.random.Generator, samples: int, replacements: int
) -> Iterator[tuple[Replacement, np.ndarray, np.ndarray, np.ndarray]]:
    """Random σ, each with the scene ids, cells and actions of its share of random transitions."""
    if not 1 <= replacements <= samples or samples < 2:
        raise HowmError(f"{samples} samples for {replacements} replacements are too few; give 2 or more, one for each")
    renderer, scene_ids, cells = episodes.state()
    drawn = rng.integers(len(episodes), size=samples), rng.integers(episodes.steps, size=samples)
    for episode, time in zip(*(np.array_split(index, replacements) for index in drawn), strict=True):
        sigma = Replacement.random(renderer.library.n, rng)
        at, actions = cells[episode, time].astype(np.int64), episodes.actions[episode, time].astype(np.int64)
        yield sigma, scene_ids[episode], at, actions


def _measure(
    model: WorldModel,
    renderer: Renderer,
    rng: np.random.Generator,
    sigma: Replacement,
    scene_ids: Int[np.ndarray, "B K"],
    cells: Int[np.ndarray, "B K"],
    actions: Int[np.ndarray, "B"],
) -> dict[str, Tensor]:
    """Under one σ: who decodes differently, and for each part the sample errors and what they are measured by."""
    n, headings = renderer.library.n, renderer.library.headings
    other_ids, other_cells = sigma.states(scene_ids, cells)
    state, other = _encode(model, renderer, scene_ids, cells), _encode(model, renderer, other_ids, other_cells)
    predicted, other_predicted = _step(model, state, actions), _step(model, other, sigma.actions(actions, headings))

    options, allowed = _successors(renderer, cells)
    # The true dynamics commutes with σ, so what σ.s can become is σ of what s can become, in the same order.
    all_ids = np.repeat(scene_ids, options.shape[1], axis=0)
    other_options = sigma.states(all_ids, options.reshape(len(all_ids), -1))[1].reshape(options.shape)
    chosen = _decode(model, renderer, scene_ids, options, allowed, predicted)
    other_chosen = _decode(model, renderer, other_ids, other_options, allowed, other_predicted)
    found = {"decoded": (chosen != other_chosen).cpu()}

    permuted = sigma.state(state)
    if permuted is None:
        return found
    # The same objects elsewhere: distances between scenes would hide an error in positions behind one in presence.
    moved = _encode(model, renderer, scene_ids, renderer.grid.place(rng, *cells.shape))
    z, z_moved, z_other = (_lift(each, n) for each in (state, moved, other))
    after, after_moved, after_other, after_permuted = (
        _lift(each, n)
        for each in (
            predicted,
            _step(model, moved, actions),
            other_predicted,
            _step(model, permuted, sigma.actions(actions)),
        )
    )
    pairs = {
        "transition": ((sigma.latents(after), after_permuted), (after, z)),
        "encoder": ((sigma.latents(z), z_other), (z, z_moved)),
        "whole": ((sigma.latents(after), after_other), (after, after_moved)),
    }
    return found | {name: torch.stack([_apart(*error), _apart(*by)]).cpu() for name, (error, by) in pairs.items()}


def _apart(left: Float[Tensor, "B N D"], right: Float[Tensor, "B N D"]) -> Float[Tensor, "B"]:
    distance: Tensor = torch.linalg.vector_norm((left - right).flatten(1), dim=1)
    return distance


def _lift(state: State, n: int) -> Float[Tensor, "B N D"]:
    """A state of the full MDP: each object reads its expected slot (M s̄), or the N slots are the objects'."""
    assert state.binding is not None or state.slots.shape[1] == n
    return state.slots if state.binding is None else state.binding.to(state.slots.dtype) @ state.slots


def _encode(model: WorldModel, renderer: Renderer, ids: np.ndarray, cells: np.ndarray) -> State:
    device = device_of(model)
    pictures = torch.from_numpy(renderer.render(ids, cells))
    return model.encode(pictures.to(device), torch.from_numpy(ids.astype(np.int64)).to(device))


def _step(model: WorldModel, state: State, actions: np.ndarray) -> State:
    return model.step(state, torch.from_numpy(actions).to(state.slots.device))


def _decode(
    model: WorldModel,
    renderer: Renderer,
    scene_ids: Int[np.ndarray, "B K"],
    options: Int[np.ndarray, "B options K"],
    allowed: Bool[np.ndarray, "B options"],
    predicted: State,
) -> Int[Tensor, "B"]:
    """Which of the states that can follow has the embedding nearest to each prediction."""
    count = options.shape[1]
    references = _encode(model, renderer, np.repeat(scene_ids, count, axis=0), options.reshape(-1, options.shape[2]))
    distances = []
    embedded = model.embed(references)
    for one, others in zip(model.embed(predicted), embedded.view(-1, count, embedded.shape[1]), strict=True):
        distances.append(model.distance(one[None].cpu().double(), others.cpu().double())[0])
    table = torch.stack(distances)
    return table.masked_fill(torch.from_numpy(~allowed).to(table.device), torch.inf).argmin(dim=1)


def _successors(
    renderer: Renderer, cells: Int[np.ndarray, "B K"]
) -> tuple[Int[np.ndarray, "B options K"], Bool[np.ndarray, "B options"]]:
    """The state itself and every single move, by slot and absolute direction, and which of them are not blocked."""
    batch, k = cells.shape
    slot, direction = (np.tile(part, batch) for part in np.divmod(np.arange(4 * k), 4))
    after, moved = renderer.grid.move(np.repeat(cells, 4 * k, axis=0), slot, direction)
    options = np.concatenate([cells[:, None], after.reshape(batch, 4 * k, k)], axis=1)
    return options, np.concatenate([np.ones((batch, 1), dtype=bool), moved.reshape(batch, 4 * k)], axis=1)


def reward_invariance_error(
    reward_fn: RewardFn,
    episodes: Episodes,
    rng: np.random.Generator,
    *,
    samples: int = 512,
    replacements: int = 32,
) -> SampleErrors:
    """λ_R = E|R(s, a) - R(σ.s, σ.a)| ("Definition with Reward") on true states; the scale is that between two samples.

    ``reward_fn`` is an environment's: it gets the infos before and after the step, the former as after a reset.
    """
    renderer, _, _ = episodes.state()

    def rewards(ids: np.ndarray, cells: np.ndarray, actions: np.ndarray) -> np.ndarray:
        after, moved, absent = renderer.grid.act(renderer.library.headings, ids, cells, actions)
        nothing = np.zeros(len(ids), dtype=bool)
        pairs = zip(
            _infos(renderer, ids, cells, nothing, nothing), _infos(renderer, ids, after, moved, absent), strict=True
        )
        return np.array(
            [reward_fn(one, int(a), two) for (one, two), a in zip(pairs, actions, strict=True)], dtype=float
        )

    plain, other = [], []
    for sigma, ids, cells, actions in _draws(episodes, rng, samples, replacements):
        plain.append(rewards(ids, cells, actions))
        other.append(rewards(*sigma.states(ids, cells), sigma.actions(actions, renderer.library.headings)))
    values = np.concatenate(plain)
    scale = float(np.abs(values - np.roll(values, samples // 2)).mean())
    return SampleErrors(np.abs(values - np.concatenate(other)), scale)


def _infos(renderer: Renderer, ids: np.ndarray, cells: np.ndarray, moved: np.ndarray, absent: np.ndarray) -> list[Info]:
    """What an environment says of each state."""
    library = renderer.library
    present = (ids[:, :, None] == np.arange(library.n)).any(axis=1).astype(np.int8)
    positions, mask = renderer.grid.positions(cells), present.repeat(4, axis=1)
    infos: list[Info] = []
    for row in range(len(ids)):
        info: Info = {
            "object_ids": ids[row],
            "positions": positions[row],
            "action_mask": mask[row],
            "moved": bool(moved[row]),
            "absent": bool(absent[row]),
        }
        if library.world == "rush_hour":
            info["headings"] = library.headings[ids[row]].astype(np.int64)
        infos.append(info)
    return infos
