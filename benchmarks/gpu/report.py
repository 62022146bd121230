"""What the runs of `run.sh verl` measured, as one JSON file and a short table.

python -m benchmarks.gpu.report WORK [--json FILE]
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


def summary(rows: list[dict[str, float]]) -> dict[str, Any]:
    """Medians over all training steps but the first two."""
    settled = rows[2:] or rows

    def middle(name: str) -> float | None:
        values = [r[name] for r in settled if name in r]
        return round(statistics.median(values), 4) if values else None

    seconds = {p: middle(f"timing_s/{p}") for p in PARTS}
    whole = seconds["step"] or 1.0
    success = next((n for n in rows[-1] if n.startswith("agentr1/") and n.endswith("/success")), "")
    return {
        "steps": len(rows),
        "seconds": seconds,
        "share": {p: round(s / whole, 3) for p, s in seconds.items() if s is not None},
        "tokens_per_second": middle("perf/throughput"),
        "tokens_per_step": middle("perf/total_num_tokens"),
        "env_and_adapter_share": middle("agentr1/env_and_adapter_share"),
        "adapter_seconds": middle("agentr1/adapter_seconds"),
        "memory_gb": middle("actor/perf/max_memory_allocated_gb"),
        "rollout_minus_actor_mean": middle("training/rollout_probs_diff_mean"),
        "rollout_minus_actor_max": middle("training/rollout_probs_diff_max"),
        "rollout_actor_correlation": middle("training/rollout_actor_probs_pearson_corr"),
        "padding_rows": middle("agentr1/padding_rows"),
        "rows": middle("agentr1/adv/rows"),
        "failed_episodes": sum(r.get("agentr1/failed_episodes", 0) for r in rows),
        "success": [round(r.get(success, float("nan")), 4) for r in rows],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    report: dict[str, Any] = {}
    for file in sorted(args.work.glob("*/metrics.jsonl")):
        lines = read_metrics(file)
        rows = [r for r in lines if "training/global_step" in r]  # the local back end has none
        if rows:
            validations = [
                {k: v for k, v in r.items() if k == "step" or k.startswith("val-core/")}
                for r in lines
                if any(k.startswith("val-core/") for k in r)
            ]
            report[file.parent.name] = summary(rows) | {"validation": validations}
    for name, figures in report.items():
        print(
            name,
            json.dumps({k: v for k, v in figures.items() if k not in ("success", "validation")}),
        )
    if args.json:
        args.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
