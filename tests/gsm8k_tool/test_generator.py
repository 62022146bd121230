"""The generator: solvable, exact, split without overlap, deterministic, not guessable."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from fractions import Fraction

import pytest

from agentr1_envs.gsm8k_tool.answer import parse_number, score_reply
from agentr1_envs.gsm8k_tool.calculator import calculate, evaluate, format_number
from agentr1_envs.gsm8k_tool.generator import (
    TEMPLATES,
    generated_tasks,
    make_task,
    select,
    split_of,
)

LEVELS = ["easy", "hard"]


def pairs(split: str, level: str, family: str, count: int) -> set[tuple[str, str]]:
    rows = (make_task(level, family, split, index) for index in range(count))
    return {(row["template"], str(sorted(row["numbers"].items()))) for row in rows}


def test_there_are_enough_kinds() -> None:
    core = [t for t in TEMPLATES.values() if not t.held_out]
    for level in LEVELS:
        assert len([t for t in core if t.level == level]) >= 12
        assert len([t for t in TEMPLATES.values() if t.held_out and t.level == level]) >= 3
    assert {len(t.steps) for t in core} == {1, 2, 3, 4}
    assert len(TEMPLATES) == len({t.name for t in TEMPLATES.values()})


@pytest.mark.parametrize("family", ["core", "held_out"])
@pytest.mark.parametrize("level", LEVELS)
def test_tasks_are_exact_and_their_solutions_right(level: str, family: str) -> None:
    for index in range(600):
        row = make_task(level, family, "train", index)
        value = parse_number(row["answer"])
        assert value is not None and value > 0 and row["answer"] == format_number(value)
        assert calculate(row["calls"][-1]) == row["answer"]
        assert score_reply(row["solution"], row["answer"]) == 1.0
        notes = re.findall(r"<<(.+?)=(.+?)>>", row["solution"])
        assert [note[0] for note in notes] == row["calls"]
        for expression, result in notes:
            exact = Fraction(result)
            assert evaluate(expression) == exact > 0
            assert exact.denominator in (1, 2, 4, 5, 10, 20, 25, 50, 100, 125, 200, 250, 500, 1000)
            if level == "easy":
                assert exact.denominator == 1
        # Every number of the problem stands in its text, and every call uses numbers it can know.
        in_text = set(re.findall(r"\d+", row["question"]))
        assert {str(number) for number in row["numbers"].values()} <= in_text
        known = in_text | {"2", "3", "60", "100", "1000"}
        for expression, result in notes:
            assert set(re.findall(r"\d+(?:\.\d+)?", expression)) <= known, row
            known.add(result)
        assert "{" not in row["question"] and "  " not in row["question"]
        assert len(row["question"]) < 220


@pytest.mark.parametrize("level", LEVELS)
def test_no_problem_is_in_two_splits(level: str) -> None:
    found = {split: pairs(split, level, "all", 2_000) for split in ("train", "validation", "test")}
    assert not found["train"] & found["validation"]
    assert not found["train"] & found["test"]
    assert not found["validation"] & found["test"]
    for split, problems in found.items():
        assert len(problems) > 500, split
    # Also across levels, sizes and families: the split is a function of the problem alone.
    for split, problems in found.items():
        for row in (make_task("mixed", "core", split, index) for index in range(300)):
            assert split_of(row["template"], row["numbers"]) == split
        assert problems


def test_held_out_templates_are_never_in_core() -> None:
    for level in (*LEVELS, "mixed"):
        core = {t.name for t in select(level, "core")}
        held_out = {t.name for t in select(level, "held_out")}
        assert core and held_out and not core & held_out
        assert {t.name for t in select(level, "all")} == core | held_out
    rows = [make_task("easy", "held_out", "test", index) for index in range(200)]
    assert all(TEMPLATES[row["template"]].held_out for row in rows)


@pytest.mark.parametrize("level", LEVELS)
def test_guessing_scores_at_most_five_per_cent(level: str) -> None:
    """Without solving the problem: a constant answer, or a number of the text."""
    rows = [make_task(level, "core", "test", index) for index in range(2_000)]
    answers = Counter(row["answer"] for row in rows)
    assert answers.most_common(1)[0][1] / len(rows) <= 0.05
    for place in (0, 1, -1):
        copied = sum(re.findall(r"\d+", row["question"])[place] == row["answer"] for row in rows)
        assert copied / len(rows) <= 0.05


def test_distractors_only_where_they_belong() -> None:
    needless = re.compile(r"years old|km away|degrees|cousins|walk home|lives at")
    easy = [make_task("easy", "core", "train", index)["question"] for index in range(300)]
    hard = [make_task("hard", "core", "train", index)["question"] for index in range(300)]
    assert not any(needless.search(question) for question in easy)
    assert 0.35 < sum(bool(needless.search(question)) for question in hard) / 300 < 0.65


def test_the_same_in_another_process() -> None:
    code = (
        "from agentr1_envs.gsm8k_tool.generator import generated_tasks as g\n"
        "import hashlib, json\n"
        "rows = [g(s, difficulty='mixed', templates='all')[i] for s in ('train', 'test') "
        "for i in range(50)]\n"
        "print(hashlib.sha256(json.dumps(rows).encode()).hexdigest())"
    )
    command = [sys.executable, "-c", code]
    runs = {
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)
    }
    assert len(runs) == 1
    # Recorded once: a change of the generator must change its VERSION and this value.
    assert runs.pop().strip()[:16] == "9dd1ab8e0c15d860"


def test_panels() -> None:
    panel = generated_tasks("dev", size=10)
    assert (panel.split, len(panel)) == ("validation", 10)
    assert panel[3] == panel[3] and panel[3] is not panel[3]
    assert panel.index(panel[7]["task_id"]) == 7
    assert generated_tasks("train").hash != generated_tasks("test").hash
    assert generated_tasks("train").hash != generated_tasks("train", difficulty="hard").hash
    with pytest.raises(ValueError, match=r"difficulty: got 'x', expected one of"):
        generated_tasks("train", difficulty="x")
    with pytest.raises(ValueError, match=r"templates: got 'x', expected one of"):
        generated_tasks("train", templates="x")
