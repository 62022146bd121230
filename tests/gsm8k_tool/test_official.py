"""Official files: every form, every fault, and all real rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import agentr1_envs  # noqa: F401
from agentr1_envs.errors import TaskDataError
from agentr1_envs.gsm8k_tool.answer import score_reply
from agentr1_envs.gsm8k_tool.calculator import evaluate
from agentr1_envs.gsm8k_tool.expert import Expert
from agentr1_envs.gsm8k_tool.official import find_files, load_tasks

ID = "AgentR1/GSM8KTool-v0"
ROWS = [
    {"question": "A has 2 and 3?", "answer": "2+3 = <<2+3=5>>5\n#### 5"},
    {"question": "价格 1 千 🙂?", "answer": "#### 1,080"},
]


def write(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".arrow":
        table = pa.Table.from_pylist(rows)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.parquet", "a.arrow"])
def test_every_file_form(tmp_path: Path, name: str) -> None:
    panel = load_tasks(write(tmp_path / name), split="test")
    assert len(panel) == 2 and panel.split == "test"
    assert panel[0] == {
        "task_id": "gsm8k/test/0",
        "question": "A has 2 and 3?",
        "answer": "5",
        "solution": ROWS[0]["answer"],
        "calls": ["2+3"],
    }
    assert panel[1]["answer"] == "1,080" and panel[1]["question"] == ROWS[1]["question"]


FOLDERS = [
    ["main/train-00000-of-00001.parquet", "main/test-00000-of-00001.parquet"],
    ["train.jsonl", "test.jsonl"],
    [
        "openai___gsm8k/main/0.0.0/abc/gsm8k-train.arrow",
        "openai___gsm8k/main/0.0.0/abc/gsm8k-test.arrow",
    ],
    ["snapshots/r1/main/train-0.parquet", "snapshots/r1/socratic/train-0.parquet"],
]


@pytest.mark.parametrize("names", FOLDERS)
def test_folders(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        write(tmp_path / name)
    (tmp_path / "README.md").write_text("train")
    (tmp_path / "dataset_info.json").write_text("{}")
    assert find_files(tmp_path, "train") == [tmp_path / names[0]]
    env = gym.make(ID, tasks=str(tmp_path), order="sequential")
    assert env.reset()[0] == ROWS[0]["question"]


def test_hub_cache_takes_the_revision_that_refs_name(tmp_path: Path) -> None:
    for revision in ("aaa", "bbb", "ccc"):
        rows = [{"question": revision, "answer": "#### 1"}]
        blob = write(tmp_path / "blobs" / f"x{revision}.parquet", rows)
        link = tmp_path / "snapshots" / revision / "main" / "train-00000-of-00001.parquet"
        link.parent.mkdir(parents=True)
        link.symlink_to(blob)
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs" / "main").write_text("bbb")
    assert load_tasks(tmp_path, split="train")[0]["question"] == "bbb"


def test_other_data_sets_beside_it_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "hub" / "datasets--aaa--other" / "train.parquet", [{"text": "x"}])
    wanted = write(tmp_path / "hub" / "datasets--openai--gsm8k" / "s" / "main" / "train-0.parquet")
    assert find_files(tmp_path, "train") == [wanted]


def test_environments_share_one_panel(tmp_path: Path) -> None:
    path = write(tmp_path / "train.jsonl")
    envs = [gym.make(ID, tasks=str(path)) for _ in range(2)]
    panels = [env.unwrapped.tasks for env in envs]  # type: ignore[attr-defined]
    assert panels[0] is panels[1]
    envs[0].unwrapped.tasks[0]["question"] = "changed"  # type: ignore[attr-defined]
    assert panels[1][0]["question"] == ROWS[0]["question"]
    test = gym.make(ID, tasks=str(path), split="test").unwrapped.tasks  # type: ignore[attr-defined]
    assert test is not panels[0] and test.split == "test"
    write(path, [*ROWS, {"question": "new", "answer": "#### 1"}])
    assert len(gym.make(ID, tasks=str(path)).unwrapped.tasks) == 3  # type: ignore[attr-defined]
    assert len(panels[0]) == 2


def test_shards_are_read_in_order(tmp_path: Path) -> None:
    for number in range(3):
        rows = [{"question": f"q{number}", "answer": f"#### {number}"}]
        write(tmp_path / f"train-0000{number}-of-00003.parquet", rows)
    panel = load_tasks(tmp_path, split="train")
    assert [panel[i]["question"] for i in range(3)] == ["q0", "q1", "q2"]
    assert panel[2]["task_id"] == "gsm8k/train/2"


def test_no_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"split 'train'.*no data files"):
        load_tasks(tmp_path, split="train")
    write(tmp_path / "train.jsonl")
    with pytest.raises(FileNotFoundError, match=r"'validation'.*train.jsonl.*train and test"):
        load_tasks(tmp_path, split="dev")
    with pytest.raises(FileNotFoundError, match="no such file"):
        load_tasks(tmp_path / "nothing.jsonl", split="train")


FAULTS = [
    ('{"question": "q"}', "row 1, field 'answer'"),
    ('{"question": "q", "answer": 5}', "row 1, field 'answer'.*got 5"),
    ('{"question": null, "answer": "#### 1"}', "row 1, field 'question'"),
    ('{"question": "q", "answer": "it is 5 apples or 6"}', "row 1, field 'answer'"),
    ('{"question": "q", "answer": "5 #### "}', "row 1, field 'answer'"),
    ('{"question": "q", "answer": "#### inf"}', "row 1, field 'answer'.*inf"),
    ('{"question": "q", ', "row 1"),
    ("[1]", "row 1"),
]


@pytest.mark.parametrize(("line", "message"), FAULTS)
def test_bad_rows_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps(ROWS[0]) + "\n" + line + "\n")
    with pytest.raises(TaskDataError, match=rf"train\.jsonl, {message}"):
        load_tasks(path, split="train")


def test_bad_files(tmp_path: Path) -> None:
    for name in ("a.parquet", "a.arrow", "a.json", "a.txt"):
        path = tmp_path / name
        path.write_bytes(b"\x00garbage")
        with pytest.raises(TaskDataError, match=name):
            load_tasks(path, split="train")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(TaskDataError, match=r"empty\.jsonl.*at least one"):
        load_tasks(tmp_path / "empty.jsonl", split="train")
    with pytest.raises(TypeError, match="path or a TaskSource"):
        load_tasks(5, split="train")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "split", "count"),
    [("train.jsonl", "train", 7_473), ("test_first_600.jsonl", "test", 600)],
)
def test_all_real_rows_score_one(shared: Path, name: str, split: str, count: int) -> None:
    env = gym.make(ID, tasks=str(shared / "data" / "gsm8k" / name), split=split, order="sequential")
    tasks = env.unwrapped.tasks  # type: ignore[attr-defined]
    assert len(tasks) == count
    for index in range(count):
        task = tasks[index]
        env.reset()
        _, reward, terminated, _, info = env.step(task["solution"])
        assert (reward, terminated, info["task_id"]) == (1.0, True, task["task_id"])
        assert score_reply("#### 123456789.5", task["answer"]) == 0.0
        for expression in task["calls"]:  # each of their calculations is one of ours
            evaluate(expression)


def test_the_expert_on_real_rows(shared: Path) -> None:
    env = gym.make(ID, tasks=str(shared / "data" / "gsm8k"), split="test", order="sequential")
    expert = Expert(env)
    for _ in range(200):
        observation, info = env.reset()
        expert.reset(observation, info)
        ended = False
        while not ended:
            observation, _, terminated, truncated, info = env.step(expert.act(observation, info))
            ended = terminated or truncated
            assert "agent_error" not in info
        assert info["success"]
