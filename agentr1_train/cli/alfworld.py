"""`agentr1 alfworld parity`: is the fast engine still ALFWorld?"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from agentr1_train.cli.common import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    commands = parser.add_subparsers(dest="alfworld_command", metavar="COMMAND", required=True)
    text = "play the same commands in the state engine and in the real one, and compare"
    parity = commands.add_parser(
        "parity",
        help=text,
        description=f"{text[0].upper()}{text[1:]} observation, admissible commands, score, done "
        "and won after each. Needs the extra 'alfworld'. Exit code 1 if anything differs.",
    )
    parity.add_argument("--games", type=int, default=60, metavar="N", help="default: %(default)s")
    parity.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parity.add_argument(
        "--steps", type=int, default=50, metavar="N", help="commands a game (default: %(default)s)"
    )
    parity.add_argument(
        "--input_dir", metavar="DIR", help="official games instead of generated ones"
    )
    parity.add_argument("--split", default="test", help="of the official games")
    parity.add_argument("--json", metavar="FILE", help="write the report there")


def main(args: argparse.Namespace) -> int:
    """Compare; 0 when nothing differs."""
    for name in ("games", "steps"):
        if getattr(args, name) < 1:
            raise UsageError(f"--{name}: expected at least 1, got {getattr(args, name)}")
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from agentr1_envs.alfworld import parity
    from agentr1_envs.alfworld.official import package_texts

    try:
        package_texts()
        import fast_downward  # noqa: F401
        import textworld  # noqa: F401
    except ImportError:
        from agentr1_envs.alfworld.textworld_engine import INSTALL_HINT

        raise UsageError(INSTALL_HINT) from None
    source = None
    total = args.games
    if args.input_dir:
        source, total = parity.official_games(args.input_dir, args.split, args.games, args.seed)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("Playing", total=total)
        report = parity.run_parity(
            args.games,
            args.seed,
            args.steps,
            progress=lambda r: bar.update(task, completed=r.games),
            source=source,
        )
    console = Console()
    _print(report, console)
    if args.json:
        from dataclasses import asdict

        from agentr1_envs.task_files import atomic_write

        Path(args.json).parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(args.json, "w") as handle:
            json.dump({"seed": args.seed, **asdict(report)}, handle, indent=1, ensure_ascii=False)
    return 1 if report.differences else 0


def _print(report: Any, console: Any) -> None:
    from rich.table import Table

    from agentr1_envs.alfworld.parity import format_difference

    table = Table("", "number")
    table.add_row("games", f"{report.games:,}")
    for task_type, number in report.by_type.items():
        table.add_row(f"  {task_type}", f"{number:,}")
    table.add_row("steps", f"{report.steps:,}")
    table.add_row("games won on the way", f"{report.won:,}")
    table.add_row("differences", f"{len(report.differences):,}", style="bold")
    steps = max(report.steps, 1)
    table.add_row("state engine, us a step", f"{report.engine_seconds / steps * 1e6:,.1f}")
    table.add_row("real engine (cached), us a step", f"{report.real_seconds / steps * 1e6:,.0f}")
    console.print(table)
    verbs = ", ".join(f"{verb} {n:,}" for verb, n in sorted(report.verbs.items()))
    console.print(f"commands: {verbs}", highlight=False)
    for difference in report.differences[:5]:
        console.print(format_difference(difference), markup=False, highlight=False)
