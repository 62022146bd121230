"""ALFWorld's engines on the same games and the same commands, in one run.

    python -m benchmarks.alfworld [--games 6] [--steps 12] [--live 10000] [--json FILE]

Without the extra ``alfworld`` only the state engine is measured. Times are CPU seconds of one core.

* unmodified: TextWorld's own ``PddlEnv`` with ALFWorld's names, admissible commands included.
* cached: the same engine with its parses and translations kept (``engine="textworld"``).
* state: the state engine; environment: `gymnasium.make` with it, with info, anchor and the rest.

Every engine plays the same random and expert commands, and all transcripts must be equal.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

import agentr1_envs  # noqa: F401
from agentr1_envs.alfworld.engine import StateEngine
from agentr1_envs.alfworld.expert import solve
from agentr1_envs.alfworld.generator import TASK_TYPES, make_game
from agentr1_envs.alfworld.observer import Observer
from agentr1_envs.alfworld.rows import game_of, row_texts
from agentr1_envs.seeding import derive_random
from benchmarks.scripted import play_script

ENV_ID = "AgentR1/ALFWorld-v0"
Transcript = list[tuple[str, list[str]]]


def _memory() -> int:
    """Resident bytes of this process."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize()


def plans(rows: list[dict[str, Any]], steps: int) -> list[list[str]]:
    """Commands for each game: random ones, with the expert's at the end."""
    out = []
    for number, row in enumerate(rows):
        engine, random = StateEngine(game_of(row)), derive_random("alfworld-benchmark", number)
        plan: list[str] = []
        while len(plan) < steps:
            plan.append(random.choice(engine.admissible()))
            engine.step(plan[-1])
        plan += solve(engine) or []
        out.append(plan)
    return out


class _Unmodified:
    """TextWorld's own environment behind the engines' interface."""

    def __init__(self, problem: str, domain: str, grammar: str) -> None:
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from textworld.envs.pddl import PddlEnv

        names = dict.fromkeys(("admissible_commands", "won", "score"), True)
        self._env = AlfredDemangler(PddlEnv(textworld.EnvInfos(**names)), shuffle=False)
        self._env.load({"pddl_domain": domain, "grammar": grammar, "pddl_problem": problem})

    def reset(self) -> str:
        self._state = self._env.reset()
        return self._state.feedback

    def step(self, command: str) -> str:
        self._state, _, _ = self._env.step(command)
        return self._state.feedback

    def admissible(self) -> list[str]:
        return self._state["admissible_commands"]


def measure(
    make: Callable[[dict[str, Any]], Any],
    rows: list[dict[str, Any]],
    commands: list[list[str]],
    repeat: int,
) -> tuple[dict[str, float], list[Transcript]]:
    """Milliseconds of a load, a reset and a step, and what was said."""
    load = reset = step = 0.0
    count, transcripts = 0, []
    for row, plan in zip(rows, commands, strict=True):
        start = time.process_time()
        engine = make(row)
        load += time.process_time() - start
        for _ in range(repeat):
            start = time.process_time()
            said: Transcript = [(engine.reset(), engine.admissible())]
            middle = time.process_time()
            for command in plan:
                said.append((engine.step(command), engine.admissible()))
            step += time.process_time() - middle
            reset += middle - start
            count += len(plan)
        transcripts.append(said)
    games = len(rows)
    return {
        "load_ms": load / games * 1e3,
        "reset_ms": reset / games / repeat * 1e3,
        "step_ms": step / count * 1e3,
    }, transcripts


class _Env:
    """The environment behind the engines' interface."""

    def __init__(self, row: dict[str, Any]) -> None:
        self._env, self._row = gym.make(ENV_ID, max_steps=10_000), row
        self._env.reset(options={"task": row})

    def reset(self) -> str:
        said, self._info = self._env.reset(options={"task": self._row})
        return said

    def step(self, command: str) -> str:
        said, _, _, _, self._info = self._env.step(command)
        return said

    def admissible(self) -> list[str]:
        return self._info["admissible_actions"]


