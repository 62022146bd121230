"""What a run leaves for people: curve.png and the closing table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentr1_envs.task_files import atomic_write


def draw_curve(rows: Sequence[Mapping[str, Any]], path: Path, title: str) -> None:
    """Success on the panels and in training over the updates, from the lines of metrics.jsonl."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), dpi=110)
    train = [(r["step"], r["train/success"]) for r in rows if "train/success" in r]
    if train:
        axes.plot(*zip(*train, strict=True), alpha=0.5, label="training (sampled)")
    names = sorted({k for r in rows for k in r if k.startswith("eval/") and k.endswith("/success")})
    for name in names:
        points = [(r["step"], r[name]) for r in rows if r.get(name) is not None]
        axes.plot(*zip(*points, strict=True), marker="o", label=name.split("/")[1] + " (greedy)")
    axes.set_xlabel("update")
    axes.set_ylabel("success")
    axes.set_ylim(-0.02, 1.02)
    axes.set_title(title)
    axes.grid(alpha=0.3)
    if train or names:
        axes.legend(loc="lower right")
    figure.tight_layout()
    with atomic_write(path) as handle:
        figure.savefig(handle, format="png")
    plt.close(figure)


def closing_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A rich table: each panel's success at its first and last evaluation."""
    from rich.table import Table

    table = Table(title="greedy success on fixed panels of held-out tasks")
    for column in ("panel", "tasks", "after cold start", "at the end", "updates"):
        table.add_column(column, justify="left" if column == "panel" else "right")
    names = sorted({k for r in rows for k in r if k.startswith("eval/") and k.endswith("/success")})
    for name in names:
        points = [r for r in rows if r.get(name) is not None]
        tasks = points[-1].get(name.replace("/success", "/episodes"), 0)
        table.add_row(
            name.split("/")[1],
            f"{tasks:.0f}",
            f"{points[0][name]:.3f}",
            f"{points[-1][name]:.3f}",
            str(points[-1]["step"]),
        )
    return table
