"""Selectors: how far a paper meets a query, in [0, 1].

| name    | knows                  | for                                             |
|---------|------------------------|-------------------------------------------------|
| gold    | the task's gold set    | training: exact, but the reward sees the answer |
| lexical | title, abstract        | no model at hand; blind to other wordings       |
| encoder | title, abstract        | a sentence encoder: other wordings, no reasoning|
| llm     | title, abstract        | a served language model: nearest to PaSa's own  |

PaSa's selector is a fine-tuned model that says whether a paper meets the query; a paper counts as
selected from 0.5 on. All of these keep to that scale.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import ClassVar

from agentr1_envs.paperscout.papers import Paper
from agentr1_envs.retrieval.analyzer import TermEncoder, analyze

# Terms by which a question asks, whatever it asks for.
QUESTION_WORDS = frozenset(
    term
    for term in analyze(
        "which what who how find give list name provide show tell me could can would you any some "
        "paper papers work works study studies research article articles publication approach "
        "does do did have has been about using use uses used from"
    )
)


class Selector(ABC):
    """Judges candidates. One object serves all environments of a process and keeps no task."""

    name: ClassVar[str]

    @abstractmethod
    def score(
        self, question: str, papers: Sequence[Paper], gold: frozenset[str]
    ) -> Sequence[float]:
        """Relevance of each paper, in [0, 1].

        Args:
            question: the scholarly query.
            papers: candidates.
            gold: identifiers of the right papers; only `GoldSelector` may look at them.
        """


class LexicalSelector(Selector):
    """How much of the question a paper's title and abstract cover.

    The raw figure is BM25's score of the text for the question, without the normalisation by
    length, divided by the highest that it can reach. A logistic function, fitted on what searches
    find for the training questions of the generated literature, spreads it over [0, 1]: its slope
    is that of the best likelihood, and it is one half where selecting from there on gives the best
    F1 (`python -m benchmarks.paperscout --calibrate` prints both).

    Args:
        frequency: for a term the share of the library's papers that have it, in [0, 1]; without
            it (or where it gives None) all terms weigh alike.
    """

    name = "lexical"
    slope: ClassVar[float] = 13.1
    middle: ClassVar[float] = 0.545
    saturation: ClassVar[float] = 0.4

    def __init__(self, frequency: Callable[[str], float | None] | None = None) -> None:
        self._frequency = frequency
        self._encoder = TermEncoder()
        self._lock = threading.Lock()
        self._weights = lru_cache(maxsize=4096)(self._make_weights)
        self._counts = lru_cache(maxsize=65536)(self._make_counts)

    def _make_weights(self, question: str) -> tuple[tuple[int, float], ...]:
        weights: dict[int, float] = {}
        for term in analyze(question):
            share = self._frequency(term) if self._frequency is not None else None
            if term in QUESTION_WORDS:
                continue
            with self._lock:
                number = self._encoder.number(term)
            weights[number] = 1.0 if share is None else -math.log(max(share, 1e-4)) + 0.1
        total = sum(weights.values()) or 1.0
        return tuple((number, weight / total) for number, weight in weights.items())

    def _make_counts(self, paper: Paper) -> dict[int, float]:
        """For each term of a text its saturated count, in [0, 1)."""
        numbers: list[int] = []
        with self._lock:
            self._encoder.extend(numbers, paper.text)
        counts: dict[int, float] = {}
        for number in numbers:
            counts[number] = counts.get(number, 0.0) + 1.0
        return {number: n / (n + self.saturation) for number, n in counts.items()}

    def raw(self, question: str, papers: Sequence[Paper]) -> list[float]:
        """The share of the question's weight that each text covers, in [0, 1), not calibrated."""
        weights = self._weights(question)
        scores = []
        for paper in papers:
            found = self._counts(paper).get
            scores.append(sum([weight * found(number, 0.0) for number, weight in weights]))
        return scores

    def score(
        self, question: str, papers: Sequence[Paper], gold: frozenset[str] = frozenset()
    ) -> Sequence[float]:
        a, b = self.slope, self.middle
        return [1.0 / (1.0 + math.exp(-a * (raw - b))) for raw in self.raw(question, papers)]


class GoldSelector(Selector):
    """1 for the papers of the gold set; a little for others that share the question's words.

    The others must not vanish: a paper that is no answer can be the one that cites the answers,
    and only papers in the pool can be expanded. Their figure stays below 0.4 and 0.5, where a
    paper counts as right.

    Args:
        lexical: judges the papers outside the gold set.
        partial: the most that such a paper gets; its figure is ``partial`` times the raw lexical
            one.
    """

    name = "gold"

    def __init__(self, lexical: LexicalSelector, *, partial: float = 0.05) -> None:
        if not 0 <= partial < 0.4:
            raise ValueError(f"partial: expected a value in [0, 0.4), got {partial!r}")
        self._lexical, self.partial = lexical, partial

    def score(
        self, question: str, papers: Sequence[Paper], gold: frozenset[str]
    ) -> Sequence[float]:
        raw = self._lexical.raw(question, papers)
        return [
            1.0 if paper.id in gold else self.partial * value
            for paper, value in zip(papers, raw, strict=True)
        ]
