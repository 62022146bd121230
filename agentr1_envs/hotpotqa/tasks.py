"""Task rows: their check, and the embedded panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentr1_envs.errors import TaskDataError
from agentr1_envs.hotpotqa.once import once
from agentr1_envs.task_set import TaskSet, TaskSource

LEVELS = ("easy", "medium", "hard")


def check_task(row: dict[str, Any], source: str | None = None, number: int | None = None) -> None:
    """Raise `TaskDataError` when ``row`` is no question of this environment."""
    source = source or f"task {row.get('task_id')!r}"
    for field in ("question", "answer"):
        value = row.get(field)
        if not isinstance(value, str) or not value.strip():
            raise TaskDataError(source, "a non-empty str", number, field, value)
    aliases = row.get("aliases", ())
    if not isinstance(aliases, (list, tuple)) or not all(isinstance(a, str) for a in aliases):
        raise TaskDataError(source, "a list of str", number, "aliases", aliases)
    facts = row.get("supporting_facts") or ()
    if not isinstance(facts, (list, tuple)):
        raise TaskDataError(source, "a list of objects", number, "supporting_facts", facts)
    for i, fact in enumerate(facts):
        ok = isinstance(fact, dict) and isinstance(fact.get("title"), str)
        if not ok or not isinstance(fact.get("text", ""), str):
            raise TaskDataError(
                source, 'an object {"title", "text"}', number, f"supporting_facts[{i}]", fact
            )


def is_embedded(task: dict[str, Any]) -> bool:
    """Whether a task is of the embedded world (of this version), to be searched in its articles."""
    from agentr1_envs.hotpotqa.generator import ID_PREFIX

    return task["task_id"].startswith(ID_PREFIX)


@once
def embedded_tasks(split: str, levels: tuple[str, ...] = LEVELS) -> TaskSource:
    """The generated tasks of a split and of some levels, one panel a process."""
    from agentr1_envs.hotpotqa.generator import questions

    rows = (task for task in questions(split) if task["level"] in levels)
    return TaskSet(rows, split=split, name="hotpotqa world")


def check_levels(levels: str | Sequence[str] | None) -> tuple[str, ...]:
    """Levels in their fixed order; None means all. Raises ValueError for an unknown one."""
    if levels is None:
        return LEVELS
    wanted = [levels] if isinstance(levels, str) else levels
    if not isinstance(wanted, Sequence) or not wanted or not all(w in LEVELS for w in wanted):
        raise ValueError(f"levels must be some of {LEVELS} or None, got {levels!r}")
    return tuple(level for level in LEVELS if level in wanted)
