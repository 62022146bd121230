"""Transitions as padded tensors: the one input of the estimators and of both trainers.

A row is one step of an episode (see `agentr1_envs.transitions.Transition`). `RowBatch` holds N rows
in tensors: token ids as the policy was fed and sampled them, one reward a row, and who belongs to
whom as dense int64 ids. Identifiers are arrays, never lists of strings; tokens are written once
into their final tensor, so a batch costs little more than the tensors themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from agentr1_envs.transitions import Transition

NO_ID = -1  # episode, group or anchor of a row that belongs to none (padding)


@dataclass(slots=True)
class RowBatch:
    """N step rows, prompts padded on the left to P tokens and responses on the right to T tokens.

    Attributes:
        prompt_ids: int64 [N, P], left-padded.
        prompt_mask: bool [N, P], True on real prompt tokens.
        response_ids: int64 [N, T], right-padded.
        response_mask: bool [N, T], True on tokens the policy sampled (the ones that are trained).
        response_logprobs: float [N, T], log-probabilities under the policy that sampled them;
            its dtype is the dtype of the estimators' results when no values are given.
        rewards: float64 [N], the step's reward.
        terminated: bool [N], the episode ended here by the task's own rules.
        truncated: bool [N], the episode ended here by a limit.
        episode: int64 [N], equal for the rows of one episode (and one agent in it).
        group: int64 [N], equal for episodes of the same task.
        anchor: int64 [N], equal if and only if the task states are equal; negative and unique where
            the environment gave none.
        step: int64 [N], the step's number inside its episode.
        valid: bool [N], False on every row of an episode that failed for reasons of its own.
        padding: bool [N], True on rows that only fill the batch.
        bootstrap: bool [N], True on rows that carry the state after a truncated end: no token of
            theirs is trained, and a critic's value at their column 0 is V(s_T).
    """

    prompt_ids: Tensor
    prompt_mask: Tensor
    response_ids: Tensor
    response_mask: Tensor
    response_logprobs: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    episode: Tensor
    group: Tensor
    anchor: Tensor
    step: Tensor
    valid: Tensor
    padding: Tensor
    bootstrap: Tensor

    def __post_init__(self) -> None:
        n = self.rewards.shape[0]
        for f in fields(self):
            shape = getattr(self, f.name).shape
            if not shape or shape[0] != n:
                raise ValueError(f"RowBatch.{f.name}: shape {tuple(shape)}, expected {n} rows")
        for one, other in (
            ("prompt_mask", "prompt_ids"),
            ("response_mask", "response_ids"),
            ("response_logprobs", "response_ids"),
        ):
            a, b = getattr(self, one).shape, getattr(self, other).shape
            if a != b:
                raise ValueError(f"RowBatch.{one}: shape {tuple(a)}, expected {tuple(b)}")

    def __len__(self) -> int:
        return int(self.rewards.shape[0])

    @property
    def live(self) -> Tensor:
        """bool [N]: rows that count: neither padding, nor bootstrap, nor of a failed episode."""
        return self.valid & ~self.padding & ~self.bootstrap

    @property
    def train_mask(self) -> Tensor:
        """bool [N, T]: the tokens that are trained: sampled tokens of rows that count."""
        return self.response_mask & self.live.to(self.response_mask.device)[:, None]

    @property
    def nbytes(self) -> int:
        """Bytes held by the tensors."""
        return sum(t.numel() * t.element_size() for t in self._tensors().values())

    def _tensors(self) -> dict[str, Tensor]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def select(self, index: Tensor | Sequence[int] | slice) -> RowBatch:
        """The rows at `index` (a slice, int64 [M] or bool [N]), in that order."""
        if not isinstance(index, (slice, Tensor)):
            index = torch.as_tensor(list(index), dtype=torch.int64)
        return RowBatch(**{name: t[index] for name, t in self._tensors().items()})

    def to(self, device: str | torch.device) -> RowBatch:
        """The same rows on another device."""
        return RowBatch(**{name: t.to(device) for name, t in self._tensors().items()})

    def pad_rows(self, count: int) -> RowBatch:
        """The same rows with `count` padding rows behind them, which change no result."""
        if count < 0:
            raise ValueError(f"pad_rows: count={count}, expected >= 0")
        if count == 0:
            return self
        out: dict[str, Tensor] = {}
        for name, t in self._tensors().items():
            fill = NO_ID if name in ("episode", "group", "anchor") else 0
            out[name] = torch.cat([t, t.new_full((count, *t.shape[1:]), fill)])
        out["padding"][-count:] = True
        # A row of padding alone would give an attention row with nothing to attend to (NaN).
        if out["prompt_mask"].shape[1]:
            out["prompt_mask"][-count:, -1] = True
        return RowBatch(**out)

    @classmethod
    def from_transitions(
        cls,
        transitions: Sequence[Transition],
        *,
        pad_id: int = 0,
        bootstrap: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> RowBatch:
        """Rows in the order of `transitions`, then the bootstrap rows if they are asked for.

        Args:
            transitions: steps; their prompt_ids, response_ids and response_logprobs are copied as
                they are. A step without log-probs gets zeros.
            pad_id: the token id written outside the masks.
            bootstrap: add one row per step that a limit ended (truncated, not terminated) and that
                has next_prompt_ids: a critic's value there is V(s_T).
            dtype: of response_logprobs.

        Raises:
            ValueError: a step whose response_ids and response_logprobs differ in length.
        """
        steps = list(transitions)
        boots = _cut_short(steps) if bootstrap else []
        n = len(steps) + len(boots)
        p_len = max(
            [len(t.prompt_ids) for t in steps]
            + [len(steps[i].next_prompt_ids) for i in boots]
            + [1]
        )
        t_len = max([len(t.response_ids) for t in steps] + [1])
        # numpy views of the tensors: rows are written in place, without a copy of the batch.
        prompt_ids = torch.full((n, p_len), pad_id, dtype=torch.int64)
        prompt_mask = torch.zeros((n, p_len), dtype=torch.bool)
        response_ids = torch.full((n, t_len), pad_id, dtype=torch.int64)
        response_mask = torch.zeros((n, t_len), dtype=torch.bool)
        logprobs = torch.zeros((n, t_len), dtype=dtype)
        views = [x.numpy() for x in (prompt_ids, prompt_mask, response_ids, response_mask)]
        np_prompt, np_pmask, np_resp, np_rmask = views
        np_logp = logprobs.numpy()
        for i, t in enumerate(steps):
            if k := len(t.prompt_ids):
                np_prompt[i, p_len - k :] = t.prompt_ids
                np_pmask[i, p_len - k :] = True
            k = len(t.response_ids)
            lp = t.response_logprobs
            n_lp = 0 if lp is None else len(lp)
            if n_lp not in (0, k):
                raise ValueError(
                    f"transition {i} (episode {t.episode_id!r}, step {t.step}): response_logprobs "
                    f"has {n_lp} entries, expected {k}, as many as response_ids"
                )
            if k:
                np_resp[i, :k] = t.response_ids
                np_rmask[i, :k] = True
                if n_lp:
                    np_logp[i, :k] = lp
        for j, i in enumerate(boots, start=len(steps)):
            ids = steps[i].next_prompt_ids
            if k := len(ids):
                np_prompt[j, p_len - k :] = ids
                np_pmask[j, p_len - k :] = True
        src = np.array([*range(len(steps)), *boots], dtype=np.int64)
        is_boot = np.arange(n) >= len(steps)
        failed = {t.episode_id for t in steps if not t.valid}
        anchor = dense_ids(t.anchor or None for t in steps)

        def column(values: Iterable[Any], kind: Any) -> np.ndarray:
            return np.fromiter(values, dtype=kind, count=len(steps))[src]

        def ints(x: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(x, dtype=np.int64))

        def bools(x: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(x, dtype=np.bool_))

        return cls(
            prompt_ids=prompt_ids,
            prompt_mask=prompt_mask,
            response_ids=response_ids,
            response_mask=response_mask,
            response_logprobs=logprobs,
            rewards=torch.from_numpy(
                np.where(is_boot, 0.0, column((t.reward for t in steps), np.float64))
            ),
            terminated=bools(column((t.terminated for t in steps), np.bool_) & ~is_boot),
            truncated=bools(column((t.truncated for t in steps), np.bool_) & ~is_boot),
            episode=ints(dense_ids((t.episode_id, t.agent_id) for t in steps)[src]),
            group=ints(dense_ids(t.group_id or t.episode_id for t in steps)[src]),
            anchor=ints(np.where(is_boot, NO_ID, anchor[src])),
            step=ints(column((t.step for t in steps), np.int64) + is_boot),
            valid=bools(column((t.episode_id not in failed for t in steps), np.bool_)),
            padding=torch.zeros(n, dtype=torch.bool),
            bootstrap=bools(is_boot),
        )


def dense_ids(keys: Iterable[Any]) -> np.ndarray:
    """Dense ids in order of first appearance; None becomes a negative id of its own."""
    seen: dict[Any, int] = {}
    out = [-(i + 2) if k is None else seen.setdefault(k, len(seen)) for i, k in enumerate(keys)]
    return np.asarray(out, dtype=np.int64)


def _cut_short(steps: Sequence[Transition]) -> list[int]:
    """Where a limit ended an episode and the next state's prompt is known."""
    return [
        i
        for i, t in enumerate(steps)
        if t.truncated and not t.terminated and len(t.next_prompt_ids)
    ]
