"""`agentr1 prepare paperscout`: query files, paper dumps, citations, broken input, interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import agentr1_envs  # noqa: F401 - registers the ids
from agentr1_envs.errors import TaskDataError
from agentr1_envs.paperscout.files import alone_in
from agentr1_envs.paperscout.local import LocalLibrary
from agentr1_envs.paperscout.official import query_task, read_dump
from agentr1_envs.task_files import iter_rows
from agentr1_train.cli.main import main

QUERIES = [
    {
        "qid": "q0",
        "question": "Which papers treat graphs?",
        "answer": ["Graphs at last", "More graphs"],
        "answer_arxiv_id": ["2001.00001v2", "2002.00002"],
        "source_meta": {"published_time": "20230101"},
    },
    {
        "qid": "q1",
        "question": "Which treat 水?",
        "answer": ["Late"],
        "answer_arxiv_id": ["2301.9999"],
    },
]
PAPERS: list[dict[str, Any]] = [
    {
        "id": "2002.00002v1",
        "title": "More\n  graphs",
        "abstract": "Nothing but graphs.",
        "authors": "A. Author and B. Böhm, C. Curie",
        "versions": [{"version": "v1", "created": "Sat, 1 Feb 2020 10:00:00 GMT"}],
        "references": ["2001.00001v1", "9999.99999"],
    },
    {"id": "2001.00001v1", "title": "Old title", "abstract": "x"},
    {
        "id": "2001.00001v3",
        "title": "Graphs at last",
        "abstract": "水 graphs",
        "date": "2020-01-05",
    },
    {"id": "math.GT/0309136", "title": "Knots", "update_date": "2010-01-01"},
]


def jsonl(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    jsonl(tmp_path / "in/dev.jsonl", QUERIES)
    jsonl(tmp_path / "papers.jsonl", PAPERS)
    jsonl(tmp_path / "cites.jsonl", [{"citing": "2001.00001", "cited": "math/0309136"}])
    return tmp_path


def prepare(*words: str | Path) -> int:
    return main(["prepare", "paperscout", *map(str, words)])


def test_queries_and_dump(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = files / "D"
    code = prepare(
        "--input_dir", files / "in", "--output_dir", out, "--papers", files / "papers.jsonl",
        "--citations", files / "cites.jsonl",
    )  # fmt: skip
    assert code == 0
    text = capsys.readouterr().out
    assert "3 papers, 2 citations" in text
    assert "1 citations of papers that the dump lacks" in text and "1 rows of earlier" in text
    rows = list(iter_rows(out / "validation.parquet"))
    assert [row["extra_info"]["task_id"] for row in rows] == ["q0", "q1"]
    assert json.loads(rows[0]["reward_model"]["ground_truth"]) == ["2001.00001", "2002.00002"]
    library = LocalLibrary(out)
    paper = library.paper("2001.00001v9")
    assert paper is not None and (paper.title, paper.date) == ("Graphs at last", 20200105)
    other = library.paper("2002.00002")
    assert other is not None and other.authors == ("A. Author", "B. Böhm", "C. Curie")
    assert [p.id for p in library.references("2002.00002")] == ["2001.00001"]
    assert [p.id for p in library.cited_by("2001.00001")] == ["2002.00002"]
    assert [p.id for p in library.references("2001.00001")] == ["math/0309136"]
    assert library.references("2002.00002", before=20200105) == []
    assert library.paper("unknown") is None and library.references("unknown") == []
    assert [p.id for p in library.search("graphs", before=20200110)] == ["2001.00001"]
    assert [p.id for p in library.search("水")] == ["2001.00001"]
    env = gym.make(
        "AgentR1/PaperScout-v0", library=str(out), split="validation", order="sequential"
    )
    env.reset()
    call = '<tool_call>{"name": "search", "arguments": {"query": "graphs"}}</tool_call>'
    env.step(call)
    *_, info = env.step("done")
    assert info["score"] == 1.0 and info["success"]


def test_titles_alone(files: Path) -> None:
    assert prepare("--input_dir", files / "in", "--output_dir", files / "D") == 0
    library = LocalLibrary(files / "D")
    assert [p.id for p in library.search("graphs at last")][:1] == ["2001.00001"]


def test_rows_for_an_earlier_library(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare("--papers", files / "papers.jsonl", "--output_dir", files / "L") == 0
    code = prepare(
        "--input", files / "in/dev.jsonl", "--split", "test", "--library", files / "L",
        "--output_dir", files / "R",
    )  # fmt: skip
    assert code == 0 and not (files / "R/library").exists()
    env = gym.make(
        "AgentR1/PaperScout-v0", library=str(files / "L"), tasks=str(files / "R/test.parquet")
    )
    env.reset(seed=0)
    wrong = gym.make("AgentR1/PaperScout-v0", tasks=str(files / "R/test.parquet"))
    with pytest.raises(TaskDataError, match="the hash of this library"):
        wrong.reset(seed=0)


def test_generated(tmp_path: Path) -> None:
    assert prepare("--output_dir", tmp_path / "G", "--size", "1500", "--limit", "7") == 0
    env = gym.make("AgentR1/PaperScout-v0", library=str(tmp_path / "G"), split="train")
    env.reset(seed=0)
    assert len(env.unwrapped.tasks) == 7


def test_a_second_run_replaces_the_first(files: Path) -> None:
    for count in (4, 2):
        jsonl(files / "papers.jsonl", PAPERS[-count:])
        assert prepare("--papers", files / "papers.jsonl", "--output_dir", files / "D") == 0
    assert len(LocalLibrary(files / "D").store) == 2
    assert sorted(p.name for p in (files / "D").iterdir()) == ["library"]


def test_folders_of_others_are_left_alone(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "D/library").mkdir(parents=True)
    (files / "D/library/mine.txt").write_text("keep")
    assert prepare("--papers", files / "papers.jsonl", "--output_dir", files / "D") == 2
    assert (files / "D/library/mine.txt").read_text() == "keep"
    assert "a library to replace" in capsys.readouterr().err


BAD_QUERIES = [
    ({"question": "", "answer_arxiv_id": ["1"]}, "field 'question'"),
    ({"question": "x"}, "field 'answer_arxiv_id'"),
    ({"question": "x", "answer_arxiv_id": []}, "field 'answer_arxiv_id'"),
    ({"question": "x", "answer_arxiv_id": ["1", 3]}, r"field 'answer_arxiv_id\[1\]'"),
    ({"question": "x", "answer_arxiv_id": ["1"], "answer": "t"}, "field 'answer'"),
    ({"question": "x", "answer_arxiv_id": ["1"], "qid": ""}, "field 'qid'"),
    (
        {"question": "x", "answer_arxiv_id": ["1"], "source_meta": {"published_time": "soon"}},
        "published_time.*'soon'",
    ),
]


@pytest.mark.parametrize(("row", "message"), BAD_QUERIES)
def test_bad_queries(row: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskDataError, match=f"f.jsonl, row 4.*{message}"):
        query_task(row, 4, "f.jsonl")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "at least one paper"),
        ([{"title": "x"}], "row 0, field 'id'"),
        ([{"id": "2001.00001"}], "row 0, field 'title'"),
        ([{"id": "20 01", "title": "x"}], "without white space"),
        ([{"id": "2001.00001", "title": "x"}] * 2, "row 1, field 'id'.*unique"),
        ([{"id": "2001.00001", "title": "x", "date": "soon"}], "field 'date'.*'soon'"),
        ([{"id": "abc", "title": "x"}], "field 'date'"),
        ([{"id": "2001.00001", "title": "x", "references": "y"}], "field 'references'"),
        ([{"id": "2001.00001", "title": "x", "authors": 3}], "field 'authors'"),
        ([{"id": "2001.00001", "title": "x", "versions": [{"created": "?"}]}], "versions"),
    ],
)
def test_bad_dumps(tmp_path: Path, rows: list[Any], message: str) -> None:
    with pytest.raises(TaskDataError, match=message):
        read_dump([jsonl(tmp_path / "papers.jsonl", rows)])


@pytest.mark.parametrize(
    "words",
    [
        ["--input", "IN/none.jsonl"],
        ["--input_dir", "IN/none"],
        ["--input_dir", "IN", "--limit", "0"],
        ["--library", "IN"],
        ["--citations", "IN/dev.jsonl"],
        ["--input", "IN/dev.jsonl", "IN/dev.jsonl"],
        ["--size", "10"],
    ],
)
def test_bad_commands_write_nothing(files: Path, words: list[str]) -> None:
    out = files / "out"
    words = [word.replace("IN", str(files / "in")) for word in words]
    assert prepare(*words, "--output_dir", out) == 2
    assert not out.exists()


def test_name_without_split(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jsonl(files / "in/some.jsonl", QUERIES)
    assert prepare("--input", files / "in/some.jsonl", "--output_dir", files / "D") == 2
    assert "--split" in capsys.readouterr().err


def test_killed_and_run_again(tmp_path: Path) -> None:
    """Whenever it is killed, the library is whole or not there, and the next run cleans up."""
    out = tmp_path / "D"
    command = [sys.executable, "-m", "agentr1_train.cli.main", "prepare", "paperscout",
               "--output_dir", str(out), "--size", "1500"]  # fmt: skip
    for delay in (0.9, 1.3, 1.7):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if (out / "library").exists():
            assert len(LocalLibrary(out).store) == 1500
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert sorted(os.listdir(out)) == [
        "library",
        "test.parquet",
        "train.parquet",
        "validation.parquet",
    ]


def test_shared_rows(shared: Path, tmp_path: Path) -> None:
    source = shared / "data/paper_search"
    assert prepare("--input_dir", source, "--output_dir", tmp_path / "D") == 0
    env = gym.make(
        "AgentR1/PaperScout-v0", library=str(tmp_path / "D"), split="dev", order="sequential"
    )
    panel = env.unwrapped.tasks
    assert len(panel) == 200
    for i in range(0, 200, 10):
        env.reset(options={"task_index": i})
        for title in panel[i]["gold_titles"][:5]:
            query = json.dumps(title)
            env.step(
                f'<tool_call>{{"name": "search", "arguments": {{"query": {query}}}}}</tool_call>'
            )
            if env.unwrapped._step_index == 4:
                break
        *_, info = env.step("done")
        assert info["metrics"]["crawler_recall"] > 0


def test_two_at_once(files: Path) -> None:
    """Each of several runs with other papers ends well, and what is left fits together."""
    jsonl(files / "other.jsonl", [*PAPERS, {"id": "2003.00003", "title": "One more"}])
    words = [sys.executable, "-m", "agentr1_train.cli.main", "prepare", "paperscout"]
    words += ["--input_dir", str(files / "in"), "--output_dir", str(files / "D"), "--papers"]
    runs = [
        subprocess.Popen(
            [*words, str(files / name)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for name in ("papers.jsonl", "other.jsonl") * 2
    ]
    for run in runs:
        _, errors = run.communicate(timeout=120)
        assert run.returncode == 0, errors
    assert sorted(p.name for p in (files / "D").iterdir()) == ["library", "validation.parquet"]
    env = gym.make("AgentR1/PaperScout-v0", library=str(files / "D"), split="dev")
    env.reset(seed=0)


def test_the_lock_is_one_a_folder(tmp_path: Path) -> None:
    import fcntl

    with alone_in(tmp_path / "D"), alone_in(tmp_path / "E"):
        handle = os.open(tmp_path / "D", os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(handle)


def test_rows_of_an_earlier_library_are_named(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jsonl(files / "train.jsonl", QUERIES)
    out = ["--output_dir", files / "D", "--papers", files / "papers.jsonl"]
    assert prepare("--input_dir", files / "in", *out) == 0
    assert prepare("--input", files / "train.jsonl", *out) == 0
    assert "earlier library" not in capsys.readouterr().out  # the same papers: both play
    jsonl(files / "papers.jsonl", PAPERS[1:])
    assert prepare("--input", files / "train.jsonl", *out) == 0
    assert "validation.parquet is of an earlier library" in capsys.readouterr().out


@pytest.mark.parametrize("absolute", [False, True])
def test_a_folder_prepared_anew_is_opened_anew(
    files: Path, absolute: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    out = str(files / "D") if absolute else "D"
    words = ["--input_dir", "in", "--output_dir", out, "--papers", "papers.jsonl"]
    for papers in (PAPERS, PAPERS[1:]):
        jsonl(files / "papers.jsonl", papers)
        assert prepare(*words) == 0
        env = gym.make("AgentR1/PaperScout-v0", library=out, split="validation")
        env.reset(seed=0)
        assert (env.unwrapped.library.paper("2002.00002") is None) == (papers is not PAPERS)
