"""Answer and supporting-fact scores of HotpotQA, by the definition of its official evaluation.

Source: Yang et al., "HotpotQA: A Dataset for Diverse, Explainable Multi-hop Question Answering"
(EMNLP 2018), whose answer normalisation is that of SQuAD (Rajpurkar et al., 2016).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
# An answer of one of these kinds is right or wrong as a whole: sharing a word earns nothing.
_CLOSED = frozenset({"yes", "no", "noanswer"})


class AnswerScore(NamedTuple):
    """em: equal after normalising; f1, precision, recall: of the words, in [0, 1]."""

    em: bool
    f1: float
    precision: float
    recall: float


class SupportScore(NamedTuple):
    """Scores of a set of predicted supporting facts against the gold set, all in [0, 1]."""

    em: float
    f1: float
    precision: float
    recall: float


@lru_cache(maxsize=65536)
def normalize_answer(text: str) -> str:
    """Lower-case, drop ASCII punctuation, the articles a/an/the and surplus white space."""
    text = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(prediction: str, gold: str) -> bool:
    """Whether both are equal after :func:`normalize_answer`."""
    return normalize_answer(prediction) == normalize_answer(gold)


def score_answer(prediction: str, gold: str) -> AnswerScore:
    """Exact match and word F1 of one prediction against one gold answer.

    F1 is 0 when either side is yes, no or noanswer and the other differs. Two answers that
    normalise to nothing match exactly and have F1 0, as in the official evaluation.
    """
    guess, truth = normalize_answer(prediction), normalize_answer(gold)
    em = guess == truth
    nothing = AnswerScore(em, 0.0, 0.0, 0.0)
    if not em and (guess in _CLOSED or truth in _CLOSED):
        return nothing
    guess_words, truth_words = guess.split(), truth.split()
    common = sum((Counter(guess_words) & Counter(truth_words)).values())
    if common == 0:
        return nothing
    precision = common / len(guess_words)
    recall = common / len(truth_words)
    return AnswerScore(em, 2 * precision * recall / (precision + recall), precision, recall)


def best_score(prediction: str, golds: Sequence[str]) -> AnswerScore:
    """The score against the gold answer (or alias) that the prediction is closest to.

    Raises:
        ValueError: when ``golds`` is empty.
    """
    if not golds:
        raise ValueError("best_score needs at least one gold answer")
    return max(
        (score_answer(prediction, gold) for gold in golds), key=lambda score: (score.em, score.f1)
    )


def score_support(
    predicted: Iterable[Sequence[object]], gold: Iterable[Sequence[object]]
) -> SupportScore:
    """Scores of predicted ``(title, sentence index)`` pairs; duplicates count once."""
    guess = {tuple(fact) for fact in predicted}
    truth = {tuple(fact) for fact in gold}
    hits = len(guess & truth)
    precision = hits / len(guess) if guess else 0.0
    recall = hits / len(truth) if truth else 0.0
    f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
    return SupportScore(float(guess == truth), f1, precision, recall)
