"""Libraries on this machine: a prepared folder, or the generated literature."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from agentr1_envs.errors import TaskDataError
from agentr1_envs.paperscout.files import atomic_folder, default_cache_dir
from agentr1_envs.paperscout.generator import DEFAULT_SIZE, generate, library_name
from agentr1_envs.paperscout.library import MAX_REFERENCES, PaperLibrary
from agentr1_envs.paperscout.papers import Paper
from agentr1_envs.paperscout.row_search import BM25, documents, open_bm25, row_search
from agentr1_envs.paperscout.store import PaperStore, set_index_source, write_papers
from agentr1_envs.retrieval.bm25 import Bm25Index
from agentr1_envs.task_files import save_rows
from agentr1_envs.task_set import TaskSet, TaskSource

_PAPERS_KEPT = 65_536
LIBRARY = "library"


class LocalLibrary(PaperLibrary):
    """A folder of papers, citations and an index; everything in it is memory-mapped.

    Args:
        folder: made by `agentr1 prepare paperscout`, with the library in its folder ``library``
            and rows of tasks beside it; or a library alone, made by `write_library`.
        retrieval: ``"bm25"``, ``"dense"`` or ``"hybrid"`` (both, by reciprocal rank fusion).
        encoder: the sentence encoder of the dense index (a folder, a package that carries a model,
            or a name in the local hub cache); with it a missing dense index is built.

    Raises:
        TaskDataError: the folder or a file in it is not what it should be.
    """

    name = "local"

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        retrieval: str = "bm25",
        encoder: str | None = None,
    ) -> None:
        self.root = Path(folder)
        inner = self.root / LIBRARY
        self.folder = inner if (inner / "papers.json").is_file() else self.root
        self.store = PaperStore(self.folder)
        self.index = open_bm25(self.store)
        self._search = row_search(self.store, self.index, retrieval, encoder)
        count = len(self.store)
        # A date cut-off allows the first n rows. Any such mask is a view into this one array.
        self._steps = np.zeros(2 * count, np.bool_)
        self._steps[:count] = True
        self._read = lru_cache(maxsize=_PAPERS_KEPT)(self.store.read)
        self._tasks = lru_cache(maxsize=None)(self._load_tasks)

    @property
    def hash(self) -> str:
        return self.store.hash

    def tasks(self, split: str) -> TaskSource | None:
        return self._tasks(split)

    def _load_tasks(self, split: str) -> TaskSource | None:
        for ending in ("parquet", "jsonl"):
            file = self.root / f"{split}.{ending}"
            if file.is_file():
                return TaskSet.from_file(file, split=split)
        return None

    def frequency(self, term: str) -> float | None:
        return self.index.document_frequency(term) / self.index.documents

    def search(self, query: str, k: int = 10, before: int | None = None) -> Sequence[Paper]:
        allow = None
        if before is not None:
            count, first = len(self.store), self.store.rows_before(before)
            allow = self._steps[count - first : 2 * count - first]
        return list(map(self._read, self._search(query, k, allow)))

    def paper(self, identifier: str) -> Paper | None:
        row = self.store.row_of(identifier)
        return None if row < 0 else self._read(row)

    def references(
        self, identifier: str, limit: int = MAX_REFERENCES, before: int | None = None
    ) -> Sequence[Paper]:
        return self._linked(self.store.references, identifier, limit, before)

    def cited_by(
        self, identifier: str, limit: int = MAX_REFERENCES, before: int | None = None
    ) -> Sequence[Paper]:
        return self._linked(self.store.cited_by, identifier, limit, before)

    def _linked(
        self,
        links: Callable[[int, int | None], list[int]],
        identifier: str,
        limit: int,
        before: int | None,
    ) -> list[Paper]:
        row = self.store.row_of(identifier)
        if row < 0:
            return []
        if before is None:
            rows = links(row, limit)
        else:
            end = self.store.rows_before(before)
            rows = [other for other in links(row, None) if other < end][:limit]
        return list(map(self._read, rows))


def write_library(
    folder: Path,
    papers: Sequence[Paper],
    references: Sequence[Sequence[int]],
    *,
    progress: bool = False,
) -> str:
    """Writes papers, citations and the index into an existing folder; returns the hash.

    Args:
        papers: in the order of their dates.
        references: for each paper the positions of those it cites.
        progress: show a progress bar for the index.
    """
    write_papers(folder, papers, references)
    store = PaperStore(folder)
    # Below some ten thousand papers, starting processes costs more than they save.
    index = Bm25Index.build(
        documents(store),
        folder / BM25,
        store_text=False,
        workers=1 if len(papers) < 30_000 else None,
        progress=progress,
        total=len(papers),
        source=str(folder),
    )
    set_index_source(folder, index.source)
    return store.hash


class GeneratedLibrary(LocalLibrary):
    """The generated literature, with its tasks."""

    name = "generated"

    def __init__(self, folder: str | os.PathLike[str], name: str, **options: Any) -> None:
        super().__init__(folder, **options)
        self._name = name

    @property
    def hash(self) -> str:
        return self._name


def generated_library(
    *, size: int = DEFAULT_SIZE, seed: int = 0, cache_dir: str | None = None, **options: Any
) -> GeneratedLibrary:
    """The generated literature, made on first use and then read from the cache folder.

    Args:
        size: papers in all, at least 1500.
        seed: another seed gives another literature.
        cache_dir: where it is kept; None takes ``$AGENTR1_CACHE`` (``~/.cache/agentr1``).
            A folder that cannot be written is replaced by a temporary one.
        **options: ``retrieval`` and ``encoder`` of `LocalLibrary`.
    """
    name = library_name(size, seed)
    root = Path(cache_dir) if cache_dir else default_cache_dir() / "paperscout"
    folder = root / name
    if not _is_whole(folder):
        # Half deleted, or of a disk that was full: it can be made again.
        shutil.rmtree(folder, ignore_errors=True)
        try:
            write_generated(folder, size, seed)
        except OSError:
            if cache_dir:
                raise
            folder = _temporary() / name
            if not folder.is_dir():
                write_generated(folder, size, seed)
    return GeneratedLibrary(folder, name, **options)


def _is_whole(folder: Path) -> bool:
    try:
        open_bm25(PaperStore(folder))
    except (TaskDataError, OSError):
        return False
    return True


@lru_cache(maxsize=1)
def _temporary() -> Path:
    """A folder of this process alone."""
    folder = Path(tempfile.mkdtemp(prefix="agentr1-paperscout-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def write_generated(folder: Path, size: int, seed: int, *, progress: bool = False) -> None:
    """Generates a literature into a folder that appears only when it is whole."""
    literature = generate(size, seed)
    with atomic_folder(folder, keep_existing=True) as made:
        write_library(made, literature.papers, literature.references, progress=progress)
        for split, rows in literature.questions.items():
            save_rows(made / f"{split}.jsonl", rows)
