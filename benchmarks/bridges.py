"""What a bridge adds to a step, for the stacks that run in process: GEM, SkyRL-gym, OpenEnv.

python -m benchmarks.bridges [STACK ...] [--episodes 60] [--repeats 7] [--json FILE]

Run it with the Python of a bridge's environment, such as ``.venv-bridges/gem/bin/python`` (`make
test-bridges` makes them); stacks that are not installed are left out. The scripted expert's actions
are recorded first and then replayed, in turn through `gymnasium.make` and through the bridge, on
the same tasks. Figures are CPU microseconds of `step` alone; of the repeats the fastest counts for
each episode, since other work on the machine only ever adds. SkyRL makes an environment for each
episode, so its other side does too: the first step in a new object is slower (cold caches).
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym

import agentr1_envs  # noqa: F401  (registers the ids)
from agentr1_envs.registration import ENVS, load
from benchmarks.scripted import play_script

#: Microseconds a step that a bridge may add.
BOUND = 50.0
Step = Callable[[str], Any]
#: Starts an episode of (env_id, task index) and gives its step function.
Opener = Callable[[str, int], Step]


def direct(keep: bool) -> Opener:
    """`gymnasium.make`; with `keep` one environment plays all episodes."""
    made: dict[str, Any] = {}

    def start(env_id: str, index: int) -> Step:
        if not keep or env_id not in made:
            made[env_id] = gym.make(env_id, split="validation")
        env = made[env_id]
        env.reset(options={"task_index": index})
        return env.step

    return start


def gem_bridge() -> Opener:
    """`gem.make`; its reset takes no task, so it walks the panel in order."""
    import gem

    import agentr1_envs.bridges.gem  # noqa: F401

    made: dict[str, Any] = {}

    def start(env_id: str, index: int) -> Step:
        if index == 0 or env_id not in made:
            made[env_id] = gem.make(env_id, split="validation", order="sequential")
        made[env_id].reset()
        return made[env_id].step

    return start


def skyrl_bridge() -> Opener:
    """`skyrl_gym.make`: an environment for each episode, as SkyRL makes them."""
    import skyrl_gym

    import agentr1_envs.bridges.skyrl as bridge

    rows: dict[str, list[dict[str, Any]]] = {}

    def start(env_id: str, index: int) -> Step:
        if len(rows.get(env_id, ())) <= index:
            rows[env_id] = bridge.rows(env_id, split="validation", limit=index + 64)
        row = rows[env_id][index]
        env = skyrl_gym.make("agentr1", extras=row)
        env.init(row["prompt"])
        return env.step

    return start


def openenv_bridge() -> Opener:
    """OpenEnv's `Environment` object, without the server around it."""
    from agentr1_envs.bridges.openenv import GymnasiumEnvironment, TextAction

    made: dict[str, Any] = {}

    def start(env_id: str, index: int) -> Step:
        if env_id not in made:
            made[env_id] = GymnasiumEnvironment(env_id, split="validation")
        env = made[env_id]
        env.reset(task_index=index)
        return lambda text: env.step(TextAction(text=text))

    return start


#: Module, opener, and whether one environment plays all episodes.
STACKS: dict[str, tuple[str, Callable[[], Opener], bool]] = {
    "gem": ("gem", gem_bridge, True),
    "skyrl": ("skyrl_gym", skyrl_bridge, False),
    "openenv": ("openenv", openenv_bridge, True),
}


def record(env_id: str, episodes: int) -> list[list[str]]:
    """The expert's actions on the first tasks of the validation split."""
    env = gym.make(env_id, split="validation")
    expert = load(ENVS[env_id].experts["expert"])(env)
    played = [
        play_script(env, expert, options={"task_index": index})[0] for index in range(episodes)
    ]
    env.close()
    return played


def replay(start: Opener, env_id: str, played: list[list[str]]) -> list[float]:
    """CPU seconds in `step` of each episode."""
    times, clock = [], time.process_time
    gc.collect()
    for index, actions in enumerate(played):
        step = start(env_id, index)
        begin = clock()
        for action in actions:
            step(action)
        times.append(clock() - begin)
    return times


def measure(stack: str, episodes: int, repeats: int) -> list[dict[str, Any]]:
    """One row an environment."""
    rows = []
    for env_id in ENVS:
        played = record(env_id, episodes)
        steps = sum(map(len, played))
        _, opener, keep = STACKS[stack]
        sides = (direct(keep), opener())
        best = [[float("inf")] * len(played) for _ in sides]
        for _ in range(repeats):
            for side, start in enumerate(sides):
                best[side] = list(map(min, best[side], replay(start, env_id, played)))
        alone, bridged = (sum(times) * 1e6 / steps for times in best)
        rows.append(
            {
                "stack": stack, "env_id": env_id, "steps": steps, "env_us": alone,
                "bridge_us": bridged, "added_us": bridged - alone,
            }
        )  # fmt: skip
    return rows


def main() -> int:
    """Measure; 1 where a bridge adds more than the bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("stacks", nargs="*", metavar="STACK", help=", ".join(STACKS))
    parser.add_argument("--episodes", type=int, default=60, help="episodes an environment (60)")
    parser.add_argument("--repeats", type=int, default=7, help="of each side (7)")
    parser.add_argument("--json", metavar="FILE", help="write the rows there")
    args = parser.parse_args()
    for name in args.stacks:
        if name not in STACKS:
            parser.error(f"there is no stack {name!r}: {', '.join(STACKS)}")
    wanted = args.stacks or [n for n, (m, *_) in STACKS.items() if importlib.util.find_spec(m)]
    if not wanted:
        print("none of the stacks is installed here: see --help", file=sys.stderr)
        return 2
    rows = [row for stack in wanted for row in measure(stack, args.episodes, args.repeats)]
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"CPU us a step (bound: {BOUND:g} added)")
    for name in ("stack", "environment", "steps", "environment alone", "through the bridge"):
        table.add_column(name, justify="left" if name in ("stack", "environment") else "right")
    table.add_column("added", justify="right")
    for row in rows:
        figures = (f"{row[key]:.1f}" for key in ("env_us", "bridge_us", "added_us"))
        table.add_row(row["stack"], row["env_id"], f"{row['steps']:,}", *figures)
    Console().print(table)
    if args.json:
        from agentr1_envs.task_files import atomic_write

        with atomic_write(args.json, "w") as handle:
            json.dump({"python": sys.version, "bound_us": BOUND, "rows": rows}, handle, indent=1)
    return int(max(row["added_us"] for row in rows) > BOUND)


if __name__ == "__main__":
    sys.exit(main())
