"""Mistakes on the command line and in files: one line, a non-zero exit, nothing half-written."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agentr1_envs.errors import TaskDataError
from agentr1_envs.task_files import atomic_write, iter_rows, save_rows
from agentr1_envs.transitions import read_transitions
from agentr1_train.cli.main import main

PLAY = ["rollout", "gsm8k_tool", "--episodes", "1", "--quiet"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--workers", "0"], "workers must be at least 1, got 0"),
        (["--workers", "-2"], "got -2"),
        (["--step-timeout", "0"], "step_timeout must be a positive number"),
        (["--step-timeout", "nan"], "got nan"),
        (["--temperature", "nan"], "--temperature"),
        (["--temperature", "-1"], "--temperature"),
        (["--max-tokens", "-4"], "--max-tokens"),
        (["--env", "shard=3"], "shard must be (i, n)"),
        (["--env", 'shard=["a",2]'], "shard must be (i, n)"),
        (["--env", "max_calls=abc"], "max_calls must be a whole number of at least 1, got 'abc'"),
        (["--env", "max_errors=1.5"], "max_errors must be a whole number"),
        (["--env", "error_penalty=abc"], "error_penalty must be a finite number"),
        (["--env", "num_tasks=many"], "num_tasks must be a whole number"),
        (["--env", "tool_format=3"], "tool_format: got 3"),
        (["--env", "system_prompt=3"], "system_prompt must be a text"),
        (["--env", "render_mode=x"], "render_mode must be"),
        (["--env", "tasks=5"], "tasks must be a path"),
        (["--env", "nonsense=5"], "unexpected keyword argument 'nonsense'"),
    ],
)
def test_an_impossible_argument_is_one_line(words, part, capsys):
    assert main([*PLAY, *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and len(err.splitlines()) == 1
    assert part in err and "was raised from" not in err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.jsonl", b""),
        ("empty.parquet", b""),
        ("noise.parquet", bytes(range(256)) * 20),
        ("noise.jsonl", bytes(range(255, 0, -1))),
        ("deep.jsonl", b"[" * 100_000),
        ("digits.jsonl", b'{"question": ' + b"1" * 5000 + b"}"),
        ("digits.json", b'[{"question": ' + b"1" * 5000 + b"}]"),
        ("half.jsonl", b'{"question": "How many?", "answer": "#### 1"}\n{"question": '),
    ],
)
def test_a_bad_task_file_is_named_before_any_episode(name, content, tmp_path, capsys):
    path = tmp_path / name
    path.write_bytes(content)
    out = tmp_path / "out" / "x.parquet"
    assert main([*PLAY, "--tasks", str(path), "--out", str(out)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and str(path) in captured.err
    assert len(captured.err.splitlines()) == 1 and not captured.out and not out.exists()


def test_an_output_that_cannot_be_written_is_found_before_the_episodes(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for out in (tmp_path, tmp_path / "file" / "x.parquet", Path("/proc/nothing/x.parquet")):
        assert main([*PLAY, "--out", str(out)]) == 2
        captured = capsys.readouterr()
        assert f"--out {out}" in captured.err and not captured.out


def test_transitions_are_read_from_a_file_and_damage_is_named(tmp_path, capsys):
    out = tmp_path / "a=1" / "x.parquet"  # not a partition's name
    assert main([*PLAY, "--out", str(out)]) == 0
    assert read_transitions(out)
    content = out.read_bytes()
    damaged = tmp_path / "damaged.parquet"
    for bad in (content[: len(content) // 2], content[:40] + b"\0" * 400 + content[440:], b""):
        damaged.write_bytes(bad)
        with pytest.raises(TaskDataError, match="damaged.parquet"):
            read_transitions(damaged)
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"x": [1]}), other)
    capsys.readouterr()
    for path in (damaged, other, tmp_path / "none.parquet"):
        assert main(["view", str(path)]) == 2
        err = capsys.readouterr().err
        assert str(path) in err and len(err.splitlines()) == 1


def test_damaged_parquet_rows_are_a_data_error(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": [json.dumps({"a": i}) for i in range(2000)]}), path)
    content = path.read_bytes()
    path.write_bytes(content[:40] + b"\xff" * 400 + content[440:])
    with pytest.raises(TaskDataError, match="rows.parquet"):
        list(iter_rows(path))


def _command(*words: str, **kwargs) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentr1_train.cli.main", *words],
        stderr=subprocess.PIPE, text=True, timeout=120, **kwargs,
    )  # fmt: skip


def test_a_closed_pipe_is_quiet_and_a_full_disk_is_not():
    read, write = os.pipe()
    os.close(read)
    closed = _command("envs", stdout=write)
    os.close(write)
    assert (closed.returncode, closed.stderr) == (0, "")
    if os.path.exists("/dev/full"):
        with open("/dev/full", "w") as full:
            done = _command("envs", stdout=full)
        assert done.returncode == 1 and "No space left" in done.stderr
        assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_half_a_surrogate_pair_breaks_neither_files_nor_terminals(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text(
        '{"task_id": "a\\ud800", "question": "\\ud800 How many?", "answer": "#### 1"}\n'
    )
    prepare = ["prepare", "gsm8k_tool", "--local_save_dir", str(tmp_path / "out")]
    assert main([*prepare, "--input", str(path)]) == 0
    save_rows(tmp_path / "again.jsonl", list(iter_rows(path)))
    assert list(iter_rows(tmp_path / "again.jsonl")) == list(iter_rows(path))
    save_rows(tmp_path / "again.parquet", list(iter_rows(path)))
    assert next(iter(iter_rows(tmp_path / "again.parquet")))["question"] == "? How many?"
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    words = ["render", "gsm8k_tool", "--env", f"tasks={path}"]
    done = _command(*words, stdout=subprocess.PIPE, env=env)
    assert done.returncode == 0 and "\\ud800 How many?" in done.stdout, done.stderr


@pytest.mark.parametrize("command", ["play", "render"])
def test_a_negative_seed_is_one_line(command, capsys):
    assert main([command, "gsm8k_tool", "--seed", "-1"]) == 2
    assert capsys.readouterr().err.startswith("error: Seed must be")


def test_a_full_disk_names_the_file_and_leaves_nothing(tmp_path):
    target = tmp_path / "x.json"
    with pytest.raises(OSError, match="No space left on device: .*x.json"), atomic_write(target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["view", "FILE", "--limit", "-3"], "--limit -3: expected 0 (all) or more"),
        (["view", "FILE", "--html", "FOLDER"], "--html FOLDER: expected a file's name"),
        (["render", "gsm8k_tool", "--out", "FOLDER"], "--out FOLDER: expected a file's name"),
        (["render", "gsm8k_tool", "--out", "x.png"], "x.png: expected a name that ends in .txt"),
        (["view", "FOLDER", "--file", "/no/such.parquet"], "FOLDER: no /no/such.parquet in this"),
        (["view", "FOLDER", "--file", "a**b"], "FOLDER: no a**b in this folder"),
    ],
)
def test_what_is_shown_and_where_is_checked_first(words, part, tmp_path, capsys):
    file = tmp_path / "one.parquet"
    assert main([*PLAY, "--out", str(file)]) == 0
    names = {"FILE": str(file), "FOLDER": str(tmp_path)}
    capsys.readouterr()
    assert main([names.get(word, word) for word in words]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and len(err.splitlines()) == 1
    assert part.replace("FOLDER", str(tmp_path)) in err
    assert list(tmp_path.iterdir()) == [file]


def test_a_split_that_a_library_lacks_is_one_line(tmp_path, capsys):
    row = {"question": "Which?", "answer": ["One"], "answer_arxiv_id": ["2101.00001"]}
    (tmp_path / "train.jsonl").write_text(json.dumps(row) + "\n")
    words = ["--input", str(tmp_path / "train.jsonl"), "--output_dir", str(tmp_path / "D")]
    assert main(["prepare", "paperscout", *words]) == 0
    capsys.readouterr()
    words = ["--env-arg", f"library={tmp_path / 'D'}", "--policy", "expert", "--episodes", "1"]
    assert main(["eval", "--env", "paperscout", *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and len(err.splitlines()) == 1
    assert "no tasks of the split 'test': use split='train'" in err


def test_a_picture_that_cannot_be_written_does_not_end_the_play(tmp_path):
    (tmp_path / "file").write_text("")
    said = f":draw {tmp_path / 'x.png'}\n:draw {tmp_path / 'file/x.svg'}\n:draw\n:quit\n"
    small = 'library_options={"size": 1500}'
    done = _command("play", "paperscout", "--env", small, input=said, stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("not written: ") == 2 and "(recall 0.00" in done.stdout


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    code = (
        "import os, signal, sys\nfrom agentr1_envs.task_files import atomic_write\n"
        "with atomic_write(sys.argv[1], 'w') as handle:\n    handle.write('half')\n"
        "    handle.flush()\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    target = tmp_path / "x[1].json"
    killed = subprocess.run([sys.executable, "-c", code, str(target)], timeout=120)
    assert killed.returncode == -9
    (left,) = tmp_path.iterdir()
    assert left.suffix == ".tmp"
    other = tmp_path / f".x[1].json.{os.getpid()}-abc.tmp"  # of a process that lives: this one
    other.write_text("theirs")
    with atomic_write(target, "w") as handle:
        handle.write("{}")
    assert sorted(tmp_path.iterdir()) == [other, target]


def test_an_unfinished_file_that_is_locked_stays(tmp_path):
    import fcntl

    killed = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                            stdout=subprocess.PIPE, text=True, timeout=120)  # fmt: skip
    elsewhere = tmp_path / f".x.json.{killed.stdout.strip()}-abc.tmp"
    with elsewhere.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with atomic_write(tmp_path / "x.json", "w") as mine:
            mine.write("{}")
        assert elsewhere.exists()
    with atomic_write(tmp_path / "x.json", "w") as mine:
        mine.write("{}")
    assert not elsewhere.exists()
