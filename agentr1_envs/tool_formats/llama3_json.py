"""Llama 3.1 and 3.2: bare JSON, ``{"name": .., "parameters": {..}}``.

Outcomes, beyond the rules of `base`:

* A call begins after ``<|python_tag|>``, at the very beginning of the reply, or at the beginning of
  a line whose JSON object has "name", "type", "function", "parameters" or "arguments" as its first
  field. Braces anywhere else are text.
* Several calls are separated by ``;``, a line feed, or nothing.
* Text before and after calls, and a code fence around them: accepted.
* "arguments" is read as "parameters"; ``"type": "function"`` is skipped.
* Truncated or nested JSON, single quotes, trailing commas: as in `json_calls`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .base import ErrorLog, ParsedReply, ToolCall, Tools, skip_reasoning
from .json_calls import (
    CallError,
    check_call,
    decode,
    dump,
    protect,
    schema_lines,
    skip_fence,
    skip_space,
    to_call,
)

TAG = "<|python_tag|>"
_FIELDS = r"""\{[ \t\r\n]*["'](?:name|type|function|parameters|arguments)["'][ \t]*:"""
_begin = re.compile(
    rf"<\|python_tag\|>|^[ \t]*(?:```\w*[ \t]*\r?\n[ \t]*)?(?={_FIELDS})", re.MULTILINE
).search


class Llama3JsonFormat:
    """``{"name": .., "parameters": {..}}``."""

    name = "llama3_json"
    stop: tuple[str, ...] = ()

    def parse(self, text: str, tools: Tools = ()) -> ParsedReply:
        """Takes a reply apart; see the module's docstring for every outcome."""
        if "{" not in text and TAG not in text and "think>" not in text:
            return ParsedReply(text.strip())
        log = ErrorLog()
        position = skip_reasoning(text, log)
        calls: list[ToolCall] = []
        outside: list[str] = []
        first = skip_fence(text, position)
        if text.startswith("{", first):
            position = self._parse_run(text, first, calls, log)
        while not log.full:
            match = _begin(text, position)
            if match is None:
                outside.append(text[position:])
                break
            outside.append(text[position : match.start()])
            position = self._parse_run(text, match.end(), calls, log)
        return ParsedReply("".join(outside).strip(), calls, log.errors)

    def _parse_run(self, text: str, at: int, calls: list[ToolCall], log: ErrorLog) -> int:
        """Parses calls that follow each other; gives the position to go on from."""
        while True:
            at = skip_fence(text, at)
            try:
                value, end = decode(text, at)
                calls.append(
                    to_call(value, at, len(calls), ("parameters", "arguments"), ("id", "type"))
                )
            except CallError as error:
                log.add(error.reason, error.position, error.message)
                if error.reason in ("truncated", "too_deep"):
                    return len(text)
                # The rest of the line belongs to the broken call.
                line = text.find("\n", max(at, error.position))
                return line + 1 if line >= 0 else len(text)
            end = skip_fence(text, end)
            after = skip_space(text, end + 1) if text.startswith(";", end) else end
            if not text.startswith("{", after):
                return end
            at = after

    def render(self, calls: Sequence[ToolCall]) -> str:
        """The calls' JSON, joined by ``; ``."""
        parts = []
        for call in calls:
            check_call(call)
            body = dump({"name": call.name, "parameters": call.arguments})
            parts.append(protect(body, TAG))
        return "; ".join(parts)

    def instructions(self, tools: Tools) -> str:
        """What to tell a model that does not know the format."""
        return schema_lines(tools) + (
            "To call a tool, answer with JSON and nothing else (several calls: separated by ;):\n"
            '{"name": "...", "parameters": {...}}'
        )
