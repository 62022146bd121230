"""Prepare multi-hop questions: Parquet rows, a corpus to search and its index.

Without --input, the embedded world is written out. With it, official files as downloaded are read:
HotpotQA (distractor or fullwiki), MuSiQue, 2WikiMultihopQA; JSON, JSON lines or Parquet. The corpus
is the union of the paragraphs in the files, as in the original recipe, or with --wiki the whole
Wikipedia that HotpotQA published (for its fullwiki setting).
"""

from __future__ import annotations

import argparse
import bz2
import json
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from agentr1_recipes.progress import ProgressBar

from agentr1_envs.errors import TaskDataError
from agentr1_envs.hotpotqa import official
from agentr1_envs.hotpotqa.corpus import open_corpus
from agentr1_envs.task_files import atomic_write, verl_row, write_rows
from agentr1_envs.task_set import split_of_file

ENV_ID = "AgentR1/HotpotQA-v0"
SPLITS = ("train", "validation", "test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--output_dir", required=True, metavar="DIR", help="where the rows go")
    parser.add_argument(
        "--corpus_output_path",
        metavar="FILE",
        help="the corpus, JSON lines (default: corpus.jsonl in DIR); its index is put beside it",
    )
    parser.add_argument(
        "--input",
        nargs="+",
        metavar="FILE",
        default=[],
        help="official files (default: the embedded world)",
    )
    parser.add_argument(
        "--split",
        choices=SPLITS,
        help="the split of all rows of --input (default: by each file's name; validation where "
        "it names none)",
    )
    parser.add_argument(
        "--aliases", metavar="FILE", help="2WikiMultihopQA's id_aliases.json: other answers"
    )
    parser.add_argument(
        "--wiki",
        metavar="PATH",
        help="HotpotQA's Wikipedia abstracts (the .tar.bz2, or the folder it unpacks to) as the "
        "corpus, in place of the files' own paragraphs",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="at most N rows of each file")
    parser.add_argument(
        "--encoder",
        metavar="MODEL",
        help="also build the dense index of this sentence encoder (a folder or a name)",
    )
    parser.add_argument("--no_index", action="store_true", help="leave out the index")
    parser.add_argument(
        "--server",
        metavar="URL",
        help="write this retrieval server into the rows instead of the corpus file's path",
    )
    parser.add_argument(
        "--data_source", default="hotpotqa", metavar="NAME", help="the column of this name"
    )


def main(args: argparse.Namespace) -> int:
    """Run the preparation; returns the exit status."""
    if args.limit is not None and args.limit < 1:
        raise TaskDataError("--limit", "a whole number of at least 1", value=args.limit)
    if args.wiki and not args.input:
        raise TaskDataError("--wiki", "--input files whose questions it answers", value=args.wiki)
    folder = Path(args.output_dir)
    corpus = Path(args.corpus_output_path or folder / "corpus.jsonl").absolute()
    if corpus.suffix != ".jsonl":
        raise TaskDataError("--corpus_output_path", "a name that ends in .jsonl", value=str(corpus))
    for path in (*args.input, *filter(None, (args.aliases, args.wiki))):
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path}: no such file")
    if args.input:
        panels, paragraphs, skipped = _official(args)
    else:
        panels, paragraphs, skipped = *_embedded(), 0
    passages = _wiki(args.wiki) if args.wiki else iter(paragraphs)
    # The corpus goes first: rows that name a corpus which is not there would be worse than none.
    count = _write_corpus(corpus, passages, None if args.wiki else len(paragraphs))
    kwargs = {"corpus": args.server or str(corpus)}
    for split, tasks in panels.items():
        write_rows(folder / f"{split}.parquet", list(rows(tasks, split, kwargs, args.data_source)))
    if not args.no_index:
        open_corpus(str(corpus), progress=True)
        if args.encoder:
            open_corpus(str(corpus), "dense", args.encoder, progress=True)
    notes = []
    if skipped:
        notes.append(f"{skipped:,} rows that are marked unanswerable were left out.")
    if not args.wiki and (missing := _missing(panels, paragraphs)):
        notes.append(
            f"{missing:,} questions have a supporting article that is not in the corpus: the "
            "fullwiki files want the whole Wikipedia (--wiki)."
        )
    _report(panels, folder, corpus, count, notes)
    return 0


