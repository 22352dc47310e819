"""Proposition 4.1 on enumerated libraries: what it claims, what its proof's steps give, and what does hold."""

import itertools
import json
from functools import lru_cache

import numpy as np
import plain_world
import pytest
from hypothesis import given, settings
from strategies import seeds, worlds

from howm.errors import HowmError
from howm.theory.checks import check_binding, check_model
from howm.theory.homomorphism import (
    Homomorphism,
    ascending,
    by_position,
    find_projection,
    induce,
    keep_scene,
    mirrored,
    perturb,
    spread,
    symmetrise,
)
from howm.theory.library import TabularLibrary
from howm.theory.proposition import check_proposition
from howm.worlds.grid import Grid
from howm.worlds.library import KINDS, ObjectLibrary

C = 6  # scenes of 2 objects of 4
few = settings(max_examples=8)


@lru_cache
def tabular(world: str) -> tuple[TabularLibrary, Homomorphism]:
    table = TabularLibrary(ObjectLibrary.make(world, 4))
    return table, ascending(table)


def one_bar(table: TabularLibrary, h: Homomorphism) -> list[int]:
    return [g for g, bars in enumerate(find_projection(table, h)) if len(set(bars.tolist())) == 1]


# --- The tables ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", KINDS)
def test_the_table_is_the_plain_worlds_dynamics(world: str) -> None:
    table = TabularLibrary(ObjectLibrary.make(world, 3), 2, Grid(1, 3))
    assert table.true_model.shape == (18, 12, 18)
    for state, action in itertools.product(range(18), range(12)):
        (after,) = np.flatnonzero(table.true_model[state, action])
        ids = table.scene_ids[state].tolist()
        actor, relative = divmod(action, 4)
        expected, _ = plain_world.move(
            1,
            3,
            [(0, cell) for cell in table.cells[state].tolist()],
            ids.index(actor) if actor in ids else -1,
            (int(table.library.headings[actor]) + relative) % 4,
        )
        assert table.scene_ids[after].tolist() == ids
        assert [(0, cell) for cell in table.cells[after].tolist()] == expected


@pytest.mark.parametrize("world", KINDS)
def test_fibres_have_one_state_in_each_scene(world: str) -> None:
    table, h = tabular(world)
    assert len(table.cells) == 72
    check = check_binding(table, h)
    assert check.homomorphism
    assert check.projection
    assert check.fibre == (C, C)
    assert check.fibre_in_scene == (1, 1)


def test_ascending_projects_by_the_ranks_of_the_new_ids() -> None:
    table, h = tabular("rush_hour")
    found = find_projection(table, h)
    for g, sigma in enumerate(table.symmetries):
        for state, ids in enumerate(table.scene_ids.tolist()):
            exchanged = sigma.image[ids[0]] > sigma.image[ids[1]]
            assert found[g, state] == int(exchanged)


@pytest.mark.parametrize("world", KINDS)
def test_a_homomorphism_that_does_not_project_is_found_out(world: str) -> None:
    table, _ = tabular(world)
    h = mirrored(table)
    check = check_binding(table, h)
    assert check.homomorphism
    assert not check.projection
    with pytest.raises(HowmError, match="projection property"):
        check_model(table, h, "true", table.true_model)


def test_a_binding_of_the_wrong_actions_is_no_homomorphism() -> None:
    table, h = tabular("shapes")
    alpha = h.alpha.copy()
    alpha[:12] = np.where(alpha[:12] < 8, (alpha[:12] + 4) % 8, 8)  # in one scene, the actions of the other slot
    check = check_binding(table, Homomorphism("wrong", h.phi, alpha))
    assert not check.homomorphism
    assert not check.projection


def test_no_binding_has_one_projected_permutation_for_all_scenes() -> None:
    """Step (3) of the proof would need it: here for all 2^6 ways to bind the objects of each scene to two slots."""
    scenes = list(itertools.combinations(range(4), 2))
    for flips in itertools.product((False, True), repeat=C):
        slots = {scene: scene[::-1] if flip else scene for scene, flip in zip(scenes, flips, strict=True)}

        def exchanged(image: tuple[int, ...], scene: tuple[int, int], slots=slots) -> bool:
            new = tuple(image[i] for i in slots[scene])
            return new != slots[tuple(sorted(new))]

        assert any(
            len({exchanged(image, scene) for scene in scenes}) == 2 for image in itertools.permutations(range(4))
        )


