"""`Rewrite`: the state is written anew at every step, instead of growing turn by turn.

For search tasks this is the prompt of Agent-R1's original recipe: the question, the past queries,
the passages found and the recent errors. Each passage stands there once, however often it was
found, and the model's earlier replies are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agentr1_wrappers.context import ContextInput, ContextOverflow, ContextRule, Message, Turn

Writer = Callable[[ContextInput], str]
_PASSAGE = re.compile(r"^\d+\. (?P<title>[^\n]+)\n(?P<text>[^\n]*)$", re.MULTILINE)


class Rewrite(ContextRule):
    """System message, and one user message that a function writes from the episode so far.

    Args:
        fn: Writes the user message from the `ContextInput`; a callable or ``"module:function"``.
            None takes `SearchState`.
        **options: Those of `SearchState`, when `fn` is None.
    """

    name = "rewrite"

    def __init__(self, fn: Writer | str | None = None, **options: Any) -> None:
        if isinstance(fn, str):
            from agentr1_envs.registration import load

            fn = load(fn)
        if fn is not None and options:
            raise ValueError(f"options {sorted(options)} are for the default writer, fn is given")
        if fn is not None and not callable(fn):
            raise TypeError(f"fn must be callable or 'module:function', got {fn!r}")
        self.fn: Writer = fn if fn is not None else SearchState(**options)  # type: ignore[assignment]

    def render(self, context: ContextInput) -> list[Message]:
        """System prompt and the message that was written."""
        messages: list[Message] = []
        if context.system:
            messages.append({"role": "system", "content": context.system})
        messages.append({"role": "user", "content": self.fn(context)})
        return messages

    def __repr__(self) -> str:
        return f"Rewrite({self.fn!r})"


@dataclass(frozen=True)
class SearchState:
    """Writes the state of a task with tools: task, past calls, what they found, recent errors.

    Results in the form of numbered passages (a line with number and title, a line with the text)
    are merged into one list without repeats; other results stand as they came.

    Attributes:
        max_chars: Most characters of results; the oldest are left out first, those of the last
            turn never. None: no limit.
        recent_errors: How many of the latest errors are shown.
        max_query_chars: A past call is cut to so many characters.
    """

    max_chars: int | None = None
    recent_errors: int = 2
    max_query_chars: int = 200

    def __post_init__(self) -> None:
        if self.max_chars is not None and self.max_chars < 1:
            raise ValueError(f"max_chars must be at least 1, got {self.max_chars!r}")
        if self.recent_errors < 1:
            raise ValueError(f"recent_errors must be at least 1, got {self.recent_errors!r}")

    def __call__(self, context: ContextInput) -> str:
        """The user message."""
        if not context.turns:
            return context.task
        parts = [context.task]
        calls = self._calls(context.turns)
        if calls:
            parts.append("Past calls:\n" + "\n".join(f"- {call}" for call in calls))
        found, dropped = self._results(context.turns)
        if found:
            note = f" ({dropped} older left out)" if dropped else ""
            parts.append(f"Found so far{note}:\n" + "\n".join(found))
        errors = [text for turn in context.turns for text in _errors(turn)][-self.recent_errors :]
        if errors:
            parts.append("Recent errors:\n" + "\n".join(f"- {text}" for text in errors))
        last = context.turns[-1]
        if not last.info.get("tool_calls") and not last.info.get("agent_error") and last.feedback:
            parts.append(last.feedback)
        return "\n\n".join(parts)

    def _calls(self, turns: Sequence[Turn]) -> list[str]:
        """Past calls that gave a result, the oldest first, repeats counted."""
        counts: dict[str, int] = {}
        for turn in turns:
            for call in turn.info.get("tool_calls") or ():
                if not call.get("error"):
                    text = _call_text(call)
                    if len(text) > self.max_query_chars:
                        text = text[: self.max_query_chars - 1] + "…"
                    counts[text] = counts.get(text, 0) + 1
        return [f"{text} ({n} times)" if n > 1 else text for text, n in counts.items()]

    def _results(self, turns: Sequence[Turn]) -> tuple[list[str], int]:
        """Distinct results, in the order they were last found, and how many did not fit."""
        found: dict[str, int] = {}
        for number, turn in enumerate(turns):
            for call in turn.info.get("tool_calls") or ():
                if call.get("result"):
                    for piece in _pieces(str(call["result"])):
                        found.pop(piece, None)
                        found[piece] = number
        pieces = list(found)
        if self.max_chars is None:
            return pieces, 0
        kept: list[str] = []
        room = self.max_chars
        for piece in reversed(pieces):
            room -= len(piece) + 1
            if room < 0 and found[piece] == len(turns) - 1:
                raise ContextOverflow(
                    f"the results of the last turn exceed {self.max_chars} characters"
                )
            if room < 0:
                break
            kept.append(piece)
        return kept[::-1], len(pieces) - len(kept)


def _pieces(result: str) -> list[str]:
    """The passages of a result, or the result itself where it is no list of passages."""
    passages = [f"{m['title']}\n{m['text']}" for m in _PASSAGE.finditer(result)]
    covered = sum(len(m[0]) + 1 for m in _PASSAGE.finditer(result))
    return passages if passages and covered >= len(result.rstrip()) else [result]


def _call_text(call: dict[str, Any]) -> str:
    """A call in short: the bare text of its one argument, else name and JSON."""
    arguments = call.get("arguments")
    if isinstance(arguments, dict) and len(arguments) == 1:
        value = next(iter(arguments.values()))
        if isinstance(value, str):
            return f"{call['name']}: {' '.join(value.split())}"
    return f"{call['name']} {json.dumps(arguments, ensure_ascii=False)}"


def _errors(turn: Turn) -> list[str]:
    """What went wrong in a turn, each fault once."""
    texts = [call["error"] for call in turn.info.get("tool_calls") or () if call.get("error")]
    error = turn.info.get("agent_error")
    if error and not any(error["message"] in text for text in texts):
        texts.append(error["message"])
    return [" ".join(str(text).split()) for text in texts]
