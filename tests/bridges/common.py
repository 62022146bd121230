"""What the bridges' tests share: the tasks, and the rewards `gym.make` gives for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from agentr1_envs.registration import ENVS, load

IDS = list(ENVS)
SEEDS = (0, 1, 2)


@dataclass
class Played:
    """An episode of the scripted expert, as Gymnasium sees it."""

    observations: list[str] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    infos: list[dict[str, Any]] = field(default_factory=list)


def play(env_id: str, seed: int, **kwargs: Any) -> Played:
    """The expert's episode on the task that `seed` draws."""
    return _play(env_id, kwargs, seed=seed)


def play_index(env_id: str, index: int, **kwargs: Any) -> Played:
    """The expert's episode on a task of the panel."""
    return _play(env_id, kwargs, options={"task_index": index})


def _play(env_id: str, kwargs: dict[str, Any], **reset: Any) -> Played:
    env = gym.make(env_id, **kwargs)
    observation, info = env.reset(**reset)
    expert = load(ENVS[env_id].experts["expert"])(env)
    expert.reset(observation, info)
    played = Played([observation], infos=[info])
    over = False
    while not over:
        action = expert.act(observation, info)
        observation, reward, terminated, truncated, info = env.step(action)
        over = terminated or truncated
        played.observations.append(observation)
        played.actions.append(action)
        played.rewards.append(float(reward))
        played.infos.append(info)
    return played
