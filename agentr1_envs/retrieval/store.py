"""How an index lies on disk: a folder of raw arrays and `meta.json`, which is written last.

Nothing is ever unpickled. `meta.json` gives the type and the length of each array, so a truncated
or a foreign file is found when the index is opened, before anything is searched.
"""

from __future__ import annotations

import glob
import json
import mmap
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import TaskDataError
from .analyzer import ANALYZER_VERSION
from .segments import Array

META = "meta.json"
# What an index of each format must say of itself to be read.
FORMATS: dict[str, dict[str, Any]] = {
    "agentr1-bm25": {"version": 1, "analyzer": ANALYZER_VERSION},
    "agentr1-dense": {"version": 1},
}


class ArrayFolder:
    """Arrays as files of a folder that is being written."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
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
        meta = {"format": self.kind, **FORMATS[self.kind], **meta, "arrays": self.arrays}
        text = json.dumps(meta, indent=1, ensure_ascii=False)
        (self.folder / META).write_text(text + "\n", encoding="utf-8")


def read_meta(path: Path, kind: str | None = None) -> dict[str, Any]:
    """The checked meta.json of an index, of the given format or of any.

    Raises:
        TaskDataError: there is no index at the path, or not one this version reads.
    """
    if not path.exists():
        raise TaskDataError(str(path), "a search index; there is no such file or folder")
    if not path.is_dir():
        raise TaskDataError(str(path), "the folder of a search index, not a file")
    meta_path = path / META
    try:
        meta = json.loads(meta_path.read_bytes())
    except OSError as error:
        raise TaskDataError(
            str(path), f"a search index, but {META} can't be read ({error.strerror})"
        ) from None
    except (ValueError, RecursionError):
        raise TaskDataError(str(meta_path), "JSON (damaged; build the index again)") from None
    wanted = [kind] if kind else list(FORMATS)
    if not isinstance(meta, dict) or meta.get("format") not in wanted:
        found = meta.get("format") if isinstance(meta, dict) else meta
        raise TaskDataError(str(meta_path), " or ".join(wanted), field="format", value=found)
    for name, value in FORMATS[meta["format"]].items():
        if meta.get(name) != value:
            raise TaskDataError(
                str(meta_path),
                f"{value!r}; build the index again",
                field=name,
                value=meta.get(name),
            )
    return meta


def check_source(path: Path, found: str, wanted: str | None) -> None:
    """Raise TaskDataError for an index of another corpus."""
    if wanted is not None and found != wanted:
        raise TaskDataError(
            str(path), f"an index of the corpus with hash {wanted}", field="source", value=found
        )


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

    The lock is the kernel's: it ends with the process, however that ends. Its file is removed by
    whoever held it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # not on Windows; two builds at once are on the user there
        yield
        return
    lock = path.with_name(path.name + ".lock")
    while True:
        with lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # Its holder removed the file that was waited for, and the name may be another's now.
            if not _is_at(file.fileno(), lock):
                continue
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
            return


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def check_replaceable(path: Path) -> None:
    """Raise TaskDataError if something that is no index would be overwritten."""
    if not path.exists() and not path.is_symlink():
        return
    if not (path / META).is_file() and not (path.is_dir() and not any(path.iterdir())):
        raise TaskDataError(
            str(path), "a new folder or an index to replace; remove it or build elsewhere"
        )


def remove_leftovers(path: Path) -> None:
    """Remove replaced indexes that a build was killed before it could remove."""
    for old in path.parent.glob(f"{glob.escape(path.name)}.old-*"):
        if (old / META).is_file():
            shutil.rmtree(old, ignore_errors=True)


def publish(building: Path, path: Path) -> None:
    """Put a finished folder in its place; what was there before goes afterwards."""
    check_replaceable(path)
    old = None
    if path.exists():
        old = path.with_name(f"{path.name}.old-{os.getpid()}")
        os.rename(path, old)
    os.rename(building, path)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
