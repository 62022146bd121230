"""How a local library ranks its papers: BM25, dense vectors, or both fused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from agentr1_envs.errors import TaskDataError
from agentr1_envs.paperscout.store import PaperStore
from agentr1_envs.retrieval.base import Document, Passage, Retriever
from agentr1_envs.retrieval.bm25 import Bm25Index

RETRIEVAL = ("bm25", "dense", "hybrid")
BM25, DENSE = "bm25", "dense"

Mask = npt.NDArray[np.bool_]


class RowSearch(Protocol):
    """Rows of the store for a query."""

    def __call__(self, query: str, k: int, allow: Mask | None) -> list[int]:
        """The best ``k`` allowed rows, best first."""
        ...


def documents(store: PaperStore) -> Iterator[Document]:
    """What is indexed, in the order of the rows."""
    for row in range(len(store)):
        paper = store.read(row)
        yield Document(paper.id, "", "", paper.text)


def check_index(store: PaperStore, name: str, index: Any) -> None:
    """Raises TaskDataError when an index is not that of the papers beside it."""
    if index.documents != len(store) or index.source != store.index_source:
        raise TaskDataError(
            str(store.folder / name), f"the index of the papers beside it ({store.index_source})",
            value=index.source,
        )  # fmt: skip


def open_bm25(store: PaperStore) -> Bm25Index:
    """The BM25 index of a folder.

    Raises:
        TaskDataError: it is missing, damaged, or the index of other papers.
    """
    index = Bm25Index.open_shared(store.folder / BM25)
    check_index(store, BM25, index)
    return index


def open_dense(store: PaperStore, encoder: str | None) -> Any:
    """The dense index of a folder; built there when an encoder is named and there is none yet."""
    from agentr1_envs.retrieval.dense import DenseIndex

    folder = store.folder / DENSE
    if not folder.exists():
        if encoder is None:
            raise TaskDataError(str(folder), "a dense index (encoder= builds one)")
        DenseIndex.build(
            documents(store), folder, encoder, store_text=False, total=len(store), source=DENSE
        )
    index = DenseIndex.open(folder, encoder)
    check_index(store, DENSE, index)
    return index


def row_search(
    store: PaperStore, bm25: Bm25Index, retrieval: str, encoder: str | None
) -> RowSearch:
    """The search of a name in `RETRIEVAL`.

    Raises:
        ValueError: another name.
        TaskDataError: an index or an encoder is missing or does not fit.
    """
    if retrieval not in RETRIEVAL:
        raise ValueError(f"retrieval: expected one of {', '.join(RETRIEVAL)}, got {retrieval!r}")
    if retrieval == "bm25":
        return lambda query, k, allow: bm25.top(query, k, allow)[0].tolist()
    dense = open_dense(store, encoder)

    def rows(passages: Sequence[Passage]) -> list[int]:
        return [store.row_of(passage.id) for passage in passages]

    if retrieval == "dense":
        return lambda query, k, allow: rows(dense.search(query, k, allow))

    from agentr1_envs.retrieval.hybrid import HybridRetriever

    def fused(query: str, k: int, allow: Mask | None) -> list[int]:
        return rows(
            HybridRetriever([_Allowed(bm25, allow), _Allowed(dense, allow)]).search(query, k)
        )

    return fused


class _Allowed(Retriever):
    """A retriever that finds some documents only."""

    def __init__(self, index: Any, allow: Mask | None) -> None:
        self._index, self._allow = index, allow

    def search(self, query: str, k: int = 5) -> list[Passage]:
        """The best k allowed passages."""
        return self._index.search(query, k, self._allow)
