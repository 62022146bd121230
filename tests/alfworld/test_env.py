"""`AgentR1/ALFWorld-v0` as its users meet it."""

from __future__ import annotations

import pickle
import resource
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded

import agentr1_envs  # noqa: F401
from agentr1_envs.alfworld.expert import Expert
from agentr1_envs.alfworld.observer import Observer, Surveyor, parse_goal
from agentr1_envs.errors import TaskDataError
from agentr1_envs.task_set import TaskSet

from .common import HOUSE, row

ID = "AgentR1/ALFWorld-v0"


def episode(env, policy_class, **reset):
    obs, info = env.reset(**reset)
    policy = policy_class(env)
    policy.reset(obs, info)
    rewards = []
    while True:
        obs, reward, terminated, truncated, info = env.step(policy.act(obs, info))
        rewards.append(reward)
        if terminated or truncated:
            return rewards, info


def small(**changes):
    return {"task_id": "small", "goal": "put a mug in shelf", "pddl_problem": HOUSE, **changes}


@pytest.mark.parametrize("action_format", ["command", "think_action", "tool"])
def test_experts_win(action_format):
    env = gym.make(ID, split="test", order="sequential", action_format=action_format)
    for _ in range(12):
        rewards, info = episode(env, Expert)
        assert info["success"] is True and info["score"] == 1.0 and info["stop_reason"] == "won"
        assert sum(rewards) == rewards[-1] == 1.0 and info["step"] <= 30
        assert info["metrics"]["goal_condition_success"] == 1.0
        with pytest.raises(ResetNeeded):
            env.step("look")


def test_the_observer_finds_its_way_without_the_state():
    env = gym.make(ID, split="test", order="sequential")
    wins = sum(episode(env, Observer)[1]["success"] for _ in range(60))
    assert wins >= 54


def test_the_surveyor_wins_later():
    lengths = {}
    for script in (Observer, Surveyor):
        env = gym.make(ID, split="test", order="sequential", difficulty="easy")
        ends = [episode(env, script)[1] for _ in range(24)]
        assert all(info["success"] for info in ends)
        lengths[script] = [info["step"] for info in ends]
    assert sum(lengths[Surveyor]) > sum(lengths[Observer]) + 3 * 24


def test_the_observer_reads_screens_only():
    class Screen:
        """An environment with nothing to peek into."""

        unwrapped = property(lambda self: self)
        format_action = staticmethod(lambda command: command)

    env = gym.make(ID, split="test")
    obs, info = env.reset(seed=4)
    policy = Observer(Screen())
    policy.reset(obs, info)
    for _ in range(50):
        obs, _, terminated, truncated, info = env.step(policy.act(obs, info))
        if terminated or truncated:
            break
    assert info["success"]


@pytest.mark.parametrize("script", [Expert, Observer])
def test_the_scripts_play_through_a_chat_prompt(script):
    from agentr1_wrappers import make_agent_env

    env = make_agent_env({"env_id": ID, "kwargs": {"split": "test", "action_format": "tool"}})
    for seed in range(3):
        assert episode(env, script, seed=seed)[1]["success"]


def test_acting_at_random_or_not_at_all_does_not_score():
    env = gym.make(ID, split="test", order="sequential", max_steps=50)
    wins = 0
    for i in range(60):
        _, info = env.reset(seed=i if i == 0 else None)
        done = False
        while not done:
            actions = info["admissible_actions"]
            action = actions[env.unwrapped.np_random.integers(len(actions))]
            _, _, terminated, truncated, info = env.step(action)
            done = terminated or truncated
        wins += info["success"]
    assert wins <= 3


def test_info():
    env = gym.make(ID)
    obs, info = env.reset(seed=7)
    assert obs.startswith("-= Welcome to TextWorld, ALFRED! =-")
    assert env.unwrapped.task_text in obs
    assert info["admissible_actions"] == sorted(info["admissible_actions"])
    assert info["step"] == 0 and "agent_error" not in info
    start = info["anchor"]
    _, reward, terminated, truncated, info = env.step("look")
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["anchor"] == start
    place = next(a for a in info["admissible_actions"] if a.startswith("go to "))
    _, _, _, _, info = env.step(place)
    assert info["anchor"] != start
    info["admissible_actions"].clear()
    assert env.step("look")[4]["admissible_actions"]
    assert env.reset(seed=7)[1]["anchor"] == start


def test_same_seed_same_episode_in_two_environments():
    one, other = gym.make(ID), gym.make(ID)
    for seed in (0, 1, None):
        a, b = one.reset(seed=seed), other.reset(seed=seed)
        assert a == b
        assert one.step(a[1]["admissible_actions"][0]) == other.step(a[1]["admissible_actions"][0])


def test_a_command_that_does_nothing_is_an_agent_error():
    env = gym.make(ID, error_penalty=0.1, max_errors=2)
    env.reset(seed=1)
    obs, reward, _, truncated, info = env.step("fly to the moon")
    assert obs == "Nothing happens."
    assert info["agent_error"]["kind"] == "inadmissible" and reward == -0.1 and not truncated
    _, _, _, truncated, info = env.step("x" * 100_000)
    assert truncated and info["stop_reason"] == "max_errors" and info["success"] is False
    assert len(info["agent_error"]["message"]) < 1000


def test_fifty_steps():
    env = gym.make(ID)
    env.reset(seed=1)
    for step in range(1, 51):
        _, _, terminated, truncated, info = env.step("look")
        assert not terminated and truncated == (step == 50)
    assert info["stop_reason"] == "max_steps" and info["score"] == 0.0


