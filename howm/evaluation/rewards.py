"""The invariance of rewards under object replacement (the paper's appendix)."""

from collections.abc import Callable

import numpy as np
import torch

from howm.data.episodes import Episodes
from howm.errors import HowmError
from howm.evaluation.equivariance import SampleErrors, _draws, _encode_states, _step
from howm.models.world_model import WorldModel, evaluating
from howm.worlds.envs.episodes import Info, Reward, _row, act, describe
from howm.worlds.tasks import make_task
from howm.worlds.world import World

# Rewards of many transitions: of scene ids, states and actions.
Rewards = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def reward_invariance_error(
    reward_fn: Reward,
    episodes: Episodes,
    rng: np.random.Generator,
    *,
    samples: int = 512,
    replacements: int = 32,
) -> SampleErrors:
    """λ_R = E|R(s, a) - R(σ.s, σ.a)| ("Definition with Reward") on true states; the scale is that between two samples.

    ``reward_fn`` is an environment's: a task, its name, or a function of the infos before and after the step, the
    former as after a reset. A task that names objects or their colours is not invariant, and need not be.
    """
    world, _, _ = episodes.state()

    def called(ids: np.ndarray, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        assert callable(reward_fn)
        after, moved, absent = act(world, ids, states, actions)
        nothing = np.zeros(len(ids), dtype=bool)
        pairs = zip(_infos(world, ids, states, nothing, nothing), _infos(world, ids, after, moved, absent), strict=True)
        return np.array(
            [reward_fn(one, int(a), two) for (one, two), a in zip(pairs, actions, strict=True)], dtype=float
        )

    def judged(ids: np.ndarray, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        assert not callable(reward_fn)
        return make_task(reward_fn).reward(world, ids, states, actions, world.step(ids, states, actions))

    return _invariance(called if callable(reward_fn) else judged, episodes, rng, samples, replacements)


@torch.no_grad()
def learned_reward_invariance_error(
    model: WorldModel, episodes: Episodes, rng: np.random.Generator, *, samples: int = 512, replacements: int = 32
) -> SampleErrors:
    """λ_R of a learned reward, R̂(s, a) = reward(step(encode(s), a)): E|R̂(s, a) - R̂(σ.s, σ.a)|, from pictures."""
    world, _, _ = episodes.state()

    def predicted(ids: np.ndarray, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        rewards = model.reward(_step(model, _encode_states(model, world, ids, states), actions))
        if rewards is None:
            raise HowmError(f"{type(model).__name__} has learned no reward; fit one with howm.fit_reward and attach it")
        return rewards.double().cpu().numpy()

    with evaluating(model):
        return _invariance(predicted, episodes, rng, samples, replacements)


def _invariance(
    rewards: Rewards, episodes: Episodes, rng: np.random.Generator, samples: int, replacements: int
) -> SampleErrors:
    world, _, _ = episodes.state()
    plain, other = [], []
    for sigma, ids, states, actions in _draws(episodes, rng, samples, replacements):
        plain.append(rewards(ids, states, actions))
        other.append(rewards(*sigma.states(ids, states), world.replace_action(sigma, actions)))
    values = np.concatenate(plain)
    scale = float(np.abs(values - np.roll(values, samples // 2)).mean())
    return SampleErrors(np.abs(values - np.concatenate(other)), scale)


def _infos(world: World, ids: np.ndarray, states: np.ndarray, moved: np.ndarray, absent: np.ndarray) -> list[Info]:
    """What an environment says of each state."""
    info = describe(world, ids, states) | {"moved": moved, "absent": absent}
    return [_row(info, row) for row in range(len(ids))]
