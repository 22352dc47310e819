"""howm library: look at an object library."""

import argparse
import json
from pathlib import Path
from typing import Any

from howm.cli.base import add_command, add_world, allow_typed, world_settings, write_picture


def add_commands(commands: Any) -> None:
    library = commands.add_parser("library", help="look at an object library")
    actions = library.add_subparsers(required=True, metavar="ACTION")
    show = add_command(actions, "show", _library_show, "draw all objects of a library, in order, or list them as JSON")
    add_world(show)
    show.add_argument("-o", "--out", type=Path, help="the picture to write (PNG)")
    show.add_argument("--json", action="store_true", help="print the library as JSON")
    check = add_command(
        actions, "check", _library_check, "find the two objects that look most alike, and their distance"
    )
    add_world(check)


def _library_show(options: argparse.Namespace) -> int:
    import numpy as np

    from howm.worlds.captions import captioned
    from howm.worlds.grid_world import GridWorld
    from howm.worlds.registry import make_world
    from howm.worlds.render import Renderer

    allow_typed(worlds=[options.world])
    world = make_world(options.world, options.n, options.library_seed, **world_settings(options))
    if options.json:
        record = world.to_record()
        print(json.dumps(record.get("library", record), separators=(",", ":")))
    elif options.out is None:
        for i, text in enumerate(world.object_texts()):
            print(f"{i:4d}  {text}")
    if options.out is not None:
        if isinstance(world, GridWorld):
            tiles, width = Renderer(world.library, cell_pixels=20).sprites, 40
        else:  # each object alone in a picture
            alone = np.arange(world.n)[:, None]
            tiles, width = world.render(alone, world.reset(alone, np.random.default_rng(0))), 100
        write_picture(captioned(tiles, [str(i) for i in range(world.n)], columns=10, width=width), options.out)
    return 0


def _library_check(options: argparse.Namespace) -> int:
    from howm.errors import HowmError
    from howm.worlds.grid_world import GridWorld
    from howm.worlds.registry import make_world

    allow_typed(worlds=[options.world])
    world = make_world(options.world, options.n, options.library_seed, **world_settings(options))
    if not isinstance(world, GridWorld):
        raise HowmError(f"objects of {options.world} are drawn at any position; check shapes or rush_hour")
    i, j, distance = world.library.closest_pair(world.cell_pixels)
    texts = world.object_texts()
    print(f"objects      {world.n}, all different")
    print(f"most alike   {i} ({' '.join(texts[i].split())}) and {j} ({' '.join(texts[j].split())})")
    print(f"distance     {distance:.3f} between their pictures (L2, RGB of 0-1)")
    return 0
