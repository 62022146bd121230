from __future__ import annotations

import numpy as np
import pytest
from agentr1_wrappers import RecordTransitions

from agentr1_envs.errors import TaskDataError
from agentr1_envs.task_files import write_rows
from agentr1_envs.transitions import (
    Transition,
    group_episodes,
    read_metadata,
    read_transitions,
    write_transitions,
)
from tests.core.toy import ToyEnv, call


def transition(i: int, step: int, length: int) -> Transition:
    return Transition(
        episode_id=f"e{i}",
        step=step,
        task_id="t",
        env_id="X-v0",
        observation=({"role": "user", "content": "水🙂"},),
        action="a",
        reward=0.1 * step,
        prompt_ids=np.arange(length, dtype=np.int32),
        response_ids=np.arange(step, dtype=np.int32),
        response_logprobs=np.linspace(-1, 0, step, dtype=np.float32),
        metrics={"x": 1.5},
        agent_error={"kind": "k", "message": "m"} if step else None,
        success=True if step == 2 else None,
    )


def same(a: Transition, b: Transition) -> bool:
    for name in Transition.__slots__:
        one, two = getattr(a, name), getattr(b, name)
        equal = np.array_equal(one, two) if isinstance(one, np.ndarray) else one == two
        if not equal:
            return False
    return True


def test_round_trip_over_several_row_groups(tmp_path) -> None:
    rows = [transition(i, step, i % 7) for i in range(3000) for step in range(3)]
    assert write_transitions(tmp_path / "x.parquet", rows, {"git": "abc"}) == len(rows)
    again = read_transitions(tmp_path / "x.parquet")
    assert len(again) == len(rows) and all(map(same, rows, again))
    assert read_metadata(tmp_path / "x.parquet")["git"] == "abc"
    episodes = group_episodes(reversed(again))
    assert len(episodes) == 3000
    assert all([t.step for t in e.transitions] == [0, 1, 2] for e in episodes)


def test_no_rows(tmp_path) -> None:
    write_transitions(tmp_path / "x.parquet", [])
    assert read_transitions(tmp_path / "x.parquet") == []


def test_half_a_surrogate_pair_is_stored(tmp_path) -> None:
    row = transition(0, 0, 1)
    row.action = row.feedback = "\ud83d"
    row.observation = ({"role": "user", "content": "a\ud83d"},)
    write_transitions(tmp_path / "x.parquet", [row])
    assert read_transitions(tmp_path / "x.parquet")[0].action == "?"


def test_other_files_are_refused(tmp_path) -> None:
    write_rows(tmp_path / "x.parquet", [{"a": 1}])
    with pytest.raises(TaskDataError, match="schema version"):
        read_transitions(tmp_path / "x.parquet")
    (tmp_path / "y.parquet").write_bytes(b"nothing")
    with pytest.raises(TaskDataError, match=r"y\.parquet"):
        read_transitions(tmp_path / "y.parquet")


def test_recorded_steps_replay_to_the_same_observations(tmp_path) -> None:
    env = RecordTransitions(ToyEnv(), tmp_path / "x.parquet")
    for seed in range(5):
        env.reset(seed=seed)
        env.step(call("add", a=seed))
        env.step("<tool_call>{")
        env.step(str(seed))
    env.close()
    episodes = group_episodes(read_transitions(tmp_path / "x.parquet"))
    assert len(episodes) == 5 and all(e.finished for e in episodes)
    replay = ToyEnv()
    for episode in episodes:
        observation, info = replay.reset(options={"task_id": episode.task_id})
        for t in episode.transitions:
            assert (t.observation[0]["content"], t.anchor) == (observation, info["anchor"])
            observation, reward, terminated, truncated, info = replay.step(t.action)
            assert (t.feedback, t.reward) == (observation, reward)
            assert (t.terminated, t.truncated) == (terminated, truncated)
            assert (t.success, t.score) == (info.get("success"), info.get("score"))
