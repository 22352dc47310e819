"""The evaluation cannot be fooled: controls, both pools, and a test for each defect of published code."""

import json

import numpy as np
import pytest
import torch

from howm import Metric, Rollouts, SlotState, WorldModel, evaluate, make_dataset
from howm.data.dataset import Amounts
from howm.data.episodes import Episodes
from howm.errors import HowmError
from howm.evaluation.evaluate import CONTROLS
from howm.evaluation.pools import NEAR_MISSES
from howm.models.distance import euclidean

AMOUNTS = Amounts(train_episodes=60, train_steps=20, eval_episodes=700, eval_steps=6)  # 700: no multiple of a chunk


@pytest.fixture(scope="module")
def data():
    return make_dataset("shapes", 7, 3, amounts=AMOUNTS)


class TrueModel(WorldModel):
    """Reads the pictures perfectly: knows sprites and dynamics. What an ideal model would be."""

    def __init__(self, renderer, still=False):
        super().__init__()
        self.renderer, self.still = renderer, still
        self.anchor = torch.nn.Parameter(torch.zeros(1))
        # Whole numbers below 2**53 are exact in float64, so equal pixels and only they have equal sums.
        self.code = torch.randint(1, 10**6, (3 * renderer.cell_pixels**2,), generator=torch.Generator().manual_seed(0))
        self.code = self.code.double()
        self.sprites = torch.from_numpy(renderer.sprites).flatten(1).double() @ self.code  # (N,)
        self.modes = []

    def encode(self, obs, object_ids=None):
        self.modes.append(self.training)
        grid, p = self.renderer.grid, self.renderer.cell_pixels
        cells = obs.view(len(obs), grid.height, p, grid.width, p, 3).transpose(2, 3)
        cells = cells.reshape(len(obs), grid.cell_count, -1).double() @ self.code
        here = (cells[:, :, None] == self.sprites).float()  # (B, cells, N)
        number = torch.arange(1, grid.cell_count + 1).float()
        return SlotState((here * number[:, None]).sum(1)[:, :, None])  # cell + 1, or 0 for an absent object

    def step(self, state, action):
        if self.still:
            return state
        at = state.slots[:, :, 0].long().numpy() - 1
        objects, relative = np.divmod(action.numpy(), 4)
        headings = self.renderer.library.headings
        absent = at[np.arange(len(at)), objects] < 0
        nowhere = -1 - np.arange(at.shape[1])  # absent objects are in nobody's way
        after, _ = self.renderer.grid.move(
            np.where(at < 0, nowhere, at), np.where(absent, -1, objects), (headings[objects] + relative) % 4
        )
        return SlotState(torch.from_numpy(np.where(at < 0, 0, after + 1)).float()[:, :, None])

    def forward(self, batch):
        raise NotImplementedError


@pytest.fixture(scope="module")
def true_scores(data):
    return evaluate(TrueModel(data.world.renderer), Rollouts(data.eval), (1, 3, 6))


def mrr(scores, pool, k):
    return scores[pool][str(k)].mrr


@pytest.mark.parametrize("world", ["shapes", "rush_hour"])
def test_a_true_model_and_the_oracle_score_100(world):
    data = make_dataset(world, 7, 3, amounts=AMOUNTS)
    found = evaluate(TrueModel(data.world.renderer), Rollouts(data.eval), (1, 3, 6))
    for scores in (found.model, found.controls["oracle"]):
        for pool in ("paper", "hard"):
            for k in (1, 3, 6):
                assert mrr(scores, pool, k) == 100.0
                assert scores[pool][str(k)].h1 == 100.0


def test_doing_nothing_fools_the_papers_pool_but_not_the_hard_one():
    data = make_dataset("shapes", 10, 5, amounts=Amounts(100, 2, 2_000, 6))
    found = evaluate(TrueModel(data.world.renderer, still=True), Rollouts(data.eval), (1, 5))
    assert mrr(found.model, "paper", 1) > 85
    assert mrr(found.model, "hard", 1) < 50
    assert mrr(found.model, "hard", 5) < 20
    nothing = found.controls["do_nothing"]
    assert all(mrr(nothing, pool, k) == mrr(found.model, pool, k) for pool in ("paper", "hard") for k in (1, 5))


def test_constant_and_random_controls_score_what_theory_says(data, true_scores):
    from howm.evaluation.metrics import expected_constant_mrr, expected_random_mrr
    from howm.evaluation.ranking import pool_sizes

    rollouts = Rollouts(data.eval)
    states = np.concatenate([data.eval.scene_index[:, None], data.eval.states[:, 3, :, 0]], axis=1)
    labels = np.unique(states, axis=0, return_inverse=True)[1].ravel()
    sizes = pool_sizes(labels, np.arange(len(rollouts)))
    constant, random = true_scores.controls["constant"], true_scores.controls["random"]
    assert mrr(constant, "paper", 3) == pytest.approx(expected_constant_mrr(sizes), rel=1e-12)
    assert mrr(constant, "hard", 3) < mrr(constant, "paper", 3)  # the hard pool is larger
    assert mrr(constant, "hard", 3) > expected_constant_mrr(sizes + 3 + NEAR_MISSES)  # but some near misses repeat
    assert mrr(random, "paper", 3) == pytest.approx(expected_random_mrr(sizes), rel=0.5)


