"""Goals in HDF5, written whole or not at all, read without executing anything."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from howm.config import from_plain, require_name
from howm.data.hdf5 import members, number, open_hdf5, read, stored_array
from howm.data.storage import (
    LONG,
    MAX_OBJECTS,
    MAX_PIXELS,
    _are_scenes,
    _read_text,
    _write_array,
    _write_text,
    new_hdf5,
)
from howm.errors import HowmError
from howm.files import atomic_write, parse_json
from howm.planning.goal_set import ARRAYS, GoalSet, Part
from howm.worlds.registry import WORLDS, describe_world, read_world
from howm.worlds.world import World

FORMAT, VERSION = "howm-goals", 1
REMEDY = "make the goals again"
_KINDS = {"start": "iuf", "goal": "iuf"}


@dataclass(frozen=True)
class _About:
    """What a file says of its goals in short."""

    world: str
    n: int
    k: int
    part: Part
    seed: int
    cell_pixels: int | None = None
    grid: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        require_name("world", self.world)
        if not 0 < self.k <= self.n <= MAX_OBJECTS or self.seed < 0:
            raise HowmError(f"n={self.n}, k={self.k}, seed={self.seed} must have n ≥ k ≥ 1 and seed ≥ 0")
        if max(self.grid or (1,)) * (self.cell_pixels or 1) > MAX_PIXELS or min(self.grid or (1,)) < 1:
            raise HowmError(f"grid={self.grid} of {self.cell_pixels} pixels a cell must have 1 to {MAX_PIXELS} pixels")


def save_goals(goals: GoalSet, path: str | os.PathLike[str]) -> None:
    """Write a set of goals; the same goals give the same bytes."""
    described = describe_world(goals.world)
    about: dict[str, Any] = {"world": goals.world_name, "n": goals.world.n, "k": goals.k, "part": goals.part}
    about |= {"seed": goals.seed} | {name: value for name, value in described.items() if name not in LONG}
    with atomic_write(Path(path)) as temporary, new_hdf5(temporary, libver="v110") as file:
        file.attrs["format"] = np.bytes_(FORMAT)
        file.attrs["version"] = VERSION
        _write_text(file, "about", json.dumps(about))
        for name in LONG & described.keys():
            _write_text(file, name, json.dumps(described[name], separators=(",", ":")))
        for name in ARRAYS:
            array = getattr(goals, name)
            _write_array(file, name, array.astype(np.uint8) if array.dtype == bool else array)


def load_goals(path: str | os.PathLike[str]) -> GoalSet:
    """Read a set of goals; a file that is damaged, of another version or not ours is one clear error."""
    with open_hdf5(path, REMEDY) as file:
        if number(file, "format") != np.bytes_(FORMAT):
            raise HowmError(f"{path} is not a set of goals; make one with howm.make_goals and howm.save_goals")
        if (version := number(file, "version")) != VERSION:
            raise HowmError(f"{path} has format version {version}, this howm reads version {VERSION}; {REMEDY}")
        try:
            members(file, {"about", *LONG, *ARRAYS})
            plain = parse_json(_read_text(file, "about"), "about")
            about = from_plain(_About, plain)
            said = plain | {name: parse_json(_read_text(file, name), name) for name in LONG.intersection(file)}
            WORLDS[about.world]
            return _read(file, about, read_world(about.world, said))
        except HowmError as error:
            raise HowmError(f"{path} contradicts itself: {error}; {REMEDY}") from error


def _read(file: h5py.File, about: _About, world: World | None) -> GoalSet:
    if world is None or world.n != about.n or not 0 < max(world.height, world.width) <= MAX_PIXELS:
        raise HowmError(f"it does not describe a world of {about.n} objects")
    found = {name: stored_array(file, name, _KINDS.get(name, "iu")) for name in ARRAYS}
    count = len(found["scenes"])
    for name, array in found.items():
        axes = {"scenes": (count, about.k), "start": (count, about.k), "goal": (count, about.k)}.get(name, (count,))
        if array.shape[: len(axes)] != axes or array.ndim != len(axes) + (name in _KINDS):
            raise HowmError(f"{name} are {array.shape}, which does not fit {count} goals of {about.k} objects")
    scenes = read(found["scenes"], np.int64)
    if not count or not _are_scenes(scenes, about.n):
        raise HowmError(f"its scenes are not {about.k} of {about.n} objects for each goal")
    usual = world.reset(scenes[:1][scenes[:1] >= 0][None], np.random.default_rng(0))
    start, goal = (read(found[name]).astype(usual.dtype) for name in ("start", "goal"))
    if start.shape[2] != usual.shape[2] or start.shape != goal.shape:
        raise HowmError(f"states are not {usual.shape[2]} numbers for each object")
    if not all(np.isfinite(one).all() for one in (start, goal)):
        raise HowmError("states are not finite numbers")
    optimal = read(found["optimal"], np.int64)
    if optimal.min() < 0:
        raise HowmError("an optimal plan cannot have fewer than 0 steps")
    exact, detour = (read(found[name]).astype(bool) for name in ("exact", "detour"))
    goals = GoalSet(world, scenes, start, goal, optimal, exact, detour, about.part, about.seed)
    for states in (start, goal):
        for violation in goals.simulator.violations(scenes, states):
            raise HowmError(violation)
    return goals
