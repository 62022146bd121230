"""`agentr1 rollout ENV`: play episodes with a policy."""

from __future__ import annotations

import argparse
import json

from agentr1_envs.seeding import derive_int
from agentr1_train.cli import episodes
from agentr1_train.rollout import EpisodeJob


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("env_id", metavar="ENV", help="an id, or a short name such as gsm8k_tool")
    episodes.add_arguments(parser, episodes=100)
    episodes.env_option(parser, "--env")


def main(args: argparse.Namespace) -> int:
    """Play; 1 when no episode was valid, 130 after an interrupt (what was played is stored)."""
    loop, spec = episodes.set_up(args, args.env_id)
    jobs = (
        EpisodeJob(f"episode-{i:06d}", derive_int("rollout", args.seed, i, bits=31))
        for i in range(args.episodes)
    )
    done, interrupted = episodes.play(loop, jobs, args.episodes, args.quiet)
    episodes.show(f"{spec['env_id']}, policy {args.policy}", done, loop)
    if args.out is not None:
        metadata = {"policy": args.policy, "seed": str(args.seed), "env": json.dumps(spec)}
        episodes.store(args.out, done, loop, metadata)
    if interrupted:
        return 130
    return 0 if any(e.valid for e in done) else 1
