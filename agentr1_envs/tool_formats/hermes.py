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

from collections.abc import Iterable, Sequence
from typing import Any

from .base import ErrorLog, ParsedReply, ToolCall, function_schema, skip_reasoning
from .json_calls import (
    CallError,
    check_call,
    decode,
    dump,
    skip_fence,
    to_call,
)

OPEN, CLOSE = "<tool_call>", "</tool_call>"


class HermesFormat:
    """``<tool_call>{"name": .., "arguments": {..}}</tool_call>``."""

    name = "hermes"
    stop: tuple[str, ...] = ()

    def parse(self, text: str) -> ParsedReply:
        """Takes a reply apart; see the module's docstring for every outcome."""
        if "tool_call>" not in text and "think>" not in text:
            return ParsedReply(text.strip())
        log = ErrorLog()
        position = skip_reasoning(text, log)
        calls: list[ToolCall] = []
        outside: list[str] = []
        while not log.full:
            start = text.find(OPEN, position)
            between = text[position : start if start >= 0 else len(text)]
            stray = between.find(CLOSE)
            if stray >= 0:
                log.add("unopened_tag", position + stray, f"{CLOSE} stands without {OPEN}")
                between = between.replace(CLOSE, "")
            outside.append(between)
            if start < 0:
                break
            position = self._parse_one(text, start + len(OPEN), calls, log)
        return ParsedReply("".join(outside).strip(), calls, log.errors)

    def _parse_one(self, text: str, start: int, calls: list[ToolCall], log: ErrorLog) -> int:
        """Parses the call after an opening mark; gives the position to go on from."""
        at = skip_fence(text, start)
        try:
            value, end = decode(text, at, CLOSE)
            call = to_call(value, at, len(calls))
            end = skip_fence(text, end)
            if text.startswith(CLOSE, end):
                calls.append(call)
                return end + len(CLOSE)
            if end >= len(text):
                calls.append(call)
                return end
            if text.startswith(OPEN, end):
                raise CallError("unclosed_tag", end, f"the call is not closed by {CLOSE}")
            if text.find(CLOSE, end) < 0:
                raise CallError("unclosed_tag", end, f"the call is not closed by {CLOSE}")
            raise CallError("trailing_text", end, f"text stands between the JSON and {CLOSE}")
        except CallError as error:
            log.add(error.reason, error.position, error.message)
        # Go on at whichever mark comes first: a call after a broken one is still a call.
        following = text.find(OPEN, at)
        close = text.find(CLOSE, at, following if following >= 0 else len(text))
        if close >= 0:
            return close + len(CLOSE)
        return following if following >= 0 else len(text)

    def render(self, calls: Sequence[ToolCall]) -> str:
        """One block a call, joined by line feeds."""
        return "\n".join(self._render_one(call) for call in calls)

    @staticmethod
    def _render_one(call: ToolCall) -> str:
        check_call(call)
        body = dump({"name": call.name, "arguments": call.arguments})
        # Marks inside strings would end the call for parsers that look for the mark first.
        for mark in ("<tool_call", "</tool_call", "</think", "<think"):
            if mark in body:
                body = body.replace(mark, "\\u003c" + mark[1:])
        return f"{OPEN}{body}{CLOSE}"

    def instructions(self, tools: Iterable[Any]) -> str:
        """What to tell a model that does not know the format."""
        lines = [dump(function_schema(tool)) for tool in tools]
        return (
            "Tools, one JSON schema a line:\n" + "\n".join(lines) + "\n"
            "To call a tool, write its name and arguments as JSON between marks:\n"
            f'{OPEN}{{"name": "...", "arguments": {{...}}}}{CLOSE}'
        )
