"""A Gymnasium vector environment whose world is a model: an agent that trains in it never touches the real one."""

from collections.abc import Callable
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from howm.data.privileged import Privileged
from howm.errors import HowmError, require_int
from howm.models.world_model import State, WorldModel, device_of, evaluating
from howm.planning.cost import make_cost
from howm.planning.imagination import Imagination
from howm.planning.moves import measure_moves
from howm.planning.plan import other_objects
from howm.planning.view import make_view

AT_ONCE = 512  # pictures that are encoded together
BOUND = 1e6  # of the numbers of an embedding
DONE = 0.95  # a score from which on a learned task counts as done

Score = Callable[[State], Tensor]  # (B,)
Observations = Shaped[np.ndarray, "envs ..."]


class ImaginedEnv(VectorEnv[Observations, Int[np.ndarray, " envs"], np.ndarray]):
    """Episodes that begin with one of the start pictures and go on as the model imagines them.

    ``task`` says what is rewarded: None is the model's own reward (its capability ``reward``, see `fit_reward`), a
    picture, or one for each start picture, is a goal, and a function of a batch of states gives them scores, of which 1
    is done. The reward of a step is by how much it raises the score, or, with ``shaped`` false, 1 where the task is
    done. A goal's score falls with the estimated steps to it. Episodes end where the task is done, and are truncated
    after ``max_episode_steps``. Observations are the model's embeddings, or, of models that can draw, ``pictures``.
    Environments reset themselves at the next step, as Gymnasium's do by default.
    """

    def __init__(
        self,
        model: WorldModel,
        start_pictures: Tensor | np.ndarray,
        task: Tensor | np.ndarray | Score | None = None,
        *,
        num_envs: int = 32,
        observation: Literal["embedding", "pictures"] = "embedding",
        shaped: bool = True,
        max_episode_steps: int = 50,
        privileged: Privileged | None = None,
    ) -> None:
        if model.spec is None:
            raise HowmError(f"{type(model).__name__} has no spec, so its actions are unknown; give it one")
        if observation not in ("embedding", "pictures"):
            raise HowmError(f"observation must be embedding or pictures, got {observation!r}")
        self.model, self.shaped, self.observation = model.eval(), shaped, observation
        self.num_envs = require_int("num_envs", num_envs, 1)
        self._limit = require_int("max_episode_steps", max_episode_steps, 1)
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.render_mode = None
        self._starts = self._encode(_pictures("start_pictures", start_pictures), privileged)
        self._score = self._read_task(task, privileged)
        self.single_action_space = gym.spaces.Discrete(model.spec.actions)
        self.single_observation_space = self._space(model)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self._which = np.zeros(self.num_envs, dtype=np.int64)  # the start of each episode
        self._state = self._starts[torch.zeros(self.num_envs, dtype=torch.int64)]
        self._scores = np.zeros(self.num_envs)
        self._elapsed = np.full(self.num_envs, -1)  # until the first reset
        self._ended = np.zeros(self.num_envs, dtype=bool)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin all episodes; ``options["start"]`` gives the numbers of their start pictures."""
        if seed is not None:
            self.np_random = np.random.default_rng(seed)
        which = (options or {}).get("start")
        if which is not None:
            which = np.asarray(which)
            fits = which.shape == (self.num_envs,) and which.dtype.kind in "iu"
            if not fits or which.min() < 0 or which.max() >= len(self._starts):
                raise HowmError(f"start must be {self.num_envs} numbers of start pictures, 0-{len(self._starts) - 1}")
        self._restart(np.ones(self.num_envs, dtype=bool), which)
        return self._observe(), self._info()

    def step(
        self, actions: Int[np.ndarray, " envs"]
    ) -> tuple[Observations, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        taken = np.asarray(actions)
        if self._elapsed.min() < 0:
            raise gym.error.ResetNeeded("an imagined environment has not been reset yet; call reset() first")
        if taken.shape != (self.num_envs,) or taken.dtype.kind not in "iu":
            raise HowmError(f"actions must be {self.num_envs} integers, one per environment, got {actions!r}")
        restarting = self._ended
        with torch.no_grad():
            self._state = self.model.step(self._state, torch.from_numpy(taken.astype(np.int64)).to(self._device))
        self._elapsed += 1
        scores = self._scored(self._state)
        done = (scores >= DONE) & ~restarting
        rewards = np.where(restarting, 0.0, scores - self._scores if self.shaped else done.astype(float))
        self._scores = scores
        if restarting.any():
            self._restart(restarting)
        truncated = (self._elapsed >= self._limit) & ~done
        self._ended = done | truncated
        return self._observe(), rewards, done, truncated, self._info()

    @property
    def _device(self) -> torch.device:
        return device_of(self.model)

    def _restart(self, rows: Bool[np.ndarray, " envs"], which: np.ndarray | None = None) -> None:
        drawn = self.np_random.integers(len(self._starts), size=self.num_envs) if which is None else which
        self._which = np.where(rows, drawn, self._which)
        both = State.join([self._state, self._starts[torch.from_numpy(self._which)]])
        self._state = both[torch.from_numpy(np.arange(self.num_envs) + self.num_envs * rows)]
        self._elapsed[rows], self._ended = 0, self._ended & ~rows
        self._scores = np.where(rows, self._scored(self._state), self._scores)

    def _info(self) -> dict[str, Any]:
        everyone = np.ones(self.num_envs, dtype=bool)
        return {
            "start": self._which.copy(),
            "_start": everyone,
            "score": self._scores.copy(),
            "_score": everyone.copy(),
        }

    @torch.no_grad()
    def _observe(self) -> Observations:
        if self.observation == "embedding":
            return np.asarray(self.model.embed(self._state).float().cpu().numpy())
        drawn = self.model.draw(self._state)
        assert drawn is not None
        return np.asarray((drawn.clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy())

    @torch.no_grad()
    def _scored(self, state: State) -> Float[np.ndarray, " envs"]:
        found = self._score(state)
        if tuple(found.shape) != (len(state),):
            raise HowmError(f"a task must give one score for each of {len(state)} states, got {tuple(found.shape)}")
        return np.asarray(found.double().cpu().numpy())

    def _space(self, model: WorldModel) -> gym.spaces.Box:
        assert model.spec is not None
        with torch.no_grad():
            if self.observation == "embedding":
                return gym.spaces.Box(-BOUND, BOUND, tuple(model.embed(self._starts[:1]).shape[1:]), np.float32)
            if model.draw(self._starts[:1]) is None:
                raise HowmError(f"{type(model).__name__} cannot draw; use observation=embedding, or define draw(state)")
        return gym.spaces.Box(0, 255, (model.spec.height, model.spec.width, 3), np.uint8)

    @torch.no_grad()
    def _encode(self, pictures: Tensor, privileged: Privileged | None) -> State:
        parts = []
        with evaluating(self.model):
            for i in range(0, len(pictures), AT_ONCE):
                ids = None if privileged is None else Privileged(privileged.object_ids[i : i + AT_ONCE])
                parts.append(self.model.encode(pictures[i : i + AT_ONCE].to(self._device), ids))
        return State.join(parts)

    def _read_task(self, task: Tensor | np.ndarray | Score | None, privileged: Privileged | None) -> Score:
        if isinstance(task, Tensor | np.ndarray):
            return self._toward(_pictures("the goal", task, len(self._starts)), privileged)
        if task is not None:
            if not callable(task):
                raise HowmError(f"task must be a goal picture, a function of states or None, got {type(task).__name__}")
            return task
        with torch.no_grad():
            if self.model.reward(self._starts[:1]) is None:
                raise HowmError(
                    f"{type(self.model).__name__} has no reward; attach one with howm.fit_reward, or give a task"
                )

        def learned(state: State) -> Tensor:
            found = self.model.reward(state)
            assert found is not None
            return found

        return learned

    @torch.no_grad()
    def _toward(self, pictures: Tensor, privileged: Privileged | None) -> Score:
        """1 at the goal, and less by the share of the estimated steps that remain."""
        goals = self._encode(pictures, privileged)
        for number in np.flatnonzero(other_objects(self.model, self._starts, goals).any(axis=1)):
            raise HowmError(f"start picture {number} and its goal show different objects; give goals of its scene")
        view = make_view(self.model, self._starts, None)
        moves = measure_moves(Imagination(self.model, len(goals)), view, self._starts, goals)
        cost = make_cost(view, moves, goals)
        first = np.maximum(cost.read(self._starts, np.arange(len(goals))).steps, 1.0)

        def score(state: State) -> Tensor:
            reading = cost.read(state, self._which)
            return torch.from_numpy(
                np.where(reading.reached, 1.0, np.minimum(1 - reading.steps / first[self._which], 0.9))
            )

        return score


def _pictures(name: str, given: Tensor | np.ndarray, count: int | None = None) -> Tensor:
    found = given if isinstance(given, Tensor) else torch.from_numpy(np.array(given))
    if found.dim() == 3:
        found = found[None].expand(count or 1, -1, -1, -1)
    if found.dim() != 4 or found.shape[3] != 3 or not len(found):
        raise HowmError(f"{name} must be pictures (count, height, width, 3), got {tuple(found.shape)}")
    if count is not None and len(found) != count:
        raise HowmError(f"there must be one goal, or one for each of {count} start pictures, got {len(found)}")
    return found
