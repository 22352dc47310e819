"""The contract: a world model is five verbs, and training and evaluation know nothing else of it.

Axes, here and in all models: B batch, N library objects, K objects of a scene, S slots, D slot size, F embedding.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from howm.batches import Batch
from howm.errors import HowmError
from howm.ranking import euclidean


@dataclass(frozen=True)
class WorldSpec:
    """All that a model is told of the world it is built for: numbers of objects, and the size of its pictures."""

    n: int
    k: int
    height: int = 50
    width: int = 50
    cell_pixels: int = 10

    def __post_init__(self) -> None:
        if self.height % self.cell_pixels or self.width % self.cell_pixels:
            raise HowmError(
                f"pictures of {self.height}x{self.width} pixels are no whole number of cells of {self.cell_pixels}; "
                "give cell_pixels that divides both"
            )

    @property
    def cells(self) -> int:
        return (self.height // self.cell_pixels) * (self.width // self.cell_pixels)


@dataclass(frozen=True)
class State:
    """A latent state. ``binding`` says to which slot the actions of each library object go, where a method binds."""

    slots: Float[Tensor, "B S D"]
    binding: Float[Tensor, "B N S"] | None = None


class WorldModel(nn.Module, ABC):
    """Base of all methods; your own model needs the five verbs and nothing else."""

    @property
    def representation(self) -> nn.Module | None:
        """The part, if any, that is trained first, by its own ``forward(obs) → (loss, logs)``, and then frozen."""
        return None

    def represent(self, obs: Tensor) -> Tensor:
        """What the frozen representation makes of pictures. Training then gives this to ``forward`` in their place."""
        return obs

    @abstractmethod
    def encode(self, obs: Tensor, object_ids: Int[Tensor, "B K"] | None = None) -> State:
        """Pictures (B, height, width, 3), uint8 or float in 0-1, to a latent state.

        ``object_ids`` is privileged: the one baseline Σ_K-CSWM reads it, no other method may.
        """

    @abstractmethod
    def step(self, state: State, action: Int[Tensor, "B"]) -> State:
        """One latent step; ``action`` is a library action 0 ... 4N-1."""

    def embed(self, state: State) -> Float[Tensor, "B F"]:
        """The space in which two states may be compared."""
        return state.slots.flatten(1)

    def distance(
        self, predictions: Float[Tensor, "*b P F"], references: Float[Tensor, "*b T F"]
    ) -> Float[Tensor, "*b P T"]:
        """All distances between embeddings, given in float64 on the CPU.

        Each may depend on its own pair alone, to the last bit, or ranks would be biased.
        """
        return euclidean(predictions, references)

    @property
    def most_references(self) -> int | None:
        """How many references a prediction can be ranked among, where its distance makes each one dear."""
        return None

    def masks(self, obs: Tensor) -> Float[Tensor, "B S H W"] | None:
        """How much of each pixel each slot stands for, of models that can say so."""
        return None

    @abstractmethod
    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The training loss and what to log beside it."""


def full_precision(x: Tensor) -> Tensor:
    """Under autocast matrix products may be rounded, but states and energies, sums of many small terms, may not."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """In evaluation mode for a while; then every part is in its own mode again, also after an error."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def device_of(model: nn.Module) -> torch.device:
    """Where a model's weights are; the CPU for one that has none."""
    return next(model.parameters(), torch.empty(0)).device
