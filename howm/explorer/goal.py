"""Goal mode: a goal that a person arranges, and the plan that the first model makes from its picture alone."""

from typing import Any

import numpy as np

from howm.data.rollouts import privileged_of
from howm.errors import HowmError
from howm.explorer.places import places
from howm.explorer.sessions import Session
from howm.planning.plan import plan

SHUFFLE_STEPS = 12  # of random play, from which a goal can be reached


def start_goal(session: Session) -> dict[str, Any]:
    """A copy of the last true frame, to be arranged."""
    session.goal = session.playing().states[-1].copy()
    return _shown(session, changed=False)


def step_goal(session: Session, action: Any) -> dict[str, Any]:
    rollout = session.playing()
    if session.goal is None:
        raise HowmError("there is no goal to arrange yet; start one first")
    taken = np.array([rollout.require_action(action)])
    before = session.goal
    session.goal = rollout.world.step(np.array([rollout.scene]), before[None], taken)[0]
    return _shown(session, changed=bool((session.goal != before).any()))


def shuffle_goal(session: Session) -> dict[str, Any]:
    """Another arrangement that can be reached from the last frame."""
    rollout = session.playing()
    states, _ = rollout.world.play(np.array([rollout.scene]), rollout.states[-1][None], SHUFFLE_STEPS, 1.0, session.rng)
    session.goal = states[0, -1]
    return _shown(session, changed=True)


def _shown(session: Session, changed: bool) -> dict[str, Any]:
    rollout, goal = session.playing(), session.goal
    assert goal is not None
    scene = np.array(rollout.scene)
    return {
        "picture": rollout.world.render(scene[None], goal[None])[0],
        "places": places(rollout.world, scene, goal),
        "changed": changed,
    }


def plan_to_goal(session: Session) -> dict[str, Any]:
    """The actions by which the first model expects to reach the goal from the last frame."""
    rollout = session.playing()
    if session.goal is None:
        raise HowmError("there is no goal to plan for yet; start one first")
    scene, model = np.array([rollout.scene]), rollout.minds[0].sight.model
    known = privileged_of(rollout.world, scene, rollout.states[-1][None]) if model.privileged else None
    goal = rollout.world.render(scene, session.goal[None])[0]
    found = plan(model, rollout.picture(rollout.time), goal, privileged=known)
    actions = [int(action) for action in found.actions]
    steps = f"{len(actions)} step{'s' * (len(actions) != 1)}"
    expects = "and expects to reach the goal" if found.reached else "which leads near the goal, not to it"
    text = f"The model found a plan of {steps}, {expects}." if actions else "The model sees nothing to do."
    return {"actions": actions, "reached": bool(found.reached), "text": text}
