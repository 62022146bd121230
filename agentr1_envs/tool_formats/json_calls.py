"""Strict JSON calls inside free text, shared by the formats that carry JSON."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from .base import ToolCall, Tools, function_schema


class CallError(Exception):
    """A call that is not well formed: reason, position in the reply, message, where to go on."""

    def __init__(self, reason: str, position: int, message: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position
        self.message = message


class _NumberError(ValueError):
    pass


def _finite(literal: str) -> float:
    value = float(literal)
    if not math.isfinite(value):
        raise _NumberError
    return value


def _no_constant(literal: str) -> Any:
    raise _NumberError


_decoder = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)
_scan = _decoder.scan_once  # type: ignore[attr-defined]
_space_from = re.compile(r"[ \t\r\n]*").match
_fence_from = re.compile(r"```\w*[ \t\r\n]*").match

MAX_DEPTH = 64
"""How deep the JSON of a call may be nested: a fixed number, unlike the interpreter's own limit."""


def skip_space(text: str, position: int) -> int:
    """The first position at or after `position` that is not white space."""
    return _space_from(text, position).end()  # type: ignore[union-attr]


def skip_fence(text: str, position: int) -> int:
    """Skips white space and a mark of a code fence (three backquotes, perhaps a language)."""
    position = skip_space(text, position)
    if not text.startswith("```", position):
        return position
    return _fence_from(text, position).end()  # type: ignore[union-attr]


def too_deep(value: Any) -> bool:
    """Whether lists and dicts are nested deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            if type(item) is dict:
                below += item.values()
            elif type(item) is list or type(item) is tuple:
                below += item
        if not below:
            return False
        level = below
    return True


def decode(text: str, position: int, closing: str = "") -> tuple[Any, int]:
    """Decodes the JSON value at `position`; gives the value and the position after it.

    `closing` is the mark that ends a call: JSON that breaks off there counts as truncated.

    Raises:
        CallError: with the reason and the position of the fault.
    """
    try:
        value, end = _scan(text, position)
    except StopIteration as stop:
        raise _classify(text, stop.value, closing) from None
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated string"):
            message = "the JSON of the call ends inside a string"
            raise CallError("truncated", error.pos, message) from None
        raise _classify(text, error.pos, closing) from None
    except RecursionError:
        raise CallError("too_deep", position) from None
    except ValueError:  # not finite, or more digits than int() takes
        raise CallError("invalid_number", position) from None
    if end - position > 2 * MAX_DEPTH:  # shorter text cannot nest so deep
        brackets = text.count("{", position, end) + text.count("[", position, end)
        if brackets > MAX_DEPTH and too_deep(value):
            raise CallError("too_deep", position)
    if text.find("\\u", position, end) >= 0:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise CallError("invalid_unicode", position) from None
    return value, end


def _classify(text: str, position: int, closing: str) -> CallError:
    """Names the fault of JSON that fails at `position`."""
    here = skip_space(text, position)
    if here >= len(text) or (closing and text.startswith(closing, here)):
        return CallError("truncated", here, "the JSON of the call is not complete")
    char = text[here]
    if char == "'":
        return CallError("single_quotes", here, "JSON strings need double quotes")
    before = here
    if char in "}]":
        before -= 1
        while before > 0 and text[before] in " \t\r\n":
            before -= 1
    if text[before] == "," and text.startswith(("}", "]"), skip_space(text, before + 1)):
        return CallError("trailing_comma", before, "a comma stands before the closing bracket")
    return CallError("invalid_json", here, f"the JSON of the call is not valid at {char!r}")


def to_call(
    value: Any,
    position: int,
    index: int,
    argument_keys: tuple[str, ...] = ("arguments",),
    other_keys: tuple[str, ...] = ("id",),
) -> ToolCall:
    """Makes a call from a decoded value.

    A missing arguments field means no arguments; arguments given as a string of JSON are decoded.

    Raises:
        CallError: the value is no call.
    """
    if type(value) is not dict:
        raise CallError("not_an_object", position, "a call must be a JSON object")
    name, arguments = value.get("name"), value.get(argument_keys[0])
    if len(value) == 2 and type(arguments) is dict and type(name) is str and name.strip():
        return ToolCall(name, arguments, f"call_{index}")  # the usual call: nothing to complain of
    if name is None:
        raise CallError("missing_name", position, 'the call has no "name"')
    if type(name) is not str or not name.strip():
        raise CallError("invalid_name", position, 'the "name" of a call must be a non-empty string')
    arguments = None
    given = ""
    for key in value:
        if key == "name":
            continue
        if key in argument_keys:
            if given:
                message = f'the call has both "{given}" and "{key}"'
                raise CallError("unexpected_field", position, message)
            given, arguments = key, value[key]
        elif key not in other_keys:
            message = f'unknown field "{key[:40]}": arguments belong into "{argument_keys[0]}"'
            raise CallError("unexpected_field", position, message)
    if type(arguments) is str:
        arguments = _decode_inner(arguments, position)
    if arguments is None:
        arguments = {}
    if type(arguments) is not dict:
        message = f'"{given}" must be a JSON object'
        raise CallError("invalid_arguments", position, message)
    own = value.get("id") if "id" in other_keys else None
    call_id = own if type(own) is str and own else f"call_{index}"
    return ToolCall(name, arguments, call_id)


def _decode_inner(arguments: str, position: int) -> Any:
    """Arguments that are a string of JSON, as in OpenAI's messages; faults get the outer place."""
    start = skip_space(arguments, 0)
    try:
        value, end = decode(arguments, start)
    except CallError as error:
        raise CallError(error.reason, position, error.message) from None
    if skip_space(arguments, end) != len(arguments):
        raise CallError("invalid_json", position, "text stands after the JSON of the arguments")
    return value


