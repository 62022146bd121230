"""`agentr1 eval-papers`: precision, recall and F1 of a predictions file."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentr1_envs.paperscout.metrics import Scores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "predictions",
        help='JSONL, JSON or Parquet; rows {"qid", "predictions": [id, ..] or {id: score}}',
    )
    parser.add_argument(
        "--gold", required=True, help="query file as published (JSONL) or prepared (Parquet)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON too")


def main(args: argparse.Namespace) -> int:
    """Print the table; returns the exit code."""
    from rich.console import Console
    from rich.table import Table

    from agentr1_envs.paperscout.evaluate import evaluate, read_gold, read_predictions
    from agentr1_envs.task_files import atomic_write

    gold = read_gold(args.gold)
    result = evaluate(read_predictions(args.predictions, gold), gold)
    table = Table(title=f"{result.queries} queries, {result.missing} without a prediction")
    for name in ("papers", "precision", "recall", "F1"):
        table.add_column(name, justify="left" if name == "papers" else "right")
    for rank, scores in result.at_k.items():
        table.add_row("all" if rank == "all" else f"first {rank}", *_cells(scores))
    if result.at_threshold:
        table.add_section()
        for threshold, scores in result.at_threshold.items():
            table.add_row(f"score >= {threshold}", *_cells(scores))
    console = Console()
    console.print(table)
    if result.crawler_recall is not None:
        console.print(f"recall of the crawler (all papers seen): {result.crawler_recall:.4f}")
    if args.json:
        with atomic_write(args.json, "w") as handle:
            json.dump(result.as_dict(), handle, indent=1)
            handle.write("\n")
    return 0


def _cells(scores: Scores) -> list[str]:
    return [f"{value:.4f}" for value in (scores.precision, scores.recall, scores.f1)]
