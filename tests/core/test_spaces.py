from __future__ import annotations

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from agentr1_wrappers import ChatPrompt, ToGymText
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.vector.utils import batch_space, create_empty_array, iterate
from gymnasium.wrappers.utils import create_zero_array

from agentr1_envs.spaces import ChatMessages, UnicodeText
from agentr1_envs.vector import TaskVectorEnv
from tests.core.toy import ToyEnv, call

ACTIONS = [(call("add", a=1), "<tool_call>{", "0"), (call("add", a=2), "", "0")]


def chat() -> gym.Env:
    return ChatPrompt(ToyEnv())


def single(make, seed: int):
    """What one environment returns, with Gymnasium's NEXT_STEP reset."""
    env, slot = make(), seed - 3
    seen = [env.reset(seed=seed)[0]]
    over = False
    for actions in ACTIONS:
        if over:
            seen.append(env.reset()[0])
            over = False
            continue
        observation, _, terminated, truncated, _ = env.step(actions[slot])
        over = terminated or truncated
        seen.append(observation)
    return seen


@pytest.mark.parametrize("make", [ToyEnv, chat])
@pytest.mark.parametrize("mode", ["sync", "async", "async-pipe", "async-view", "custom"])
def test_vector_modes_return_what_a_single_environment_returns(make, mode) -> None:
    if mode == "sync":
        env = SyncVectorEnv([make] * 3)
    elif mode == "custom":
        env = TaskVectorEnv(lambda render_mode=None: make(), 3)
    else:
        env = AsyncVectorEnv(
            [make] * 3, shared_memory=mode != "async-pipe", copy=mode != "async-view"
        )
    try:
        seen = [copy.deepcopy(env.reset(seed=3)[0])]
        for actions in ACTIONS:
            seen.append(copy.deepcopy(env.step(actions)[0]))
            assert env.observation_space.contains(tuple(seen[-1]))
    finally:
        env.close()
    for slot in range(3):
        assert [batch[slot] for batch in seen] == single(make, 3 + slot)


def test_results_of_earlier_steps_do_not_change() -> None:
    env = AsyncVectorEnv([ToyEnv] * 2)
    try:
        first = env.reset(seed=0)[0]
        kept = tuple(first)
        env.step((call("add", a=1), "x"))
        assert first == kept and isinstance(first, tuple)
    finally:
        env.close()


def test_frame_stack_and_statistics() -> None:
    env = gym.wrappers.FrameStackObservation(ToyEnv(), 3, padding_type="zero")
    observation, _ = env.reset(seed=1)
    assert observation[:2] == ("", "") and observation[2].startswith("数")
    assert env.step(call("add", a=1))[0][2] == "3"
    env = gym.wrappers.RecordEpisodeStatistics(ToyEnv())
    env.reset(options={"task_index": 3})
    info = env.step("3")[4]
    assert info["episode"]["r"] == 1.0 and info["episode"]["l"] == 1


@pytest.mark.parametrize("space", [UnicodeText(40), ChatMessages()])
def test_space_contract(space) -> None:
    space.seed(1)
    samples = [space.sample() for _ in range(50)]
    space.seed(1)
    assert samples == [space.sample() for _ in range(50)]
    assert all(space.contains(sample) for sample in samples)
    assert space.from_jsonable(space.to_jsonable(samples)) == samples
    assert pickle.loads(pickle.dumps(space)) == space == copy.deepcopy(space)
    assert hash(space) == hash(copy.deepcopy(space)) and space != gym.spaces.Discrete(2)
    assert not space.contains(5) and not space.contains(None)
    assert not space.is_np_flattenable
    zero = create_zero_array(space)
    assert space.contains(zero) and create_empty_array(space, 2) == (zero, zero)
    batched = batch_space(space, 3)
    assert batched.contains(tuple(samples[:3]))
    assert list(iterate(batched, tuple(samples[:3]))) == samples[:3]


def test_contains() -> None:
    assert UnicodeText(2).contains("水🙂") and not UnicodeText(2).contains("abc")
    assert UnicodeText().contains("") and UnicodeText().contains("\ud800")
    space = ChatMessages(20)
    assert space.contains(({"role": "user", "content": "x"},)) and space.contains(())
    assert not space.contains([{"role": "user", "content": "x"}])
    assert not space.contains(({"role": "user"},))
    assert not space.contains(({"role": "boss", "content": "x"},))
    assert not space.contains(({"role": "user", "content": "x" * 30},))


def test_nested_in_dict_through_shared_memory() -> None:
    env = AsyncVectorEnv([_InDict] * 2)
    try:
        observation, _ = env.reset(seed=0)
        assert observation["text"] == tuple(_InDict().reset(seed=i)[0]["text"] for i in (0, 1))
        assert observation["n"].tolist() == [2, 2]
    finally:
        env.close()


class _InDict(gym.ObservationWrapper):
    def __init__(self) -> None:
        super().__init__(ToyEnv())
        self.observation_space = gym.spaces.Dict(
            {"text": UnicodeText(100), "n": gym.spaces.Discrete(5)}
        )

    def observation(self, observation):
        return {"text": observation, "n": np.int64(2)}


def test_to_gym_text() -> None:
    env = ToGymText(ToyEnv(), max_length=64)
    observation, _ = env.reset(options={"task_index": 7})
    assert observation == "?7??" and env.observation_space.contains(observation)
    assert isinstance(env.observation_space, gym.spaces.Text)


def test_custom_vector_contains_faults_and_reports_them() -> None:
    env = TaskVectorEnv(ToyEnv, 3, order="sequential")
    _, infos = env.reset(seed=0)
    assert [t.rpartition("/")[2] for t in infos["task_id"]] == ["0", "1", "2"]
    observations, rewards, terminated, truncated, infos = env.step(
        ("0", call("add", a=666), call("add", a=1))
    )
    assert observations == ("Done.", "", "3")
    assert rewards[0] == 1 and np.isnan(rewards[1]) and rewards[2] == 0
    assert truncated.tolist() == [False, True, False] and terminated.tolist()[0]
    assert infos["fault"][1] == "the adder is down" and not infos["_fault"][[0, 2]].any()
    observations, rewards, *_ = env.step(("", "", "5"))
    assert observations[0].startswith("数3") and observations[1].startswith("数4")
    assert rewards.tolist() == [0, 0, 0]


def test_custom_vector_modes_and_limits() -> None:
    env = TaskVectorEnv(ToyEnv, 2, autoreset_mode="SameStep", max_episode_steps=1)
    env.reset(seed=0)
    observations, _, _, truncated, infos = env.step((call("add", a=1), call("add", a=1)))
    assert truncated.all() and observations[0].startswith("数")
    assert infos["final_obs"][0] == "3" and infos["final_info"]["success"].tolist() == [0, 0]
    env = TaskVectorEnv(ToyEnv, 2, autoreset_mode="Disabled")
    env.reset(seed=0)
    env.step(("x", call("add", a=1)))
    with pytest.raises(gym.error.ResetNeeded):
        env.step(("x", "x"))
    env.reset(options={"reset_mask": np.array([True, False])})
    assert env.step((call("add", a=1), call("add", a=2)))[0] == ("3", "4")
