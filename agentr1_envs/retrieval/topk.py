"""Exact top-k over inverted lists, with pruning by score bounds (MaxScore).

Source: H. Turtle and J. Flood, "Query evaluation: strategies and optimizations" (1995), in a
term-at-a-time form that suits arrays: lists of the terms that can matter most are added up; as
soon as the terms left cannot lift an unseen document into the top k, only the documents already
seen are looked up in the lists that remain.
"""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

from .segments import Array, Postings

# A score is cast to 32 bits at the end and ties go by id, so a document whose double-precision
# score is below the k-th by less than one rounding step may still belong to the top k.
_SLACK = 1.0 - 2.0**-21


class Accumulators(threading.local):
    """One zeroed score per document, kept by each thread between queries."""

    scores: npt.NDArray[np.float64] | None = None

    def get(self, documents: int) -> npt.NDArray[np.float64]:
        """The array, all zero; whoever writes to it clears what it wrote."""
        scores = self.scores
        if scores is None or len(scores) != documents:
            scores = self.scores = np.zeros(documents, np.float64)
        return scores


def top_k(
    postings: Postings,
    weights: list[tuple[int, np.float32]],
    k: int,
    *,
    rank: Array | None,
    accumulators: Accumulators,
    allow: npt.NDArray[np.bool_] | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The k best documents for a weighted sum of terms.

    Args:
        postings: the index.
        weights: (term number, weight > 0) pairs, each term once.
        k: how many.
        rank: [documents] place of each document in the order of ids, which breaks ties; None
            when documents are stored in that order.
        accumulators: scratch space of the index.
        allow: [documents] which documents may be returned; None allows all.

    Returns:
        Document numbers and scores, best first; only documents that hold a term of the query.
    """
    bounded = sorted(
        (
            (float(weight * postings.values[postings.top_code[term]]), term, weight)
            for term, weight in weights
        ),
        key=lambda entry: (-entry[0], entry[1]),
    )
    # left[i]: the most that the terms from i on can add.
    left = np.cumsum([0.0] + [bound for bound, _, _ in reversed(bounded)])[::-1].tolist()
    scores = accumulators.get(postings.documents)
    seen: list[Array] = []
    threshold = 0.0
    next_term = len(bounded)
    try:
        for i, (_, term, weight) in enumerate(bounded):
            docs, part = _list(postings, term, weight)
            if allow is not None:
                kept = allow[docs]
                docs, part = docs[kept], part[kept]
            total = scores[docs]
            total += part
            scores[docs] = total
            seen.append(docs)
            # The k-th best of one list is a bound only if it can beat what is left.
            if len(docs) >= k and left[0] - left[i + 1] > left[i + 1]:
                threshold = max(threshold, _kth(total, k))
            if threshold * _SLACK > left[i + 1]:
                next_term = i + 1
                break
        floor = threshold * _SLACK - left[next_term]
        parts = [docs[scores[docs] >= floor] for docs in seen] if floor > 0 else seen
        found = parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts or [_NONE]))
        total = scores[found]
    finally:
        for docs in seen:
            scores[docs] = 0.0
    for i in range(next_term, len(bounded)):
        _, term, weight = bounded[i]
        if len(found) > k:
            threshold = max(threshold, _kth(total, k))
            alive = total >= threshold * _SLACK - left[i]
            found, total = found[alive], total[alive]
        start, end = int(postings.starts[term]), int(postings.starts[term + 1])
        place = np.searchsorted(postings.docs[start:end], found)
        np.minimum(place, end - start - 1, out=place)
        place += start
        hit = np.flatnonzero(postings.docs[place] == found)
        total[hit] += postings.values[postings.codes[place[hit]]] * weight
    return _best(found, total.astype(np.float32), k, rank)


_NONE = np.empty(0, np.uint32)


def _list(postings: Postings, term: int, weight: np.float32) -> tuple[Array, Array]:
    start, end = int(postings.starts[term]), int(postings.starts[term + 1])
    docs = postings.docs[start:end]
    # Weigh the few values rather than the many postings.
    return docs, (postings.values * weight)[postings.codes[start:end]]


def _kth(values: Array, k: int) -> float:
    return float(np.partition(values, len(values) - k)[len(values) - k])


def _best(
    docs: Array, scores: npt.NDArray[np.float32], k: int, rank: Array | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    if len(docs) > k:
        kept = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
        docs, scores = docs[kept], scores[kept]
    order = np.lexsort((docs if rank is None else rank[docs], -scores))[:k]
    return docs[order].astype(np.int64), scores[order]
