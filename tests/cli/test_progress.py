"""The progress bar of `agentr1 prepare`."""

from __future__ import annotations

import types
from typing import Any

import pytest
from agentr1_recipes import progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the bar sees, in seconds."""
    now = [100.0]
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    return now


def drawn(bar: Any) -> tuple[float, float | None]:
    task = bar._bar.tasks[0]
    return task.completed, task.total


def test_it_is_drawn_ten_times_a_second_and_at_its_end(clock: list[float]) -> None:
    with progress.ProgressBar("Counting", 1000) as bar:
        assert drawn(bar) == (0, 1000)
        seen = set()
        for _ in range(999):
            clock[0] += 0.001
            bar.advance()
            seen.add(drawn(bar)[0])
        assert 8 <= len(seen) <= 11
        bar.advance()
        assert drawn(bar) == (1000, 1000)


def test_the_total_may_be_said_later(clock: list[float]) -> None:
    with progress.ProgressBar("Reading") as bar:
        bar.advance()
        assert drawn(bar) == (1, None)
        bar.update(7, 7)
        assert drawn(bar) == (7, 7)
