from __future__ import annotations

import random

import numpy as np
import pytest

gem = pytest.importorskip("gem", reason="make test-bridges installs it")
pytestmark = pytest.mark.bridge

import agentr1_envs.bridges.gem  # noqa: E402, F401
from tests.bridges.common import IDS, SEEDS, play  # noqa: E402


@pytest.mark.parametrize("env_id", IDS)
def test_the_expert_gets_the_same_rewards(env_id: str) -> None:
    env = gem.make(env_id)
    for seed in SEEDS:
        expected = play(env_id, seed)
        random.seed(1)
        np.random.seed(1)
        before = random.getstate(), np.random.get_state()[1].tolist()
        text, info = env.reset(seed=seed)
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before
        assert expected.observations[0] in text and env.env.unwrapped.system_prompt in text
        assert info["task_id"] == expected.infos[0]["task_id"]
        for t, action in enumerate(expected.actions):
            text, reward, terminated, truncated, info = env.step(action)
            assert (text, reward) == (expected.observations[t + 1], expected.rewards[t])
        assert terminated and not truncated and info["success"]


def test_gems_vector_environment() -> None:
    env_id = IDS[0]
    env = gem.make_vec([env_id] * 3, seed=0)
    expected = [play(env_id, seed) for seed in range(3)]
    observations, _ = env.reset()
    assert all(e.observations[0] in o for e, o in zip(expected, observations, strict=True))
    _, rewards, *_ = env.step([e.actions[0] for e in expected])
    assert list(rewards) == [e.rewards[0] for e in expected]


def test_spawn_makes_another_of_the_same() -> None:
    env = gem.make(IDS[0], split="test")
    other = env.spawn()
    assert other.env.unwrapped.split == "test"
    assert other.reset(seed=1)[0] == env.reset(seed=1)[0]
