"""PettingZoo's own tests on both forms, and our checks of spaces, turns, rewards and ends."""

from __future__ import annotations

import json
import math
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test

import agentr1_envs  # noqa: F401 - registers the ids
from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.multi_agent import Role, as_aec, as_parallel
from agentr1_envs.paperscout import paperscout_v0
from agentr1_envs.paperscout.paperscout_v0 import CRAWLER, SELECTOR
from agentr1_envs.registration import ENVS, load

SIZE = 3000


@pytest.fixture(scope="session")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"size": SIZE, "cache_dir": str(tmp_path_factory.mktemp("literature"))}


@pytest.fixture(params=["paperscout", "roles"])
def make(request: pytest.FixtureRequest, options: dict[str, Any]) -> Callable[..., Any]:
    """Makes one of the parallel environments."""
    if request.param == "paperscout":
        return lambda **kw: paperscout_v0.parallel_env(library_options=options, **kw)
    roles = (Role("solver", "solver"), Role("critic"), Role("critic"))
    return lambda **kw: as_parallel(gym.make("AgentR1/GSM8KTool-v0"), roles, **kw)


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def test_parallel_api(make: Callable[..., Any]) -> None:
    parallel_api_test(make(), num_cycles=60)


def test_aec_api(make: Callable[..., Any]) -> None:
    api_test(as_aec(make()), num_cycles=60)


def test_seeds(make: Callable[..., Any]) -> None:
    parallel_seed_test(make, num_cycles=20)
    seed_test(lambda: as_aec(make()), num_cycles=20)


def test_aec_form_of_the_module(options: dict[str, Any]) -> None:
    env = paperscout_v0.env(library_options=options)
    api_test(env, num_cycles=20)
    env.reset(seed=1)
    assert env.observe(CRAWLER)["text"].startswith("Query: ")
    assert env.observation_space(CRAWLER).contains(env.observe(CRAWLER))
    assert env.agent_selection == CRAWLER