def test_only_the_identity_and_the_reversal_have_one_projected_permutation() -> None:
    table, h = tabular("shapes")
    assert [str(table.symmetries[g]) for g in one_bar(table, h)] == ["()", "(0 3)(1 2)"]


# --- The proposition ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", KINDS)
def test_the_true_dynamics_has_no_error(world: str) -> None:
    table, h = tabular(world)
    check = check_model(table, h, "true", table.true_model)
    assert check.lambda_full == check.lambda_slot == check.leak == check.not_homomorphic == 0
    assert check.verdict == "0 = 0"


@few
@given(worlds, seeds)
def test_spreading_a_slot_model_is_undone_by_inducing_one(world: str, seed: int) -> None:
    table, h = tabular(world)
    rng = np.random.default_rng(seed)
    slot_model = perturb(table, h, rng)
    model = spread(table, h, slot_model, rng.exponential(size=table.true_model.shape))
    np.testing.assert_allclose(model.sum(axis=2), 1)
    induced, residual = induce(table, h, model)
    np.testing.assert_allclose(induced, slot_model, atol=1e-14)
    assert residual < 1e-14


@few
@given(worlds, seeds)
def test_a_model_that_keeps_the_scene_has_the_factor_one_at_samples_and_c_in_expectation(world: str, seed: int) -> None:
    table, h = tabular(world)
    model = spread(table, h, perturb(table, h, np.random.default_rng(seed)), keep_scene(table))
    check = check_model(table, h, "keeps", model)
    assert check.lambda_full > 1e-4
    assert check.equal_1 == 1
    assert check.equal_c == 0
    assert check.max_ratio == pytest.approx(1)
    assert check.ratio == pytest.approx(C)
    assert check.steps == (1, 1, 0)


@few
@given(worlds, seeds)
def test_a_model_that_forgets_the_scene_has_the_factor_c_at_samples(world: str, seed: int) -> None:
    table, h = tabular(world)
    model = spread(table, h, perturb(table, h, np.random.default_rng(seed)), np.ones(table.true_model.shape))
    check = check_model(table, h, "forgets", model)
    assert check.equal_c == 1
    assert check.leak == pytest.approx(1 - 1 / C)
    by_the_proof = check_model(table, h, "forgets", model, one_bar(table, h))
    assert by_the_proof.steps == (1, 1, 1)
    assert by_the_proof.ratio == pytest.approx(C)


@few
@given(worlds, seeds)
def test_a_model_that_leaks_has_bounds_only(world: str, seed: int) -> None:
    table, h = tabular(world)
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=table.true_model.shape) ** 3  # uneven
    model = spread(table, h, perturb(table, h, rng), weights)
    check = check_model(table, h, "leaks", model)
    assert check.bound_leak == 1
    assert check.ratio <= C
    assert max(check.equal_c, check.equal_1) < 0.5
    assert check.bound_c < 1
    one_sign_or_not = check_model(table, h, "leaks", model, one_bar(table, h))
    assert one_sign_or_not.steps[0] == 1
    assert one_sign_or_not.steps[1] < 1
    assert one_sign_or_not.bound_fibre == 1
    assert one_sign_or_not.ratio <= C


