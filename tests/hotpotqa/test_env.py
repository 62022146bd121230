"""The environment: searching, answering, rewards, metrics, limits."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import agentr1_envs
from agentr1_envs.errors import EnvironmentFault, TaskDataError
from agentr1_envs.hotpotqa.env import HotpotQAEnv
from agentr1_envs.hotpotqa.expert import Expert, Guesser, Observer, read_passages
from agentr1_envs.retrieval import Bm25Index, Passage
from agentr1_envs.tool_formats import format_names, get_format

gym.register_envs(agentr1_envs)
ENV_ID = "AgentR1/HotpotQA-v0"
ROWS = [
    {"id": "a", "title": "Ann", "text": "Ann is a painter. Ann was born in Oslo."},
    {"id": "o", "title": "Oslo", "text": "Oslo is a town. Oslo lies on the Alna."},
    {"id": "n", "title": "Oslo", "text": "Oslo is also a ship."},
    {"id": "The The", "title": "The The", "text": "They are a band."},
    {"id": "l", "title": "Long", "text": "zebra " + "stripe word " * 300},
]
TASK = {
    "task_id": "t1",
    "question": "On which river does the town where Ann was born lie?",
    "answer": "Alna",
    "aliases": ["River Alna"],
    "supporting_facts": [
        {"title": "Ann", "sentence": 1, "text": "Ann was born in Oslo."},
        {"title": "Oslo", "sentence": 1, "text": "Oslo lies on the Alna."},
    ],
}


def call(*queries: str, name: str = "search", key: str = "query") -> str:
    return "\n".join(
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': {key: query}})}\n</tool_call>"
        for query in queries
    )


def small(**kwargs: Any) -> HotpotQAEnv:
    env = HotpotQAEnv(corpus=Bm25Index.in_memory(ROWS), **kwargs)
    env.reset(options={"task": TASK})
    return env


def play(env: Any, policy: Any, episodes: int) -> list[dict[str, Any]]:
    finals = []
    for _ in range(episodes):
        obs, info = env.reset()
        policy.reset(obs, info)
        done = False
        while not done:
            obs, _, terminated, truncated, info = env.step(policy.act(obs, info))
            done = terminated or truncated
        finals.append(info)
    return finals


def test_a_whole_episode() -> None:
    env = small()
    assert env.task_text == f"Question: {TASK['question']}"
    obs, reward, terminated, truncated, info = env.step(call("Ann born"))
    assert obs == "1. Ann\nAnn is a painter. Ann was born in Oslo."
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["metrics"] == {
        "searches": 1,
        "repeated_searches": 0,
        "support_recall": 0.5,
        "support_precision": 1.0,
    }
    obs, _, _, _, info = env.step(call("Oslo river", "ann  BORN"))
    assert read_passages(obs)[0][0] == "Oslo"
    # Three distinct passages were shown, two of them hold a fact: a shared title is not enough.
    assert info["metrics"]["support_recall"] == 1.0
    assert info["metrics"]["support_precision"] == pytest.approx(2 / 3)
    assert info["metrics"]["repeated_searches"] == 1
    obs, reward, terminated, truncated, info = env.step("It is <answer>the river Alna.</answer>")
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["success"] and info["score"] == 1.0 and info["stop_reason"] == "answer"
    assert info["metrics"]["em"] == info["metrics"]["f1"] == 1.0
    with pytest.raises(gym.error.ResetNeeded):
        env.step("x")


@pytest.mark.parametrize(
    ("mode", "reply", "reward"),
    [
        ("em", "<answer>Alna</answer>", 1.0),
        ("em", "<answer>Alna or Oslo</answer>", 0.0),
        ("em", "<answer>x</answer> no: <answer>Alna</answer>", 1.0),
        ("em", "<answer></answer>", 0.0),
        ("f1", "<answer>Alna or Oslo</answer>", 0.5),
        ("f1", "<answer>Alna</answer>", 1.0),
        ("em_format", "<answer>Alna</answer>", 1.0),
        ("em_format", "<answer>wrong</answer>", 0.1),
        ("em_format", "<answer>x</answer><answer>Alna</answer>", 0.9),
        ("em_format", "<answer> </answer>", 0.0),
    ],
)
def test_reward_modes(mode: str, reply: str, reward: float) -> None:
    env = small(reward_mode=mode)
    assert env.step(reply)[1] == pytest.approx(reward)


def test_a_malformed_reply_costs_the_format_share() -> None:
    env = small(reward_mode="em_format")
    assert env.step("hello")[4]["agent_error"]["kind"] == "no_answer"
    assert env.step("<answer>Alna</answer>")[1] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("", "no_answer"),
        ("I think it is Alna", "no_answer"),
        ("<answer>Alna", "no_answer"),
        ("<think><answer>Alna</answer></think>", "no_answer"),
        (call(""), "empty_query"),
        (call("  \n"), "empty_query"),
        (call("x" * 2001), "query_too_long"),
        (call("Ann", name="find"), "unknown_tool"),
        (call("Ann", key="q"), "arguments"),
        ('<tool_call>{"name": "search", "arguments": {"query": 5}}</tool_call>', "arguments"),
    ],
)
def test_agent_errors(reply: str, kind: str) -> None:
    env = small()
    obs, reward, terminated, truncated, info = env.step(reply)
    assert info["agent_error"]["kind"] == kind
    assert obs.startswith("Error: ") and len(obs) < 600
    assert (reward, terminated, truncated) == (0.0, False, False)


def test_odd_queries_have_results_or_say_that_there_are_none() -> None:
    env = small(max_steps=50)
    for query in ("?!.,", "東京の川", "the", "\x00", "😀", "zzzz"):
        obs, _, _, _, info = env.step(call(query))
        assert "agent_error" not in info
        assert obs == "No passage matches this query. Try other words.", query


def test_an_answer_beside_calls_is_not_taken() -> None:
    env = small()
    obs, reward, terminated, _, info = env.step(call("Ann") + "<answer>Alna</answer>")
    assert not terminated and reward == 0.0 and info["tool_calls"][0]["result"] in obs
    assert "not taken" in obs


def test_a_search_can_be_required() -> None:
    env = small(require_search=True)
    _, _, terminated, _, info = env.step("<answer>Alna</answer>")
    assert not terminated and info["agent_error"]["kind"] == "no_search"
    env.step(call("Ann"))
    assert env.step("<answer>Alna</answer>")[1] == 1.0


def test_no_answer_within_the_limit() -> None:
    env = small(max_steps=2)
    env.step(call("Ann"))
    _, reward, terminated, truncated, info = env.step(call("Ann"))
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["stop_reason"] == "max_steps" and not info["success"] and info["score"] == 0.0


def test_passages_are_cut_at_a_word_border() -> None:
    env = small(max_passage_chars=100)
    text = read_passages(env.step(call("zebra"))[0])[0][1]
    assert len(text) <= 100 and text.endswith(" [cut]")
    assert text.removesuffix(" [cut]").split()[-1] in ("stripe", "word")


def test_lookup() -> None:
    env = small(lookup=True)
    assert [tool["function"]["name"] for tool in env.tools] == ["search", "lookup"]
    assert "lookup" in small(lookup=True, system_prompt="full").system_prompt
    assert env.step(call("ANN", name="lookup", key="title"))[0].startswith("1. Ann\n")
    assert "a band" in env.step(call("The The", name="lookup", key="title"))[0]
    obs, _, _, _, info = env.step(call("Ann born", name="lookup", key="title"))
    assert info["agent_error"]["kind"] == "no_title" and "Similar: Ann" in obs
    assert "lookup" not in small(system_prompt="full").system_prompt


def test_system_prompts() -> None:
    assert "<tool_call>" in small().system_prompt and len(small().system_prompt) < 300
    assert "up to 4 calls" in small(system_prompt="full").system_prompt
    assert small(system_prompt="Be {brief}.").system_prompt == "Be {brief}."


def test_the_anchor_is_what_was_seen() -> None:
    one, two = small(), small()
    start = one.reset(options={"task": TASK})[1]["anchor"]
    one.step(call("Ann"))
    first = one.step(call("Oslo"))[4]["anchor"]
    second = two.step(call("Oslo", "Ann"))[4]["anchor"]
    assert first == second != start
    assert two.step(call("ship"))[4]["anchor"] == second  # nothing new was found
    assert two.step("<answer>x</answer>")[4]["anchor"] != second


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question": " "}, "'question': expected a non-empty str"),
        ({"answer": 3}, "'answer'"),
        ({"aliases": "Alna"}, "'aliases': expected a list of str"),
        ({"supporting_facts": ["Ann"]}, r"supporting_facts\[0\]"),
        ({"supporting_facts": [{"title": "Ann", "text": 1}]}, r"supporting_facts\[0\]"),
    ],
)
def test_a_bad_task_is_named(change: dict[str, Any], message: str) -> None:
    env = small()
    with pytest.raises(TaskDataError, match=message):
        env.reset(options={"task": TASK | change})


def test_facts_are_optional() -> None:
    env = small()
    env.reset(options={"task": {"task_id": "q", "question": "Who?", "answer": "Ann"}})
    _, reward, _, _, info = env.step("<answer>Ann</answer>")
    assert reward == 1.0 and "support_recall" not in info["metrics"]


def test_only_a_served_or_encoded_corpus_blocks() -> None:
    assert not HotpotQAEnv().blocking and not small().blocking
    assert HotpotQAEnv(corpus="http://127.0.0.1:1").blocking
    assert HotpotQAEnv(corpus="c.jsonl", retriever="hybrid", encoder="x").blocking


def test_levels() -> None:
    env = HotpotQAEnv(levels="easy", split="test")
    assert len(env.tasks) == 450
    assert {env.tasks[i]["level"] for i in range(450)} == {"easy"}
    assert len(HotpotQAEnv(levels=["hard", "medium"], split="test").tasks) == 550


@pytest.mark.parametrize(
    "kwargs",
    [
        {"levels": "simple"},
        {"levels": []},
        {"reward_mode": "substring"},
        {"top_k": 0},
        {"max_passage_chars": 3},
        {"retriever": "bm52"},
        {"retriever": "dense"},
        {"encoder": "x"},
        {"corpus": 7},
    ],
)
def test_bad_arguments(kwargs: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        HotpotQAEnv(**kwargs)


def test_a_foreign_task_is_not_searched_in_the_embedded_world() -> None:
    with pytest.raises(ValueError, match="corpus="):
        HotpotQAEnv().reset(options={"task": TASK})


def test_a_broken_retriever_is_a_fault_and_no_reward() -> None:
    class Broken:
        def search(self, query: str, k: int) -> list[Passage]:
            raise ConnectionError("down")

    env = HotpotQAEnv(corpus=Broken())
    env.reset(options={"task": TASK})
    with pytest.raises(EnvironmentFault, match="down"):
        env.step(call("Ann"))
    with pytest.raises(gym.error.ResetNeeded):
        env.step(call("Ann"))
    assert env.reset(options={"task": TASK})[0]


@pytest.mark.parametrize("tool_format", format_names())
def test_the_experts_solve_the_embedded_world(tool_format: str) -> None:
    try:
        get_format(tool_format)
    except ImportError as error:
        pytest.skip(f"the format's library is not installed: {error}")
    for policy, least in ((Expert, 1.0), (Observer, 0.97)):
        env = gym.make(ENV_ID, split="validation", order="sequential", tool_format=tool_format)
        finals = play(env, policy(env), 120)
        assert np.mean([info["success"] for info in finals]) >= least
        assert np.mean([info["metrics"]["support_recall"] for info in finals]) >= least
        assert not any("agent_error" in info for info in finals)


def test_answering_without_searching_earns_nothing() -> None:
    from agentr1_envs.hotpotqa.generator import questions

    common = {"yes", "no"}
    rows = [row for row in questions("test") if row["answer"] not in common]
    names = [row["answer"] for row in questions("train") if row["answer"] not in common]
    env = HotpotQAEnv(split="test")
    hits = 0.0
    for i, row in enumerate(rows):
        env.reset(options={"task_id": row["task_id"]})
        hits += env.step(f"<answer>{names[i % len(names)]}</answer>")[1]
    assert hits / len(rows) <= 0.05


@pytest.mark.parametrize("split", ["validation", "test"])
def test_reading_only_the_question_earns_next_to_nothing(split: str) -> None:
    env = HotpotQAEnv(split=split, order="sequential")
    finals = play(env, Guesser(env), len(env.tasks))
    answers = {env.tasks[i]["task_id"]: env.tasks[i]["answer"] for i in range(len(env.tasks))}
    closed = [i["success"] for i in finals if answers[i["task_id"]] in ("yes", "no")]
    other = [i["success"] for i in finals if answers[i["task_id"]] not in ("yes", "no")]
    assert len(closed) >= 150 and np.mean(closed) <= 0.55
    assert len(other) >= 700 and np.mean(other) <= 0.05


def test_pickling_and_sharing_of_the_index() -> None:
    one, two = HotpotQAEnv(), HotpotQAEnv()
    one.reset(seed=3)
    two.reset(seed=4)
    assert one.retriever is two.retriever
    data = pickle.dumps(one)
    assert len(data) < 100_000
    copy = pickle.loads(data)
    reply = call("capital river")
    assert copy.step(reply)[0] == one.step(reply)[0]


def test_threads_share_one_world() -> None:
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "import agentr1_envs.hotpotqa.world.facts as facts\n"
        "from agentr1_envs.hotpotqa.env import HotpotQAEnv\n"
        "made, init = [], facts.SplitFacts.__init__\n"
        "facts.SplitFacts.__init__ = lambda self, *a: (made.append(1), init(self, *a))[1]\n"
        "play = lambda i: HotpotQAEnv(split='test').reset(seed=i)[0]\n"
        "one = list(ThreadPoolExecutor(8).map(play, range(16)))\n"
        "assert one == [play(i) for i in range(16)] and len(made) == 3, made"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)


def test_a_thousand_environments() -> None:
    envs = [HotpotQAEnv(split="test") for _ in range(1000)]
    first = [env.reset(seed=i)[0] for i, env in enumerate(envs)]
    assert len(set(first)) > 500
    assert all(env.retriever is envs[0].retriever for env in envs)
