"""Boxes at random places of free space."""

import numpy as np
from jaxtyping import Bool, Float

from howm.errors import HowmError
from howm.worlds.contact import TOUCH

ATTEMPTS = 200  # to place the objects of a scene before it is given up as too full


def place_boxes(
    half: Float[np.ndarray, "E K"],
    solid: Bool[np.ndarray, "E K"],
    sides: Float[np.ndarray, " 2"],
    rng: np.random.Generator,
) -> Float[np.ndarray, "E K 2"]:
    """Centres of boxes of these half extents, of which solid ones do not overlap, within height and width.

    One object after the other at a uniform place that is left; a scene that gets too full begins again.
    """
    found = np.zeros((*half.shape, 2))
    waiting = np.arange(len(half))
    for _ in range(ATTEMPTS):
        ok = np.ones(len(waiting), dtype=bool)
        for j in range(half.shape[1]):
            open_rows = np.arange(len(waiting))
            for _ in range(ATTEMPTS):
                rows = waiting[open_rows]
                own = half[rows, j, None]
                place = own + rng.random((len(rows), 2)) * (sides - 2 * own)
                found[rows, j] = place
                reach = half[rows, :j] + own - TOUCH
                near = (np.abs(found[rows, :j] - place[:, None]) < reach[..., None]).all(axis=2)
                open_rows = open_rows[(near & solid[rows, :j] & solid[rows, j, None]).any(axis=1)]
                if not len(open_rows):
                    break
            ok[open_rows] = False
        waiting = waiting[~ok]
        if not len(waiting):
            return found
    raise HowmError(f"no room was found for k={half.shape[1]} objects; give smaller ones (more cells) or fewer")
