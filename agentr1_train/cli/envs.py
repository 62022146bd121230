"""`agentr1 envs`: the table of environments."""

from __future__ import annotations

import argparse
import inspect
import json

from agentr1_envs.registration import ENVS, env_class
from agentr1_train.cli.common import find_env_id


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("env", nargs="?", help="show one environment's documentation")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def main(args: argparse.Namespace) -> int:
    """Print the table, or one environment's docstring."""
    if args.env:
        print(inspect.getdoc(env_class(find_env_id(args.env))))
        return 0
    if args.json:
        rows = [
            {"id": e.id, "task": e.task, "summary": e.summary, "policies": sorted(e.experts)}
            for e in ENVS.values()
        ]
        print(json.dumps(rows, indent=2))
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table(title="agentr1 environments")
    table.add_column("id", no_wrap=True)
    for name in ("what it is", "scripted policies", "data"):
        table.add_column(name, overflow="fold")
    for entry in ENVS.values():
        data = f"agentr1 prepare {entry.task}" if entry.prepare else "generated"
        table.add_row(entry.id, entry.summary, ", ".join(entry.experts), data)
    Console().print(table)
    return 0
