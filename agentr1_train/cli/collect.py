"""`agentr1 collect ENV --policy P --out FILE`: episodes to learn from, good ones only if asked."""

from __future__ import annotations

import argparse
import json

from agentr1_envs.seeding import derive_int
from agentr1_train.cli import episodes
from agentr1_train.cli.common import UsageError
from agentr1_train.rollout import EpisodeJob


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("env_id", metavar="ENV", help="an id, or a short name such as gsm8k_tool")
    episodes.add_arguments(parser, episodes=1000)
    parser.add_argument("--split", default="train", help="of the tasks (default: train)")
    parser.add_argument("--repeats", type=int, default=1, help="samples a task (one group)")
    parser.add_argument(
        "--keep",
        default="solved",
        choices=["all", "valid", "solved"],
        help="which episodes to store (default: solved)",
    )
    parser.add_argument("--min-score", type=float, help="store episodes of at least this score")
    episodes.env_option(parser, "--env")


def main(args: argparse.Namespace) -> int:
    """Collect; 1 when nothing was kept, 130 after an interrupt (what was kept is stored)."""
    if args.out is None:
        raise UsageError("collect: expected --out FILE")
    if args.repeats < 1:
        raise UsageError(f"--repeats: expected at least 1, got {args.repeats}")
    loop, spec = episodes.set_up(args, args.env_id, split=args.split)
    jobs = (
        EpisodeJob(
            f"task-{i:06d}/{k}", derive_int("collect", args.seed, i, bits=31), None, f"task-{i:06d}"
        )
        for i in range(args.episodes)
        for k in range(args.repeats)
    )
    done, interrupted = episodes.play(loop, jobs, args.episodes * args.repeats, args.quiet)
    episodes.show(f"{spec['env_id']} ({args.split}), policy {args.policy}", done, loop)
    kept = [
        e
        for e in done
        if (args.keep == "all" or e.valid)
        and (args.keep != "solved" or e.success)
        and (args.min_score is None or e.score >= args.min_score)
    ]
    metadata = {"policy": args.policy, "seed": str(args.seed), "env": json.dumps(spec)}
    episodes.store(args.out, kept, loop, metadata)
    print(f"kept {len(kept)} of {len(done)} episodes")
    if interrupted:
        return 130
    return 0 if kept else 1
