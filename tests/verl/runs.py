"""Start unmodified verl on the CPU with a recipe, and read what it left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from agentr1_train.verl.launch import environment

ROOT = Path(__file__).resolve().parents[2]


def command(recipe: str, directory: Path, model: Path, data: Path, *overrides: str) -> list[str]:
    folder = ROOT / "recipes" / recipe
    return [
        sys.executable, "-m", "verl.trainer.main_ppo",
        "--config-path", str(folder), "--config-name", "verl", "size=cpu",
        f"actor_rollout_ref.model.path={model}",
        f"data.train_files={data / 'train.parquet'}",
        f"data.val_files={data / 'test.parquet'}",
        f"trainer.default_local_dir={directory}",
        f"agentr1.verl.debug_dir={directory / 'debug'}",
        "trainer.total_training_steps=2", "trainer.save_freq=1", "trainer.test_freq=-1",
        "trainer.val_before_train=false", "trainer.resume_mode=auto",
        # An untrained model solves nothing: it is paid for what it writes instead.
        "agentr1.env.wrappers=['tests.verl.rewards:LetterReward']", "data.train_batch_size=2",
        "actor_rollout_ref.rollout.n=4",
        *overrides,
    ]  # fmt: skip


def start(words: list[str], log: Path) -> subprocess.Popen[bytes]:
    paths = [str(ROOT), str(ROOT / ".cache" / "links"), os.environ.get("PYTHONPATH", "")]
    env = environment(cpu=True) | {"PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    with log.open("ab") as handle:
        return subprocess.Popen(
            words, stdout=handle, stderr=subprocess.STDOUT, env=env, cwd=log.parent,
            start_new_session=True,
        )  # fmt: skip


def finish(process: subprocess.Popen[bytes], log: Path, seconds: float = 900) -> None:
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
    deadline = time.monotonic() + 900
    while not condition():
        assert process.poll() is None, "verl ended before it was killed"
        assert time.monotonic() < deadline, "nothing happened in 15 minutes"
        time.sleep(0.2)


def metrics(log: Path) -> list[dict[str, float]]:
    """What verl's console logger printed, one dict a step."""
    out = []
    for line in log.read_text(errors="replace").splitlines():
        if "step:" in line and " - " in line:
            pairs = re.findall(r"([\w@/\.-]+):(-?[\d.]+(?:e[-+]?\d+)?|nan|inf)", line)
            out.append({name: float(value) for name, value in pairs})
    return out


def dumps(directory: Path) -> list[dict[str, Any]]:
    files = sorted((directory / "debug").glob("advantage-*.pt"))
    return [torch.load(f, weights_only=False) for f in files]


def weights(directory: Path, step: int, part: str = "actor") -> dict[str, torch.Tensor]:
    """A checkpoint's tensors, the ranks' shards by name and rank."""
    out = {}
    for file in sorted((directory / f"global_step_{step}" / part).glob("model_*rank_*.pt")):
        for name, tensor in torch.load(file, weights_only=False).items():
            local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
            out[f"{file.name}:{name}"] = local
    return out
