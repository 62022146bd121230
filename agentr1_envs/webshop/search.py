"""The shop's search engine: the suite's BM25 index over one document per product."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agentr1_envs.errors import EnvironmentFault, TaskDataError
from agentr1_envs.retrieval.bm25 import Bm25Index


class ProductIndex:
    """A BM25 index whose document numbers are the catalog's rows.

    Args:
        path: Folder of the index.
        source: What `build` gave: the hash of the documents that the index must have.

    Raises:
        EnvironmentFault: The index is missing, damaged or of another catalog.
    """

    def __init__(self, path: Path, source: str) -> None:
        try:
            self._index = Bm25Index.open(path, source=source)
        except TaskDataError as error:
            raise EnvironmentFault(f"the catalog's index can't be used: {error}") from None

    def search(self, query: str, k: int) -> list[int]:
        """Rows of the best `k` products, best first; equal scores in ASIN order."""
        numbers, _ = self._index.top(query, k)
        return numbers.tolist()

    @staticmethod
    def build(
        documents: Iterable[tuple[str, str]], path: Path, *, total: int, workers: int = 1
    ) -> str:
        """Index (ASIN, text) pairs, given in ASIN order, into the folder `path`.

        Returns:
            The hash of the documents.
        """
        # The text is not stored; the ASIN stands in where a product has no text at all.
        rows = ((asin, "", asin, text) for asin, text in documents)
        index = Bm25Index.build(
            rows, path, store_text=False, workers=workers, progress=False, total=total
        )
        return index.source
