"""Pictures that say what they show: frames with captions, and with the ids of their objects on them."""

from collections.abc import Sequence
from math import ceil

import numpy as np
from jaxtyping import Bool, Integer, UInt8

from howm.worlds.world import World

GAP, TEXT, SIZE = 6, 16, 12  # pixels between tiles, for a caption, and of its letters


def action_names(world: World | None, actions: Integer[np.ndarray, " T"]) -> list[str]:
    """Object and what it does; imported data does not tell."""
    if world is None:
        return [f"action {action}" for action in actions.tolist()]
    names = world.action_names
    return [f"object {action // len(names)} {names[action % len(names)]}" for action in actions.tolist()]


_WORDS = str.maketrans({"↑": "up", "→": "right", "↓": "down", "←": "left"})  # for letters that the font does not have


def captioned(
    tiles: UInt8[np.ndarray, "tiles H W 3"], captions: Sequence[str], columns: int = 6, width: int = 150,
    ids: Integer[np.ndarray, "tiles K"] | None = None, masks: Bool[np.ndarray, "tiles K H W"] | None = None,
) -> UInt8[np.ndarray, "H2 W2 3"]:  # fmt: skip
    """Tiles side by side, row by row, enlarged to about ``width`` pixels, each with its caption below.

    With ``ids`` and ``masks`` every object has its id beside it.
    """
    from PIL import Image, ImageDraw, ImageFont

    columns, scale = min(columns, len(tiles)), max(1, round(width / tiles.shape[2]))
    high, wide = (side * scale for side in tiles.shape[1:3])
    font = ImageFont.load_default(SIZE)
    captions = [text.translate(_WORDS) for text in captions]
    cell = max(wide, *(ceil(font.getlength(text)) for text in captions))
    sheet = Image.new(
        "RGB", (GAP + columns * (cell + GAP), GAP + ceil(len(tiles) / columns) * (high + TEXT + GAP)), "white"
    )
    pen = ImageDraw.Draw(sheet)
    for i, (tile, text) in enumerate(zip(tiles, captions, strict=True)):
        left, top = GAP + (i % columns) * (cell + GAP), GAP + (i // columns) * (high + TEXT + GAP)
        sheet.paste(Image.fromarray(tile.repeat(scale, axis=0).repeat(scale, axis=1)), (left, top))
        pen.text((left + wide / 2, top + high + 2), text, fill="black", font=font, anchor="ma")
        if ids is not None and masks is not None:
            for name, mask in zip(ids[i], masks[i], strict=True):
                if name >= 0 and mask.any():
                    rows, across = np.nonzero(mask)
                    place = left + scale * across.min() + 1, top + scale * rows.min() + 1
                    pen.text(place, str(name), fill="white", font=font, anchor="lt", stroke_width=1,
                             stroke_fill="black")  # fmt: skip
    return np.asarray(sheet)
