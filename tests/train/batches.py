"""Row batches for tests: random ones, and the ones of the recorded expectations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from agentr1_train.rows import RowBatch


def make_rows(
    episodes: list[str],
    groups: list[str],
    steps: list[int],
    rewards: list[float],
    mask: Any,
    *,
    anchors: list[str] | None = None,
    terminated: list[bool] | None = None,
    truncated: list[bool] | None = None,
    valid: list[bool] | None = None,
    padding: list[bool] | None = None,
    bootstrap: list[bool] | None = None,
    logprobs: Any = None,
    dtype: torch.dtype = torch.float64,
) -> RowBatch:
    n = len(episodes)
    mask = torch.as_tensor(mask).bool()

    def codes(xs: list[str]) -> torch.Tensor:
        seen: dict[str, int] = {}
        return torch.tensor([seen.setdefault(x, len(seen)) for x in xs], dtype=torch.int64)

    def flags(xs: list[bool] | None, default: bool) -> torch.Tensor:
        return torch.tensor([default] * n if xs is None else xs, dtype=torch.bool)

    if terminated is None:
        last = {e: max(s for f, s in zip(episodes, steps, strict=True) if f == e) for e in episodes}
        cut = [False] * n if truncated is None else truncated
        terminated = [s == last[e] and not c for e, s, c in zip(episodes, steps, cut, strict=True)]
    return RowBatch(
        prompt_ids=torch.zeros(n, 2, dtype=torch.int64),
        prompt_mask=torch.ones(n, 2, dtype=torch.bool),
        response_ids=torch.zeros(mask.shape, dtype=torch.int64),
        response_mask=mask,
        response_logprobs=(
            torch.zeros(mask.shape, dtype=dtype)
            if logprobs is None
            else torch.as_tensor(logprobs, dtype=dtype)
        ),
        rewards=torch.tensor(rewards, dtype=torch.float64),
        terminated=torch.tensor(terminated, dtype=torch.bool),
        truncated=flags(truncated, False),
        episode=codes(episodes),
        group=codes(groups),
        anchor=codes(anchors) if anchors else -torch.arange(2, n + 2),
        step=torch.tensor(steps, dtype=torch.int64),
        valid=flags(valid, True),
        padding=flags(padding, False),
        bootstrap=flags(bootstrap, False),
    )


def random_rows(seed: int, *, dtype: torch.dtype = torch.float64, size: int = 8) -> RowBatch:
    """A batch with everything that occurs: empty replies, failures, padding, cut episodes."""
    rng = np.random.default_rng(seed)
    episodes, groups, steps, anchors = [], [], [], []
    term, cut, valid, boot = [], [], [], []
    for e in range(int(rng.integers(0, size + 1))):
        group, ok = f"g{rng.integers(3)}", rng.random() > 0.15
        n, end = int(rng.integers(1, 5)), rng.integers(3)
        for s in range(n):
            last = s == n - 1
            episodes.append(f"e{e}")
            groups.append(group)
            steps.append(s)
            anchors.append(f"a{rng.integers(3)}")
            term.append(last and end == 0)
            cut.append(last and end == 1)
            valid.append(ok)
            boot.append(False)
        if end == 1 and rng.random() > 0.3:
            episodes.append(f"e{e}")
            groups.append(group)
            steps.append(n)
            anchors.append("")
            term.append(False)
            cut.append(False)
            valid.append(ok)
            boot.append(True)
    n, t = len(episodes), int(rng.integers(1, 6))
    mask = rng.random((n, t)) < rng.choice([0.0, 0.3, 0.8, 1.0], size=(n, 1))
    kind = rng.integers(4)
    rewards = [
        np.zeros(n),
        np.full(n, 0.1),
        rng.normal(size=n) * 10.0 ** rng.integers(-8, 8),
        (rng.random(n) < 0.3).astype(float),
    ][kind]
    mask = mask & ~np.asarray(boot, dtype=bool).reshape(n, 1)
    rows = make_rows(
        episodes,
        groups,
        steps,
        [float(r) for r in rewards * ~np.asarray(boot, dtype=bool)],
        mask,
        anchors=anchors,
        terminated=term,
        truncated=cut,
        valid=valid,
        bootstrap=boot,
        logprobs=-rng.exponential(size=(n, t)),
        dtype=dtype,
    )
    rows = rows.pad_rows(int(rng.integers(0, 3)))
    return rows.select(torch.from_numpy(rng.permutation(len(rows))))


def golden_rows(case: dict[str, Any], dtype: torch.dtype) -> tuple[RowBatch, torch.Tensor]:
    """(rows, values [N, T]) of one recorded case."""
    r = case["rows"]
    rows = make_rows(
        [x["traj"] for x in r],
        [x["group"] for x in r],
        [x["step"] for x in r],
        [sum(x["reward"]) for x in r],
        [x["mask"] for x in r],
        anchors=[x["anchor"] for x in r],
        dtype=dtype,
    )
    return rows, torch.tensor([x["value"] for x in r], dtype=dtype)
