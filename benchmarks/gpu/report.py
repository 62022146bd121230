"""What the runs of `run.sh` measured: a short table, one JSON file, one picture.

python -m benchmarks.gpu.report WORK [--steps NAME=FIRST:LAST ...] [--json FILE] [--plot FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from agentr1_train.local.tracking import read_metrics

PARTS = (
    "step", "gen", "old_log_prob", "values", "adv", "update_critic", "update_actor",
    "update_weights", "save_checkpoint",
)  # fmt: skip
Rows = list[dict[str, Any]]


def middle(rows: Rows, name: str) -> float | None:
    """The median of a number over some lines."""
    values = [r[name] for r in rows if name in r]
    return round(statistics.median(values), 4) if values else None


def successes(rows: Rows) -> list[tuple[int, float]]:
    """(update, success of its episodes), whichever back end wrote the lines."""
    return [
        (int(r["step"]), round(v, 4))
        for r in rows
        for k, v in r.items()
        if k == "train/success" or (k.startswith("agentr1/") and k.endswith("/success"))
    ]


def panels(rows: Rows) -> dict[int, float]:
    """Update -> success on the held-out panel."""
    return {
        int(r["step"]): round(v, 4)
        for r in rows
        for k, v in r.items()
        if k == "eval/heldout/success" or (k.startswith("val-core/") and "/acc/" in k)
    }


def verl_summary(settled: Rows) -> dict[str, Any]:
    """Medians over some training steps of verl."""
    seconds = {p: middle(settled, f"timing_s/{p}") for p in PARTS}
    whole = seconds["step"] or 1.0
    return {
        "seconds": seconds,
        "share": {p: round(s / whole, 3) for p, s in seconds.items() if s is not None},
        "tokens_per_second_and_gpu": middle(settled, "perf/throughput"),
        "tokens_per_step": middle(settled, "perf/total_num_tokens"),
        "env_and_adapter_share": middle(settled, "agentr1/env_and_adapter_share"),
        "adapter_seconds": middle(settled, "agentr1/adapter_seconds"),
        "memory_gb": middle(settled, "actor/perf/max_memory_allocated_gb"),
        "rollout_minus_actor_mean": middle(settled, "training/rollout_probs_diff_mean"),
        "rollout_minus_actor_max": middle(settled, "training/rollout_probs_diff_max"),
        "rollout_actor_correlation": middle(settled, "training/rollout_actor_probs_pearson_corr"),
        "env_seconds": middle(settled, "agentr1/env_seconds"),
        "steps_with_padding": sum(r.get("agentr1/padding_rows", 0) > 0 for r in settled),
        "rows": middle(settled, "agentr1/adv/rows"),
        "failed_episodes": sum(r.get("agentr1/failed_episodes", 0) for r in settled),
    }


def local_summary(settled: Rows) -> dict[str, Any]:
    """Medians over some updates of the local back end."""
    parts = ("rollout", "environment", "update")
    seconds = {p: middle(settled, f"time/{p}") for p in parts}
    whole = (seconds["rollout"] or 0) + (seconds["update"] or 0)
    tokens = middle(settled, "train/row_tokens")
    return {
        "seconds": seconds,
        "tokens_per_second": round((tokens or 0) / max(whole, 1e-9), 1),
        "tokens_per_step": tokens,
        "memory_gb": middle(settled, "perf/max_memory_allocated_gb"),
        "rows": middle(settled, "adv/rows"),
    }


def draw(report: dict[str, Any], path: Path) -> None:
    """Success in training over the updates, a mean of five, and on the held-out panel."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), dpi=110)
    for name, figures in report.items():
        points = figures["success"]
        steps = [s for s, _ in points]
        values = [v for _, v in points]
        smooth = [statistics.mean(values[max(0, i - 4) : i + 1]) for i in range(len(values))]
        line = axes.plot(steps, smooth, label=f"{name}, in training")[0]
        axes.plot(steps, values, alpha=0.25, color=line.get_color())
        if figures["panel"]:
            axes.plot(
                *zip(*sorted(figures["panel"].items()), strict=True), "o", color=line.get_color(),
                label=f"{name}, held out (greedy)",
            )  # fmt: skip
    axes.set(xlabel="update", ylabel="success", ylim=(-0.02, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def window(text: str) -> tuple[str, tuple[int, int]]:
    """``one=106:129`` as ("one", (106, 129))."""
    name, _, steps = text.partition("=")
    first, _, last = steps.partition(":")
    return name, (int(first), int(last))


def main() -> None:
    """Print one line a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument(
        "--steps", nargs="+", default=[], type=window, metavar="NAME=FIRST:LAST",
        help="steps of a run that its medians are over (default: from the second on)",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    args = parser.parse_args()
    report: dict[str, Any] = {}
    for file in sorted(args.work.glob("*/metrics.jsonl")):
        rows = read_metrics(file)
        points = successes(rows)
        if not points:
            continue
        name = file.parent.name
        first, last = dict(args.steps).get(name, (2, points[-1][0]))
        settled = [r for r in rows if first <= r["step"] <= last]
        verl = any("training/global_step" in r for r in rows)
        summary = verl_summary if verl else local_summary
        report[name] = {
            "updates": len(points), "medians_over": [first, last], **summary(settled),
            "panel": panels(rows), "success": points,
        }  # fmt: skip
    for name, figures in report.items():
        print(name, json.dumps({k: v for k, v in figures.items() if k != "success"}))
    if args.json:
        args.json.write_text(json.dumps(report, indent=1))
    if args.plot:
        draw(report, args.plot)


if __name__ == "__main__":
    main()
