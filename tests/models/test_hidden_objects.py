"""Objects that hide each other: drawn in depth, remembered over time, compared by what both pictures show."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from howm import make_dataset
from howm.data.dataset import Amounts, Dataset
from howm.data.rollouts import Rollouts
from howm.errors import HowmError
from howm.evaluation.diagnosis import diagnose
from howm.models.check import check_model
from howm.models.extractors.anchors import Anchors, AnchorsConfig
from howm.models.extractors.layout import SlotLayout
from howm.models.extractors.memory import carry
from howm.models.extractors.placement import Patches, place
from howm.models.extractors.pursuit import pursue
from howm.models.extractors.quality import own_slots
from howm.models.registry import build_model
from howm.models.structured import HIDDEN, seen_distance
from howm.models.world_model import WorldModel
from howm.runs.config import configure
from howm.training.run import train_run
from howm.worlds.registry import make_world
from howm.worlds.spec import WorldSpec

LAYERS = WorldSpec(6, 3, 50, 50, None, overlap=True)
PHASE = {"steps": 2, "batch": 4, "warmup": 0, "check_every": 2, "log_every": 1}
TINY = {
    "model": {"hidden": 8, "attention": 4, "extractor": {"hidden": 8, "candidates": 8}},
    "represent": PHASE,
    "train": PHASE,
}


@pytest.fixture(scope="module")
def data() -> Dataset:
    amounts = Amounts(train_episodes=30, train_steps=4, eval_episodes=20, eval_steps=5)
    return make_dataset("layers", 6, 3, amounts=amounts)


def tiny(**extractor: object) -> WorldModel:
    config = configure("howm", "cpu", TINY, {"model": {"extractor": extractor}}, spec=LAYERS)
    return build_model("howm", LAYERS, config.model, 0).eval()


def test_without_explaining_away_the_most_present_proposals_are_the_slots(data: Dataset) -> None:
    model = tiny(explain_away=False).extractor
    assert isinstance(model, Anchors)
    pictures = torch.from_numpy(data.eval.observe(np.arange(4), 0))
    proposals, _ = model.propose(pictures.permute(0, 3, 1, 2).float() / 255)
    most = proposals.take(proposals.logit.topk(3, dim=1).indices)
    torch.testing.assert_close(model.slots(pictures)[:, :-1, : model.config.code], most.code)


def test_presets_follow_the_traits_of_a_world() -> None:
    def chosen(world: str, **settings: object) -> tuple:
        spec = make_world(world, 5, **settings).spec(5)
        model = configure("howm", "cpu", spec=spec).model
        if model.state != "structured":
            return (model.extractor.kind,)
        return model.extractor.compose, model.extractor.background, model.structured.rounds > 1

    assert chosen("shapes") == ("proposals",)
    assert chosen("free") == ("add", "learned", False)
    assert chosen("layers") == ("depth", "learned", False)
    assert chosen("textured") == ("add", "picture", False)
    assert chosen("push") == chosen("team") == chosen("free", contact="push") == ("add", "learned", True)
    assert chosen("grand") == ("depth", "picture", True)  # ghosts let others pass
    several = make_dataset("free", 6, range(2, 4), amounts=Amounts(30, 2, 10, 2))
    assert several.spec.varied_count
    assert configure("howm", "cpu", spec=several.spec).model.extractor.presence == "prior"
    on_cells = replace(several.spec, cell_pixels=10)
    assert configure("howm", "cpu", spec=on_cells).model.extractor.kind == "proposals"


def test_blending_is_painting_where_depths_are_far_apart_and_teaches_depth() -> None:
    torch.manual_seed(0)
    rgba, background = torch.rand(3, 4, 4, 6, 6), torch.rand(3, 3, 30, 26)
    rgba[:, :, :3] *= rgba[:, :, 3:]
    patches = place(rgba, 8 + 10 * torch.rand(3, 4, 2), (30, 26))
    depth = torch.stack([torch.randperm(4) * 50.0 for _ in range(3)])
    torch.testing.assert_close(patches.blended(background, depth), patches.painted(background, depth))
    near = torch.zeros(3, 4, requires_grad=True)
    target = patches.painted(background, depth)
    (gradient,) = torch.autograd.grad((patches.blended(background, near) - target).square().sum(), near)
    assert gradient.abs().sum() > 0
    better = near.detach() - 0.1 * gradient
    before, after = ((patches.blended(background, d) - target).square().sum() for d in (near.detach(), better))
    assert after < before


def test_gains_of_hidden_sprites_are_what_painting_them_changes() -> None:
    torch.manual_seed(1)
    rgba, background, pictures = torch.rand(2, 6, 4, 6, 6), torch.rand(2, 3, 30, 26), torch.rand(2, 3, 30, 26)
    rgba[:, :, :3] *= rgba[:, :, 3:]
    patches, depth = place(rgba, 2 + 22 * torch.rand(2, 6, 2), (30, 26)), torch.rand(2, 6)
    chosen, gains = pursue(pictures, background, patches, depth, rounds=4)
    for b in range(2):
        errors = [(pictures[b] - background[b]).square().sum()]
        for count in range(1, 5):
            some = chosen[b : b + 1, :count]
            one = Patches(patches.values[b : b + 1], patches.index[b : b + 1], patches.margin, patches.size).take(some)
            drawn = one.painted(background[b : b + 1], depth[b : b + 1].gather(1, some))
            errors.append((pictures[b] - drawn[0]).square().sum())
        torch.testing.assert_close(gains[b], -torch.stack(errors).diff(), atol=1e-3, rtol=1e-4)


def slot(code: int, row: float, present: float = 1.0) -> list[float]:
    return [*([-0.7] * code), 2.6, *([-0.7] * (3 - code)), row, 0.0, 0.0, 1.0] if present else [0.0] * 8


def test_what_was_seen_stays_where_slots_are_left_for_it() -> None:
    layout = SlotLayout(4)
    none = slot(0, 0, 0)
    before = torch.tensor([[slot(0, 1), slot(1, 2), none]])
    now = torch.tensor([[slot(2, 7), slot(0, 3), none]])  # the second is hidden, another one appears
    rows = carry(layout, before, now)
    torch.testing.assert_close(rows, torch.tensor([[slot(2, 7), slot(0, 3), slot(1, 2)]]))
    later = torch.tensor([[slot(1, 8), none, none]])  # it is seen again, and both others are hidden
    torch.testing.assert_close(carry(layout, rows, later), torch.tensor([[slot(1, 8), slot(2, 7), slot(0, 3)]]))
    full = torch.tensor([[slot(2, 7), slot(0, 3), slot(3, 4)]])  # no slot is left
    torch.testing.assert_close(carry(layout, before, full), full)
    torch.testing.assert_close(carry(layout, torch.zeros_like(before), now), now)


def test_a_memory_of_one_frame_is_what_one_frame_shows(data: Dataset) -> None:
    model = tiny(count="infer")
    assert model.extractor is not None
    model.extractor.gain_threshold.fill_(0.5)
    frames = torch.from_numpy(np.stack([data.eval.observe(np.arange(4), t) for t in range(3)], axis=1))
    state = model.encode_frames(frames[:, :1])
    assert state is not None
    torch.testing.assert_close(model.embed(state), model.embed(model.encode(frames[:, 0])))
    later = model.encode_frames(frames)
    assert later is not None
    assert len(later) == 4
    on_grid = WorldSpec(6, 3)
    cells = build_model("howm", on_grid, configure("howm", "cpu").model, 0)
    assert cells.encode_frames(frames) is None
    assert cells.locate(cells.encode(frames[:, 0])) is None


def plain_distance(one: list, other: list) -> float:
    total = 0.0
    for (row, column, here), (other_row, other_column, there) in zip(one, other, strict=True):
        if here and there:
            total += (row - other_row) ** 2 + (column - other_column) ** 2
        elif here or there:
            total += HIDDEN**2
    return total**0.5


def test_hidden_objects_say_little_against_two_states_being_the_same() -> None:
    torch.manual_seed(0)
    states = torch.randn(9, 4, 3, dtype=torch.float64)
    states[..., 2] = 4.0 * (torch.rand(9, 4) < 0.6)
    states *= states[..., 2:] > 0
    flat = states.flatten(1)
    found = seen_distance(flat[:4], flat[4:])
    expected = [[plain_distance(one, other) for other in states[4:].tolist()] for one in states[:4].tolist()]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    apart = seen_distance(flat[:4].view(2, 2, -1), flat[:6].view(2, 3, -1))
    torch.testing.assert_close(apart[0], seen_distance(flat[:2], flat[:3]))
    assert check_model("howm", LAYERS) == []


def test_a_trained_model_can_be_asked_to_count(data: Dataset) -> None:
    model = tiny(count="given")
    assert model.extractor is not None
    model.extractor.gain_threshold.fill_(1e9)
    pictures = torch.from_numpy(data.eval.observe(np.arange(4), 0))
    counting = model.inferring_count(5)
    assert not counting.embed(counting.encode(pictures)).any()
    assert model.embed(model.encode(pictures)).any()
    assert counting.extractor is not None
    assert counting.extractor.num_slots == 6
    with pytest.raises(HowmError, match="HOWM cannot infer how many objects"):
        build_model("howm", WorldSpec(6, 3), configure("howm", "cpu").model, 0).inferring_count(5)


def test_two_slots_never_stand_for_the_same_object(data: Dataset) -> None:
    model = tiny()
    pictures = torch.from_numpy(data.eval.observe(np.arange(20), 0))
    state = model.encode(pictures)
    assert isinstance(state.lift, torch.Tensor)
    assert state.lift.sum(dim=2).max() <= 1
    assert state.lift.sum(dim=1).max() <= 1


def test_objects_that_are_nearly_hidden_do_not_count(data: Dataset) -> None:
    world, ids, states = data.train.state()
    masks, visible = (f(ids, states[:, 0]) for f in (world.countable_masks, world.visible))
    assert masks is not None
    assert visible is not None
    assert ((masks.any(axis=(2, 3))) == (visible >= 0.25)).all()
    assert (visible < 0.25).any()
    holder = torch.tensor([[0, 1, -1], [2, 2, 3], [0, 1, 2]])
    assert own_slots(holder, 3).tolist() == [True, True, False, False, False, True, True, True]


def test_the_diagnosis_says_how_far_off_objects_are(data: Dataset) -> None:
    found = diagnose(tiny(), Rollouts(data.eval), steps=2)
    _, _, states = data.eval.state()
    for k in (1, 5):
        moved = 50 * np.linalg.norm(states[:, k] - states[:, 0], axis=2).mean()
        assert found.position_error[f"idle_{k}"] == pytest.approx(moved, rel=1e-4)
        assert found.position_error[f"after_{k}"] >= 0
    assert found.visible_objects is not None
    assert set(found.memory) == {"one_frame", "5_frames"}


def test_objects_can_be_found_without_their_number_and_in_pairs_of_frames(data: Dataset, tmp_path) -> None:
    extractor = {"presence": "prior", "presence_cost": 2e-3, "pairs": True}
    config = configure("howm", "cpu", TINY, {"model": {"extractor": extractor}}, spec=data.spec)
    assert train_run(config, data, tmp_path / "run")
    model = Anchors(LAYERS, AnchorsConfig(hidden=8, presence="prior", presence_cost=2e-3, pairs=True, candidates=8))
    pictures = torch.from_numpy(data.train.observe(np.arange(6), 0))
    loss, logs = model(torch.cat([pictures, pictures]))
    torch.testing.assert_close(logs["pairs"], logs["reconstruction"])  # the codes of the same picture are the same
    assert loss > logs["reconstruction"]
    assert model.calibrate(pictures) is None
    assert 1 / 4 <= model.gain_threshold / (2e-3 * 3 * 50 * 50) <= 4
    with pytest.raises(HowmError, match="presence_cost must be above 0"):
        AnchorsConfig(presence_cost=0)
    joint = configure("howm", "cpu", {"model": {"joint": True, "state": "embedding", "extractor": {"pairs": True}}},
                      spec=LAYERS)  # fmt: skip
    with pytest.raises(HowmError, match="joint=true has no pairs of frames"):
        build_model("howm", LAYERS, joint.model, 0)
