"""What every tool-call wire format shares: its data types, its protocol and the table of formats.

A format turns the text a model wrote into calls (`parse`), calls into text (`render`) and a list of
tools into a paragraph for the system prompt (`instructions`). The contract, the same in every
format:

* `parse` takes any string and never raises. What is not a well-formed call becomes a
  `ParseError` with a reason from `REASONS` and the character position in the reply.
* `parse(render(calls)).calls == calls`. What a format cannot carry makes `render` raise ValueError.
* Time is linear in the length of the reply: after `MAX_ERRORS` errors parsing stops.
* Calls are strict: nothing is guessed or repaired. Single quotes, a trailing comma or truncated
  JSON are errors that name the fault. Only white space and a code fence around a call are skipped.
* Reasoning (what stands before ``</think>``) is never searched for calls and is no part of `text`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

Tools = Iterable[Any]
"""OpenAI-style schemas, or objects that have one as `.schema`."""

MAX_ERRORS = 16
"""Parsing one reply stops after this many errors."""

REASONS: dict[str, str] = {
    "truncated": "the reply ends, or the call is closed, before the call is complete",
    "single_quotes": "single quotes stand where JSON needs double quotes",
    "trailing_comma": "a comma stands before a closing bracket",
    "invalid_json": "the text of the call is not JSON",
    "too_deep": "the JSON is nested too deeply",
    "invalid_number": "a number is not finite or has too many digits",
    "invalid_unicode": "a string holds half of a surrogate pair",
    "not_an_object": "the call is JSON, but not an object",
    "missing_name": "the call does not name a tool",
    "invalid_name": "the tool's name is not a non-empty string",
    "invalid_arguments": "the arguments are not an object",
    "unexpected_field": "the call has a field that the format does not know",
    "trailing_text": "text stands between the call and its closing mark",
    "unclosed_tag": "the closing mark of the call is missing",
    "unopened_tag": "a closing mark stands without its opening mark",
    "missing_input": "a tool is named but its input is missing",
    "duplicate_argument": "an argument is given twice",
    "unclosed_reasoning": "the reply ends inside its reasoning",
    "too_many_errors": "too many errors; the rest of the reply was not read",
}
"""Every reason a `ParseError` can have, with its meaning."""


@dataclass(slots=True)
class ToolCall:
    """One call: the tool's name, its arguments by name, and an id unique in the reply.

    The id is for matching results to calls and no part of equality.
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str = field(default="call_0", compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The call as plain JSON-able data."""
        return {"id": self.id, "name": self.name, "arguments": self.arguments}


@dataclass(slots=True)
class ParseError:
    """Why a piece of a reply is not a call.

    Attributes:
        reason: a key of `REASONS`.
        position: index into the reply, in characters.
        message: one sentence for the model that wrote the reply.
    """

    reason: str
    position: int
    message: str


@dataclass(slots=True)
class ParsedReply:
    """A reply taken apart.

    Attributes:
        text: what stands outside calls and reasoning, stripped.
        calls: the well-formed calls in order.
        errors: what looked like a call and is none, in order.
    """

    text: str
    calls: list[ToolCall] = field(default_factory=list)
    errors: list[ParseError] = field(default_factory=list)


@runtime_checkable
class ToolFormat(Protocol):
    """A wire format: parser, renderer and instructions. See the module's docstring."""

    name: str
    stop: tuple[str, ...]
    """Strings at which generation can stop without losing a call (may be empty)."""

    def parse(self, text: str, tools: Tools = ()) -> ParsedReply:
        """Takes a reply apart. Never raises for a `str`.

        `tools` matters where arguments are written without quotes: it says which are text.
        """
        ...

    def render(self, calls: Sequence[ToolCall]) -> str:
        """Writes calls as a model would. Raises ValueError for what the format cannot carry."""
        ...

    def instructions(self, tools: Tools) -> str:
        """A paragraph for the system prompt; `tools` are schemas or objects with `.schema`."""
        ...


class ErrorLog:
    """Collects the errors of one reply and says when to stop."""

    __slots__ = ("errors", "full")

    def __init__(self) -> None:
        self.errors: list[ParseError] = []
        self.full = False

    def add(self, reason: str, position: int, message: str = "") -> None:
        """Adds one error; after `MAX_ERRORS` adds "too_many_errors" and sets `full`."""
        if self.full:
            return
        if len(self.errors) >= MAX_ERRORS:
            self.full = True
            reason, message = "too_many_errors", ""
        text = message or REASONS[reason]
        self.errors.append(ParseError(reason, position, text[:1].upper() + text[1:] + "."))


def skip_reasoning(text: str, log: ErrorLog) -> int:
    """The position at which the reply proper begins.

    Everything up to the first ``</think>`` is reasoning, also without the opening mark, because
    many chat templates put it into the prompt. An opening mark that is never closed is an error.
    """
    end = text.find("</think>")
    if end >= 0:
        return end + 8
    if text.lstrip()[:7] == "<think>":
        log.add("unclosed_reasoning", text.find("<think>"))
        return len(text)
    return 0


def function_schema(tool: Any) -> dict[str, Any]:
    """The {"name", "description", "parameters"} part of a tool or of its OpenAI-style schema."""
    schema = tool if isinstance(tool, dict) else tool.schema
    if callable(schema):
        schema = schema()
    inner = schema.get("function", schema)
    if not isinstance(inner, dict) or "name" not in inner:
        raise ValueError(f"not a tool schema: {schema!r}")
    return inner


def properties_of(tools: Tools, name: str) -> dict[str, dict[str, Any]]:
    """The parameters of the tool of that name, each with its schema; empty if there is none."""
    for tool in tools:
        schema = function_schema(tool)
        if schema["name"] == name:
            return schema.get("parameters", {}).get("properties", {})
    return {}


def scan_blocks(
    text: str,
    marks: tuple[str, str],
    parse_one: Callable[[str, int, list[ToolCall], ErrorLog], int],
) -> ParsedReply:
    """Parses a reply whose calls stand between an opening and a closing mark.

    `parse_one(text, start, calls, log)` reads the call that begins at `start`, after its opening
    mark, adds to calls or errors, and gives the position to go on from.
    """
    opening, closing = marks
    log = ErrorLog()
    position = skip_reasoning(text, log)
    calls: list[ToolCall] = []
    outside: list[str] = []
    while not log.full:
        start = text.find(opening, position)
        between = text[position : start if start >= 0 else len(text)]
        stray = between.find(closing)
        if stray >= 0:
            log.add("unopened_tag", position + stray, f"{closing} stands without {opening}")
            between = between.replace(closing, "")
        outside.append(between)
        if start < 0:
            break
        position = parse_one(text, start + len(opening), calls, log)
    return ParsedReply("".join(outside).strip(), calls, log.errors)


def go_on(text: str, position: int, marks: tuple[str, str]) -> int:
    """Where to go on after a broken block: after its closing mark, or at the next opening one,
    whichever comes first, since a call after a broken one is still a call."""
    opening, closing = marks
    following = text.find(opening, position)
    close = text.find(closing, position, following if following >= 0 else len(text))
    if close >= 0:
        return close + len(closing)
    return following if following >= 0 else len(text)


_FORMATS: dict[str, tuple[str, str]] = {
    "hermes": ("hermes", "HermesFormat"),
    "llama3_json": ("llama3_json", "Llama3JsonFormat"),
    "mistral": ("mistral", "MistralFormat"),
    "qwen3_coder": ("qwen3_coder", "Qwen3CoderFormat"),
    "react": ("react", "ReactFormat"),
    "action_tag": ("action_tag", "ActionTagFormat"),
    "harmony": ("harmony", "HarmonyFormat"),
}


def format_names() -> list[str]:
    """The names that `get_format` knows."""
    return sorted(_FORMATS)


_instances: dict[str, ToolFormat] = {}


def get_format(name: str | ToolFormat) -> ToolFormat:
    """The format of that name (formats have no state: one object serves all).

    Raises:
        ValueError: no such format.
        ImportError: the format needs a library that is not installed.
    """
    if isinstance(name, ToolFormat):
        return name
    if not isinstance(name, str):
        raise ValueError(f"tool_format: got {name!r}, expected one of {format_names()}")
    found = _instances.get(name)
    if found is None:
        if name not in _FORMATS:
            raise ValueError(f"tool_format: got {name!r}, expected one of {format_names()}")
        module, cls = _FORMATS[name]
        found = getattr(importlib.import_module(f"{__package__}.{module}"), cls)()
        _instances[name] = found
    return found