def rows(
    tasks: Iterable[Mapping[str, Any]], split: str, kwargs: dict[str, Any], data_source: str
) -> Iterator[dict[str, Any]]:
    """Tasks in verl's row schema."""
    from agentr1_envs.hotpotqa.env import HotpotQAEnv

    system = HotpotQAEnv().system_prompt
    for index, task in enumerate(tasks):
        yield verl_row(
            task,
            env_id=ENV_ID,
            split=split,
            index=index,
            data_source=data_source,
            prompt=[
                {"role": "system", "content": system},
                {"role": "user", "content": f"Question: {task['question']}"},
            ],
            ground_truth=task["answer"],
            kwargs=kwargs,
        )


Panels = dict[str, list[dict[str, Any]]]


def _embedded() -> tuple[Panels, list[dict[str, Any]]]:
    from agentr1_envs.hotpotqa.generator import questions, world

    articles = [
        {"id": row["id"], "title": row["title"], "text": row["text"]} for row in world().articles
    ]
    return {split: questions(split) for split in SPLITS}, articles


def _official(args: argparse.Namespace) -> tuple[Panels, list[dict[str, Any]], int]:
    panels: Panels = {}
    data = official.Dataset()
    for path in args.input:
        before = len(data.tasks)
        with ProgressBar(f"Reading {Path(path).name}") as bar:
            official.read(path, aliases=args.aliases, into=data, limit=args.limit, tick=bar.advance)
        split = args.split or split_of_file(path, "validation")
        panels.setdefault(split, []).extend(data.tasks[before:])
    for split in [split for split, tasks in panels.items() if not tasks]:
        raise TaskDataError(
            ", ".join(args.input), f"at least one answerable question for {split}", value=[]
        )
    return panels, data.paragraphs, data.skipped


def _write_corpus(path: Path, passages: Iterator[Mapping[str, Any]], total: int | None) -> int:
    count = 0
    with ProgressBar("Writing the corpus", total) as bar, atomic_write(path, "w") as handle:
        for row in passages:
            handle.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
            bar.advance()
    return count


def _wiki(path: str) -> Iterator[dict[str, Any]]:
    """The paragraphs of HotpotQA's processed Wikipedia: JSON lines in bzip2 files."""
    found = False
    for name, handle in _wiki_files(Path(path)):
        for number, line in enumerate(handle):
            try:
                row = json.loads(line)
                title = official.clean(row["title"])
                text = " ".join(s for part in _sentences(row["text"]) if (s := part.strip()))
            except (ValueError, KeyError, TypeError, AttributeError):
                raise TaskDataError(
                    name, 'an object {"title", "text": [sentences]}', number, value=line[:80]
                ) from None
            if not text:
                continue
            found = True
            # Wikipedia's page numbers: unique without remembering five million titles.
            yield {"id": str(row["id"]), "title": title, "text": official.clean(text)}
    if not found:
        raise TaskDataError(path, "a .tar.bz2 or a folder that holds wiki_*.bz2 files")


def _sentences(text: Any) -> list[str]:
    """Sentences of an abstract: a list, or (in the full text form) a list of paragraphs."""
    if isinstance(text, str):
        return [text]
    return [part for item in text for part in (item if isinstance(item, list) else [item])]


def _wiki_files(path: Path) -> Iterator[tuple[str, Iterable[bytes]]]:
    if path.is_dir():
        for file in sorted(path.rglob("*.bz2")):
            with bz2.open(file) as handle:
                yield str(file), handle
        return
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and member.name.endswith(".bz2"):
                    packed: IO[bytes] | None = archive.extractfile(member)
                    assert packed is not None
                    with bz2.open(packed) as handle:
                        yield f"{path}:{member.name}", handle
    except tarfile.TarError as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise TaskDataError(str(path), f"a tar archive of .bz2 files ({reason})") from None


def _missing(panels: Panels, paragraphs: list[dict[str, Any]]) -> int:
    """How many questions have a supporting fact in an article that the corpus lacks."""
    titles = {row["title"] for row in paragraphs}
    return sum(
        any(fact["title"] not in titles for fact in task["supporting_facts"])
        for tasks in panels.values()
        for task in tasks
    )


def _report(panels: Panels, folder: Path, corpus: Path, count: int, notes: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("file", "rows")
    for split, tasks in panels.items():
        table.add_row(str(folder / f"{split}.parquet"), f"{len(tasks):,}")
    table.add_row(str(corpus), f"{count:,}")
    console = Console()
    console.print(table)
    for note in notes:
        console.print(note)
    first = next(iter(panels))
    console.print(
        f'gym.make("{ENV_ID}", tasks="{folder / first}.parquet", corpus="{corpus}")',
        soft_wrap=True,
        highlight=False,
    )
