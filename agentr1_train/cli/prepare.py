"""`agentr1 prepare TASK`: runs the recipe's data preparation."""

from __future__ import annotations

import argparse
import importlib

from agentr1_envs.registration import ENVS
from agentr1_train.cli.common import UsageError


def _tasks() -> dict[str, str]:
    return {entry.task: entry.prepare for entry in ENVS.values() if entry.prepare}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command; each task has further ones of its own."""
    parser.usage = "agentr1 prepare TASK [options]   (agentr1 prepare TASK --help lists them)"
    parser.add_argument("task", metavar="TASK", help=", ".join(_tasks()))
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def main(args: argparse.Namespace) -> int:
    """Run the task's own preparation."""
    tasks = _tasks()
    if args.task not in tasks:
        raise UsageError(f"there is no task {args.task!r} to prepare: {', '.join(tasks)}")
    module = importlib.import_module(tasks[args.task])
    text = (module.__doc__ or "").strip()
    parser = argparse.ArgumentParser(
        prog=f"agentr1 prepare {args.task}",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    return int(module.main(parser.parse_args(args.rest)) or 0)
