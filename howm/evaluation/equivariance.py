"""Object replacement σ ∈ Σ_N, and how far a learned world model is from commuting with it (Section 4.2).

σ acts in two ways. On *true states* object σ(j) takes over the state of object j, and the world says which of its
actions does what j's did (``World.replace_action``): in Rush Hour it turns the action by the difference of headings,
without which even the true dynamics would have λ > 0. On *latent states* σ moves the contents of slot j, with whatever
it holds of a heading, to slot σ(j) ("identical appearance but with object labels being replaced"), so there the action
keeps its number within the object.

Equivariance is not accuracy: a model that predicts no change, or a constant, has λ = 0.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Integer, Num, Shaped
from torch import Tensor

from howm.data.episodes import Episodes
from howm.data.rollouts import privileged_of
from howm.errors import HowmError
from howm.evaluation.embedding import encode
from howm.models.world_model import SlotState, State, WorldModel, device_of, evaluating
from howm.worlds.symmetry import Replacement
from howm.worlds.world import World

TOLERANCE = 1e-4  # a sample counts as equivariant up to this share of the scale: float32 sums depend on their order


@dataclass(frozen=True)
class SampleErrors:
    """Errors of single samples (s, a, σ), and the scale of the quantity they are errors of."""

    errors: Float[np.ndarray, " samples"]
    scale: float

    @property
    def expected(self) -> float:
        """The expectation over samples."""
        return float(self.errors.mean())

    @property
    def relative(self) -> float | None:
        """The expectation as a share of the scale; None where nothing varies."""
        return self.expected / self.scale if self.scale > 0 else None

    def sample_lambda(self, tolerance: float = TOLERANCE) -> Float[np.ndarray, " samples"]:
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
    world, _, _ = episodes.state()
    with evaluating(model):
        found = [_measure(model, world, rng, *draw) for draw in _draws(episodes, rng, samples, replacements)]

    def collect(name: Part) -> SampleErrors | None:
        if name not in found[0]:
            return None
        errors, scales = torch.cat([part[name] for part in found], dim=1).double()
        return SampleErrors(errors.numpy(), float(scales.mean()))

    return EquivarianceReport(
        world.n,
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
    """Random σ, each with the scene ids, states and actions of its share of random transitions."""
    if not 1 <= replacements <= samples or samples < 2:
        raise HowmError(f"{samples} samples for {replacements} replacements are too few; give 2 or more, one for each")
    world, scene_ids, states = episodes.state()
    drawn = rng.integers(len(episodes), size=samples), rng.integers(episodes.steps, size=samples)
    for episode, time in zip(*(np.array_split(index, replacements) for index in drawn), strict=True):
        sigma = Replacement.random(world.n, rng)
        actions = episodes.actions[episode, time].astype(np.int64)
        yield sigma, scene_ids[episode], states[episode, time], actions


def _measure(
    model: WorldModel,
    world: World,
    rng: np.random.Generator,
    sigma: Replacement,
    scene_ids: Integer[np.ndarray, "B K"],
    states: Num[np.ndarray, "B K F"],
    actions: Integer[np.ndarray, " B"],
) -> dict[str, Tensor]:
    """Under one σ: who decodes differently, and for each part the sample errors and what they are measured by."""
    n = world.n
    other_ids, other_states = sigma.states(scene_ids, states)
    state, other = (
        _encode_states(model, world, scene_ids, states),
        _encode_states(model, world, other_ids, other_states),
    )
    predicted, other_predicted = _step(model, state, actions), _step(model, other, world.replace_action(sigma, actions))

    # What s becomes by a, and what σ.s becomes by σ.a, have one number.
    offered = world.offered_actions(scene_ids)
    chosen = _decode(model, world, scene_ids, states, offered, predicted)
    other_chosen = _decode(model, world, other_ids, other_states, world.replace_action(sigma, offered), other_predicted)
    found = {"decoded": (chosen != other_chosen).cpu()}

    permuted = _permute_state(sigma, state)
    if permuted is None:
        return found
    # The same objects elsewhere: distances between scenes would hide an error in positions behind one in presence.
    moved = _encode_states(model, world, scene_ids, world.reset(scene_ids, rng))
    z, z_moved, z_other = (_lift(each, n) for each in (state, moved, other))
    after, after_moved, after_other, after_permuted = (
        _lift(each, n)
        for each in (
            predicted,
            _step(model, moved, actions),
            other_predicted,
            _step(model, permuted, sigma.actions(actions, per_object=world.actions_per_object)),
        )
    )
    pairs = {
        "transition": ((permute_slots(sigma, after), after_permuted), (after, z)),
        "encoder": ((permute_slots(sigma, z), z_other), (z, z_moved)),
        "whole": ((permute_slots(sigma, after), after_other), (after, after_moved)),
    }
    return found | {name: torch.stack([_apart(*error), _apart(*by)]).cpu() for name, (error, by) in pairs.items()}


def _apart(left: Float[Tensor, "B N D"], right: Float[Tensor, "B N D"]) -> Float[Tensor, " B"]:
    distance: Tensor = torch.linalg.vector_norm((left - right).flatten(1), dim=1)
    return distance


def _lift(state: State, n: int) -> Float[Tensor, "B N D"]:
    """A state of the full MDP: each object reads its expected slot (M s̄), or the N slots are the objects'."""
    assert isinstance(state, SlotState)
    assert state.binding is not None or state.slots.shape[1] == n
    return state.slots if state.binding is None else state.binding.to(state.slots.dtype) @ state.slots


