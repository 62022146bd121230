from __future__ import annotations

import pytest

skyrl_gym = pytest.importorskip("skyrl_gym", reason="make test-bridges installs it")
pytestmark = pytest.mark.bridge

import agentr1_envs.bridges.skyrl as bridge  # noqa: E402
from tests.bridges.common import IDS, play_index  # noqa: E402


@pytest.mark.parametrize("env_id", IDS)
def test_the_expert_gets_the_same_rewards(env_id: str) -> None:
    for row in bridge.rows(env_id, split="validation", limit=3):
        expected = play_index(env_id, row["extra_info"]["index"], split="validation")
        env = skyrl_gym.make("agentr1", extras=row)
        messages, meta = env.init(row["prompt"])
        assert messages == row["prompt"] and meta["task_id"] == row["extra_info"]["task_id"]
        assert expected.observations[0] in messages[-1]["content"]
        for t, action in enumerate(expected.actions):
            out = env.step(action)
            assert out["reward"] == expected.rewards[t]
            if not out["done"]:
                (message,) = out["observations"]
                assert message == {"role": "user", "content": expected.observations[t + 1]}
        assert out["done"] and out["metadata"]["terminated"] and out["observations"] == []
        assert env.get_metrics()["success"] == 1.0
        env.close()


def test_metrics_are_averaged_by_skyrl() -> None:
    from skyrl_gym.metrics import aggregate_for_environment

    found = aggregate_for_environment("agentr1", [{"success": 1.0}, {"success": 0.0}])
    assert found["success"] == 0.5


def test_a_row_without_a_spec_is_refused() -> None:
    with pytest.raises(ValueError, match="env_kwargs"):
        skyrl_gym.make("agentr1", extras={})
