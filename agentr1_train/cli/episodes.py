"""What `agentr1 rollout` and `agentr1 eval` share: play, show, store. Without torch."""

from __future__ import annotations

import argparse
import asyncio
import math
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agentr1_envs.errors import TaskDataError
from agentr1_envs.registration import ENVS
from agentr1_envs.seeding import derive_int
from agentr1_envs.transitions import Episode, write_transitions
from agentr1_train.cli.common import (
    UsageError,
    add_env_option,
    check_output,
    find_env_id,
    make_env,
    parse_pairs,
)
from agentr1_train.policies import make_policy
from agentr1_train.rollout import EnvLoop, EpisodeJob

CONTEXT_HELP = "context rule: append, window:3, ... (default: append)"


def add_arguments(parser: argparse.ArgumentParser, *, episodes: int) -> None:
    """Arguments of both commands."""
    parser.add_argument(
        "--policy",
        default="expert",
        help="expert, observer, random, openai:URL#MODEL, transformers:PATH (a saved model, or a "
        "run's folder: its last checkpoint, in the setting it was trained in); default: expert",
    )
    parser.add_argument("--episodes", type=int, default=episodes, help="how many to play")
    parser.add_argument("--tasks", help="a file of tasks instead of the generator's")
    parser.add_argument("--out", type=Path, help="write the transitions here (Parquet)")
    parser.add_argument("--seed", type=int, default=0, help="seed of tasks and sampling")
    parser.add_argument("--concurrency", type=int, default=64, help="episodes at once")
    parser.add_argument("--context", help=CONTEXT_HELP)
    parser.add_argument("--system-prompt", help="instead of the environment's")
    parser.add_argument("--tool-prompt", action="store_true", help="describe tools in the prompt")
    parser.add_argument("--temperature", type=float, help="of a model (0: greedy)")
    parser.add_argument("--max-tokens", type=int, help="longest reply of a model")
    parser.add_argument(
        "--isolation",
        default="auto",
        choices=["auto", "inline", "thread", "process"],
        help="where environments are stepped (auto: threads for those that may block)",
    )
    parser.add_argument("--step-timeout", type=float, help="seconds a step may take")
    parser.add_argument("--workers", type=int, help="processes that share the environments")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def env_option(parser: argparse.ArgumentParser, flag: str) -> None:
    """``--env key=value``, under the name that is free in the command."""
    add_env_option(parser, flag)


def set_up(args: argparse.Namespace, name: str, **kwargs: Any) -> tuple[EnvLoop, dict[str, Any]]:
    """The loop and the environment's spec, with every mistake found before the first episode."""
    from functools import partial

    from agentr1_wrappers import make_agent_env

    if args.episodes < 1:
        raise UsageError(f"--episodes: expected at least 1, got {args.episodes}")
    if args.concurrency < 1:
        raise UsageError(f"--concurrency: expected at least 1, got {args.concurrency}")
    if args.temperature is not None and not 0 <= args.temperature < math.inf:
        raise UsageError(f"--temperature: expected a number of at least 0, got {args.temperature}")
    if args.max_tokens is not None and args.max_tokens < 1:
        raise UsageError(f"--max-tokens: expected at least 1, got {args.max_tokens}")
    for flag in ("out", "json"):
        check_output(getattr(args, flag, None), f"--{flag}")
    env_id = find_env_id(name)
    spec = _trained_in(args, env_id)
    given = {**spec["kwargs"], **kwargs, **parse_pairs(args.env_kwargs)}
    if args.tasks is not None:
        if not Path(args.tasks).exists():
            raise UsageError(f"--tasks {args.tasks}: no such file")
        given["tasks"] = args.tasks
    spec["kwargs"] = given
    if args.context is not None:
        spec["context"] = args.context
    if args.system_prompt is not None:
        spec["system_prompt"] = args.system_prompt
    if args.tool_prompt:
        spec["tool_prompt"] = True
    env = make_env(env_id, given)
    try:
        # Files are read here: a wrong row is one error, not a fault of each episode.
        env.reset(seed=derive_int("probe", args.seed, bits=31))
    except (TypeError, ValueError, FileNotFoundError) as error:
        if isinstance(error, TaskDataError):
            raise
        raise UsageError(f"{env_id} {given or ''}: {error}") from error
    finally:
        env.close()
    isolation = args.isolation
    if isolation == "auto":
        blocking = env_id in ENVS and ENVS[env_id].blocking
        isolation = "thread" if blocking or args.step_timeout is not None else "inline"
    try:
        policy = make_policy(
            args.policy, env_id=env_id, temperature=args.temperature, max_tokens=args.max_tokens
        )
        make_agent_env(spec).close()
        loop = EnvLoop(
            partial(make_agent_env, spec),
            policy,
            concurrency=min(args.concurrency, args.episodes),
            isolation=isolation,
            step_timeout=args.step_timeout,
            workers=args.workers,
            seed=args.seed,
            env_id=env_id,
        )
    except (ValueError, FileNotFoundError, ModuleNotFoundError) as error:
        raise UsageError(str(error)) from error
    return loop, spec


