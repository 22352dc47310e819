"""Object replacement is a group action; the true dynamics commutes with it, and λ tells which models do."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import grids, libraries, seeds
from torch import Tensor

from howm.data.dataset import Amounts, Dataset, make_dataset
from howm.data.episodes import Episodes
from howm.data.privileged import Privileged
from howm.errors import HowmError
from howm.evaluation.equivariance import SampleErrors, equivariance_error, permute_slots
from howm.evaluation.rewards import reward_invariance_error
from howm.models.cswm import CSWMConfig
from howm.models.distance import Metric
from howm.models.registry import build_model
from howm.models.world_model import SlotState, WorldModel
from howm.worlds.envs.single import WorldEnv
from howm.worlds.grid import Grid
from howm.worlds.library import KINDS, ObjectLibrary
from howm.worlds.render import Renderer
from howm.worlds.spec import WorldSpec
from howm.worlds.symmetry import Replacement

permutations = st.integers(1, 7).flatmap(lambda n: st.permutations(range(n)).map(tuple))
pairs = st.integers(1, 7).flatmap(lambda n: st.tuples(*[st.permutations(range(n)).map(tuple)] * 2))


# --- The group ----------------------------------------------------------------------------------------------------


def test_the_example_of_the_paper() -> None:
    pi = Replacement.from_cycles(5, (0, 1, 2), (3, 4))  # (1 2 3)(4 5), counted from 0
    assert pi(np.array([2, 3])).tolist() == [0, 4]  # π(3) = 1, π(4) = 5
    assert pi.scene((2, 3)) == (0, 4)  # p_K(π, {3, 4}) = {1, 5}
    assert str(pi) == "(0 1 2)(3 4)"
    assert str(Replacement.identity(5)) == "()"


@given(pairs, seeds)
def test_replacement_is_a_group_action(images: tuple[tuple[int, ...], tuple[int, ...]], seed: int) -> None:
    a, b = map(Replacement, images)
    n, rng = a.n, np.random.default_rng(seed)
    k = int(rng.integers(1, n + 1))
    ids = np.sort(rng.random((4, n)).argsort(axis=1)[:, :k], axis=1)
    cells = Grid(3, 3).place(rng, 4, k)
    actions, headings = rng.integers(4 * n, size=20), rng.integers(4, size=n).astype(np.int8)
    latents = torch.from_numpy(rng.random((2, n, 3)))
    both = a @ b
    assert (both(np.arange(n)) == a(b(np.arange(n)))).all()
    assert both.scene(ids[0]) == a.scene(b.scene(ids[0]))
    for together, apart in zip(both.states(ids, cells), a.states(*b.states(ids, cells)), strict=True):
        assert (together == apart).all()
    for given_headings in (headings, None):
        one_by_one = a.actions(b.actions(actions, given_headings), given_headings)
        assert (both.actions(actions, given_headings) == one_by_one).all()
    assert torch.equal(permute_slots(both, latents), permute_slots(a, permute_slots(b, latents)))
    assert a @ a.inverse == a.inverse @ a == Replacement.identity(n)
    assert Replacement.identity(n).actions(actions, headings).tolist() == actions.tolist()
    assert torch.equal(permute_slots(Replacement.identity(n), latents), latents)


@given(permutations, seeds)
def test_each_object_takes_the_place_of_the_one_it_replaces(image: tuple[int, ...], seed: int) -> None:
    sigma, rng = Replacement(image), np.random.default_rng(seed)
    k = int(rng.integers(1, sigma.n + 1))
    ids, cells = np.sort(rng.random((1, sigma.n)).argsort(axis=1)[:, :k]), Grid(3, 3).place(rng, 1, k)
    new_ids, new_cells = sigma.states(ids, cells)
    places = dict(zip(new_ids[0].tolist(), new_cells[0].tolist(), strict=True))
    assert places == {image[i]: cell for i, cell in zip(ids[0].tolist(), cells[0].tolist(), strict=True)}
    assert new_ids[0].tolist() == list(sigma.scene(ids[0]))
    latents = torch.arange(sigma.n)[None]
    assert permute_slots(sigma, latents)[0, list(image)].tolist() == latents[0].tolist()


def test_random_replacements_are_uniform() -> None:
    rng = np.random.default_rng(0)
    counts = np.unique([Replacement.random(3, rng).image for _ in range(3000)], axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert np.abs(counts - 500).max() < 5 * 500**0.5


@pytest.mark.parametrize(
    "make",
    [
        lambda: Replacement((0, 0)),
        lambda: Replacement((1, 2)),
        lambda: Replacement.from_cycles(3, (0, 1), (1, 2)),
        lambda: Replacement.from_cycles(3, (0, 1, 0)),
        lambda: Replacement.from_cycles(3, (0, 3)),
        lambda: Replacement.identity(2) @ Replacement.identity(3),
    ],
)
def test_what_is_no_replacement_is_refused(make) -> None:
    with pytest.raises(HowmError):
        make()


# --- The worlds ---------------------------------------------------------------------------------------------------


@given(libraries(), grids, seeds)
def test_the_true_dynamics_commutes_with_replacement(library: ObjectLibrary, grid: Grid, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, headings = 30, library.headings
    k = int(rng.integers(1, min(library.n, grid.cell_count) + 1))
    ids = np.sort(rng.random((count, library.n)).argsort(axis=1)[:, :k], axis=1)
    cells, actions = grid.place(rng, count, k), rng.integers(4 * library.n, size=count)  # also of absent objects
    sigma = Replacement.random(library.n, rng)
    new_ids, new_cells = sigma.states(ids, cells)
    after, moved, absent = grid.act(headings, ids, cells, actions)
    new_after, new_moved, new_absent = grid.act(headings, new_ids, new_cells, sigma.actions(actions, headings))
    assert (sigma.states(ids, after)[1] == new_after).all()
    assert (moved == new_moved).all()
    assert (absent == new_absent).all()


@pytest.mark.parametrize("world", KINDS)
def test_without_the_turn_of_headings_rush_hour_does_not_commute(world: str) -> None:
    library, grid, rng = ObjectLibrary.make(world, 4), Grid(), np.random.default_rng(0)
    sigma, headings = Replacement.from_cycles(4, (0, 1), (2, 3)), library.headings
    assert world == "shapes" or headings[0] != headings[1]
    ids, cells, actions = np.tile([0, 2], (200, 1)), grid.place(rng, 200, 2), rng.choice([0, 1, 2, 3], size=200)
    after, _, _ = grid.act(headings, ids, cells, actions)
    unturned, _, _ = grid.act(headings, *sigma.states(ids, cells), sigma.actions(actions))
    assert (sigma.states(ids, after)[1] == unturned).all() == (world == "shapes")


# --- Models -------------------------------------------------------------------------------------------------------

N, K = 6, 3


@pytest.fixture(scope="module", params=KINDS)
def data(request) -> Dataset:
    return make_dataset(request.param, N, K, grid=Grid(4, 4), amounts=Amounts(40, 6, 40, 6))


def untrained(method: str) -> WorldModel:
    return build_model(method, WorldSpec(N, K, 40, 40), CSWMConfig(hidden=16, features=8), seed=0)


def measure(model: WorldModel, episodes: Episodes, seed: int = 0):
    return equivariance_error(model, episodes, np.random.default_rng(seed), samples=96, replacements=12)


def test_the_transition_of_sigma_n_commutes_and_that_of_cwm_does_not(data: Dataset) -> None:
    exact, not_exact = (measure(untrained(method), data.eval) for method in ("cswm-n", "cwm-n"))
    assert exact.transition.relative < 1e-5
    assert exact.transition.sample_lambda().max() == 0
    assert not_exact.transition.relative > 0.1
    assert not_exact.transition.sample_lambda().mean() > 0.9
    assert not_exact.transition.errors.shape == (96,)


def test_an_untrained_encoder_does_not_commute(data: Dataset) -> None:
    report = measure(untrained("cswm-n"), data.eval)
    assert report.encoder.relative > 0.1
    assert report.whole.relative > 0.1
    assert 0 < report.decoded <= 1


def test_with_a_binding_all_error_is_the_encoders(data: Dataset) -> None:
    report = measure(untrained("cswm-k"), data.eval)
    assert report.transition.relative < 1e-5
    assert report.encoder.relative > 0.1


def test_slots_without_a_binding_are_not_in_the_full_mdp(data: Dataset) -> None:
    report = measure(untrained("cswm-k-ca"), data.eval)
    assert report.transition is report.encoder is report.whole is None
    assert report.decoded > 0
    assert "not in the full MDP" in str(report)


class Oracle(WorldModel):
    """Reads positions off the picture and moves objects as the world does. Slots are objects: present, row, column.

    With ``headings`` in its slots it reads an object's heading there; without, it knows it by the object's number.
    """

    privileged = True  # read with ``bound`` alone

    def __init__(self, renderer: Renderer, headings: bool = False, bound: bool = False) -> None:
        super().__init__()
        self.renderer, self.headings, self.bound = renderer, headings, bound

    def encode(self, obs: Tensor, privileged: Privileged | None = None) -> SlotState:
        grid, sprites = self.renderer.grid, self.renderer.sprites
        p = self.renderer.cell_pixels
        tiles = obs.numpy().reshape(len(obs), grid.height, p, grid.width, p, 3).transpose(0, 1, 3, 2, 4, 5)
        slots = torch.zeros(len(obs), len(sprites), 4)
        for i, sprite in enumerate(sprites):
            for frame, row, column in zip(*np.nonzero((tiles == sprite).all(axis=(3, 4, 5))), strict=True):
                heading = float(self.renderer.library.headings[i]) if self.headings else 0.0
                slots[frame, i] = torch.tensor([1.0, row, column, heading])
        if not self.bound:
            return SlotState(slots)
        object_ids = privileged.object_ids
        binding = torch.zeros(len(obs), len(sprites), object_ids.shape[1])
        binding[torch.arange(len(obs))[:, None], object_ids, torch.arange(object_ids.shape[1])] = 1.0
        return SlotState(binding.transpose(1, 2) @ slots, binding)

    def step(self, state: SlotState, action: Tensor) -> SlotState:
        slots = state.slots.clone()
        grid = self.renderer.grid
        for frame, (obj, relative) in enumerate(zip((action // 4).tolist(), (action % 4).tolist(), strict=True)):
            slot = obj if state.binding is None else int(state.binding[frame, obj].argmax())
            present, row, column, heading = slots[frame, slot].tolist()
            heading = heading if self.headings else float(self.renderer.library.headings[obj])
            row_step, column_step = [(-1, 0), (0, 1), (1, 0), (0, -1)][int(heading + relative) % 4]
            target = torch.tensor([1.0, row + row_step, column + column_step])
            inside = 0 <= target[1] < grid.height and 0 <= target[2] < grid.width
            if present and inside and not (slots[frame, :, :3] == target).all(dim=1).any():
                slots[frame, slot, :3] = target
        return SlotState(slots, state.binding)

    def forward(self, batch):
        raise NotImplementedError


@pytest.mark.parametrize("bound", [False, True])
def test_a_perfect_model_of_positions_commutes(data: Dataset, bound: bool) -> None:
    report = measure(Oracle(data.world.renderer, bound=bound), data.eval)
    assert report.encoder.expected == report.whole.expected == report.decoded == 0
    assert report.transition.scale > 0
    # Rush Hour: it knows headings by the slot's number, so contents may not change slots.
    assert (report.transition.expected == 0) == (data.world_name == "shapes")


@pytest.mark.parametrize("bound", [False, True])
def test_headings_in_slots_move_along_with_them(data: Dataset, bound: bool) -> None:
    report = measure(Oracle(data.world.renderer, headings=True, bound=bound), data.eval)
    assert report.transition.expected == report.decoded == 0
    # An object that replaces another brings its own heading: the slots differ, the decoded states do not.
    assert (report.whole.expected == 0) == (data.world_name == "shapes")


class Still(Oracle):
    def step(self, state: SlotState, action: Tensor) -> SlotState:
        return state


def test_a_model_of_no_change_is_equivariant(data: Dataset) -> None:
    report = measure(Still(data.world.renderer), data.eval)
    assert report.transition.relative is None
    assert report.decoded == 0
    assert "nothing varies" in str(report)


class Undecided(Oracle):
    """Its own distance finds all states alike, so every prediction is read as the first, which is no change."""

    def step(self, state: SlotState, action: Tensor) -> SlotState:
        return SlotState(torch.randn_like(state.slots))

    metric = Metric(lambda predictions, targets: torch.zeros(len(predictions), len(targets)))


def test_predictions_are_read_with_the_models_own_distance(data: Dataset) -> None:
    assert measure(Undecided(data.world.renderer), data.eval).decoded == 0


class Jittery(Oracle):
    """A state is never embedded the same way twice, as sums in another order are not the same."""

    noise = torch.Generator().manual_seed(0)

    def embed(self, state: SlotState) -> Tensor:
        exact = super().embed(state)
        return exact + 1e-3 * torch.rand(exact.shape, generator=self.noise)


def test_rounding_does_not_tell_equal_next_states_apart(data: Dataset) -> None:
    assert measure(Jittery(data.world.renderer), data.eval).decoded == 0


def test_the_same_seed_gives_the_same_report_and_leaves_the_model_as_it_was(data: Dataset) -> None:
    model = untrained("cwm-n")
    model.train()
    first, again, other = (measure(model, data.eval, seed).to_json() for seed in (1, 1, 2))
    assert first == again != other
    assert model.training


def test_the_report_is_json(data: Dataset) -> None:
    for model in (untrained("cwm-n"), untrained("cswm-k-ca"), Still(data.world.renderer)):
        plain = json.loads(json.dumps(measure(model, data.eval).to_json(), allow_nan=False))
        assert plain["n"] == N
        assert set(plain) == {"n", "samples", "replacements", "transition", "encoder", "whole", "decoded"}


def test_sample_errors() -> None:
    errors = SampleErrors(np.array([0.0, 1e-6, 0.5, 1.5]), scale=2.0)
    assert errors.sample_lambda().tolist() == [0, 0, 1, 1]
    assert errors.expected == pytest.approx(0.5, abs=1e-5)
    assert errors.relative == pytest.approx(0.25, abs=1e-5)


def test_what_cannot_be_measured_is_refused(data: Dataset) -> None:
    pictures = Episodes(np.zeros((2, 1), dtype=int), pictures=np.zeros((2, 2, 40, 40, 3), dtype=np.uint8))
    with pytest.raises(HowmError, match="no states"):
        measure(untrained("cwm-n"), pictures)
    for samples, replacements in ((1, 1), (4, 5), (4, 0)):
        with pytest.raises(HowmError, match=f"{samples} samples for {replacements}"):
            equivariance_error(
                untrained("cwm-n"), data.eval, np.random.default_rng(0), samples=samples, replacements=replacements
            )


# --- Rewards ------------------------------------------------------------------------------------------------------


def reward_error(reward_fn, data: Dataset) -> SampleErrors:
    return reward_invariance_error(reward_fn, data.eval, np.random.default_rng(0), samples=96, replacements=12)


def test_a_reward_of_positions_is_invariant_and_one_of_an_object_is_not(data: Dataset) -> None:
    rows = reward_error(lambda before, action, after: float(after["positions"][:, 0].sum()), data)
    assert rows.expected == 0 < rows.scale
    moves = reward_error(lambda before, action, after: float(after["moved"]), data)
    assert moves.expected == 0 < moves.scale
    assert reward_error(lambda before, action, after: float(0 in after["object_ids"]), data).expected > 0.1
    forward = reward_error(lambda before, action, after: float(action % 4 == 0), data)
    assert (forward.expected == 0) == (data.world_name == "shapes")  # in Rush Hour σ.a turns


def test_rewards_see_what_environments_tell(data: Dataset) -> None:
    seen = []

    def remember(before, action, after) -> float:
        seen.append((before, action, after))
        return 0.0

    assert reward_error(remember, data).expected == 0
    env = WorldEnv(data.world_name, n=N, k=K, grid=4, split="all")
    for before, action, after in seen[::7]:
        _, first = env.reset(options={"scene": before["object_ids"], "positions": before["positions"]})
        _, _, _, _, second = env.step(action)
        for ours, theirs in ((before, first), (after, second)):
            assert ours.keys() == theirs.keys()
            for key, value in theirs.items():
                np.testing.assert_array_equal(ours[key], value, strict=True)
