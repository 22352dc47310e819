"""What a model may know about the world it is built for."""

from dataclasses import dataclass
from math import gcd

from howm.errors import HowmError, require_int

PATCH_PIXELS = 10  # at most, where there are no cells


@dataclass(frozen=True)
class WorldSpec:
    """All that a model knows about its world: numbers of objects and actions, and the size of its pictures.

    ``cell_pixels`` is the side of a cell where objects lie on a grid of cells, and None where they may lie anywhere.
    The last four say what kind of world it is, by which presets choose.
    """

    n: int
    k: int
    height: int = 50
    width: int = 50
    cell_pixels: int | None = 10
    actions_per_object: int = 4
    overlap: bool = False  # whether objects can hide each other
    moves_others: bool = False  # whether an action can move objects other than its own
    varied_background: bool = False  # whether backgrounds differ between pictures
    varied_count: bool = False  # whether scenes have different numbers of objects, k at most

    def __post_init__(self) -> None:
        for name in ("n", "k", "height", "width", "actions_per_object"):
            require_int(name, getattr(self, name), 1)
        if self.cell_pixels is not None:
            require_int("cell_pixels", self.cell_pixels, 1)
            if self.height % self.cell_pixels or self.width % self.cell_pixels:
                raise HowmError(
                    f"cell_pixels={self.cell_pixels} must divide the {self.height}x{self.width} pixels of a picture"
                )

    @property
    def one_scene(self) -> bool:
        """Whether every scene has all objects of the library."""
        return self.n == self.k and not self.varied_count

    @property
    def fits_cells(self) -> bool:
        """Whether cells can hold its objects, one each, and an action moves its own object alone."""
        beyond = self.overlap or self.moves_others or self.varied_background
        return self.cell_pixels is not None and not beyond

    @property
    def grid_pixels(self) -> int:
        """The side of a cell, for a model that reads cells; where the world has none, of patches of the picture."""
        if self.cell_pixels is not None:
            return self.cell_pixels
        side = gcd(self.height, self.width)
        found = max((pixels for pixels in range(1, PATCH_PIXELS + 1) if side % pixels == 0), default=1)
        if found < PATCH_PIXELS // 3:
            raise HowmError(
                f"this model cuts pictures into patches of at most {PATCH_PIXELS} pixels, which do not fill "
                f"{self.height}x{self.width}; give sides that are multiples of {PATCH_PIXELS}"
            )
        return found

    @property
    def cells(self) -> int:
        """How many cells a picture has, for a model that reads cells."""
        return (self.height // self.grid_pixels) * (self.width // self.grid_pixels)

    @property
    def actions(self) -> int:
        """How many library actions there are: object i owns ``actions_per_object`` of them, from i times that on."""
        return self.n * self.actions_per_object
