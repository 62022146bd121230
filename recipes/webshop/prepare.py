"""Prepare a WebShop catalog and its training rows.

`generated` makes a shop of any size; `small` and `full` convert the published files, which must lie
in --input_dir under their published names. The catalog folder is used as it is:

    gym.make("AgentR1/WebShop-v0", catalog=DIR, goals="human", split="test")

Nothing is downloaded. A catalog that was made from the same files is kept; --force makes it anew.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from agentr1_envs.errors import TaskDataError
from agentr1_envs.task_files import verl_row, write_rows
from agentr1_envs.webshop import convert, files, nouns
from agentr1_envs.webshop.catalog import GOAL_KINDS, open_catalog
from agentr1_envs.webshop.folders import check_target, is_usable
from agentr1_envs.webshop.generator import DEFAULT_SIZE, Generator
from agentr1_envs.webshop.goals import SPLITS, leaks
from agentr1_envs.webshop.official import REASONS

ENV_ID = "AgentR1/WebShop-v0"
MODES = ("generated", "small", "full")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--dataset_mode", choices=MODES, default="generated")
    parser.add_argument(
        "--input_dir",
        metavar="DIR",
        default="webshop_data",
        help="folder of the published files (default: %(default)s)",
    )
    parser.add_argument(
        "--output_dir", metavar="DIR", required=True, help="the catalog folder to make"
    )
    parser.add_argument(
        "--noun_source",
        choices=("spacy", "heuristic"),
        default="spacy",
        help="where the nouns of the type score come from, for published files; spacy is the "
        "published way and needs the extra of that name (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=convert.DEFAULT_SEED,
        help="draws prices within ranges and price caps (default: %(default)s)",
    )
    parser.add_argument(
        "--size",
        type=int,
        default=DEFAULT_SIZE,
        help="products of a generated catalog (default: %(default)s)",
    )
    parser.add_argument("--world", type=int, default=0, help="which generated world (default: 0)")
    parser.add_argument(
        "--workers", type=int, default=1, help="processes that read texts (default: %(default)s)"
    )
    parser.add_argument(
        "--goals", choices=GOAL_KINDS, default="human", help="goals of the rows (default: human)"
    )
    parser.add_argument(
        "--max_rows",
        type=int,
        default=20_000,
        metavar="N",
        help="at most N rows of each split; 0 writes no rows (default: %(default)s)",
    )
    parser.add_argument(
        "--data_source", default="webshop", metavar="NAME", help="the column of this name"
    )
    parser.add_argument("--force", action="store_true", help="make the catalog anew in any case")


def main(args: argparse.Namespace) -> int:
    """Run the preparation; returns the exit status."""
    for name, least in (("size", 1), ("workers", 1), ("max_rows", 0)):
        if getattr(args, name) < least:
            raise TaskDataError(f"--{name}", f"at least {least}", value=getattr(args, name))
    target = Path(args.output_dir)
    check_target(target)
    began = time.monotonic()
    with ProgressBars() as progress:
        if args.dataset_mode == "generated":
            made = _generated(args, target, progress)
        else:
            made = _published(args, target, progress)
    catalog = open_catalog(target)
    _report(catalog, made, time.monotonic() - began)
    if args.max_rows:
        _write_rows(args, catalog, target)
    return 0


def _generated(args: argparse.Namespace, target: Path, progress: convert.Progress) -> bool:
    generator = Generator(args.size, args.world)
    if not args.force and _is_current(target, generator.key, args.seed):
        return False
    convert.build_catalog(
        generator.source(), target, seed=args.seed, workers=args.workers, progress=progress
    )
    return True


def _published(args: argparse.Namespace, target: Path, progress: convert.Progress) -> bool:
    paths = files.find_files(args.input_dir, args.dataset_mode)
    if args.noun_source == "spacy" and (missing := nouns.spacy_missing()):
        raise TaskDataError(
            "--noun_source", f"a usable tagger ({missing}), or heuristic", value="spacy"
        )
    size = sum(path.stat().st_size for path in paths)
    key = files.files_key(
        paths, args.noun_source, lambda count: progress("hashing (bytes)", count, size)
    )
    if not args.force and _is_current(target, key, args.seed):
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    # The attribute file is spooled beside the catalog, where there must be room anyway.
    with tempfile.TemporaryFile(dir=target.parent) as spool:
        source = files.source_of_files(
            paths,
            spool,
            nouns=nouns.noun_finder(args.noun_source, workers=args.workers),
            noun_source=args.noun_source,
            key=key,
            on_bytes=lambda count: progress("reading (bytes)", count, size),
        )
        convert.build_catalog(
            source, target, seed=args.seed, workers=args.workers, progress=progress
        )
    return True


def _is_current(target: Path, key: dict[str, Any], seed: int) -> bool:
    return is_usable(target, convert.source_key({**key, "seed": seed}))


def _write_rows(args: argparse.Namespace, catalog: Any, target: Path) -> None:
    from agentr1_envs.webshop.env import GoalTasks, WebShopEnv

    goals, system = catalog.goals(args.goals), WebShopEnv().system_prompt
    for split in SPLITS:
        path = target / f"{split}.parquet"
        try:
            tasks = GoalTasks(goals, split, catalog)
        except TaskDataError:  # a small catalog has too few goals for every split
            print(f"{split}: no {args.goals} goals, no rows")
            path.unlink(missing_ok=True)
            continue
        count = min(len(tasks), args.max_rows)
        rows = [
            verl_row(
                task,
                env_id=ENV_ID,
                split=split,
                index=index,
                data_source=args.data_source,
                prompt=[
                    {"role": "system", "content": system},
                    {"role": "user", "content": f"Instruction: {task['instruction_text']}"},
                ],
                ground_truth=task["asin"],
                kwargs={"catalog": str(target.absolute()), "goals": args.goals},
            )
            for index, task in enumerate(tasks[place] for place in range(count))
        ]
        write_rows(path, rows)
        rest = "" if count == len(tasks) else f" of {len(tasks):,}"
        print(f"{split}: {count:,} rows{rest} in {path}")


def _report(catalog: Any, made: bool, seconds: float) -> None:
    meta = catalog.meta
    state = f"made in {seconds:.1f} s" if made else "up to date"
    print(f"{catalog.path}: {meta['products']:,} products, nouns: {meta['noun_source']}, {state}")
    for reason, count in meta["problems"].items():
        print(f"  {reason}: {count:,} ({REASONS[reason]})")
    if meta["problems"]:
        print(f"  each is listed in {catalog.path / 'problems.jsonl'}")
    for kind in GOAL_KINDS:
        goals = catalog.goals(kind)
        found = {name: count for name, count in leaks(goals).items() if count}
        print(f"{kind} goals: {len(goals):,}; shared between splits: {_leak_text(found)}")


def _leak_text(found: dict[str, int]) -> str:
    if not found:
        return "no product, no instruction"
    texts = []
    for name, count in found.items():
        split, earlier, what = name.split("_")
        texts.append(f"{count:,} {split} goals with {what} of {earlier}")
    return "; ".join(texts)


class ProgressBars:
    """Bars on the terminal, one per stage; nothing where the output is no terminal."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as Remaining

        self._bars = Progress(
            TextColumn("{task.description:>16}"), BarColumn(), MofNCompleteColumn(), Remaining()
        )
        self._tasks: dict[str, Any] = {}
        self._pending: dict[str, int] = {}
        self._quiet = not self._bars.console.is_terminal

    def __enter__(self) -> Callable[[str, int, int | None], None]:
        (nullcontext() if self._quiet else self._bars).__enter__()
        return self.advance

    def __exit__(self, *_: object) -> None:
        if not self._quiet:
            for stage, steps in self._pending.items():
                self._bars.advance(self._tasks[stage], steps)
            self._bars.stop()

    def advance(self, stage: str, steps: int, total: int | None) -> None:
        """Move a stage's bar; cheap, as it is called for every product."""
        if self._quiet:
            return
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=total)
            self._pending[stage] = 0
        self._pending[stage] += steps
        if self._pending[stage] >= max((total or 100_000) // 200, 1):
            self._bars.advance(self._tasks[stage], self._pending[stage])
            self._pending[stage] = 0
