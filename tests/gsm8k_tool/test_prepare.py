"""`agentr1 prepare gsm8k_tool`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import pyarrow.parquet as pq
import pytest

import agentr1_envs  # noqa: F401
from agentr1_train.cli.main import main

ID = "AgentR1/GSM8KTool-v0"


def rows_of(path: Path) -> list[dict[str, Any]]:
    return pq.read_table(path).to_pylist()


def prepare(*arguments: object) -> int:
    return main(["prepare", "gsm8k_tool", *map(str, arguments)])


def test_generated(tmp_path: Path) -> None:
    sizes = ["--num_train", 30, "--num_validation", 5, "--num_test", 6, "--difficulty", "hard"]
    assert prepare("--local_save_dir", tmp_path, *sizes) == 0
    assert sorted(os.listdir(tmp_path)) == ["test.parquet", "train.parquet", "validation.parquet"]
    rows = rows_of(tmp_path / "train.parquet")
    assert len(rows) == 30
    row = rows[7]
    assert set(row) == {
        "data_source",
        "agent_name",
        "prompt",
        "ability",
        "reward_model",
        "extra_info",
        "env_kwargs",
    }
    spec = json.loads(row["env_kwargs"])
    task = spec["options"]["task"]
    assert row["prompt"][1] == {"role": "user", "content": task["question"]}
    assert row["reward_model"]["ground_truth"] == task["answer"]
    # The file is a panel of the environment, and each row restores its own task.
    env = gym.make(spec["env_id"], **spec["kwargs"])
    assert env.reset(options=spec["options"])[0] == task["question"]
    panel = gym.make(ID, tasks=str(tmp_path / "train.parquet"), order="sequential")
    assert panel.reset()[1]["task_id"] == rows[0]["extra_info"]["task_id"]


def test_the_same_twice(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert prepare("--local_save_dir", tmp_path / name, "--num_train", 20) == 0
    for split in ("train", "validation", "test"):
        assert rows_of(tmp_path / "a" / f"{split}.parquet") == rows_of(
            tmp_path / "b" / f"{split}.parquet"
        )


def test_official_rows(shared: Path, tmp_path: Path) -> None:
    data = shared / "data" / "gsm8k"
    assert prepare("--local_save_dir", tmp_path, "--input", data, "--reward_tool") == 0
    assert sorted(os.listdir(tmp_path)) == ["test.parquet", "train.parquet"]
    assert len(rows_of(tmp_path / "train.parquet")) == 7_473
    row = rows_of(tmp_path / "test.parquet")[3]
    assert json.loads(row["env_kwargs"])["kwargs"] == {"split": "test", "reward_tool": True}
    assert row["data_source"] == "openai/gsm8k" and row["extra_info"]["split"] == "test"


def test_bad_input_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    good = {"question": "q", "answer": "#### 1"}
    (tmp_path / "train.jsonl").write_text(json.dumps(good) + "\n")
    (tmp_path / "test.jsonl").write_text(json.dumps({**good, "answer": "#### many"}) + "\n")
    assert prepare("--local_save_dir", out, "--input", tmp_path) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "test.jsonl, row 0, field 'answer'" in error
    assert "many" in error and not out.exists()
    (tmp_path / "rows.jsonl").write_text(json.dumps(good) + "\n")
    assert prepare("--local_save_dir", out, "--input", tmp_path / "rows.jsonl") == 2
    assert "--split" in capsys.readouterr().err
    assert prepare("--local_save_dir", out, "--input", tmp_path / "nothing") == 2
    assert "no such file" in capsys.readouterr().err
    assert prepare("--local_save_dir", out, "--limit", 0) == 2
    assert "--limit" in capsys.readouterr().err and not out.exists()


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prepare("--local_save_dir", tmp_path, "--num_train", 5, "--split", "train") == 0
    before = (tmp_path / "train.parquet").read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(pq, "write_table", fail)
    assert prepare("--local_save_dir", tmp_path, "--num_train", 9, "--split", "train") != 0
    assert (tmp_path / "train.parquet").read_bytes() == before
    assert os.listdir(tmp_path) == ["train.parquet"]
