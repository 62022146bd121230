"""Precision, recall and F1 of a ranked list of papers, by rank and by score.

The protocol is PaSa's (He et al. 2025, "PaSa: An LLM Agent for Comprehensive Academic Paper
Search"): identifiers are compared without their version, a duplicate counts once, at the place of
its best rank; recall of what the crawler saw is kept apart from recall of what was selected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentr1_envs.paperscout.papers import base_id


@dataclass(frozen=True, slots=True)
class Scores:
    """Precision, recall and F1, each in [0, 1]."""

    precision: float
    recall: float
    f1: float


def count_scores(hits: int, predicted: int, gold: int) -> Scores:
    """Scores of ``hits`` right ones among ``predicted``, of ``gold`` wanted.

    An empty prediction has precision 0, an empty gold set recall 0: neither earns anything.
    """
    precision = hits / predicted if predicted else 0.0
    recall = hits / gold if gold else 0.0
    total = precision + recall
    return Scores(precision, recall, 2 * precision * recall / total if total else 0.0)


def unique_ids(identifiers: Iterable[str]) -> list[str]:
    """The identifiers without versions, each once, in the order of first mention."""
    return list(dict.fromkeys(base_id(identifier) for identifier in identifiers))


def set_scores(predicted: Iterable[str], gold: Iterable[str]) -> Scores:
    """Scores of two sets of identifiers."""
    left, right = set(unique_ids(predicted)), set(unique_ids(gold))
    return count_scores(len(left & right), len(left), len(right))


def at_k(ranked: Sequence[str], gold: Iterable[str], k: int | None) -> Scores:
    """Scores of the first ``k`` papers of a ranking (all of them with None)."""
    return set_scores(unique_ids(ranked)[:k], gold)


def at_threshold(scored: dict[str, float], gold: Iterable[str], threshold: float) -> Scores:
    """Scores of the papers whose score is at least ``threshold``."""
    return set_scores((name for name, score in scored.items() if score >= threshold), gold)


def mean_scores(values: Sequence[Scores]) -> Scores:
    """The mean over queries of each figure (macro average), 0 without queries."""
    n = len(values)
    if not n:
        return Scores(0.0, 0.0, 0.0)
    return Scores(
        sum(v.precision for v in values) / n,
        sum(v.recall for v in values) / n,
        sum(v.f1 for v in values) / n,
    )
