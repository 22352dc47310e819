"""The contract of extractors: pictures to slots, trained by reconstruction alone."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Float, Int
from torch import Tensor, nn

from howm.models.extractors.layout import SlotLayout


@dataclass(frozen=True)
class NoExtractorConfig:
    """The configuration of an extractor that has nothing to configure."""


class Extractor(nn.Module, ABC):
    """Your own needs ``slot_size`` and ``num_slots``, four methods, and a constructor that takes (spec, config)."""

    Config: ClassVar[type[Any]] = NoExtractorConfig  # what the values of model.extractor, but for its kind, are read as
    of_inference: ClassVar[frozenset[str]] = frozenset()  # keys of its Config that training does not depend on
    slot_size: int
    num_slots: int
    has_background: bool = False  # whether the last slot is the background's, never an object's
    any_scene_size: bool = False  # whether no weight depends on the number of objects in a scene
    trains_on_pairs: bool = False  # whether forward gets pictures and then, as many, those that follow them
    assumed_cell: int | None = None  # the side in pixels of the cells that objects are assumed to lie in, if any
    knows_places: bool = False  # whether `drawn_at` says something
    knows_looks: bool = False  # whether `look` does
    layout: SlotLayout | None = None  # where slots keep code and position, if they say what and where

    @abstractmethod
    def forward(self, pictures: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The training loss of pictures (B, height, width, 3), uint8 or float in 0-1, and what to log beside it."""

    @abstractmethod
    def slots(self, pictures: Tensor) -> Float[Tensor, "B S D"]:
        """The slots of pictures, in no order that means anything."""

    def slot_rows(self, pictures: Tensor) -> tuple[Float[Tensor, "rows D"], Int[Tensor, "B S"]] | None:
        """The slots of pictures as different rows and which of them each slot is, so that what is done to slots one by
        one is done once for equal ones; None of an extractor that does not know which are equal."""
        return None

    @abstractmethod
    def masks(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B S H W"]:
        """How much of each pixel belongs to each slot."""

    @abstractmethod
    def draw(self, slots: Float[Tensor, "B S D"]) -> Float[Tensor, "B H W 3"]:
        """The picture that the slots stand for, in 0-1."""

    def drawn_at(self, slots: Float[Tensor, "*b D"]) -> Float[Tensor, "*b 2"]:
        """The row and column, in cells from the centre of the picture, at which each slot is drawn."""
        raise NotImplementedError

    def look(self, slots: Float[Tensor, "*b D"], basis: Float[Tensor, "L size"] | None = None) -> Float[Tensor, "*b F"]:
        """What each slot looks like, wherever it lies; with a basis, the product of that with it."""
        raise NotImplementedError

    def track(self, pictures: Tensor) -> Float[Tensor, "B S D"] | None:
        """The slots of the last of some frames (B, T, height, width, 3), with what earlier ones showed; None of an
        extractor that has no memory."""
        return None

    def calibrate(self, pictures: Tensor) -> float | None:
        """Set what inference needs beside trained weights, in buffers, from training frames of K objects each.

        Training calls it whenever it keeps the weights of an extractor. Gives the share of frames that come out right,
        or None where there is nothing to set.
        """
        return None
