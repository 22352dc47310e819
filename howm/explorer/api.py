"""What the page can ask for: one method a question, plain values and pictures in and out."""

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from howm.errors import HowmError, short
from howm.explorer import goal
from howm.explorer.hard_rank import HardPool
from howm.explorer.rollout import MAX_STEPS, REFERENCES, Rollout
from howm.explorer.sessions import Session, Sessions
from howm.explorer.stage import Stage
from howm.explorer.subject import Sight, Subject
from howm.explorer.trouble import ROLLOUTS, STEPS, find_trouble

Answer = dict[str, Any]


class Api:
    """All questions about one stage. One is answered at a time, so that a step never shares its core with another."""

    def __init__(self, stage: Stage, sessions: Sessions | None = None) -> None:
        self.stage = stage
        self.sessions = Sessions() if sessions is None else sessions
        self._pool = HardPool(stage)
        self._lock = threading.Lock()
        self._described = encode(self._describe())
        self._questions: dict[str, Callable[[Session, Mapping[str, Any]], Answer]] = {
            "step": self._step,
            "rewind": self._rewind,
            "inspect": lambda session, asked: session.playing().inspect(asked.get("time")),
            "rank": lambda session, asked: self._pool.rank(session.playing(), asked.get("time")),
            "suggest": self._suggest,
            "goal/start": lambda session, _: goal.start_goal(session),
            "goal/step": lambda session, asked: goal.step_goal(session, asked.get("action")),
            "goal/shuffle": lambda session, _: goal.shuffle_goal(session),
            "goal/plan": lambda session, _: goal.plan_to_goal(session),
        }

    def describe(self) -> bytes:
        return self._described

    def answer(self, question: str, asked: Mapping[str, Any]) -> bytes:
        """The answer as JSON; a HowmError says what is wrong with the question."""
        with self._lock:
            if question == "new":
                return encode(self._new(asked))
            return encode(self._questions[question](self.sessions.get(asked.get("session")), asked))

    def knows(self, question: str) -> bool:
        return question == "new" or question in self._questions

    def _describe(self) -> Answer:
        world, stage = self.stage.world, self.stage
        return {
            "world": {
                "title": stage.title,
                "n": world.n,
                "height": world.height,
                "width": world.width,
                "actionsPerObject": world.actions_per_object,
                "actionNames": list(world.action_names),
                "objects": [" ".join(text.split()) for text in world.object_texts()],
                "sprites": stage.sprites,
            },
            "models": [_describe_model(stage, subject) for subject in stage.subjects],
            "kinds": {str(k): kinds for k, kinds in stage.kinds.items()},
            "sizes": stage.sizes,
            "size": stage.size,
            "maxSteps": MAX_STEPS,
            "search": {"rollouts": ROLLOUTS, "steps": STEPS},
            "goal": {"ready": True},
        }

    def _new(self, asked: Mapping[str, Any]) -> Answer:
        """A new scene: drawn, chosen by its objects, or found by a search; in a new session unless one is given."""
        session = self.sessions.get(asked["session"]) if "session" in asked else self.sessions.new()
        actions: tuple[int, ...] = ()
        if "found" in asked:
            trouble = session.troubles.get(asked["found"]) if isinstance(asked["found"], str) else None
            if trouble is None:
                raise HowmError(f"no search has found {short(asked['found'])}; search again")
            scene, start, actions = trouble.scene, trouble.start, trouble.actions
        elif "objects" in asked:
            scene = self.stage.chosen(asked["objects"])
            start = self.stage.start(scene, session.rng)
        else:
            scene, start = self.stage.draw(*self._kind_and_size(asked), session.rng)
        rollout = Rollout(self.stage.world, self.stage.sights(len(scene)), scene, start)
        for action in actions:
            rollout.step(action)
        session.rollout, session.goal = rollout, None
        return {
            "session": session.key,
            "scene": {
                "objects": list(scene),
                "kind": self.stage.kind_of(scene),
                "text": self.stage.scene_text(scene),
                "moves": {str(item): moves for item, moves in self.stage.moves(scene).items()},
            },
            "frames": [rollout.frame(time) for time in range(rollout.time + 1)],
        }

    def _kind_and_size(self, asked: Mapping[str, Any]) -> tuple[str, int]:
        size = asked.get("size", self.stage.size)
        if type(size) is not int:
            raise HowmError(f"size must be an integer, got {short(size)}")
        return asked.get("kind", self.stage.kinds.get(size, ["unseen"])[0]), size

    def _step(self, session: Session, asked: Mapping[str, Any]) -> Answer:
        rollout = session.playing()
        rollout.step(asked.get("action"))
        return rollout.frame(rollout.time)

    def _rewind(self, session: Session, asked: Mapping[str, Any]) -> Answer:
        session.playing().rewind(asked.get("time"))
        return {"time": session.playing().time}

    def _suggest(self, session: Session, asked: Mapping[str, Any]) -> Answer:
        return {"actions": session.playing().suggest(asked.get("count"), self.stage.moving, session.rng)}

    def search(self, asked: Mapping[str, Any]) -> Iterator[bytes]:
        """Lines of JSON: how far the search is, and at last what it found. Whoever stops reading ends it."""
        session = self.sessions.get(asked.get("session"))
        kind, size = self._kind_and_size(asked)
        rounds = find_trouble(self.stage, kind, size, session.rng)
        while True:
            with self._lock:  # a round at a time: pages can be played meanwhile
                done, worst = next(rounds)
                session.troubles = {str(i): trouble for i, trouble in enumerate(worst)}
            yield encode({"done": done, "total": ROLLOUTS, "worst": worst[0].error})
            if done >= ROLLOUTS:
                break
        found = [
            {"key": key, **trouble.plain(self.stage.kind_of(trouble.scene))}
            for key, trouble in session.troubles.items()
        ]
        yield encode({"found": found})


def _describe_model(stage: Stage, subject: Subject) -> Answer:
    can = Sight(stage.world, subject.model).capabilities
    notes = []
    if not can["draw"]:
        notes.append(
            f"{subject.name} cannot draw what it imagines. Shown is the nearest reference picture, by its encoding: of "
            f"{REFERENCES} random states of the scene, the frames of this rollout, and the states next to the truth."
        )
    if not can["masks"]:
        notes.append(f"{subject.name} has no masks, so its slots are not shown.")
    if not can["binding"]:
        notes.append(f"{subject.name} does not bind objects to slots by itself, so there is no binding matrix.")
    if subject.model.privileged:
        notes.append(f"{subject.name} is privileged: it reads which objects are in the scene.")
    return {"name": subject.name, "title": subject.title, "can": can, "notes": notes}


def encode(answer: Answer) -> bytes:
    """JSON in one line; pictures as base64 of their bytes."""
    return json.dumps(answer, default=_picture, allow_nan=False, separators=(",", ":")).encode()


def _picture(value: Any) -> Answer:
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 3:
        height, width, channels = value.shape
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"width": width, "height": height, "channels": channels, "data": data}
    raise TypeError(f"{type(value).__name__} is not for pages")
