"""Task panels: where an environment's tasks come from.

A task is a plain dict of JSON values with a unique ``"task_id"``. A `TaskSource` is a fixed,
hashed, indexable panel of such rows: either rows that exist (`TaskSet`) or rows that a generator
makes when asked (`GeneratedTasks`). Panels make numbers comparable: two runs with equal `hash`
played the same tasks.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from weakref import WeakValueDictionary

from agentr1_envs.errors import TaskDataError
from agentr1_envs.task_files import iter_rows, save_rows

SPLIT_ALIASES: dict[str, str] = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "eval": "validation",
    "valid_seen": "validation",
    "eval_in_distribution": "validation",
    "test": "test",
    "valid_unseen": "test",
    "eval_out_of_distribution": "test",
}


def canonical_split(name: str) -> str:
    """``"train"``, ``"validation"`` or ``"test"`` for `name` or one of its aliases."""
    try:
        return SPLIT_ALIASES[name]
    except (KeyError, TypeError):
        known = ", ".join(SPLIT_ALIASES)
        raise ValueError(f"unknown split {name!r}: expected one of {known}") from None


def split_of_file(path: str | os.PathLike[str], default: str | None = None) -> str:
    """The split that a file's name says, such as ``train-00000-of-00002.parquet``.

    Raises:
        TaskDataError: It says none and there is no `default`.
    """
    for word in re.split(r"[^a-z]+", Path(path).name.lower()):
        if word in SPLIT_ALIASES:
            return canonical_split(word)
    if default is None:
        raise TaskDataError(str(path), "a name that says train, validation or test, or --split")
    return default


def copy_json(value: Any) -> Any:
    """A copy of a JSON value that shares nothing mutable with it (faster than deepcopy)."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copy_json(item) for item in value]
    return value


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no white space: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@runtime_checkable
class TaskSource(Protocol):
    """A fixed panel of tasks."""

    split: str

    @property
    def hash(self) -> str:
        """Hexadecimal digest of the panel's content."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> dict[str, Any]: ...

    def index(self, task_id: str) -> int:
        """The position of a task; `KeyError` when it is not in the panel."""
        ...


class TaskSet:
    """Tasks held in memory, in a fixed order.

    Args:
        rows: Task rows, each with a unique str ``"task_id"``.
        split: Name of the split, or an alias of it.
        name: Where the rows came from; named in errors.

    Raises:
        TaskDataError: A row is no dict, has no task_id, or repeats one; or there is no row at all.
    """

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        split: str = "train",
        name: str = "task set",
    ) -> None:
        self.split, self.name = canonical_split(split), name
        self._rows: list[dict[str, Any]] = []
        self._index: dict[str, int] = {}
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise TaskDataError(name, "an object with a task_id", number, value=row)
            task_id = row.get("task_id")
            if not isinstance(task_id, str) or not task_id:
                raise TaskDataError(name, "a non-empty str", number, "task_id", task_id)
            if task_id in self._index:
                first = self._index[task_id]
                raise TaskDataError(
                    name, f"unique values (row {first} has it too)", number, "task_id", task_id
                )
            self._index[task_id] = number
            self._rows.append(copy_json(dict(row)))
        if not self._rows:
            raise TaskDataError(name, "at least one task", value=[])
        self._hash: str | None = None

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        split: str = "train",
        convert: Callable[[dict[str, Any], int], dict[str, Any]] | None = None,
    ) -> TaskSet:
        """Tasks from a JSONL, JSON or Parquet file.

        A row in verl's form (an ``env_kwargs`` column) carries its task in
        ``env_kwargs["options"]["task"]``; any other row is the task itself. `convert` turns an
        official row into a task and may raise `TaskDataError`.

        Raises:
            FileNotFoundError: There is no such file.
            TaskDataError: The file or a row of it can't be used.
        """
        source = str(path)

        def rows() -> Iterable[dict[str, Any]]:
            for number, row in enumerate(iter_rows(path)):
                task = task_of_row(row, source, number)
                yield convert(task, number) if convert else task

        return cls(rows(), split=split, name=source)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tasks as JSONL or Parquet, by the file's ending; atomic."""
        if Path(path).suffix.lower() == ".parquet":
            # Arrow columns would change rows whose nested values differ in shape; JSON keeps them.
            packed = [
                {"task_id": row["task_id"], "task": json.dumps(row, ensure_ascii=False)}
                for row in self._rows
            ]
            save_rows(path, packed)
        else:
            save_rows(path, self._rows)

    @property
    def hash(self) -> str:
        """SHA-256 over the rows' canonical JSON, in order."""
        if self._hash is None:
            digest = hashlib.sha256()
            for row in self._rows:
                digest.update(canonical_json(row).encode("utf-8", "surrogatepass") + b"\n")
            self._hash = digest.hexdigest()
        return self._hash

    def index(self, task_id: str) -> int:
        """The position of a task; `KeyError` when it is not in the panel."""
        return self._index[task_id]

    def subset(self, indices: Sequence[int]) -> TaskSet:
        """The tasks at `indices`, in that order."""
        return TaskSet((self._rows[i] for i in indices), split=self.split, name=self.name)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return copy_json(self._rows[index])

    def __repr__(self) -> str:
        return f"TaskSet({len(self)} tasks, split={self.split!r}, name={self.name!r})"


