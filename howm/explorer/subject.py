"""A model that is explored: loaded once, for scenes of any size that it can take, and asked for what it can show."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Integer, Num, UInt8
from torch import Tensor

from howm.data.rollouts import privileged_of
from howm.errors import HowmError
from howm.evaluation.embedding import encode
from howm.models.distance import guarded
from howm.models.world_model import SlotState, State, WorldModel, device_of
from howm.worlds.scene_set import SceneSet
from howm.worlds.world import World

Matrix = list[list[float | None]]


@dataclass
class Subject:
    """``trained_sizes`` are the sizes of scenes that the model itself takes; others it is made again for."""

    name: str
    title: str
    model: WorldModel
    trained_sizes: range
    training_scenes: SceneSet | None
    _by_size: dict[int, WorldModel] = field(default_factory=dict)

    def for_size(self, k: int) -> WorldModel:
        """The model for scenes of k objects; a HowmError where it cannot see them."""
        if k in self.trained_sizes:
            return self.model
        if k not in self._by_size:
            self._by_size[k] = self.model.for_scene_size(k).eval()
        return self._by_size[k]

    def takes(self, k: int) -> bool:
        try:
            self.for_size(k)
        except HowmError:
            return False
        return True


@dataclass(frozen=True)
class Sight:
    """A model that looks at scenes of one size of a world. All of it is asked through the contract of world models."""

    world: World
    model: WorldModel

    @torch.no_grad()
    def encode(self, scenes: Integer[np.ndarray, "E K"], states: Num[np.ndarray, "E K F"]) -> State:
        """The latent states of true states, as their pictures show them."""
        known = privileged_of(self.world, scenes, states) if self.model.privileged else None
        return encode(self.model, torch.from_numpy(self.world.render(scenes, states)), known)

    @torch.no_grad()
    def step(self, state: State, actions: Integer[np.ndarray, " E"]) -> State:
        return self.model.step(state, torch.from_numpy(actions.astype(np.int64)).to(device_of(self.model)))

    @torch.no_grad()
    def embed(self, state: State) -> Float[Tensor, "E size"]:
        return self.model.embed(state).detach().cpu().double()

    def distances(self, one: Float[Tensor, "P size"], many: Float[Tensor, "T size"]) -> Float[np.ndarray, "P T"]:
        return guarded(self.model.metric)(one, many).numpy()

    @torch.no_grad()
    def draw(self, state: State) -> UInt8[np.ndarray, "E height width 3"] | None:
        """The pictures that states stand for; None of a model that cannot draw."""
        return quantised(self.model.draw(state))

    @torch.no_grad()
    def slots(
        self, scenes: Integer[np.ndarray, "1 K"], states: Num[np.ndarray, "1 K F"]
    ) -> UInt8[np.ndarray, "S height width 4"] | None:
        """What each slot stands for: the picture, opaque where the slot's mask is; None of a model without masks."""
        pictures = self.world.render(scenes, states)
        masks = self.model.masks(torch.from_numpy(pictures).to(device_of(self.model)))
        alpha = quantised(masks)
        if alpha is None:
            return None
        colours = np.broadcast_to(pictures, (*alpha.shape[1:], 3))
        return np.concatenate([colours, alpha[0, ..., None]], axis=3)

    @torch.no_grad()
    def binding(self, state: State) -> Matrix | None:
        """To which slot (column) the actions of each library object (row) go."""
        found = self.model.binding(state)
        return None if found is None else plain_matrix(found[0])

    def rows(self, state: State) -> tuple[str, int]:
        """What the rows of an embedding stand for when it is shown as a matrix, and how many there are."""
        size = self.embed(state).shape[1]
        if isinstance(state, SlotState):
            slots = state.slots.shape[1]
            if (state.lift is not None or slots == self.world.n) and size % self.world.n == 0:
                return "objects", self.world.n
            if size == slots * state.slots.shape[2]:
                return "slots", slots
        return "state", 1

    @cached_property
    def capabilities(self) -> dict[str, bool]:
        """What the model can show, found out on one scene."""
        size = self.model.spec.k if self.model.spec is not None else 1
        scenes = np.arange(size)[None]
        states = self.world.reset(scenes, np.random.default_rng(0))
        state = self.encode(scenes, states)
        return {
            "draw": self.draw(state) is not None,
            "masks": self.slots(scenes, states) is not None,
            "binding": self.binding(state) is not None,
        }


def quantised(values: Tensor | None) -> UInt8[np.ndarray, "*shape"] | None:
    """Values in 0-1 as bytes, as pictures are."""
    if values is None:
        return None
    return np.asarray((values.detach().nan_to_num(0.0).clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy())


def plain_matrix(values: Tensor) -> Matrix:
    """Numbers for JSON, to six digits; None where one is not finite."""
    return [[plain_number(value) for value in row] for row in values.tolist()]


def plain_number(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None
