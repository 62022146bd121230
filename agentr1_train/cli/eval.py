"""`agentr1 eval --env ID --policy P`: a policy on a fixed panel of tasks, each played once."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from agentr1_envs.errors import TaskDataError
from agentr1_envs.seeding import derive_int
from agentr1_envs.task_files import atomic_write
from agentr1_train.cli import episodes
from agentr1_train.cli.common import UsageError, find_env_id, make_env, parse_pairs
from agentr1_train.rollout import EpisodeJob


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("--env", required=True, help="an id, or a short name such as gsm8k_tool")
    episodes.add_arguments(parser, episodes=200)
    parser.add_argument("--split", default="test", help="of the tasks (default: test)")
    parser.add_argument("--repeats", type=int, default=1, help="times each task is played")
    parser.add_argument("--json", type=Path, help="write a line a task here")
    episodes.env_option(parser, "--env-arg")


def main(args: argparse.Namespace) -> int:
    """Evaluate; 1 when no episode was valid, 130 after an interrupt."""
    if args.repeats < 1:
        raise UsageError(f"--repeats: expected at least 1, got {args.repeats}")
    probe = make_env(
        find_env_id(args.env),
        {"split": args.split, **parse_pairs(args.env_kwargs)}
        | ({"tasks": args.tasks} if args.tasks else {}),
    )
    try:
        tasks = getattr(probe.unwrapped, "tasks", None)
    except TaskDataError:
        raise
    except ValueError as error:  # a library without this split, a shard without a task
        raise UsageError(f"{args.env} {args.env_kwargs or ''}: {error}") from error
    size = args.episodes if tasks is None else min(args.episodes, len(tasks))
    panel = "" if tasks is None else str(getattr(tasks, "hash", ""))
    probe.close()
    if size < args.episodes:
        print(f"the panel has {size} tasks: all of them are played")
    args.episodes = size
    loop, spec = episodes.set_up(args, args.env, split=args.split)
    jobs = (
        EpisodeJob(
            f"task-{i:06d}" + (f"/{k}" if args.repeats > 1 else ""),
            derive_int("panel", args.seed, i, bits=31),
            None if tasks is None else {"task_index": i},
            f"task-{i:06d}",
        )
        for i in range(size)
        for k in range(args.repeats)
    )
    done, interrupted = episodes.play(loop, jobs, size * args.repeats, args.quiet)
    title = f"{spec['env_id']} ({args.split}), policy {args.policy}"
    episodes.show(title, done, loop)
    if args.out is not None:
        metadata = {
            "policy": args.policy, "seed": str(args.seed), "env": json.dumps(spec), "panel": panel,
        }  # fmt: skip
        episodes.store(args.out, done, loop, metadata)
    if args.json is not None:
        with atomic_write(args.json, "w") as handle:
            for e in done:
                row = {
                    "episode_id": e.episode_id, "task_id": e.task_id, "valid": e.valid,
                    "success": e.success, "score": e.score, "return": e.ret,
                    "steps": len(e.transitions), "stop_reason": e.stop_reason, "fault": e.fault,
                }  # fmt: skip
                handle.write(json.dumps(row, ensure_ascii=False) + "\n")
    if interrupted:
        return 130
    return 0 if any(e.valid for e in done) else 1
