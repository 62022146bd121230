from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("verifiers", reason="make test-bridges installs it")
pytestmark = pytest.mark.bridge

from tests.bridges.common import IDS, play_index  # noqa: E402
from tests.bridges.expert_server import ExpertServer  # noqa: E402

LIMIT = 2


@pytest.mark.parametrize("env_id", IDS)
def test_vf_eval_plays_the_expert_to_the_same_rewards(env_id: str, tmp_path: Path) -> None:
    expected = [play_index(env_id, i, split="validation") for i in range(LIMIT)]
    with ExpertServer(expected) as url:
        command = [
            str(Path(sys.executable).with_name("vf-eval")), "agentr1-verifiers",
            "--env.taskset.env-id", env_id, "--env.taskset.split", "validation",
            "--env.taskset.limit", str(LIMIT), "-m", "expert", "--client.base-url", url,
            "--client.api-key-var", "EXPERT_KEY", "--env.agent.runtime.type", "subprocess",
            "--no-push", "-o", str(tmp_path),
        ]  # fmt: skip
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, "EXPERT_KEY": "x", "COLUMNS": "200"},
            timeout=300,
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (file,) = tmp_path.rglob("traces.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(rows) == LIMIT
    for row in rows:
        assert row["ok"], row["traces"][0]["errors"]
        trace = row["traces"][0]
        played = expected[row["task"]["data"]["idx"]]
        assert row["task"]["data"]["id"] == played.infos[0]["task_id"]
        assert trace["info"]["agentr1"]["rewards"] == played.rewards
        assert trace["rewards"]["agentr1_reward"]["score"] == sum(played.rewards)
        assert trace["metrics"]["success"] == 1.0 and trace["metrics"]["score"] == 1.0
        assert trace["stop_condition"] == played.infos[-1]["stop_reason"]
