"""Qwen3-Coder: XML-like, one element a parameter, values without quotes.

```xml
<tool_call>
<function=calculator>
<parameter=expression>
3*4
</parameter>
</function>
</tool_call>
```

Outcomes, beyond the rules of `base`:

* One line feed after the opening and before the closing mark of a value is no part of it.
* A value is text where the tool's schema says so. Elsewhere it is JSON if it reads as JSON, else
  text; so single quotes, trailing commas and truncated JSON make it text, which the tool refuses.
  A JSON string is always decoded: `render` uses that for text that would read as something else.
* ``<function=..>`` without ``<tool_call>`` around it: accepted, as models often leave it out.
* Text around calls, several calls in one or several ``<tool_call>``: accepted.
* The reply ends inside a call: "truncated". Another mark comes before ``</parameter>`` or
  ``</function>``: "unclosed_tag". A parameter given twice: "duplicate_argument".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .base import ErrorLog, ParsedReply, ToolCall, Tools, properties_of, skip_reasoning
from .json_calls import (
    CallError,
    check_call,
    raw_value,
    schema_lines,
    skip_fence,
    skip_space,
    write_raw,
)

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_MARKS = (OPEN, CLOSE, "<function=", "</function>", "<parameter=", "</parameter>")
_begin = re.compile(r"<tool_call>|<function=").search
_end_of_value = re.compile(r"</parameter>|<parameter=|</function>|<function=|</tool_call>").search
_key = re.compile(r"([^<>\n]{1,256})>").match
_writable = re.compile(r"[^<>\n]{1,256}").fullmatch


class Qwen3CoderFormat:
    """``<function=name><parameter=key>value</parameter></function>`` in ``<tool_call>``."""

    name = "qwen3_coder"
    stop: tuple[str, ...] = ()

    def parse(self, text: str, tools: Tools = ()) -> ParsedReply:
        """Takes a reply apart; see the module's docstring for every outcome."""
        log = ErrorLog()
        position = skip_reasoning(text, log)
        calls: list[ToolCall] = []
        outside: list[str] = []
        while not log.full:
            match = _begin(text, position)
            between = text[position : match.start() if match else len(text)]
            stray = between.find(CLOSE)
            if stray >= 0:
                log.add("unopened_tag", position + stray, f"{CLOSE} stands without {OPEN}")
                between = between.replace(CLOSE, "")
            outside.append(between)
            if match is None:
                break
            position = self._parse_block(text, match.start(), calls, log, tools)
        return ParsedReply("".join(outside).strip(), calls, log.errors)

    def _parse_block(
        self, text: str, at: int, calls: list[ToolCall], log: ErrorLog, tools: Tools
    ) -> int:
        """Parses one ``<tool_call>`` with its functions, or one function without it."""
        start, wrapped = at, text.startswith(OPEN, at)
        if wrapped:
            at = skip_fence(text, at + len(OPEN))
        try:
            while True:
                call, at = self._parse_function(text, at, len(calls), tools)
                calls.append(call)
                if not wrapped:
                    return at
                at = skip_fence(text, at)
                if at >= len(text):  # a server that stops at the mark does not return it
                    return at
                if text.startswith(CLOSE, at):
                    return at + len(CLOSE)
                if not text.startswith("<function=", at):
                    raise CallError("unclosed_tag", at, f"the call is not closed by {CLOSE}")
        except CallError as error:
            log.add(error.reason, error.position, error.message)
            at = error.position
        following = _begin(text, at)
        limit = following.start() if following else len(text)
        close = text.find(CLOSE, start, limit)
        return close + len(CLOSE) if close >= 0 else limit

    def _parse_function(self, text: str, at: int, index: int, tools: Tools) -> tuple[ToolCall, int]:
        if not text.startswith("<function=", at):
            if at >= len(text):
                raise CallError("truncated", at)
            raise CallError("missing_name", at, f"<function=NAME> must follow {OPEN}")
        name, at = self._name_of(text, at + 10, "<function=NAME>")
        known = properties_of(tools, name)
        arguments: dict[str, Any] = {}
        while True:
            at = skip_space(text, at)
            if text.startswith("</function>", at):
                return ToolCall(name, arguments, f"call_{index}"), at + 11
            if not text.startswith("<parameter=", at):
                if "<parameter=".startswith(text[at : at + 11]) or "</function>".startswith(
                    text[at : at + 11]
                ):
                    raise CallError("truncated", at)
                message = "<parameter=NAME> or </function> is missing"
                raise CallError("unclosed_tag", at, message)
            begin = at
            key, at = self._name_of(text, at + 11, "<parameter=NAME>")
            close = _end_of_value(text, at)
            if close is None:
                raise CallError("truncated", len(text))
            if close[0] != "</parameter>":
                raise CallError("unclosed_tag", close.start(), "</parameter> is missing")
            if key in arguments:
                raise CallError(
                    "duplicate_argument", begin, f'the parameter "{key}" is given twice'
                )
            value = text[at : close.start()]
            value = value.removeprefix("\n").removesuffix("\n")
            arguments[key] = raw_value(value, known.get(key, {}).get("type") == "string")
            at = close.end()

    @staticmethod
    def _name_of(text: str, at: int, form: str) -> tuple[str, int]:
        match = _key(text, at)
        if match is None:
            if text.find(">", at, at + 257) < 0 and len(text) - at < 257:
                raise CallError("truncated", at)
            raise CallError("invalid_name", at, f"{form} is not well formed")
        return match[1].strip(), match.end()

    def render(self, calls: Sequence[ToolCall]) -> str:
        """One ``<tool_call>`` a call, joined by line feeds."""
        blocks = []
        for call in calls:
            check_call(call)
            lines = [OPEN, f"<function={_checked(call.name)}>"]
            for key, value in call.arguments.items():
                lines += [f"<parameter={_checked(key)}>", write_raw(value, *_MARKS), "</parameter>"]
            blocks.append("\n".join([*lines, "</function>", CLOSE]))
        return "\n".join(blocks)

    def instructions(self, tools: Tools) -> str:
        """What to tell a model that does not know the format."""
        return schema_lines(tools) + (
            "To call a tool, write:\n"
            f"{OPEN}\n<function=NAME>\n<parameter=KEY>\nvalue\n</parameter>\n</function>\n{CLOSE}"
        )


def _checked(name: str) -> str:
    if not _writable(name) or name.strip() != name:
        raise ValueError(f"{name!r} can't stand in a mark of qwen3_coder")
    name.encode()
    return name
