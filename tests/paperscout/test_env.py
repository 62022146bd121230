"""The environment: rewards call by call, errors, the pool, the end, sharing, live libraries."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded

from agentr1_envs.errors import EnvironmentFault, TaskDataError
from agentr1_envs.paperscout.local import generated_library
from agentr1_envs.registration import ENVS, load
from agentr1_envs.tool_formats import format_names
from tests.paperscout.local_server import Answer, ScriptedServer


def call(name: str, **arguments: Any) -> str:
    text = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{text}\n</tool_call>"


def start(env: gym.Env[str, str], shape: str) -> dict[str, Any]:
    """Begins the first task of a shape; returns its row."""
    panel = env.unwrapped.tasks  # type: ignore[attr-defined]
    for i in range(len(panel)):
        if panel[i]["shape"] == shape:
            env.reset(options={"task_index": i})
            return panel[i]
    raise AssertionError(shape)


def play(env: Any, policy_name: str, episodes: int) -> list[dict[str, Any]]:
    """The last infos of scripted episodes, with their return under ``"return"``."""
    policy = load(ENVS["AgentR1/PaperScout-v0"].experts[policy_name])(env)
    ends = []
    obs, info = env.reset(seed=0)
    for episode in range(episodes):
        if episode:
            obs, info = env.reset()
        policy.reset(obs, info)
        total, done = 0.0, False
        while not done:
            obs, reward, terminated, truncated, info = env.step(policy.act(obs, info))
            total, done = total + reward, terminated or truncated
        ends.append({**info, "return": total})
    return ends


def test_first_observation(make: Any) -> None:
    env = make(split="test")
    obs, info = env.reset(seed=0)
    task = env.unwrapped.task
    assert obs.startswith(f"Query: {task['question']}\n")
    assert "Steps left: 5" in obs and "Papers not expanded yet: none" in obs
    assert not any(name in obs for name in task["gold"])
    assert info["selector"] == "gold" and info["metrics"]["recall"] == 0.0
    assert [t["function"]["name"] for t in env.unwrapped.tools] == ["search", "expand"]
    assert "at most 30" in env.unwrapped.system_prompt


def test_search_reward_is_the_rule(make: Any) -> None:
    env = make(split="test")
    task = start(env, "method")
    obs, reward, _, _, info = env.step(call("search", query=task["question"]))
    inner = env.unwrapped
    scores = sorted((e.score for e in inner.pool.entries.values()), reverse=True)
    assert reward == pytest.approx(sum(scores[:3]) - 0.1)
    assert all(score >= 0.01 for score in scores)
    gold = set(task["gold"])
    assert {e.paper.id for e in inner.pool.entries.values() if e.score == 1.0} <= gold
    assert all(e.score < 0.4 for e in inner.pool.entries.values() if e.paper.id not in gold)
    assert info["metrics"]["recall"] == len(gold & set(inner.pool.entries)) / len(gold)
    for entry in inner.pool.best(expanded=False, count=10):
        assert f"[{entry.paper.id}] {entry.paper.title} (score {entry.score:.2f})" in obs
    assert f"[Search] {task['question']} -> {len(scores)} new papers" in obs


def test_dates_are_cut_off(make: Any) -> None:
    env = make(split="test")
    task = start(env, "method")
    env.step(call("search", query=task["topic"]))
    name = env.unwrapped.pool.best(expanded=False)[0].paper.id
    env.step(call("expand", arxiv_id=name))
    assert all(e.paper.date < task["cutoff"] for e in env.unwrapped.pool.entries.values())


def test_repeats_unknown_and_twice_cost_half(make: Any) -> None:
    env = make(split="test")
    task = start(env, "method")
    query = task["question"]
    env.step(call("search", query=query))
    _, reward, _, _, info = env.step(call("search", query=f"  {query.upper()} "))
    assert reward == -0.5 and info["agent_error"]["kind"] == "repeated_query"
    obs, reward, _, _, info = env.step(call("expand", arxiv_id="9999.99999"))
    assert reward == -0.5 and info["agent_error"]["kind"] == "unknown_paper"
    assert "'9999.99999' is not in the pool" in obs and "[Expand] 9999.99999 -> error" in obs
    name = env.unwrapped.pool.best(expanded=False)[0].paper.id
    both = call("expand", arxiv_id=f"{name}v3") + call("expand", arxiv_id=f"arXiv:{name}v1")
    before = len(env.unwrapped.pool.entries)
    obs, reward, _, _, info = env.step(both)
    first, second = env.unwrapped.pool.records[-2:]
    assert first.error is None and second.reward == -0.5
    assert reward == pytest.approx(first.reward - 0.5)
    assert info["agent_error"]["kind"] == "expanded_twice"
    assert info["metrics"]["repeats"] == 2
    assert len(env.unwrapped.pool.entries) == before + len(first.new)
    assert "Expanded papers (1):" in obs


def test_no_paper_pays_twice(make: Any) -> None:
    env = make(split="test", max_calls=5)
    task = start(env, "method")
    query = task["question"]
    _, reward, *_ = env.step(call("search", query=query) + call("search", query=query + " ?"))
    first, second = env.unwrapped.pool.records
    assert second.new == [] and second.reward == 0.0 and reward == first.reward
    ids = [p.id for r in env.unwrapped.pool.records for p, _ in r.new]
    assert len(ids) == len(set(ids))


def test_constants_are_arguments(make: Any) -> None:
    rules = {
        "top": 1,
        "search_cost": 0.25,
        "invalid": -2.0,
        "discrete": True,
        "discrete_threshold": 1.0,
    }
    env = make(split="test", **rules)
    task = start(env, "method")
    _, reward, *_ = env.step(call("search", query=task["question"]) * 2)
    assert reward == pytest.approx(1 - 0.25 - 2.0)
    strict = make(split="test", keep=0.5)
    task = start(strict, "foundations")
    _, reward, *_ = strict.step(call("search", query=task["question"]))
    assert reward == 0.0 and not strict.unwrapped.pool.entries


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("<tool_call>{broken</tool_call>", "parse_"),
        (call("look", query="x"), "unknown_tool"),
        (call("search"), "arguments"),
        (call("search", query=3), "arguments"),
        (call("search", query="  "), "arguments"),
        (call("search", query="x" * 1001), "arguments"),
        (call("expand", arxiv_id=""), "unknown_paper"),
        (call("expand", arxiv_id="x" * 100_000), "unknown_paper"),
        (call("search", query="a") * 6, "repeated_query"),
        ("".join(call("search", query=f"q{i}") for i in range(6)), "too_many_calls"),
    ],
)
def test_bad_replies_are_steps(make: Any, reply: str, kind: str) -> None:
    env = make(split="test")
    env.reset(seed=1)
    obs, _, terminated, truncated, info = env.step(reply)
    assert info["agent_error"]["kind"].startswith(kind)
    assert not terminated and not truncated and obs.startswith("Query: ")
    assert "Error" in obs and len(obs) < 40_000
    assert env.observation_space.contains(obs)


@pytest.mark.parametrize(
    "query", ["?!.,;()", "水 中文 检索", "🙂", "\ud800 half", "a\x00b", "AND OR NOT field:x*~^2"]
)
def test_odd_queries(make: Any, query: str) -> None:
    env = make(split="test")
    env.reset(seed=1)
    obs, reward, *_ = env.step(f'<tool_call>{{"name": "search", "arguments": {json.dumps({"query": query})}}}</tool_call>')  # fmt: skip  # noqa: E501
    assert env.observation_space.contains(obs) and reward <= 3


def test_end_by_answer_and_by_limit(make: Any) -> None:
    env = make(split="test")
    task = start(env, "method")
    env.step(call("search", query=task["question"]))
    _, reward, terminated, truncated, info = env.step("That is all.")
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["stop_reason"] == "answered" and 0 <= info["score"] <= 1
    assert info["score"] == info["metrics"]["f1"]
    with pytest.raises(ResetNeeded):
        env.step(call("search", query="x"))
    env.reset()
    for i in range(5):
        *_, truncated, info = env.step(call("search", query=f"graph {i}"))
    assert truncated and info["stop_reason"] == "max_steps"


def test_no_action_earns_nothing(make: Any) -> None:
    env = make(split="test", order="sequential")
    for _ in range(20):
        env.reset()
        _, reward, terminated, _, info = env.step("I know: 2101.00001, 2102.00002")
        assert terminated and reward == 0 and info["score"] == 0 and not info["success"]


def test_expert_and_observer(make: Any) -> None:
    expert = play(make(split="test", order="sequential"), "expert", 40)
    observer = play(make(split="test", order="sequential"), "observer", 40)
    recall = [sum(e["metrics"]["recall"] for e in ends) / 40 for ends in (expert, observer)]
    assert recall[0] >= 0.9
    assert 0.3 <= recall[1] <= recall[0]
    returns = [sum(e["return"] for e in ends) for ends in (expert, observer)]
    assert returns[0] > returns[1]


@pytest.mark.parametrize("tool_format", format_names())
def test_expert_in_other_formats(make: Any, tool_format: str) -> None:
    try:
        env = make(split="test", order="sequential", tool_format=tool_format)
    except ImportError as error:
        pytest.skip(str(error))
    assert min(e["metrics"]["recall"] for e in play(env, "expert", 5)) >= 0.8


def test_anchor_ignores_order_and_steps(make: Any) -> None:
    env = make(split="test")
    a, b = call("search", query="anomaly detection"), call("search", query="survey")

    def anchor(*replies: str) -> str:
        _, info = env.reset(options={"task_index": 0})
        for reply in replies:
            *_, info = env.step(reply)
        return info["anchor"]

    assert anchor(a, b) == anchor(b + a) == anchor(a, a, b)
    assert anchor(a) != anchor(a, b) != anchor()


def test_selectors_differ_and_are_named(make: Any) -> None:
    gold, lexical = make(split="test"), make(split="test", selector="lexical")
    scores = {}
    for env in (gold, lexical):
        task = start(env, "method")
        _, _, _, _, info = env.step(call("search", query=task["question"]))
        pool = env.unwrapped.pool
        scores[info["selector"]] = {e.paper.id: e.score for e in pool.entries.values()}
    assert scores["gold"] != scores["lexical"]
    right = [s for name, s in scores["lexical"].items() if name in task["gold"]]
    wrong = [s for name, s in scores["lexical"].items() if name not in task["gold"]]
    assert sum(right) / len(right) > sum(wrong) / max(1, len(wrong))
    with pytest.raises(ValueError, match="selector: expected one of gold, lexical"):
        make(selector="magic").reset()


def test_one_library_for_a_thousand_environments(make: Any) -> None:
    envs = [make(split="test") for _ in range(1000)]
    for i, env in enumerate(envs):
        env.reset(options={"task_index": i % 20})
    assert len({id(env.unwrapped.library) for env in envs}) == 1
    first, other = envs[0], envs[20]
    first.step(call("search", query="survey"))
    assert not other.unwrapped.pool.entries


def test_pickle_in_the_middle(make: Any) -> None:
    env = make(split="test").unwrapped
    start(env, "method")
    env.step(call("search", query="survey"))
    copy = pickle.loads(pickle.dumps(env))
    a, b = (e.step(call("search", query="benchmark results")) for e in (env, copy))
    assert a[0] == b[0] and a[1] == b[1] and a[4] == b[4]


def test_bad_arguments_and_tasks(make: Any, tmp_path: Path) -> None:
    for kwargs in ({"k": 0}, {"success_recall": 0}, {"select_threshold": 2}, {"top": 0}):
        with pytest.raises(ValueError, match=next(iter(kwargs))):
            make(**kwargs)
    with pytest.raises(ValueError, match="library_options.*colour"):
        make(library_options={"colour": 1}).reset()
    with pytest.raises(TaskDataError, match=r"papers\.json"):
        gym.make("AgentR1/PaperScout-v0", library=str(tmp_path)).reset()
    env = make()
    good = env.unwrapped.tasks[0]
    for field, value in (
        ("question", ""),
        ("question", 3),
        ("gold", []),
        ("gold", "x"),
        ("cutoff", "2020"),
        ("library", "other"),
    ):
        with pytest.raises(TaskDataError, match=field):
            env.reset(options={"task": {**good, field: value}})
    lexical = make(selector="lexical")
    lexical.reset(options={"task": {"task_id": "mine", "question": "graphs?"}})
    lexical.step(call("search", query="graph neural networks"))
    *_, info = lexical.step("done")
    assert info["score"] == 0 and not info["success"]


def test_official_rows_play(shared: Path, make: Any) -> None:
    rows = shared / "data/paper_search/autoscholarquery_dev_200.jsonl"
    env = make(tasks=str(rows), order="sequential")
    assert len(env.unwrapped.tasks) == 200
    obs, info = env.reset()
    assert info["task_id"] == "AutoScholarQuery_dev_0" and "before 2023-03-25" in obs
    env.step(call("search", query="vision"))
    *_, info = env.step("done")
    assert info["score"] == 0.0


def test_damaged_cache_is_made_again(tmp_path: Path) -> None:
    library = generated_library(size=1500, cache_dir=str(tmp_path))
    before = [p.id for p in library.search("survey", 5)]
    folder = library.folder
    (folder / "dates.npy").write_bytes(b"junk")
    again = generated_library(size=1500, cache_dir=str(tmp_path))
    assert [p.id for p in again.search("survey", 5)] == before
    assert [p.name for p in tmp_path.iterdir()] == [folder.name]


def test_live_library_fault_is_no_reward(server: ScriptedServer) -> None:
    options = {
        "arxiv_url": server.url,
        "semantic_scholar_url": server.url,
        "cache_path": "",
        "interval": 0.0,
        "backoff": 0.01,
        "tries": 2,
    }
    env = gym.make(
        "AgentR1/PaperScout-v0",
        library="semantic_scholar",
        library_options=options,
        selector="lexical",
        keep=0.0,
    )
    with pytest.raises(ValueError, match="no tasks of its own"):
        env.reset()
    task = {"task_id": "mine", "question": "Which papers treat graphs?", "gold": ["2101.00001"]}
    env.reset(options={"task": task})
    record = {"externalIds": {"ArXiv": "2101.00001v2"}, "title": "Graphs", "abstract": "On graphs"}
    server.script = [Answer(status=500), Answer(json.dumps({"data": [record]}).encode())]
    obs, *_, info = env.step(call("search", query="graphs"))
    assert "[2101.00001] Graphs" in obs and info["metrics"]["crawler_recall"] == 1.0
    server.script = [Answer(status=500)]
    with pytest.raises(EnvironmentFault, match="gave up after 2 tries"):
        env.step(call("expand", arxiv_id="2101.00001"))
    with pytest.raises(ResetNeeded):
        env.step("done")
    env.reset(options={"task": task})


def test_rewrite_context_shows_the_last_state_alone(library_options: dict[str, Any]) -> None:
    from agentr1_wrappers import make_agent_env

    env = make_agent_env(
        {
            "env_id": "AgentR1/PaperScout-v0",
            "kwargs": {"library_options": library_options, "split": "test"},
            "context": {"name": "rewrite", "fn": "agentr1_envs.paperscout.state:pool_state"},
        }
    )
    state, _ = env.reset(seed=0)
    question = env.unwrapped.question
    assert [m["role"] for m in state] == ["system", "user"] and question in state[1]["content"]
    state, _, _, _, info = env.step(call("search", query=question))
    assert [m["role"] for m in state] == ["system", "user"]
    assert state[1]["content"] == info["feedback"] and "[Search]" in info["feedback"]


def test_a_date_or_an_identifier_of_any_size_can_be_asked_for(make: Any) -> None:
    store = make().unwrapped.library.store
    count = len(store)
    assert store.rows_before(10**12) == count and store.rows_before(-(10**12)) == 0
    for row in (0, count // 2, count - 1):
        paper = store.read(row)
        assert store.row_of(paper.id) == row == store.row_of(f"{paper.id}v3")
        before = store.rows_before(paper.date)
        assert before <= row and (before == 0 or store.read(before - 1).date < paper.date)
    assert store.row_of("1") == store.row_of("") == store.row_of("9" * 500) == -1
