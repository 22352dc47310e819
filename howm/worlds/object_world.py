"""Worlds made of four parts: a library of objects, a space, what happens on contact, and a picture."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Integer, Num

from howm.errors import HowmError
from howm.worlds.backgrounds import Background, Kind, Per
from howm.worlds.boxes import BoxWorld
from howm.worlds.sprites import Sprites
from howm.worlds.traits import GHOST
from howm.worlds.world import Pictures, Scenes, States

_DEPTH = 11


@dataclass(frozen=True)
class ObjectWorld(BoxWorld):
    """Any library × space × contact × picture; `presets` name useful combinations.

    The smaller library index is nearer, unless depth is drawn per scene. Where an episode has a look of its own (its
    texture or its light), the last column of a state is the number of that look.
    """

    depth: Literal["library", "scene"] = "library"
    background: Kind = "black"
    background_per: Per = "scene"
    contrast: float = 0.3
    noise: float = 0.0
    brightness: float = 0.0
    textured: bool = False  # objects
    change_rate: float = 0.0  # of steps, at whose end an object is replaced

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("contrast", "noise", "brightness", "change_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise HowmError(f"{name} must be in [0, 1], got {getattr(self, name)}")

    @cached_property
    def sprites(self) -> Sprites:
        shown = tuple(self.object_classes.tolist()) if self.classes == "visible" else None
        return Sprites(self.library, self._cell, self.textured, self.turns, shown)

    @cached_property
    def backdrop(self) -> Background:
        return Background(
            self.background, self.background_per, self.contrast, self.noise, self.brightness, self.seed
        )  # fmt: skip

    @property
    def varied_background(self) -> bool:
        return bool(self.brightness) or (self.background == "texture" and self.background_per != "dataset")

    @property
    def _has_look(self) -> bool:
        return bool(self.brightness) or (self.background == "texture" and self.background_per == "episode")

    def _looks(self, state: States) -> Integer[np.ndarray, " E"]:
        return state[:, 0, -1].astype(np.int64) if self._has_look else np.zeros(len(state), dtype=np.int64)

    def reset(self, scenes: Scenes, rng: np.random.Generator) -> States:
        state = super().reset(scenes, rng)
        if not self._has_look:
            return state
        looks = rng.integers(2**31, size=(len(scenes), 1, 1))
        return np.concatenate([state, np.repeat(looks, scenes.shape[1], axis=1)], axis=2).astype(state.dtype)

    def enter(
        self, scene: Integer[np.ndarray, " K"], state: Num[np.ndarray, "K F"], slot: int, rng: np.random.Generator
    ) -> Num[np.ndarray, "K F"] | None:
        """As in every world; the look stays."""
        entered = super().enter(scene, state, slot, rng)
        if entered is not None and self._has_look:
            entered[slot, -1] = state[(slot + 1) % len(state), -1]
        return entered

    def state_at(self, positions: Num[np.ndarray, "E K 2"]) -> States | None:
        if self.turn or self._has_look:
            return None
        if self.space == "grid" and positions.dtype.kind not in "iu":
            raise HowmError(f"positions={positions.tolist()} are not rows and columns of cells; give integers")
        return positions.astype(np.int64 if self.space == "grid" else np.float64)

    def pixel_positions(self, scenes: Scenes, state: States) -> Float[np.ndarray, "E K 2"]:
        return (state[..., :2] + 0.5 * (self.space == "grid")) * self._unit

    @property
    def object_pixels(self) -> float:
        return self._cell

    @property
    def object_colours(self) -> list[tuple[int, int, int]]:
        return self.library.colours

    def _depths(self, scenes: Scenes) -> Integer[np.ndarray, "E K"]:
        """How far away each object is, by rank."""
        if self.depth == "library":
            return np.broadcast_to(np.arange(scenes.shape[1]), scenes.shape)
        distinct, which = np.unique(scenes, axis=0, return_inverse=True)
        orders = [np.random.default_rng([self.seed, _DEPTH, *scene]).permutation(len(scene)) for scene in distinct]
        return np.stack(orders)[which.reshape(-1)]

    def render(self, scenes: Scenes, state: States) -> Pictures:
        looks = self._looks(state)
        keys = looks[:, None] if self.background_per == "episode" else scenes
        canvas = self.backdrop.behind(keys, self.height, self.width)
        pictures = self.sprites.draw(
            canvas, scenes, self.pixel_positions(scenes, state), self.turns_of(state), self._depths(scenes)
        )
        return self.backdrop.seen_through(pictures, _mixed(self.state_key(scenes, state)), looks)

    def _covered(self, scenes: Scenes, state: States) -> Bool[np.ndarray, "E K height width"]:
        """The pixels of each object, hidden or not."""
        return self.sprites.masks(
            (self.height, self.width), scenes, self.pixel_positions(scenes, state), self.turns_of(state)
        )

    def masks(self, scenes: Scenes, state: States) -> Bool[np.ndarray, "E K height width"]:
        masks, depths = self._covered(scenes, state), self._depths(scenes)
        hidden = np.zeros((len(scenes), self.height, self.width), dtype=bool)
        row = np.arange(len(scenes))
        opaque = self.object_classes[scenes] != GHOST if self.classes == "visible" else np.ones(scenes.shape, bool)
        for j in np.argsort(depths, axis=1, kind="stable").T:  # the nearest first
            own = masks[row, j]
            masks[row, j] = own & ~hidden
            hidden |= own & opaque[row, j, None, None]
        return masks

    def visible(self, scenes: Scenes, state: States) -> Float[np.ndarray, "E K"]:
        """The share of each object's pixels that no nearer object hides."""
        if self.contact != "overlap" and not (self.object_classes == GHOST).any():  # boxes do not overlap
            return np.ones(scenes.shape)
        whole, seen = (m.sum(axis=(2, 3)) for m in (self._covered(scenes, state), self.masks(scenes, state)))
        return np.asarray(seen / np.maximum(whole, 1))

    def info(self, scenes: Scenes, state: States) -> dict[str, np.ndarray]:
        if self.kind == "shapes":
            return {}
        return {"headings": (90 * self._headings[scenes] + self.turn * self.turns_of(state)) % 360}


def _mixed(words: Integer[np.ndarray, "E words"]) -> Integer[np.ndarray, " E"]:
    """One number for each row of numbers."""
    bits = words.astype(np.int64).view(np.uint64)
    mixed = (bits ^ (bits << np.uint64(21))) * mixing_factors(bits.shape[1])
    return np.asarray(np.bitwise_xor.reduce(mixed, axis=1) >> np.uint64(1)).astype(np.int64)


def mixing_factors(count: int) -> Integer[np.ndarray, " count"]:
    """Odd numbers by which the words of a state's key are mixed; fewer are the first of more."""
    return np.random.default_rng(12345).integers(1, 2**63, size=count, dtype=np.uint64) | np.uint64(1)
