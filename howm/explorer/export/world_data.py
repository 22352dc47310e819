"""What a page needs to know of a world: sprites and numbers from here, the rules from its own code (world_*.js)."""

from typing import Any

import numpy as np

from howm.errors import HowmError
from howm.explorer.export.graph import in_base64
from howm.worlds.backgrounds import PLAIN, TEXTURE_CELL, Background
from howm.worlds.boxes import BoxWorld
from howm.worlds.grid_world import GridWorld
from howm.worlds.object_world import ObjectWorld, mixing_factors
from howm.worlds.sprites import ONE, Sprites
from howm.worlds.world import World

SOURCES = ("random.js", "world_look.js", "world_boxes.js", "world_grid.js")
_RULES = ("reset", "step", "render", "masks")  # what the page does by itself


def world_data(world: World) -> dict[str, Any]:
    """Plain values from which ``makeWorld`` of a page makes the same world."""
    if isinstance(world, GridWorld) and _unchanged(world, GridWorld):
        return _grid(world)
    if isinstance(world, ObjectWorld) and _unchanged(world, ObjectWorld):
        return _boxes(world)
    raise HowmError(
        f"the world {type(world).__name__} cannot be put into a page: its rules are in Python; "
        "explore it live with `howm explore`"
    )


def _unchanged(world: World, known: type[World]) -> bool:
    """Whether a world has the rules of a class that the page knows, and only other settings."""
    return all(getattr(type(world), name) is getattr(known, name) for name in _RULES)


def _grid(world: GridWorld) -> dict[str, Any]:
    rows, columns = world.grid
    return {
        "kind": "grid",
        "n": world.n,
        "rows": rows,
        "columns": columns,
        "cell": world.cell_pixels,
        "headings": world.library.headings.tolist(),
        "sprites": in_base64(world.renderer.sprites),
    }


def _boxes(world: ObjectWorld) -> dict[str, Any]:
    return {
        "kind": "boxes",
        "n": world.n,
        "seed": world.seed,
        "height": world.height,
        "width": world.width,
        "space": world.space,
        "contact": world.contact,
        "cells": list(world.cells),
        "unit": world.width if world.space == "free" else world.height // world.cells[0],
        "stepSize": world.step_size,
        "turn": world.turn,
        "turns": world.turns,
        "displacements": _displacements(world),
        "half": world.half.tolist(),
        "headings": world.library.headings.tolist(),
        "classes": world.object_classes.tolist(),
        "classesShown": world.classes == "visible",
        "teams": world.object_teams.tolist(),
        "depth": world.depth,
        "hasLook": _has_look(world),
        "factors": [str(factor) for factor in mixing_factors(5 * world.n)] if world.noise else [],
        "sprites": _sprites(world.sprites),
        "background": _background(world.backdrop, world.height, world.width),
    }


def _displacements(world: BoxWorld) -> dict[str, list[float]]:
    """Rows and columns of a step at each angle in degrees: sines differ between machines in their last digit."""
    if not world.turn % 90:
        return {}
    degrees = np.arange(0, 3 * 360, np.gcd(world.turn, 90))
    angles = np.deg2rad(degrees)
    steps = world.step_size * np.stack([-np.cos(angles), np.sin(angles)], axis=1)
    return {str(angle): step for angle, step in zip(degrees.tolist(), steps.tolist(), strict=True)}


def _has_look(world: ObjectWorld) -> bool:
    """Whether states say how an episode looks, behind where objects are and how they are turned."""
    state = world.reset(np.zeros((1, 1), dtype=np.int64), np.random.default_rng(0))
    return bool(state.shape[2] > 2 + bool(world.turn))


def _sprites(sprites: Sprites) -> dict[str, Any]:
    plain = np.array(sprites.library.colours)
    return {
        "pixels": sprites.pixels,
        "turns": sprites.turns,
        "uniform": sprites.uniform,
        "coverage": in_base64((ONE * sprites.alpha).astype(np.float32)),
        "colours": in_base64((plain if sprites.uniform else sprites.colour).astype(np.float32)),
        "thresholds": (0.5 * ONE * sprites.alpha.max(axis=(1, 2, 3))).tolist(),
    }


def _background(ground: Background, height: int, width: int) -> dict[str, Any]:
    one = ground.kind == "texture" and ground.per == "dataset"
    return {
        "kind": ground.kind,
        "per": ground.per,
        "contrast": ground.contrast,
        "brightness": ground.brightness,
        "seed": ground.seed,
        "plain": list(PLAIN),
        "textureCell": TEXTURE_CELL,
        "texture": in_base64(ground.behind(np.zeros((1, 1), dtype=np.int64), height, width)) if one else None,
        "noise": in_base64(ground.noise_pictures(height, width)[:, :height, :width]) if ground.noise else None,
    }
