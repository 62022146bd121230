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
        products: Number of products; the index must have as many.

    Raises:
        EnvironmentFault: The index is missing, damaged or of another catalog.
    """

    def __init__(self, path: Path, products: int) -> None:
        try:
            self._index = Bm25Index.open_shared(path)
        except TaskDataError as error:
            raise EnvironmentFault(f"the catalog's index can't be used: {error}") from None
        if len(self._index) != products:
            raise EnvironmentFault(
                f"the index in {path} has {len(self._index)} documents, the catalog {products}"
            )

    def search(self, query: str, k: int) -> list[int]:
        """Rows of the best `k` products, best first; equal scores in ASIN order."""
        numbers, _ = self._index.top(query, k)
        return numbers.tolist()

    @staticmethod
    def build(
        documents: Iterable[tuple[str, str]], path: Path, *, total: int, workers: int = 1
    ) -> None:
        """Index (ASIN, text) pairs, given in ASIN order, into the folder `path`."""
        # The text is not stored; the ASIN stands in where a product has no text at all.
        rows = ((asin, "", asin, text) for asin, text in documents)
        Bm25Index.build(rows, path, store_text=False, workers=workers, progress=False, total=total)