def _trained_in(args: argparse.Namespace, env_id: str) -> dict[str, Any]:
    """The spec of the environment; for a model of a run, the one it was trained in."""
    plain: dict[str, Any] = {"env_id": env_id, "kwargs": {}}
    kind, _, path = args.policy.partition(":")
    if kind != "transformers":
        return plain
    folder = Path(path)
    run = folder if (folder / "checkpoints").is_dir() else folder.parent.parent
    if not ((run / "config.yaml").is_file() and (run / "checkpoints").is_dir()):
        return plain
    from omegaconf import OmegaConf

    from agentr1_train.local.data import env_spec

    config: Any = OmegaConf.to_container(OmegaConf.load(run / "config.yaml"), resolve=True)
    if folder == run:
        saved = sorted((run / "checkpoints").glob("step-*"))
        if not saved:
            raise UsageError(f"{run}: the run has no checkpoint yet")
        args.policy = f"transformers:{saved[-1]}"
    if config["agentr1"]["env"]["env_id"] != env_id:
        return plain
    if args.max_tokens is None:
        args.max_tokens = int(config["data"]["max_response_length"])
    return env_spec(config)


def play(
    loop: EnvLoop, jobs: Iterable[EpisodeJob], count: int, quiet: bool
) -> tuple[list[Episode], bool]:
    """Episodes in the order of the jobs, and whether an interrupt cut them short."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    done: list[Episode] = []
    order: dict[str, int] = {}

    def numbered() -> Iterable[EpisodeJob]:
        for job in jobs:
            order[job.episode_id] = len(order)
            yield job

    bar = Progress(
        *Progress.get_default_columns()[:2],
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=quiet or not console.is_terminal,
        transient=True,
    )

    async def run() -> None:
        task = bar.add_task("episodes", total=count)
        shown = time.perf_counter()
        pending = 0
        try:
            async for episode in loop.stream(numbered()):
                done.append(episode)
                pending += 1
                if time.perf_counter() - shown > 0.1:
                    bar.advance(task, pending)
                    shown, pending = time.perf_counter(), 0
            bar.advance(task, pending)
        finally:
            await loop.close()
            await loop.policy.close()

    interrupted = False
    with bar:
        try:
            asyncio.run(run())
        except KeyboardInterrupt:
            interrupted = True  # what has been played is kept
    done.sort(key=lambda e: order[e.episode_id])
    return done, interrupted


def store(path: Path, episodes: list[Episode], loop: EnvLoop, metadata: dict[str, str]) -> None:
    """Write the transitions; failed episodes without a step are in the metadata's count only."""
    from agentr1_envs import __version__

    written = write_transitions(
        path,
        (t for e in episodes for t in e.transitions),
        {
            "agentr1": __version__,
            "episodes": str(len(episodes)),
            "invalid": str(sum(not e.valid for e in episodes)),
            **metadata,
        },
    )
    print(f"{written} transitions in {path}")


def wilson(successes: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """The Wilson score interval of a share (95 % at z = 1.96)."""
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(centre - half, 0.0), min(centre + half, 1.0)


def show(title: str, episodes: list[Episode], loop: EnvLoop) -> None:
    """The summary table, and what went wrong if anything did."""
    from rich.console import Console
    from rich.table import Table

    valid = [e for e in episodes if e.valid]
    n = len(valid)
    steps = sum(len(e.transitions) for e in valid)
    solved = sum(e.success for e in valid)
    errors = sum(t.agent_error is not None for e in valid for t in e.transitions)
    low, high = wilson(solved, n)
    table = Table(title=title, show_header=False)
    table.add_row("episodes", f"{len(episodes)}")
    table.add_row("success", f"{solved / max(n, 1):.3f}  (95 %: {low:.3f} to {high:.3f})")
    table.add_row("score", f"{sum(e.score for e in valid) / max(n, 1):.3f}")
    table.add_row("return", f"{sum(e.ret for e in valid) / max(n, 1):.3f}")
    table.add_row("steps per episode", f"{steps / max(n, 1):.2f}")
    table.add_row("agent errors per episode", f"{errors / max(n, 1):.3f}")
    table.add_row("invalid episodes", f"{len(episodes) - n}")
    wall = loop.metrics.wall_seconds
    table.add_row("steps/s", f"{loop.metrics.steps / max(wall, 1e-9):,.0f}  ({wall:.1f} s)")
    reasons = Counter(str(e.stop_reason) for e in episodes)
    table.add_row("ended by", ", ".join(f"{k} {v}" for k, v in reasons.most_common(8)))
    kinds = Counter(
        t.agent_error["kind"] for e in valid for t in e.transitions if t.agent_error is not None
    )
    if kinds:
        table.add_row("errors", ", ".join(f"{k} {v}" for k, v in kinds.most_common(8)))
    console = Console()
    console.print(table)
    for fault, count in sorted(loop.metrics.faults.items(), key=lambda kv: -kv[1])[:5]:
        console.print(f"fault in {count} episodes: {fault}", markup=False, highlight=False)
