"""Prepare ALFWorld games: Parquet rows for training and evaluation.

With --input_dir, ALFWorld's own games are read (json_2.1.1, or any folder that holds train,
valid_seen and valid_unseen). Without it, generated games are written; scores on those are not
ALFWorld scores. --games_dir writes generated games in ALFWorld's own file layout as well, which
takes domain and grammar from the installed package alfworld.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agentr1_recipes.progress import ProgressBar

from agentr1_envs.alfworld import official
from agentr1_envs.alfworld.generator import PANEL_SIZES, TASK_TYPES, generated_tasks
from agentr1_envs.alfworld.rooms import DIFFICULTIES
from agentr1_envs.alfworld.rows import pack, pack_logic
from agentr1_envs.errors import TaskDataError
from agentr1_envs.task_files import verl_row, write_rows

ENV_ID = "AgentR1/ALFWorld-v0"
SPLITS = ("train", "validation", "test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--output_dir", required=True, metavar="DIR", help="where the rows go")
    parser.add_argument(
        "--input_dir", metavar="DIR", help="ALFWorld's games (default: generated games)"
    )
    parser.add_argument(
        "--splits", nargs="+", choices=SPLITS, default=list(SPLITS), help="default: all"
    )
    parser.add_argument(
        "--size", type=int, metavar="N", help="generated games of each split (default: 2,000 / 200)"
    )
    parser.add_argument(
        "--difficulty", choices=DIFFICULTIES, default="normal", help="of generated games"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="at most N games of each split")
    parser.add_argument(
        "--games_dir", metavar="DIR", help="write generated games as ALFWorld's files, too"
    )
    parser.add_argument(
        "--action_format",
        choices=("command", "think_action", "tool"),
        help="write how replies hold the command into the rows (default: the recipe's "
        "configuration says it; Agent-R1's recipe has tool)",
    )
    parser.add_argument(
        "--data_source", default="alfworld", metavar="NAME", help="the column of this name"
    )


def main(args: argparse.Namespace) -> int:
    """Run the preparation; returns the exit status."""
    for name in ("size", "limit"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise TaskDataError(f"--{name}", "a whole number of at least 1", value=value)
    if args.input_dir and (args.size or args.games_dir or args.difficulty != "normal"):
        raise TaskDataError(
            "--input_dir", "no --size, --games_dir or --difficulty: those are for generated games"
        )
    if args.input_dir and not os.path.isdir(args.input_dir):
        raise FileNotFoundError(f"{args.input_dir}: no such folder of ALFWorld games")
    if args.games_dir:
        try:
            official.package_texts()
        except ImportError as error:
            raise TaskDataError("--games_dir", str(error)) from None
    folder = Path(args.output_dir)
    counts: dict[str, Counter[str]] = {}
    scans: dict[str, official.Scan] = {}
    for split in args.splits:
        if args.input_dir:
            tasks = _official(args, split, scans)
            if tasks is None:
                continue
        else:
            tasks = _generated(args, split)
        counts[split] = Counter(task["task_type"] for task in tasks)
        rows = list(_rows(tasks, split, args))
        write_rows(folder / f"{split}.parquet", rows)
    if not counts:
        raise TaskDataError(
            str(args.input_dir), f"a folder of games for one of {', '.join(args.splits)}"
        )
    _report(args, folder, counts, scans)
    return 0


def _official(
    args: argparse.Namespace, split: str, scans: dict[str, official.Scan]
) -> list[dict[str, Any]] | None:
    """The packed rows of an official split; None where its folder is not there."""
    try:
        folder = official.split_folder(args.input_dir, split)
    except FileNotFoundError:
        return None
    if folder.name not in official.SPLIT_FOLDERS.values() and split != args.splits[0]:
        return None  # a folder without splits: its games are rows of the first split only
    with ProgressBar(f"Reading {folder.name}") as bar:
        found = scans[split] = official.scan(folder, bar.update)
    tasks = []
    for path in found.games[: args.limit]:
        try:
            task = official.read_row(path, folder)
        except (TaskDataError, OSError) as error:
            found.unreadable.append((path, str(error)))
            continue
        task["problem"] = pack(task.pop("pddl_problem"))
        task["logic"] = pack_logic(task.pop("pddl_domain"), task.pop("grammar"))
        tasks.append(task)
    if not tasks:
        reasons = [f"{n} {why}" for why, n in found.skipped.items()]
        reasons += [error for _, error in found.unreadable[:1]]
        raise TaskDataError(
            str(folder), "at least one playable game.tw-pddl", value="; ".join(reasons) or "none"
        )
    return tasks


def _generated(args: argparse.Namespace, split: str) -> list[dict[str, Any]]:
    default = min(PANEL_SIZES[split], 2000)
    size = min(args.size or default, args.limit or args.size or default)
    panel = generated_tasks(split, size, args.difficulty)
    tasks = []
    with ProgressBar(f"Making {split}", size) as bar:
        for i in range(size):
            tasks.append(panel[i])
            bar.advance()
    if args.games_dir:
        with ProgressBar(f"Writing {split}", size) as bar:
            target = Path(args.games_dir) / official.SPLIT_FOLDERS[split]
            for _ in official.write_games(tasks, target):
                bar.advance()
    return tasks


def _rows(
    tasks: Iterable[dict[str, Any]], split: str, args: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    from agentr1_envs.alfworld.env import ALFWorldEnv

    kwargs = {"action_format": args.action_format} if args.action_format else {}
    system = ALFWorldEnv(**kwargs).system_prompt
    for index, task in enumerate(tasks):
        yield verl_row(
            task,
            env_id=ENV_ID,
            split=split,
            index=index,
            data_source=args.data_source,
            prompt=[
                {"role": "system", "content": system},
                {"role": "user", "content": f"Your task is to: {task['goal']}."},
            ],
            ground_truth=task["goal"],
            kwargs=kwargs,
        )


def _report(
    args: argparse.Namespace,
    folder: Path,
    counts: dict[str, Counter[str]],
    scans: dict[str, official.Scan],
) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("task type", *counts)
    for task_type in TASK_TYPES:
        table.add_row(task_type, *(f"{c[task_type]:,}" for c in counts.values()))
    table.add_row("all", *(f"{c.total():,}" for c in counts.values()), style="bold")
    console.print(table)
    for split, found in scans.items():
        console.print(f"{split}: {found.folder}", soft_wrap=True, highlight=False)
        for reason, number in sorted(found.skipped.items()):
            console.print(f"  left out, {reason}: {number:,}")
        if found.checked:
            console.print(f"  without 'solvable', kept as the expert wins them: {found.checked:,}")
        if found.undecided:
            console.print(
                f"  without 'solvable', kept although unknown to the state engine: "
                f"{len(found.undecided):,}"
            )
        for _, error in found.unreadable[:20]:
            console.print(f"  unreadable: {error}", soft_wrap=True, highlight=False, markup=False)
        if len(found.unreadable) > 20:
            console.print(f"  .. and {len(found.unreadable) - 20:,} more unreadable files")
        expected = official.EXPECTED_COUNTS[split]
        if args.limit is None and counts[split].total() != expected:
            console.print(
                f"  note: {counts[split].total():,} games; ALFWorld's json_2.1.1 has {expected:,} "
                f"in {official.SPLIT_FOLDERS[split]}. Scores on another set are not comparable.",
                style="yellow",
            )
    if args.input_dir:
        missing = [s for s in args.splits if s not in counts]
        if missing:
            console.print(f"no folder for: {', '.join(missing)}", style="yellow")
    else:
        console.print("Generated games: scores on them are not ALFWorld scores.")
    first = next(iter(counts))
    console.print(
        f'gym.make("{ENV_ID}", split="{first}", tasks="{folder / first}.parquet")',
        soft_wrap=True,
        highlight=False,
    )
