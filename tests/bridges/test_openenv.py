from __future__ import annotations

import json
import threading
import time

import pytest

pytest.importorskip("openenv", reason="make test-bridges installs it")
pytestmark = pytest.mark.bridge

import uvicorn  # noqa: E402
from openenv.core import GenericEnvClient  # noqa: E402

from agentr1_envs.bridges.openenv import make_app  # noqa: E402
from tests.bridges.common import IDS, SEEDS, play  # noqa: E402


class Server:
    def __init__(self, env_id: str) -> None:
        config = uvicorn.Config(make_app(env_id), host="127.0.0.1", port=0, log_level="error")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.02)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(20)


@pytest.mark.parametrize("env_id", IDS)
def test_the_expert_gets_the_same_rewards_through_the_server(env_id: str) -> None:
    with Server(env_id) as url, GenericEnvClient(base_url=url).sync() as client:
        for seed in SEEDS:
            expected = play(env_id, seed)
            result = client.reset(seed=seed)
            assert result.observation["text"] == expected.observations[0]
            assert result.observation["info"]["task_id"] == expected.infos[0]["task_id"]
            for t, action in enumerate(expected.actions):
                result = client.step({"text": action})
                assert result.observation["text"] == expected.observations[t + 1]
                assert result.reward == expected.rewards[t]
            assert result.done and result.observation["terminated"]
            info = json.loads(json.dumps(expected.infos[-1]))
            assert result.observation["info"] == info


def test_two_sessions_do_not_meet() -> None:
    env_id = IDS[0]
    with Server(env_id) as url:
        with GenericEnvClient(base_url=url).sync() as a, GenericEnvClient(base_url=url).sync() as b:
            first, second = a.reset(seed=0), b.reset(seed=1)
            assert first.observation["text"] == play(env_id, 0).observations[0]
            assert second.observation["text"] == play(env_id, 1).observations[0]
            assert a.step({"text": play(env_id, 0).actions[0]}).reward == play(env_id, 0).rewards[0]
            assert b.state()["step_count"] == 0
