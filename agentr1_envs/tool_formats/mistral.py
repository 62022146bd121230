"""Mistral: ``[TOOL_CALLS] [{"name": .., "arguments": {..}}]``; also ``[TOOL_CALLS]name[ARGS]{..}``.

Outcomes, beyond the rules of `base`:

* The list form, one object without a list, and the newer form with a name and ``[ARGS]`` (or the
  brace at once) are read. `render` writes the list form.
* Text before the mark and after the calls: accepted. A code fence after the mark: accepted.
* A bad element of a list is an error; the other elements are still calls.
* A list whose JSON is broken or truncated is one error; its elements are not calls.
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

MARK, ARGS = "[TOOL_CALLS]", "[ARGS]"
_name = re.compile(
    r"[ \t\r\n]*([A-Za-z_][\w.-]{0,127})[ \t\r\n]*(?:\[ARGS\])?[ \t\r\n]*(?=\{|$)"
).match


class MistralFormat:
    """``[TOOL_CALLS] [{"name": .., "arguments": {..}}]``."""

    name = "mistral"
    stop: tuple[str, ...] = ()

    def parse(self, text: str, tools: Tools = ()) -> ParsedReply:
        """Takes a reply apart; see the module's docstring for every outcome."""
        log = ErrorLog()
        position = skip_reasoning(text, log)
        calls: list[ToolCall] = []
        outside: list[str] = []
        while not log.full:
            start = text.find(MARK, position)
            if start < 0:
                outside.append(text[position:])
                break
            outside.append(text[position:start])
            position = self._parse_one(text, start + len(MARK), calls, log)
        return ParsedReply("".join(outside).strip(), calls, log.errors)

    def _parse_one(self, text: str, at: int, calls: list[ToolCall], log: ErrorLog) -> int:
        named = _name(text, at)
        at = named.end() if named else skip_fence(text, at)
        try:
            value, end = decode(text, at)
            if named:
                value = {"name": named[1], "arguments": value}
            for item in value if type(value) is list else [value]:
                try:
                    calls.append(to_call(item, at, len(calls)))
                except CallError as error:
                    log.add(error.reason, error.position, error.message)
            return skip_fence(text, end) if text.startswith("```", skip_space(text, end)) else end
        except CallError as error:
            log.add(error.reason, error.position, error.message)
            following = text.find(MARK, at)
            return following if following >= 0 else len(text)

    def render(self, calls: Sequence[ToolCall]) -> str:
        """One list of all calls; the empty text for none."""
        if not calls:
            return ""
        items = []
        for call in calls:
            check_call(call)
            items.append({"name": call.name, "arguments": call.arguments})
            dump(items[-1])  # the depth limit holds for each call, not for the list
        body = "[" + ", ".join(dump(item) for item in items) + "]"
        return f"{MARK} {protect(body, MARK, ARGS)}"

    def instructions(self, tools: Tools) -> str:
        """What to tell a model that does not know the format."""
        return schema_lines(tools) + (
            "To call tools, write a mark and a JSON list of calls:\n"
            f'{MARK} [{{"name": "...", "arguments": {{...}}}}]'
        )
