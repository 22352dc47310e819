"""The contract: a world model has four verbs, and declares what else it can do as capabilities.

Axes, here and in all models: B batch, N library objects, K objects of a scene, S slots, D slot size, F embedding.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor, nn

from howm.data.privileged import Privileged
from howm.errors import HowmError
from howm.models.distance import EUCLIDEAN, Metric
from howm.models.extractors.base import Extractor
from howm.models.inputs import as_actions, as_pictures, checked_verb
from howm.worlds.scenes import SceneSet
from howm.worlds.spec import WorldSpec

Logs = dict[str, Tensor]
S = TypeVar("S", bound="State")
Index = int | slice | Integer[Tensor, " rows"] | Bool[Tensor, " B"]


@dataclass(frozen=True)
class State:
    """A latent state: a base for frozen dataclasses of (B, ...) tensors, of which some may be None."""

    def map(self: S, function: Callable[[Tensor], Tensor]) -> S:
        """The state with the function applied to each of its tensors."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: function(value) for name, value in values.items() if value is not None})

    def __len__(self) -> int:
        """The size of the batch."""
        return next(len(value) for value in vars(self).values() if value is not None)

    def __getitem__(self: S, index: Index) -> S:
        """Some rows of the batch; a single one keeps its batch axis."""
        if isinstance(index, int):
            if not -len(self) <= index < len(self):
                raise IndexError(f"row {index} of a state of {len(self)}")
            index = slice(index % len(self), index % len(self) + 1)
        return self.map(lambda tensor: tensor[index])

    def repeat(self: S, count: int) -> S:
        """Each row ``count`` times, one after the other."""
        return self.map(lambda tensor: tensor.repeat_interleave(count, dim=0))

    def to(self: S, device: torch.device | str) -> S:
        return self.map(lambda tensor: tensor.to(device))

    @classmethod
    def join(cls: type[S], states: Sequence[S]) -> S:
        """The rows of several states, one batch after the other."""
        parts = {field.name: [getattr(state, field.name) for state in states] for field in fields(states[0])}
        return replace(
            states[0], **{name: torch.cat(values) for name, values in parts.items() if values[0] is not None}
        )


@dataclass(frozen=True)
class SlotState(State):
    """Embeddings of slots. ``binding`` says to which slot the actions of each library object go, where a method binds.

    ``lift`` reads the slots as N library objects, and ``source_slots`` are what an extractor made of the picture: both
    stay as they were in the picture. For libraries too large to list, ``identity`` keeps instead what a binding is made
    of, a query for each slot, and ``claimed`` the object that each slot takes itself for, or -1.
    """

    slots: Float[Tensor, "B S D"]
    binding: Float[Tensor, "B N S"] | None = None
    lift: Float[Tensor, "B N S"] | None = None
    source_slots: Float[Tensor, "B S slot"] | None = None
    identity: Float[Tensor, "B Q query"] | None = None
    claimed: Int[Tensor, "B S"] | None = None


def slot_state(state: State) -> SlotState:
    """The state as one of slots, for methods that have no other."""
    if not isinstance(state, SlotState):
        raise HowmError(f"this method's states are SlotStates, got {type(state).__name__}; write your own embed")
    return state


@dataclass(frozen=True)
class NoConfig:
    """The configuration of a model that has nothing to configure."""


