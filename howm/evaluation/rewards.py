"""The invariance of rewards under object replacement (the paper's appendix)."""

import numpy as np

from howm.data.episodes import Episodes
from howm.evaluation.equivariance import SampleErrors, _draws
from howm.worlds.envs.episodes import Info, RewardFn, _row, act, describe
from howm.worlds.world import World


def reward_invariance_error(
    reward_fn: RewardFn,
    episodes: Episodes,
    rng: np.random.Generator,
    *,
    samples: int = 512,
    replacements: int = 32,
) -> SampleErrors:
    """λ_R = E|R(s, a) - R(σ.s, σ.a)| ("Definition with Reward") on true states; the scale is that between two samples.

    ``reward_fn`` is an environment's: it gets the infos before and after the step, the former as after a reset.
    """
    world, _, _ = episodes.state()

    def rewards(ids: np.ndarray, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        after, moved, absent = act(world, ids, states, actions)
        nothing = np.zeros(len(ids), dtype=bool)
        pairs = zip(_infos(world, ids, states, nothing, nothing), _infos(world, ids, after, moved, absent), strict=True)
        return np.array(
            [reward_fn(one, int(a), two) for (one, two), a in zip(pairs, actions, strict=True)], dtype=float
        )

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
