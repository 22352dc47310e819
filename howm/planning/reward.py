"""A reward head: how much of a task is done, read off the states of a world model that stays as it is.

It learns from frames and rewards alone. Where a model keeps library objects apart (``WorldModel.objects``), the head
sums over objects and over pairs of them, so that it knows scenes by their objects; else it reads the embedding.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from howm.config import require_least, require_positive, validate
from howm.data.episodes import Episodes
from howm.data.privileged import Privileged
from howm.data.rollouts import privileged_of
from howm.errors import HowmError
from howm.models.world_model import State, WorldModel, device_of, evaluating
from howm.worlds.tasks import Task, make_task

AT_ONCE = 256  # frames that are encoded together
CLOSE = 0.05  # by which a predicted reward may differ to count as right


@dataclass(frozen=True)
class RewardConfig:
    """How a reward head is built and trained; the defaults take seconds on a CPU."""

    hidden: int = 64
    identity: int = 8  # numbers that the head learns of each library object
    frames: int = 20_000  # to learn from, at most
    steps: int = 2_000
    batch: int = 256
    lr: float = 2e-3

    def __post_init__(self) -> None:
        validate(self)
        require_least(self, 1, "hidden", "identity", "frames", "steps", "batch")
        require_positive(self, "lr")


@dataclass(frozen=True)
class Seen:
    """What a head reads of states: a row for each object that is there, or one row, the embedding."""

    rows: Float[Tensor, "B M D"]
    present: Bool[Tensor, "B M"]
    objects: Tensor  # (B, M): the library objects of the rows; 0 where the row is the embedding

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Tensor) -> "Seen":
        return Seen(self.rows[index], self.present[index], self.objects[index])

    @classmethod
    def of(cls, model: WorldModel, state: State) -> "Seen":
        rows = model.objects(state)
        if rows is None:
            rows = model.embed(state).unsqueeze(1)
            present = torch.ones(rows.shape[:2], dtype=torch.bool, device=rows.device)
            return cls(rows, present, torch.zeros_like(present, dtype=torch.long))
        known = model.present(state)
        if known is None:
            present = torch.ones(rows.shape[:2], dtype=torch.bool, device=rows.device)
            return cls(rows, present, torch.arange(rows.shape[1], device=rows.device).expand(len(rows), -1))
        most = max(1, min(rows.shape[1], model.spec.k + 1 if model.spec else rows.shape[1]))
        there, objects = known.to(torch.uint8).topk(most, dim=1)
        picked = rows.gather(1, objects.unsqueeze(2).expand(-1, -1, rows.shape[2]))
        return cls(picked, there > 0, objects)

    @classmethod
    def joined(cls, parts: list["Seen"]) -> "Seen":
        return cls(*(torch.cat([getattr(part, name) for part in parts]) for name in ("rows", "present", "objects")))


class RewardHead(nn.Module):
    """Objects hear of each other in pairs, then all are summed; the head knows which library object each one is."""

    def __init__(self, n: int, size: int, config: RewardConfig, task: Task | None = None) -> None:
        super().__init__()
        self.n, self.size, self.config, self.task = n, size, config, task
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))
        self.identity = nn.Embedding(n, config.identity)
        width, hidden = size + config.identity, config.hidden
        self.first, self.second, self.apart = (
            nn.Linear(width, hidden),
            nn.Linear(width, hidden),
            nn.Linear(size, hidden),
        )
        self.message = nn.Linear(hidden, hidden)
        self.object = nn.Sequential(nn.Linear(width + hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.read_out = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    mean: Tensor
    scale: Tensor

    def forward(self, seen: Seen) -> Float[Tensor, " B"]:
        there = seen.present.unsqueeze(2).to(seen.rows.dtype)
        values = (seen.rows - self.mean) / self.scale
        rows = torch.cat([values, self.identity(seen.objects)], dim=2)
        apart = (values.unsqueeze(2) - values.unsqueeze(1)).abs()
        pairs = (self.first(rows).unsqueeze(2) + self.second(rows).unsqueeze(1) + self.apart(apart)).relu()
        others = there.unsqueeze(1) * ~torch.eye(rows.shape[1], dtype=torch.bool, device=rows.device).unsqueeze(2)
        messages = (self.message(pairs).relu() * others).sum(dim=2)
        objects = self.object(torch.cat([rows, messages], dim=2)) * there
        found: Tensor = self.read_out(torch.cat([objects.sum(dim=1), objects.amax(dim=1)], dim=1))
        return found.squeeze(1)

    def of(self, model: WorldModel, state: State) -> Float[Tensor, " B"]:
        """The reward of each state of a model."""
        seen = Seen.of(model, state)
        if seen.rows.shape[2] != self.size:
            raise HowmError(
                f"this reward head reads {self.size} numbers of an object, the model has {seen.rows.shape[2]}"
            )
        found: Tensor = self(seen)
        return found

    def attach(self, model: WorldModel) -> WorldModel:
        """Give a model the capability ``reward``."""
        model.reward_function = self.eval().to(device_of(model)).of
        return model


@torch.no_grad()
def see(model: WorldModel, pictures: np.ndarray | Tensor, privileged: Privileged | None = None) -> Seen:
    """What a head reads of pictures, on the CPU."""
    batch, parts = torch.as_tensor(pictures), []
    with evaluating(model):
        for begin in range(0, len(batch), AT_ONCE):
            some = slice(begin, begin + AT_ONCE)
            known = privileged[some] if privileged is not None and model.privileged else None
            seen = Seen.of(model, model.encode(batch[some].to(device_of(model)), known))
            parts.append(Seen(seen.rows.float().cpu(), seen.present.cpu(), seen.objects.cpu()))
    return Seen.joined(parts)


def fit_reward(
    model: WorldModel,
    episodes: Episodes,
    task: str | dict[str, Any] | Task,
    *,
    config: RewardConfig | None = None,
    seed: int = 0,
) -> RewardHead:
    """A head that predicts a task's score from the states of a model, learned from random frames of some episodes."""
    config, task = config or RewardConfig(), make_task(task)
    rng = np.random.default_rng([seed, 23])
    pictures, scores, privileged = _frames(episodes, task, config.frames, rng)
    return fit_to_rewards(model, pictures, scores, config=config, seed=seed, task=task, privileged=privileged)


