"""Hermes, also Qwen2.5 and Qwen3: JSON between ``<tool_call>`` and ``</tool_call>``.

Outcomes, beyond the rules of `base`:

* Text around calls and several calls in one reply: accepted, calls in order.
* A code fence around a call or around its JSON: accepted.
* A closing mark inside a JSON string: part of the string. `render` escapes it.
* JSON complete, but the reply ends before the closing mark: accepted, since a server that stops at
  the mark does not return it. JSON not complete: "truncated".
* The closing mark is missing and other text or another call follows: "unclosed_tag".
* A closing mark without an opening one: "unopened_tag".
* Single quotes, trailing commas: errors of these names.
"""

from __future__ import annotations

from collections.abc import Sequence

from .base import ErrorLog, ParsedReply, ToolCall, Tools, go_on, scan_blocks
from .json_calls import (
    CallError,
    check_call,
    decode,
    dump,
    protect,
    schema_lines,
    skip_fence,
    to_call,
)

OPEN, CLOSE = MARKS = ("<tool_call>", "</tool_call>")
BETWEEN = f"{CLOSE}\n{OPEN}"


class HermesFormat:
    """``<tool_call>{"name": .., "arguments": {..}}</tool_call>``."""

    name = "hermes"
    stop: tuple[str, ...] = ()

    def parse(self, text: str, tools: Tools = ()) -> ParsedReply:
        """Takes a reply apart; see the module's docstring for every outcome."""
        if "tool_call>" not in text and "think>" not in text:
            return ParsedReply(text.strip())
        if text.startswith(OPEN) and text.endswith(CLOSE) and "</think>" not in text:
            calls = _bare_calls(text)
            if calls is not None:
                return ParsedReply("", calls)
        return scan_blocks(text, MARKS, _parse_one)

    def render(self, calls: Sequence[ToolCall]) -> str:
        """One block a call, joined by line feeds."""
        blocks = []
        for call in calls:
            check_call(call)
            body = dump({"name": call.name, "arguments": call.arguments})
            blocks.append(f"{OPEN}{protect(body, OPEN, CLOSE)}{CLOSE}")
        return "\n".join(blocks)

    def instructions(self, tools: Tools) -> str:
        """What to tell a model that does not know the format."""
        return schema_lines(tools) + (
            "To call a tool, write its name and arguments as JSON between marks:\n"
            f'{OPEN}{{"name": "...", "arguments": {{...}}}}{CLOSE}'
        )


def _bare_calls(text: str) -> list[ToolCall] | None:
    """The calls of a reply as `render` writes it; None for any other, right or wrong."""
    calls: list[ToolCall] = []
    start = len(OPEN)
    try:
        while True:
            value, end = decode(text, start, CLOSE)
            calls.append(to_call(value, start, len(calls)))
            if not text.startswith(BETWEEN, end):
                return calls if end + len(CLOSE) == len(text) else None
            start = end + len(BETWEEN)
    except CallError:
        return None


def _parse_one(text: str, start: int, calls: list[ToolCall], log: ErrorLog) -> int:
    at = skip_fence(text, start)
    try:
        value, end = decode(text, at, CLOSE)
        call = to_call(value, at, len(calls))
        end = skip_fence(text, end)
        if text.startswith(CLOSE, end) or end >= len(text):
            calls.append(call)
            return end + len(CLOSE)
        if text.startswith(OPEN, end) or text.find(CLOSE, end) < 0:
            raise CallError("unclosed_tag", end, f"the call is not closed by {CLOSE}")
        raise CallError("trailing_text", end, f"text stands between the JSON and {CLOSE}")
    except CallError as error:
        log.add(error.reason, error.position, error.message)
    return go_on(text, at, MARKS)
