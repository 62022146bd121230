"""Every way to run several environments returns what single environments return."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import agentr1_envs  # noqa: F401
from agentr1_envs.vector import TaskVectorEnv

from .helpers import IDS, JUNK, Mixed, make

COUNT = 3
each_id = pytest.mark.parametrize("env_id", IDS)
each_mode = pytest.mark.parametrize("mode", ["sync", "async", "vector_entry_point"])


def vector(env_id: str, mode: str, **kwargs: Any) -> gym.vector.VectorEnv[Any, Any, Any]:
    env = gym.make_vec(env_id, COUNT, vectorization_mode=mode, **kwargs)
    assert isinstance(env, TaskVectorEnv) == (mode == "vector_entry_point")
    return env


class Single:
    """One environment that resets itself on the step after the end, like a vector slot."""

    def __init__(self, env_id: str, seed: int) -> None:
        self.env, self.ended = make(env_id), False
        self.policy = Mixed(self.env, seed, junk=0.3)
        self.obs, self.info = self.env.reset(seed=seed)
        self.policy.reset(self.obs, self.info)

    def act(self) -> str:
        return JUNK[3] if self.ended else self.policy.act(self.obs, self.info)

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.ended:
            self.obs, self.info = self.env.reset()
            self.policy.reset(self.obs, self.info)
            self.ended = False
            return self.obs, 0.0, False, False, self.info
        self.obs, reward, terminated, truncated, self.info = self.env.step(action)
        self.ended = terminated or truncated
        return self.obs, float(reward), terminated, truncated, self.info


def same_info(infos: dict[str, Any], info: dict[str, Any], slot: int) -> None:
    for key in ("task_id", "step", "anchor", "success", "score", "stop_reason"):
        present = key in infos and bool(infos["_" + key][slot])
        assert present == (key in info), key
        if present:
            assert infos[key][slot] == info[key], key
    if "agent_error" in info:
        assert infos["agent_error"]["kind"][slot] == info["agent_error"]["kind"]


@each_mode
@each_id
def test_equal_to_single_environments(env_id: str, mode: str) -> None:
    singles = [Single(env_id, 20 + slot) for slot in range(COUNT)]
    envs = vector(env_id, mode)
    try:
        observations, infos = envs.reset(seed=20)
        assert envs.single_observation_space == singles[0].env.observation_space
        for slot, single in enumerate(singles):
            assert observations[slot] == single.obs
            same_info(infos, single.info, slot)
        ends = 0
        for _ in range(30):
            actions = [single.act() for single in singles]
            observations, rewards, terminated, truncated, infos = envs.step(tuple(actions))
            assert envs.observation_space.contains(tuple(observations))
            for slot, single in enumerate(singles):
                expected = single.step(actions[slot])
                assert observations[slot] == expected[0]
                assert rewards[slot] == pytest.approx(expected[1])
                assert (terminated[slot], truncated[slot]) == expected[2:4]
                same_info(infos, expected[4], slot)
                ends += single.ended
        assert ends or singles[0].env.unwrapped.max_steps > 30  # type: ignore[attr-defined]
    finally:
        envs.close()


@each_mode
@each_id
def test_limits_of_make_vec_reach_the_environment(env_id: str, mode: str) -> None:
    envs = vector(env_id, mode, max_episode_steps=1)
    try:
        envs.reset(seed=0)
        _, _, terminated, truncated, infos = envs.step(("🙂",) * COUNT)
        assert np.all(terminated | truncated)
        for slot in range(COUNT):
            assert infos["_success"][slot] and infos["_score"][slot]
            assert infos["stop_reason"][slot]
    finally:
        envs.close()


@each_id
def test_slots_share_out_a_panel(env_id: str) -> None:
    envs = gym.make_vec(env_id, COUNT, split="test", order="sequential")
    single = make(env_id, split="test", order="sequential")
    expected = [single.reset()[1]["task_id"] for _ in range(COUNT)]
    assert list(envs.reset()[1]["task_id"]) == expected
    envs.close()
