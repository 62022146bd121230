"""Prepare GSM8K with a calculator: one Parquet file a split, in verl's row schema.

Without --input, problems of the embedded generator are written. With it, official GSM8K rows are
read from a JSONL, JSON, Parquet or Arrow file, or from a folder of them, such as one of the Hugging
Face cache. Nothing is downloaded. All rows are checked before the first file is written.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agentr1_envs.errors import TaskDataError
from agentr1_envs.gsm8k_tool.env import GSM8KToolEnv
from agentr1_envs.gsm8k_tool.generator import FAMILIES, LEVELS, generated_tasks
from agentr1_envs.gsm8k_tool.official import load_tasks
from agentr1_envs.task_files import verl_row, write_rows
from agentr1_envs.task_set import TaskSource, split_of_file
from agentr1_envs.tool_formats import format_names

ENV_ID = "AgentR1/GSM8KTool-v0"
SPLITS = ("train", "validation", "test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--local_save_dir", required=True, metavar="DIR", help="where files go")
    parser.add_argument(
        "--input", metavar="FILE_OR_DIR", help="official rows (default: the generator)"
    )
    parser.add_argument(
        "--split",
        choices=SPLITS,
        help="the split of a single --input file (default: by its name), or the only split wanted",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="at most N rows a split")
    group = parser.add_argument_group("generated problems")
    group.add_argument("--difficulty", choices=LEVELS, default="easy")
    group.add_argument("--templates", choices=FAMILIES, default="core")
    group.add_argument("--num_train", type=int, default=8_000, metavar="N")
    group.add_argument("--num_validation", type=int, default=500, metavar="N")
    group.add_argument("--num_test", type=int, default=1_000, metavar="N")
    group = parser.add_argument_group("rows")
    group.add_argument("--data_source", metavar="NAME", help="default: openai/gsm8k or generated")
    group.add_argument("--tool_format", choices=format_names(), default="hermes")
    group.add_argument("--system_prompt", default="compact", metavar="compact|full|TEXT")
    group.add_argument(
        "--reward_tool",
        action="store_true",
        help="add the original recipe's oracle tool calc_gsm8k_reward (off by default)",
    )


def main(args: argparse.Namespace) -> int:
    """Run the preparation; returns the exit status."""
    for name in ("limit", "num_train", "num_validation", "num_test"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise TaskDataError(f"--{name}", "a whole number of at least 1", value=value)
    panels = _official(args) if args.input else _generated(args)
    source = args.data_source or ("openai/gsm8k" if args.input else "agentr1/gsm8k_generated")
    # Everything is read and checked before anything is written.
    tables = {split: _rows(tasks, split, source, args) for split, tasks in panels.items()}
    folder = Path(args.local_save_dir)
    for split, rows in tables.items():
        write_rows(folder / f"{split}.parquet", rows)
    _report(folder, tables)
    return 0


def _generated(args: argparse.Namespace) -> dict[str, TaskSource]:
    wanted = (args.split,) if args.split else SPLITS
    return {
        split: generated_tasks(
            split,
            difficulty=args.difficulty,
            templates=args.templates,
            size=getattr(args, f"num_{split}"),
        )
        for split in wanted
    }


def _official(args: argparse.Namespace) -> dict[str, TaskSource]:
    path = Path(args.input)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    if not path.is_dir():
        split = args.split or split_of_file(path)
        return {split: load_tasks(path, split=split)}
    panels: dict[str, TaskSource] = {}
    missing: FileNotFoundError | None = None
    for split in (args.split,) if args.split else SPLITS:
        try:
            panels[split] = load_tasks(path, split=split)
        except FileNotFoundError as error:  # official GSM8K has no validation rows
            missing = missing or error
    if not panels and missing is not None:
        raise missing
    return panels


def _rows(
    tasks: TaskSource, split: str, source: str, args: argparse.Namespace
) -> list[dict[str, Any]]:
    kwargs: dict[str, Any] = {}
    if args.tool_format != "hermes":
        kwargs["tool_format"] = args.tool_format
    if args.system_prompt != "compact":
        kwargs["system_prompt"] = args.system_prompt
    if args.reward_tool:
        kwargs["reward_tool"] = True
    system = GSM8KToolEnv(**kwargs).system_prompt
    count = len(tasks) if args.limit is None else min(args.limit, len(tasks))
    rows = []
    for index in _track(range(count), f"Reading {split}"):
        task = tasks[index]
        rows.append(
            verl_row(
                task,
                env_id=ENV_ID,
                split=split,
                index=index,
                data_source=source,
                prompt=[
                    {"role": "system", "content": system},
                    {"role": "user", "content": task["question"]},
                ],
                ground_truth=task["answer"],
                kwargs=kwargs,
                ability="math",
            )
        )
    return rows


def _track(values: range, text: str) -> Iterable[int]:
    from rich.progress import track

    return track(values, text, transient=True)


def _report(folder: Path, tables: dict[str, list[dict[str, Any]]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("file", "rows")
    for split, rows in tables.items():
        table.add_row(str(folder / f"{split}.parquet"), f"{len(rows):,}")
    console = Console()
    console.print(table)
    first = next(iter(tables))
    console.print(
        f'gym.make("{ENV_ID}", tasks="{folder / first}.parquet")', soft_wrap=True, highlight=False
    )
