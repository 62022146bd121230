"""The public GSM8K files as tasks: JSONL, JSON, Parquet, Arrow, or a folder that holds them.

Nothing is downloaded. A folder may be a checkout of the data set (``main/train-*.parquet``), a
snapshot or a folder of the Hugging Face hub's cache (``datasets--openai--gsm8k``, or all of it), a
folder of the `datasets` cache (``gsm8k-train.arrow``), or any folder with ``train*`` and ``test*``
files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentr1_envs.errors import TaskDataError
from agentr1_envs.task_files import iter_rows
from agentr1_envs.task_set import (
    TaskSet,
    TaskSource,
    canonical_split,
    shared_panel,
    task_of_row,
)

from .answer import MARK, extract_answer, parse_number

_ENDINGS = (".parquet", ".arrow", ".jsonl", ".json")
_note = re.compile(r"<<([^<>=]{1,1000})=[^<>]{0,1000}>>")


def load_tasks(tasks: TaskSource | str | os.PathLike[str], *, split: str) -> TaskSource:
    """Tasks from a file or folder, or the given panel itself.

    A row is official (its answer holds ``####``), a task of this environment, or a row in verl's
    form that carries one.

    Raises:
        FileNotFoundError: no such file, or the folder has no file for the split.
        TaskDataError: a file or row is not usable; names file, row, field and value.
        TypeError: neither a path nor a panel.
    """
    if not isinstance(tasks, (str, os.PathLike)):
        if isinstance(tasks, TaskSource):
            return tasks
        raise TypeError(f"tasks must be a path or a TaskSource, got {type(tasks).__name__}")
    path = Path(tasks)
    files = find_files(path, split) if path.is_dir() else [path]

    def rows() -> Iterator[dict[str, Any]]:
        total = 0
        for file in files:
            for number, row in enumerate(_read(file)):
                task = task_of_row(row, str(file), number)
                yield to_task(task, split=split, source=str(file), number=number, index=total)
                total += 1

    key = f"gsm8k/{canonical_split(split)}"
    return shared_panel(files, key, lambda: TaskSet(rows(), split=split, name=str(path)))


def to_task(
    row: dict[str, Any], *, split: str, source: str = "row", number: int = 0, index: int = 0
) -> dict[str, Any]:
    """A row as a task of the environment.

    Args:
        row: An official row (question; answer, ending in ``#### 42``) or a task.
        split: Name of the split, for the task_id.
        source: File named in errors.
        number: Row number in the file, for errors.
        index: Index in the panel, for the task_id.

    Raises:
        TaskDataError: a field is missing or of the wrong form.
    """
    for field in ("question", "answer"):
        if not isinstance(row.get(field), str) or not row[field].strip():
            raise TaskDataError(source, "a non-empty text", number, field, row.get(field))
    task = {key: value for key, value in row.items() if value is not None}
    answer = row["answer"]
    if MARK in answer:
        task["solution"] = answer
        task["answer"] = extract_answer(answer) or ""
        task["calls"] = _note.findall(answer)
    if parse_number(task["answer"]) is None:
        expected = f"one number, alone or after {MARK}"
        raise TaskDataError(source, expected, number, "answer", answer[-80:])
    task.setdefault("task_id", f"gsm8k/{canonical_split(split)}/{index}")
    return task


def find_files(folder: Path, split: str) -> list[Path]:
    """The files of a split in a folder, in order of their names.

    Official GSM8K has "train" and "test" only. Where a folder holds both configurations, "main" is
    taken; where it holds several revisions, the one that ``refs/main`` names, or else the latest.

    Raises:
        FileNotFoundError: there are none; lists what was found.
    """
    split = canonical_split(split)
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in _ENDINGS and path.is_file()
    ]
    named = [path for path in found if split in re.split(r"[^a-z]+", path.stem.lower())]
    if not named:
        seen = ", ".join(str(path.relative_to(folder)) for path in found[:8]) or "no data files"
        hint = "; official GSM8K has the splits train and test" if split == "validation" else ""
        raise FileNotFoundError(
            f"{folder}: expected a file of the split {split!r} "
            f"({', '.join(_ENDINGS)}), found {seen}{hint}"
        )
    # The whole cache of the hub holds other data sets, too.
    ours = [path for path in named if "gsm8k" in str(path.relative_to(folder)).lower()]
    named = ours or named
    main = [path for path in named if "socratic" not in path.relative_to(folder).parts[:-1]]
    main = [path for path in main if "socratic" not in path.name] or main or named
    groups: dict[Path, list[Path]] = {}
    for path in main:
        groups.setdefault(path.parent, []).append(path)
    chosen = groups[_revision(folder, list(groups))]
    # One folder may hold the same rows in two forms: the first form of `_ENDINGS` is enough.
    ending = min((path.suffix.lower() for path in chosen), key=_ENDINGS.index)
    return [path for path in chosen if path.suffix.lower() == ending]


def _revision(folder: Path, parents: list[Path]) -> Path:
    """Which of several folders with files of the split to read."""
    if len(parents) == 1:
        return parents[0]
    for reference in sorted(folder.rglob("refs/main")):
        revision = reference.read_text(encoding="ascii", errors="replace").strip()
        for parent in parents:
            if revision in parent.parts:
                return parent
    return max(parents, key=lambda parent: (parent.stat().st_mtime_ns, str(parent)))


def _read(file: Path) -> Iterator[dict[str, Any]]:
    if file.suffix.lower() != ".arrow":
        yield from iter_rows(file)
        return
    import pyarrow as pa

    try:
        with pa.memory_map(str(file)) as source:
            for batch in pa.ipc.open_stream(source):
                yield from batch.to_pylist()
    except pa.ArrowException as error:
        message = str(error).splitlines()[0]
        raise TaskDataError(str(file), f"a readable Arrow stream ({message})") from None
