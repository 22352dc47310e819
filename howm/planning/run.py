"""Planning with a trained run: goals in unseen and in training scenes, the planner and its references."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from howm.config import to_plain
from howm.errors import HowmError, require_int
from howm.models.world_model import WorldModel
from howm.planning.act import BUDGET, Outcome, act, act_exactly, act_randomly
from howm.planning.agents import Agent, Seeing, TrueDynamics, TrueState
from howm.planning.goal_files import load_goals
from howm.planning.goal_set import BUCKETS, GoalSet
from howm.planning.goals import make_goals
from howm.planning.planners import make_planner
from howm.planning.view import Kind
from howm.runs.checkpoint import Checkpoint, load_checkpoint
from howm.runs.locate import find_checkpoint, rebuild
from howm.runs.plan_result import ByLength, PlanResult, Reached
from howm.runs.provenance import training_world, versions
from howm.worlds.scenes import DEFAULT_SCENES, draw_unseen

GOALS = 100
Say = Callable[[str], None]


def plan_run(
    run: str | PathLike[str],
    goals: int | str | PathLike[str] = GOALS,
    *,
    planner: str = "search",
    settings: Mapping[str, Any] | None = None,
    cost: Kind | None = None,
    replan: bool = True,
    budget: int = BUDGET,
    seed: int = 0,
    references: bool = True,
    say: Say = lambda _: None,
) -> PlanResult:
    """How well a run reaches goal pictures: ``goals`` of them in unseen and in training scenes, or those of a file."""
    chosen = make_planner(planner, settings)
    checkpoint = load_checkpoint(find_checkpoint(run))
    sets = goal_sets(checkpoint, goals, seed)
    model = rebuild(checkpoint, sets[0].k)
    world = sets[0].world
    options: dict[str, Any] = {"replan": replan, "budget": budget, "cost": cost}

    def measure(agent: Agent, some: GoalSet, name: str) -> ByLength:
        say(f"{name}: {len(some)} goals in {some.part} scenes")
        rng = np.random.default_rng([seed, 1])
        return by_length(some, lambda part: act(agent, part, chosen, rng, **options), seed)

    parts = {some.part: measure(Seeing(model, world), some, planner) for some in sets}
    beside = _references(model, sets[0], measure, budget, seed, say) if references else {}
    record = checkpoint.record
    return PlanResult(
        method=record.method or "own", method_title=record.title, world=record.data.world,
        world_title=record.data.world_title, n=record.data.n, k=sets[0].k, seed=record.seed, planner=planner,
        settings=to_plain(chosen.config), cost=cost or _default_cost(model, sets[0]), replan=replan, budget=budget,
        goal_seed=sets[0].seed, unseen=parts.get("unseen", {}), training=parts.get("training", {}),
        references=beside, versions=versions(),
    )  # fmt: skip


def _references(
    model: WorldModel, goals: GoalSet, measure: Callable[[Agent, GoalSet, str], ByLength], budget: int, seed: int,
    say: Say,
) -> dict[str, ByLength]:  # fmt: skip
    """What the same goals give without a plan, with perfect play, and with parts of the truth."""
    rng = np.random.default_rng([seed, 2])
    say(f"references: {len(goals)} goals in {goals.part} scenes")
    return {
        "random": by_length(goals, lambda part: act_randomly(part, rng, budget), seed),
        "exact": by_length(goals, act_exactly, seed),
        "true_dynamics": measure(TrueDynamics(model, goals.world), goals, "true_dynamics"),
        "true_state": measure(TrueState(model, goals.world), goals, "true_state"),
    }


def goal_sets(checkpoint: Checkpoint, goals: int | str | PathLike[str], seed: int = 0) -> list[GoalSet]:
    """New goals in unseen scenes, where there are any, and in training scenes; or those of a file."""
    world, train = training_world(checkpoint.record.data)
    if not isinstance(goals, int):
        stored = load_goals(Path(goals))
        if stored.world != world:
            raise HowmError(f"{goals} has goals of another world than the model was trained in; make them for it")
        if not len(stored):
            raise HowmError(f"{goals} has no goals; make some with howm.make_goals")
        _check_part(stored, train.scenes, goals)
        return [stored]
    require_int("goals", goals, len(BUCKETS))
    each = goals // len(BUCKETS)
    rng = np.random.default_rng([seed, 0])
    sets = []
    if train.n > train.k:
        unseen = draw_unseen(train, min(DEFAULT_SCENES, goals), rng)
        sets.append(make_goals(world, unseen, per_bucket=each, part="unseen", seed=seed, strict=False))
    some = [train.scenes[i] for i in sorted(rng.permutation(len(train))[:DEFAULT_SCENES].tolist())]
    known = replace(train, scenes=tuple(some))
    return [*sets, make_goals(world, known, per_bucket=each, part="training", seed=seed, strict=False)]


def _check_part(goals: GoalSet, train: tuple[tuple[int, ...], ...], path: object) -> None:
    """A file says whether its scenes are unseen; that must be true of this run."""
    known = set(train)
    scenes = {tuple(i for i in scene if i >= 0) for scene in goals.scenes.tolist()}
    wrong = len(scenes & known if goals.part == "unseen" else scenes - known)
    if wrong:
        raise HowmError(f"{wrong} scenes of {path} are not {goals.part} scenes of this run; make goals for it")


def _default_cost(model: WorldModel, goals: GoalSet) -> Kind:
    start = Seeing(model, goals.world).observe(goals.scenes[:1], goals.start[:1])
    return "embedding" if model.objects(start) is None else "objects"


def by_length(goals: GoalSet, pursue: Callable[[GoalSet], Outcome], seed: int = 0) -> ByLength:
    """What was reached, for each bucket of optimal steps."""
    found: ByLength = {}
    for name in BUCKETS:
        some = goals.bucket(name)
        found[name] = summarise(some, pursue(some), seed) if len(some) else Reached(0)
    return found


def summarise(goals: GoalSet, outcome: Outcome, seed: int = 0) -> Reached:
    """Means over goals, and an interval of success over scenes."""
    success, detour = outcome.success, goals.detour
    taken = np.maximum(outcome.imagined.sum(), 1)
    planned = bool(outcome.imagined.any())
    return Reached(
        goals=len(goals),
        success=_percent(success),
        success_ci=_interval(success, goals.scenes, np.random.default_rng([seed, 3])),
        ratio=float((outcome.steps[success] / goals.optimal[success]).mean()) if success.any() else None,
        steps=float(outcome.steps[success].mean()) if success.any() else None,
        open_loop=_percent(outcome.open_loop) if planned else None,
        came_true=float(100 * outcome.came_true.sum() / taken) if planned else None,
        model_calls=float(outcome.calls.mean()),
        cpu_seconds=outcome.cpu_seconds / len(goals),
        detours=int(detour.sum()),
        detour_success=_percent(success[detour]) if detour.any() else None,
        bounded=int((~goals.exact).sum()),
    )


def _percent(values: np.ndarray) -> float:
    return float(100 * values.mean())


def _interval(
    success: np.ndarray, scenes: np.ndarray, rng: np.random.Generator, resamples: int = 1000
) -> tuple[float, float]:
    """A percentile bootstrap over scenes; of goals, where there is one scene only."""
    scene = np.unique(scenes, axis=0, return_inverse=True)[1].reshape(-1)
    if scene.max() == 0:
        scene = np.arange(len(success))
    total, count = np.bincount(scene, weights=success), np.bincount(scene)
    drawn = rng.integers(len(total), size=(resamples, len(total)))
    low, high = np.percentile(100 * total[drawn].sum(axis=1) / count[drawn].sum(axis=1), [2.5, 97.5])
    return float(low), float(high)
