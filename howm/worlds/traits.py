"""Traits of library objects beside their look: the team they move with, and the class that says what can move them."""

from typing import Literal

import numpy as np
from jaxtyping import Integer

from howm.worlds.library import ObjectLibrary, oklab

TEAMS = 4
CLASSES = ("movable", "heavy", "fixed", "ghost")
MOVABLE, HEAVY, FIXED, GHOST = range(4)
SHARES = (0.5, 0.2, 0.1, 0.2)  # of the library, by class

Classes = Literal["none", "hidden", "visible"]


def teams(library: ObjectLibrary) -> Integer[np.ndarray, " N"]:
    """One of four teams by colour family: the quarter of the hue circle."""
    lab = oklab(np.array(library.colours) / 255)
    hue = np.arctan2(lab[:, 2], lab[:, 1]) % (2 * np.pi)
    return np.asarray(np.minimum((hue * TEAMS / (2 * np.pi)).astype(np.int64), TEAMS - 1))


def classes(library: ObjectLibrary, kind: Classes) -> Integer[np.ndarray, " N"]:
    """The class of each object, a draw of its own for each, so that smaller libraries are prefixes of larger ones."""
    if kind == "none":
        return np.full(library.n, MOVABLE)
    draws = [np.random.default_rng([library.seed, 7, i]).random() for i in range(library.n)]
    return np.searchsorted(np.cumsum(SHARES)[:-1], draws, side="right")
