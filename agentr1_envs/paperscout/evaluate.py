"""Scores a file of predictions against a file of queries."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentr1_envs.errors import TaskDataError
from agentr1_envs.paperscout.metrics import (
    Scores,
    at_k,
    at_threshold,
    mean_scores,
    set_scores,
    unique_ids,
)
from agentr1_envs.paperscout.official import to_task
from agentr1_envs.paperscout.papers import base_id
from agentr1_envs.task_files import iter_rows
from agentr1_envs.task_set import TaskSet

RANKS: tuple[int | None, ...] = (25, 50, 100, None)
THRESHOLDS = tuple(round(0.1 * i, 1) for i in range(1, 10))


@dataclass(slots=True)
class Prediction:
    """The answer to one query: papers best first, their scores where given, what was crawled."""

    ranked: list[str]
    scores: dict[str, float] | None = None
    crawled: list[str] | None = None


@dataclass(slots=True)
class Evaluation:
    """Macro averages over the queries.

    Attributes:
        queries: number of gold queries; one without a prediction counts with zeros.
        missing: how many had no prediction.
        at_k: rank (``"25"``, .., ``"all"``) to scores.
        at_threshold: threshold to scores; empty when the predictions have no scores.
        crawler_recall: mean recall of everything crawled; None when no prediction says it.
    """

    queries: int
    missing: int
    at_k: dict[str, Scores]
    at_threshold: dict[str, Scores]
    crawler_recall: float | None

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def read_gold(path: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """Tasks by identifier, from official rows (JSONL) or prepared ones (Parquet)."""
    source = str(path)

    def convert(row: dict[str, Any], number: int) -> dict[str, Any]:
        task = to_task(row, number, source)
        gold = task.get("gold")
        if not isinstance(gold, list) or not gold or not all(isinstance(g, str) for g in gold):
            raise TaskDataError(source, "a list of identifiers", number, "gold", gold)
        return task

    tasks = TaskSet.from_file(path, convert=convert)
    return {task["task_id"]: task for task in (tasks[i] for i in range(len(tasks)))}


def read_predictions(
    path: str | os.PathLike[str], gold: Mapping[str, Mapping[str, Any]]
) -> dict[str, Prediction]:
    """Predictions by task identifier.

    A row has ``qid`` (or ``task_id``, or the ``question``) and ``predictions`` (or ``papers`` or
    ``answer_arxiv_id``): identifiers best first, objects ``{"id", "score"}``, or one object of
    identifier to score. ``crawled`` may list everything that was seen.

    Raises:
        TaskDataError: a row for no known query, a second row for one, or papers of another form.
    """
    source = str(path)
    by_question: dict[str, str] = {}
    for task_id, task in gold.items():
        by_question.setdefault(" ".join(str(task.get("question", "")).split()), task_id)
    found: dict[str, Prediction] = {}
    for number, row in enumerate(iter_rows(path)):
        task_id = _task_id(row, gold, by_question, number, source)
        if task_id in found:
            raise TaskDataError(source, "one row a query", number, "qid", task_id)
        field = next((f for f in ("predictions", "papers", "answer_arxiv_id") if f in row), None)
        if field is None:
            raise TaskDataError(source, "a field predictions", number, value=sorted(row))
        ranked, scores = _papers(row[field], number, field, source)
        crawled = row.get("crawled")
        if crawled is not None:
            crawled, _ = _papers(crawled, number, "crawled", source)
        found[task_id] = Prediction(ranked, scores, crawled)
    return found


def _task_id(
    row: Mapping[str, Any],
    gold: Mapping[str, Any],
    by_question: Mapping[str, str],
    number: int,
    source: str,
) -> str:
    for field in ("qid", "task_id"):
        if row.get(field) is not None:
            name = str(row[field])
            if name not in gold:
                raise TaskDataError(source, "a query of the gold file", number, field, name)
            return name
    question = row.get("question")
    if question is None:
        raise TaskDataError(source, "qid, task_id or question", number, value=sorted(row))
    known = by_question.get(" ".join(str(question).split()))
    if known is None:
        raise TaskDataError(source, "a question of the gold file", number, "question", question)
    return known


def _papers(
    value: Any, number: int, field: str, source: str
) -> tuple[list[str], dict[str, float] | None]:
    """Identifiers best first, and their scores if every paper has one."""
    if isinstance(value, Mapping):
        value = [{"id": name, "score": score} for name, score in value.items()]
    if not isinstance(value, list):
        raise TaskDataError(source, "a list of papers", number, field, value)
    names: list[str] = []
    scores: dict[str, float] = {}
    for place, entry in enumerate(value):
        where = f"{field}[{place}]"
        score = None
        if isinstance(entry, Mapping):
            score, entry = entry.get("score"), entry.get("id", entry.get("arxiv_id"))
        if not isinstance(entry, str) or not base_id(entry):
            raise TaskDataError(source, "an identifier", number, where, entry)
        name = base_id(entry)
        names.append(name)
        if score is not None:
            if isinstance(score, bool) or not isinstance(score, int | float):
                raise TaskDataError(source, "a number", number, f"{where}.score", score)
            if not abs(score) <= sys.float_info.max:  # a NaN, or more than a float can hold
                raise TaskDataError(source, "a finite number", number, f"{where}.score", score)
            scores[name] = max(scores.get(name, -math.inf), float(score))
    ranked = unique_ids(names)
    if len(scores) < len(ranked):
        if scores:
            raise TaskDataError(source, "a score for every paper, or for none", number, field)
        return ranked, None if ranked else {}
    ranked.sort(key=lambda name: -scores[name])
    return ranked, scores


def evaluate(
    predictions: Mapping[str, Prediction],
    gold: Mapping[str, Mapping[str, Any]],
    ranks: Sequence[int | None] = RANKS,
    thresholds: Sequence[float] = THRESHOLDS,
) -> Evaluation:
    """The figures of a set of predictions."""
    empty = Prediction([], {})
    answers = [(predictions.get(name, empty), task["gold"]) for name, task in gold.items()]
    by_rank = {
        "all" if k is None else str(k): mean_scores([at_k(p.ranked, g, k) for p, g in answers])
        for k in ranks
    }
    scored = any(p.scores for p, _ in answers) and all(p.scores is not None for p, _ in answers)
    by_threshold = (
        {
            f"{t:g}": mean_scores([at_threshold(p.scores or {}, g, t) for p, g in answers])
            for t in thresholds
        }
        if scored
        else {}
    )
    crawled = None
    if any(p.crawled is not None for p, _ in answers):
        recalls = [
            set_scores(p.ranked if p.crawled is None else p.crawled, g).recall for p, g in answers
        ]
        crawled = sum(recalls) / len(recalls)
    missing = sum(name not in predictions for name in gold)
    return Evaluation(len(gold), missing, by_rank, by_threshold, crawled)
