"""A DQN that learns in the imagination of a world model, and is then tried in the real world in unseen scenes.

The task: bring object 0 to the middle. The model and the reward head on it have seen training scenes only; the DQN has
seen nothing but imagined embeddings. ``python examples/imagined_dqn.py`` takes a few minutes on one core.
"""

import copy

import gymnasium
import numpy as np
import torch
from torch import nn

import howm
from howm.planning.reward import RewardConfig

TASK = {"name": "bring_to", "object": 0, "place": [0.5, 0.5]}


def train(env, steps, discount=0.9, batch=512, seed=0):
    """Double Q-learning with a replay buffer and a target network, in any vector environment with small rewards."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    size, actions = env.single_observation_space.shape[0], int(env.single_action_space.n)
    q = nn.Sequential(nn.Linear(size, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, actions))
    target, optimizer = copy.deepcopy(q), torch.optim.Adam(q.parameters(), lr=1e-3)
    seen, _ = env.reset(seed=seed)
    memory, ended = [], np.zeros(env.num_envs, dtype=bool)
    for step in range(steps):
        explore = rng.random(env.num_envs) < max(0.1, 1 - 2 * step / steps)
        chosen = np.where(explore, rng.integers(actions, size=env.num_envs), greedy(q, seen))
        after, reward, done, truncated, _ = env.step(chosen)
        if (~ended).any():  # where an episode had ended, this step only began the next one
            memory.append([torch.from_numpy(part[~ended]) for part in (seen, chosen, reward, after, done)])
        seen, ended, memory = after, done | truncated, memory[-2000:]
        drawn = [memory[i] for i in rng.integers(len(memory), size=max(1, batch // env.num_envs))]
        s, a, r, s2, d = (torch.cat(part) for part in zip(*drawn, strict=True))
        with torch.no_grad():
            value = target(s2 / 10).gather(1, q(s2 / 10).argmax(dim=1, keepdim=True))[:, 0]
        loss = nn.functional.smooth_l1_loss(
            q(s / 10).gather(1, a[:, None])[:, 0], 10 * r.float() + discount * ~d * value
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 200 == 0:
            target.load_state_dict(q.state_dict())
    return q


@torch.no_grad()
def greedy(q, embeddings):
    return q(torch.as_tensor(embeddings) / 10).argmax(dim=1).numpy()


@torch.no_grad()
def success(model, q, split, episodes=400, steps=20, seed=0):
    """In the real environment: of the episodes that have the object, the share that is done; q=None acts at random."""
    env = gymnasium.make_vec("howm/Shapes-v0", episodes, n=10, split=split, reward_fn=TASK, max_episode_steps=-1)
    (seen, info), done = env.reset(seed=seed), np.zeros(episodes, dtype=bool)
    for _ in range(steps):
        seen, reward, *_ = env.step(greedy(q, model.embed(model.encode(seen))) if q else env.action_space.sample())
        done |= reward > 0
    return done[(info["object_ids"] == TASK["object"]).any(axis=1)].mean()


def main(steps=6000, head_steps=2000):
    model, data = howm.load("howm-shapes-n10"), howm.make_dataset("shapes", n=10, k=5)
    howm.fit_reward(model, data.train, TASK, config=RewardConfig(steps=head_steps)).attach(model)
    rows = np.flatnonzero((data.train.scene_ids == TASK["object"]).any(axis=1))[:2000]
    env = howm.ImaginedEnv(model, data.train.observe(rows, np.zeros_like(rows)), num_envs=32, max_episode_steps=20)
    q = train(env, steps)
    for split in ("train", "eval"):
        print(f"{split}: {success(model, q, split):.0%} of episodes, random {success(model, None, split):.0%}")


if __name__ == "__main__":
    main()
