"""Start unmodified verl on the CPU with a recipe, and read what it left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from agentr1_train.local.tracking import read_metrics
from agentr1_train.verl.launch import environment

ROOT = Path(__file__).resolve().parents[2]
# A run takes a minute or two of two free cores, and ten times as long where others have them: only
# one that hangs is to be ended.
PATIENCE = 3_000  # seconds


def inputs(model: Path, data: Path) -> list[str]:
    return [
        f"actor_rollout_ref.model.path={model}",
        f"data.train_files={data / 'train.parquet'}",
        f"data.val_files={data / 'test.parquet'}",
    ]


def overrides(directory: Path) -> list[str]:
    return [
        # The first batch is the first rows, whatever the run.
        "data.shuffle=false",
        f"trainer.default_local_dir={directory}",
        f"agentr1.verl.debug_dir={directory / 'debug'}",
        "trainer.total_training_steps=2", "trainer.save_freq=1", "trainer.test_freq=-1",
        "trainer.val_before_train=false",
        # An untrained model solves nothing: it is paid for what it writes instead.
        "agentr1.env.wrappers=['tests.verl.rewards:LetterReward']", "data.train_batch_size=2",
        "actor_rollout_ref.rollout.n=4",
    ]  # fmt: skip


def command(way: str, recipe: str, words: list[str]) -> list[str]:
    """One of the three ways in which a user starts a run.

    Args:
        way: "cli" (`agentr1 train`), "script" (the recipe's run_verl.sh) or "verl" (its own entry).
    """
    folder = ROOT / "recipes" / recipe
    if way == "cli":
        cli = [sys.executable, "-m", "agentr1_train.cli.main", "train", f"recipe={recipe}"]
        return [*cli, "backend=verl", "device=cpu", *words]
    auto = ["size=cpu", "trainer.resume_mode=auto", *words]
    if way == "script":
        return ["bash", str(folder / "run_verl.sh"), *auto]
    verl = [sys.executable, "-m", "verl.trainer.main_ppo", "--config-path", str(folder)]
    return [*verl, "--config-name", "verl", *auto]


def start(words: list[str], log: Path, data: Path | None = None) -> subprocess.Popen[bytes]:
    paths = [str(ROOT), str(ROOT / ".cache" / "links"), os.environ.get("PYTHONPATH", "")]
    env = environment(cpu=True) | {"PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    env |= {"DATA": str(data), "PYTHON": sys.executable}  # of run_verl.sh
    env |= {"COLUMNS_FILE": str(log.with_name("columns.jsonl"))}  # of columns.py
    with log.open("ab") as handle:
        return subprocess.Popen(
            words, stdout=handle, stderr=subprocess.STDOUT, env=env, cwd=log.parent,
            start_new_session=True,
        )  # fmt: skip


def finish(process: subprocess.Popen[bytes], log: Path, seconds: float = PATIENCE) -> None:
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        kill(process)
        code = -1
    tail = log.read_text(errors="replace")[-6000:]
    assert code == 0, f"verl ended with {code}:\n{tail}"


def kill(process: subprocess.Popen[bytes]) -> None:
    """kill -9 of the driver and all that it started (one process session)."""
    with_session = subprocess.run(
        ["ps", "-o", "pid=", "-s", str(process.pid)], capture_output=True, text=True, check=False
    )
    for pid in with_session.stdout.split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, "verl ended before it was killed"
        assert time.monotonic() < deadline, f"nothing happened in {PATIENCE} seconds"
        time.sleep(0.2)


def metrics(directory: Path) -> dict[int, dict[str, float]]:
    """Each training step's line of metrics.jsonl."""
    rows = read_metrics(directory / "metrics.jsonl")
    return {row["step"]: row for row in rows if "training/global_step" in row}


def dumps(directory: Path) -> list[dict[str, Any]]:
    files = sorted((directory / "debug").glob("advantage-*.pt"))
    return [torch.load(f, weights_only=False) for f in files]


def weights(directory: Path, step: int, part: str = "actor") -> dict[str, torch.Tensor]:
    """A checkpoint's tensors, the ranks' shards put together."""
    folder = directory / f"global_step_{step}" / part
    files = sorted(folder.glob("model_*rank_*.pt"), key=lambda f: int(f.stem.rpartition("_")[2]))
    shards = [torch.load(file, weights_only=False) for file in files]
    out = {}
    for name, tensor in shards[0].items():
        if hasattr(tensor, "to_local"):  # FSDP2 cuts along the first dimension
            out[name] = torch.cat([shard[name].to_local() for shard in shards])
        else:
            out[name] = tensor
    return out