@pytest.mark.parametrize(
    "reply",
    [
        "look",
        "<action>look</action>",
        "<think>hm</think>",
        "<think>hm</think><action>look",
        "<think>a</think><action>look</action><action>look</action>",
        "<action>look</action><think>after</think>",
        "",
    ],
)
def test_think_action_replies_that_hold_no_command(reply):
    env = gym.make(ID, action_format="think_action")
    env.reset(seed=1)
    obs, _, _, _, info = env.step(reply)
    assert obs.startswith("Nothing happens. ") and info["agent_error"]["kind"] == "format"


@pytest.mark.parametrize(
    "reply",
    [
        "<think>I look.</think><action>look</action>",
        "<think>I\nlook.</think>\n<action> look </action>\n",
        "already thinking</think><action>look</action>",
    ],
)
def test_think_action_replies_that_hold_one(reply):
    env = gym.make(ID, action_format="think_action")
    env.reset(seed=1)
    obs, _, _, _, info = env.step(reply)
    assert obs.startswith("You are in the middle of a room.") and "agent_error" not in info


def test_tool_calls():
    env = gym.make(ID, action_format="tool")
    env.reset(seed=1)
    assert [t["function"]["name"] for t in env.unwrapped.tools] == ["env_step"]
    assert "env_step" in env.unwrapped.system_prompt
    call = env.unwrapped.format_action("look")
    obs, _, _, _, info = env.step(call)
    assert obs.startswith("You are in the middle")
    assert info["tool_calls"] == [
        {"name": "env_step", "arguments": {"command": "look"}, "error": None, "result": obs}
    ]
    for reply, kind in (
        ("look", "no_call"),
        (call.replace("env_step", "go"), "unknown_tool"),
        (call.replace("command", "action"), "arguments"),
        (call.replace('"look"', "7"), "arguments"),
        (call + call, "too_many_calls"),
    ):
        obs, _, _, _, info = env.step(reply)
        assert info["agent_error"]["kind"] == kind, reply
    obs, _, _, _, info = env.step(call[:-20])
    assert info["agent_error"]["kind"].startswith("parse_")


def test_arguments_are_checked():
    for wrong in (
        {"engine": "unity"},
        {"action_format": "json"},
        {"num_tasks": 0},
        {"data": ".", "tasks": "x"},
        {"tool_format": "none"},
    ):
        with pytest.raises(ValueError):
            gym.make(ID, **wrong)
    with pytest.raises(FileNotFoundError):
        gym.make(ID, data="/nowhere/json_2.1.1")


def test_rows_from_files(tmp_path):
    path = tmp_path / "games.jsonl"
    TaskSet([small(), {**row("test", 3), "task_id": "other"}]).save(path)
    env = gym.make(ID, tasks=path, order="sequential")
    for _ in range(2):
        _, info = episode(env, Expert)
        assert info["success"]
    _, info = env.reset(options={"task": small()})
    assert info["task_id"] == "small"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pddl_problem": None}, "pddl_problem"),
        ({"pddl_problem": 7}, "pddl_problem"),
        ({"goal": None}, "goal"),
        ({"goal": 'put a "mug" in shelf'}, "goal"),
        ({"goal": "put a mug; in shelf"}, "goal"),
        ({"pddl_domain": "(define)"}, "grammar"),
        ({"pddl_problem": "", "problem": "zzz"}, "packed"),
        ({"logic": "zzz"}, "logic"),
        ({"pddl_problem": HOUSE.replace("?r ShelfType", "?r MicrowaveType")}, "reachable"),
    ],
)
def test_bad_rows_name_the_field(changes, message):
    env = gym.make(ID)
    with pytest.raises(TaskDataError, match=message) as caught:
        env.reset(options={"task": small(**changes)})
    assert "small" in str(caught.value)
    assert env.reset(seed=0)  # and the environment lives on


def test_a_game_that_is_won_from_the_start_ends_at_the_first_step():
    env = gym.make(ID)
    env.reset(options={"task": small(pddl_problem=HOUSE.replace("?r ShelfType", "?r DeskType"))})
    _, reward, terminated, _, info = env.step("look")
    assert terminated and reward == 1.0 and info["success"]


def test_pickling_mid_episode():
    env = gym.make(ID).unwrapped
    _, info = env.reset(seed=5)
    env.step(info["admissible_actions"][0])
    other = pickle.loads(pickle.dumps(env))
    assert other.step("look") == env.step("look")


def test_rendering():
    env = gym.make(ID, render_mode="ansi")
    env.reset(seed=2)
    env.step("look")
    assert "> look" in env.render() and "Your task is to" in env.render()


def test_goal_sentences():
    assert parse_goal("Your task is to: find two pen and put them in garbagecan.") == {
        "obj": "pen",
        "recep": "garbagecan",
        "how": "two",
    }
    assert parse_goal("dance") == {}


def test_a_thousand_at_once_share_what_does_not_change():
    envs = [gym.make(ID, split="test").unwrapped for _ in range(1000)]
    for i, env in enumerate(envs):
        env.reset(seed=i % 10)
    games = {id(env._engine.game) for env in envs}
    assert len(games) <= 10
    first = envs[0].step(envs[0]._admissible()[0])
    assert envs[10].step(envs[10]._admissible()[0]) == first
    for env in envs:
        env.close()


@pytest.mark.slow
def test_ten_thousand_live_environments_fit_into_two_gib():
    rows = TaskSet([{**row("train", i), "task_id": str(i)} for i in range(250)])
    before = memory()
    envs = []
    for i in range(10_000):
        env = gym.make(ID, tasks=rows).unwrapped
        _, info = env.reset(options={"task_index": i % 250})
        env.step(info["admissible_actions"][0])
        envs.append(env)
    used = memory() - before
    assert used < 2 * 2**30, f"{used / 2**30:.2f} GiB"
    assert all(env._running for env in envs)


def memory() -> int:
    """Resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
