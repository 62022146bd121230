"""Every environment as a model's input: `make_agent_env` over each id and context rule."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import pytest
from agentr1_wrappers import ChatPrompt, RecordTransitions, make_agent_env, reset_options

from .helpers import IDS, JUNK, Mixed, containers, empty

each_id = pytest.mark.parametrize("env_id", IDS)
each_context = pytest.mark.parametrize("context", ["append", "window:1"])
STEPS = 25


def played(env: ChatPrompt, seed: int, *, spoil: bool = False) -> list[dict[str, Any]]:
    """A trajectory of a mixed policy, as JSON text; `spoil` empties what was handed out."""
    policy = Mixed(env, seed)
    state, info = env.reset(seed=seed)
    record: list[dict[str, Any]] = []

    def note(**more: Any) -> tuple[str, dict[str, Any]]:
        feedback, kept = info["feedback"], json.loads(json.dumps(info))
        record.append(json.loads(json.dumps({"state": state, "info": info, **more})))
        assert env.observation_space.contains(state)
        if spoil:
            empty((state, info))
        return feedback, kept

    seen = note()
    policy.reset(*seen)
    for _ in range(STEPS):
        action = policy.act(*seen)
        state, reward, terminated, truncated, info = env.step(action)
        seen = note(action=action, reward=float(reward), terminated=terminated, truncated=truncated)
        if terminated or truncated:
            state, info = env.reset()
            seen = note()
            policy.reset(*seen)
    return record


@each_context
@each_id
def test_states(env_id: str, context: str) -> None:
    env = make_agent_env({"env_id": env_id, "context": context})
    base = env.unwrapped
    record = played(env, 5)
    last: list[Any] = []
    for step in record:
        state = step["state"]
        text = json.dumps(state, ensure_ascii=False)
        # Never dropped: the rules and the last observation.
        assert state[0] == {"role": "system", "content": base.system_prompt}  # type: ignore[attr-defined]
        assert step["info"]["feedback"] in state[-1]["content"]
        if "action" not in step:
            assert len(state) == 2 and step["info"]["tools"] == base.tools  # type: ignore[attr-defined]
        elif context == "append":
            assert state[: len(last)] == last, "the next state begins with this one"
            assert {"role": "assistant", "content": step["action"]}.items() <= state[-2].items()
        else:
            assert len(state) <= 5
        assert text
        last = state
    assert played(env, 5) == record


@each_id
def test_the_task_is_in_every_state(env_id: str) -> None:
    env = make_agent_env({"env_id": env_id, "context": "window:1"})
    env.reset(seed=2)
    task = " ".join(env.unwrapped.task_text.split())  # type: ignore[attr-defined]
    for reply in JUNK[:6]:
        state, _, terminated, truncated, _ = env.step(reply)
        text = " ".join(" ".join(message["content"] for message in state).split())
        assert task in text
        if terminated or truncated:
            break


@each_context
@each_id
def test_nothing_is_shared_and_nothing_can_be_spoiled(env_id: str, context: str) -> None:
    spec = {"env_id": env_id, "context": context}
    if "HotpotQA" in env_id and context != "append":
        spec["context"] = "rewrite"  # looks back at calls and errors
    assert played(make_agent_env(spec), 9, spoil=True) == played(make_agent_env(spec), 9)
    env = make_agent_env(spec)
    seen: dict[int, Any] = {}
    items: Any = env.reset(seed=1)
    for reply in JUNK[:6]:
        for item in containers(items):
            assert id(item) not in seen
            seen[id(item)] = item
        state, _, terminated, truncated, info = env.step(reply)
        items = (state, info) if not (terminated or truncated) else env.reset()


@each_id
def test_a_row_restores_its_task(env_id: str) -> None:
    env = make_agent_env({"env_id": env_id})
    env.reset(seed=3)
    task = env.unwrapped.task  # type: ignore[attr-defined]
    row = json.dumps({"env_id": env_id, "options": {"task": task}}, ensure_ascii=False)
    other = make_agent_env(row)
    _, info = other.reset(options=reset_options(row))
    assert info["task_id"] == task["task_id"]
    assert other.unwrapped.task == task  # type: ignore[attr-defined]


@each_id
def test_refuses_steps_after_the_end(env_id: str) -> None:
    env = make_agent_env({"env_id": env_id, "kwargs": {"max_steps": 1}})
    env.reset(seed=0)
    *_, info = env.step("数学 🙂")
    assert {"success", "score", "stop_reason"} <= set(info)
    with pytest.raises(gym.error.ResetNeeded):
        env.step("x")


@each_id
def test_conversations_cross_process_borders(env_id: str) -> None:
    """AsyncVectorEnv with its default shared memory returns what a single environment returns."""
    spec = {"env_id": env_id}
    envs = gym.vector.AsyncVectorEnv([lambda: make_agent_env(spec)] * 2)
    single = make_agent_env(spec)
    try:
        states, _ = envs.reset(seed=[4, 5])
        assert tuple(states[0]) == single.reset(seed=4)[0]
        for reply in ("数学 🙂", "x"):
            states, *_ = envs.step((reply, "y"))
            state, _, terminated, truncated, _ = single.step(reply)
            assert tuple(states[0]) == state
            if terminated or truncated:
                break
    finally:
        envs.close()


@each_id
def test_records_can_not_be_spoiled(env_id: str) -> None:
    def recorded(spoil: bool) -> list[Any]:
        env = RecordTransitions(make_agent_env({"env_id": env_id}))
        policy = Mixed(env, 7)
        state, info = env.reset(seed=7)
        policy.reset(info["feedback"], info)
        for _ in range(STEPS):
            action = policy.act(info["feedback"], info)
            if spoil:
                empty((state, info))
            state, _, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                if spoil:
                    empty((state, info))
                state, info = env.reset()
                policy.reset(info["feedback"], info)
        return [step for episode in env.episodes for step in map(repr, episode.transitions)]

    assert recorded(True) == recorded(False)
