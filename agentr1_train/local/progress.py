"""A live display on terminals, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars


class Progress:
    """Named bars. Where the output is no terminal, a line is printed every tenth of a bar."""

    def __init__(self, *, enabled: bool = True) -> None:
        self.console = Console()
        self.enabled = enabled
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}
        self._count: dict[str, tuple[int, int]] = {}
        if enabled and self.console.is_terminal:
            self._bars = Bars(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
                console=self.console,
            )

    def __enter__(self) -> Progress:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def start(self, name: str, total: int, done: int = 0) -> None:
        """A bar of ``total`` steps, ``done`` of them done."""
        self._count[name] = (done, total)
        if self._bars is not None:
            self.finish(name)
            self._tasks[name] = self._bars.add_task(name, total=total, completed=done, note="")
            self._bars.start()

    def advance(self, name: str, **numbers: float) -> None:
        """One step, with numbers to show."""
        done, total = self._count.get(name, (0, 1))
        self._count[name] = (done + 1, total)
        note = "  ".join(f"{k} {v:.3f}" for k, v in numbers.items())
        if self._bars is not None:
            self._bars.update(self._tasks[name], advance=1, note=note)
        elif self.enabled and (done + 1) % max(total // 10, 1) == 0:
            print(f"{name}: {done + 1}/{total}  {note}".rstrip(), flush=True)

    def finish(self, name: str) -> None:
        """Take the bar away."""
        task = self._tasks.pop(name, None)
        if task is not None and self._bars is not None:
            self._bars.remove_task(task)

    def note(self, text: str) -> None:
        """A line above the bars."""
        if self.enabled:
            self.print(text)

    def print(self, item: Any) -> None:
        """Print text or a rich table, whatever is enabled."""
        console = self._bars.console if self._bars is not None else self.console
        console.print(item, highlight=False)
        sys.stdout.flush()
