"""Several retrievers as one, by reciprocal rank fusion."""

from __future__ import annotations

from collections.abc import Sequence

from .base import Passage, Retriever, check_query


class HybridRetriever(Retriever):
    """Fuses rankings: a passage scores the sum of weight / (constant + rank), ranks from 1.

    Source: G. Cormack, C. Clarke, S. Büttcher, "Reciprocal rank fusion outperforms Condorcet and
    individual rank learning methods" (SIGIR 2009). Passages are the same when their ids are; equal
    scores go by id. A retriever that fails makes the search fail.

    Args:
        retrievers: two or more, over one corpus.
        constant: the paper's k.
        depth: how many passages of each ranking are fused (at least the number asked for).
        weights: one weight for each retriever; None weighs all alike.
    """

    def __init__(
        self,
        retrievers: Sequence[Retriever],
        *,
        constant: float = 60.0,
        depth: int = 100,
        weights: Sequence[float] | None = None,
    ) -> None:
        if not retrievers:
            raise ValueError("a hybrid needs at least one retriever")
        weights = [1.0] * len(retrievers) if weights is None else list(weights)
        if len(weights) != len(retrievers):
            raise ValueError(f"{len(retrievers)} retrievers need as many weights: {weights}")
        if constant < 0 or depth < 1 or min(weights) < 0:
            raise ValueError("constant and weights are at least 0, depth at least 1")
        self.retrievers, self.weights = list(retrievers), weights
        self.constant, self.depth = constant, depth

    def search(self, query: str, k: int = 5) -> list[Passage]:
        """The best k passages of the fused ranking."""
        return self.search_batch([query], k)[0]

    def search_batch(self, queries: Sequence[str], k: int = 5) -> list[list[Passage]]:
        """`search` for each query, in order."""
        for query in queries:
            check_query(query, k)
        depth = max(self.depth, k)
        rankings = [one.search_batch(queries, depth) for one in self.retrievers]
        return [self._fuse(lists, k) for lists in zip(*rankings, strict=True)]

    def _fuse(self, lists: Sequence[list[Passage]], k: int) -> list[Passage]:
        scores: dict[str, float] = {}
        passages: dict[str, Passage] = {}
        for weight, ranking in zip(self.weights, lists, strict=True):
            for rank, passage in enumerate(ranking, 1):
                share = weight / (self.constant + rank)
                scores[passage.id] = scores.get(passage.id, 0.0) + share
                if passage.text or passage.id not in passages:
                    passages[passage.id] = passage
        best = sorted(scores, key=lambda id_: (-scores[id_], id_))[:k]
        return [passages[id_]._replace(score=scores[id_]) for id_ in best]
