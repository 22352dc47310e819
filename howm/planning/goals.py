"""Goals drawn with a seed, as many of every length: each has a plan, and the length of the shortest one is known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Integer, Num

from howm.errors import HowmError, require_int
from howm.planning.breadth import descends, guided_plans
from howm.planning.exact import MAX_NODES, shortest_plans
from howm.planning.goal_files import load_goals, save_goals
from howm.planning.goal_set import BUCKETS, PARTS, GoalSet, Part, bucket_range
from howm.planning.layers import Layers
from howm.planning.state_set import StateSet, state_hash
from howm.worlds.scenes import SceneSet, SceneSplit
from howm.worlds.sizes import sized
from howm.worlds.world import Scenes, States, World

__all__ = ["BUCKETS", "GoalSet", "Part", "load_goals", "make_goals", "save_goals"]

PLAYED, PLAYED_ALONE = 256, 12  # steps of random play in which goals are looked for, of all objects and of one
DETOUR = 4  # steps by which an optimal plan may exceed summed distances
STARTS, FAR = 16, 64  # of a breadth-first search, and of one for far goals
ROUNDS, BREADTH_ROUNDS = 20, 4  # of drawing candidates
FEW_ROUNDS = 20  # after which a world in which no detour was found counts as one without
_STREAM = 19


@dataclass(frozen=True)
class _Solved:
    """Candidates with their lengths, one row each."""

    scenes: Integer[np.ndarray, "C K"]
    start: Num[np.ndarray, "C K F"]
    goal: Num[np.ndarray, "C K F"]
    optimal: Integer[np.ndarray, " C"]
    exact: Bool[np.ndarray, " C"]
    detour: Bool[np.ndarray, " C"]

    def __len__(self) -> int:
        return len(self.scenes)

    def select(self, rows: np.ndarray) -> "_Solved":
        return _Solved(*(array[rows] for array in vars(self).values()))

    @classmethod
    def joined(cls, parts: Sequence["_Solved"]) -> "_Solved":
        return cls(*(np.concatenate(arrays) for arrays in zip(*(vars(part).values() for part in parts), strict=True)))


def make_goals(
    world: World,
    scenes: SceneSet | SceneSplit,
    *,
    per_bucket: int = 125,
    part: Part = "unseen",
    seed: int = 0,
    buckets: Sequence[str] = tuple(BUCKETS),
    detours: float = 0.2,
    strict: bool = True,
    max_nodes: int = MAX_NODES,
) -> GoalSet:
    """``per_bucket`` different goals for each bucket of optimal steps, a share ``detours`` of them with a detour.

    ``scenes`` are those to draw from, or a split, of which ``part`` "unseen" takes the evaluation scenes and "training"
    the others. Goals are states that random play from the start comes to, so all can be reached. Where a world has too
    few goals with a detour, others fill their places; where a bucket cannot be filled at all, that is an error, or,
    with ``strict=False``, the bucket has fewer. The same arguments give the same goals.
    """
    require_int("per_bucket", per_bucket, 1)
    require_int("seed", seed, 0)
    if not 0 <= detours <= 1:
        raise HowmError(f"detours, a share of goals, must be in [0, 1], got {detours}")
    if part not in PARTS:
        raise HowmError(f"part must be unseen or training, got {part!r}")
    wanted = {name: bucket_range(name) for name in buckets}
    ids = _read_scenes(world, scenes, part)
    rng = np.random.default_rng([seed, _STREAM, PARTS.index(part)])
    filled = _Filled(wanted, per_bucket, round(detours * per_bucket))
    for solved in _candidates(world, ids, filled, max_nodes, rng):
        filled.add(solved)
        if filled.complete:
            break
    chosen = filled.chosen()
    for name, rows in chosen.items():
        if len(rows) < per_bucket and strict:
            raise HowmError(
                f"only {len(rows)} of {per_bucket} goals of {name} optimal steps were found in these scenes of "
                f"{ids.shape[1]} objects; ask for fewer, or leave the bucket out"
            )
    found = _Solved.joined(list(chosen.values()))
    return GoalSet(world, **vars(found), part=part, seed=seed)


def _read_scenes(world: World, scenes: SceneSet | SceneSplit, part: Part) -> Scenes:
    if isinstance(scenes, SceneSplit):
        if part == "unseen" and not scenes.unseen_exists:
            raise HowmError(f"n=k={scenes.n} has one scene, so none is unseen; draw goals with part=training")
        scenes = scenes.eval if part == "unseen" else scenes.train
    if scenes.n != world.n:
        raise HowmError(f"scenes of {scenes.n} objects do not belong to a world of {world.n}")
    if not len(scenes):
        raise HowmError("there are no scenes to draw goals in; give one or more")
    return scenes.to_array()


class _Filled:
    """What has been found for each bucket, and what is missing."""

    def __init__(self, wanted: dict[str, tuple[int, int]], per_bucket: int, detours: int) -> None:
        self.wanted, self.per_bucket, self.detours = wanted, per_bucket, detours
        self.rounds = 0
        self._found: dict[str, list[_Solved]] = {name: [] for name in wanted}
        self._known = StateSet()

    def add(self, solved: _Solved) -> None:
        self.rounds += 1
        both = np.concatenate([solved.start, solved.goal], axis=1)
        scene = state_hash(np.zeros(len(solved), dtype=np.int64), solved.scenes).view(np.int64)
        solved = solved.select(np.flatnonzero(self._known.add(state_hash(scene, both))))
        for name, (least, most) in self.wanted.items():
            rows = np.flatnonzero((solved.optimal >= least) & (solved.optimal <= most))
            self._found[name].append(solved.select(rows))

    def missing(self, name: str) -> bool:
        found = self._found[name]
        enough = sum(map(len, found)) >= self.per_bucket
        detours = sum(int(part.detour.sum()) for part in found)
        if enough and (detours or self.rounds < FEW_ROUNDS):
            return detours < self.detours
        return not enough

    @property
    def open(self) -> list[str]:
        return [name for name in self.wanted if self.missing(name)]

    @property
    def complete(self) -> bool:
        return not self.open

    def chosen(self) -> dict[str, _Solved]:
        """As many detours as wanted, then others, then more detours where others are too few."""
        chosen = {}
        for name, parts in self._found.items():
            found = _Solved.joined(parts)
            detour, plain = np.flatnonzero(found.detour), np.flatnonzero(~found.detour)
            order = np.concatenate([detour[: self.detours], plain, detour[self.detours :]])
            chosen[name] = found.select(np.sort(order[: self.per_bucket]))
        return chosen


def _candidates(
    world: World, ids: Scenes, filled: _Filled, max_nodes: int, rng: np.random.Generator
) -> Iterator[_Solved]:
    """Solved goals, round by round."""
    for _ in range(ROUNDS):
        count = max(filled.per_bucket, 32)
        scenes = ids[rng.permutation(np.arange(count) * len(ids) // count)]
        many = sized(world, scenes)
        start = many.reset(scenes, rng)
        if many.steps_between(scenes[:1], start[:1], start[:1]) is None:
            near = slice(min(count, STARTS))
            yield _reached_in_breadth(many, scenes[near], start[near], filled, max_nodes, rng)
            far = slice(min(count, FAR))
            yield _reached_by_beam(many, scenes[far], start[far], max_nodes, rng)
            if filled.rounds >= BREADTH_ROUNDS:
                return
        else:
            played = many.play(scenes, start, PLAYED, 1.0, rng)[0].astype(start.dtype)
            yield _reached_in_play(many, scenes, played, filled, max_nodes, rng)
            if any(filled.wanted[name][0] < PLAYED_ALONE for name in filled.open):
                for _ in range(4):
                    played = _play_alone(many, scenes, start, rng)
                    yield _reached_in_play(many, scenes, played, filled, max_nodes, rng)


def _play_alone(
    world: World, scenes: Scenes, start: States, rng: np.random.Generator
) -> Num[np.ndarray, "E frames K F"]:
    """Random play of one object of each scene: it comes back near to where it was, with others in between."""
    per, row = world.actions_per_object, np.arange(len(scenes))
    actor = (rng.random(len(scenes)) * (scenes >= 0).sum(axis=1)).astype(np.int64)
    states = [start]
    for _ in range(PLAYED_ALONE):
        action = per * scenes[row, actor] + rng.integers(per, size=len(scenes))
        states.append(world.step(scenes, states[-1], action))
    return np.stack(states, axis=1)


def _reached_in_play(
    world: World,
    scenes: Scenes,
    states: Num[np.ndarray, "E frames K F"],
    filled: _Filled,
    max_nodes: int,
    rng: np.random.Generator,
) -> _Solved:
    """States of play at distances from its start that suit the buckets which are not full."""
    episodes, frames = states.shape[:2]
    start = np.repeat(states[:, 0], frames, axis=0)
    distance = world.steps_between(np.repeat(scenes, frames, axis=0), start, states.reshape(start.shape))
    assert distance is not None
    distance = distance.reshape(episodes, frames)
    rows, times = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for name in filled.open:
        least, most = filled.wanted[name]
        suits = (distance >= max(1, least - DETOUR)) & (distance <= most)
        rows.append(np.flatnonzero(suits.any(axis=1)))
        drawn = np.where(suits[rows[-1]], rng.random((len(rows[-1]), frames)), -1.0)
        times.append(drawn.argmax(axis=1))
    row, time = np.concatenate(rows), np.concatenate(times)
    scenes, goal = scenes[row], states[row, time]
    plans = shortest_plans(world, scenes, states[row, 0], goal, max_nodes=max_nodes)
    solved = _Solved(scenes, states[row, 0], goal, plans.steps, plans.exact, plans.least > distance[row, time])
    return solved.select(np.flatnonzero(plans.found))


def _reached_in_breadth(
    world: World, scenes: Scenes, start: States, filled: _Filled, max_nodes: int, rng: np.random.Generator
) -> _Solved:
    """States of a breadth-first search, some of every depth."""
    search = Layers(world, scenes, start)
    last = max((filled.wanted[name][1] for name in filled.open), default=0)
    goals, of, depths = [start[:0]], [search.of[:0]], [search.of[:0]]
    while len(search) and search.depth < last:
        search.select(np.flatnonzero((search.seen <= max_nodes)[search.of]))
        if not len(search):
            break
        search.advance()
        spans = [most + 1 - least for least, most in filled.wanted.values() if least <= search.depth <= most]
        some = -(-filled.per_bucket // (len(scenes) * spans[0])) + 1 if spans else 0
        rows = search.nearest(rng.random(len(search)), np.full(len(scenes), some))
        goals.append(search.state[rows])
        of.append(search.of[rows])
        depths.append(np.full(len(rows), search.depth))
    row, optimal = np.concatenate(of), np.concatenate(depths)
    order = rng.permutation(len(row))
    row, goal, optimal = row[order], np.concatenate(goals)[order], optimal[order]
    detour = ~descends(world, scenes[row], start[row], goal, max_nodes)
    return _Solved(scenes[row], start[row], goal, optimal, np.ones(len(row), dtype=bool), detour)


def _reached_by_beam(world: World, scenes: Scenes, start: States, max_nodes: int, rng: np.random.Generator) -> _Solved:
    """States of long random play, too far for a breadth-first search: their plans are upper bounds."""
    goal = world.play(scenes, start, PLAYED, 1.0, rng)[0][:, -1].astype(start.dtype)
    plans = guided_plans(world, scenes, start, goal)
    row = np.array(sorted(plans), dtype=np.int64)
    optimal = np.array([len(plans[i]) for i in row.tolist()], dtype=np.int64)
    detour = ~descends(world, scenes[row], start[row], goal[row], max_nodes)
    return _Solved(scenes[row], start[row], goal[row], optimal, np.zeros(len(row), dtype=bool), detour)
