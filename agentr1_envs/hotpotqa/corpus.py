"""Opens what is searched: the embedded articles, a corpus file and its index, or a server."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentr1_envs.hotpotqa.once import once

if TYPE_CHECKING:
    from agentr1_envs.retrieval import Bm25Index, Passage

_SMALL_CORPUS = 16 << 20  # bytes
RETRIEVERS = ("bm25", "dense", "hybrid")


def check_arguments(corpus: Any, retriever: str, encoder: str | None) -> None:
    """Raise ValueError for arguments that cannot work, before anything is opened."""
    if retriever not in RETRIEVERS:
        raise ValueError(f"retriever must be one of {RETRIEVERS}, got {retriever!r}")
    if encoder is not None and retriever == "bm25":
        raise ValueError("encoder= is for retriever='dense' or 'hybrid'; bm25 has none")
    if retriever != "bm25" and not isinstance(corpus, str):
        raise ValueError(f"retriever={retriever!r} needs corpus=.., the path of a corpus file")
    if corpus is not None and not isinstance(corpus, str) and not hasattr(corpus, "search"):
        raise TypeError(
            "corpus must be a path, an address or an object with search(query, k), got "
            f"{type(corpus).__name__}"
        )


def in_memory(rows: Iterable[Mapping[str, Any]], source: str = "corpus") -> Bm25Index:
    """A BM25 index of some ten thousand rows ``{"id", "title", "text"}``."""
    from agentr1_envs.retrieval import Bm25Index

    triples = ((row["id"], row["title"], row["text"]) for row in rows)
    return Bm25Index.in_memory(triples, source=source)


@once
def embedded() -> Bm25Index:
    """The index of the embedded articles, made once a process and shared by its environments."""
    from agentr1_envs.hotpotqa.generator import world

    return in_memory(world().articles, "hotpotqa world")


def open_corpus(corpus: Any, retriever: str = "bm25", encoder: str | None = None) -> Any:
    """The retriever for a corpus file, a server's address or an object with ``search``.

    Raises:
        FileNotFoundError: there is no such corpus file.
        TaskDataError: the corpus or its index is not as it should be.
        EnvironmentFault: the server does not answer.
    """
    if not isinstance(corpus, str):
        return corpus
    if corpus.startswith(("http://", "https://")):
        from agentr1_envs.retrieval.client import RetrievalClient

        return RetrievalClient(corpus)
    if not os.path.isfile(corpus):
        raise FileNotFoundError(
            f"{corpus}: no such corpus file (`agentr1 prepare hotpotqa --corpus_output_path` "
            "writes one)"
        )
    return open_index(corpus)


def index_path(corpus: str | os.PathLike[str]) -> Path:
    """Where the BM25 index of a corpus file stands: beside it."""
    path = Path(corpus).absolute()
    return path.with_name(f"{path.name}.bm25")


def open_index(corpus: str | os.PathLike[str], *, progress: bool | None = None) -> Bm25Index:
    """The BM25 index of a corpus file, one object a process; built first where it is missing.

    An index that was built from other content (the file was edited or replaced) is built anew.
    Processes that need the same index wait for the one that builds it.

    Args:
        progress: show a bar while building; None shows it in a terminal only.

    Raises:
        TaskDataError: a corpus row has no text or repeats an id, the corpus is empty, or what
            stands in the index's place is none or damaged.
    """
    from agentr1_envs.retrieval import Bm25Index, read_corpus
    from agentr1_envs.retrieval.store import build_lock

    path = index_path(corpus)
    if progress is None:
        progress = sys.stdout.isatty()
    if not _is_current(corpus, path):
        with build_lock(path.with_name(f"{path.name}.corpus")):
            if not _is_current(corpus, path):
                built = Bm25Index.build(
                    read_corpus(corpus),
                    path,
                    # Starting processes costs more than a small corpus is worth.
                    workers=1 if os.path.getsize(corpus) < _SMALL_CORPUS else None,
                    progress=progress,
                    source=str(corpus),
                )
                _write_stamp(corpus, path, built.source)
    return Bm25Index.open_shared(path, source=_read_stamp(path).get("index"))


def _stamp_path(index: Path) -> Path:
    return index.with_name(f"{index.name}.json")


def _read_stamp(index: Path) -> dict[str, Any]:
    """What is known of the content that an index was built from; {} where nothing is."""
    try:
        stamp = json.loads(_stamp_path(index).read_bytes())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _write_stamp(corpus: str | os.PathLike[str], index: Path, source: str | None) -> None:
    from agentr1_envs.task_files import atomic_write

    status = os.stat(corpus)
    stamp = {
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "content": _content_hash(corpus),
        "index": source,
    }
    with atomic_write(_stamp_path(index), "w") as handle:
        json.dump(stamp, handle)


def _is_current(corpus: str | os.PathLike[str], index: Path) -> bool:
    """Whether an index of this very content is there; what is no index is left to its opening."""
    if not index.exists():
        return False
    stamp, status = _read_stamp(index), os.stat(corpus)
    if not stamp:
        # Something stands there that was not built here: opening it says what is wrong with it.
        return not index.is_dir()
    if stamp.get("size") != status.st_size:
        return False
    if stamp.get("mtime_ns") == status.st_mtime_ns:
        return True
    # A copied or restored file has another time; only its content tells.
    return stamp.get("content") == _content_hash(corpus)


@lru_cache(maxsize=64)
def _hash_at(path: str, size: int, mtime_ns: int) -> str:
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "blake2b").hexdigest()


def _content_hash(corpus: str | os.PathLike[str]) -> str:
    status = os.stat(corpus)
    return _hash_at(os.path.abspath(corpus), status.st_size, status.st_mtime_ns)


def find_title(retriever: Any, title: str) -> tuple[Passage | None, list[str]]:
    """The passage of exactly this title (letter case aside), else None and similar titles.

    Works with any retriever: an article mentions its own title more than others do.
    """
    wanted = " ".join(title.split()).casefold()
    if not wanted or len(title) > 500:
        return None, []
    found = retriever.search(title, 50)
    for passage in found:
        if passage.title.casefold() == wanted:
            return passage, []
    return None, list(dict.fromkeys(passage.title for passage in found))[:5]
