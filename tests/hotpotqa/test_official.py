"""Readers of the public files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentr1_envs.errors import TaskDataError
from agentr1_envs.hotpotqa import official
from agentr1_envs.hotpotqa.tasks import check_task

HOTPOT = {
    "_id": "a1",
    "question": "Where was the author of X born?",
    "answer": "Paris",
    "type": "bridge",
    "level": "easy",
    "supporting_facts": [["X &amp; Y", 0], ["Ann", 1]],
    "context": [
        ["X &amp; Y", ["X is by Ann. ", " It is long."]],
        ["Ann", ["Ann.", " Born in Paris."]],
    ],
}
MUSIQUE = {
    "id": "2hop__1_2",
    "question": "Who?",
    "answer": "Stan",
    "answer_aliases": ["Stanley", "Stan", " "],
    "answerable": True,
    "paragraphs": [
        {"idx": 0, "title": "T", "paragraph_text": "One.", "is_supporting": True},
        {"idx": 1, "title": "T", "paragraph_text": "Two.", "is_supporting": False},
    ],
}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text(json.dumps(rows))
    return path


def test_the_shared_hotpotqa_rows(shared: Path) -> None:
    path = shared / "data" / "hotpotqa" / "hotpotqa_distractor_60.json"
    raw = json.loads(path.read_text())
    data = official.read(path)
    assert official.is_official(path)
    assert (len(data.tasks) == 60 and len(data.paragraphs) == 594) or len(data.paragraphs) > 500
    by_title = {row["title"]: row["text"] for row in data.paragraphs}
    for row, task in zip(raw, data.tasks, strict=True):
        check_task(task)
        assert task["answer"] == row["answer"].strip() and task["task_id"] == row["_id"]
        assert len(task["supporting_facts"]) == len(row["supporting_facts"])
        for fact in task["supporting_facts"]:
            assert fact["text"] and fact["text"] in by_title[fact["title"]]


def test_the_shared_musique_rows(shared: Path) -> None:
    data = official.read(shared / "data" / "hotpotqa" / "musique_10.json")
    assert len(data.tasks) == 10
    ids = [row["id"] for row in data.paragraphs]
    assert len(set(ids)) == len(ids)
    texts = {row["text"] for row in data.paragraphs}
    for task in data.tasks:
        check_task(task)
        assert len(task["supporting_facts"]) >= 2
        assert all(fact["text"] in texts for fact in task["supporting_facts"])


@pytest.mark.parametrize("name", ["x.json", "x.jsonl"])
def test_hotpotqa_form(tmp_path: Path, name: str) -> None:
    data = official.read(write(tmp_path / name, [HOTPOT]))
    assert data.tasks[0]["supporting_facts"] == [
        {"title": "X & Y", "sentence": 0, "text": "X is by Ann."},
        {"title": "Ann", "sentence": 1, "text": "Born in Paris."},
    ]
    assert data.paragraphs[0] == {
        "id": "X & Y",
        "title": "X & Y",
        "text": "X is by Ann. It is long.",
    }


def test_columnar_parquet_form(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = {
        "id": "p1",
        "question": "q?",
        "answer": "yes",
        "type": "comparison",
        "level": "hard",
        "supporting_facts": {"title": ["A", "B"], "sent_id": [0, 9]},
        "context": {"title": ["A", "B"], "sentences": [["A one."], ["B one.", " B two."]]},
    }
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "x.parquet")
    task = official.read(tmp_path / "x.parquet").tasks[0]
    # A fact that points past its paragraph's end, as some official ones do, keeps its title.
    assert [fact["text"] for fact in task["supporting_facts"]] == ["A one.", ""]


def test_context_as_json_text(tmp_path: Path) -> None:
    row = HOTPOT | {
        "context": json.dumps(HOTPOT["context"]),
        "supporting_facts": json.dumps(HOTPOT["supporting_facts"]),
    }
    assert official.read(write(tmp_path / "x.json", [row])).tasks == (
        official.read(write(tmp_path / "y.json", [HOTPOT])).tasks
    )


def test_musique_form(tmp_path: Path) -> None:
    unanswerable = MUSIQUE | {"id": "u", "answerable": False}
    data = official.read(write(tmp_path / "x.jsonl", [MUSIQUE, unanswerable]))
    assert data.skipped == 1
    assert data.tasks[0]["aliases"] == ["Stanley"]
    assert [row["id"] for row in data.paragraphs] == ["T", "T#2"]


def test_two_wiki_aliases(tmp_path: Path) -> None:
    names = tmp_path / "id_aliases.json"
    names.write_text('{"Q_id": "Q90", "aliases": ["City of Light"], "demonyms": ["Parisian"]}\n')
    row = HOTPOT | {"answer_id": "Q90", "evidences": [["X", "author", "Ann"]]}
    data = official.read(write(tmp_path / "x.json", [row]), aliases=names)
    assert data.tasks[0]["aliases"] == ["City of Light", "Parisian"]
    names.write_text('{"aliases": []}\n')
    with pytest.raises(TaskDataError, match=r"id_aliases\.json, row 0"):
        official.read(write(tmp_path / "x.json", [row]), aliases=names)


def test_a_paragraph_of_several_questions_is_kept_once(tmp_path: Path) -> None:
    data = official.read(write(tmp_path / "x.json", [HOTPOT, HOTPOT | {"_id": "a2"}]))
    assert len(data.tasks) == 2 and len(data.paragraphs) == 2


def test_numbered_titles_never_clash() -> None:
    data = official.Dataset()
    for title, text in (("T#2", "x"), ("T", "a"), ("T", "b"), ("T#2", "y"), ("T#3", "z")):
        data.add_paragraph(title, text)
    ids = [row["id"] for row in data.paragraphs]
    assert len(set(ids)) == len(ids) == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question": ""}, "'question': expected a non-empty str"),
        ({"question": None}, "'question'"),
        ({"answer": ["x"]}, "'answer'"),
        ({"_id": 7}, "'_id'"),
        ({"context": "{"}, "'context': expected JSON"),
        ({"context": [["A"]]}, "'context'"),
        ({"context": [["A", "text"]]}, r"context\[0\]"),
        ({"context": [["A", [1]]]}, r"context\[0\]"),
        ({"context": {"title": ["A"], "sentences": []}}, "'context'"),
        ({"supporting_facts": [["A", "0"]]}, r"supporting_facts\[0\]"),
        ({"supporting_facts": 5}, "'supporting_facts'"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "x.json", [HOTPOT, HOTPOT | {"_id": "b"} | change])
    with pytest.raises(TaskDataError, match=message) as caught:
        official.read(path)
    assert f"{path}, row 1" in str(caught.value)


def test_other_bad_input(tmp_path: Path) -> None:
    without = {key: value for key, value in HOTPOT.items() if key != "answer"}
    with pytest.raises(TaskDataError, match="test files have none"):
        official.read(write(tmp_path / "x.json", [without]))
    with pytest.raises(TaskDataError, match="an id that no row before it has"):
        official.read(write(tmp_path / "x.json", [HOTPOT, HOTPOT]))
    with pytest.raises(TaskDataError, match="at least one row"):
        official.read(write(tmp_path / "x.json", []))
    with pytest.raises(TaskDataError, match="MuSiQue"):
        official.read(write(tmp_path / "x.json", [{"question": "q"}]))
    with pytest.raises(TaskDataError, match=r"paragraphs\[0\]"):
        bad = MUSIQUE | {"paragraphs": [{"title": "T", "paragraph_text": ""}]}
        official.read(write(tmp_path / "x.json", [bad]))
    with pytest.raises(FileNotFoundError):
        official.read(tmp_path / "none.json")