def _encode_states(model: WorldModel, world: World, ids: np.ndarray, states: np.ndarray) -> State:
    return encode(model, torch.from_numpy(world.render(ids, states)), privileged_of(world, ids, states))


def _step(model: WorldModel, state: State, actions: np.ndarray) -> State:
    return model.step(state, torch.from_numpy(actions).to(device_of(model)))


def _decode(
    model: WorldModel,
    world: World,
    scene_ids: Integer[np.ndarray, "B K"],
    states: Num[np.ndarray, "B K F"],
    offered: Integer[np.ndarray, "B offered"],
    predicted: State,
) -> Integer[Tensor, " B"]:
    """Which of the states that can follow has the embedding nearest to each prediction: 0 for the state itself."""
    options, allowed = _successors(world, scene_ids, states, offered)
    count = options.shape[1]
    flat = options.reshape(-1, *options.shape[2:])
    embedded = model.embed(_encode_states(model, world, np.repeat(scene_ids, count, axis=0), flat))
    distances = []
    for one, others in zip(model.embed(predicted), embedded.view(-1, count, embedded.shape[1]), strict=True):
        distances.append(model.metric.pairwise(one[None].cpu().double(), others.cpu().double())[0])
    table = torch.stack(distances)
    return table.masked_fill(torch.from_numpy(~allowed).to(table.device), torch.inf).argmin(dim=1)


def _successors(
    world: World,
    scene_ids: Integer[np.ndarray, "B K"],
    states: Num[np.ndarray, "B K F"],
    offered: Integer[np.ndarray, "B offered"],
) -> tuple[Num[np.ndarray, "B options K F"], Bool[np.ndarray, "B options"]]:
    """The state itself and what each offered action makes of it, and which of these are new."""
    after = [world.step(scene_ids, states, actions) for actions in offered.T]
    options = np.stack([states, *after], axis=1)
    changed = (options != options[:, :1]).any(axis=(2, 3))
    changed[:, 0] = True
    return options, changed


def permute_slots(sigma: Replacement, latents: Shaped[Tensor, "B N *D"]) -> Shaped[Tensor, "B N *D"]:
    """σ on a latent state of the full MDP: slot σ(i) receives what slot i held."""
    return latents[:, list(sigma.inverse.image)]


def _permute_state(sigma: Replacement, state: State) -> State | None:
    """σ on a model's state: on the rows of its binding, or else on its slots; None where it has neither N rows
    nor N slots, and so is no state of the full MDP."""
    if not isinstance(state, SlotState):
        return None
    if state.binding is not None:
        return replace(state, binding=permute_slots(sigma, state.binding))
    return replace(state, slots=permute_slots(sigma, state.slots)) if state.slots.shape[1] == sigma.n else None