class GeneratedTasks:
    """Tasks that a generator makes when they are asked for; the same index, the same task.

    Args:
        make: ``make(index)`` gives the row of task `index`; a pure function.
        size: Number of tasks.
        split: Name of the split.
        key: Names the generator, its version and its parameters. The ids are ``key/split/index``
            and `hash` is made from key, split and size, so change the key when the tasks change.
        cache: How many rows are kept.
    """

    def __init__(
        self,
        make: Callable[[int], dict[str, Any]],
        *,
        size: int,
        split: str,
        key: str,
        cache: int = 1024,
    ) -> None:
        self._make, self._size, self.split, self.key = make, size, canonical_split(split), key
        self._cache: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._cache_size = cache
        self._prefix = f"{key}/{self.split}/"

    @property
    def hash(self) -> str:
        """SHA-256 over key, split and size."""
        return hashlib.sha256(f"{self._prefix}{self._size}".encode()).hexdigest()

    def index(self, task_id: str) -> int:
        """The position of a task; `KeyError` when it is not in the panel."""
        digits = task_id.removeprefix(self._prefix)
        if digits == task_id or not (digits.isascii() and digits.isdigit()):
            raise KeyError(task_id)
        if digits != str(int(digits)) or int(digits) >= self._size:
            raise KeyError(task_id)
        return int(digits)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> dict[str, Any]:
        index = index + self._size if index < 0 else index
        if not 0 <= index < self._size:
            raise IndexError(f"task index {index} is outside 0..{self._size - 1}")
        row = self._cache.get(index)
        if row is None:
            row = {**self._make(index), "task_id": f"{self._prefix}{index}"}
            self._cache[index] = row
            if len(self._cache) > self._cache_size:
                with contextlib.suppress(KeyError):  # another thread emptied it first
                    self._cache.popitem(last=False)
        return copy_json(row)

    def __repr__(self) -> str:
        return f"GeneratedTasks({self._size} tasks, split={self.split!r}, key={self.key!r})"


def task_of_row(row: dict[str, Any], source: str, number: int) -> dict[str, Any]:
    """The task inside a row in verl's form or in `TaskSet.save`'s, or the row itself."""
    if row.keys() == {"task_id", "task"} and isinstance(row["task"], str):
        return _parse(row["task"], source, number, "task")
    if "env_kwargs" not in row:
        return row
    spec = row["env_kwargs"]
    if isinstance(spec, str):
        spec = _parse(spec, source, number, "env_kwargs")
    options = spec.get("options") if isinstance(spec, dict) else None
    task = options.get("task") if isinstance(options, dict) else None
    if not isinstance(task, dict):
        raise TaskDataError(source, "an object", number, "env_kwargs.options.task", task)
    return task


def _parse(text: str, source: str, number: int, field: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise TaskDataError(source, f"JSON ({error.msg})", number, field, text) from None


_panels: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()
_panels_lock = threading.Lock()


def shared_panel(
    files: Sequence[str | os.PathLike[str]], key: str, make: Callable[[], TaskSource]
) -> TaskSource:
    """The panel that `make` reads from `files`, read once for all environments of the process.

    A thousand environments on one file would otherwise hold it a thousand times. A panel gives
    copies of its rows, so sharing it is safe; it is dropped with its last user, and read anew when
    a file has changed.

    Args:
        files: What `make` reads.
        key: Tells apart different readings of the same files (reader, split).
        make: Reads the panel.
    """
    stamps = []
    for file in files:
        try:
            status = os.stat(file)
        except OSError:
            return make()  # which says what is wrong
        stamps.append((os.path.realpath(file), status.st_mtime_ns, status.st_size, status.st_ino))
    name = (key, *stamps)
    with _panels_lock:
        panel = _panels.get(name)
        if panel is None:
            panel = _panels[name] = make()
        return panel


def load_tasks(tasks: TaskSource | str | os.PathLike[str], *, split: str) -> TaskSource:
    """A panel from a file's path (read once per process), or the panel itself."""
    if isinstance(tasks, (str, Path, os.PathLike)):
        key = f"tasks/{canonical_split(split)}"
        return shared_panel([tasks], key, lambda: TaskSet.from_file(tasks, split=split))
    if isinstance(tasks, TaskSource):
        return tasks
    raise TypeError(f"tasks must be a path or a TaskSource, got {type(tasks).__name__}")
