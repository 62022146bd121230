"""Rollout efficiency: many episodes of a no-op environment over a stub policy with latency.

    python -m benchmarks.rollout [--alfworld] [--json FILE]

The ideal time is steps x latency: what a loop without any cost of its own would take. With
E episodes at once a step may cost up to latency / E (50 us at 4,000 and 200 ms) before they wait
for each other: below that the loop is idle part of each round, and what is lost is the start,
where all episodes are reset one after the other.

Two efficiencies are given. `wall` is that of this run on this machine, and falls with whatever
else runs on it. `own core` is what the same run takes on a core of its own: the event loop's clock
counts the processor time of its thread, and where the loop would sleep, the clock is moved on.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from collections.abc import Callable
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


class OwnCoreLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is processor time, and which skips its idle waits.

    Timers fire when they would on a core that nobody else uses. Only for runs that wait for timers
    alone: nothing outside the thread keeps this time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._skipped = 0.0
        selector: Any = self._selector  # type: ignore[attr-defined]
        really_select = selector.select

        def select(timeout: float | None = None) -> Any:
            ready = really_select(0)
            if not ready and timeout is not None and timeout > 0:
                self._skipped += timeout
            return ready

        selector.select = select

    def time(self) -> float:
        """Seconds of processor time and of skipped waits."""
        return time.thread_time() + self._skipped


def play(
    name: str,
    episodes: int,
    steps: int,
    latency: float,
    workers: int | None,
    tasks: int = 64,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> tuple[float, float]:
    """Seconds by the event loop's clock and of processor time; resets are part of both."""
    make: Any = partial(NoOpEnv if name == "no-op" else make_alfworld, steps)
    loop = EnvLoop(
        make,
        StubPolicy(latency, "look"),
        concurrency=episodes,
        isolation="process" if workers else "inline",
        workers=workers,
    )
    # Groups share a task, as in training; a new game costs ALFWorld some milliseconds to set up.
    jobs = [EpisodeJob(f"e{i}", seed=i % tasks) for i in range(episodes)]
    gc.collect()

    async def run() -> tuple[float, float]:
        clock = asyncio.get_running_loop().time
        cpu, start = time.process_time(), clock()
        try:
            done = await loop.run(jobs)
            seconds, cpu = clock() - start, time.process_time() - cpu
        finally:
            await loop.close()
        assert all(e.valid and len(e.transitions) == steps for e in done)
        return seconds, cpu

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(run())


def measure(
    name: str,
    episodes: int,
    steps: int,
    latency: float,
    workers: int | None = None,
    tasks: int = 64,
) -> dict[str, Any]:
    """Wall, processor and ideal seconds, and the efficiencies."""
    wall, cpu = play(name, episodes, steps, latency, workers, tasks)
    ideal = steps * latency
    own = None
    if workers is None:
        own = ideal / play(name, episodes, steps, latency, None, tasks, OwnCoreLoop)[0]
    return {
        "environment": name,
        "tasks": tasks,
        "workers": workers or "inline",
        "episodes": episodes,
        "steps": steps,
        "latency_ms": latency * 1e3,
        "wall_s": round(wall, 3),
        "cpu_s": round(cpu, 3),
        "ideal_s": ideal,
        "wall efficiency": round(ideal / wall, 3),
        "own core efficiency": "" if own is None else round(own, 3),
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
        rows += [
            measure("alfworld", 4000, 20, 0.2, workers, tasks)
            for tasks in (64, 4000)
            for workers in (None, 2)
        ]
    shown = {
        "environment": "environment", "tasks": "tasks", "workers": "workers",
        "episodes": "episodes",
        "latency_ms": "latency, ms", "cpu_us_per_step": "cpu us a step",
        "wall efficiency": "wall", "own core efficiency": "own core",
    }  # fmt: skip
    table = Table(*shown.values(), title="rollout efficiency, 20 steps an episode")
    for row in rows:
        table.add_row(*(v if isinstance(v := row[k], str) else f"{v:g}" for k in shown))
    Console().print(table)
    if args.json:
        args.json.write_text(json.dumps({"rollout": rows}, indent=1))


if __name__ == "__main__":
    main()
