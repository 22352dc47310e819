"""Antialiased sprites at any position, drawn over each other in integer arithmetic: the same bytes everywhere."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Integer, UInt8

from howm.worlds.library import ObjectLibrary
from howm.worlds.silhouettes import dark_pixels, extent, silhouette
from howm.worlds.traits import FIXED, GHOST, HEAVY

AT_ONCE = 128  # frames: their patches stay in cache
ONE = 256  # of an opaque pixel
GHOST_ALPHA = 0.6
_PATTERN = 3


@dataclass(frozen=True)
class Sprites:
    """What each object of a library looks like, turned by ``turns`` equal angles of a full circle.

    ``classes`` are shown where given: heavy objects have a light rim, fixed ones dark stripes, ghosts are translucent.
    """

    library: ObjectLibrary
    pixels: int = 10
    textured: bool = False
    turns: int = 1
    classes: tuple[int, ...] | None = None

    @cached_property
    def half(self) -> Float[np.ndarray, " N"]:
        """Half the side of each object's box, in pixels."""
        return np.array([extent(item.size, self.pixels) / 2 for item in self.library.objects])

    @cached_property
    def alpha(self) -> Float[np.ndarray, "N turns {self.pixels}+2 {self.pixels}+2"]:
        """Coverage of each pixel, in 0-1, within a border of nothing."""
        masks = np.stack([silhouette(item.shape, item.size, self.pixels) for item in self.library.objects])
        turned = np.stack([_turned(masks, turn / self.turns) for turn in range(self.turns)], axis=1)
        if self.classes is not None:
            turned = turned * np.where(np.array(self.classes) == GHOST, GHOST_ALPHA, 1.0)[:, None, None, None]
        return np.pad(turned, ((0, 0), (0, 0), (1, 1), (1, 1)))

    @cached_property
    def colour(self) -> Float[np.ndarray, "N {self.pixels}+2 {self.pixels}+2 3"]:
        """The colour of each pixel, in 0-255."""
        plain = np.array([item.colour for item in self.library.objects], dtype=np.float64)[:, None, None]
        side = self.pixels + 2
        colours = np.broadcast_to(plain, (self.library.n, side, side, 3)).copy()
        for picture, item in zip(colours, self.library.objects, strict=True):
            if item.texture != "plain":
                picture[1:-1, 1:-1][dark_pixels(item.texture, self.pixels)] *= 0.5
        if self.textured:
            for i, picture in enumerate(colours):
                rng = np.random.default_rng([self.library.seed, _PATTERN, i])
                picture *= rng.choice([0.55, 1.0], size=(side, side, 1))
        if self.classes is not None:
            for picture, kind, half in zip(colours, self.classes, self.half, strict=True):
                away = np.abs(np.arange(side) - (side - 1) / 2)
                if kind == HEAVY:
                    rim = np.maximum(away[:, None], away) > half - 1.5
                    picture[rim] = 0.5 * picture[rim] + 127.5
                elif kind == FIXED:
                    picture[::2] *= 0.5
        return colours

    @property
    def uniform(self) -> bool:
        """Whether every object has one colour."""
        if any(item.texture != "plain" for item in self.library.objects):
            return False
        return not self.textured and (self.classes is None or not {HEAVY, FIXED} & set(self.classes))

    def draw(
        self,
        canvas: UInt8[np.ndarray, "E height width 3"],
        ids: Integer[np.ndarray, "E K"],
        centres: Float[np.ndarray, "E K 2"],
        turns: Integer[np.ndarray, "E K"],
        depth: Integer[np.ndarray, "E K"],
    ) -> UInt8[np.ndarray, "E height width 3"]:
        """Draw objects, the farthest (of greatest depth) first; centres are (row, column) in pixels."""
        drawn = np.empty_like(canvas)
        for begin in range(0, len(canvas), AT_ONCE):
            part = slice(begin, begin + AT_ONCE)
            drawn[part] = self._draw(canvas[part], ids[part], centres[part], turns[part], depth[part])
        return drawn

    def _draw(
        self, canvas: np.ndarray, ids: np.ndarray, centres: np.ndarray, turns: np.ndarray, depth: np.ndarray
    ) -> np.ndarray:
        frames, height, width, _ = canvas.shape
        pad, side = self.pixels, self.pixels + 1
        padded = np.zeros((frames, height + 2 * pad, width + 2 * pad, 3), dtype=np.uint8)
        padded[:, pad:-pad, pad:-pad] = canvas
        # Every run of one sprite's row of pixels is one item, so that a patch is a few copies, not hundreds.
        runs = np.lib.stride_tricks.as_strided(
            padded.view(np.uint8).reshape(-1)[: 3 * side].view(f"V{3 * side}"),
            (frames, height + 2 * pad, width + 2 * pad - side + 1),
            padded.strides[:3],
        )
        frame = np.arange(frames)
        for j in np.argsort(-depth, axis=1, kind="stable").T:
            who = ids[frame, j]
            corner, alpha, colour = self._placed(who, centres[frame, j], turns[frame, j])
            at = frame[:, None], corner[:, :1] + pad + np.arange(side), corner[:, 1:] + pad
            below = runs[at].view(np.uint8).reshape(frames, side, 3 * side).astype(np.uint16)
            below *= ONE - alpha
            alpha *= colour
            below += alpha
            below += ONE // 2
            below >>= 8
            runs[at] = below.astype(np.uint8).view(runs.dtype)[..., 0]
        return padded[:, pad:-pad, pad:-pad]

    def masks(
        self, shape: tuple[int, int], ids: Integer[np.ndarray, "E K"], centres: Float[np.ndarray, "E K 2"],
        turns: Integer[np.ndarray, "E K"],
    ) -> Bool[np.ndarray, "E K height width"]:  # fmt: skip
        """The pixels that each object covers by half or more of what it can, hidden or not."""
        (height, width), pad, side = shape, self.pixels, self.pixels + 1
        found = np.zeros((*ids.shape, height + 2 * pad, width + 2 * pad), dtype=bool)
        corner, alpha, _ = self._placed(ids.reshape(-1), centres.reshape(-1, 2), turns.reshape(-1))
        flat = found.reshape(-1, *found.shape[2:])
        rows, columns = corner[:, :1] + pad + np.arange(side), corner[:, 1:] + pad + np.arange(side)
        threshold = 0.5 * ONE * self.alpha.max(axis=(1, 2, 3))[ids.reshape(-1)]
        index = np.arange(len(flat))[:, None, None], rows[:, :, None], columns[:, None, :]
        flat[index] = alpha[..., ::3] >= threshold[:, None, None]
        return found[:, :, pad:-pad, pad:-pad]

    def _placed(
        self, ids: Integer[np.ndarray, " M"], centres: Float[np.ndarray, "M 2"], turns: Integer[np.ndarray, " M"]
    ) -> tuple[Integer[np.ndarray, "M 2"], np.ndarray, np.ndarray]:
        """The corner of each sprite's patch, its coverage there in 0-256, and its colours, in rows of channels."""
        corner = centres - self.pixels / 2
        whole = np.floor(corner + 1e-9)
        shift = np.clip(corner - whole, 0, 1).astype(np.float32)
        texels = self._coverage_rows[ids, turns]
        alpha = _shifted(texels, shift)
        quantised = np.rint(alpha).astype(np.uint16)
        if self.uniform:
            colours = self._plain_rows[ids]
        else:
            weighted = _shifted(texels * self._colour_rows[ids], shift)
            colours = np.rint(weighted / np.maximum(alpha, 1e-6)).astype(np.uint16)
        return whole.astype(np.intp), quantised, colours

    # Texels as the canvas has its pixels, three channels beside each other: long rows are what numpy is fast with.

    @cached_property
    def _coverage_rows(self) -> Float[np.ndarray, "N turns {self.pixels}+2 row"]:
        return (ONE * self.alpha).astype(np.float32).repeat(3, axis=3)

    @cached_property
    def _colour_rows(self) -> Float[np.ndarray, "N {self.pixels}+2 row"]:
        return self.colour.astype(np.float32).reshape(*self.colour.shape[:2], -1)

    @cached_property
    def _plain_rows(self) -> Integer[np.ndarray, "N {self.pixels}+1 row"]:
        return np.ascontiguousarray(self._colour_rows[:, 1:, 3:].astype(np.uint16))


