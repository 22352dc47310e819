"""Maps from the full MDP to the slot MDP, and models carried along them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Integer

from howm.theory.library import FullModel, SlotModel, TabularLibrary

NOISE = 0.3  # the share of a made-up model that is not the true dynamics


# --- Homomorphisms ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Homomorphism:
    """h = (φ, α_s) from the full MDP to the slot MDP."""

    name: str
    phi: Integer[np.ndarray, " S"]
    alpha: Integer[np.ndarray, "S A"]


def ascending(world: TabularLibrary) -> Homomorphism:
    """Slot j holds the scene's j-th smallest id."""
    return _bound("ascending ids", world, world.cells, np.arange(world.k))


def by_position(world: TabularLibrary) -> Homomorphism:
    """Slot j holds the object on the scene's j-th smallest cell, whichever object that is."""
    order = world.cells.argsort(axis=1)
    return _bound("by position", world, np.take_along_axis(world.cells, order, axis=1), order.argsort(axis=1))


def mirrored(world: TabularLibrary) -> Homomorphism:
    """Ascending ids, but scenes with object 0 are seen in a mirror: a homomorphism, and no projection."""
    seen = (world.scene_ids == 0).any(axis=1)
    row, column = np.divmod(world.cells, world.grid.width)
    reflected = row * world.grid.width + world.grid.width - 1 - column
    return _bound("mirrored", world, np.where(seen[:, None], reflected, world.cells), np.arange(world.k), seen)


def _bound(
    name: str, world: TabularLibrary, slots: np.ndarray, slot_of: np.ndarray, mirror: np.ndarray | bool = False
) -> Homomorphism:
    """``slots`` are the cells of the slots, ``slot_of`` the slot of the scene's j-th object."""
    objects, relative = np.divmod(np.arange(4 * world.library.n), 4)
    absolute = (world.library.headings.astype(np.int64)[objects] + relative) % 4
    direction = np.where(np.reshape(mirror, (-1, 1)), -absolute % 4, absolute)
    present = world.scene_ids[:, :, None] == objects
    slot = np.take_along_axis(np.broadcast_to(slot_of, world.cells.shape), present.argmax(axis=1), axis=1)
    alpha = np.where(present.any(axis=1), 4 * slot + direction, 4 * world.k)
    return Homomorphism(name, world.arrangement_index(slots), alpha)


def find_projection(world: TabularLibrary, h: Homomorphism) -> Integer[np.ndarray, "G S"]:
    """The σ̄ of the projection property (its index in Σ_K), one for all actions, for each σ and s; -1 where none is."""
    found = np.full(world.replaced_states.shape, -1)
    bars = list(zip(world.replaced_slot_states, world.replaced_slot_actions, strict=True))
    for g, (states, actions) in enumerate(zip(world.replaced_states, world.replaced_actions, strict=True)):
        for bar, (to_state, to_action) in enumerate(bars):
            same_state = to_state[h.phi] == h.phi[states]
            same_action = to_action[h.alpha] == h.alpha[states][:, actions]
            found[g, same_state & same_action.all(axis=1)] = bar
    return found


def push(world: TabularLibrary, h: Homomorphism, table: FullModel) -> Float[np.ndarray, "S A P"]:
    """Sums over the fibres of φ."""
    return np.asarray(table @ np.eye(len(world.arrangements))[h.phi])


def induce(world: TabularLibrary, h: Homomorphism, model: FullModel) -> tuple[SlotModel, float]:
    """T̂_slot by the homomorphism condition, and by how much the condition fails.

    It fails where two pairs (s, a) with the same image disagree: then no T̂_slot exists, and their mean is returned.
    """
    arrangements, actions = len(world.arrangements), 4 * world.k + 1
    pair = (h.phi[:, None] * actions + h.alpha).ravel()
    sums = push(world, h, model).reshape(len(pair), -1)
    total = np.zeros((arrangements * actions, arrangements))
    lowest, highest = np.full(total.shape, np.inf), np.full(total.shape, -np.inf)
    np.add.at(total, pair, sums)
    np.minimum.at(lowest, pair, sums)
    np.maximum.at(highest, pair, sums)
    count = np.bincount(pair, minlength=len(total))
    mean = total / np.maximum(count, 1)[:, None]
    return mean.reshape(arrangements, actions, -1), float((highest - lowest)[count > 0].max())


def spread(world: TabularLibrary, h: Homomorphism, slot_model: SlotModel, weights: FullModel) -> FullModel:
    """A T̂_full whose image under h is ``slot_model``: each slot state's mass is shared out over its fibre."""
    shares = weights / push(world, h, weights)[:, :, h.phi]
    return np.asarray(slot_model[h.phi[:, None], h.alpha][:, :, h.phi] * shares)


def keep_scene(world: TabularLibrary) -> FullModel:
    """Weights that keep the scene; `spread` with them is the paper's lift."""
    same = np.equal.outer(world.own[:, 0], world.own[:, 0]).astype(float)
    return np.broadcast_to(same[:, None], world.true_model.shape)


def perturb(world: TabularLibrary, h: Homomorphism, rng: np.random.Generator) -> SlotModel:
    """The true slot dynamics with random noise on the slot states that h reaches: like a learned T̂_slot."""
    true, _ = induce(world, h, world.true_model)
    noise = rng.exponential(size=true.shape) * np.isin(np.arange(true.shape[2]), h.phi)
    return np.asarray((1 - NOISE) * true + NOISE * noise / noise.sum(axis=2, keepdims=True))


def symmetrise(world: TabularLibrary, slot_model: SlotModel) -> SlotModel:
    """The Σ_K-equivariant part of a slot model."""
    pairs = zip(world.replaced_slot_states, world.replaced_slot_actions, strict=True)
    return np.asarray(np.mean([slot_model[np.ix_(states, actions, states)] for states, actions in pairs], axis=0))