def test_render(make: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    env = make(render_mode="ansi")
    env.reset(seed=0)
    agent = env.active_agents()[0]
    env.step({agent: "Some words."})
    text = env.render()
    assert f"[to {agent}]" in text and f"[{agent}]\nSome words." in text
    human = make(render_mode="human")
    human.reset(seed=0)
    assert f"[to {agent}]" in capsys.readouterr().out and human.render() is None
    assert make().render() is None
    with pytest.raises(ValueError, match="render_mode"):
        make(render_mode="video")


def test_every_observation_lies_in_its_space(make: Callable[..., Any]) -> None:
    env = make()
    for episode in range(6):
        observations, infos = env.reset(seed=episode)
        rounds = 0
        while env.agents:
            assert set(observations) == set(infos) == set(env.agents) == set(env.possible_agents)
            for agent, text in observations.items():
                assert env.observation_space(agent).contains(text)
                assert env.observation_space(agent) is env.observation_space(agent)
                assert infos[agent]["task_id"]
            active = [agent for agent in env.agents if infos[agent]["active"]]
            assert active == env.active_agents()
            actions = {agent: env.action_space(agent).sample() for agent in active}
            if rounds < 6:
                actions = {agent: f"{text} {call('search', query=text)}" for agent, text in
                           actions.items()}  # fmt: skip
            observations, rewards, terminations, truncations, infos = env.step(actions)
            rounds += 1
            assert set(rewards) == set(terminations) == set(truncations) == set(observations)
            assert not any(terminations[a] and truncations[a] for a in rewards)
        for agent, text in observations.items():
            assert env.observation_space(agent).contains(text)
            assert 0 <= infos[agent]["score"] <= 1 and infos[agent]["stop_reason"]
            assert infos[agent]["active"] is False
        with pytest.raises(ResetNeeded):
            env.step({agent: "x" for agent in env.possible_agents})


def test_infos_share_nothing(make: Callable[..., Any]) -> None:
    env = make()
    _, infos = env.reset(seed=3)
    agent = env.active_agents()[0]
    _, _, _, _, later = env.step({agent: call("calculator", expression="1+1")})
    seen: set[int] = set()

    def walk(value: Any) -> None:
        if isinstance(value, dict | list):
            assert id(value) not in seen
            seen.add(id(value))
            for item in value.values() if isinstance(value, dict) else value:
                walk(item)

    for info in (*infos.values(), *later.values()):
        walk(info)


def test_actions_are_checked(make: Callable[..., Any]) -> None:
    env = make()
    with pytest.raises(ResetNeeded):
        env.step({})
    env.reset(seed=0)
    with pytest.raises(KeyError, match="which is active"):
        env.step({})
    with pytest.raises(TypeError, match="an action is a str"):
        env.step({env.active_agents()[0]: 3})


def judge(env: Any, right: Callable[[str], bool]) -> str:
    """A selection of the shown candidates."""
    names = re.findall(r"^\[(\S+)\]", env._observe(SELECTOR), re.MULTILINE)
    return call("select", arxiv_ids=[name for name in names if right(name)])


def crawl(env: Any, policy: Any, obs: str, info: dict[str, Any]) -> str:
    return policy.act(obs, info)


def play(options: dict[str, Any], right: Callable[[Any, str], bool], **kwargs: Any) -> Any:
    """An episode of the expert crawler with a selector of that taste; returns and last infos."""
    env = paperscout_v0.parallel_env(library_options=options, split="test", **kwargs)
    observations, infos = env.reset(seed=5)
    policy = load(ENVS["AgentR1/PaperScout-v0"].experts["expert"])(env.env)
    policy.reset(observations[CRAWLER], infos[CRAWLER])
    totals = {CRAWLER: 0.0, SELECTOR: 0.0}
    while env.agents:
        if env.active_agents() == [CRAWLER]:
            action = policy.act(observations[CRAWLER], infos[CRAWLER])
            actions = {CRAWLER: action}
        else:
            actions = {SELECTOR: judge(env, lambda name: right(env, name))}
        observations, rewards, _, _, infos = env.step(actions)
        for agent, reward in rewards.items():
            totals[agent] += reward
    return env, totals, infos


def test_crawler_and_selector(options: dict[str, Any]) -> None:
    env, totals, infos = play(options, lambda env, name: name in env.env.gold, individual=0.0)
    # The shared reward sums to the final F1, for both.
    assert totals[CRAWLER] == pytest.approx(infos[CRAWLER]["score"]) == 1.0
    assert totals[SELECTOR] == pytest.approx(1.0) and infos[SELECTOR]["success"]
    assert set(env.selection) == set(env.env.gold)
    _, totals, _ = play(options, lambda env, name: name in env.env.gold, shared=0.0)
    assert totals[SELECTOR] == pytest.approx(len(env.env.gold))
    _, totals, infos = play(options, lambda env, name: False, shared=0.0)
    assert totals[SELECTOR] == pytest.approx(-0.5 * len(env.env.gold))
    assert infos[SELECTOR]["score"] == 0 and not infos[SELECTOR]["success"]
    _, totals, infos = play(options, lambda env, name: True, shared=0.0)
    assert 0 < infos[SELECTOR]["score"] < 1


def test_candidates_do_not_give_the_judge_away(options: dict[str, Any]) -> None:
    env = paperscout_v0.parallel_env(library_options=options, split="test")
    env.reset(seed=5)
    observations, *_ = env.step({CRAWLER: call("search", query=env.env.question)})
    names = re.findall(r"^\[(\S+)\]", observations[SELECTOR], re.MULTILINE)
    assert names == sorted(names) and len(names) > 3
    assert "(score" not in observations[SELECTOR]
    # Nothing is in the crawler's pool before it was judged.
    assert "Papers not expanded yet: none" in observations[CRAWLER]
    observations, *_ = env.step({SELECTOR: call("select", arxiv_ids=names[:2])})
    shown = re.findall(r"^\[(\S+)\].*\(score (\S+)\)", observations[CRAWLER], re.MULTILINE)
    assert {n for n, score in shown if score == "1.00"} == set(names[:2])


def test_found_and_expanded_in_one_reply(options: dict[str, Any]) -> None:
    env = paperscout_v0.parallel_env(library_options=options, split="test")
    env.reset(seed=5)
    found = env.env.library.search(env.env.question, 1, env.env.cutoff)[0].id
    reply = call("search", query=env.env.question) + call("expand", arxiv_id=found)
    env.step({CRAWLER: reply})
    observations, *_ = env.step({SELECTOR: "none"})
    assert "Expanded papers (1):" in observations[CRAWLER]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (call("select", arxiv_ids=["9999.00001"]), "unknown_paper"),
        (call("select", arxiv_ids="all"), "arguments"),
        (call("search", query="x"), "unknown_tool"),
        ("<tool_call>{", "parse_"),
    ],
)
def test_selector_errors(options: dict[str, Any], reply: str, kind: str) -> None:
    env = paperscout_v0.parallel_env(library_options=options, split="test")
    env.reset(seed=5)
    env.step({CRAWLER: call("search", query=env.env.question)})
    _, _, _, _, infos = env.step({SELECTOR: reply})
    assert infos[SELECTOR]["agent_error"]["kind"].startswith(kind)
    assert "agent_error" not in infos[CRAWLER]


