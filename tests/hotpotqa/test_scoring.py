"""HotpotQA's official scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentr1_envs.hotpotqa.scoring import (
    best_score,
    exact_match,
    normalize_answer,
    score_answer,
    score_support,
)


def test_equal_to_the_recorded_scores(shared: Path) -> None:
    golden = json.loads((shared / "golden" / "hotpotqa_scores.json").read_text())
    assert len(golden["answers"]) >= 36
    for row in golden["answers"]:
        score = score_answer(row["prediction"], row["gold"])
        wanted = (row["em"], row["f1"], row["precision"], row["recall"])
        assert tuple(score) == pytest.approx(wanted, abs=1e-12), row
    for row in golden["supporting_facts"]:
        support = score_support(row["prediction"], row["gold"])
        wanted = (row["sp_em"], row["sp_f1"], row["sp_prec"], row["sp_recall"])
        assert tuple(support) == pytest.approx(wanted, abs=1e-12), row


def test_an_answer_that_lists_candidates_never_matches() -> None:
    assert not exact_match("Paris, London, Rome", "Paris")
    assert score_answer("Paris, London, Rome", "Paris").f1 == pytest.approx(0.5)
    assert score_answer("yes or no", "yes") == (False, 0.0, 0.0, 0.0)


def test_the_best_of_several_golds_counts() -> None:
    assert best_score("nyc", ["New York City", "NYC"]).em
    # An exact match beats a higher F1: both normalise to nothing here.
    assert best_score("the", ["the x", "a"]).em
    with pytest.raises(ValueError, match="at least one"):
        best_score("x", [])


@pytest.mark.parametrize("text", ["", "the", "\x00", "A" * 100_000, "‘quotes’", "\u2028 a"])
def test_normalising_is_idempotent(text: str) -> None:
    once = normalize_answer(text)
    assert normalize_answer(once) == once
