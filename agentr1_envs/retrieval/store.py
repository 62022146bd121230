"""How an index lies on disk: a folder of raw arrays and `meta.json`, which is written last.

Nothing is ever unpickled. `meta.json` gives the type and the length of each array, so a truncated
or a foreign file is found when the index is opened, before anything is searched.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import EnvironmentFault, TaskDataError
from .analyzer import ANALYZER_VERSION
from .segments import Array

FORMAT = "agentr1-bm25"
VERSION = 1
META = "meta.json"


class ArrayFolder:
    """Arrays as files of a folder that is being written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.arrays: dict[str, list[Any]] = {}

    def path(self, name: str) -> Path:
        """The file of an array."""
        return self.folder / f"{name}.bin"

    def allocate(self, name: str, kind: Any, size: int) -> Array:
        """A mapped array of zeros, on disk as it is filled."""
        kind = np.dtype(kind)
        self.arrays[name] = [kind.name, size]
        with self.path(name).open("w+b") as file:
            if not size:
                return np.empty(0, kind)
            file.truncate(size * kind.itemsize)
            return np.frombuffer(mmap.mmap(file.fileno(), 0), kind)

    def write(self, name: str, array: Array) -> None:
        """Write a whole array."""
        self.arrays[name] = [array.dtype.name, len(array)]
        array.tofile(self.path(name))

    def finish(self, meta: dict[str, Any]) -> None:
        """Write meta.json, which makes the folder an index."""
        meta = {"format": FORMAT, "version": VERSION, "analyzer": ANALYZER_VERSION, **meta}
        meta["arrays"] = self.arrays
        text = json.dumps(meta, indent=1, ensure_ascii=False)
        (self.folder / META).write_text(text + "\n", encoding="utf-8")


def read_meta(path: Path) -> dict[str, Any]:
    """The checked meta.json of an index.

    Raises:
        TaskDataError: there is no index at the path, or not one this version reads.
    """
    if not path.exists():
        raise TaskDataError(str(path), "a BM25 index; there is no such file or folder")
    if not path.is_dir():
        raise TaskDataError(str(path), "the folder of a BM25 index, not a file")
    meta_path = path / META
    try:
        meta = json.loads(meta_path.read_bytes())
    except OSError as error:
        raise TaskDataError(str(path), f"a BM25 index ({META} can't be read: {error})") from None
    except (ValueError, RecursionError):
        raise TaskDataError(str(meta_path), "JSON; build the index again") from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise TaskDataError(str(meta_path), f"format {FORMAT!r}")
    for name, wanted in (("version", VERSION), ("analyzer", ANALYZER_VERSION)):
        if meta.get(name) != wanted:
            raise TaskDataError(
                str(meta_path),
                f"{wanted!r}; build the index again",
                field=name,
                value=meta.get(name),
            )
    return meta


def open_arrays(path: Path, meta: dict[str, Any]) -> dict[str, Array]:
    """Map the arrays of an index.

    Raises:
        TaskDataError: a file is missing or has not the size that meta.json gives.
    """
    arrays: dict[str, Array] = {}
    for name, (kind_name, size) in meta["arrays"].items():
        file, kind = path / f"{name}.bin", np.dtype(kind_name)
        try:
            found = file.stat().st_size
        except OSError:
            raise TaskDataError(str(file), "a file of the index; build the index again") from None
        if found != size * kind.itemsize:
            raise TaskDataError(
                str(file),
                f"{size * kind.itemsize:,} bytes (the index is damaged; build it again)",
                value=found,
            )
        if not size:
            arrays[name] = np.empty(0, kind)
            continue
        with file.open("rb") as handle:
            arrays[name] = np.frombuffer(
                mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ), kind
            )
    return arrays


@contextmanager
def build_lock(path: Path) -> Iterator[None]:
    """Hold the lock of an index that is built; another process that builds it waits.

    The lock is the kernel's: it ends with the process, however that ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(path.name + ".lock")
    with lock.open("w") as file:
        try:
            import fcntl
        except ImportError:  # not on Windows; two builds at once are on the user there
            yield
            return
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def publish(building: Path, path: Path) -> None:
    """Put a finished folder in its place; what was there before goes afterwards."""
    old = None
    if path.exists() or path.is_symlink():
        if not (path / META).is_file() and not (path.is_dir() and not any(path.iterdir())):
            raise EnvironmentFault(
                f"{path} is no BM25 index, so it is not overwritten; remove it or build elsewhere"
            )
        old = path.with_name(f"{path.name}.old-{os.getpid()}")
        os.rename(path, old)
    os.rename(building, path)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
