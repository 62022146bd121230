from __future__ import annotations

import json

import gymnasium as gym
import pytest
from agentr1_wrappers import (
    ChatPrompt,
    ContextOverflow,
    ContextRule,
    InvalidActionPenalty,
    Window,
    make_agent_env,
    make_context,
    reset_options,
)
from agentr1_wrappers.augment import admissible_actions
from gymnasium.error import ResetNeeded

from tests.core.toy import ToyEnv, call

if "ToyTool-v0" not in gym.registry:
    gym.register("ToyTool-v0", "tests.core.toy:ToyEnv")


def roles(state) -> list[str]:
    return [message["role"] for message in state]


def test_append_grows_by_two_messages_a_step() -> None:
    env = ChatPrompt(ToyEnv())
    state, info = env.reset(options={"task_index": 3})
    assert state == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "数3🙂é"},
    )
    assert info["tools"][0]["function"]["name"] == "add" and info["feedback"] == "数3🙂é"
    later, *_ = env.step(call("add", a=1))
    assert later[:2] == state and roles(later[2:]) == ["assistant", "tool"]
    assert later[3]["content"] == "3" and env.observation_space.contains(later)


def test_states_share_nothing() -> None:
    env = ChatPrompt(ToyEnv())
    state, _ = env.reset(seed=0)
    kept = json.dumps(state)
    later, *_ = env.step("<tool_call>{")
    later[0]["content"] = "changed"
    assert json.dumps(state) == kept
    assert env.step(call("add", a=1))[0][0]["content"] == "Be brief."


def test_window_keeps_head_and_last_turns() -> None:
    env = ChatPrompt(ToyEnv(max_steps=9), context=Window(2))
    env.reset(options={"task_index": 3})
    for i in range(4):
        state, *_ = env.step(call("add", a=i))
    assert roles(state) == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert state[1]["content"] == "数3🙂é\n[2 earlier turns left out]"
    assert [state[3]["content"], state[5]["content"]] == ["4", "5"]


def test_tools_in_the_system_message_for_plain_templates() -> None:
    env = ChatPrompt(ToyEnv(), tool_prompt=True)
    state, info = env.reset(seed=0)
    assert "add" in state[0]["content"] and info["tools"] == []
    assert roles(env.step(call("add", a=1))[0])[-1] == "tool"
    env = ChatPrompt(ToyEnv(), tool_prompt=True, feedback_role="user")
    env.reset(seed=0)
    assert roles(env.step(call("add", a=1))[0])[-1] == "user"


def test_overflow_ends_the_episode_with_its_reason() -> None:
    class Short(ContextRule):
        def render(self, context):
            if len(context.turns) > 1:
                raise ContextOverflow("too long", "prompt_budget")
            return context.head()

    env = ChatPrompt(ToyEnv(), context=Short())
    env.reset(seed=0)
    assert not env.step(call("add", a=1))[3]
    state, _, terminated, truncated, info = env.step(call("add", a=1))
    assert (terminated, truncated, info["stop_reason"]) == (False, True, "prompt_budget")
    assert info["success"] is False and info["score"] == 0.0 and state
    with pytest.raises(ResetNeeded):
        env.step("x")


def test_penalty_for_chosen_kinds() -> None:
    env = InvalidActionPenalty(ToyEnv(), 0.5, ["unknown_tool"])
    env.reset(seed=0)
    assert env.step(call("nope"))[1] == -0.5 and env.step("<tool_call>{")[1] == 0
    with pytest.raises(ValueError, match="penalty"):
        InvalidActionPenalty(ToyEnv(), -1)