class WorldModel(nn.Module, ABC):
    """Base of all methods; your own model needs encode, step and forward, and embed if its states are not SlotStates.

    Inputs of ``encode`` and ``step`` are checked before your code sees them, and NumPy arrays become tensors. Give the
    spec to ``super().__init__(spec)``: then picture sizes and the range of actions are checked as well.
    """

    # Of a method that is registered by its class; its constructor takes a WorldSpec and a Config.
    title: ClassVar[str] = ""
    Config: ClassVar[type[Any]] = NoConfig
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {}, "cpu": {}}
    represents: ClassVar[str | None] = None  # the group of model.* that configures an extractor which is trained first

    privileged: ClassVar[bool] = False  # whether encode and forward read the ids of the scenes' objects
    metric: Metric = EUCLIDEAN
    extractor: Extractor | None  # assign it in __init__ where the model has one
    training_scenes: SceneSet | None = None  # of a loaded model, where its data names objects
    reward_function: "Callable[[WorldModel, State], Tensor] | None" = None  # learned beside, see `planning.reward`

    def __init__(self, spec: WorldSpec | None = None) -> None:
        super().__init__()
        self.spec = spec
        self.register_module("extractor", None)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for verb, check in (("encode", _check_encode), ("step", _check_step)):
            if verb in cls.__dict__:
                setattr(cls, verb, checked_verb(cls.__dict__[verb], check))

    @abstractmethod
    def encode(self, pictures: Tensor, privileged: Privileged | None = None) -> State:
        """Pictures (B, height, width, 3), uint8 or float in 0-1, to a latent state.

        ``privileged`` is None unless the class declares ``privileged = True``.
        """

    @abstractmethod
    def step(self, state: State, action: Integer[Tensor, " B"]) -> State:
        """One latent step; ``action`` is a library action 0 ... ``spec.actions`` - 1."""

    def embed(self, state: State) -> Float[Tensor, "B F"]:
        """The space in which ``metric`` compares states; by default the slots, one after the other."""
        return slot_state(state).slots.flatten(1)

    @abstractmethod
    def forward(self, batch: Any) -> tuple[Tensor, Logs]:
        """The training loss and what to log beside it.

        The batch is a SlotBatch where there is a ``frozen_extractor``, else a PictureBatch.
        """

    # Capabilities. None means "cannot".

    @property
    def frozen_extractor(self) -> Extractor | None:
        """The extractor that training fits first and then freezes, or None to train all at once."""
        return self.extractor

    def masks(self, pictures: Tensor) -> Float[Tensor, "B S H W"] | None:
        """How much of each pixel each slot stands for."""
        return None

    def draw(self, state: State) -> Float[Tensor, "B H W 3"] | None:
        """The pictures that states stand for, in 0-1."""
        return None

    def encode_frames(self, pictures: Tensor) -> State | None:
        """The state of the last of some frames (B, T, height, width, 3), with what earlier ones showed."""
        return None

    def locate(self, state: State) -> Float[Tensor, "B N 2"] | None:
        """Where each library object is, row and column in pixels; NaN of objects that are absent."""
        return None

    def binding(self, state: State) -> Float[Tensor, "B N S"] | None:
        """To which slot the actions of each library object go, where the model has learned that."""
        return None

    def objects(self, state: State) -> Float[Tensor, "B N D"] | None:
        """A row for each library object, in the order of the actions, where the model keeps objects apart."""
        return None

    def present(self, state: State) -> Bool[Tensor, "B N"] | None:
        """Which library objects the model sees, where it can tell."""
        return None

    def rebind(self, state: State, binding: Float[Tensor, "B N S"]) -> State:
        """The state with another binding, by which its slots are also read as objects; needed beside ``binding``."""
        raise HowmError(f"{type(self).__name__} cannot be given a binding; define rebind")

    def hard_binding(self, on: bool = True) -> None:
        """In evaluation, send each object's actions to one slot alone."""
        raise HowmError(f"{type(self).__name__} has no soft binding to make hard")

    def reward(self, state: State) -> Float[Tensor, " B"] | None:
        """The reward of having come to a state, where one was learned."""
        return None if self.reward_function is None else self.reward_function(self, state)

    def for_scene_size(self, k: int) -> "WorldModel":
        """The same weights for scenes of k objects."""
        made_for = "another number of" if self.spec is None else self.spec.k
        raise HowmError(f"{type(self).__name__} was made for scenes of {made_for} objects and cannot see {k}")

    def inferring_count(self, max_objects: int) -> "WorldModel":
        """The same weights, finding out how many objects, ``max_objects`` at most, each picture shows."""
        raise HowmError(f"{type(self).__name__} cannot infer how many objects a picture shows")


def _check_encode(model: WorldModel, pictures: Tensor, privileged: Privileged | None = None) -> tuple[Any, ...]:
    if model.privileged and privileged is None:
        raise HowmError(f"{type(model).__name__} needs the object ids of the scene; this data or call gives none")
    pictures = as_pictures(pictures, model.spec, model)
    return (pictures, privileged.to(pictures.device)) if privileged is not None and model.privileged else (pictures,)


def _check_step(model: WorldModel, state: State, action: Tensor) -> tuple[State, Tensor]:
    if not isinstance(state, State):
        raise HowmError(f"step needs a State, got {type(state).__name__}; derive your state from howm.State")
    return state, as_actions(action, len(state), model.spec, model)


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
