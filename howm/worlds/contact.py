"""What happens when objects meet: pure functions of boxes of which one sets out to move.

Coordinates are turned so that every row moves in its own direction of growing ``along``; ``across`` is at right angles
to it. A rule gives the displacements of all objects for each object that could set out: (K movers, K objects, R rows).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Integer

TOUCH = 1e-9  # boxes that overlap by no more than this only touch

Displacements = Float[np.ndarray, "K K R"]


@dataclass(frozen=True)
class Boxes:
    """The boxes of R scenes: centres, half extents, and how far each centre can go along before the border.

    ``solid`` objects block and are blocked; ``mobile`` ones can move by their own action, ``pushable`` ones by others;
    ``team`` numbers who moves together.
    """

    along: Float[np.ndarray, "K R"]
    across: Float[np.ndarray, "K R"]
    half: Float[np.ndarray, "K R"]
    limit: Float[np.ndarray, "K R"]
    solid: Bool[np.ndarray, "K R"]
    mobile: Bool[np.ndarray, "K R"]
    pushable: Bool[np.ndarray, "K R"]
    team: Integer[np.ndarray, "K R"]

    def pairs(self) -> Iterator[tuple[int, int, np.ndarray, np.ndarray, np.ndarray]]:
        """Objects i < j, whether they meet if one comes far enough, how far j is ahead of i, and at what distance they
        touch: pair by pair, which is faster than all at once."""
        for j in range(1, len(self.along)):
            for i in range(j):
                reach = self.half[i] + self.half[j]
                meets = (np.abs(self.across[j] - self.across[i]) < reach - TOUCH) & self.solid[i] & self.solid[j]
                yield i, j, meets, self.along[j] - self.along[i], reach

    def ordered(self, order: Integer[np.ndarray, "K R"]) -> "Boxes":
        """The same boxes in another order of the objects of each row."""
        flat = order * order.shape[1] + np.arange(order.shape[1])  # numpy takes flat indices faster than pairs
        return Boxes(*(values.take(flat) for values in vars(self).values()))


def _alone(distance: Float[np.ndarray, "K R"]) -> Displacements:
    """Only the mover moves."""
    moved = np.zeros((len(distance), *distance.shape))
    moved[np.diag_indices(len(distance))] = distance
    return moved


def overlap(boxes: Boxes, step: float) -> Displacements:
    """Only the border stops an object."""
    return _alone(step * (boxes.mobile & (boxes.along + step <= boxes.limit + TOUCH)))


def block(boxes: Boxes, step: float) -> Displacements:
    """The full step, or none if the box would leave the picture or overlap another one."""
    hit = np.zeros(boxes.along.shape, dtype=bool)
    for i, j, meets, ahead, reach in boxes.pairs():
        hit[i] |= meets & (np.abs(ahead - step) < reach - TOUCH)
        hit[j] |= meets & (np.abs(ahead + step) < reach - TOUCH)
    return _alone(step * (boxes.mobile & ~hit & (boxes.along + step <= boxes.limit + TOUCH)))


def slide(boxes: Boxes, step: float) -> Displacements:
    """As far as it goes, up to the full step."""
    room = np.minimum(boxes.limit - boxes.along, step)
    for i, j, meets, ahead, reach in boxes.pairs():
        np.copyto(room[i], np.minimum(room[i], ahead - reach), where=meets & (ahead > 0))
        np.copyto(room[j], np.minimum(room[j], -ahead - reach), where=meets & (ahead < 0))
    return _alone(np.where(boxes.mobile & (room > TOUCH), room, 0.0))


def push(boxes: Boxes, step: float) -> Displacements:
    """What is in the way is pushed, in chains; if any of the chain cannot move, nothing does."""
    order = np.argsort(boxes.along, axis=0, kind="stable")  # an object pushes only later ones
    boxes = boxes.ordered(order)
    moved = _alone(step * boxes.mobile)
    for i, j, meets, ahead, reach in boxes.pairs():
        pushed = moved[: i + 1, i] - np.where(meets & (ahead > 0), ahead - reach, np.inf)
        np.copyto(moved[: i + 1, j], pushed, where=pushed > moved[: i + 1, j] + TOUCH)
    cannot = ~boxes.pushable[None] & ~np.eye(len(order), dtype=bool)[:, :, None]
    stuck = ((moved > 0) & (cannot | (boxes.along + moved > boxes.limit + TOUCH))).any(axis=1)
    return _restored(np.where(stuck[:, None], 0.0, moved), order)


def team(boxes: Boxes, step: float) -> Displacements:
    """All members of the mover's team try the step, the foremost first, each blocked by everything else."""
    order = np.argsort(-boxes.along, axis=0, kind="stable")
    boxes = boxes.ordered(order)
    inside = boxes.mobile & (boxes.along + step <= boxes.limit + TOUCH)
    moved = np.zeros((len(order), *order.shape))  # by mover
    for i, along in enumerate(boxes.along):
        goes = (boxes.team == boxes.team[i]) & boxes.mobile & inside[i]
        for j in range(len(order)):
            reach = boxes.half[i] + boxes.half[j] - TOUCH
            meets = (np.abs(boxes.across[j] - boxes.across[i]) < reach) & boxes.solid[i] & boxes.solid[j]
            if j != i:
                goes &= ~(meets & (np.abs(boxes.along[j] - along - step + moved[:, j]) < reach))
        moved[:, i] = step * goes
    return _restored(moved, order)


def _restored(moved: Displacements, order: Integer[np.ndarray, "K R"]) -> Displacements:
    """Displacements of boxes that were put into an order, in the order from before."""
    found = np.empty_like(moved)
    found[order[:, None], order[None], np.arange(order.shape[1])] = moved
    return found


CONTACTS: dict[str, Callable[[Boxes, float], Displacements]] = {
    "block": block,
    "slide": slide,
    "overlap": overlap,
    "push": push,
    "team": team,
}