def _shifted(texels: np.ndarray, shift: Float[np.ndarray, "M 2"]) -> np.ndarray:
    """Texels (M, p+2, 3(p+2)) moved down and right by a part of a pixel: (M, p+1, 3(p+1))."""
    down, right = shift[:, 0, None, None], shift[:, 1, None, None]
    rows = texels[:, :-1] - texels[:, 1:]
    rows *= down
    rows += texels[:, 1:]
    moved = rows[:, :, :-3] - rows[:, :, 3:]
    moved *= right
    moved += rows[:, :, 3:]
    return np.asarray(moved)


def _turned(masks: Bool[np.ndarray, "N p p"], turn: float, fine: int = 8) -> Float[np.ndarray, "N p p"]:
    """Masks turned clockwise by a share of a full circle; exact for quarters, else sampled finely."""
    quarters = 4 * turn
    if quarters == round(quarters):
        return np.rot90(masks, -round(quarters), axes=(1, 2)).astype(np.float64)
    side = masks.shape[1]
    at = (np.arange(side * fine) + 0.5) / fine - side / 2
    y, x = np.meshgrid(at, at, indexing="ij")
    cos, sin = np.cos(2 * np.pi * turn), np.sin(2 * np.pi * turn)
    row, column = (np.floor(v + side / 2).astype(int) for v in (cos * y - sin * x, sin * y + cos * x))
    inside = (row >= 0) & (row < side) & (column >= 0) & (column < side)
    sampled = masks[:, row.clip(0, side - 1), column.clip(0, side - 1)] & inside
    return np.asarray(sampled.reshape(len(masks), side, fine, side, fine).mean(axis=(2, 4)))
