"""Speed of every environment: steps and resets a second, and what importing it costs.

python -m benchmarks.environments [ID ...] [--episodes 500] [--json FILE]

The scripted expert's actions are recorded first and then replayed, so that only the environment is
measured: through `gymnasium.make`, in one process, on tasks that were played before. Rates are per
CPU second (what one free core does) and per second of wall time. Import: CPU seconds of
``import agentr1_envs; gymnasium.make(ID)`` and of the first reset, over ``import gymnasium``, in a
fresh process.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium as gym
from rich.console import Console
from rich.progress import track
from rich.table import Table

import agentr1_envs  # noqa: F401  (registers the ids)
from agentr1_envs.registration import ENVS, load
from benchmarks.scripted import play_script

_IMPORT = """
import sys, time
import gymnasium
begin = time.process_time()
import agentr1_envs
env = gymnasium.make(sys.argv[1])
made = time.process_time()
env.reset(seed=0)
print(made - begin, time.process_time() - made)
"""


@dataclass
class Figures:
    """What was measured for one id."""

    env_id: str
    policy: str
    episodes: int
    steps: int
    success: float
    steps_per_cpu_second: float
    steps_per_second: float
    resets_per_cpu_second: float
    import_cpu_seconds: float
    first_reset_cpu_seconds: float


def record(env: gym.Env[Any, Any], policy: Any, episodes: int) -> list[tuple[str, list[str]]]:
    """Plays episodes; gives (task_id, actions) of each."""
    played = []
    for episode in track(range(episodes), "Recording", transient=True):
        actions, info = play_script(env, policy, seed=0 if episode == 0 else None)
        played.append((info["task_id"], actions))
    return played


def replay(env: gym.Env[Any, Any], played: list[tuple[str, list[str]]]) -> dict[str, float]:
    """Plays the recorded actions; gives CPU and wall seconds of steps and resets."""
    cpu, wall = time.process_time, time.perf_counter
    totals = dict.fromkeys(("step_cpu", "step_wall", "reset_cpu", "success", "steps"), 0.0)
    gc.collect()
    for task_id, actions in played:
        begin = cpu()
        env.reset(options={"task_id": task_id})
        middle, wall_begin = cpu(), wall()
        for action in actions:
            _, _, terminated, truncated, info = env.step(action)
        totals["step_wall"] += wall() - wall_begin
        totals["step_cpu"] += cpu() - middle
        totals["reset_cpu"] += middle - begin
        totals["steps"] += len(actions)
        if not (terminated or truncated):
            raise RuntimeError(f"{task_id}: the recorded actions no longer end the episode")
        totals["success"] += info["success"]
    return totals


def import_cost(env_id: str) -> tuple[float, float]:
    """CPU seconds of import and make, and of the first reset: the best of three processes."""
    runs = []
    for _ in range(3):
        command = [sys.executable, "-c", _IMPORT, env_id]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        made, first = done.stdout.split()[-2:]
        runs.append((float(made), float(first)))
    return min(run[0] for run in runs), min(run[1] for run in runs)


def measure(env_id: str, policy_name: str, episodes: int, repeats: int) -> Figures:
    """All figures of one id; the best of `repeats` replays."""
    made, first = import_cost(env_id)
    env = gym.make(env_id)
    policy = load(ENVS[env_id].experts[policy_name])(env)
    played = record(env, policy, episodes)
    runs = [replay(env, played) for _ in range(repeats)]
    env.close()
    best = min(runs, key=lambda run: run["step_cpu"])
    return Figures(
        env_id=env_id,
        policy=policy_name,
        episodes=episodes,
        steps=int(best["steps"]),
        success=best["success"] / episodes,
        steps_per_cpu_second=best["steps"] / best["step_cpu"],
        steps_per_second=best["steps"] / min(run["step_wall"] for run in runs),
        resets_per_cpu_second=episodes / min(run["reset_cpu"] for run in runs),
        import_cpu_seconds=made,
        first_reset_cpu_seconds=first,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="default: all with the policy")
    parser.add_argument("--policy", default="expert")
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    args = parser.parse_args()
    unknown = [env_id for env_id in args.ids if env_id not in ENVS]
    if unknown:
        parser.error(f"unknown ids {unknown}: {list(ENVS)} exist")
    ids = args.ids or [key for key, entry in ENVS.items() if args.policy in entry.experts]
    # A file or pipe has no width of its own; the table needs more than the usual 80.
    console, results = Console(width=None if sys.stdout.isatty() else 120), []
    table = Table(title=f"{args.episodes} episodes of the policy {args.policy!r}")
    table.add_column("id", no_wrap=True)
    for column in ("success", "steps", "steps/CPU s", "steps/s", "resets/CPU s"):
        table.add_column(column, justify="right")
    table.add_column("import CPU s", justify="right")
    table.add_column("1st reset CPU s", justify="right")
    for env_id in ids:
        try:
            figures = measure(env_id, args.policy, args.episodes, args.repeats)
        except Exception as error:  # one environment that lacks its engine must not hide the rest
            console.print(f"{env_id}: not measured: {type(error).__name__}: {error}")
            continue
        results.append(asdict(figures))
        table.add_row(
            figures.env_id,
            f"{figures.success:.3f}",
            f"{figures.steps:,}",
            f"{figures.steps_per_cpu_second:,.0f}",
            f"{figures.steps_per_second:,.0f}",
            f"{figures.resets_per_cpu_second:,.0f}",
            f"{figures.import_cpu_seconds:.2f}",
            f"{figures.first_reset_cpu_seconds:.2f}",
        )
    console.print(table)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    main()
