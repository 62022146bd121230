"""Throughput of the estimators and the losses, and the memory of a row batch.

python -m benchmarks.estimators [--rows 100000] [--tokens 512] [--threads 2] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from agentr1_envs.transitions import Transition
from agentr1_train.advantages import ESTIMATORS, AdvantageConfig, compute_advantages
from agentr1_train.losses import POLICY_LOSSES, LossConfig, loss_weights, policy_loss
from agentr1_train.rows import RowBatch


def synthetic(n: int, tokens: int, *, steps: int = 10, group: int = 8, seed: int = 0) -> RowBatch:
    """n rows in a random order: episodes of `steps` steps, groups of `group` episodes."""
    g = torch.Generator().manual_seed(seed)
    row = torch.arange(n)
    length = torch.randint(1, tokens + 1, (n,), generator=g)
    rows = RowBatch(
        prompt_ids=torch.zeros(n, 1, dtype=torch.int64),
        prompt_mask=torch.ones(n, 1, dtype=torch.bool),
        response_ids=torch.zeros(1, 1, dtype=torch.int64).expand(n, tokens),
        response_mask=torch.arange(tokens)[None] < length[:, None],
        response_logprobs=torch.randn(n, tokens, generator=g),
        rewards=(torch.rand(n, generator=g, dtype=torch.float64) < 0.1).double(),
        terminated=row % steps == steps - 1,
        truncated=torch.zeros(n, dtype=torch.bool),
        episode=row // steps,
        group=row // (steps * group),
        anchor=torch.randint(0, 50, (n,), generator=g),
        step=row % steps,
        valid=torch.ones(n, dtype=torch.bool),
        padding=torch.zeros(n, dtype=torch.bool),
        bootstrap=torch.zeros(n, dtype=torch.bool),
    )
    order = torch.randperm(n, generator=g)
    for name in ("rewards", "terminated", "episode", "group", "step"):
        setattr(rows, name, getattr(rows, name)[order])
    return rows


def best_of(fn: Callable[[], Any], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        fn()
        times.append(time.perf_counter() - start)
    return min(times)


def row_memory(n: int, tokens: int) -> dict[str, float]:
    """Peak resident memory while transitions become rows, against the tensors' own size."""
    rng = np.random.default_rng(0)
    half = tokens // 2
    steps = [
        Transition(
            episode_id=f"e{i // 10}",
            step=i % 10,
            task_id="t",
            env_id="x",
            prompt_ids=rng.integers(0, 50_000, tokens - half, dtype=np.int32),
            response_ids=rng.integers(0, 50_000, half, dtype=np.int32),
            response_logprobs=rng.normal(size=half).astype(np.float32),
        )
        for i in range(n)
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    start = time.perf_counter()
    rows = RowBatch.from_transitions(steps)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "tensors_bytes": rows.nbytes,
        "peak_bytes": peak - before,
        "ratio": (peak - before) / rows.nbytes,
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    memory = row_memory(10_000, 2_048)  # first, while the process's peak is still its own

    rows = synthetic(args.rows, args.tokens)
    values = torch.randn(args.rows, args.tokens)
    figures: dict[str, float] = {}
    for name in ESTIMATORS:
        cfg = AdvantageConfig(name, gamma=0.99, lam=0.95)
        v = values if cfg.needs_values else None
        figures[name] = best_of(lambda c=cfg, v=v: compute_advantages(rows, c, v), args.repeats)
    adv = compute_advantages(rows, AdvantageConfig("grpo")).advantages
    mask, old = rows.train_mask, rows.response_logprobs
    figures["weights: episode"] = best_of(lambda: loss_weights(rows, "episode"), args.repeats)
    weights = loss_weights(rows, "episode")
    new = old + 0.01
    for name in POLICY_LOSSES:
        loss_cfg = LossConfig(name)
        figures[f"loss: {name}"] = best_of(
            lambda c=loss_cfg: policy_loss(new, old, adv, mask, None, c, weights=weights),
            args.repeats,
        )

    table = Table(title=f"{args.rows:,} rows x {args.tokens} tokens, {args.threads} threads")
    table.add_column("what")
    table.add_column("seconds", justify="right")
    table.add_column("rows/s", justify="right")
    for name, seconds in figures.items():
        table.add_row(name, f"{seconds:.2f}", f"{args.rows / seconds:,.0f}")
    console = Console()
    console.print(table)
    console.print(
        f"rows of 10,000 steps x 2,048 tokens: tensors {memory['tensors_bytes'] / 2**20:.0f} MiB, "
        f"peak {memory['peak_bytes'] / 2**20:.0f} MiB beside the transitions "
        f"({memory['ratio']:.2f} times), {memory['seconds']:.2f} s"
    )
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"seconds": figures, "rows": vars(args), "memory": memory}, f, indent=2)


if __name__ == "__main__":
    main()
