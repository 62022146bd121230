"""Transitions to tensors: what is where, and what it costs."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch

from agentr1_envs.transitions import Transition
from agentr1_train.rows import RowBatch


def step(episode: str, n: int, *, prompt: int = 3, response: int = 2, **kw: object) -> Transition:
    return Transition(
        episode_id=episode,
        step=n,
        task_id="t",
        env_id="x",
        prompt_ids=np.arange(1, prompt + 1, dtype=np.int32),
        response_ids=np.arange(10, 10 + response, dtype=np.int32),
        response_logprobs=-np.arange(1, response + 1, dtype=np.float32),
        **kw,  # type: ignore[arg-type]
    )


def test_layout() -> None:
    rows = RowBatch.from_transitions(
        [
            step("b", 0, prompt=2, response=3, group_id="g", anchor="s", reward=0.5),
            step("a", 0, prompt=4, response=0, group_id="g", anchor="s", terminated=True),
            step("b", 1, prompt=1, response=1, group_id="g", truncated=True,
                 next_prompt_ids=np.array([7, 8, 9], np.int32)),
        ],
        pad_id=99,
        bootstrap=True,
    )  # fmt: skip
    assert rows.prompt_ids.tolist() == [
        [99, 99, 1, 2],
        [1, 2, 3, 4],
        [99, 99, 99, 1],
        [99, 7, 8, 9],
    ]
    assert rows.prompt_mask.sum(-1).tolist() == [2, 4, 1, 3]
    assert rows.response_ids.tolist() == [[10, 11, 12], [99] * 3, [10, 99, 99], [99] * 3]
    assert rows.response_logprobs[0].tolist() == [-1, -2, -3]
    assert rows.episode.tolist() == [0, 1, 0, 0]
    assert rows.step.tolist() == [0, 0, 1, 2]
    assert rows.group.tolist() == [0, 0, 0, 0]
    assert rows.anchor[0] == rows.anchor[1] != rows.anchor[2]
    assert rows.bootstrap.tolist() == [False, False, False, True]
    assert rows.live.tolist() == [True, True, True, False]
    assert rows.rewards.tolist() == [0.5, 0, 0, 0]
    for name in ("episode", "group", "anchor", "step"):
        assert getattr(rows, name).dtype == torch.int64


def test_no_bootstrap_row_for_a_terminated_end() -> None:
    nxt = np.array([1], np.int32)
    end = step("a", 0, terminated=True, truncated=True, next_prompt_ids=nxt)
    assert len(RowBatch.from_transitions([end], bootstrap=True)) == 1


def test_one_failed_step_makes_the_episode_invalid() -> None:
    rows = RowBatch.from_transitions([step("a", 0), step("a", 1, valid=False), step("b", 0)])
    assert rows.valid.tolist() == [False, False, True]


def test_agents_of_one_episode_are_separate_sequences() -> None:
    rows = RowBatch.from_transitions([step("a", 0, agent_id="x"), step("a", 0, agent_id="y")])
    assert rows.episode.tolist() == [0, 1]


def test_missing_groups_and_anchors_match_nothing() -> None:
    rows = RowBatch.from_transitions([step("a", 0), step("b", 0)])
    assert rows.group[0] != rows.group[1] and rows.anchor[0] != rows.anchor[1]


def test_logprobs_of_another_length_are_named() -> None:
    t = step("a", 3)
    t.response_logprobs = np.zeros(5, np.float32)
    with pytest.raises(ValueError, match=r"transition 0 \(episode 'a', step 3\).*5 entries.* 2"):
        RowBatch.from_transitions([t])
    t.response_logprobs = np.zeros(0, np.float32)
    assert RowBatch.from_transitions([t]).response_logprobs.tolist() == [[0, 0]]


def test_nothing_and_padding() -> None:
    rows = RowBatch.from_transitions([])
    assert len(rows) == 0
    padded = rows.pad_rows(2)
    assert padded.padding.tolist() == [True, True] and padded.episode.tolist() == [-1, -1]
    assert padded.prompt_mask.any(-1).all() and not padded.train_mask.any()
    with pytest.raises(ValueError, match="count=-1"):
        rows.pad_rows(-1)


def test_shapes_are_checked() -> None:
    good = RowBatch.from_transitions([step("a", 0)])
    parts = {name: getattr(good, name) for name in RowBatch.__dataclass_fields__}
    with pytest.raises(ValueError, match=r"RowBatch\.step: shape \(2,\), expected 1 rows"):
        RowBatch(**{**parts, "step": torch.zeros(2)})
    with pytest.raises(ValueError, match=r"RowBatch\.response_mask"):
        RowBatch(**{**parts, "response_mask": torch.zeros(1, 9, dtype=torch.bool)})


def test_memory_beside_the_transitions() -> None:
    """At most 1.2 times the tensors, at the peak of building them."""
    steps = [step(f"e{i // 10}", i % 10, prompt=1536, response=512) for i in range(1000)]
    tracemalloc.start()  # sees numpy's and Python's memory, torch's own is counted by nbytes
    rows = RowBatch.from_transitions(steps, bootstrap=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 0.2 * rows.nbytes
    assert rows.nbytes == 1000 * (1536 * 9 + 512 * 13) + 1000 * (8 * 5 + 5)
