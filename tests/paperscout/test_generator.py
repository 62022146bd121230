"""The generated literature: determinism, dates, splits, and what can be reached how."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from functools import lru_cache

import pytest

from agentr1_envs.paperscout.generator import VERSION, Literature, generate
from agentr1_envs.paperscout.questions import MAX_GOLD, MIN_GOLD, SHAPES
from agentr1_envs.paperscout.selector import QUESTION_WORDS
from agentr1_envs.retrieval.analyzer import analyze

SIZE = 3000


@lru_cache(maxsize=1)
def literature() -> Literature:
    return generate(SIZE, 0)


def digest(made: Literature) -> str:
    papers = [(p.id, p.title, p.abstract, p.authors, p.date) for p in made.papers]
    text = json.dumps([papers, made.references, made.questions])
    return hashlib.sha256(text.encode()).hexdigest()


def test_same_everywhere() -> None:
    code = (
        "from tests.paperscout.test_generator import *; import random; random.seed(7); "
        "generate(1500, 3); print(digest(generate(SIZE, 0)))"
    )
    other = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "12345", "PYTHONPATH": ":".join(sys.path)},
    )
    assert other.stdout.strip() == digest(literature())
    # When this changes on purpose, raise generator.VERSION: folders are named by it.
    assert (VERSION, digest(literature())[:16]) == (2, "595d6897b6080434")
    assert digest(generate(1500, 0)) != digest(generate(1500, 1))


def test_papers() -> None:
    made = literature()
    assert len(made.papers) == SIZE
    assert len({p.id for p in made.papers}) == SIZE
    assert [p.row for p in made.papers] == list(range(SIZE))
    dates = [p.date for p in made.papers]
    assert dates == sorted(dates)
    assert all(p.id.startswith(str(p.date)[2:6] + ".") for p in made.papers)
    assert all(p.title and len(p.abstract.split()) > 15 and p.authors for p in made.papers)
    assert len({p.abstract for p in made.papers}) > 0.99 * SIZE


def test_citations_follow_time() -> None:
    made = literature()
    for paper, cited in zip(made.papers, made.references, strict=True):
        assert len(cited) <= 30 and len(set(cited)) == len(cited)
        assert all(made.papers[row].date < paper.date for row in cited)


def test_questions() -> None:
    made = literature()
    dates = {p.id: p.date for p in made.papers}
    shapes = set()
    for split, rows in made.questions.items():
        assert rows
        assert len({row["task_id"] for row in rows}) == len(rows)
        for row in rows:
            assert row["task_id"].startswith(f"paperscout-{split}-")
            assert MIN_GOLD <= len(row["gold"]) <= MAX_GOLD
            assert all(dates[name] < row["cutoff"] for name in row["gold"])
            shapes.add(row["shape"])
    assert shapes == set(SHAPES)


def test_splits_share_no_topic_domain_or_answer() -> None:
    rows = literature().questions
    for part in ("topic", "domain", "gold"):
        values = {
            split: {
                value
                for row in rows[split]
                for value in (row["gold"] if part == "gold" else [row["facts"][part]])
            }
            for split in rows
        }
        assert not values["train"] & values["test"]
        assert not values["train"] & values["validation"]
        assert not values["validation"] & values["test"]


def test_foundations_share_no_word_with_their_questions() -> None:
    """They are reachable through citations only: no content word of the question is in them."""
    made = literature()
    by_id = {p.id: p for p in made.papers}
    asked = [r for rows in made.questions.values() for r in rows if r["shape"] == "foundations"]
    assert len(asked) > 20
    for row in asked:
        words = set(analyze(row["question"])) - QUESTION_WORDS
        for name in row["gold"]:
            shared = words & set(analyze(by_id[name].text))
            assert not shared, (row["question"], by_id[name].text, shared)


def test_some_answers_do_not_use_the_words() -> None:
    made = literature()
    by_id = {p.id: p for p in made.papers}
    hidden = total = 0
    for row in made.questions["train"]:
        if row["shape"] in ("setting", "method"):
            phrase = row["facts"][row["shape"]]
            total += len(row["gold"])
            hidden += sum(phrase.lower() not in by_id[g].text.lower() for g in row["gold"])
    assert 0.2 < hidden / total < 0.7


def test_too_small() -> None:
    with pytest.raises(ValueError, match="at least 1500, got 10"):
        generate(10)