def _frames(
    episodes: Episodes, task: Task, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, Privileged]:
    """Random frames, with their scores."""
    world, _, states = episodes.state()
    task.check(world)
    total = len(episodes) * (episodes.steps + 1)
    episode, time = np.divmod(rng.permutation(total)[:count], episodes.steps + 1)
    ids, shown = episodes.ids_at(episode, time), states[episode, time]
    return world.render(ids, shown), task.score(world, ids, shown), privileged_of(world, ids, shown)


def fit_to_rewards(
    model: WorldModel,
    pictures: np.ndarray | Tensor,
    rewards: np.ndarray,
    *,
    config: RewardConfig | None = None,
    seed: int = 0,
    task: Task | None = None,
    privileged: Privileged | None = None,
) -> RewardHead:
    """A head that predicts the rewards of pictures from the states of a model, which is not changed."""
    config = config or RewardConfig()
    if not len(pictures) or len(pictures) != len(rewards) or not np.isfinite(rewards).all():
        raise HowmError(f"{len(pictures)} pictures need as many finite rewards, got {len(rewards)}")
    seen, wanted = see(model, pictures, privileged), torch.as_tensor(np.asarray(rewards), dtype=torch.float32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        n = model.spec.n if model.spec else int(seen.objects.max()) + 1
        head = RewardHead(n, seen.rows.shape[2], config, task)
        there = seen.rows[seen.present]
        head.mean.copy_(there.mean(dim=0))
        head.scale.copy_(there.std(dim=0).clamp_min(1e-3))
        optimizer = torch.optim.Adam(head.parameters(), lr=config.lr)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.steps)
        for _ in range(config.steps):
            index = torch.randint(len(seen), (min(config.batch, len(seen)),))
            loss = mse_loss(head(seen[index]), wanted[index])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return head.eval()


@dataclass(frozen=True)
class RewardAccuracy:
    """How well a head predicts the scores of frames."""

    frames: int
    mean_error: float
    explained: float  # share of the variance
    close: float  # share of frames within 0.05


@torch.no_grad()
def reward_accuracy(
    head: RewardHead, model: WorldModel, episodes: Episodes, *, frames: int = 2_000, seed: int = 0
) -> RewardAccuracy:
    """The accuracy of a head on random frames of some episodes, such as those of unseen scenes."""
    if head.task is None:
        raise HowmError("this head was fitted to rewards of no task; compare its predictions with yours")
    pictures, scores, privileged = _frames(episodes, head.task, frames, np.random.default_rng([seed, 29]))
    errors = np.abs(head(see(model, pictures, privileged)).numpy() - scores)
    variance = float(np.var(scores))
    explained = 1 - float((errors**2).mean()) / variance if variance else 0.0
    return RewardAccuracy(len(scores), float(errors.mean()), explained, float((errors <= CLOSE).mean()))
