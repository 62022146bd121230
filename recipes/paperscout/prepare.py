"""Prepare scholarly search: query rows, an index of papers and their citations.

Without --input or --input_dir the generated literature is written out. With them, query files as
they are published (AutoScholarQuery, RealScholarQuery) become Parquet rows. The papers to search
come from --papers (arXiv metadata, with or without references); without it the library holds just
the titles that the queries name, which serves to try things out. Nothing is downloaded. All files
are read and checked before the first is written; a library is complete or not there.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentr1_envs.errors import TaskDataError
from agentr1_envs.paperscout.env import PaperScoutEnv
from agentr1_envs.paperscout.files import alone_in, atomic_folder
from agentr1_envs.paperscout.generator import DEFAULT_SIZE, generate
from agentr1_envs.paperscout.local import LIBRARY, LocalLibrary, write_library
from agentr1_envs.paperscout.official import Dump, query_task, read_dump, titles_dump
from agentr1_envs.paperscout.row_search import open_dense
from agentr1_envs.paperscout.store import PaperStore
from agentr1_envs.paperscout.world import MIN_SIZE
from agentr1_envs.task_files import iter_rows, verl_row, write_rows
from agentr1_envs.task_set import TaskSet, split_of_file
from agentr1_envs.tool_formats import format_names

ENV_ID = "AgentR1/PaperScout-v0"
SPLITS = ("train", "validation", "test")
Panels = dict[str, list[dict[str, Any]]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--output_dir", required=True, metavar="DIR", help="where everything goes")
    given = parser.add_mutually_exclusive_group()
    given.add_argument(
        "--input_dir", metavar="DIR", help="folder of query files named by split (train, dev, test)"
    )
    given.add_argument("--input", nargs="+", metavar="FILE", help="query files")
    parser.add_argument(
        "--split", choices=SPLITS, help="the split of all query files (default: by their names)"
    )
    parser.add_argument(
        "--papers",
        nargs="+",
        default=[],
        metavar="FILE",
        help="paper dumps: rows with id, title and abstract, authors, a date, references",
    )
    parser.add_argument(
        "--citations",
        nargs="+",
        default=[],
        metavar="FILE",
        help='citations beside the dump: rows {"citing", "cited"} or {"id", "references"}',
    )
    parser.add_argument(
        "--library", metavar="DIR", help="use the library of an earlier --output_dir"
    )
    parser.add_argument(
        "--encoder",
        metavar="MODEL",
        help="also build a dense index with this sentence encoder (for retrieval=dense, hybrid)",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="at most N rows a split")
    group = parser.add_argument_group("generated literature")
    group.add_argument("--size", type=int, default=DEFAULT_SIZE, metavar="N", help="papers")
    group.add_argument("--seed", type=int, default=0)
    group = parser.add_argument_group("rows")
    group.add_argument("--data_source", metavar="NAME", help="default: the query folder's name")
    group.add_argument("--tool_format", choices=format_names(), default="hermes")


def main(args: argparse.Namespace) -> int:
    """Run the preparation; returns the exit status."""
    if args.limit is not None and args.limit < 1:
        raise TaskDataError("--limit", "a whole number of at least 1", value=args.limit)
    if args.size < MIN_SIZE:
        raise TaskDataError("--size", f"a whole number of at least {MIN_SIZE}", value=args.size)
    if args.library and args.papers:
        raise TaskDataError("--library", "either --library or --papers", value=args.library)
    if args.library and not (args.input or args.input_dir):
        raise TaskDataError("--library", "query files (--input or --input_dir) to make rows of")
    if args.citations and not args.papers:
        raise TaskDataError("--citations", "--papers, whose citations they are")
    target = Path(args.output_dir)
    literature = None
    panels: Panels = {}
    if args.input or args.input_dir:
        panels = _queries(args)
    elif not args.papers:
        literature = generate(args.size, args.seed)
        panels = literature.questions
    dump = None
    if not args.library:
        folder = target / LIBRARY
        if folder.exists() and not (folder / "papers.json").is_file():
            raise TaskDataError(str(folder), "no folder, or a library to replace")
        dump = _dump(args, panels, literature)
    with alone_in(target):
        library = LocalLibrary(args.library) if dump is None else _library(args, target, dump)
        tables = {split: _rows(tasks, split, library, args) for split, tasks in panels.items()}
        for split, table in tables.items():
            write_rows(target / f"{split}.parquet", table)
        _report(target, library, tables, panels)
        _name_stale(target, library, tables)
    return 0


def _queries(args: argparse.Namespace) -> Panels:
    """Tasks by split, from the query files."""
    if args.input_dir:
        folder = Path(args.input_dir)
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder}: no such folder")
        files = sorted(f for f in folder.iterdir() if f.suffix in (".jsonl", ".json", ".parquet"))
        if not files:
            raise TaskDataError(str(folder), "at least one .jsonl, .json or .parquet file")
    else:
        files = [Path(name) for name in args.input]
    panels: Panels = {}
    for file in files:
        split = args.split or split_of_file(file)
        rows = panels.setdefault(split, [])
        rows += [query_task(row, n, str(file)) for n, row in enumerate(iter_rows(file))]
    for split, rows in panels.items():
        # The panel checks that identifiers are unique over all files of a split.
        TaskSet(rows, split=split, name=f"{split} queries")
    return panels


def _library(args: argparse.Namespace, target: Path, dump: Dump) -> LocalLibrary:
    """A new library in the target folder."""
    with atomic_folder(target / LIBRARY, keep_existing=False) as made:
        write_library(made, dump.papers, dump.references, progress=True)
        if args.encoder:
            open_dense(PaperStore(made), args.encoder)
    notes = (
        (dump.unknown_references, "citations of papers that the dump lacks left out"),
        (dump.replaced_versions, "rows of earlier versions replaced by later ones"),
    )
    for count, note in notes:
        if count:
            _say(f"{count:,} {note}")
    return LocalLibrary(target)


def _dump(args: argparse.Namespace, panels: Panels, literature: Any) -> Dump:
    if args.papers:
        with _counter("Reading papers") as count:
            return read_dump(args.papers, args.citations, count)
    if literature is not None:
        return Dump(literature.papers, literature.references)
    return titles_dump(task for rows in panels.values() for task in rows)


def _rows(
    tasks: list[dict[str, Any]], split: str, library: LocalLibrary, args: argparse.Namespace
) -> list[dict[str, Any]]:
    kwargs: dict[str, Any] = {"library": os.path.abspath(library.root)}
    if args.tool_format != "hermes":
        kwargs["tool_format"] = args.tool_format
    env = PaperScoutEnv(**kwargs)
    source = args.data_source or _source(args)
    rows = []
    for index, task in enumerate(tasks[: args.limit]):
        task = {**task, "library": library.hash}
        observation, _ = env.reset(options={"task": task})
        rows.append(
            verl_row(
                task,
                env_id=ENV_ID,
                split=split,
                index=index,
                data_source=source,
                prompt=[
                    {"role": "system", "content": env.system_prompt},
                    {"role": "user", "content": observation},
                ],
                ground_truth=json.dumps(task["gold"]),
                kwargs=kwargs,
                ability="search",
            )
        )
    return rows


def _source(args: argparse.Namespace) -> str:
    if args.input_dir:
        return Path(args.input_dir).resolve().name
    if args.input:
        return Path(args.input[0]).resolve().parent.name
    return "agentr1/paperscout_generated"


def _report(
    target: Path,
    library: LocalLibrary,
    tables: Mapping[str, list[dict[str, Any]]],
    panels: Panels,
) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("file", "rows", "answers", "in the library")
    for split, rows in tables.items():
        gold = [name for task in panels[split][: len(rows)] for name in task["gold"]]
        found = sum(library.store.row_of(name) >= 0 for name in gold)
        path = str(target / f"{split}.parquet")
        table.add_row(path, f"{len(rows):,}", f"{len(gold):,}", f"{found:,}")
    console = Console()
    if tables:
        console.print(table)
    store = library.store
    _say(f"{library.folder}: {len(store):,} papers, {store.citations:,} citations")
    # The default split is "train": without rows of it, that line alone would not play.
    split = "" if not tables or "train" in tables else f', split="{next(iter(tables))}"'
    _say(f'gym.make("{ENV_ID}", library="{library.root}"{split})')


def _name_stale(target: Path, library: LocalLibrary, tables: Mapping[str, Any]) -> None:
    """Says which rows of an earlier run are for other papers than the library now holds."""
    for split in SPLITS:
        file = target / f"{split}.parquet"
        if split in tables or not file.is_file() or library.root != target:
            continue
        tasks = library.tasks(split)
        if tasks is not None and tasks[0].get("library") != library.hash:
            _say(f"{file} is of an earlier library and no longer plays: prepare it again")


def _say(text: str) -> None:
    from rich.console import Console

    Console().print(text, soft_wrap=True, highlight=False, markup=False)


@contextmanager
def _counter(text: str) -> Iterator[Callable[[int], None]]:
    """A progress line for work of unknown length."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task(text)
        yield lambda done: progress.update(task, description=f"{text}: {done:,}")
