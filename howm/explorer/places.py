"""Where objects are in a picture, what they look like alone, and where their actions take them: asked of any world."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Integer, Num, UInt8

from howm.errors import HowmError
from howm.worlds.world import Scenes, States, World

PROBES = 8  # random states in which an action is tried
SAME_WAY = 0.9  # cosine from which two displacements point the same way


def object_mask(world: World, scenes: Scenes, states: States, slot: int) -> Bool[np.ndarray, "E height width"]:
    """Which pixels show the object in ``slot``; without masks, those that change if it is left out."""
    masks = world.masks(scenes, states)
    if masks is not None:
        return np.asarray(masks[:, slot])
    pictures = world.render(scenes, states)
    if scenes.shape[1] == 1:  # nothing is left without it: the commonest colour is behind it
        return np.stack([(picture != _commonest(picture)).any(axis=2) for picture in pictures])
    without = world.render(np.delete(scenes, slot, axis=1), np.delete(states, slot, axis=1))
    return np.asarray((pictures != without).any(axis=3))


def _commonest(picture: UInt8[np.ndarray, "height width 3"]) -> UInt8[np.ndarray, "3"]:
    colours, counts = np.unique(picture.reshape(-1, 3), axis=0, return_counts=True)
    return np.asarray(colours[counts.argmax()])


def box_of(mask: Bool[np.ndarray, "height width"]) -> tuple[int, int, int, int] | None:
    """Left, top, right and bottom of a mask, the last two exclusive; None where it is empty."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return None
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def places(world: World, scene: Integer[np.ndarray, " K"], state: Num[np.ndarray, "K F"]) -> list[dict[str, Any]]:
    """Centre and box of every object of a scene in pixels; None of one that cannot be seen."""
    found = []
    for slot, item in enumerate(scene.tolist()):
        box = box_of(object_mask(world, scene[None], state[None], slot)[0])
        x, y = (None, None) if box is None else ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
        found.append({"object": item, "x": x, "y": y, "box": box})
    return found


def _alone(world: World, item: int) -> tuple[Integer[np.ndarray, " K"], int]:
    """A scene that shows an object with as few others as the world allows, and the slot of the object in it."""
    for k in range(1, world.n + 1):
        try:
            world.check_scene_size(k)
        except HowmError:
            continue
        scene = np.sort([item, *[other for other in range(world.n) if other != item][: k - 1]])
        return scene, int(np.searchsorted(scene, item))
    raise HowmError(f"{type(world).__name__} refuses scenes of every size; see howm.check_world")


def sprite(world: World, item: int) -> UInt8[np.ndarray, "height width 3"]:
    """The picture of a library object alone, cut out with a border of a pixel."""
    scene, slot = _alone(world, item)
    state = world.reset(scene[None], np.random.default_rng(item))
    picture = np.asarray(world.render(scene[None], state)[0])
    box = box_of(object_mask(world, scene[None], state, slot)[0])
    if box is None:
        return picture
    left, top, right, bottom = box
    side = max(right - left, bottom - top) + 2
    # A square around the object, moved inside the picture where it would stick out.
    row = min(max(0, (top + bottom - side) // 2), max(0, picture.shape[0] - side))
    column = min(max(0, (left + right - side) // 2), max(0, picture.shape[1] - side))
    return np.ascontiguousarray(picture[row : row + side, column : column + side])


def moves_of(world: World, item: int) -> list[list[float] | None]:
    """For each action of an object, by how many pixels (right, down) it moves it where nothing is in the way.

    Found by trying; None of an action that does not move the object, or not always the same way.
    """
    each = world.actions_per_object
    scene, slot = _alone(world, item)
    scenes = np.repeat(scene[None], each * PROBES, axis=0)
    before = world.reset(scenes, np.random.default_rng([7, item]))
    after = world.step(scenes, before, np.repeat(np.arange(each) + each * item, PROBES))
    there, here = (object_mask(world, scenes, states, slot) for states in (after, before))
    found: list[list[float] | None] = []
    for action in range(each):
        rows = range(action * PROBES, (action + 1) * PROBES)
        whole = [row for row in rows if abs(int(there[row].sum()) - int(here[row].sum())) <= 0.2 * here[row].sum()]
        pairs = [(box_of(here[row]), box_of(there[row])) for row in whole]
        shifts = np.array([_shift(one, two) for one, two in pairs if one is not None and two is not None])
        found.append(_common_shift(shifts.reshape(-1, 2)))
    return found


def _shift(one: tuple[int, ...], two: tuple[int, ...]) -> tuple[float, float]:
    return (two[0] + two[2] - one[0] - one[2]) / 2, (two[1] + two[3] - one[1] - one[3]) / 2


def _common_shift(shifts: Num[np.ndarray, "rows 2"]) -> list[float] | None:
    lengths = np.linalg.norm(shifts, axis=1)
    moved = shifts[lengths > 0.5 * lengths.max(initial=0.9)]
    if not len(moved):
        return None
    middle = np.median(moved, axis=0)
    same = moved @ middle >= SAME_WAY * np.linalg.norm(moved, axis=1) * np.linalg.norm(middle)
    return [float(number) for number in middle] if same.all() and middle.any() else None
