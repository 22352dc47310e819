"""Pictures against a pixel-by-pixel twin."""

import numpy as np
import plain_world
import pytest
from hypothesis import given
from strategies import Pictured, pictured_states

from howm.errors import HowmError
from howm.worlds.grid import Grid
from howm.worlds.library import ObjectLibrary
from howm.worlds.render import Renderer, film_strip
from howm.worlds.silhouettes import silhouette

LIBRARY = ObjectLibrary.make("shapes", 12)


@given(pictured_states())
def test_pictures_equal_those_of_the_plain_twin(state: Pictured) -> None:
    library, grid, cell_pixels, scene_ids, cells = state
    renderer = Renderer(library, grid, cell_pixels)
    pictures = renderer.render(scene_ids, cells)
    assert pictures.dtype == np.uint8
    assert pictures.shape == (len(cells), *renderer.shape)
    for picture, ids, places in zip(pictures, scene_ids.tolist(), cells.tolist(), strict=True):
        objects = [library.objects[i] for i in ids]
        plain = plain_world.render(
            grid.height,
            grid.width,
            cell_pixels,
            [silhouette(o.shape, o.size, cell_pixels).tolist() for o in objects],
            [o.colour for o in objects],
            [divmod(cell, grid.width) for cell in places],
        )
        assert picture.tolist() == [[list(pixel) for pixel in row] for row in plain]


@given(pictured_states())
def test_masks_cover_each_object_and_nothing_else(state: Pictured) -> None:
    library, grid, cell_pixels, scene_ids, cells = state
    renderer = Renderer(library, grid, cell_pixels)
    masks = renderer.masks(scene_ids, cells)
    assert masks.dtype == bool
    assert masks.shape == (*cells.shape, *renderer.shape[:2])
    assert (masks.sum(axis=1) == renderer.render(scene_ids, cells).any(axis=-1)).all()
    for frame, ids in enumerate(scene_ids.tolist()):
        for slot, i in enumerate(ids):
            o = library.objects[i]
            assert masks[frame, slot].sum() == silhouette(o.shape, o.size, cell_pixels).sum()


@pytest.mark.parametrize("cell_pixels", [5, 10, 13])
def test_a_cell_is_a_square_of_pixels_and_the_rest_is_black(cell_pixels: int) -> None:
    p = cell_pixels
    renderer = Renderer(LIBRARY, Grid(3, 4), p)
    for cell in range(12):
        picture = renderer.render(np.array([[cell]]), np.array([[cell]]))[0]  # every object once
        row, column = divmod(cell, 4)
        square = np.s_[p * row : p * row + p, p * column : p * column + p]
        assert (picture[square] == renderer.sprites[cell]).all()
        picture[square] = 0
        assert not picture.any()


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.intp, np.float64])
def test_number_types_make_no_difference(dtype: type) -> None:
    renderer = Renderer(LIBRARY, Grid(16, 16))  # cell 255 is the largest that uint8 holds
    scene_ids, cells = np.array([[3, 1, 11], [0, 5, 2]]), np.array([[255, 0, 17], [128, 254, 1]])
    expected = renderer.render(scene_ids, cells)
    assert (renderer.render(scene_ids.astype(dtype), cells.astype(dtype)) == expected).all()


def test_rendering_leaves_its_inputs_alone_and_repeats_itself() -> None:
    renderer = Renderer(LIBRARY)
    scene_ids, cells = np.array([[3, 1]]), np.array([[24, 0]])
    for array in (scene_ids, cells):
        array.flags.writeable = False
    first = renderer.render(scene_ids, cells)
    expected = first.copy()
    first[:] = 7  # belongs to the caller
    assert (renderer.render(scene_ids, cells) == expected).all()


def test_order_of_objects_makes_no_difference() -> None:
    scene_ids, cells = np.array([[3, 1, 4]]), np.array([[24, 0, 6]])
    pictures = Renderer(LIBRARY).render
    assert (pictures(scene_ids, cells) == pictures(scene_ids[:, ::-1], cells[:, ::-1])).all()


def test_different_states_look_different() -> None:
    rng = np.random.default_rng(0)
    grid = Grid(3, 3)
    scene_ids = rng.random((500, 12)).argsort(axis=1)[:, :3]
    cells = grid.place(rng, 500, 3)
    pictures = Renderer(LIBRARY, grid).render(scene_ids, cells)
    states = {frozenset(zip(*pair, strict=True)) for pair in zip(scene_ids.tolist(), cells.tolist(), strict=True)}
    assert len({picture.tobytes() for picture in pictures}) == len(states)


@pytest.mark.parametrize(("frames", "rows", "columns"), [(1, 1, 1), (11, 1, 11), (12, 2, 11), (23, 3, 11)])
def test_film_strip_wraps_after_eleven_frames(frames: int, rows: int, columns: int) -> None:
    strip = film_strip(np.full((frames, 6, 8, 3), 200, dtype=np.uint8))
    assert strip.shape == (rows * (6 * 2 + 4), columns * (8 * 2 + 4), 3)
    assert set(np.unique(strip).tolist()) == {96, 200}


def test_film_strip_enlarges_and_frames_each_picture() -> None:
    rng = np.random.default_rng(0)
    frames = rng.integers(256, size=(3, 4, 5, 3), dtype=np.uint8)
    strip = film_strip(frames, columns=2, scale=3)
    tiles = strip.reshape(2, 16, 2, 19, 3).swapaxes(1, 2).reshape(4, 16, 19, 3)
    assert (tiles[:3, 2:-2:3, 2:-2:3] == frames).all()
    assert (tiles[:3, 4:-2:3, 4:-2:3] == frames).all()
    assert (tiles[:, :2] == 96).all()
    assert (tiles[3] == 96).all()


@pytest.mark.parametrize("cell_pixels", [4, 0, -1])
def test_cells_too_small_for_shapes_are_refused(cell_pixels: int) -> None:
    with pytest.raises(HowmError, match=f"cell_pixels={cell_pixels} .* 5 or more"):
        Renderer(LIBRARY, Grid(), cell_pixels)


@pytest.mark.parametrize(("ids", "cells"), [([[0, 1]], [[0, 25]]), ([[0, 5]], [[0, 1]]), ([[-1, 0]], [[0, 1]])])
def test_states_outside_library_or_grid_are_refused(ids, cells):
    renderer = Renderer(ObjectLibrary.make("shapes", 5))
    with pytest.raises(HowmError, match="cannot be drawn"):
        renderer.render(np.array(ids), np.array(cells))
