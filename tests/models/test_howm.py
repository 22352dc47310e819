"""HOWM: extractors, Action Attention, lifts, the Aligned Loss, the two phases, and the diagnosis."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import one_hot

import howm
from howm import Rollouts, Transitions, WorldSpec, evaluate, fit, make_dataset
from howm.cli.main import main
from howm.data.dataset import Amounts
from howm.data.episodes import PARTS
from howm.data.formats.cswm import export_cswm, import_cswm
from howm.data.storage import save_dataset
from howm.draw.figures import figures, save_figure
from howm.errors import HowmError
from howm.evaluation.diagnosis import OracleBinding, diagnose
from howm.evaluation.episodes import fresh_episodes
from howm.evaluation.run import evaluate_run
from howm.models.align import RIDGE, lifting, matched_slots, transport
from howm.models.binding import Binding, LearnedKeys, bind, unmatched_share
from howm.models.cells import cell_masks_to_pixels, join_cells, split_cells, unit
from howm.models.extractors.base import Extractor
from howm.models.extractors.cells import ExtractorConfig
from howm.models.extractors.iterations import SlotAttentionIterations, sinkhorn
from howm.models.extractors.proposals import sigmoid_with_sum
from howm.models.extractors.quality import extraction_accuracy, object_slots
from howm.models.extractors.registry import build_extractor
from howm.models.howm import HOWM
from howm.models.howm_config import HOWMConfig
from howm.models.losses import contrastive, energy
from howm.models.registry import build_model
from howm.runs.checkpoint import load_checkpoint
from howm.runs.config import RunConfig, configure
from howm.runs.locate import find_checkpoint, rebuild, shipped
from howm.runs.record import Costs
from howm.training.run import train_run
from howm.worlds.grid import Grid

KINDS = ({"kind": "proposals"}, {"kind": "balanced"}, {"kind": "slot_attention"}, {"decoder": "sprites"})
AMOUNTS = Amounts(train_episodes=60, train_steps=10, eval_episodes=60, eval_steps=5)
TINY = {
    "model": {"hidden": 16, "extractor": {"hidden": 16, "features": 16}},
    "represent": {"steps": 8, "batch": 16, "check_every": 4, "log_every": 2},
    "train": {"steps": 8, "batch": 16, "check_every": 4, "log_every": 2},
}


def tiny(method="howm", **groups):
    return configure(method, "cpu", TINY, groups)


@pytest.fixture(scope="module")
def data():
    return make_dataset("shapes", 6, 3, amounts=AMOUNTS)


def pictures(dataset, count=20):
    frames = np.arange(count)
    return torch.from_numpy(dataset.train.observe(frames, 0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("grid", "k", "pixels"), [((4, 4), 2, 10), ((5, 5), 5, 6), ((6, 8), 10, 8), ((10, 10), 3, 10)])
def test_extractors_work_for_other_grids_numbers_and_cells(kind, grid, k, pixels):
    data = make_dataset(
        "shapes", 12, k, grid=Grid(*grid), cell_pixels=pixels, amounts=replace(AMOUNTS, train_episodes=120)
    )
    spec = WorldSpec(12, k, grid[0] * pixels, grid[1] * pixels, pixels)
    extractor = build_extractor(spec, ExtractorConfig(**kind, hidden=16, features=16)).eval()
    obs = pictures(data)
    slots = extractor.slots(obs)
    assert slots.shape == (20, k + 1, 16)
    assert torch.equal(slots, extractor.slots(obs))  # no noise at evaluation
    masks = extractor.masks(slots)
    assert masks.shape == (20, k + 1, grid[0] * pixels, grid[1] * pixels)
    assert torch.allclose(masks.sum(dim=1), torch.ones(()), atol=1e-5)
    assert extractor.draw(slots).shape == obs.shape
    loss, logs = extractor.train()(obs)
    loss.backward()
    assert {"reconstruction"} <= set(logs)
    assert {"reconstruction", "sharpness"} <= set(extractor.eval()(obs)[1])
    assert all(parameter.grad is not None for parameter in extractor.parameters())


def test_cells_joined_are_the_picture(data):
    obs = pictures(data)
    assert torch.equal(join_cells(split_cells(obs, 10), 50, 50, 10), obs)


def test_presences_are_conserved_and_their_gradient_is_that_of_the_constraint():
    logits = (3 * torch.randn(4, 25, dtype=torch.float64)).requires_grad_()
    presence = sigmoid_with_sum(logits, 5)
    assert torch.allclose(presence.sum(dim=1), torch.full((4,), 5.0, dtype=torch.float64), atol=1e-9)
    assert torch.autograd.gradcheck(lambda x: sigmoid_with_sum(x, 5), (logits,), eps=1e-5, atol=1e-4)


def test_proposals_of_black_cells_are_shared_and_equal_those_computed_one_by_one(data):
    torch.manual_seed(0)
    extractor = build_extractor(WorldSpec(6, 3), ExtractorConfig("proposals")).double()
    obs = pictures(data).double() / 255
    slots, logits, index = extractor.proposals(obs)
    plain = extractor.propose(extractor.located(obs))
    assert len(slots) == 20 * 3 + 25  # the cells of three objects in twenty pictures, and one black cell at each place
    assert torch.allclose(logits[index], plain[..., -1])
    normalised = torch.nn.functional.layer_norm(plain[..., :-1], (16,))
    assert torch.allclose(slots[index], normalised)
    grey = obs.clamp_min(0.01)  # no cell is black
    assert torch.allclose(
        extractor.proposals(grey)[1][: 20 * 25].view(20, 25), extractor.propose(extractor.located(grey))[..., -1]
    )


def test_sinkhorn_gives_every_cell_away_and_every_slot_its_mass():
    mass = torch.tensor([1.0, 1.0, 1.0, 22.0])
    plan = sinkhorn(torch.randn(3, 4, 25), mass, rounds=100)
    assert torch.allclose(plan.sum(dim=1), torch.ones(3, 25), atol=1e-5)
    assert torch.allclose(plan.sum(dim=2), mass.expand(3, 4), atol=1e-3)


def test_implicit_gradients_are_those_of_the_last_iteration():
    torch.manual_seed(0)
    config = ExtractorConfig(slot=8, features=8, hidden=16, iterations=4, implicit=True)
    implicit = SlotAttentionIterations(config)
    before, last = (SlotAttentionIterations(replace(config, iterations=i, implicit=False)) for i in (3, 1))
    unrolled = SlotAttentionIterations(replace(config, implicit=False))
    for other in (before, last, unrolled):
        other.load_state_dict(implicit.state_dict())
    inputs, begin = torch.randn(5, 9, 8), torch.randn(5, 4, 8, requires_grad=True)
    near = before(inputs, begin).detach().requires_grad_()
    found, expected = implicit(inputs, begin), last(inputs, near)
    torch.testing.assert_close(found, unrolled(inputs, begin))
    torch.testing.assert_close(found, expected)
    gradients = torch.autograd.grad(found.square().sum(), [begin, *implicit.parameters()])
    wanted = torch.autograd.grad(expected.square().sum(), [near, *last.parameters()])
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(gradients, wanted, strict=True))


@pytest.mark.parametrize("world", ["shapes", "rush_hour"])
def test_proposals_find_all_objects_of_unseen_scenes(world):
    data = make_dataset(world, 10, 5, amounts=replace(AMOUNTS, train_episodes=100, train_steps=20))
    torch.manual_seed(0)
    extractor = build_extractor(WorldSpec(10, 5), ExtractorConfig("proposals"))
    optimizer, rng = torch.optim.Adam(extractor.parameters(), lr=2e-3), np.random.default_rng(0)
    found = 0.0
    for step in range(1, 351):
        episode, time = rng.integers(100, size=64), rng.integers(21, size=64)
        loss, _ = extractor(torch.from_numpy(data.train.observe(episode, time)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0 and (found := extraction_accuracy(extractor, data.eval, frames=300)) > 99:
            break
    assert found > 99


def attention(compete, background=True, n=6):
    torch.manual_seed(0)
    return LearnedKeys(WorldSpec(n, 3), 8, torch.nn.Linear(16, 8), compete, background)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("compete", ["slots", "objects"])
@pytest.mark.parametrize("background", [True, False])
def test_rows_of_the_binding_sum_to_one_and_permute_with_the_slots(compete, training, background):
    module = attention(compete, background).train(training)
    slots = torch.randn(5, 4, 16)
    binding = module(slots)
    assert torch.allclose(binding.actions.sum(dim=2), torch.ones(5, 6))
    order = torch.tensor([2, 0, 1, 3])  # the background, where there is one, stays last
    permuted = module(slots[:, order])
    assert torch.allclose(permuted.actions, binding.actions[:, :, order], atol=1e-6)
    assert torch.allclose(permuted.claims, binding.claims[:, :, order], atol=1e-6)
    if compete == "objects":
        claimed = binding.claims.sum(dim=1)
        assert torch.allclose(claimed[:, :-1], torch.ones(5, 3), atol=1e-6)
        assert torch.allclose(claimed[:, -1], torch.full((5,), 0.0 if background else 1.0), atol=1e-6)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("compete", ["slots", "objects"])
@pytest.mark.parametrize("background", [True, False])
def test_told_actions_are_those_of_the_whole_binding(compete, training, background):
    binding = attention(compete, background).train(training)(3 * torch.randn(24, 4, 16))
    action = torch.arange(24)
    assert torch.equal(binding.bound_actions(action), bind(binding.actions, action, 4))


def test_action_attention_is_the_papers_formula():
    module = attention("slots")
    slots = torch.randn(2, 4, 16)
    keys, queries = module.keys, module.query(slots)
    for b in range(2):
        logits = keys @ queries[b].t() / math.sqrt(8)
        assert torch.allclose(module(slots).actions[b], logits.softmax(dim=1), atol=1e-6)


def test_objects_whom_no_slot_claims_go_to_the_background():
    module = attention("objects").eval()
    sure = (
        50 * one_hot(torch.tensor([[0, 2, 4, 5]]), 8).float()
    )  # slots that are sure to be 0, 2, 4; the last is nobody
    module.query, module.keys.data = torch.nn.Identity(), torch.eye(6, 8)
    rows = module(sure).actions[0]
    assert rows.argmax(dim=1).tolist() == [0, 3, 1, 3, 2, 3]
    trained = module.train()(sure).actions[0]
    assert (trained[:, 3] == 0).all()  # never offered in training


def test_the_slot_that_is_not_found_again_has_changed():
    slots = torch.randn(2, 4, 16)
    following = slots[:, [3, 1, 0, 2]].clone()
    following[0, 2] += 3  # slot 0 of the first frame moved; nothing of the second did
    shares = unmatched_share(slots, following)
    assert shares[0, 0] > 0.9
    assert shares[0, 1:].max() < 1e-4
    assert shares[1].max() < 1e-4


def test_a_slot_is_misnamed_by_how_little_it_claims_to_be_who_acted():
    claims = torch.tensor([[[0.5, 0.5], [0.1, 0.9]]])  # slot 0 is one or the other, slot 1 is object 1
    binding = Binding(claims.log(), 4)
    assert binding.identity_nll(torch.tensor([2]), torch.tensor([[1.0, 0.0]])).item() == pytest.approx(-math.log(0.5))
    assert binding.identity_nll(torch.tensor([6]), torch.tensor([[0.0, 1.0]])).item() == pytest.approx(-math.log(0.9))
    assert binding.identity_nll(torch.tensor([6]), torch.zeros(1, 2)).item() == 0  # nothing changed, nothing is known


def test_binding_one_action_is_the_product_with_the_whole_binding():
    m = torch.rand(7, 6, 4).softmax(dim=2)
    action = torch.randint(24, (7,))
    whole = torch.einsum("bns,bnd->bsd", m, one_hot(action, 24).float().view(7, 6, 4))
    assert torch.allclose(bind(m, action, 4), whole)


@pytest.mark.parametrize("n", [3, 6])
def test_lifts_of_a_sharp_binding_put_each_slot_into_its_objects_row(n):
    holds = torch.tensor([[2, 0, 1]])  # slot 0 holds object 2, ...
    slots = torch.randn(1, 4, 2)
    slots[:, 3] = 0
    expected = torch.zeros(1, n, 2)
    expected[0, holds[0]] = slots[0, :3]
    scores = (one_hot(holds, n) + 1e-9).log()
    binding = Binding(scores, 4, background=True, background_score=math.log(0.1 / n))
    for lift in ("attention", "claims"):
        assert torch.allclose(lifting(binding, lift) @ slots, expected, atol=1e-6)
    assert torch.allclose((1 + RIDGE) * lifting(binding, "pseudo_inverse") @ slots, expected, atol=1e-6)


def test_the_pseudo_inverse_is_the_regularised_one():
    m = torch.rand(3, 6, 4, dtype=torch.float64).softmax(dim=2)
    eye = torch.eye(4, dtype=torch.float64)
    expected = torch.stack([x @ torch.linalg.inv(x.t() @ x + RIDGE * eye) for x in m])
    assert torch.allclose(lifting(Binding(m.log().transpose(1, 2), 4), "pseudo_inverse"), expected)


@pytest.mark.parametrize("lift", ["attention", "pseudo_inverse", "claims"])
def test_no_lift_passes_gradient_to_the_binding(lift):
    scores = torch.rand(3, 4, 6).log_softmax(dim=2).requires_grad_()
    assert not lifting(Binding(scores, 4, True), lift).requires_grad


def test_slots_are_matched_by_whom_they_claim_to_be():
    one, other = (one_hot(torch.tensor([ids]), 6).float().transpose(1, 2) for ids in ([4, 1, 0], [0, 4, 2]))
    index, weight = matched_slots(one, other)
    assert weight.tolist() == [[1, 0, 1]]
    assert (index[0, 0], index[0, 2]) == (1, 0)
    assert transport(one, other)[0].tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 0]]


def built(**model):
    config = configure("howm", "cpu", {"model": {"hidden": 16, "extractor": {"hidden": 16}} | model}).model
    return build_model("howm", WorldSpec(6, 3), config, seed=0)


def test_the_aligned_loss_by_hand(data):
    model = built().eval()
    transitions = Transitions(data.train)
    batch = transitions.load(transitions.index(np.arange(8), np.random.default_rng(0)))
    now, then, other = (model.encode(obs) for obs in (batch.obs, batch.next_obs, batch.negative_obs))
    predicted = model.step(now, batch.action)
    k, sigma = 3, model.config.sigma

    def apart(a, b):
        return (model.lifted(a) - model.lifted(b)).square().sum(dim=(1, 2)) / (2 * sigma**2 * k)

    loss, logs = model(batch)
    assert torch.allclose(logs["positive"], apart(predicted, then).mean())
    assert torch.allclose(logs["hinge"], torch.relu(1 - apart(now, other)).mean())
    parts = [logs["positive"], logs["hinge"], model.config.identity_loss_weight * logs["identity"], logs["appearance"]]
    assert torch.allclose(loss, torch.stack(parts).sum())


def test_energy_is_divided_by_the_objects_of_a_scene():
    a, b = torch.randn(4, 6, 2), torch.randn(4, 6, 2)
    assert torch.allclose(energy(a, b, objects=3), 2 * energy(a, b))
    assert torch.allclose(energy(2 * a, 2 * b, sigma=1.0), energy(a, b))
    positive = contrastive(a, b, a, b, 1.0, objects=3)[1]["positive"]
    assert torch.allclose(positive, energy(a, b, objects=3).mean())


def test_gradient_reaches_the_binding_through_the_bound_action_alone(data):
    model = built(identity_loss_weight=0.0, transition="gnn")
    transitions = Transitions(data.train)
    batch = transitions.load(transitions.index(np.arange(8), np.random.default_rng(0)))
    loss, _ = model(batch)
    loss.backward()
    assert model.attention.keys.grad.abs().sum() > 0
    model.zero_grad()
    for parameter in model.transition.node[0].parameters():
        parameter.data[..., 4:8] = 0  # the transition is deaf to actions
    loss, _ = model(batch)
    loss.backward()
    assert model.attention.keys.grad.abs().sum() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_permuting_slots_changes_nothing_in_the_full_mdp(kind, data):
    model = built(extractor={**kind, "hidden": 16}).double().eval()
    slots = model.extractor.slots(pictures(data, 6).double() / 255)
    order = torch.tensor([2, 0, 1, 3])
    action = torch.arange(6) * 4
    one, other = (model.step(model.encode_slots(x), action) for x in (slots, slots[:, order]))
    assert torch.allclose(model.embed(one), model.embed(other), atol=1e-9)
    assert torch.allclose(one.slots[:, order], other.slots, atol=1e-9)


def test_actions_of_absent_objects_change_nothing():
    model = built().eval()
    slots = torch.randn(1, 4, 16)
    state = model.encode_slots(slots)
    nobody = torch.zeros_like(state.binding)
    nobody[:, :, -1] = 1
    after = model.step(replace(state, binding=nobody), torch.tensor([8]))
    still = model.step(replace(state, binding=torch.zeros_like(nobody)), torch.tensor([8]))
    assert torch.equal(after.slots, still.slots)


@pytest.mark.parametrize("method", ["howm", "howm-paper"])
def test_two_phases_in_one_run(method, data, tmp_path):
    assert train_run(tiny(method), data, tmp_path, 0)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "reconstruction" in row] == [2, 4, 6, 8]
    assert [row["step"] for row in rows if "positive" in row] == [10, 12, 14, 16]
    assert rows[-1]["step"] == 16
    assert "every object has a slot of its own" in (tmp_path / "log.txt").read_text()
    assert isinstance(howm.load(tmp_path), HOWM)


def test_the_representation_is_the_best_found_and_then_frozen(data, tmp_path, monkeypatch):
    train_run(tiny(), data, tmp_path, 0)
    monkeypatch.setattr(
        howm.training.loop.Trainer, "_next_phase", lambda self: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        train_run(tiny(), data, tmp_path / "first", 0)
    first, last = (load_checkpoint(run / "best.safetensors").weights() for run in (tmp_path / "first", tmp_path))
    names = [name for name in first if name.startswith("extractor.")]
    assert names
    assert all(torch.equal(first[name], last[name]) for name in names)


@pytest.mark.parametrize(
    ("method", "stop"), [*(("howm", stop) for stop in (3, 8, 9, 12, 13)), ("howm-paper", 13), ("monet-bm", 13)]
)
def test_both_phases_resume_bit_for_bit(method, stop, data, tmp_path, monkeypatch):
    from howm.training.loop import Trainer

    class Killed(BaseException):
        pass

    config = tiny(method) if method != "monet-bm" else configure(method, "cpu", {**TINY, "model": {"hidden": 16}})
    if method == "howm-paper":  # killed while messages fade in
        config = tiny(method, model={"message_warmup": 4})
    train_run(config, data, tmp_path / "whole")
    update = Trainer._update

    def update_until_killed(self):
        if self.step == stop:
            raise Killed
        return update(self)

    monkeypatch.setattr(Trainer, "_update", update_until_killed)
    with pytest.raises(Killed):
        train_run(config, data, tmp_path / "killed")
    monkeypatch.undo()
    torch.manual_seed(1234)  # of another process
    assert train_run(config, data, tmp_path / "killed", resume=True)
    assert (tmp_path / "whole" / "metrics.jsonl").read_text() == (tmp_path / "killed" / "metrics.jsonl").read_text()
    for which in ("best", "last"):
        one, other = (load_checkpoint(tmp_path / run / f"{which}.safetensors").weights() for run in ("whole", "killed"))
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_of_which_only_the_slots_are_trained_is_no_model_yet(data, tmp_path):
    train_run(tiny(), data, tmp_path, minutes=0.0)
    with pytest.raises(HowmError, match="only the extractor"):
        howm.load(tmp_path)


def test_a_model_can_be_fitted_twice(data, tmp_path):
    config = tiny()
    model = build_model("howm", WorldSpec(6, 3), config.model, seed=0)
    for run in ("once", "twice"):
        assert fit(model, data, config, tmp_path / run)


def test_settings_of_the_run_cannot_differ_between_phases(data, tmp_path):
    config = tiny(train={"hold_out": 0.2, "precision": "bf16"})  # said once, of the run
    assert config.represent is not None
    assert (config.represent.hold_out, config.represent.precision) == (0.2, "bf16")
    assert train_run(config, data, tmp_path / "run")
    with pytest.raises(HowmError, match=r"represent.hold_out differs"):
        tiny(represent={"hold_out": 0.2})
    model = build_model("howm", WorldSpec(6, 3), config.model, seed=0)
    with pytest.raises(HowmError, match=r"represent.precision differs"):
        fit(model, data, RunConfig(tiny().train, config.represent), tmp_path / "other")
    with pytest.raises(HowmError, match=r"represent.steps must be 1 or more, got 0"):
        tiny(represent={"steps": 0})


def test_cached_slots_are_the_slots_of_the_pictures(data, tmp_path, monkeypatch):
    train_run(tiny(), data, tmp_path / "cached")
    monkeypatch.setattr(howm.data.frame_cache.FrameCache, "KEEP_BYTES", 0)
    train_run(tiny(), data, tmp_path / "computed")
    one, other = ((tmp_path / run / "metrics.jsonl").read_text() for run in ("cached", "computed"))
    assert one == other


def test_joint_training_trains_the_extractor_too(data, tmp_path):
    assert train_run(tiny(model={"joint": True}), data, tmp_path, 0)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["step"] == 8
    assert all(name in rows[0] for name in ("positive", "reconstruction"))


def test_slots_can_be_trained_alone_for_others_and_gone_on_with(data, tmp_path):
    save_dataset(data, tmp_path / "data.h5")
    alone, whole, other = (tmp_path / name for name in ("alone", "whole", "other"))
    assert train_run(tiny(), data, alone, 1, represent_only=True)
    assert load_checkpoint(alone / "last.safetensors").record.progress.phase == "represent"
    assert "every object has a slot" in (alone / "log.txt").read_text()
    with pytest.raises(HowmError, match="only the extractor"):
        howm.load(alone)
    train_run(tiny(), data, other, 1, extractor=str(alone))
    taken, own = (load_checkpoint(run / "last.safetensors").record for run in (other, alone))
    assert taken.extractor.costs == own.progress.slots != Costs()
    results = evaluate_run(str(other), steps=(1,), data=tmp_path / "data.h5")
    spent = taken.progress.costs.after(own.progress.slots)
    assert results.costs == spent

    assert train_run(tiny(), data, alone, 1, resume=True)
    train_run(tiny(), data, whole, 1)
    one, both = (load_checkpoint(run / "last.safetensors").tensors for run in (alone, whole))
    assert all(torch.equal(one[name], both[name]) for name in both)
    with pytest.raises(HowmError, match="leave out `represent_only`"):
        train_run(tiny(), data, tmp_path / "none", 1, extractor=str(alone), represent_only=True)


def test_an_extractor_is_taken_over_also_from_a_larger_library(data, tmp_path):
    larger = make_dataset("shapes", 60, 3, amounts=AMOUNTS, train_scenes=40)
    other_split = make_dataset("shapes", 6, 3, seed=1, amounts=AMOUNTS)
    train_run(tiny(), larger, tmp_path / "larger", 0)
    train_run(tiny(), data, tmp_path / "smaller", 1, extractor=str(tmp_path / "larger"))
    taken, given = (load_checkpoint(tmp_path / run / "best.safetensors") for run in ("smaller", "larger"))
    names = [name for name in given.weights() if name.startswith("extractor.")]
    assert all(torch.equal(taken.weights()[name], given.weights()[name]) for name in names)
    assert taken.step <= 8  # of one phase
    train_run(tiny(), other_split, tmp_path / "other", 0)
    with pytest.raises(HowmError, match="of the evaluation scenes"):
        train_run(tiny(), data, tmp_path / "leak", 1, extractor=str(tmp_path / "other"))
    # What was taken over once and is taken over again has seen what it saw, whoever hands it on.
    train_run(tiny(), larger, tmp_path / "between", 2, extractor=str(tmp_path / "other"))
    with pytest.raises(HowmError, match="of the evaluation scenes"):
        train_run(tiny(), data, tmp_path / "leak", 1, extractor=str(tmp_path / "between"))
    train_run(tiny(), larger, tmp_path / "again", 2, extractor=str(tmp_path / "smaller"))
    origins = [load_checkpoint(tmp_path / run / "last.safetensors").record.extractor for run in ("smaller", "again")]
    assert origins[0] == origins[1]
    fit(build_model("howm", WorldSpec(6, 3), tiny().model, 0), data, tiny().train, tmp_path / "own")
    with pytest.raises(HowmError, match="model of your own"):
        train_run(tiny(), data, tmp_path / "leak", 1, extractor=str(tmp_path / "own"))
    with pytest.raises(HowmError, match="holds no extractor with"):
        train_run(tiny("howm-paper"), data, tmp_path / "other", 1, extractor=str(tmp_path / "larger"))
    with pytest.raises(HowmError, match="leave out `extractor`"):
        train_run(configure("cswm-n", "cpu"), data, tmp_path / "none", extractor=str(tmp_path / "larger"))


def test_another_number_of_objects_without_retraining(data, tmp_path):
    train_run(tiny(), data, tmp_path / "run", 0)
    checkpoint = load_checkpoint(tmp_path / "run" / "best.safetensors")
    model = rebuild(checkpoint, k=4)
    assert model.encode(pictures(make_dataset("shapes", 6, 4, amounts=AMOUNTS))).slots.shape[1] == 5
    other = make_dataset("shapes", 6, 4, amounts=AMOUNTS)
    save_dataset(other, tmp_path / "other.h5")
    results = evaluate_run(str(tmp_path / "run"), steps=(1,), data=tmp_path / "other.h5")
    assert (results.k, results.unseen) == (4, "all scenes have 4 objects; those of training had 3")
    assert results.controls["oracle"]["paper"]["1"].mrr == 100
    train_run(tiny("howm-paper"), data, tmp_path / "paper", 0)
    with pytest.raises(HowmError, match="scenes of 3 objects and cannot see 4"):
        rebuild(load_checkpoint(tmp_path / "paper" / "best.safetensors"), k=4)


class PerfectSlots(Extractor):
    """An extractor for tests that reads cell and colours off the picture: slot j is the j-th lit cell."""

    has_background, num_slots, slot_size = True, 4, 16

    def slots(self, obs):
        lit = split_cells(unit(obs), 10).amax(dim=2) > 0
        cells = lit.float().topk(3, dim=1).indices
        return torch.cat([cells.float(), torch.full((len(obs), 1), -1.0)], dim=1).unsqueeze(-1).expand(-1, -1, 16)

    def masks(self, slots):
        cells = torch.arange(25).view(1, 1, 25)
        own = (slots[:, :-1, :1] == cells).float()
        every = torch.cat([own, 1 - own.sum(dim=1, keepdim=True)], dim=1)
        return cell_masks_to_pixels(every, WorldSpec(6, 3))

    def draw(self, slots):
        return self.masks(slots)[:, :-1].sum(dim=1).unsqueeze(-1).expand(-1, -1, -1, 3)

    def forward(self, pictures):
        return (self.draw(self.slots(pictures)) - unit(pictures)).square().mean(), {}


def test_holders_and_extraction_accuracy_know_the_truth(data):
    extractor = PerfectSlots()
    obs, cells = pictures(data), torch.from_numpy(data.train.states[..., 0][:20, 0].astype(np.int64))
    slots = extractor.slots(obs)
    truth = torch.from_numpy(data.world.masks(data.train.scene_ids[:20], data.train.states[:20, 0]))
    holder = object_slots(extractor.masks(slots), truth)
    assert torch.equal(slots[..., 0].gather(1, holder).long(), cells)
    assert extraction_accuracy(extractor, data.eval, frames=100) == 100

    class Doubled(PerfectSlots):
        def slots(self, obs):
            slots = super().slots(obs).clone()
            slots[:, 0] = slots[:, 1]  # one object is lost
            return slots

    assert extraction_accuracy(Doubled(), data.eval, frames=100) == 0


def test_the_oracle_binds_each_object_to_its_holder(data):
    model = built(places=False).eval()
    model.extractor = PerfectSlots()
    ids = torch.from_numpy(data.train.scene_ids[:20].astype(np.int64))
    cells = torch.from_numpy(data.train.states[:20, 0, :, 0].astype(np.int64))
    state = OracleBinding(model).encode(pictures(data), Rollouts(data.train).privileged(0, slice(0, 20)))
    rows = state.binding[torch.arange(20).unsqueeze(1), ids]
    assert torch.equal(state.source_slots[..., 0].gather(1, rows.argmax(dim=2)).long(), cells)


def test_the_diagnosis_blames_the_stage_that_is_broken():
    data = make_dataset("shapes", 10, 5, amounts=replace(AMOUNTS, eval_episodes=300, train_episodes=100))
    rollouts = Rollouts(data.eval)
    model = howm.load("howm-shapes-n10")
    whole = diagnose(model, rollouts, steps=3)
    assert whole.hard_mrr["model"] > 99
    assert (whole.extraction, whole.binding) == (100, 100)
    assert whole.pixel_error["predicted"] < 0.01 * whole.pixel_error["first_frame"]
    json.dumps(whole.to_json())

    model.attention.keys.data = model.attention.keys.data.roll(1, dims=0)  # everybody is taken for a neighbour
    bound = diagnose(model, rollouts, steps=3)
    assert bound.binding < 50
    assert bound.lost_to["binding"] > 50
    assert bound.lost_to["transition"] < 1

    model = howm.load("howm-shapes-n10")
    model.transition.node[-1].weight.data.mul_(0.0)  # nothing moves
    still = diagnose(model, rollouts, steps=3)
    assert still.lost_to["transition"] > 50
    assert abs(still.lost_to["binding"]) < 5

    model = howm.load("howm-shapes-n10")
    take = model.extractor.slots
    model.extractor.slots = lambda obs: take(obs)[:, [0, 0, 2, 3, 4, 5]]  # one object is lost, another there twice
    lost = diagnose(model, rollouts, steps=3)
    assert lost.extraction == 0
    assert lost.lost_to["extraction"] is None


def test_hard_binding_sends_each_action_to_one_slot(data):
    model = built(compete="slots", lift="attention", identity_loss_weight=0.0).eval()
    model.hard = True
    binding = model.encode(pictures(data)).binding
    assert torch.equal(binding.sum(dim=2), torch.ones(20, 6))
    assert set(binding.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ({"lift": "claims", "compete": "slots", "identity_loss_weight": 0}, "lift=claims"),
        ({"lift": "attention", "compete": "slots"}, "identity_loss_weight=1.0"),
        ({"identity_loss_weight": -1}, "identity_loss_weight must be 0 or more, got -1"),
        ({"sigma": 0}, "sigma must be above 0, got 0"),
        ({"margin": -1.0}, "margin must be above 0, got -1"),
        ({"extractor": {"slot": 2}}, "model.extractor.slot must be 3 or more, got 2"),
        ({"extractor": {"kind": "magic"}}, "magic"),
        ({"extractor": {"iterations": 0}}, "iterations must be 1 or more, got 0"),
        ({"extractor": {"spread": 0.0}}, "extractor.*spread must be .* got 0.0"),
        ({"message_warmup": -1}, "message_warmup must be 0 or more, got -1"),
    ],
)
def test_bad_configurations_name_the_key(model, named):
    with pytest.raises(HowmError, match=named):
        configure("howm", "cpu", {"model": model})


def test_the_paper_preset_is_the_papers():
    config = configure("howm-paper", "paper")
    assert config.model == HOWMConfig()
    assert config.model.extractor.kind == "slot_attention"
    assert (config.model.extractor.slot, config.model.embedding, config.model.maps) == (16, 4, "linear")
    assert (config.model.lift, config.model.sigma, config.model.hidden) == ("pseudo_inverse", 0.5, 512)
    assert (config.train.lr, config.train.batch) == (5e-4, 1024)


# Episodes, fewer where extraction takes longer, and MRR.
LEAST = {"howm-free-n10": (20, 95), "howm-layers-n10": (20, 80), "howm-push-n10": (20, 95)}


@pytest.mark.parametrize(("name", "episodes", "least"), [(n, *LEAST.get(n, (200, 99))) for n in shipped()])
def test_models_of_the_package_are_nearly_exact_on_fresh_unseen_scenes(name, episodes, least):
    checkpoint = load_checkpoint(find_checkpoint(name))
    chosen = fresh_episodes(checkpoint, 10, seed=11, episodes=episodes)
    scores = evaluate(howm.load(name), Rollouts(chosen.unseen), (5, 10), controls=False).model
    assert min(scores[pool][k].mrr for pool in ("paper", "hard") for k in ("5", "10")) > least


def test_the_package_has_the_models_it_promises():
    beyond = ["howm-free-n10", "howm-layers-n10", "howm-push-n10"]
    assert shipped() == [*beyond, "howm-rush_hour-n20", "howm-shapes-n10", "howm-shapes-n30"]
    assert sum(find_checkpoint(name).stat().st_size for name in shipped()) < 8_000_000


@pytest.mark.parametrize("method", ["howm", "cswm-n", "cswm-k", "cwm-n", "cswm-slots", "monet-bm"])
def test_pictures_are_drawn_of_what_a_run_has_learned(method, data, tmp_path):
    config = tiny(method) if method == "howm" else configure(method, "cpu")
    model = build_model(method, WorldSpec(6, 3), config.model, seed=0)
    drawn = figures(model, data.eval, episode=3, steps=4)
    shown = {"howm": {"binding", "rollout"}, "monet-bm": {"masks", "rollout"}}
    assert set(drawn) == shown.get(method, {"masks"})
    for name, figure in drawn.items():
        save_figure(figure, tmp_path / f"{name}.png")
        picture = np.asarray(Image.open(tmp_path / f"{name}.png"))
        assert picture.std() > 10  # not blank


def test_a_run_on_imported_data_is_shown_with_data(data, tmp_path, capsys):
    for part in PARTS:
        export_cswm(data, part, tmp_path / part)
    imported = import_cswm(*(tmp_path / part for part in PARTS), 6, 3)
    save_dataset(imported, tmp_path / "imported.h5")
    train_run(tiny(), imported, tmp_path / "run", 0)
    show = ["show", str(tmp_path / "run"), "-o", str(tmp_path / "pictures")]
    capsys.readouterr()
    for options, words in (
        ([], "run was trained on imported pictures, whose world is unknown; give --data FILE"),
        (["--data", str(tmp_path / "imported.h5"), "--fresh-seed", "0"], "leave out --data"),
        (["--data", str(tmp_path / "imported.h5"), "--steps", "6"], "give 1 to 5"),
    ):
        assert main([*show, *options]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line
    assert main([*show, "--data", str(tmp_path / "imported.h5")]) == 0
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == ["binding.png", "rollout.png"]


def test_pictures_that_cannot_be_drawn_are_named(data):
    model = built()
    with pytest.raises(HowmError, match="episode 60 does not exist"):
        figures(model, data.eval, 60, 1)
    with pytest.raises(HowmError, match="give 1 to 5"):
        figures(model, data.eval, 0, 6)
    blind = build_model("cswm-n", WorldSpec(6, 3), configure("cswm-n", "cpu").model, seed=0)
    blind.masks = lambda obs: None
    with pytest.raises(HowmError, match="CSWMN can show nothing"):
        figures(blind, data.eval, 0, 5)