def engines(games: int, steps: int) -> dict[str, Any]:
    """All engines on the same games and commands."""
    rows = [
        {"task_id": str(i), **make_game("test", 1000 + i, TASK_TYPES[i % 6])} for i in range(games)
    ]
    commands = plans(rows, steps)
    figures: dict[str, Any] = {"games": games, "commands": sum(map(len, commands))}
    said: dict[str, list[Transcript]] = {}
    try:
        from agentr1_envs.alfworld.official import package_texts
        from agentr1_envs.alfworld.textworld_engine import TextworldEngine, grammar_with_goal

        domain, grammar = package_texts()
    except ImportError as error:
        print(f"the real engine is not measured: {error}")
    else:

        def texts(row: dict[str, Any]) -> tuple[str, str, str]:
            return row_texts(row)[0], domain, grammar_with_goal(grammar, row["goal"])

        # The unmodified engine goes first, before anything of it was touched.
        _Unmodified(*texts(rows[0])).reset()
        for name, kind, repeat in (("unmodified", _Unmodified, 1), ("cached", TextworldEngine, 2)):
            figures[name], said[name] = measure(
                lambda row, kind=kind: kind(*texts(row)), rows, commands, repeat
            )
    fresh = [{**row, "goal": row["goal"] + " "} for row in rows]  # not compiled before
    start = time.process_time()
    for row in fresh:
        game_of(row)
    compiling = (time.process_time() - start) / games * 1e3
    figures["state"], said["state"] = measure(
        lambda row: StateEngine(game_of(row)), rows, commands, 200
    )
    figures["state"]["load_ms"] = compiling
    figures["environment"], said["environment"] = measure(_Env, rows, commands, 100)
    del figures["environment"]["load_ms"]
    names = list(said)
    figures["transcripts_equal"] = all(said[name] == said[names[0]] for name in names)
    if "unmodified" in figures:
        for name in ("cached", "state", "environment"):
            for what in ("reset", "step"):
                ratio = figures["unmodified"][f"{what}_ms"] / figures[name][f"{what}_ms"]
                figures[name][f"{what}_times_faster"] = ratio
    return figures


def live(count: int) -> dict[str, Any]:
    """Memory of many environments at work, all in different games."""
    before = _memory()
    start = time.process_time()
    envs = [gym.make(ENV_ID, order="sequential", shard=(i, count)) for i in range(count)]
    for env in envs:
        _, info = env.reset()
        for _ in range(3):
            _, _, _, _, info = env.step(info["admissible_actions"][0])
    return {
        "environments": count,
        "gib": (_memory() - before) / 2**30,
        "kib_each": (_memory() - before) / count / 1024,
        "cpu_s": time.process_time() - start,
    }


def threads(count: int = 16) -> dict[str, Any]:
    """Whether threads give the transcripts that one thread gives."""

    def play(number: int, out: list[Any]) -> None:
        env = gym.make(ENV_ID)
        random = derive_random("alfworld-threads", number)
        said = []
        for episode in range(5):
            text, info = env.reset(seed=episode * 100 + number)
            said.append(text)
            over = False
            while not over:
                command = random.choice(info["admissible_actions"])
                text, reward, terminated, truncated, info = env.step(command)
                said.append((text, reward, info["anchor"], info["admissible_actions"]))
                over = terminated or truncated
        out[number] = said

    alone: list[Any] = [None] * count
    for number in range(count):
        play(number, alone)
    together: list[Any] = [None] * count
    workers = [threading.Thread(target=play, args=(n, together)) for n in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {"threads": count, "same_transcripts": together == alone}


def generation(count: int = 1000) -> dict[str, Any]:
    """Seconds for games, and the scripted policies on the test split."""
    start = time.process_time()
    rows = [make_game("train", 100_000 + i) for i in range(count)]
    seconds = time.process_time() - start
    env = gym.make(ENV_ID, split="test", order="sequential")
    observer, wins, steps = Observer(env), 0, []
    for _ in range(200):
        _, info = play_script(env, observer)
        wins += info["success"]
        steps.append(info["step"])
    return {
        "games": count,
        "cpu_s": seconds,
        "expert_mean_steps": statistics.mean(row["expert_steps"] for row in rows),
        "expert_max_steps": max(row["expert_steps"] for row in rows),
        "observer_success": wins / 200,
        "observer_mean_steps": statistics.mean(steps),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--games", type=int, default=6, help="games that all engines play")
    parser.add_argument("--steps", type=int, default=12, help="random commands a game")
    parser.add_argument("--live", type=int, default=10_000, help="environments at once")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    figures = {
        "engines": engines(args.games, args.steps),
        "threads": threads(),
        "generation": generation(),
        "live": live(args.live),
    }
    from rich.console import Console
    from rich.table import Table

    table = Table("", "load ms", "reset ms", "step ms", "reset x", "step x")
    for name in ("unmodified", "cached", "state", "environment"):
        found = figures["engines"].get(name)
        if found:
            times = [found.get(f"{what}_ms") for what in ("load", "reset", "step")]
            ratios = [found.get(f"{what}_times_faster") for what in ("reset", "step")]
            table.add_row(
                name,
                *("" if t is None else f"{t:,.4f}" for t in times),
                *("" if r is None else f"{r:,.0f}" for r in ratios),
            )
    console = Console()
    console.print(table)
    console.print({k: v for k, v in figures["engines"].items() if not isinstance(v, dict)})
    for name in ("threads", "generation", "live"):
        console.print(name, figures[name])
    if args.json:
        Path(args.json).write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
