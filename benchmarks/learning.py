"""What reinforcement learning adds, over seeds and beside two controls.

    python -m benchmarks.learning [--recipe gsm8k_tool] [--seeds 0 1 2] [--json FILE] [key=value ..]

For each seed: the recipe; supervised learning alone for the same processor time (a cold start made
that much longer, its schedule stretched with it); and the recipe with the rewards of each batch
dealt to its episodes at random, which must not improve. The two that learn by reinforcement go on
from one cold start. Success is greedy, on the recipe's fixed panels of held-out tasks.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from agentr1_train.local.tracking import read_metrics


def train(directory: Path, words: list[str]) -> list[dict[str, Any]]:
    """Run `agentr1 train` (continued if it was interrupted); the lines of its metrics."""
    command = [sys.executable, "-m", "agentr1_train.cli.main", "train", *words, f"dir={directory}"]
    subprocess.run(
        [*command, "--resume"], check=True, env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
    )
    return read_metrics(directory / "metrics.jsonl")


def branch(start: Path, name: str) -> Path:
    """A run that goes on from where `start` ended; one that exists is left as it is."""
    directory = start.with_name(start.name.replace("-start", f"-{name}"))
    if not directory.exists():
        part = directory.with_name(directory.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(start, part)
        part.rename(directory)
    return directory


def panels(line: dict[str, Any]) -> dict[str, float]:
    """Success on each panel in a line of metrics."""
    return {
        k.split("/")[1]: v
        for k, v in line.items()
        if k.startswith("eval/") and k.endswith("/success")
    }


def last_panels(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The last line with an evaluation."""
    return panels(next(r for r in reversed(rows) if panels(r)))


def one_seed(recipe: str, seed: int, root: Path, extra: list[str]) -> dict[str, Any]:
    """The run and both controls for a seed."""
    words = [f"recipe={recipe}", f"seed={seed}", *extra]
    start = root / f"seed{seed}-start"
    train(start, [*words, "steps=0"])
    rows = train(branch(start, "rl"), words)
    first, last = rows[0], rows[-1]
    from agentr1_train.config import load_config

    config = load_config(words)
    steps = int(config.agentr1.cold_start.steps)
    per_step = last["time/cold_start_cpu"] / max(steps, 1)
    training = last["time/cpu_total"] - first["time/cpu_total"] + last["time/cold_start_cpu"]
    longer = max(round(training / per_step), steps)
    shuffled = train(branch(start, "shuffled"), [*words, "agentr1.shuffle_rewards=true"])
    supervised = train(
        root / f"seed{seed}-supervised", [*words, f"cold_start.steps={longer}", "steps=0"]
    )
    return {
        "seed": seed,
        "cpu_seconds": round(last["time/cpu_total"], 1),
        "supervised_steps": longer,
        "start": panels(first),
        "rl": last_panels(rows),
        "supervised": last_panels(supervised),
        "shuffled": last_panels(shuffled),
    }


def spread(values: list[float]) -> str:
    """Mean and standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.3f} ± {deviation:.3f}"


def main() -> None:
    """Print the table; ``--json`` writes it."""
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default="gsm8k_tool")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--dir", type=Path, default=Path("runs/learning"))
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--overwrite", action="store_true", help="forget earlier runs in --dir")
    parser.add_argument("settings", nargs="*", metavar="key=value")
    args = parser.parse_args()
    if args.overwrite:
        shutil.rmtree(args.dir, ignore_errors=True)
    results = [one_seed(args.recipe, s, args.dir / args.recipe, args.settings) for s in args.seeds]
    columns = ["start", "rl", "supervised", "shuffled"]
    table = Table(title=f"{args.recipe}: greedy success, seeds {args.seeds}")
    titles = ["panel", "after cold start", "RL", "supervised only", "RL, shuffled rewards"]
    for title in titles:
        table.add_column(title)
    for panel in results[0]["start"]:
        table.add_row(panel, *(spread([r[c][panel] for r in results]) for c in columns))
    Console().print(table)
    if args.json:
        args.json.write_text(json.dumps({"learning": results}, indent=1))


if __name__ == "__main__":
    main()
