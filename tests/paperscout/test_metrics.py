"""Identifiers, dates, the process reward, ranking metrics and `agentr1 eval-papers`."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentr1_envs.errors import TaskDataError
from agentr1_envs.paperscout.evaluate import evaluate, read_gold, read_predictions
from agentr1_envs.paperscout.metrics import at_k, at_threshold, count_scores, set_scores
from agentr1_envs.paperscout.papers import base_id, cut_words, date_from_id, parse_date
from agentr1_envs.paperscout.reward import RewardRule
from agentr1_train.cli.main import main


@pytest.mark.parametrize(
    ("given_id", "expected"),
    [
        ("1706.05350v1", "1706.05350"),
        ("1706.05350", "1706.05350"),
        ("arXiv:2106.01345v12", "2106.01345"),
        ("https://arxiv.org/abs/2106.01345v2", "2106.01345"),
        ("http://arxiv.org/pdf/2106.01345v2.pdf", "2106.01345"),
        ("math.GT/0309136v1", "math/0309136"),
        ("hep-th/9901001", "hep-th/9901001"),
        (" 2106.01345 ", "2106.01345"),
        ("", ""),
    ],
)
def test_base_id(given_id: str, expected: str) -> None:
    assert base_id(given_id) == expected
    assert base_id(expected) == expected


def test_dates() -> None:
    for value in (20230325, "20230325", "2023-03-25", "2023-03-25T01:02:03Z", "2023/03/25"):
        assert parse_date(value) == 20230325
    assert parse_date(datetime.date(2023, 3, 25)) == 20230325
    assert parse_date("2023") == 20230101 and parse_date("2023-04") == 20230401
    for bad in ("", "soon", "2023-13-01", "2023-00-10", None, True, 1.5, "20230399"):
        assert parse_date(bad) is None
    assert date_from_id("2106.01345v2") == 20210601
    assert date_from_id("math/0309136") == 20030901
    assert date_from_id("hep-th/9901001") == 19990101
    assert date_from_id("2113.00001") is None and date_from_id("S2:abc") is None


def test_cut_words() -> None:
    assert cut_words("a  b\nc", 3) == "a b c"
    assert cut_words("a b c d", 3) == "a b c ..."
    assert cut_words("", 3) == ""


def test_reward_as_the_facts_say() -> None:
    rule = RewardRule()
    assert rule.call("search", [0.9, 0.8, 0.7, 0.6]) == pytest.approx(2.4 - 0.1)
    assert rule.call("expand", [0.9]) == pytest.approx(0.9 - 0.05)
    assert rule.call("search", [0.009, 0.0]) == 0.0
    assert rule.call("search", []) == 0.0
    assert rule.call("search", [0.01]) == pytest.approx(0.01 - 0.1)
    assert rule.invalid == -0.5
    discrete = RewardRule(discrete=True)
    assert discrete.call("search", [0.4, 0.39, 1.0, 0.9, 0.8]) == pytest.approx(3 - 0.1)
    assert discrete.call("expand", [0.39]) == pytest.approx(-0.05)
    assert RewardRule(top=1, search_cost=0.0).call("search", [0.2, 0.6]) == 0.6
    with pytest.raises(ValueError, match="top"):
        RewardRule(top=0)


@given(st.lists(st.floats(0, 1), max_size=12), st.booleans())
def test_reward_bounds_and_order(values: list[float], discrete: bool) -> None:
    rule = RewardRule(discrete=discrete)
    reward = rule.call("search", values)
    assert -0.1 <= reward <= 3 - 0.1
    assert reward == rule.call("search", list(reversed(values)))


def test_scores() -> None:
    assert count_scores(0, 0, 3) == count_scores(0, 0, 0)
    assert set_scores(["1.1v1", "1.1v2", "2.2"], ["1.1"]).precision == 0.5
    ranked = ["9", "1v2", "1", "8", "2"]
    assert at_k(ranked, ["1", "2"], 2).recall == 0.5
    assert at_k(ranked, ["1", "2"], None).recall == 1.0
    assert at_k(ranked, ["1", "2"], None).precision == 0.5
    assert at_threshold({"1": 0.5, "2": 0.49}, ["1", "2"], 0.5).recall == 0.5


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


GOLD = [
    {"qid": "q0", "question": "A?", "answer_arxiv_id": ["1001.00001v2", "1001.00002"]},
    {"qid": "q1", "question": "B?", "answer_arxiv_id": ["1001.00003"]},
]


def figures(tmp_path: Path, rows: list[dict[str, Any]]) -> Any:
    gold = read_gold(jsonl(tmp_path / "gold.jsonl", GOLD))
    return evaluate(read_predictions(jsonl(tmp_path / "p.jsonl", rows), gold), gold)


def test_evaluate_perfect_empty_duplicated_half(tmp_path: Path) -> None:
    perfect = [
        {"qid": "q0", "predictions": ["1001.00001", "1001.00002v3"]},
        {"qid": "q1", "predictions": ["arXiv:1001.00003"]},
    ]
    result = figures(tmp_path, perfect)
    assert all(s == count_scores(1, 1, 1) for s in result.at_k.values())
    assert list(result.at_k) == ["25", "50", "100", "all"] and result.missing == 0
    empty = figures(tmp_path, [{"qid": "q0", "predictions": []}])
    assert empty.missing == 1 and all(s == count_scores(0, 0, 1) for s in empty.at_k.values())
    assert figures(tmp_path, []).missing == 2
    doubled = figures(
        tmp_path,
        [
            {"qid": "q0", "predictions": ["1001.00001"] * 30 + ["1001.00001v7", "1001.00002"]},
            {"qid": "q1", "predictions": ["1001.00003"] * 3},
        ],
    )
    assert doubled.at_k == result.at_k
    half = figures(
        tmp_path,
        [
            {"qid": "q0", "predictions": ["1001.00001", "9999.00001"]},
            {"question": " B? ", "predictions": {"1001.00003": 0.9, "9999.00002": 0.4}},
        ],
    )
    assert half.at_k["all"].precision == 0.5 and half.at_k["all"].recall == 0.75
    assert half.at_k["all"].f1 == pytest.approx((0.5 + 2 / 3) / 2)
    assert half.at_threshold == {}


def test_evaluate_thresholds_and_crawler(tmp_path: Path) -> None:
    rows = [
        {
            "qid": "q0",
            "predictions": [
                {"id": "9999.00001", "score": 0.3},
                {"id": "1001.00001", "score": 0.8},
            ],
            "crawled": ["1001.00001", "1001.00002"],
        },
        {"qid": "q1", "predictions": {}},
    ]
    result = figures(tmp_path, rows)
    assert result.at_threshold["0.3"].precision == 0.25
    assert result.at_threshold["0.5"].precision == 0.5
    assert result.at_threshold["0.9"].precision == 0.0
    assert result.crawler_recall == 0.5


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"qid": "zz", "predictions": []}, "row 0, field 'qid'.*a query of the gold file.*'zz'"),
        ({"predictions": []}, "qid, task_id or question"),
        ({"qid": "q0"}, "a field predictions"),
        ({"qid": "q0", "predictions": "1001.00001"}, "a list of papers"),
        ({"qid": "q0", "predictions": [3]}, r"predictions\[0\].*an identifier, got 3"),
        ({"qid": "q0", "predictions": {"a": "x"}}, r"predictions\[0\]\.score.*a number"),
        ({"qid": "q0", "predictions": [{"id": "a", "score": 1}, "b"]}, "a score for every paper"),
        ({"question": "C?", "predictions": []}, "a question of the gold file"),
    ],
)
def test_bad_predictions(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskDataError, match=message):
        figures(tmp_path, [row])


def test_two_rows_for_a_query(tmp_path: Path) -> None:
    row = {"qid": "q0", "predictions": []}
    with pytest.raises(TaskDataError, match="row 1, field 'qid'.*one row a query"):
        figures(tmp_path, [row, row])


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold = jsonl(tmp_path / "gold.jsonl", GOLD)
    rows = [{"qid": "q0", "predictions": {"1001.00001": 0.9, "9999.00001": 0.2}}]
    found = jsonl(tmp_path / "p.jsonl", rows)
    out = tmp_path / "out.json"
    assert main(["eval-papers", str(found), "--gold", str(gold), "--json", str(out)]) == 0
    text = capsys.readouterr().out
    assert "2 queries, 1 without a prediction" in text and "first 25" in text
    assert json.loads(out.read_text())["at_k"]["all"] == {
        "precision": 0.25,
        "recall": 0.25,
        "f1": 0.25,
    }
    found.write_text("{broken\n")
    assert main(["eval-papers", str(found), "--gold", str(gold)]) == 2
    assert str(found) in capsys.readouterr().err
    assert main(["eval-papers", str(tmp_path / "none.jsonl"), "--gold", str(gold)]) == 2


def test_shared_rows(shared: Path, tmp_path: Path) -> None:
    source = shared / "data/paper_search/autoscholarquery_dev_200.jsonl"
    gold = read_gold(source)
    assert len(gold) == 200
    rows = [json.loads(line) for line in source.read_text().splitlines()]
    perfect = [{"qid": r["qid"], "predictions": r["answer_arxiv_id"]} for r in rows]
    found = read_predictions(jsonl(tmp_path / "p.jsonl", perfect), gold)
    assert evaluate(found, gold).at_k["all"] == count_scores(1, 1, 1)
    doubled = [{**row, "predictions": row["predictions"] * 2} for row in perfect]
    found = read_predictions(jsonl(tmp_path / "p.jsonl", doubled), gold)
    assert evaluate(found, gold).at_k["all"] == count_scores(1, 1, 1)
    # One wrong paper for each right one: precision is one half everywhere, recall is untouched.
    half = [
        {**row, "predictions": [p for i in row["predictions"] for p in (f"0000.{i[-5:]}x", i)]}
        for row in perfect
    ]
    found = read_predictions(jsonl(tmp_path / "p.jsonl", half), gold)
    scores = evaluate(found, gold).at_k["all"]
    assert scores.recall == 1.0 and 0.5 <= scores.precision < 0.51
