"""Tools: typed Python functions that a model can call.

`tool` makes a `Tool` of a typed function: its JSON schema comes from the annotations and the
docstring's ``Args:`` section, and arguments are validated by pydantic before the function runs.
`BaseTool` is the class form, for tools that hold state.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from typing import Any, ClassVar

from agentr1_envs.errors import EnvironmentFault, shorten


class ToolError(ValueError):
    """A call that can't be carried out, for a reason that the agent can mend.

    Args:
        message: Said to the agent.
        kind: A word for statistics, such as ``"arguments"`` or ``"unknown_tool"``.
    """

    def __init__(self, message: str, kind: str = "tool") -> None:
        super().__init__(message)
        self.message, self.kind = message, kind

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.message, self.kind))


class Tool:
    """A named function with a JSON schema.

    Args:
        function: Takes keyword arguments; returns text (other values are turned into it). It
            raises `ToolError` for what the agent did wrong and `EnvironmentFault` for what the
            machinery did; any other exception counts as the machinery's.
        name: Defaults to the function's name.
        description: Defaults to the docstring's first paragraph.
        max_output: Longest result in characters; longer ones are cut at a word border, with a mark.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        max_output: int = 32_768,
    ) -> None:
        from pydantic import ConfigDict, Field, create_model

        self.function, self.max_output = function, max_output
        self.name = name or function.__name__
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", self.name):
            raise ValueError(f"{self.name!r} is no tool name: letters, digits, '_' and '-' only")
        doc = inspect.getdoc(function) or ""
        self.description = description or " ".join(doc.split("\n\n")[0].split())
        described = _argument_docs(doc)
        hints = typing.get_type_hints(function, include_extras=True)
        fields: dict[str, Any] = {}
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(f"tool {self.name}: parameter {parameter.name} must be plain")
            if parameter.name not in hints:
                raise TypeError(f"tool {self.name}: parameter {parameter.name} has no annotation")
            default = ... if parameter.default is parameter.empty else parameter.default
            field = Field(default=default, description=described.get(parameter.name))
            fields[parameter.name] = (hints[parameter.name], field)
        self._model = create_model(
            f"{self.name}_arguments", __config__=ConfigDict(extra="forbid"), **fields
        )
        self._validate = self._model.__pydantic_validator__.validate_python
        parameters = _plain_schema(self._model.model_json_schema())
        self._schema = {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": parameters,
            },
        }

    @property
    def schema(self) -> dict[str, Any]:
        """OpenAI's function schema; a fresh copy."""
        from agentr1_envs.task_set import copy_json

        return copy_json(self._schema)

    def validate(self, arguments: Any) -> dict[str, Any]:
        """The keyword arguments in `arguments`, converted to the annotated types.

        Raises:
            ToolError: With kind ``"arguments"``; the message names each field and what is wrong.
        """
        from pydantic import ValidationError

        if not isinstance(arguments, dict):
            raise ToolError(
                f"{self.name}: the arguments must be an object, got "
                f"{shorten(repr(arguments))}. It takes {self.signature}.",
                "arguments",
            )
        try:
            model = self._validate(arguments)
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(str(part) for part in item['loc']) or 'arguments'}: "
                f"{item['msg'][:1].lower()}{item['msg'][1:]}"
                for item in error.errors(include_url=False)[:4]
            )
            raise ToolError(
                f"{self.name}: {shorten(faults, 300)}. It takes {self.signature}.", "arguments"
            ) from None
        except RecursionError:
            raise ToolError(f"{self.name}: the arguments nest too deep.", "arguments") from None
        return model.__dict__  # the fields alone, in their order; nobody else holds the model

    @property
    def signature(self) -> str:
        """The call in short, such as ``search(query: string, k: integer = 5)``."""
        parameters = self._schema["function"]["parameters"]  # type: ignore[index]
        required = parameters.get("required", [])
        parts = []
        for name, field in parameters.get("properties", {}).items():
            kind = field.get("type", "any")
            default = "" if name in required else f" = {field.get('default')!r}"
            parts.append(f"{name}: {kind}{default}")
        return f"{self.name}({', '.join(parts)})"

    def __call__(self, arguments: Any) -> str:
        """Validate `arguments`, run the function and return its result as text.

        Raises:
            ToolError: The agent's fault.
            EnvironmentFault: The machinery's fault, any unexpected exception included.
        """
        keywords = self.validate(arguments)
        try:
            result = self.function(**keywords)
        except (ToolError, EnvironmentFault):
            raise
        except Exception as error:
            raise EnvironmentFault(
                f"tool {self.name} failed: {type(error).__name__}: {error}"
            ) from error
        text = result if isinstance(result, str) else str(result)
        return text if len(text) <= self.max_output else cut_words(text, self.max_output)

    def __repr__(self) -> str:
        return f"Tool({self.signature})"


def tool(function: Callable[..., Any]) -> Tool:
    """Decorator: a `Tool` of a typed function."""
    return Tool(function)


class BaseTool:
    """The class form of a tool: name it, describe it and write a typed `execute`.

    ``BaseTool.as_tool()`` gives the `Tool` that environments use.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""

    def execute(self, **arguments: Any) -> Any:
        """Do the work; override with typed parameters and an ``Args:`` section."""
        raise NotImplementedError

    def as_tool(self) -> Tool:
        """The `Tool` whose function is this object's `execute`."""
        return Tool(self.execute, name=self.name, description=self.description or None)


def cut_words(text: str, limit: int, mark: str = " [cut]") -> str:
    """`text` within `limit` characters: cut at a word border, with `mark` at its end."""
    if len(text) <= limit:
        return text
    room = max(0, limit - len(mark))
    head = text[:room]
    if not text[room].isspace():
        border = max(head.rfind(" "), head.rfind("\n"))
        # A "word" that fills most of the room (or a script without spaces) is cut inside.
        head = head[:border] if border > room // 2 else head
    return head.rstrip() + mark


def _argument_docs(doc: str) -> dict[str, str]:
    """The parameters described in a Google-style ``Args:`` section."""
    match = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", doc, re.MULTILINE)
    if not match:
        return {}
    found: dict[str, str] = {}
    current = ""
    for line in inspect.cleandoc("\n" + match[1]).splitlines():
        head = re.match(r"(\w+)(?: \([^)]*\))?: (.*)", line)
        if head:
            current = head[1]
            found[current] = head[2].strip()
        elif current and line.strip():
            found[current] += " " + line.strip()
    return found


def _plain_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The model's schema without pydantic's titles, which only cost tokens."""

    def strip(value: Any, is_properties: bool = False) -> Any:
        if isinstance(value, dict):
            return {
                key: strip(item, key == "properties")
                for key, item in value.items()
                if is_properties or not (key == "title" and isinstance(item, str))
            }
        if isinstance(value, list):
            return [strip(item) for item in value]
        return value

    plain = strip(schema)
    plain.setdefault("properties", {})
    plain.setdefault("required", [])
    plain.pop("additionalProperties", None)
    return plain