def test_roles_turns(tmp_path: Path) -> None:
    seen: list[Any] = []
    roles = (
        Role("solver", "solver"),
        Role("checker", reward=lambda step: (seen.append(step), 0.25)[1]),
    )
    env = as_parallel(gym.make("AgentR1/GSM8KTool-v0", split="test"), roles)
    observations, infos = env.reset(seed=2)
    question = observations["solver_0"]
    assert infos["solver_0"]["phase"] == "draft"
    observations, rewards, _, _, infos = env.step({"solver_0": "#### 1"})
    assert "#### 1" in observations["checker_0"] and question in observations["checker_0"]
    assert "#### 1" not in observations["solver_0"] and set(rewards.values()) == {0.0}
    observations, *_ = env.step({"checker_0": "Wrong, count again.", "solver_0": "ignored"})
    assert "checker_0 says:\nWrong, count again." in observations["solver_0"]
    answer = env.env.unwrapped.task["answer"]
    _, rewards, terminations, _, infos = env.step({"solver_0": f"#### {answer}"})
    assert rewards == {"solver_0": 1.0, "checker_0": 0.25} and all(terminations.values())
    assert infos["checker_0"]["success"] and not env.agents
    assert (seen[0].draft, seen[0].comments) == ("#### 1", {"checker_0": "Wrong, count again."})
    assert "critic" in env.system_prompt("checker_0") and env.tools("checker_0") == []
    assert env.tools("solver_0") and "draft" in env.system_prompt("solver_0")


def test_roles_are_checked() -> None:
    env = gym.make("AgentR1/GSM8KTool-v0")
    for roles in ((), (Role("a"),), (Role("a", "solver"), Role("b", "solver"))):
        with pytest.raises(ValueError, match="exactly one solver"):
            as_parallel(env, roles)
    with pytest.raises(ValueError, match="kind 'boss'"):
        as_parallel(env, (Role("a", "boss"),))


def test_alone(make: Callable[..., Any]) -> None:
    """Without critics the solver plays the task itself, step for step."""
    alone = as_parallel(gym.make("AgentR1/GSM8KTool-v0"), (Role("solver", "solver"),))
    single = gym.make("AgentR1/GSM8KTool-v0")
    observations, _ = alone.reset(seed=4)
    expected, _ = single.reset(seed=4)
    assert expected in observations["solver_0"]
    for action in (call("calculator", expression="2*3"), "#### 5"):
        result, wanted = alone.step({"solver_0": action}), single.step(action)
        assert result[1]["solver_0"] == wanted[1] and result[2]["solver_0"] == wanted[2]


def test_the_worked_example(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.docs.test_docs import load_example

    example = load_example("solver_critic")
    assert example.main(5) == {"solver_0": pytest.approx(1.0), "critic_0": pytest.approx(1.0)}
    monkeypatch.setattr(example.Critic, "act", lambda *_: "Fine.")
    assert example.main(5) == {"solver_0": 0.0, "critic_0": 0.0}


def test_a_copy_goes_on_as_the_original(make: Callable[..., Any]) -> None:
    env = make()
    env.reset(seed=3)
    for _ in range(4):
        copy = pickle.loads(pickle.dumps(env))
        actions = {agent: call("search", query="theory") for agent in env.active_agents()}
        result = env.step(actions)
        assert result == copy.step(actions)
        if not env.agents:
            break


def test_no_critic_crowds_out_another() -> None:
    roles = (Role("solver", "solver"), Role("critic"), Role("critic"))
    env = as_parallel(gym.make("AgentR1/GSM8KTool-v0"), roles)
    first, _ = env.reset(seed=0)
    env.step({"solver_0": "d" * 900_000})
    seen = env.step({"critic_0": "x" * 900_000, "critic_1": "Mind the units."})[0]["solver_0"]
    assert len(seen) <= env.max_chars and seen.startswith(first["solver_0"])
    assert "[cut]" not in seen and seen.endswith("critic_1 says:\nMind the units.")


def test_a_reward_that_is_no_number_is_a_fault() -> None:
    roles = (Role("solver", "solver", reward=lambda record: math.nan),)
    env = as_parallel(gym.make("AgentR1/GSM8KTool-v0"), roles)
    env.reset(seed=0)
    with pytest.raises(EnvironmentFault, match="gave solver_0 the reward nan"):
        env.step({"solver_0": "#### 1"})
    with pytest.raises(ResetNeeded):
        env.step({"solver_0": "#### 1"})
