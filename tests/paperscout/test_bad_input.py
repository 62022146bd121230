"""Odd arguments, rows, answers, disks: each is named at once; nothing slips past a cut-off."""

from __future__ import annotations

import errno
import json
import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from agentr1_envs.errors import TaskDataError
from agentr1_envs.paperscout.evaluate import read_predictions
from agentr1_envs.paperscout.files import atomic_folder
from agentr1_envs.paperscout.live.arxiv import parse_feed
from agentr1_envs.paperscout.live.cache import ResponseCache
from agentr1_envs.paperscout.live.http import LiveClient, MalformedAnswer, retry_after
from agentr1_envs.paperscout.live.semantic_scholar import list_parser
from agentr1_envs.paperscout.official import query_task, read_dump
from agentr1_envs.paperscout.papers import Paper, base_id, papers_before
from agentr1_envs.paperscout.paperscout_v0 import PaperScoutParallelEnv
from agentr1_envs.paperscout.selector_llm import LlmSelector, parse_scores
from agentr1_train.cli.main import main
from tests.paperscout.local_server import Answer, ScriptedServer

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((n, v) for n in ("k", "max_references", "shown", "top") for v in (NAN, 2.5, True, "3")),
        *((n, v) for n in ("abstract_words", "keep", "discrete_threshold") for v in (NAN, -1, "a")),
        *((n, v) for n in ("search_cost", "expand_cost", "invalid") for v in (NAN, INF, -INF, "a")),
        *((n, v) for n in ("select_threshold", "success_recall") for v in (NAN, 0, 1.1, None)),
        ("keep", INF),
        ("keep", 10**400),
        ("discrete", "no"),
        ("library_options", 5),
        ("selector_options", [1]),
    ],
)
def test_arguments_are_checked_when_the_environment_is_made(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        gym.make("AgentR1/PaperScout-v0", **{name: value})


@pytest.mark.parametrize("name", ["individual", "shared", "hit", "miss", "false"])
def test_weights_of_two_agents_are_finite(name: str) -> None:
    for value in (NAN, INF, "a"):
        with pytest.raises(ValueError, match=name):
            PaperScoutParallelEnv(**{name: value})
    with pytest.raises(ValueError, match="selector_words"):
        PaperScoutParallelEnv(selector_words=-1)


@pytest.mark.parametrize("library", [None, 5, b"D", ""])
def test_library_of_a_wrong_type(library: Any) -> None:
    with pytest.raises(ValueError, match="library: expected a name or a folder"):
        gym.make("AgentR1/PaperScout-v0", library=library).reset(seed=0)


def test_options_that_do_not_fit_are_a_fault_of_reset(make: Any) -> None:
    for kwargs, message in (
        ({"selector_options": {"partial": NAN}}, "partial"),
        ({"selector_options": {"bad": 1}}, "bad"),
        ({"selector": "llm"}, "base_url"),
        ({"library_options": {"retrieval": {1, 2}}}, "JSON"),
    ):
        with pytest.raises(ValueError, match=message):
            make(**kwargs).reset(seed=0)


def test_clients_check_their_arguments(tmp_path: Path) -> None:
    for name in ("interval", "timeout", "tries", "backoff", "max_wait", "max_bytes"):
        for value in (NAN, INF, -1, "a"):
            with pytest.raises(ValueError, match=name):
                LiveClient("http://x", **{name: value})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_age"):
        ResponseCache(tmp_path / "c", NAN)
    for name in ("batch_size", "concurrency"):
        with pytest.raises(ValueError, match=name):
            LlmSelector("http://x", "m", cache_path="", **{name: 0})


@pytest.mark.parametrize("cutoff", [0, -5, 20231345, 10**12, True, 2023.5, "20230101"])
def test_cutoff_that_is_no_date(make: Any, cutoff: Any) -> None:
    task = {"task_id": "t", "question": "q", "gold": ["1"], "cutoff": cutoff}
    with pytest.raises(TaskDataError, match="field 'cutoff': expected a number YYYYMMDD"):
        make().reset(options={"task": task})


def test_a_reply_too_long_to_be_read_loses_nothing(make: Any) -> None:
    env = make()
    env.reset(seed=0)
    call = json.dumps({"name": "search", "arguments": {"query": env.unwrapped.question}})
    before, *_ = env.step(f"<tool_call>{call}</tool_call>")
    after, reward, _, _, info = env.step("x" * 1_000_001)
    assert reward == 0.0 and info["agent_error"]["kind"] == "too_long"
    assert after.startswith(before.replace("Steps left: 4", "Steps left: 3"))
    assert "1000001 characters" in after


@pytest.mark.parametrize("name", ["a\x00", "\ud800x", "a\x1b[31m", "a\u200b", "a b", "x" * 201])
def test_identifiers_that_no_agent_can_write(tmp_path: Path, name: str) -> None:
    file = tmp_path / "p.jsonl"
    rows = [{"id": "a", "title": "T", "date": 2020}, {"id": name, "title": "T", "date": 2020}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(TaskDataError, match=r"p.jsonl, row 1, field 'id': expected an identifier"):
        read_dump([file])


def test_answers_that_no_library_can_hold() -> None:
    row = {"question": "q", "answer_arxiv_id": ["2101.00001", "\ud800"]}
    with pytest.raises(TaskDataError, match=r"f, row 7, field 'answer_arxiv_id\[1\]'"):
        query_task(row, 7, "f")


def test_a_score_larger_than_any_float(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(json.dumps({"qid": "q", "predictions": {"2101.00001": 10**400}}) + "\n")
    with pytest.raises(TaskDataError, match="row 0, field .*score': expected a finite number"):
        read_predictions(file, {"q": {"gold": ["2101.00001"]}})


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="No space") as caught,
        atomic_folder(tmp_path / "D", keep_existing=False),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(tmp_path / "D")


def test_splits_that_exist_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    row = {"question": "Which?", "answer": ["One"], "answer_arxiv_id": ["2101.00001"]}
    (tmp_path / "in/dev.jsonl").write_text(json.dumps(row) + "\n")
    out = tmp_path / "D"
    words = ["--input_dir", f"{tmp_path}/in", "--output_dir", f"{out}"]
    assert main(["prepare", "paperscout", *words]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line == f'gym.make("AgentR1/PaperScout-v0", library="{out}", split="validation")'
    with pytest.raises(ValueError, match="no tasks of the split 'train': use split='validation'"):
        gym.make("AgentR1/PaperScout-v0", library=str(out)).reset(seed=0)


# --- live answers ---------------------------------------------------------------------------------


def test_a_paper_of_unknown_date_is_not_before_anything() -> None:
    dates = {"a": 0, "b": 20200101, "c": 20210101}
    papers = [Paper(name, "T", date=date) for name, date in dates.items()]
    assert [p.id for p in papers_before(papers, 20210101)] == ["b"]
    assert [p.id for p in papers_before(papers, None)] == ["a", "b", "c"]


def test_a_feed_without_dates_leaks_nothing(server: ScriptedServer) -> None:
    entry = "<entry><id>http://arxiv.org/abs/{}</id><title>T</title></entry>"
    entries = "".join(map(entry.format, ("2301.00001v1", "2001.00001v1", "odd-name")))
    body = f'<feed xmlns="http://www.w3.org/2005/Atom">{entries}</feed>'.encode()
    assert [paper.date for paper in parse_feed(body)] == [20230101, 20200101, 0]
    server.script = [Answer(body)]
    env = gym.make(
        "AgentR1/PaperScout-v0",
        library="arxiv",
        library_options={"arxiv_url": server.url, "cache_path": "", "interval": 0, "tries": 1},
        selector_options={"partial": 0.3},
    )
    task = {"task_id": "t", "question": "T", "gold": ["2301.00001"], "cutoff": 20220101}
    env.reset(options={"task": task})
    call = json.dumps({"name": "search", "arguments": {"query": "T"}})
    env.step(f"<tool_call>{call}</tool_call>")
    assert list(env.unwrapped.pool.entries) == ["2001.00001"]


@pytest.mark.parametrize(
    "body",
    [
        b'<?xml version="1.0" encoding="no-such"?><feed/>',
        b'<?xml version="1.0" encoding="utf-32"?><feed/>',
        b"",
    ],
)
def test_feeds_of_unknown_encoding(body: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        parse_feed(body)


def test_answers_nested_too_deeply_or_with_huge_numbers() -> None:
    deep = b"[" * 200_000
    with pytest.raises(MalformedAnswer):
        list_parser(None)(deep)
    with pytest.raises(MalformedAnswer):
        parse_scores(deep, 1)
    text = {"choices": [{"message": {"content": "9" * 5000 + ": 1"}}]}
    with pytest.raises(MalformedAnswer):
        parse_scores(json.dumps(text).encode(), 1)


@pytest.mark.parametrize(
    "value", ["²", "Mon, 99 Foo 0000", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "x"]
)
def test_retry_after_of_odd_forms(value: str) -> None:
    assert retry_after(value, 0.0) in (None, 0.0)


def test_records_that_no_paper_can_be_made_of() -> None:
    def parse(**fields: Any) -> list[Paper]:
        record = {"externalIds": {"ArXiv": "2001.00001"}, "title": "T", "year": 2020, **fields}
        return list_parser(None)(json.dumps({"data": [record]}).encode())

    for name in ("2001.0\x001 x", "not one", "2001.00001?x=1"):
        assert parse(externalIds={"ArXiv": name}) == []
    for authors in (5, {"a": 1}, "A. Author"):
        with pytest.raises(MalformedAnswer, match="authors"):
            parse(authors=authors)
    (paper,) = parse(title="\ud800 t", abstract="a \ud800", authors=[{"name": "\ud800"}])
    assert (paper.title, paper.abstract, paper.authors) == ("? t", "a ?", ("?",))


def test_a_document_type_in_another_encoding() -> None:
    text = '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE l [<!ENTITY a "aa">]><feed>&a;</feed>'
    with pytest.raises(MalformedAnswer, match="document type"):
        parse_feed(text.encode("utf-16"))


@pytest.mark.parametrize(
    "name",
    [
        "2106.01345v1v2",
        "arXiv:arXiv:2106.01345",
        "2106.01345v1.pdf.pdf",
        "2106.01345.pdfv2",
        " https://arxiv.org/abs/arXiv:2106.01345v3 ",
        "2106.01345 v1",
    ],
)
def test_an_identifier_without_version_names_itself(name: str) -> None:
    assert base_id(name) == "2106.01345" == base_id(base_id(name))


def test_a_long_text_is_no_identifier() -> None:
    text = "2106.01345" + "v1" * 400_000
    assert base_id(f" {text} ") == text
