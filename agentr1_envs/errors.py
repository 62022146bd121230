"""Errors of the suite.

What an agent does wrong is never an exception: it is a step whose ``info["agent_error"]`` says what
was wrong. Exceptions are for the two other parties: the machinery (`EnvironmentFault`) and the
person who supplies data (`TaskDataError`).
"""

from __future__ import annotations

from typing import Any

_NO_VALUE = object()


class EnvironmentFault(RuntimeError):
    """The environment's own machinery failed: a back end is down, a file is corrupt, time ran out.

    It is never turned into a reward. The episode is void; after `reset` the environment can be
    used again. It takes exactly one string, so that it survives pickling between processes.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)


class TaskDataError(ValueError):
    """Data that a person supplied is not what it should be.

    Args:
        source: The file (or other origin) that was read.
        expected: What would have been right.
        row: 0-based row or line number, where there is one.
        field: The field's name or path, where there is one.
        value: The offending value; shown shortened.
    """

    def __init__(
        self,
        source: str,
        expected: str,
        row: int | str | None = None,
        field: str | None = None,
        value: Any = _NO_VALUE,
    ) -> None:
        self.source, self.expected, self.row, self.field = str(source), expected, row, field
        self.value = None if value is _NO_VALUE else value
        where = str(source)
        if row is not None:
            where += f", row {row}"
        if field is not None:
            where += f", field {field!r}"
        got = "" if value is _NO_VALUE else f", got {shorten(repr(value))}"
        super().__init__(f"{where}: expected {expected}{got}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (str(self), self.source, self.expected, self.row, self.field))


def _rebuild(
    text: str, source: str, expected: str, row: int | str | None, field: str | None
) -> TaskDataError:
    error = TaskDataError(source, expected, row, field)
    error.args = (text,)
    return error


def shorten(text: str, limit: int = 80) -> str:
    """`text`, cut to `limit` characters with an ellipsis in its middle."""
    if len(text) <= limit:
        return text
    head = (limit - 1) * 2 // 3
    return f"{text[:head]}…{text[-(limit - 1 - head) :]}"
