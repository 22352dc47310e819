"""Shortest plans by the obvious search: one state after the other, in Python's own containers."""

import heapq
from collections import deque
from itertools import count

import numpy as np


def key(world, scene, state):
    return tuple(world.state_key(scene[None], state[None])[0].tolist())


def neighbours(world, scene, state):
    for action in world.offered_actions(scene[None])[0]:
        yield int(action), world.step(scene[None], state[None], np.array([action]))[0]


def plain_breadth_first(world, scene, start, goal):
    """The length of a shortest plan, None where there is none."""
    wanted, waiting, seen = key(world, scene, goal), deque([(start, 0)]), {key(world, scene, start)}
    while waiting:
        state, depth = waiting.popleft()
        if key(world, scene, state) == wanted:
            return depth
        for _, after in neighbours(world, scene, state):
            if (found := key(world, scene, after)) not in seen:
                seen.add(found)
                waiting.append((after, depth + 1))
    return None


def plain_a_star(world, scene, start, goal):
    """The same, with the world's own bound to guide it."""
    wanted, order = key(world, scene, goal), count()

    def left(state):
        return int(world.steps_between(scene[None], state[None], goal[None])[0])

    waiting, best = [(left(start), next(order), 0, start)], {key(world, scene, start): 0}
    while waiting:
        _, _, depth, state = heapq.heappop(waiting)
        here = key(world, scene, state)
        if here == wanted:
            return depth
        if depth > best[here]:
            continue
        for _, after in neighbours(world, scene, state):
            found = key(world, scene, after)
            if depth + 1 < best.get(found, 10**9):
                best[found] = depth + 1
                heapq.heappush(waiting, (depth + 1 + left(after), next(order), depth + 1, after))
    return None


def plainly_descends(world, scene, start, goal):
    """Whether some way to the goal lowers the summed distance of the objects with every step."""

    def left(state):
        here, there = (world.positions(scene[None], one[None])[0] for one in (state, goal))
        return float(np.abs(here - there).sum())

    wanted, waiting, seen = key(world, scene, goal), [start], set()
    while waiting:
        state = waiting.pop()
        if key(world, scene, state) == wanted:
            return True
        for _, after in neighbours(world, scene, state):
            if left(after) < left(state) - 1e-6 and key(world, scene, after) not in seen:
                seen.add(key(world, scene, after))
                waiting.append(after)
    return False
