"""Getting a retriever from what a user names: a corpus file, an index folder or a server."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import TaskDataError
from . import store
from .base import Retriever
from .bm25 import Bm25Index
from .documents import CorpusFile, Row

_SMALL = 20_000  # rows of a corpus that is indexed in memory when its folder can't be written


def default_index(corpus: str | os.PathLike[str]) -> Path:
    """Where the BM25 index of a corpus file is kept: beside it, with `.bm25` added."""
    return Path(f"{os.fspath(corpus)}.bm25")


def is_index_of(index: Path, corpus: Path) -> bool:
    """Whether there is an index at `index` that was built from this very file.

    Size and time of change decide; where only the time differs (a copied file), the content does.

    Raises:
        TaskDataError: what is there is damaged or is no index.
    """
    if not index.exists():
        return False
    recorded = store.read_meta(index, "agentr1-bm25").get("corpus") or {}
    stat = corpus.stat()
    if recorded.get("size") != stat.st_size:
        return False
    if recorded.get("mtime_ns") == stat.st_mtime_ns:
        return True
    with corpus.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
    return bool(recorded.get("hash") == digest.hexdigest())


def build_corpus(
    corpus: str | os.PathLike[str],
    index: str | os.PathLike[str] | None = None,
    *,
    progress: bool = True,
    **options: Any,
) -> Path:
    """Build the BM25 index of a corpus file; returns its folder.

    Args:
        corpus: a JSON-lines file, see `read_corpus`.
        index: the folder to make; None for `default_index`.
        progress: show a progress bar.
        options: k1, b, store_text, workers as for `Bm25Index.build`.
    """
    from .build import build_bm25
    from .scoring import K1, B

    rows = CorpusFile(corpus)
    folder = default_index(corpus) if index is None else Path(index)
    settings = {"k1": K1, "b": B, "store_text": True, "workers": None, **options}
    build_bm25(
        rows,
        folder,
        progress=progress,
        source=str(rows.path),
        total=None,
        corpus=rows.identity,
        **settings,
    )
    return folder


def open_corpus(
    corpus: str | os.PathLike[str],
    index: str | os.PathLike[str] | None = None,
    *,
    progress: bool = True,
    **options: Any,
) -> Bm25Index:
    """The index of a corpus file, shared by all that this process opens; built if need be.

    An index of another corpus, or of an older state of the file, is built anew. Of several
    processes that come here at once, one builds and the others wait for it.

    Raises:
        TaskDataError: the corpus is no corpus, or what lies at `index` is no index.
    """
    file = CorpusFile(corpus).path
    folder = default_index(file) if index is None else Path(index)
    if not is_index_of(folder, file):
        try:
            with store.build_lock(folder.with_name(folder.name + ".check")):
                if not is_index_of(folder, file):  # another process may have built it meanwhile
                    build_corpus(file, folder, progress=progress, **options)
        except PermissionError:
            if os.access(folder.parent, os.W_OK):
                raise
            return _in_memory(file, folder)
    return Bm25Index.open_shared(folder)


def _in_memory(file: Path, folder: Path) -> Bm25Index:
    with file.open("rb") as lines:
        small = sum(1 for _ in lines) <= _SMALL
    if not small:
        raise TaskDataError(
            str(folder), "a folder that can be written; name one for the index, or build it there"
        )
    stat = file.stat()
    return _in_memory_cached(str(file.resolve()), stat.st_size, stat.st_mtime_ns)


@lru_cache(16)
def _in_memory_cached(path: str, size: int, mtime_ns: int) -> Bm25Index:
    rows: Iterator[Row] = iter(CorpusFile(path))
    return Bm25Index.in_memory(rows, source=path)


def open_retriever(where: str | os.PathLike[str], **options: Any) -> Retriever:
    """The retriever at a place.

    Args:
        where: the URL of a server (`http://..`), the folder of an index (BM25 or dense), or a
            corpus file, whose BM25 index is built if need be.
        options: for `RetrievalClient`, `DenseIndex.open` or `open_corpus`.

    Raises:
        TaskDataError: there is nothing there that can be searched.
    """
    name = os.fspath(where)
    if name.startswith(("http://", "https://")):
        from .client import RetrievalClient

        return RetrievalClient(name, **options)
    path = Path(name)
    if path.is_file() and path.suffix in (".jsonl", ".json", ".ndjson"):
        return open_corpus(path, **options)
    if store.read_meta(path)["format"] == "agentr1-dense":
        from .dense import DenseIndex

        return DenseIndex.open(path, **options)
    return Bm25Index.open_shared(path, **options)


def dense_model(where: str | os.PathLike[str]) -> str | None:
    """The encoder that the dense index at a place names; None where no dense index is."""
    path = Path(where)
    if not (path / store.META).is_file():
        return None
    meta = store.read_meta(path)
    return str(meta["model"]) if meta["format"] == "agentr1-dense" else None