def dump(value: Any) -> str:
    """JSON on one line, characters as they are.

    Raises:
        ValueError: not finite, not JSON-able, or half of a surrogate pair.
    """
    if too_deep(value):
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except TypeError as error:
        raise ValueError(f"not JSON: {error}") from None
    return text


def check_call(call: ToolCall) -> None:
    """Raises ValueError for a call no format can carry."""
    if not isinstance(call.name, str) or not call.name.strip():
        raise ValueError(f"call: got the name {call.name!r}, expected a non-empty string")
    if not isinstance(call.arguments, dict) or not all(isinstance(k, str) for k in call.arguments):
        raise ValueError(f"call {call.name!r}: arguments must be a dict with string keys")


def protect(body: str, *marks: str) -> str:
    """JSON in which `marks` (and those of reasoning) are escaped inside strings.

    Our parsers would not need it; others look for the marks first. Marks begin with "<" or "[",
    which stand in JSON of ours only inside strings when the rest of the mark follows.
    """
    for mark in (*marks, "<think>", "</think>"):
        if mark in body:
            body = body.replace(mark, f"\\u{ord(mark[0]):04x}{mark[1:]}")
    return body


def schema_lines(tools: Tools) -> str:
    """How instructions begin: the schemas of the tools, one JSON object a line."""
    lines = [dump(function_schema(tool)) for tool in tools]
    return "\n".join(["Tools, one JSON schema a line:", *lines, ""])


def raw_value(text: str, is_text: bool = False) -> Any:
    """An argument written without quotes: JSON where it is JSON, else the text itself.

    With `is_text` only a JSON string is decoded: the number in ``3`` stays the text "3".
    """
    bare = text.strip()
    if is_text and not bare.startswith('"'):
        return text
    try:
        value, end = decode(bare, 0)
    except CallError:
        return text
    if end != len(bare) or (is_text and type(value) is not str):
        return text
    return value


def write_raw(value: Any, *marks: str) -> str:
    """The inverse of `raw_value`: text as it is, unless that would read as something else."""
    if type(value) is str:
        plain = not any(mark in value for mark in (*marks, "<think>", "</think>"))
        if plain and value.strip() == value and raw_value(value) is value:
            value.encode()  # half of a surrogate pair: a UnicodeError is a ValueError
            return value
    return protect(dump(value), *marks)
