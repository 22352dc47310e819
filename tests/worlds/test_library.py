"""The object library: unique, well separated, the same everywhere, and smaller ones are prefixes of larger ones."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import libraries, worlds

from howm.errors import HowmError
from howm.worlds.library import DARKEST, KINDS, LibraryObject, ObjectLibrary, oklab
from howm.worlds.render import Renderer
from howm.worlds.silhouettes import CARS, SHAPES, SIZES, TEXTURES, silhouette

# A change of these changes every dataset: it must be meant.
DEFAULT_HASHES = {"shapes": "4e78f00c84483bfc", "rush_hour": "c310a84803398a96"}

# Smallest distance between two sprites (RGB of 0-1) and two colours (OKLab, where about 0.02 is just noticeable),
# as measured over five seeds less some 5 %.
SEPARATION = {
    ("shapes", 5): (6.2, 0.21),
    ("shapes", 10): (4.2, 0.128),
    ("shapes", 30): (3.2, 0.102),
    ("shapes", 100): (2.25, 0.057),
    ("rush_hour", 5): (6.7, 0.21),
    ("rush_hour", 10): (4.7, 0.159),
    ("rush_hour", 30): (2.85, 0.085),
    ("rush_hour", 100): (1.7, 0.058),
}

made_libraries = st.builds(ObjectLibrary.make, worlds, st.integers(1, 40), st.integers(0, 1000))
few_examples = settings(max_examples=30)  # making a library takes some 20 ms


def smallest_distance(points: np.ndarray) -> float:
    first, second = np.triu_indices(len(points), 1)
    return float(np.linalg.norm(points[first] - points[second], axis=1).min())


@few_examples
@given(made_libraries)
def test_objects_and_colours_are_all_different(library: ObjectLibrary) -> None:
    assert len(set(library.objects)) == library.n
    assert len({o.colour for o in library.objects}) == library.n


@few_examples
@given(made_libraries, st.data())
def test_smaller_library_is_the_beginning_of_a_larger_one(library: ObjectLibrary, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, library.n))
    smaller = ObjectLibrary.make(library.world, n, library.seed)
    assert smaller.objects == library.objects[:n]
    assert smaller == library.prefix(n)


@pytest.mark.parametrize("world", KINDS)
def test_ten_objects_are_the_first_of_thirty(world: str) -> None:
    assert ObjectLibrary.make(world, 10).objects == ObjectLibrary.make(world, 30).objects[:10]


@pytest.mark.parametrize("world", KINDS)
def test_seeds_give_different_libraries(world: str) -> None:
    assert len({ObjectLibrary.make(world, 5, seed).hash for seed in range(20)}) == 20


def test_same_seed_gives_the_same_library_in_another_process() -> None:
    program = (
        "from howm.worlds.library import ObjectLibrary as L;"
        "print(*[L.make(w, 30, 7).to_json() for w in ('shapes', 'rush_hour')], sep='\\n')"
    )
    here = [ObjectLibrary.make(world, 30, 7).to_json() for world in KINDS]
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        there = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        assert there.stdout.decode().splitlines() == here


@pytest.mark.parametrize("world", KINDS)
def test_default_library_is_pinned(world: str) -> None:
    assert ObjectLibrary.make(world, 10).hash == DEFAULT_HASHES[world]


@given(libraries())
def test_json_round_trip(library: ObjectLibrary) -> None:
    again = ObjectLibrary.from_json(library.to_json())
    assert again == library
    assert again.to_json() == library.to_json()
    assert again.hash == library.hash


def test_hash_names_objects_and_order_but_not_the_seed() -> None:
    library = ObjectLibrary.make("shapes", 4)
    assert ObjectLibrary("shapes", library.objects, seed=99).hash == library.hash
    assert library.permuted(np.array([1, 0, 2, 3])).hash != library.hash
    assert library.prefix(3).hash != library.hash


def test_permuted_library_holds_the_objects_in_the_order_asked_for() -> None:
    library = ObjectLibrary.make("rush_hour", 5)
    order = np.array([3, 1, 4, 0, 2])
    shuffled = library.permuted(order)
    assert [library.objects.index(o) for o in shuffled.objects] == order.tolist()
    assert (shuffled.headings == library.headings[order]).all()


@pytest.mark.parametrize("n", [22, 30, 100])
def test_shapes_world_uses_every_shape_and_size(n: int) -> None:
    objects = ObjectLibrary.make("shapes", n).objects
    assert {o.shape for o in objects} == set(SHAPES)
    assert {o.size for o in objects} == set(SIZES)


@few_examples
@given(made_libraries)
def test_shapes_sizes_and_headings_are_about_equally_frequent(library: ObjectLibrary) -> None:
    kinds = SHAPES if library.world == "shapes" else CARS
    shapes, sizes = Counter(o.shape for o in library.objects), Counter(o.size for o in library.objects)
    assert max(shapes.values()) - min(shapes[shape] for shape in kinds) <= 1
    assert max(sizes.values()) - min(sizes[size] for size in SIZES) <= 1


@few_examples
@given(made_libraries)
def test_only_cars_have_headings_and_look_like_it(library: ObjectLibrary) -> None:
    for o, heading in zip(library.objects, library.headings.tolist(), strict=True):
        if library.world == "rush_hour":
            assert o.heading == heading
            assert o.shape == CARS[heading]
        else:
            assert o.heading is None
            assert heading == 0


def test_headings_are_about_equally_frequent() -> None:
    counts = np.bincount(ObjectLibrary.make("rush_hour", 10).headings, minlength=4)
    assert np.ptp(counts) == 1


@pytest.mark.parametrize(("world", "n"), SEPARATION)
def test_sprites_and_colours_keep_their_distance(world: str, n: int) -> None:
    least_pixels, least_perceived = SEPARATION[world, n]
    for seed in range(5):
        library = ObjectLibrary.make(world, n, seed)
        sprites = Renderer(library, cell_pixels=10).sprites / 255
        colours = oklab(np.array([o.colour for o in library.objects]) / 255)
        assert smallest_distance(sprites.reshape(n, -1)) >= least_pixels
        assert smallest_distance(colours) >= least_perceived
        assert colours[:, 0].min() >= DARKEST


# The first 300 objects, of every world and seed, were made by an earlier rule and must never change.
FIRST_HASHES = {"shapes": "d9cf6f4fb0994af2", "rush_hour": "216c04d3bbca28de"}


@pytest.mark.parametrize("world", KINDS)
def test_a_thousand_objects_can_be_made_and_begin_with_the_same_three_hundred(world: str) -> None:
    library = ObjectLibrary.make(world, 1000)
    assert len(set(library.objects)) == 1000
    assert {o.texture for o in library.objects} == set(TEXTURES)
    assert library.prefix(300).hash == ObjectLibrary.make(world, 300).hash == FIRST_HASHES[world]
    assert ObjectLibrary.from_json(library.to_json()) == library


def test_ten_thousand_objects_can_be_told_apart() -> None:
    library = ObjectLibrary.make("shapes", 10_000)
    assert library.prefix(1000) == ObjectLibrary.make("shapes", 1000)
    assert library.closest_pair()[2] > 1.1


@few_examples
@given(libraries().filter(lambda library: library.n > 1), st.integers(5, 12))
def test_the_closest_pair_is_the_closest_of_all_pairs(library: ObjectLibrary, cell_pixels: int) -> None:
    sprites = Renderer(library, cell_pixels=cell_pixels).sprites.reshape(library.n, -1) / 255
    i, j, distance = library.closest_pair(cell_pixels)
    assert i < j
    np.testing.assert_allclose(distance, smallest_distance(sprites), atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(sprites[i] - sprites[j]), distance, atol=1e-9)


def test_oklab_agrees_with_its_published_values() -> None:
    rgb = np.array([[0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=float)
    lab = [
        [0, 0, 0],
        [1, 0, 0],
        [0.62796, 0.22486, 0.12585],
        [0.86644, -0.23389, 0.1795],
        [0.45201, -0.03246, -0.31153],
    ]
    np.testing.assert_allclose(oklab(rgb), lab, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", SIZES)
def test_silhouettes_are_centred_in_their_cell(shape: str, size: str) -> None:
    for cell_pixels in range(5, 41):
        mask = silhouette(shape, size, cell_pixels)
        assert mask.shape == (cell_pixels, cell_pixels)
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        assert rows[0] == columns[0] == cell_pixels - 1 - rows[-1] == cell_pixels - 1 - columns[-1]


def test_silhouettes_are_mirror_images() -> None:
    for size in SIZES:
        for cell_pixels in range(5, 41):
            north = silhouette("triangle_north", size, cell_pixels)
            assert (north == north[:, ::-1]).all()
            for turns, shape in enumerate(CARS):  # headings go clockwise, and rot90 the other way
                assert (silhouette(shape, size, cell_pixels) == np.rot90(north, -turns)).all()
            for shape in set(SHAPES) - set(CARS):
                mask = silhouette(shape, size, cell_pixels)
                assert (mask == mask[::-1]).all()
                assert (mask == mask[:, ::-1]).all()


def test_silhouettes_differ_at_the_default_size() -> None:
    masks = [silhouette(shape, size, 10) for shape in SHAPES for size in SIZES]
    assert all((a != b).any() for a, b in combinations(masks, 2))


def test_silhouettes_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        silhouette("square", "large")[0, 0] = False


@given(libraries(), st.integers(5, 16))
def test_sprites_are_never_black(library: ObjectLibrary, cell_pixels: int) -> None:
    sprites = Renderer(library, cell_pixels=cell_pixels).sprites
    for o, sprite in zip(library.objects, sprites, strict=True):
        shown = {tuple(pixel) for pixel in sprite.reshape(-1, 3).tolist()} - {(0, 0, 0)}
        assert shown == {o.colour}


RED_SQUARE = LibraryObject("square", (255, 0, 0), "large")


@pytest.mark.parametrize(
    ("attempt", "value"),
    [
        (lambda: ObjectLibrary.make("shapes", 0), "n=0"),
        (lambda: ObjectLibrary.make("shapes", -3), "n=-3"),
        (lambda: ObjectLibrary.make("rush_hour", 10**6), "n=1000000"),
        (lambda: ObjectLibrary.make("squares", 5), "'squares'"),
        (lambda: ObjectLibrary.make("shapes", 5, seed=-1), "seed=-1"),
        (lambda: ObjectLibrary.make("shapes", 5).prefix(6), "prefix of 6"),
        (lambda: ObjectLibrary("shapes", ()), "at least one"),
        (lambda: ObjectLibrary("shapes", (RED_SQUARE, RED_SQUARE)), r"2 objects .*\(255, 0, 0\)"),
        (lambda: ObjectLibrary("rush_hour", (RED_SQUARE,)), "heading"),
        (lambda: LibraryObject("square", (0, 0, 0), "large"), r"black \(0, 0, 0\)"),
        (lambda: LibraryObject("square", (256, 0, 0), "large"), "256"),
        (lambda: LibraryObject("square", (0.5, 0, 0), "large"), "0.5"),  # type: ignore[arg-type]
        (lambda: LibraryObject("blob", (255, 0, 0), "large"), "'blob'"),
        (lambda: LibraryObject("square", (255, 0, 0), "huge"), "'huge'"),
        (lambda: LibraryObject("square", (255, 0, 0), "large", texture="fur"), "'fur'"),
        (lambda: ObjectLibrary("shapes", (RED_SQUARE,)).closest_pair(), "no pair"),
        (lambda: LibraryObject("triangle_west", (255, 0, 0), "large", -1), "heading -1"),
        (lambda: LibraryObject("triangle_west", (255, 0, 0), "large", 4), "heading 4"),
        (lambda: LibraryObject("triangle_west", (255, 0, 0), "large", 0), "heading 0"),
        (lambda: ObjectLibrary.from_json("{"), "JSONDecodeError"),
        (lambda: ObjectLibrary.from_json("{}"), "'objects'"),
        (
            lambda: ObjectLibrary.from_json('{"world": "shapes", "seed": 0, "objects": [{"shape": "square"}]}'),
            "'colour'",
        ),
    ],
)
def test_mistakes_are_named(attempt: Callable[[], object], value: str) -> None:
    with pytest.raises(HowmError, match=value):
        attempt()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(libraries(max_n=2), st.data())
def test_no_damaged_json_escapes_as_another_error(library: ObjectLibrary, data: st.DataObject) -> None:
    damaged = json.loads(library.to_json())
    owner = data.draw(st.sampled_from([damaged, damaged["objects"][0]]))
    owner[data.draw(st.sampled_from(sorted(owner)))] = data.draw(json_values)
    with suppress(HowmError):
        ObjectLibrary.from_json(json.dumps(damaged))
