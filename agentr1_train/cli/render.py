"""`agentr1 render`: one episode, played by a scripted policy or replayed, drawn or printed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentr1_envs.errors import TaskDataError
from agentr1_envs.registration import ENVS, load
from agentr1_train.cli.common import (
    UsageError,
    add_env_option,
    check_output,
    drawing_form,
    find_env_id,
    make_env,
    parse_pairs,
    write_drawing,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("env", help="an id, or a short name such as paperscout")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--policy", default="expert", help="a scripted policy (default: expert)")
    what.add_argument("--transitions", metavar="FILE", help="replay an episode of a rollout")
    parser.add_argument("--episode", metavar="ID", help="which one of the file (default: first)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the task")
    parser.add_argument("--task-id", help="play this task")
    parser.add_argument(
        "--out", metavar="FILE", help="write here: .txt, .svg or .html (default: print)"
    )
    add_env_option(parser)


def main(args: argparse.Namespace) -> int:
    """Play or replay, then draw."""
    check_output(args.out, "--out")
    if args.out:
        drawing_form(args.out)
    env_id = find_env_id(args.env)
    env = make_env(env_id, {**parse_pairs(args.env_kwargs), "render_mode": "ansi"})
    try:
        if args.transitions:
            _replay(env, args)
        else:
            _play(env, env_id, args)
        picture: Callable[[str], str] | None = getattr(env.unwrapped, "draw", None)
        if picture is None and args.out and drawing_form(args.out) != "text":
            raise UsageError(f"{env_id} has no picture, only a transcript: use a name in .txt")
        draw = picture or (lambda form: str(env.render()))
        if args.out:
            write_drawing(args.out, draw)
        else:
            print(draw("text"))
    finally:
        env.close()
    return 0


def _play(env: Any, env_id: str, args: argparse.Namespace) -> None:
    experts = ENVS[env_id].experts if env_id in ENVS else {}
    if args.policy not in experts:
        raise UsageError(f"{env_id} has no policy {args.policy!r}: {', '.join(experts) or 'none'}")
    policy = load(experts[args.policy])(env)
    options = {"task_id": args.task_id} if args.task_id else None
    try:
        observation, info = env.reset(seed=args.seed, options=options)
    except ValueError as error:
        raise UsageError(str(error)) from error
    policy.reset(observation, info)
    over = False
    while not over:
        observation, _, terminated, truncated, info = env.step(policy.act(observation, info))
        over = terminated or truncated


def _replay(env: Any, args: argparse.Namespace) -> None:
    from agentr1_envs.transitions import group_episodes, read_transitions

    if not Path(args.transitions).is_file():
        raise FileNotFoundError(f"{args.transitions}: no such file")
    episodes = group_episodes(read_transitions(args.transitions))
    chosen = [e for e in episodes if args.episode in (None, e.episode_id)]
    if not chosen:
        raise TaskDataError(
            args.transitions, "an episode of the file", field="episode_id", value=args.episode
        )
    try:
        env.reset(options={"task_id": chosen[0].task_id})
    except ValueError as error:
        raise UsageError(f"{error}; give the rollout's own --env arguments") from error
    for transition in chosen[0].transitions:
        _, _, terminated, truncated, _ = env.step(transition.action)
        if terminated or truncated:
            break
