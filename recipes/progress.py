"""The progress bar of `agentr1 prepare`."""

from __future__ import annotations

import time
from typing import Any, Self

_SECONDS_BETWEEN = 0.1  # a drawing takes a lock, and rows may come by the hundred thousand a second


class ProgressBar:
    """A bar on the terminal while the context lasts.

    Args:
        text: what is done, in front of the bar.
        total: how much there is; None if that is not known yet.
    """

    def __init__(self, text: str, total: int | None = None) -> None:
        self._text, self._total, self._done = text, total, 0
        self._drawn = 0.0

    def __enter__(self) -> Self:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(*columns, TimeElapsedColumn(), transient=True)
        self._bar.start()
        self._task: Any = self._bar.add_task(self._text, total=self._total)
        return self

    def update(self, done: int, total: int | None = None) -> None:
        """`done` of the total are done; `total` replaces what was said of it before."""
        self._done = done
        self._total = self._total if total is None else total
        now = time.monotonic()
        if done == self._total or now - self._drawn >= _SECONDS_BETWEEN:
            self._drawn = now
            self._bar.update(self._task, completed=done, total=self._total)

    def advance(self) -> None:
        """One more is done."""
        self.update(self._done + 1)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
