"""The environment: rewards, ends, errors, tools, formats."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import pytest

import agentr1_envs  # noqa: F401
from agentr1_envs.errors import TaskDataError
from agentr1_envs.gsm8k_tool.expert import Expert
from agentr1_envs.gsm8k_tool.observer import Observer
from agentr1_envs.tool_formats import ToolCall, format_names, get_format

ID = "AgentR1/GSM8KTool-v0"
TASK = {"task_id": "t", "question": "What is 6 times 7?", "answer": "42"}


def start(**kwargs: Any) -> gym.Env[str, str]:
    env = gym.make(ID, **kwargs)
    env.reset(options={"task": TASK})
    return env


def call(expression: Any, tool: str = "calculator", key: str = "expression") -> str:
    arguments = json.dumps({"name": tool, "arguments": {key: expression}})
    return f"<tool_call>{arguments}</tool_call>"


def play(env: gym.Env[str, str], policy: Any, seed: int | None) -> dict[str, Any]:
    observation, info = env.reset(seed=seed)
    policy.reset(observation, info)
    total, ended = 0.0, False
    while not ended:
        observation, reward, terminated, truncated, info = env.step(policy.act(observation, info))
        total, ended = total + float(reward), terminated or truncated
    return {**info, "return": total}


@pytest.mark.parametrize("policy", [Expert, Observer])
@pytest.mark.parametrize("difficulty", ["easy", "hard", "mixed"])
@pytest.mark.parametrize("templates", ["core", "held_out"])
def test_scripted_policies_solve_every_task(policy: Any, difficulty: str, templates: str) -> None:
    env = gym.make(ID, difficulty=difficulty, templates=templates, split="test")
    scripted = policy(env)
    for episode in range(200):
        info = play(env, scripted, 0 if episode == 0 else None)
        assert info["success"] and info["score"] == info["return"] == 1.0
        assert info["stop_reason"] == "answer" and "agent_error" not in info
        assert info["step"] == len(env.unwrapped.task["calls"]) + 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", format_names())
def test_every_tool_format(name: str) -> None:
    env = gym.make(ID, tool_format=name, difficulty="mixed", system_prompt="full")
    expert, observer = Expert(env), Observer(env)
    for seed in range(20):
        assert play(env, expert, seed)["success"] and play(env, observer, seed)["success"]
    prompt = env.unwrapped.system_prompt  # type: ignore[attr-defined]
    example = get_format(name).render([ToolCall("calculator", {"expression": "3*4"})])
    assert example in prompt and "#### 42" in prompt


def test_prompts_are_short_or_full_or_given() -> None:
    def prompt(**kwargs: Any) -> str:
        return gym.make(ID, **kwargs).unwrapped.system_prompt  # type: ignore[attr-defined]

    assert len(prompt()) < 200 and "####" in prompt()
    assert len(prompt(system_prompt="full")) > 400
    assert prompt(system_prompt="Say {x} hi") == "Say {x} hi"


def test_a_right_answer_pays_once() -> None:
    env = start()
    assert env.unwrapped.task_text == TASK["question"]  # type: ignore[attr-defined]
    observation, reward, terminated, truncated, info = env.step(call("6*7"))
    assert (observation, reward, terminated, truncated) == ("42", 0.0, False, False)
    assert info["tool_calls"][0]["result"] == "42"
    _, reward, terminated, _, info = env.step("I think so.\n#### 42 apples")
    assert (reward, terminated, info["success"], info["score"]) == (1.0, True, True, 1.0)
    with pytest.raises(gym.error.ResetNeeded):
        env.step("#### 42")


@pytest.mark.parametrize("reply", ["#### 41", "#### nan", "####", "#### 42 or 41", "#### inf"])
def test_wrong_answers_end_without_a_reward(reply: str) -> None:
    _, reward, terminated, truncated, info = start().step(reply)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert (info["success"], info["score"], info["stop_reason"]) == (False, 0.0, "answer")


def test_a_result_of_a_tool_is_no_answer() -> None:
    env = start()
    _, reward, terminated, _, info = env.step("#### 42\n" + call("6*7"))
    assert (reward, terminated, info["tool_calls"][0]["result"]) == (0.0, False, "42")
    _, reward, terminated, _, _ = env.step("<think>#### 41</think> 42")
    assert (reward, terminated) == (0.0, False)


ERRORS = [
    ("forty-two", "no_answer", "####"),
    ("", "no_answer", "####"),
    (call("1/0"), "calculator", "division by zero"),
    (call("9**9**9"), "calculator", "exponent"),
    (call("__import__('os')"), "calculator", "no names"),
    (call("3", tool="search"), "unknown_tool", "calculator"),
    (call("3", key="x"), "arguments", "expression"),
    (call([1]), "arguments", "expression"),
    ("<tool_call>{'name'</tool_call>", "parse_single_quotes", "double quotes"),
    ('<tool_call>{"name": "calculator", "argu', "parse_truncated", "inside a string"),
]


@pytest.mark.parametrize(("reply", "kind", "part"), ERRORS)
def test_agent_errors_are_steps(reply: str, kind: str, part: str) -> None:
    env = start(error_penalty=0.25)
    observation, reward, terminated, truncated, info = env.step(reply)
    assert (reward, terminated, truncated) == (-0.25, False, False)
    assert info["agent_error"]["kind"] == kind
    assert part in observation and len(observation) < 300


def test_limits() -> None:
    env = start(max_steps=2)
    env.step(call("1+1"))
    _, _, terminated, truncated, info = env.step(call("1+1"))
    assert (terminated, truncated, info["stop_reason"]) == (False, True, "max_steps")
    assert (info["success"], info["score"]) == (False, 0.0)
    env = start(max_steps=1)
    assert env.step("#### 42")[2:4] == (True, False), "terminated wins"
    env = start(max_errors=1)
    assert env.step("?")[4]["stop_reason"] == "max_errors"
    reply = "".join(call(f"{n}+0") for n in range(6))
    observation, _, _, _, info = start(max_calls=2).step(reply)
    assert [c["result"] for c in info["tool_calls"]] == ["0", "1"]
    assert "not run" in observation and info["agent_error"]["kind"] == "too_many_calls"


def test_the_oracle_is_off_by_default_and_pays_nothing() -> None:
    names = [t["function"]["name"] for t in gym.make(ID).unwrapped.tools]  # type: ignore[attr-defined]
    assert names == ["calculator"]
    asked = call("42", tool="calc_gsm8k_reward", key="answer")
    assert start().step(asked)[4]["agent_error"]["kind"] == "unknown_tool"
    env = start(reward_tool=True)
    for answer, result in (("42", "1.0"), ("so\n#### 42", "1.0"), ("41", "0.0"), ("nan", "0.0")):
        observation, reward, terminated, _, _ = env.step(
            call(answer, tool="calc_gsm8k_reward", key="answer")
        )
        assert (observation, reward, terminated) == (result, 0.0, False)


def test_anchors() -> None:
    def anchors(*replies: str) -> list[str]:
        env = gym.make(ID)
        found = [env.reset(options={"task": TASK})[1]["anchor"]]
        return found + [env.step(reply)[4]["anchor"] for reply in replies]

    one, other = anchors(call("6*7"), call("1+1")), anchors(call("7*6"), call("2*1"))
    assert one == other, "equal results are equal states"
    assert len(set(one)) == 3
    idle = anchors("?", "!", call("1/0"))
    assert len(set(idle)) == 1, "steps that change nothing leave the state as it is"
    assert anchors("#### 41")[1] != anchors("#### 42")[1]


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"task_id": "t"}, "question"),
        ({"task_id": "t", "question": " ", "answer": "1"}, "question"),
        ({"task_id": "t", "question": "q", "answer": 42}, "answer"),
        ({"task_id": "t", "question": "q", "answer": "x"}, "answer"),
        ({"task_id": "t", "question": "q", "answer": "nan"}, "answer"),
    ],
)
def test_bad_tasks_are_refused(row: dict[str, Any], field: str) -> None:
    with pytest.raises(TaskDataError, match=field):
        gym.make(ID).reset(options={"task": row})


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"difficulty": "x"}, "difficulty.*expected one of.*easy"),
        ({"templates": "x"}, "templates.*expected one of.*core"),
        ({"num_tasks": 0}, "num_tasks"),
        ({"tool_format": "x"}, "tool_format.*hermes"),
    ],
)
def test_bad_arguments_are_refused(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gym.make(ID, **kwargs)