def test_factory_from_plain_data() -> None:
    spec = {
        "env_id": "ToyTool-v0",
        "kwargs": {"max_steps": 2},
        "options": {"task_index": 5},
        "context": {"name": "window", "k": 1},
        "wrappers": [{"name": "invalid_action_penalty", "penalty": 0.25}],
        "tool_format": "hermes",
    }
    env = make_agent_env(json.dumps(spec))
    _, info = env.reset(options=reset_options(spec))
    assert info["task_id"].endswith("/5") and isinstance(env.context, Window)
    assert env.step("<tool_call>{")[1] == -0.25


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"env": "ToyTool-v0"}, "unknown keys"),
        ({}, "env_id"),
        ("{", "neither an id nor JSON"),
        ("[1]", "object"),
        ({"env_id": "ToyTool-v0", "context": "widow"}, "unknown context"),
        ({"env_id": "ToyTool-v0", "context": "window:two"}, "name:number"),
        ({"env_id": "ToyTool-v0", "wrappers": ["nope"]}, "unknown wrapper"),
        ({"env_id": "ToyTool-v0", "augment": ["nope"]}, "unknown augmentation"),
        ({"env_type": "tool", "tools": ["nope"]}, "Agent-R1"),
    ],
)
def test_wrong_specs_name_what_is_wrong(spec, message) -> None:
    with pytest.raises(ValueError, match=message):
        make_agent_env(spec)


def test_agent_r1_form_is_translated() -> None:
    from agentr1_wrappers.agent_env import read_spec

    spec = {
        "env_type": "tool",
        "tools": ["calc_gsm8k_reward"],
        "tool_format": "hermes",
        "tools_kwargs": {},
    }
    assert read_spec(spec) == {
        "env_id": "AgentR1/GSM8KTool-v0",
        "kwargs": {"reward_tool": True},
        "tool_format": "hermes",
    }


def test_agent_r1_tools_name_one_environment() -> None:
    from agentr1_wrappers.agent_env import read_spec

    def env_id(*tools: str) -> str:
        return read_spec({"env_type": "tool", "tools": tools})["env_id"]

    assert env_id("search") == "AgentR1/HotpotQA-v0"
    assert env_id("expand", "search") == "AgentR1/PaperScout-v0"
    with pytest.raises(ValueError, match="named by 'env_id'"):
        env_id("env_step")


def test_contexts_by_name() -> None:
    assert make_context("append").splices and make_context(None).splices
    assert make_context("window:4").k == 4  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="at least 1"):
        make_context("window:0")


def test_admissible_actions_are_added_to_the_last_message() -> None:
    class Listed(ToyEnv):
        def _admissible(self):
            return ["go north", "wait"]

    env = ChatPrompt(Listed(), augment=[admissible_actions])
    state, _ = env.reset(seed=0)
    assert state[-1]["content"].endswith("Admissible actions:\ngo north\nwait")
    later, *_ = env.step(call("add", a=1))
    assert later[-1]["content"].startswith("3\n\nAdmissible")
    assert "Admissible" not in later[1]["content"]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"wrappers": ["os:system"]}, "gymnasium.Wrapper"),
        ({"wrappers": ["subprocess:Popen"]}, "gymnasium.Wrapper"),
        ({"wrappers": ["nosuch_module:Thing"]}, "nosuch_module"),
        ({"wrappers": [5]}, "unknown wrapper 5"),
        ({"wrappers": 5}, "'wrappers'.*a list, got 5"),
        ({"kwargs": 5}, "'kwargs'.*an object, got 5"),
        ({"options": 5}, "'options'.*an object, got 5"),
        ({"augment": 5}, "'augment'.*a list, got 5"),
        ({"context": 5}, "a context is a name"),
        ({"context": {"name": ["window"]}}, "unknown context"),
        ({"context": {"name": "window", "k": "x"}}, "context .*'x'"),
        ({"context": {"name": "window", "n": 3}}, "unexpected keyword argument 'n'"),
        ({"context": "append:3"}, "context 'append:3'"),
    ],
)
def test_a_wrong_spec_is_named_and_calls_nothing(part, message) -> None:
    with pytest.raises(ValueError, match=message):
        make_agent_env({"env_id": "AgentR1/GSM8KTool-v0", **part})
