"""HOWM where objects lie anywhere: chosen by the data, trained, resumed, measured and drawn as on a grid."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import howm
from howm import Transitions, make_dataset
from howm.data.dataset import Amounts, Dataset
from howm.data.storage import save_dataset
from howm.errors import HowmError
from howm.experiments.plan import SweepConfig, Variant
from howm.models.check import check_extractor, check_model
from howm.models.extractors.anchors import Anchors
from howm.models.registry import METHODS, build_model
from howm.models.structured import acting_shares, hardened
from howm.runs.checkpoint import load_checkpoint
from howm.runs.config import RunConfig, TrainConfig, configure
from howm.training.run import train_run
from howm.worlds.spec import WorldSpec

FREE, GRID = WorldSpec(6, 3, 50, 50, None), WorldSpec(6, 3)
AMOUNTS = Amounts(train_episodes=30, train_steps=8, eval_episodes=40, eval_steps=3)
PHASE = {"steps": 4, "batch": 8, "warmup": 0, "check_every": 2, "log_every": 1}
TINY = {
    "model": {"hidden": 8, "attention": 4, "extractor": {"hidden": 8, "candidates": 8}},
    "represent": PHASE,
    "train": PHASE,
}
SETTINGS = ["model.hidden=8", "model.extractor.hidden=8"] + [
    f"{group}.{key}={value}" for group in ("represent", "train") for key, value in PHASE.items()
]


@pytest.fixture(scope="module")
def data() -> Dataset:
    return make_dataset("free", 6, 3, amounts=AMOUNTS)


def tiny(**extractor: object) -> RunConfig:
    return configure("howm", "cpu", TINY, {"model": {"extractor": extractor}}, spec=FREE)


def weights(run: Path, which: str) -> dict[str, torch.Tensor]:
    return load_checkpoint(run / f"{which}.safetensors").weights()


def test_the_world_chooses_the_extractor_unless_a_person_does() -> None:
    def chosen(spec: WorldSpec | None, *overrides: dict) -> tuple[str, str, float]:
        config = configure("howm", "cpu", *overrides, spec=spec)
        return config.model.extractor.kind, config.model.state, config.train.still

    def kind(name: str) -> dict:
        return {"model": {"extractor": {"kind": name}}}

    on_grid, free = ("proposals", "embedding", 0.0), ("anchors", "structured", 0.3)
    assert chosen(None) == chosen(GRID) == on_grid
    assert chosen(FREE) == free
    assert chosen(GRID, kind("anchors")) == chosen(FREE, kind("proposals"), kind("anchors")) == free
    assert chosen(FREE, kind("proposals")) == on_grid
    assert configure("howm-paper", "cpu", spec=FREE) == configure("howm-paper", "cpu")


def test_sweeps_choose_by_the_world_and_by_the_variant() -> None:
    variant = Variant("howm-anchors", "howm", ("model.extractor.kind=anchors",))
    config = SweepConfig(("howm",), (variant,), ("shapes", "free"), (6,), (), 3, seeds=(0,), budget="quick")
    found = {(run.world, run.method): config.run_config(run) for run in config.runs()}
    lengths = {key: (made.model.extractor.kind, made.represent.steps) for key, made in found.items() if made.represent}
    assert lengths == {
        ("shapes", "howm"): ("proposals", 150),
        ("shapes", "howm-anchors"): ("anchors", 300),
        ("free", "howm"): ("anchors", 300),
        ("free", "howm-anchors"): ("anchors", 300),
    }
    several = SweepConfig(("howm",), (), ("free",), (6,), (), "2-4", seeds=(0,), budget="quick")
    assert [several.run_config(run).model.extractor.presence for run in several.runs()] == ["prior"]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"state": "structured", "lift": "attention"}, "state=structured needs lift=claims"),
        ({"state": "structured", "joint": True}, "state=structured needs lift=claims and joint=false"),
        ({"state": "both"}, "model.state=both is not one of embedding, structured"),
        ({"structured": {"rounds": 0}}, "model.structured.rounds must be 1 or more, got 0"),
        ({"structured": {"linear_from": 0}}, "linear_from must be above 0"),
        ({"extractor": {"code": 2}}, "model.extractor.code must be 3 or more, got 2"),
        ({"extractor": {"compose": "glue"}}, "model.extractor.compose=glue is not one of add, depth"),
        ({"extractor": {"slot": 16}}, "unknown key model.extractor.slot"),
    ],
)
def test_unusable_settings_are_refused(model: dict, words: str) -> None:
    with pytest.raises(HowmError) as error:
        configure("howm", "cpu", {"model": model}, spec=FREE)
    assert words in str(error.value).replace("'", "")


def test_a_structured_state_needs_slots_with_positions() -> None:
    with pytest.raises(HowmError, match="state=structured needs slots with positions, which proposals does not have"):
        build_model("howm", GRID, configure("howm", "cpu", {"model": {"state": "structured"}}).model, 0)
    for share in (-0.1, 1.5):
        with pytest.raises(HowmError, match=r"still must be in \[0, 1\]"):
            TrainConfig(still=share)


def test_the_contract_is_kept() -> None:
    assert check_extractor("anchors", FREE) == []
    assert check_model("howm", FREE) == []
    assert isinstance(METHODS["howm"].build(FREE, tiny().model).extractor, Anchors)


def test_the_parts_of_an_embedding_also_work_on_anchors() -> None:
    config = configure("howm", "cpu", TINY, {"model": {"state": "embedding"}}, spec=FREE).model
    assert check_model(build_model("howm", FREE, config, 0)) == []


def test_only_positions_are_predicted_and_absent_objects_stay_absent(data: Dataset) -> None:
    model = build_model("howm", FREE, tiny().model, 0).eval()
    pictures = torch.from_numpy(data.eval.observe(np.arange(5), 0))
    state = model.encode(pictures)
    after = model.step(state, torch.arange(5))
    assert model.extractor is not None
    layout = model.extractor.layout
    assert layout is not None
    kept = torch.ones(layout.size, dtype=torch.bool)
    kept[layout.position] = False
    assert torch.equal(after.slots[..., kept], state.slots[..., kept])
    assert not torch.equal(after.slots, state.slots)
    assert torch.equal(after.slots[:, -1], state.slots[:, -1])
    rows = model.embed(state).view(5, 6, 3)
    assert ((rows == 0).all(dim=2).sum(dim=1) >= 3).all()
    more = model.for_scene_size(4)
    assert more.encode(pictures).slots.shape == (5, 5, layout.size)


def test_of_several_slots_that_move_the_one_acted_that_claims_to_be_the_actor() -> None:
    moved = torch.tensor([[4.0, 0.0, 0.0], [4.0, 4.0, 0.0], [4.0, 4.0, 0.0], [0.0, 0.0, 0.0]])
    alike, sure = [-2.0, -2.0, -2.0], [-5.0, -0.1, -0.1]
    shares = acting_shares(moved, torch.tensor([sure, alike, sure, alike]))
    assert shares[0].argmax() == 0  # what did not move did not act, whatever it claims
    torch.testing.assert_close(shares[1, 0], shares[1, 1])
    assert shares[2, 1] > 0.9
    assert shares[3].max() < 1e-3
    assert shares.sum(dim=1).max() < 1


def test_actions_that_mostly_go_to_one_slot_go_there_alone_and_keep_their_gradient() -> None:
    bound = torch.tensor([[[0.7, 0.0], [0.3, 0.0]], [[0.0, 0.5], [0.0, 0.5]]], requires_grad=True)
    found = hardened(bound)
    assert found.tolist() == [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.5], [0.0, 0.5]]]
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0]).view(1, 2, 2)
    (found * weight).sum().backward()
    torch.testing.assert_close(bound.grad, weight.expand(2, -1, -1))


def test_still_transitions_are_those_whose_pictures_are_equal(data: Dataset) -> None:
    transitions = Transitions(data.train)
    index = transitions.index(np.arange(len(transitions)), np.random.default_rng(0))
    same = (transitions.pictures(index.obs) == transitions.pictures(index.next_obs)).flatten(1).all(dim=1)
    assert np.array_equal(np.flatnonzero(same), transitions.still)
    assert 0 < len(transitions.still) < len(transitions) / 2


@pytest.mark.parametrize("stop", [3, 5])
def test_a_killed_run_resumes_bit_for_bit(data: Dataset, tmp_path: Path, stop: int, monkeypatch) -> None:
    from howm.training.loop import Trainer

    config, update = tiny(count="infer"), Trainer._update
    train_run(config, data, tmp_path / "whole")

    def killed(trainer: Trainer) -> dict[str, float]:
        if trainer.step == stop:
            raise KeyboardInterrupt
        return update(trainer)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_update", killed)
        with pytest.raises(KeyboardInterrupt):
            train_run(config, data, tmp_path / "killed")
    assert train_run(config, data, tmp_path / "killed", resume=True)
    for which in ("last", "best"):
        one, other = (weights(tmp_path / name, which) for name in ("whole", "killed"))
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert one["extractor.gain_threshold"] > 0
    assert "calibrated" in (tmp_path / "whole" / "log.txt").read_text()
    if stop > 4:  # who takes the slots over takes the threshold as well
        train_run(config, data, tmp_path / "again", extractor=str(tmp_path / "whole"))
        other = tiny(count="infer", max_objects=4, refine=0)  # which matter at inference alone
        train_run(other, data, tmp_path / "other", extractor=str(tmp_path / "whole"))
        with pytest.raises(HowmError, match="holds no extractor"):
            train_run(tiny(code=8), data, tmp_path / "smaller", extractor=str(tmp_path / "whole"))
        name = "extractor.gain_threshold"
        assert torch.equal(weights(tmp_path / "again", "best")[name], one[name])


def test_commands_need_no_option_for_a_world_without_a_grid(data: Dataset, tmp_path: Path, capsys: Any) -> None:
    from howm.cli.main import main

    save_dataset(data, tmp_path / "free.h5")
    run = str(tmp_path / "run")
    assert main(["train", "--method", "howm", "--data", str(tmp_path / "free.h5"), "--out", run, "--preset", "cpu",
                 "--set", *SETTINGS]) == 0  # fmt: skip
    model = howm.load(run)
    assert isinstance(model.extractor, Anchors)
    assert main(["eval", run, "--steps", "1", "3", "--episodes", "20", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["config"]["model"]["state"] == "structured"
    assert main(["show", run, "-o", str(tmp_path / "pictures")]) == 0
    assert {path.stem for path in (tmp_path / "pictures").iterdir()} == {"binding", "rollout"}
