"""Between verl's rows and ours; runs without verl."""

from __future__ import annotations

import numpy as np
import torch

from agentr1_envs.transitions import Transition
from agentr1_train.verl.batch import (
    step_fields,
    step_rewards,
    task_metrics,
    to_rows,
    to_transitions,
)


def transition(episode: int, step: int, **kw: object) -> Transition:
    return Transition(
        episode_id=f"u-1_{episode}",
        step=step,
        task_id="t",
        env_id="x",
        observation=({"role": "user", "content": "多少?"},),
        action="a",
        feedback="f",
        reward=0.5 * step,
        anchor=f"s{step}",
        prompt_ids=np.arange(4, dtype=np.int32),
        response_ids=np.arange(2, dtype=np.int32),
        response_logprobs=np.full(2, -0.5, np.float32),
        **kw,  # type: ignore[arg-type]
    )


def test_rows_of_verl_become_rows_of_ours_and_back() -> None:
    steps = [
        transition(0, 0),
        transition(0, 1, terminated=True, success=True, score=1.0, stop_reason="answer"),
        transition(1, 0, truncated=True, next_prompt_ids=np.arange(5, dtype=np.int32)),
    ]
    fields = [step_fields(t, bootstrap=False, keep=True) for t in steps]
    fields.append(step_fields(steps[2], bootstrap=True, keep=True))
    fields.append(fields[0])  # verl's padding copies a row's fields
    keys = ["u-1_0_0", "u-1_0_1", "u-1_1_0", "u-1_1_1", "pad0f_0_0"]
    mask = torch.tensor([[1, 1], [1, 1], [1, 1], [0, 0], [0, 0]])
    rows = to_rows(keys, fields, mask, torch.full((5, 2), -0.5))
    assert rows.rewards.tolist() == [0, 0.5, 0, 0, 0]
    assert rows.episode[0] == rows.episode[1] != rows.episode[2] == rows.episode[3]
    assert rows.group.tolist() == [0, 0, 0, 0, -1]
    assert rows.step.tolist()[:4] == [0, 1, 0, 1]
    assert rows.terminated.tolist() == [False, True, False, False, False]
    assert rows.truncated.tolist() == [False, False, True, False, False]
    assert rows.bootstrap.tolist() == [False, False, False, True, False]
    assert rows.padding.tolist() == [False] * 4 + [True]
    assert rows.anchor[0] == rows.anchor[2] != rows.anchor[1]
    assert rows.train_mask.sum().item() == 6
    scores = step_rewards([*fields[:3], {}], 3, [2, 2, 1, 3])
    assert scores.tolist() == [[0, 0, 0], [0, 0.5, 0], [0, 0, 0], [0, 0, 0]]

    masks = [torch.nn.functional.pad(row, (0, 3)) for row in mask]
    back = to_transitions(keys, fields, masks, [torch.ones(5)] * 5)
    assert [t.advantage for t in back] == [1.0] * 3
    for got, want in zip(back, steps, strict=True):
        for name in ("step", "reward", "observation", "action", "feedback", "terminated",
                     "truncated", "success", "score", "stop_reason", "anchor"):  # fmt: skip
            assert getattr(got, name) == getattr(want, name), name
        assert np.array_equal(got.response_ids, want.response_ids)
        assert np.array_equal(got.prompt_ids, want.prompt_ids)
        assert np.array_equal(got.response_logprobs, want.response_logprobs)
    assert {t.episode_id for t in back} == {"u-1_0", "u-1_1"}
    # What a correction for older batches rejects stays in the dump; its advantage is of the rest.
    masks[0], advantages = torch.tensor([0, 1]), torch.tensor([[5.0, 1.0]] * 5)
    again = to_transitions(keys, fields, masks, list(advantages))
    assert again[0].advantage == 1.0 and again[1].advantage == 3.0
    assert np.array_equal(again[0].response_ids, steps[0].response_ids)


def test_an_empty_reply_keeps_its_reward() -> None:
    t = transition(0, 3)
    rows = to_rows(
        ["u_0_0"],
        [step_fields(t, bootstrap=False, keep=False)],
        torch.zeros(1, 1),
        torch.zeros(1, 1),
    )
    assert rows.rewards.tolist() == [1.5] and not bool(rows.train_mask.any())


def test_metrics_are_means_over_the_episodes_of_each_source() -> None:
    def row(episode: int, source: str, success: float) -> tuple[str, dict[str, object]]:
        own = step_fields(transition(episode, 0), bootstrap=False, keep=False, data_source=source)
        summary = {"success": success, "env_seconds": 0.5}
        return f"u_{episode}_0", {"agentr1": own, "reward_extra_info": summary}

    keys, extra = zip(
        row(0, "agentr1/gsm8k", 1.0), row(1, "agentr1/gsm8k", 0.0), row(2, "other", 1.0),
        strict=True,
    )  # fmt: skip
    # A second step of the first episode, and verl's padding, count nothing.
    found, seconds = task_metrics([*keys, "u_0_1", "pad0f_0_0"], [*extra, extra[0], extra[2]])
    assert found["agentr1/gsm8k/success"] == 0.5 and found["agentr1/other/success"] == 1.0
    assert seconds == 1.5
