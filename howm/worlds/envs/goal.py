"""Goal-conditioned environments: the picture of another arrangement of the same objects is to be reached."""

from typing import Any, ClassVar, cast

import gymnasium as gym
import numpy as np
from jaxtyping import Bool, Float, Integer, Num, Shaped

from howm.errors import HowmError, require_int
from howm.worlds.envs.episodes import Info, Settings, _Episodes
from howm.worlds.envs.single import WorldEnv
from howm.worlds.envs.vector import WorldVectorEnv
from howm.worlds.world import World

ATTEMPTS = 20  # to find a goal that differs from the start
LEVELS = 2  # of 255, by which a pixel of two pictures of one arrangement may differ: rounding in free space
Observation = dict[str, Shaped[np.ndarray, "..."]]


def same_pictures(one: Shaped[np.ndarray, "*rows H W 3"], two: Shaped[np.ndarray, "*rows H W 3"]) -> np.ndarray:
    """Which pictures show the same arrangement: no pixel differs by more than rounding does."""
    apart = np.abs(one.astype(np.int16) - two.astype(np.int16))
    return np.asarray((apart <= LEVELS).all(axis=(-3, -2, -1)))


class GoalEpisodes(_Episodes):
    """Episodes, each with a goal: where random play of ``goal_steps`` moves from its start has come to."""

    settings: ClassVar[tuple[str, ...]] = (*Settings.__annotations__, "goal_steps", "penalty")

    def __init__(self, rows: int, world: World, goal_steps: int = 10, penalty: bool = False, **settings: Any) -> None:
        if settings.get("reward_fn") is not None:
            raise HowmError("a goal environment has its own reward; use the environment without goals for a reward_fn")
        super().__init__(rows, world, **settings)
        self.change_rate = 0.0  # a goal with an object that has left could not be reached
        self.goal_steps = require_int("goal_steps", goal_steps, 1)
        self.penalty = bool(penalty)
        box = cast(gym.spaces.Box, self.observation_space)
        self.observation_space: Any = gym.spaces.Dict({"observation": box, "achieved_goal": box, "desired_goal": box})
        self.goals = np.zeros((rows, *box.shape), dtype=np.uint8)  # pictures
        self.shown = np.zeros((rows, *box.shape), dtype=np.uint8)

    def reset(self, rows: Integer[np.ndarray, " resetting"], rngs: Any, options: Info | None) -> None:
        options = dict(options or {})
        given = {name: options.pop(name) for name in ("goal", "goal_positions") if name in options}
        if len(given) > 1:
            raise HowmError("goal and goal_positions were both given; give one of them")
        super().reset(rows, rngs, options)
        wanted = None
        if given:
            if options.get("scene") is None:
                raise HowmError("a goal belongs to a scene; give the option scene as well")
            names = {"goal": "state", "goal_positions": "positions"}
            described = {"scene": options["scene"]} | {names[name]: value for name, value in given.items()}
            ids, wanted = self._read_options(described)
            if ids is not None and wanted is not None:
                self._check_possible(ids, wanted)
        self.shown[rows] = self.world.render(self.ids[rows], self.state[rows])
        for row in rows.tolist():
            self.goals[row] = self._draw_goal(row, rngs[row]) if wanted is None else self._picture(row, wanted)
        same = same_pictures(self.shown[rows], self.goals[rows])
        if same.any():
            raise HowmError(
                "the goal looks like the start; give another goal" if given else
                f"no goal was found that differs from the start in {self.goal_steps} steps; give more goal_steps"
            )  # fmt: skip
        self.success[rows] = False

    def _draw_goal(self, row: int, rng: np.random.Generator) -> Num[np.ndarray, "H W 3"]:
        ids, start = self.ids[[row]], self.state[[row]]
        for _ in range(ATTEMPTS):
            goal = self.world.play(ids, start, self.goal_steps, 1.0, rng)[0][:, -1].astype(start.dtype)
            picture = self.world.render(ids, goal)[0]
            if not same_pictures(picture, self.shown[row]):
                break
        return np.asarray(picture)

    def _picture(self, row: int, state: Num[np.ndarray, "k F"]) -> Num[np.ndarray, "H W 3"]:
        filled = np.zeros_like(self.state[row])
        filled[: len(state)] = state
        return np.asarray(self.world.render(self.ids[[row]], filled[None])[0])

    def step(self, given: Any, stepping: Bool[np.ndarray, " rows"], rngs: Any) -> Float[np.ndarray, " rows"]:
        super().step(given, stepping, rngs)
        self.shown = self.render()
        self.success = same_pictures(self.shown, self.goals) & stepping
        return np.where(stepping, self.rewards(self.shown, self.goals), 0.0)

    def rewards(
        self, achieved: Shaped[np.ndarray, "*rows H W 3"], desired: Shaped[np.ndarray, "*rows H W 3"]
    ) -> np.ndarray:
        return np.asarray(same_pictures(achieved, desired).astype(float) - self.penalty)

    def info(self) -> Info:
        return super().info() | {"is_success": self.success.copy()}

    def observe(self, rows: Bool[np.ndarray, " rows"] | slice = slice(None)) -> Observation:
        self._check_started()
        shown = self.shown[rows]
        return {"achieved_goal": shown.copy(), "desired_goal": self.goals[rows].copy(), "observation": shown.copy()}


class _ComputesReward:
    """What replay with other goals needs."""

    _episodes: Any

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any = None) -> Any:
        """The reward of having achieved one picture when another was desired; of one pair of pictures or of many."""
        achieved, desired = np.asarray(achieved_goal), np.asarray(desired_goal)
        if achieved.shape != desired.shape or achieved.shape[-3:] != self._episodes.goals.shape[1:]:
            raise HowmError(f"goals are pictures of the same shape, got {achieved.shape} and {desired.shape}")
        rewards = self._episodes.rewards(achieved, desired)
        return float(rewards) if rewards.ndim == 0 else rewards


class WorldGoalEnv(_ComputesReward, WorldEnv):
    """An environment whose observations are dicts of pictures: ``observation``, ``achieved_goal``, ``desired_goal``.

    The goal is the end of ``goal_steps`` moves of random play from the start, so that it can be reached, or it is
    given: ``reset(options={"scene": ids, "state": state, "goal": state})``, or ``positions`` and ``goal_positions``.
    The reward is 1 where the picture is the goal's, else 0; with ``penalty=True`` it is 0 there and else -1. Success
    ends the episode and is ``info["is_success"]``. Objects do not change during an episode. Else as `WorldEnv`.
    """

    _kind = GoalEpisodes


class WorldGoalVectorEnv(_ComputesReward, WorldVectorEnv):
    """Many `WorldGoalEnv` stepped at once, equal to them in SyncVectorEnv."""

    _kind = GoalEpisodes
