"""Harmony, the format of gpt-oss: channels, recipients and JSON.

``<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{..}<|call|>``

Outcomes, beyond the rules of `base`:

* A message whose header names a recipient ``functions.NAME`` is a call, whether the recipient
  stands before or after the channel, with or without ``<|constrain|>json``.
* The channel "analysis" is reasoning and no text; "final" and a commentary without a recipient are
  text. A reply without any mark is text.
* Several calls in one reply: accepted. The final ``<|call|>`` may be missing where the JSON is
  complete; a missing ``<|message|>`` is "truncated".
* A recipient other than ``functions.*`` (``browser.search``) keeps its whole name as the tool's.
* A code fence around the JSON: accepted. Truncated or nested JSON, single quotes, trailing commas:
  as in `json_calls`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .base import ErrorLog, ParsedReply, ToolCall, Tools
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

CHANNEL, MESSAGE, CALL, START = "<|channel|>", "<|message|>", "<|call|>", "<|start|>"
_end = re.compile(r"<\|(?:end|call|return|start)\|>").search
_recipient = re.compile(r"\bto=([^\s<]{1,256})").search
_channel = re.compile(r"<\|channel\|>\s*(\w{1,64})").search
_name = re.compile(r"[^\s<.][^\s<]{0,245}").fullmatch


class HarmonyFormat:
    """Messages with channels and recipients."""

    name = "harmony"
    stop: tuple[str, ...] = ()

    def parse(self, text: str, tools: Tools = ()) -> ParsedReply:
        """Takes a reply apart; see the module's docstring for every outcome."""
        if "<|" not in text:
            return ParsedReply(text.strip())
        log = ErrorLog()
        calls: list[ToolCall] = []
        outside: list[str] = []
        position = 0
        while position < len(text) and not log.full:
            message = text.find(MESSAGE, position)
            if message < 0:
                rest = text[position:]
                if CHANNEL in rest or START in rest:
                    log.add("truncated", len(text), "the reply ends before <|message|>")
                else:
                    outside.append(rest)
                break
            header = text[position:message]
            channel, recipient = _channel(header), _recipient(header)
            body = message + len(MESSAGE)
            if recipient:
                position = self._parse_call(text, body, recipient[1], calls, log)
                continue
            end = _end(text, body)
            stop = end.start() if end else len(text)
            if not channel or channel[1] != "analysis":
                outside.append(text[body:stop])
            position = _after(text, stop)
        return ParsedReply("\n".join(part.strip() for part in outside).strip(), calls, log.errors)

    @staticmethod
    def _parse_call(text: str, at: int, name: str, calls: list[ToolCall], log: ErrorLog) -> int:
        at = skip_fence(text, at)
        end = at
        try:
            value, end = decode(text, at, "<|")
            end = skip_fence(text, end)
            if end < len(text) and not text.startswith("<|", end):
                raise CallError("trailing_text", end, f"text stands between the JSON and {CALL}")
            name = name.removeprefix("functions.")
            calls.append(to_call({"name": name, "arguments": value}, at, len(calls)))
        except CallError as error:
            log.add(error.reason, error.position, error.message)
        mark = _end(text, end)
        return _after(text, mark.start() if mark else len(text))

    def render(self, calls: Sequence[ToolCall]) -> str:
        """One message a call, each with its own header."""
        parts = []
        for call in calls:
            check_call(call)
            if not _name(call.name) or call.name.startswith("functions."):
                raise ValueError(f"the name {call.name!r} can't stand in a header of harmony")
            call.name.encode()
            body = protect(dump(call.arguments), "<|")
            header = f"{CHANNEL}commentary to=functions.{call.name} <|constrain|>json"
            parts.append(f"{header}{MESSAGE}{body}{CALL}")
        return f"{START}assistant".join(parts)

    def instructions(self, tools: Tools) -> str:
        """What to tell a model that does not know the format."""
        return schema_lines(tools) + (
            "To call a tool, write:\n"
            f"{CHANNEL}commentary to=functions.NAME <|constrain|>json{MESSAGE}{{...}}{CALL}"
        )


def _after(text: str, position: int) -> int:
    """The position after the end mark at `position`; `<|start|>` begins the next header."""
    if position >= len(text) or text.startswith(START, position):
        return position
    return text.index("|>", position) + 2