def test_a_constant_encoder_gains_nothing_from_ties(data):
    class Constant(TrueModel):
        def embed(self, state):
            return torch.ones(len(state.slots), 3)

    found = evaluate(Constant(data.world.renderer), Rollouts(data.eval), (1,))
    assert found.model["paper"]["1"] == found.controls["constant"]["paper"]["1"]
    assert mrr(found.model, "paper", 1) < 1


def test_a_model_that_lags_one_step_is_caught(data, true_scores):
    class Lagging(TrueModel):
        """Predicts the state before the last action: compared with frame k-1 it would score 100."""

        def step(self, state, action):
            known = getattr(self, "pending", None)
            self.pending = action
            return state if known is None or len(known) != len(action) else super().step(state, known)

    found = evaluate(Lagging(data.world.renderer), Rollouts(data.eval.select(np.arange(512))), (1,))
    assert found.model["hard"]["1"].h1 < 30


def test_every_query_counts_whatever_the_chunk(data, true_scores):
    model = TrueModel(data.world.renderer, still=True)
    some, others = (evaluate(model, Rollouts(data.eval), (3,), chunk=chunk) for chunk in (97, 700))
    assert some.to_json() == others.to_json()


def test_the_same_seed_gives_the_same_numbers_and_another_seed_other_walks(data):
    model = TrueModel(data.world.renderer, still=True)
    rollouts = Rollouts(data.eval)
    first, again, other = (evaluate(model, rollouts, (6,), seed=seed).to_json() for seed in (0, 0, 1))
    assert first == again
    assert first["model"]["paper"]["6"]["mrr"] == other["model"]["paper"]["6"]["mrr"]
    assert first["model"]["hard"]["6"]["mrr"] != other["model"]["hard"]["6"]["mrr"]


def test_evaluation_runs_in_eval_mode_and_gives_the_mode_back(data):
    model = TrueModel(data.world.renderer).train()
    evaluate(model, Rollouts(data.eval), (1,), controls=False)
    assert not any(model.modes)
    assert model.training


def test_a_models_own_distance_is_used(data):
    class Backwards(TrueModel):
        metric = Metric(lambda predictions, references: -euclidean(predictions, references))

    found = evaluate(Backwards(data.world.renderer), Rollouts(data.eval), (1,), controls=False)
    assert mrr(found.model, "paper", 1) < 1


def imported_pictures(data):
    episodes = data.eval
    index = np.arange(len(episodes))
    pictures = np.stack([episodes.observe(index, t) for t in range(episodes.steps + 1)], axis=1)
    return Episodes(episodes.actions, episodes.scene_ids, pictures=pictures)


def test_imported_pictures_are_evaluated_too(data, true_scores):
    found = evaluate(TrueModel(data.world.renderer), Rollouts(imported_pictures(data)), (1, 3))
    assert mrr(found.model, "paper", 3) == mrr(found.model, "hard", 3) == 100.0
    assert found.model["paper"]["3"] == true_scores.model["paper"]["3"]
    assert "oracle" not in found.controls  # it needs the true states
    assert (found.hard_pool, true_scores.hard_pool) == ("earlier frames only", "near misses")


def test_pools_of_unseen_and_training_scenes_match(data):
    for pool in (data.eval, data.eval_seen):
        assert len(pool) == 700
        assert sorted(np.bincount(pool.scene_index)) == sorted(np.bincount(data.eval.scene_index))


@pytest.mark.parametrize("imported", [False, True])
def test_a_sample_of_queries_has_the_ranks_that_it_has_among_all(data, imported):
    episodes = imported_pictures(data) if imported else data.eval
    model, rollouts = TrueModel(data.world.renderer, still=True), Rollouts(episodes)
    every, some = (evaluate(model, rollouts, (1, 6), queries=count) for count in (None, 90))
    rows = rollouts.episodes.spread(90)
    assert len({*rollouts.scene_index[rows]}) == len({*rollouts.scene_index})
    for pool, by_step in every.ranks.items():
        for k, ranks in by_step.items():
            assert np.array_equal(some.ranks[pool][k], ranks[rows])
    assert 0 < mrr(some.model, "hard", 6) < 100
    assert abs(mrr(some.model, "hard", 6) - mrr(every.model, "hard", 6)) < 5


def test_more_queries_than_episodes_are_refused(data):
    with pytest.raises(HowmError, match="queries=701 are more than the 700"):
        evaluate(TrueModel(data.world.renderer), Rollouts(data.eval), (1,), queries=701)


def test_too_many_steps_are_refused(data):
    with pytest.raises(HowmError, match="7 steps"):
        evaluate(TrueModel(data.world.renderer), Rollouts(data.eval), (7,))


def test_bare_episodes_are_to_be_wrapped(data):
    with pytest.raises(HowmError, match=r"Episodes cannot .*wrap it: Rollouts\(episodes\)"):
        evaluate(TrueModel(data.world.renderer), data.eval)


def test_the_result_is_plain_json(true_scores):
    plain = json.loads(json.dumps(true_scores.to_json()))
    assert set(plain["controls"]) == set(CONTROLS)
    assert set(plain["model"]["hard"]["6"]) == {"h1", "h5", "h10", "mrr", "mrr_ci"}
