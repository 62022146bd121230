"""verl as a child process: its output in a file, one line for each training step on the screen."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentr1_train.local.tracking import read_metrics

LOG = "verl.log"
POLL = 0.5  # seconds between looks at metrics.jsonl
TAIL = 30  # lines of verl's output that are shown where it failed


def line(row: Mapping[str, float], total: int | None) -> str:
    """What one line of metrics.jsonl says, in a few words."""

    def mean(ending: str) -> float | None:
        found = [v for k, v in row.items() if k.endswith(ending) and v is not None]
        return sum(found) / len(found) if found else None

    words = [f"step {int(row['step'])}" + (f"/{total}" if total else "")]
    for ending, text in (
        ("/success/mean@1", "validation success {:.2f}"),
        ("agentr1/episode/return", "return {:.3f}"),
        ("/success", "success {:.2f}"),
        ("agentr1/episode/steps", "{:.1f} steps an episode"),
        ("agentr1/failed_episodes", "{:.0f} failed"),
        ("timing_s/step", "{:.1f} s"),
    ):
        value = mean(ending)
        if value is not None and (value or not ending.endswith("failed_episodes")):
            words.append(text.format(value))
    return "  ".join(words)


def _leave(number: int, _: object) -> None:
    # What a scheduler sends; without this verl would go on alone.
    raise SystemExit(128 + number)


def watch(
    words: Sequence[str],
    env: Mapping[str, str],
    directory: Path,
    total: int | None,
    *,
    quiet: bool = False,
) -> int:
    """Run a command until it ends, and show the run's progress.

    Args:
        words: the command; what it prints goes to verl.log in ``directory``.
        total: training steps, for the display.

    Returns:
        0, or a positive exit code; the last lines of the log are then on standard error.
    """
    log, metrics = directory / LOG, directory / "metrics.jsonl"
    began = time.time()

    def say(text: str) -> None:
        if not quiet:
            print(text, flush=True)

    say(f"verl starts; its output: {log}")
    shown = {r["step"] for r in read_metrics(metrics)}
    with log.open("ab") as out:
        process = subprocess.Popen(words, env=env, stdout=out, stderr=subprocess.STDOUT)
        before = signal.signal(signal.SIGTERM, _leave)
        try:
            while True:
                code = process.poll()
                for row in read_metrics(metrics) if metrics.is_file() else []:
                    if row["step"] not in shown and metrics.stat().st_mtime >= began:
                        shown.add(row["step"])
                        say(line(row, total))
                if code is not None:
                    break
                time.sleep(POLL)
        finally:
            if process.poll() is None:  # interrupted: Ray ends its workers when the driver does
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(30)
                process.kill()
            signal.signal(signal.SIGTERM, before)
    if code:
        text = log.read_bytes()[-200_000:].decode(errors="replace").splitlines()[-TAIL:]
        print(os.linesep.join(text), file=sys.stderr)
        print(f"error: verl ended with {code}; its output: {log}", file=sys.stderr)
        return abs(code)
    say(f"run: {directory}")
    return 0
