"""Action tags: ``<action>go to desk 1</action>`` or ``<action>name(key="value")</action>``.

Outcomes, beyond the rules of `base`:

* ``name(key=value, ..)`` with JSON values is a call; so is ``name()``.
* Anything else is a command. It goes, stripped, to the only tool's only parameter where `tools`
  has exactly one of each, else to ``env_step(command=..)``.
* Text around tags, several tags, a code fence in a tag: accepted. A tag never closed counts to the
  end of the reply for ``name(..)`` that is complete; a command without its closing mark is
  "truncated", since its end can't be known.
* An empty tag: "missing_name". Truncated or nested JSON, single quotes, trailing commas in the
  values of ``name(..)``: as in `json_calls`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .base import ErrorLog, ParsedReply, ToolCall, Tools, function_schema, go_on, scan_blocks
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

OPEN, CLOSE = MARKS = ("<action>", "</action>")
TOOL, PARAMETER = "env_step", "command"
_call = re.compile(
    r"([A-Za-z_][\w.-]{0,127})\([ \t\r\n]*(?=\)|[A-Za-z_]\w{0,127}[ \t]*=(?!=))"
).match
_key = re.compile(r"([A-Za-z_]\w{0,127})[ \t]*=[ \t\r\n]*").match
_name = re.compile(r"[A-Za-z_][\w.-]{0,127}").fullmatch
_identifier = re.compile(r"[A-Za-z_]\w{0,127}").fullmatch


class ActionTagFormat:
    """``<action>..</action>`` around a command or ``name(key=value)``."""

    name = "action_tag"
    stop: tuple[str, ...] = ()

    def parse(self, text: str, tools: Tools = ()) -> ParsedReply:
        """Takes a reply apart; see the module's docstring for every outcome."""
        if "action>" not in text and "think>" not in text:
            return ParsedReply(text.strip())
        target = _target(tools)

        def parse_one(text: str, start: int, calls: list[ToolCall], log: ErrorLog) -> int:
            return _parse_one(text, start, calls, log, target)

        return scan_blocks(text, MARKS, parse_one)

    def render(self, calls: Sequence[ToolCall]) -> str:
        """One tag a call, joined by line feeds."""
        return "\n".join(f"{OPEN}{_write(call)}{CLOSE}" for call in calls)

    def instructions(self, tools: Tools) -> str:
        """What to tell a model that does not know the format."""
        tools = list(tools)
        target = _target(tools)
        if not tools:
            return f"Write one action between marks: {OPEN}...{CLOSE}"
        if target != (TOOL, PARAMETER):
            about = schema_lines(tools)
            return f"{about}To call it, write its {target[1]} between marks: {OPEN}...{CLOSE}"
        return schema_lines(tools) + (f'To call a tool, write: {OPEN}name(key="value"){CLOSE}')


def _target(tools: Tools) -> tuple[str, str]:
    """The tool and parameter that take a command."""
    schemas = [function_schema(tool) for tool in tools]
    if len(schemas) == 1:
        properties = schemas[0].get("parameters", {}).get("properties", {})
        if len(properties) == 1:
            return schemas[0]["name"], next(iter(properties))
    return TOOL, PARAMETER


def _parse_one(
    text: str, start: int, calls: list[ToolCall], log: ErrorLog, target: tuple[str, str]
) -> int:
    at = skip_fence(text, start)
    try:
        match = _call(text, at)
        if match is None:
            close = text.find(CLOSE, start)
            following = text.find(OPEN, start, close if close >= 0 else len(text))
            if following >= 0:
                raise CallError("unclosed_tag", following, f"the action is not closed by {CLOSE}")
            if close < 0:
                raise CallError("truncated", len(text), f"{CLOSE} is missing")
            command = text[at:close].strip().removesuffix("```").strip()
            if not command:
                raise CallError("missing_name", at, "the action is empty")
            calls.append(ToolCall(target[0], {target[1]: command}, f"call_{len(calls)}"))
            return close + len(CLOSE)
        arguments, end = _arguments(text, match.end())
        end = skip_fence(text, end)
        if not text.startswith(CLOSE, end) and end < len(text):
            raise CallError("trailing_text", end, f"text stands between the call and {CLOSE}")
        calls.append(to_call({"name": match[1], "arguments": arguments}, at, len(calls)))
        return end + len(CLOSE)
    except CallError as error:
        log.add(error.reason, error.position, error.message)
    return go_on(text, at, MARKS)


def _arguments(text: str, at: int) -> tuple[dict[str, Any], int]:
    """The ``key=value`` pairs up to the closing bracket."""
    arguments: dict[str, Any] = {}
    while True:
        at = skip_space(text, at)
        if text.startswith(")", at) and not arguments:
            return arguments, at + 1
        match = _key(text, at)
        if match is None:
            if text.startswith(")", at):
                raise CallError("trailing_comma", at, "a comma stands before the closing bracket")
            if at >= len(text) or text.startswith(CLOSE, at):
                raise CallError("truncated", at)
            raise CallError("invalid_arguments", at, "an argument must be written key=value")
        if match[1] in arguments:
            raise CallError("duplicate_argument", at, f'"{match[1]}" is given twice')
        arguments[match[1]], at = decode(text, match.end(), CLOSE)
        at = skip_space(text, at)
        if text.startswith(")", at):
            return arguments, at + 1
        if not text.startswith(",", at):
            if at >= len(text) or text.startswith(CLOSE, at):
                raise CallError("truncated", at)
            raise CallError("invalid_arguments", at, "a comma or closing bracket is missing")
        at += 1


def _write(call: ToolCall) -> str:
    check_call(call)
    if call.name == TOOL and list(call.arguments) == [PARAMETER]:
        command = call.arguments[PARAMETER]
        if type(command) is str and _is_plain(command):
            return command
    if not _name(call.name) or not all(_identifier(key) for key in call.arguments):
        raise ValueError(f"{call!r} can't be written as name(key=value)")
    parts = [f"{key}={dump(value)}" for key, value in call.arguments.items()]
    return protect(f"{call.name}({', '.join(parts)})", OPEN, CLOSE)


def _is_plain(command: str) -> bool:
    """Whether the bare text reads back as this command."""
    try:
        command.encode()
    except UnicodeEncodeError:
        return False
    return (
        bool(command)
        and command.strip() == command
        and "```" not in command
        and not any(mark in command for mark in (OPEN, CLOSE, "<think>", "</think>"))
        and _call(command, 0) is None
    )
