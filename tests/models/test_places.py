"""Embeddings that begin with the place at which a slot is drawn, and batches whose equal slots are shared."""

import pytest
import torch

import howm
from howm.data.transitions import SlotBatch
from howm.errors import HowmError
from howm.models import howm as module
from howm.models.howm import HOWM
from howm.worlds.spec import WorldSpec


@pytest.fixture(scope="module")
def spec():
    return WorldSpec(6, 3, height=30, width=40)


def build(spec, **settings) -> HOWM:
    torch.manual_seed(0)
    config = howm.configure("howm", "cpu", {"model": {"hidden": 16, **settings}}).model
    return HOWM(spec, config)


def test_a_place_is_the_mean_of_the_cells_that_a_slot_is_drawn_in(spec):
    extractor = build(spec).extractor.requires_grad_(False)
    slots = torch.randn(5, 16)
    places = extractor.drawn_at(slots)
    for slot, place in zip(slots, places, strict=True):
        share = torch.softmax(extractor.sprite_decoder.where(slot), dim=0).view(3, 4)
        row = sum(float(share[r].sum()) * (r - 1) for r in range(3))
        column = sum(float(share[:, c].sum()) * (c - 1.5) for c in range(4))
        torch.testing.assert_close(place, torch.tensor([row, column]))


def test_embeddings_begin_with_the_place_in_units_of_sigma(spec):
    model = build(spec, sigma=3.0, embedding=5)
    slots = torch.randn(2, 4, 16)
    state = model.encode_slots(slots)
    assert state.slots.shape == (2, 4, 5)
    torch.testing.assert_close(state.slots[..., :2], 6 * model.extractor.drawn_at(slots))
    assert build(spec, places=False, embedding=5).embedding[-1].out_features == 5


def test_extractors_without_places_learn_the_whole_embedding(spec):
    model = build(spec, extractor={"kind": "slot_attention"}, embedding=5)
    assert not model.places
    assert model.embedding[-1].out_features == 5


def test_an_embedding_that_has_room_for_a_place_alone_is_refused():
    with pytest.raises(HowmError, match="embedding must be 3 or more"):
        howm.configure("howm", "cpu", {"model": {"embedding": 2}})


@pytest.mark.parametrize("compete", ["objects", "slots"])
def test_equal_slots_are_computed_once_with_the_same_loss_and_gradients(spec, compete, monkeypatch):
    other = {"lift": "attention", "identity_loss_weight": 0.0} if compete == "slots" else {}
    model = build(spec, compete=compete, **other).train()
    kinds = torch.randn(9, 16)
    frames = kinds[torch.randint(9, (3, 20, 4))]
    batch = SlotBatch(frames[0], torch.randint(24, (20,)), frames[1], frames[2])
    losses = []
    for shared in (True, False):
        if not shared:
            monkeypatch.setattr(module, "shared_rows", lambda slots: None)
        model.zero_grad()
        loss, _ = model(batch)
        loss.backward()
        losses.append([loss.detach()] + [p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert len(losses[0]) == len(losses[1]) > 20
    for one, two in zip(*losses, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-5)
