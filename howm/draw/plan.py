"""A plan as a film strip: what happens above, what was imagined below."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8

from howm.data.privileged import Privileged
from howm.draw.figures import _figure, _picture
from howm.models.cells import unit
from howm.models.world_model import WorldModel
from howm.planning.goal_set import GoalSet
from howm.planning.plan import Plan, plan


@dataclass(frozen=True)
class CarriedOut:
    """A plan and the pictures that come of it in the true world, the first being its start."""

    plan: Plan
    truth: UInt8[np.ndarray, "frames H W 3"]
    goal: UInt8[np.ndarray, "H W 3"]
    success: bool
    names: tuple[str, ...]


def carry_out(model: WorldModel, goals: GoalSet, number: int, planner: str = "search") -> CarriedOut:
    """Plan for one goal of a set and act without looking."""
    one = goals.subset(slice(number, number + 1))
    ids = Privileged(torch.from_numpy(one.scenes)) if model.privileged else None
    found = plan(model, one.start_pictures()[0], one.goal_pictures()[0], planner=planner, strict=False, privileged=ids)
    states = [one.start]
    for action in found.actions:
        states.append(one.simulator.step(one.scenes, states[-1], np.array([action])))
    scenes = np.repeat(one.scenes, len(states), axis=0)
    truth = one.simulator.render(scenes, np.concatenate(states))
    words = one.world.action_names
    names = tuple(f"object {action // len(words)} {words[action % len(words)]}" for action in found.actions)
    return CarriedOut(found, truth, one.goal_pictures()[0], bool(one.reached(states[-1])[0]), names)


def film_strip(shown: CarriedOut, most: int = 12) -> Any:
    """Truth above, imagination below where the model can draw, the goal at the right.

    Of a plan of more than ``most`` steps, frames in between are left out.
    """
    steps = len(shown.truth) - 1
    times = np.unique(np.linspace(0, steps, min(steps, most) + 1).round().astype(int)).tolist()
    drawn = shown.plan.pictures
    rows = 1 if drawn is None else 2
    figure = _figure(1.25 * (len(times) + 1), 0.3 + 1.35 * rows)
    axes = figure.subplots(rows, len(times) + 1, squeeze=False)
    for column, t in enumerate(times):
        title = "start" if t == 0 else f"{t}: {shown.names[t - 1]}"
        _picture(axes[0, column], torch.from_numpy(shown.truth[t]), title)
        if drawn is not None:
            error = float((drawn[t].cpu() - unit(torch.from_numpy(shown.truth[t]))).square().mean())
            _picture(axes[1, column], drawn[t].clamp(0, 1), f"error {error:.0e}")
    for row in range(rows):
        _picture(axes[row, -1], torch.from_numpy(shown.goal), "goal" if row == 0 else "")
        for side in axes[row, -1].spines.values():
            side.set(color="tab:green" if shown.success else "tab:red", linewidth=3)
    axes[0, 0].set_ylabel("truth", fontsize=9)
    if drawn is not None:
        axes[1, 0].set_ylabel("imagined", fontsize=9)
    return figure


def choose_goal(goals: GoalSet) -> int:
    """One to show: of six to ten steps, with a detour if there is one."""
    apart = np.abs(goals.optimal - 8) - 3 * (goals.detour & (goals.optimal <= 10))
    return int(apart.argmin())
