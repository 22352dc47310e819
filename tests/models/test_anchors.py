"""Objects at continuous positions: drawing, finding and moving them."""

from typing import Literal

import numpy as np
import pytest
import torch

from howm.errors import HowmError
from howm.models.extractors.anchors import Anchors, AnchorsConfig, _Proposals
from howm.models.extractors.layout import PIXELS_PER_UNIT
from howm.models.extractors.placement import place
from howm.models.extractors.pursuit import pursue, refine
from howm.models.relations import RelationTransition
from howm.models.structured import StructuredConfig, StructuredDynamics
from howm.worlds.object_world import ObjectWorld
from howm.worlds.spec import WorldSpec

SIZE = (30, 26)


def plain_drawing(rgba: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Texel by texel onto the four pixels around it."""
    picture = np.zeros((4, *SIZE))
    q = rgba.shape[-1]
    for y in range(q):
        for x in range(q):
            row, column = centre[0] + y - (q - 1) / 2 - 0.5, centre[1] + x - (q - 1) / 2 - 0.5
            for r in (int(np.floor(row)), int(np.floor(row)) + 1):
                for c in (int(np.floor(column)), int(np.floor(column)) + 1):
                    if 0 <= r < SIZE[0] and 0 <= c < SIZE[1]:
                        picture[:, r, c] += (1 - abs(row - r)) * (1 - abs(column - c)) * rgba[:, y, x]
    return picture


def sprites(count: int, q: int = 6, seed: int = 0) -> torch.Tensor:
    """Opaque sprites of one colour each."""
    generator = torch.Generator().manual_seed(seed)
    colour = 0.2 + 0.8 * torch.rand(1, count, 3, 1, 1, generator=generator)
    return torch.cat([colour.expand(-1, -1, -1, q, q), torch.ones(1, count, 1, q, q)], dim=2)


def test_placement_is_plain_bilinear_drawing() -> None:
    generator = torch.Generator().manual_seed(1)
    rgba = torch.rand(2, 4, 4, 5, 5, generator=generator)
    centre = torch.rand(2, 4, 2, generator=generator) * torch.tensor(SIZE)
    drawn = place(rgba, centre, SIZE).pictures()
    for b in range(2):
        for m in range(4):
            expected = plain_drawing(rgba[b, m].numpy(), centre[b, m].numpy())
            np.testing.assert_allclose(drawn[b, m].numpy(), expected, atol=1e-5)


def test_sprites_far_outside_draw_nothing_wrong_inside() -> None:
    rgba, centre = sprites(1), torch.tensor([[[-2.5, 27.0]]])
    drawn = place(rgba, centre, SIZE).pictures()[0, 0]
    np.testing.assert_allclose(drawn.numpy(), plain_drawing(rgba[0, 0].numpy(), centre[0, 0].numpy()), atol=1e-5)


def test_painting_is_adding_where_nothing_overlaps_and_follows_depth_where_it_does() -> None:
    background = torch.full((1, 3, *SIZE), 0.1)
    apart = place(sprites(2), torch.tensor([[[7.0, 7.0], [20.5, 18.2]]]), SIZE)
    torch.testing.assert_close(apart.painted(background, torch.tensor([[0.0, 1.0]])), apart.added(background))
    over = place(sprites(2), torch.tensor([[[10.0, 10.0], [10.0, 12.0]]]), SIZE)
    for near in (0, 1):
        depth = torch.tensor([[1.0, 1.0]])
        depth[0, near] = 0.0
        seen = over.painted(background, depth)[0, :, 10, 11]
        torch.testing.assert_close(seen, sprites(2)[0, near, :3, 0, 0])


@pytest.mark.parametrize("depth", [False, True])
def test_pursuit_finds_planted_sprites_among_copies_and_decoys(depth: bool) -> None:
    true = torch.tensor([[[6.0, 6.0], [7.5, 12.9], [20.0, 18.0]]])
    rgba = sprites(3)
    background = torch.zeros(1, 3, *SIZE)
    depths = torch.tensor([[0.0, 1.0, 2.0]])
    picture = place(rgba, true, SIZE).painted(background, depths)
    # Candidates: a slightly displaced copy of each sprite, the sprites, and each at a place where it is not.
    candidates = torch.cat([true + 0.4, true, true.flip(1) + torch.tensor([3.0, -1.0])], dim=1)
    patches = place(rgba.repeat(1, 3, 1, 1, 1), candidates, SIZE)
    chosen, gains = pursue(picture, background, patches, depths.repeat(1, 3) if depth else None, 4)
    assert set(chosen[0, :3].tolist()) == {3, 4, 5}
    assert gains[0, 2] > 1
    assert gains[0, 3] < 0.1


def test_pursuit_judges_hidden_sprites_by_what_is_seen_of_them() -> None:
    """Behind a sprite that covers two thirds of it, an object is worth its visible part; added up it is worth less."""
    rgba, background = sprites(2), torch.zeros(1, 3, *SIZE)
    at = torch.tensor([[[10.0, 10.0], [10.0, 12.0]]])
    depth = torch.tensor([[0.0, 1.0]])
    patches = place(rgba, at, SIZE)
    picture = patches.painted(background, depth)
    _, painted = pursue(picture, background, patches, depth, 2)
    _, added = pursue(picture, background, patches, None, 2)
    total = picture.square().sum()
    torch.testing.assert_close(painted.sum(), total)  # both together explain all there is
    assert added.sum() < 0.9 * total


def test_refinement_moves_sprites_to_where_they_are() -> None:
    rgba, background = torch.nn.functional.pad(sprites(2), (1, 1, 1, 1)), torch.zeros(1, 3, *SIZE)
    true = torch.tensor([[[9.3, 9.8], [18.6, 15.1]]])
    picture = place(rgba, true, SIZE).added(background)
    found = refine(picture, background, rgba, true + torch.tensor([0.3, -0.2]), None, steps=4)
    assert (found - true).abs().max() < 0.05


@pytest.fixture(scope="module")
def world() -> ObjectWorld:
    return ObjectWorld(n=4, size=(30, 30), cells=(3, 3))


def frames(world: ObjectWorld, k: int, count: int, seed: int) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    scenes = np.sort(np.stack([rng.choice(world.n, k, replace=False) for _ in range(count)]), axis=1)
    return torch.from_numpy(world.render(scenes, world.reset(scenes, rng)))


def test_presences_sum_to_k_and_slots_follow_their_layout(world: ObjectWorld) -> None:
    model = Anchors(world.spec(3), AnchorsConfig(candidates=8))
    pictures = frames(world, 3, 5, 0)
    loss, logs = model(pictures)
    loss.backward()
    assert 0 < logs["sharpness"] <= 1
    assert all(p.grad is not None for name, p in model.named_parameters())
    slots = model.slots(pictures)
    assert slots.shape == (5, model.num_slots, model.slot_size) == (5, 4, 20)
    code, position, _, presence = model.layout.split(slots)
    torch.testing.assert_close(code[:, :3].mean(dim=2), torch.zeros(5, 3), atol=1e-4, rtol=0)
    assert (position.abs() * PIXELS_PER_UNIT <= 15 + 10).all()
    assert presence.tolist() == [[1, 1, 1, 0]] * 5
    assert not slots[:, -1].any()
    assert model.draw(slots).shape == pictures.shape
    masks = model.masks(slots)
    torch.testing.assert_close(masks.sum(dim=1), torch.ones(5, 30, 30))
    assert masks.min() > -1e-6


def test_training_lowers_the_error_of_reconstruction(world: ObjectWorld) -> None:
    torch.manual_seed(0)
    model = Anchors(world.spec(2), AnchorsConfig(candidates=6))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    errors = []
    for step in range(40):
        loss, logs = model(frames(world, 2, 16, step))
        errors.append(float(logs["reconstruction"]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert np.mean(errors[-5:]) < 0.6 * np.mean(errors[:5])


@pytest.mark.slow
def test_a_minute_of_training_puts_every_object_into_a_slot_of_its_own() -> None:
    torch.manual_seed(0)
    world, steps = ObjectWorld(), 500
    model = Anchors(world.spec(5), AnchorsConfig())
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 2e-3 * min(1, (step + 1) / 100) * 0.5 * (1 + np.cos(np.pi * step / steps))
        loss, _ = model(frames(world, 5, 32, step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert model.calibrate(frames(world, 5, 200, 1000)) > 0.9
    rng = np.random.default_rng(7)
    scenes = np.sort(np.stack([rng.choice(10, 5, replace=False) for _ in range(200)]), axis=1)
    state = world.reset(scenes, rng)
    slots = model.eval().slots(torch.from_numpy(world.render(scenes, state)))
    found = model.layout.split(slots[:, :-1])[1] * PIXELS_PER_UNIT + 25
    apart = torch.cdist(torch.from_numpy(50 * state).float(), found)
    assert (apart.amin(dim=2) < 2).all(dim=1).float().mean() > 0.95


class Planted(Anchors):
    """Proposals that are known, whatever the picture."""

    def plant(self, count: int, frames: int) -> torch.Tensor:
        """Propose nine sprites apart from each other in each frame; the pictures show ``count`` of them."""
        grid = torch.cartesian_prod(torch.arange(3), torch.arange(3)) * 10.0 + 5
        code = torch.nn.functional.layer_norm(torch.randn(frames, 9, self.config.code), (self.config.code,))
        position = grid + torch.rand(frames, 9, 2)
        depth = torch.rand(frames, 9)
        self.background = torch.zeros(frames, 3, *self.size)
        self.known = _Proposals(torch.zeros(frames, 9), position, depth, code)
        shown = torch.rand(frames, 9).argsort(dim=1) < count
        patches = place(self.rgba(code), position, self.size).weighted(shown.float())
        return patches.added(self.background).permute(0, 2, 3, 1).detach()

    def propose(self, pictures: torch.Tensor) -> tuple[_Proposals, torch.Tensor]:
        return self.known, self.background


@pytest.mark.parametrize("compose", ["add", "depth"])
def test_the_count_is_inferred_by_what_sprites_explain(compose: Literal["add", "depth"]) -> None:
    torch.manual_seed(0)
    spec = WorldSpec(9, 4, 30, 30, None)
    model = Planted(spec, AnchorsConfig(sprite=8, candidates=9, compose=compose, count="infer", max_objects=8))
    assert model.calibrate(model.plant(4, 50)) == 1.0
    assert model.gain_threshold > 0
    for count in (1, 4, 7):
        slots = model.slots(model.plant(count, 20))
        assert slots.shape == (20, 9, model.slot_size)
        assert (slots[..., -1].sum(dim=1) == count).all()
        assert not slots[slots[..., -1] == 0].any()


def test_a_background_of_each_picture_can_differ(world: ObjectWorld) -> None:
    model = Anchors(world.spec(2), AnchorsConfig(candidates=6, background="picture", compose="depth"))
    pictures = frames(world, 2, 3, 5)
    loss, _ = model(pictures)
    loss.backward()
    assert model.correction[-1].weight.grad.abs().sum() > 0
    assert model.slots(pictures).shape == (3, 3, model.slot_size)


def test_unusable_settings_are_refused() -> None:
    with pytest.raises(HowmError, match="candidates=99"):
        Anchors(WorldSpec(4, 2, 20, 20, None), AnchorsConfig(candidates=99))
    with pytest.raises(HowmError, match="rounds"):
        StructuredConfig(rounds=0)


@pytest.mark.parametrize("rounds", [1, 3])
def test_relations_do_not_depend_on_the_order_of_slots_or_on_empty_ones(rounds: int) -> None:
    torch.manual_seed(0)
    model = RelationTransition(6, 4, 16, rounds=rounds)
    code, position, actions = torch.randn(2, 5, 6), 4 * torch.randn(2, 5, 2), torch.rand(2, 5, 4)
    present = torch.tensor([[True] * 5, [True, False, True, True, False]])
    change = model(code, position, actions, present)
    order = torch.tensor([3, 0, 4, 1, 2])
    shuffled = model(code[:, order], position[:, order], actions[:, order], present[:, order])
    torch.testing.assert_close(shuffled, change[:, order])
    assert not change[1, [1, 4]].any()
    alone = model(code[1:, [0, 2, 3]], position[1:, [0, 2, 3]], actions[1:, [0, 2, 3]], present[1:, [0, 2, 3]])
    torch.testing.assert_close(alone, change[1:, [0, 2, 3]])


def test_objects_beyond_the_cutoff_do_not_matter_but_pass_news_on() -> None:
    """In a row of three, the ends are too far apart to hear each other directly."""
    torch.manual_seed(0)
    code, position = torch.randn(1, 3, 6), torch.tensor([[[0.0, 0.0], [0.0, 4.0], [0.0, 8.0]]])
    still, acting = torch.zeros(1, 3, 4), torch.zeros(1, 3, 4)
    acting[0, 2, 1] = 1.0
    present = torch.ones(1, 3, dtype=torch.bool)
    for rounds in (1, 2):
        model = RelationTransition(6, 4, 32, rounds=rounds, cutoff=6.0)
        before, after = (model(code, position, actions, present)[0] for actions in (still, acting))
        assert not torch.equal(before[1], after[1])
        assert torch.equal(before[0], after[0]) == (rounds == 1)


def test_structured_dynamics_learns_who_acts_and_what_stops_it(world: ObjectWorld) -> None:
    """On true positions and clean codes the binding becomes right and predictions fall well below doing nothing."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, k, episodes, steps = 4, 3, 400, 10
    scenes = np.sort(np.stack([rng.choice(n, k, replace=False) for _ in range(episodes)]), axis=1)
    states, actions = world.play(scenes, world.reset(scenes, rng), steps, 0.9, rng)
    extractor = Anchors(world.spec(k), AnchorsConfig(code=6))
    codes = torch.nn.functional.layer_norm(torch.randn(n, 6), (6,))[torch.from_numpy(scenes)]
    position = torch.from_numpy((states * 30 - 15) / PIXELS_PER_UNIT).float()
    codes = codes[:, None].expand(-1, steps + 1, -1, -1)
    ones = torch.ones(episodes, steps + 1, k, 2)
    slots = torch.nn.functional.pad(torch.cat([codes, position, ones], dim=3), (0, 0, 0, 1))
    model = StructuredDynamics(world.spec(k), extractor.layout, StructuredConfig(), hidden=32, attention=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(300):
        e, t = rng.integers(episodes, size=64), rng.integers(steps, size=64)
        loss, _ = model(slots[e, t], slots[e, t + 1], torch.from_numpy(actions[e, t]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    now, then = slots[:, 0], slots[:, 1]
    state = model.encode(now)
    assert state.binding is not None
    bound = state.binding.argmax(dim=2).gather(1, torch.from_numpy(scenes))
    assert (bound == torch.arange(k)).float().mean() > 0.95
    predicted = model.lifted(model.step(state, torch.from_numpy(actions[:, 0])))
    target, idle = model.lifted(model.encode(then)), model.lifted(state)
    assert (predicted - target).square().sum() < 0.3 * (idle - target).square().sum()
