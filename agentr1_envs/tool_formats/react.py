"""ReAct: ``Action: name`` and ``Action Input: {..}`` on lines of their own.

Outcomes, beyond the rules of `base`:

* Text around (``Thought: ..``) and several pairs: accepted. ``Final Answer:`` is text.
* The input is a JSON object. Anything else is an error, unless the tool's schema has exactly one
  parameter: then the rest of the line, without backquotes or quotes around it, is its value.
* From a line that begins with ``Observation:`` on, a reply is the model's own invention of the
  tool's answer: neither read nor part of the text.
* ``Action:`` without an input after it: "missing_input".
* A code fence around the input: accepted. Truncated JSON, single quotes, trailing commas: as in
  `json_calls`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .base import ErrorLog, ParsedReply, ToolCall, Tools, properties_of, skip_reasoning
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

# After reasoning the reply proper begins in the middle of a line.
_action = re.compile(r"(?:^|(?<=</think>))[ \t]*Action:[ \t]*([^\n]*)$", re.MULTILINE).search
_input = re.compile(r"\s*^[ \t]*Action Input:[ \t]*", re.MULTILINE).match
_observation = re.compile(r"^[ \t]*Observation:", re.MULTILINE).search
_writable = re.compile(r"[^\s](?:[^\n\r]*[^\s])?").fullmatch


class ReactFormat:
    """``Action: name`` / ``Action Input: {..}``."""

    name = "react"
    stop: tuple[str, ...] = ("\nObservation:",)

    def parse(self, text: str, tools: Tools = ()) -> ParsedReply:
        """Takes a reply apart; see the module's docstring for every outcome."""
        log = ErrorLog()
        position = skip_reasoning(text, log)
        invented = _observation(text, position)
        text = text[: invented.start()] if invented else text
        calls: list[ToolCall] = []
        outside: list[str] = []
        while not log.full:
            match = _action(text, position)
            if match is None:
                outside.append(text[position:])
                break
            outside.append(text[position : match.start()])
            try:
                call, position = self._parse_one(text, match, len(calls), tools)
                calls.append(call)
            except CallError as error:
                log.add(error.reason, error.position, error.message)
                line = text.find("\n", max(match.end(), error.position))
                position = line if line >= 0 else len(text)
        return ParsedReply("".join(outside).strip(), calls, log.errors)

    @staticmethod
    def _parse_one(
        text: str, match: re.Match[str], index: int, tools: Tools
    ) -> tuple[ToolCall, int]:
        name = match[1].strip().strip("`*\"' ")
        if not name:
            raise CallError("missing_name", match.start(), "no tool stands after Action:")
        start = _input(text, match.end())
        if start is None:
            raise CallError("missing_input", match.end(), "Action Input: must follow Action:")
        at = skip_fence(text, start.end())
        known = list(properties_of(tools, name))
        one = known[0] if len(known) == 1 else None
        if one is not None and not text.startswith(("{", "[", '"'), at):
            end = text.find("\n", start.end())
            end = end if end >= 0 else len(text)
            bare = text[start.end() : end].strip().strip("`").strip()
            if len(bare) > 1 and bare[0] == bare[-1] == "'":
                bare = bare[1:-1]
            if not bare:
                raise CallError("missing_input", start.end(), "nothing stands after Action Input:")
            return ToolCall(name, {one: bare}, f"call_{index}"), end
        if at < len(text) and not text.startswith(("{", '"') if one else "{", at):
            raise CallError("invalid_arguments", at, "Action Input: must be a JSON object")
        value, end = decode(text, at)
        if one is not None and type(value) is str:
            value = {one: value}
        call = to_call({"name": name, "arguments": value}, at, index)
        return call, skip_fence(text, end)

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Two lines a call."""
        lines = []
        for call in calls:
            check_call(call)
            if not _writable(call.name) or call.name.strip("`*\"' ") != call.name:
                raise ValueError(f"the name {call.name!r} can't stand on a line of ReAct")
            call.name.encode()
            lines += [f"Action: {call.name}", f"Action Input: {protect(dump(call.arguments))}"]
        return "\n".join(lines)

    def instructions(self, tools: Tools) -> str:
        """What to tell a model that does not know the format."""
        return schema_lines(tools) + (
            "To call a tool, write two lines and stop:\n"
            'Action: NAME\nAction Input: {"key": "value"}'
        )
