"""The checkers find each breach of the contract, and name the verb; what keeps it passes."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from howm import EXTRACTORS, METHODS, Extractor, Metric, State, WorldModel, WorldSpec, check_extractor, check_model
from howm.errors import HowmError
from howm.models.distance import euclidean

SPEC = WorldSpec(n=4, k=2, height=12, width=8, cell_pixels=None, actions_per_object=3)


@dataclass(frozen=True)
class Vector(State):
    values: torch.Tensor


class Good(WorldModel):
    def __init__(self, spec=SPEC):
        super().__init__(spec)
        self.encoder = nn.Linear(spec.height * spec.width * 3, 5)
        self.change = nn.Embedding(spec.actions, 5)

    def encode(self, pictures, privileged=None):
        pictures = pictures.float() / 255 if pictures.dtype == torch.uint8 else pictures
        return Vector(self.encoder(pictures.flatten(1)))

    def step(self, state, action):
        return Vector(state.values + self.change(action))

    def embed(self, state):
        return state.values

    def forward(self, batch):
        predicted = self.step(self.encode(batch.obs), batch.action).values
        return (predicted - self.encode(batch.next_obs).values).square().mean(), {}


def test_a_model_with_states_and_actions_of_its_own_passes():
    assert check_model(Good()) == []


@pytest.mark.parametrize("name", METHODS)
def test_all_methods_pass(name):
    assert check_model(name) == []


class Noisy(Good):
    def encode(self, pictures, privileged=None):
        return super().encode(pictures).map(lambda values: values + torch.randn_like(values))


class Ordered(Good):
    def encode(self, pictures, privileged=None):
        return super().encode(pictures).map(lambda values: values + torch.arange(len(values))[:, None])


class Normalised(Good):
    def encode(self, pictures, privileged=None):
        return super().encode(pictures).map(lambda values: values - values.mean(dim=0))


class Reader(Good):
    def encode(self, pictures, privileged=None):
        ids = 0 if privileged is None else privileged.object_ids.sum(dim=1, keepdim=True)
        return super().encode(pictures).map(lambda values: values + ids)


class Darkening(Good):
    def encode(self, pictures, privileged=None):
        state = super().encode(pictures)
        pictures.zero_()
        return state


class Reusing(Good):
    def encode(self, pictures, privileged=None):
        values = super().encode(pictures).values
        if not hasattr(self, "room") or self.room.shape != values.shape:
            self.room = torch.empty_like(values)
        self.room.copy_(values)
        return Vector(self.room)


class Remembering(Good):
    def encode(self, pictures, privileged=None):
        state = super().encode(pictures)
        self.seen = state.values.mean()
        return state

    def step(self, state, action):
        return super().step(state, action).map(lambda values: values + self.seen)


class Bytes(Good):
    def encode(self, pictures, privileged=None):
        return Vector(self.encoder(pictures.flatten(1).float()))


class Bare(Good):
    def encode(self, pictures, privileged=None):
        return super().encode(pictures).values


class Overwriting(Good):
    def step(self, state, action):
        state.values.add_(self.change(action))
        return state


class Deaf(Good):
    def step(self, state, action):
        return super().step(state, torch.tensor([2, 1, 0])[action].clamp(max=2))


class Infinite(Good):
    def embed(self, state):
        return state.values / 0


class Shapeless(Good):
    def embed(self, state):
        return state.values[:, None]


class ByPlace(Good):
    metric = Metric(lambda a, b: euclidean(a, b) + torch.arange(b.shape[-2]))


class ByPool(Good):
    metric = Metric(lambda a, b: euclidean(a, b) / b.shape[-2])


class NoLoss(Good):
    def forward(self, batch):
        return torch.zeros(()), {}


class Peeking(Good):
    def forward(self, batch):
        loss, logs = super().forward(batch)
        return loss if batch.privileged is None else 2 * loss, logs


class Flat(Good):
    def masks(self, pictures):
        return torch.zeros(len(pictures), 3, 2)


class Grey(Good):
    def draw(self, state):
        return torch.zeros(len(state), 12, 8)


class Unbound(Good):
    def binding(self, state):
        return torch.full((len(state), 4, 3), 1 / 3)


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        (Noisy, "encode: keeps state between calls"),
        (Ordered, "encode: depends on the order"),
        (Normalised, "encode: depends on the other rows"),
        (Reader, "encode: reads object ids; declare privileged"),
        (Darkening, "encode: modifies its input"),
        (Reusing, "encode: overwrites a result"),
        (Remembering, "step: keeps state between calls"),
        (Bytes, "encode: gives other states for the same pictures as floats"),
        (Bare, "encode: must give a howm.State, got Tensor"),
        (Overwriting, "step: modifies its input"),
        (Deaf, "step: raises IndexError"),
        (Infinite, "embed: gives NaN or infinity"),
        (Shapeless, "embed: must give a tensor of shape"),
        (ByPlace, "metric: depends on the order of the references"),
        (ByPool, "metric: depends on more than its own pair"),
        (NoLoss, "forward: must give a finite scalar loss"),
        (Peeking, "forward: reads the object ids"),
        (Flat, "masks: must give a tensor of shape"),
        (Grey, "draw: must give a tensor of shape"),
        (Unbound, "rebind: raises HowmError"),
    ],
)
def test_each_breach_is_found(broken, line):
    found = check_model(broken())
    assert any(one.startswith(line) for one in found), found
    assert all("\n" not in one for one in found)
    if broken not in (Normalised, Darkening, Bare, Deaf, Infinite):  # which break more than one rule
        assert len(found) == 1, found


def test_checking_leaves_the_model_and_the_generator_alone():
    model = Good()
    model.encoder.eval()
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    check_model(model)
    assert torch.equal(torch.rand(3), expected)
    assert (model.training, model.encoder.training) == (True, False)


def test_a_model_of_an_unknown_world_needs_a_spec():
    model = Good()
    model.spec = None
    with pytest.raises(HowmError, match="give check_model a spec"):
        check_model(model)
    assert check_model(model, SPEC) == []


class Blobs(Extractor):
    @dataclass(frozen=True)
    class Config:
        size: int = 4

    def __init__(self, spec, config):
        super().__init__()
        self.slot_size, self.num_slots, self.spec = config.size, spec.k, spec
        pixels = spec.height * spec.width
        self.down = nn.Linear(3 * pixels, spec.k * config.size)
        self.up = nn.Linear(config.size, 4 * pixels)

    def slots(self, pictures):
        pictures = pictures.float() / 255 if pictures.dtype == torch.uint8 else pictures
        return self.down(pictures.flatten(1)).view(-1, self.num_slots, self.slot_size)

    def _decode(self, slots):
        return self.up(slots).view(*slots.shape[:2], self.spec.height, self.spec.width, 4)

    def masks(self, slots):
        return self._decode(slots)[..., 3].softmax(dim=1)

    def draw(self, slots):
        return (self._decode(slots)[..., :3].sigmoid() * self.masks(slots).unsqueeze(-1)).sum(dim=1)

    def forward(self, pictures):
        error = (self.draw(self.slots(pictures)) - pictures.float() / 255).square().mean()
        return error, {"reconstruction": error.detach()}


@pytest.mark.parametrize("name", EXTRACTORS)
def test_all_extractors_pass(name):
    assert check_extractor(name) == []


def test_an_extractor_of_ones_own_passes_and_serves_howm():
    assert check_extractor(Blobs, SPEC) == []
    assert check_extractor("test_check:Blobs", SPEC) == []
    from howm.models.registry import build_model
    from howm.runs.config import configure

    settings = {"model": {"hidden": 8, "extractor": {"kind": "test_check:Blobs", "size": 6}, "lift": "claims"}}
    config = configure("howm", "paper", settings).model
    assert (config.extractor.kind, config.extractor.size) == ("test_check:Blobs", 6)
    model = build_model("howm", SPEC, config, 0)
    assert check_model(model) == []
    assert model.frozen_extractor is model.extractor
    with pytest.raises(HowmError, match=r"unknown key model\.extractor\.radius"):
        configure("howm", "paper", {"model": {"extractor": {"kind": "test_check:Blobs", "radius": 6}}})


class NoisyBlobs(Blobs):
    def slots(self, pictures):
        return super().slots(pictures) + torch.randn(())


class Misnumbered(Blobs):
    def slots(self, pictures):
        return super().slots(pictures)[:, :1]


class CellMasks(Blobs):
    def masks(self, slots):
        return super().masks(slots).flatten(2)

    def draw(self, slots):
        return self._decode(slots)[:, 0, :, :, :3].sigmoid()


class Bright(Blobs):
    def draw(self, slots):
        return 255 * super().draw(slots)


class Nowhere(Blobs):
    knows_places = True

    def drawn_at(self, slots):
        return slots[..., :1]


class Faceless(Blobs):
    knows_looks = True

    def look(self, slots, basis=None):
        return slots.flatten(1)


class Lossless(Blobs):
    def forward(self, pictures):
        return super().forward(pictures)[0]


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        (NoisyBlobs, "slots: keeps state between calls"),
        (Misnumbered, "slots: must give a tensor of shape (6, 2, 4)"),
        (CellMasks, "masks: must give a tensor of shape (6, 2, 12, 8)"),
        (Nowhere, "drawn_at: must give a tensor of shape (6, 2, 2)"),
        (Faceless, "look: must give a tensor of shape (6, 2, 8)"),
        (Bright, "draw: must give colours in 0-1"),
        (Lossless, "forward: must give a loss and a dict of logs"),
    ],
)
def test_each_breach_of_an_extractor_is_found(broken, line):
    found = check_extractor(broken, SPEC)
    assert len(found) == 1, found
    assert found[0].startswith(line)