def test_no_factor_bounds_the_slot_error_at_a_sample_where_mass_leaves_the_scene() -> None:
    """T̂ exchanges one object for another and puts the two on fixed cells: σ = (0 1) in the scene {0, 1} changes nothing
    at all in the fibre, so λ_full = 0 there, but exchanges the two slots."""
    table, h = tabular("shapes")
    slot_model = np.zeros((12, 9, 12))
    slot_model[:, :, 0] = 1
    shared = (table.scene_ids[:, None, :, None] == table.scene_ids[None, :, None, :]).sum(axis=(2, 3))
    weights = np.broadcast_to((shared == 1).astype(float)[:, None], table.true_model.shape)
    model = spread(table, h, slot_model, weights)
    assert induce(table, h, model)[1] < 1e-12
    exchange = [str(sigma) for sigma in table.symmetries].index("(0 1)")
    check = check_model(table, h, "exchanges", model, [exchange])
    assert check.max_ratio is None
    assert check.bound_fibre < 1
    assert check.bound_c < 1
    assert check.bound_leak == 1
    assert "neither = nor <=" in check.verdict


def test_a_model_that_differs_between_scenes_induces_none() -> None:
    table, h = tabular("shapes")
    model = keep_scene(table) * np.random.default_rng(0).exponential(size=table.true_model.shape)
    check = check_model(table, h, "differs", model / model.sum(axis=2, keepdims=True))
    assert check.not_homomorphic > 0.01
    assert check.ratio < C
    assert "not defined" in check.verdict


def test_a_binding_by_position_projects_and_hides_the_error() -> None:
    table, _ = tabular("shapes")
    h, rng = by_position(table), np.random.default_rng(0)
    binding = check_binding(table, h)
    assert binding.homomorphism
    assert binding.projection
    assert binding.fibre == (2 * C, 2 * C)
    assert binding.fibre_in_scene == (2, 2)
    weights = keep_scene(table) * rng.exponential(size=table.true_model.shape)
    check = check_model(table, h, "keeps", spread(table, h, perturb(table, h, rng), weights))
    assert check.lambda_full > 1e-4
    assert check.lambda_slot == 0


@few
@given(worlds, seeds)
def test_the_corollary_holds_for_the_lift_and_not_for_every_model(world: str, seed: int) -> None:
    table, h = tabular(world)
    rng = np.random.default_rng(seed)
    slot_model = symmetrise(table, perturb(table, h, rng))
    lifted = check_model(table, h, "lift", spread(table, h, slot_model, keep_scene(table)))
    assert lifted.lambda_full < 1e-14
    assert lifted.lambda_slot < 1e-14
    other = check_model(table, h, "other", spread(table, h, slot_model, rng.exponential(size=table.true_model.shape)))
    assert other.lambda_slot < 1e-14
    assert other.lambda_full > 1e-3


@pytest.mark.parametrize(
    ("world", "n", "k", "grid"),
    [("rush_hour", 4, 2, Grid(2, 2)), ("shapes", 4, 3, Grid(1, 4)), ("shapes", 3, 1, Grid())],
)
def test_the_report_says_what_was_found(world: str, n: int, k: int, grid: Grid) -> None:
    report = check_proposition(world, n, k, grid)
    text = str(report)
    by_name = {(check.model, check.replacements): check for check in report.models}
    assert by_name["true dynamics", "all"].verdict == "0 = 0"
    assert report.corollary[0].lambda_full < 1e-14
    assert "Corollary" in text
    assert "holds." in text
    if k > 1:
        assert "λ_slot = λ_full at every sample" in by_name["keeps the scene", "all"].verdict
        assert "λ_slot = C λ_full at every sample" in by_name["forgets the scene", "all"].verdict
        assert "not equal" in by_name["forgets it, unevenly", "one σ̄"].verdict
        assert "both signs" in by_name["leaks at random", "one σ̄"].verdict
        assert by_name["keeps the scene", "all"].counterexample in text
    plain = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert [check["verdict"] for check in plain["models"]] == [check.verdict for check in report.models]


@pytest.mark.parametrize(
    ("n", "k", "grid", "reason"),
    [
        (4, 2, Grid(9, 9), "too many"),
        (9, 1, Grid(1, 2), "too many"),
        (2, 3, Grid(), "k=3"),
        (3, 2, Grid(1, 1), "room|fit"),
    ],
)
def test_what_cannot_be_enumerated_is_refused(n: int, k: int, grid: Grid, reason: str) -> None:
    with pytest.raises(HowmError, match=reason):
        TabularLibrary(ObjectLibrary.make("shapes", n), k, grid)
