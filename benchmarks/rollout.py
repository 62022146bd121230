"""Rollout efficiency: many episodes of a no-op environment over a stub policy with latency.

    python -m benchmarks.rollout [--alfworld] [--json FILE]

The ideal time is steps x latency: what a loop without any cost of its own would take.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym

from agentr1_envs.spaces import UnicodeText
from agentr1_train.policies.base import GenerateRequest, Generation, Policy
from agentr1_train.rollout import EnvLoop, EpisodeJob


class NoOpEnv(gym.Env[str, str]):
    """Answers ``ok`` for a fixed number of steps."""

    def __init__(self, length: int = 20) -> None:
        self.observation_space, self.action_space = UnicodeText(), UnicodeText()
        self.length, self.count = length, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        self.count = 0
        return "go", {"task_id": "noop", "step": 0, "anchor": "0"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.count += 1
        info: dict[str, Any] = {"task_id": "noop", "step": self.count, "anchor": "0"}
        ended = self.count >= self.length
        if ended:
            info |= {"success": True, "score": 1.0, "stop_reason": "end"}
        return "ok", float(ended), ended, False, info


class StubPolicy(Policy):
    """Says the same after a fixed latency."""

    def __init__(self, latency: float, action: str = "act") -> None:
        self.latency, self.action = latency, action

    async def generate(self, request: GenerateRequest) -> Generation:
        await asyncio.sleep(self.latency)
        return Generation(self.action)


def make_alfworld(steps: int) -> Any:
    """ALFWorld's fast engine, without prompts."""
    import agentr1_envs  # noqa: F401

    return gym.make("AgentR1/ALFWorld-v0", max_steps=steps)


def measure(
    name: str, episodes: int, steps: int, latency: float, workers: int | None = None
) -> dict[str, Any]:
    """Wall seconds, ideal seconds and their ratio; resets are part of the time."""
    make: Any = partial(NoOpEnv if name == "no-op" else make_alfworld, steps)
    loop = EnvLoop(
        make,
        StubPolicy(latency, "look"),
        concurrency=episodes,
        isolation="process" if workers else "inline",
        workers=workers,
    )
    # Groups share a task, as in training; a new game costs ALFWorld some milliseconds to set up.
    jobs = [EpisodeJob(f"e{i}", seed=i % 64) for i in range(episodes)]
    gc.collect()
    cpu, start = time.process_time(), time.perf_counter()

    async def run() -> Any:
        try:
            return await loop.run(jobs)
        finally:
            await loop.close()

    done = asyncio.run(run())
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    assert all(e.valid and len(e.transitions) == steps for e in done)
    ideal = steps * latency
    return {
        "environment": name,
        "workers": workers or "inline",
        "episodes": episodes,
        "steps": steps,
        "latency_ms": latency * 1e3,
        "wall_s": round(wall, 3),
        "cpu_s": round(cpu, 3),
        "ideal_s": ideal,
        "efficiency": round(ideal / wall, 3),
        "cpu_us_per_step": round(1e6 * cpu / (episodes * steps), 1),
    }


def main() -> None:
    """Print the table; ``--json`` writes it."""
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--alfworld", action="store_true", help="ALFWorld's fast engine too")
    args = parser.parse_args()
    rows = [measure("no-op", 1000, 20, 0.05), measure("no-op", 4000, 20, 0.2)]
    if args.alfworld:
        rows += [measure("alfworld", 4000, 20, 0.2, workers) for workers in (None, 2)]
    table = Table(*rows[0], title="rollout efficiency")
    for row in rows:
        table.add_row(*(v if isinstance(v, str) else f"{v:g}" for v in row.values()))
    Console().print(table)
    if args.json:
        args.json.write_text(json.dumps({"rollout": rows}, indent=1))


if __name__ == "__main__":
    main()
