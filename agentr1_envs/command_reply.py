"""Replies that carry one text command: bare, in action tags after a thought, or as a tool call.

Some worlds take commands (``go to desk 1``, ``search[red shoes]``) rather than tool calls. What a
model writes around a command differs between training recipes; `CommandReader` reads all of them
and says how a reply must look.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentr1_envs.task_env import agent_error
from agentr1_envs.task_set import copy_json
from agentr1_envs.tool_formats import get_format
from agentr1_envs.tool_formats.base import ToolCall

ACTION_FORMATS = ("command", "think_action", "tool")
TOOL = "env_step"

_REPLY = {
    "command": "Reply with one command and nothing else.",
    "think_action": (
        "First reason about the next step within <think> </think>, then give one command within "
        "<action> </action>."
    ),
}


class BadReply(Exception):
    """A reply that holds no command in the chosen format.

    Attributes:
        kind: ``format`` (think_action); ``no_call``, ``parse_REASON``, ``unknown_tool`` or
            ``arguments`` (tool).
        message: What was wrong and what is right.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


@dataclass(slots=True)
class Command:
    """The command of a reply.

    Attributes:
        text: The command.
        tool_calls: For ``info["tool_calls"]``: the call, its result to be filled in; None unless
            the format is "tool".
        error: An agent error that does not keep the command from being carried out.
    """

    text: str
    tool_calls: list[dict[str, Any]] | None = None
    error: dict[str, str] | None = None


class CommandReader:
    """Reads and writes replies in one format.

    Args:
        action_format: One of `ACTION_FORMATS`.
        tool_format: A name of `agentr1_envs.tool_formats`, for the format "tool".
        purpose: What the tool does, for its schema.
        example: A command, for the schema and for complaints.
    """

    def __init__(self, action_format: str, tool_format: str, *, purpose: str, example: str) -> None:
        if action_format not in ACTION_FORMATS:
            raise ValueError(
                f"action_format must be one of {ACTION_FORMATS}, got {action_format!r}"
            )
        self.action_format, self.tool_format, self.example = action_format, tool_format, example
        self._format = get_format(tool_format)
        argument = {"type": "string", "description": f"The command, for example: {example}"}
        parameters = {
            "type": "object",
            "properties": {"command": argument},
            "required": ["command"],
        }
        function = {"name": TOOL, "description": purpose, "parameters": parameters}
        self._schema = {"type": "function", "function": function}

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tool ``env_step(command)`` with the format "tool", else nothing."""
        return [copy_json(self._schema)] if self.action_format == "tool" else []

    @property
    def instructions(self) -> str:
        """How to reply, for a system prompt."""
        if self.action_format == "tool":
            return self._format.instructions(self.tools)
        return _REPLY[self.action_format]

    def write(self, command: str) -> str:
        """A command as a reply."""
        if self.action_format == "command":
            return command
        if self.action_format == "think_action":
            return f"<think>The next command is: {command}</think><action>{command}</action>"
        return self._format.render([ToolCall(TOOL, {"command": command})])

    def read(self, reply: str) -> Command:
        """The command of a reply.

        Raises:
            BadReply: There is none, or more than one where the format allows one.
        """
        if self.action_format == "command":
            return Command(reply)
        if self.action_format == "think_action":
            # The opening <think> may stand in the prompt; what counts follows </think>.
            _, thought, rest = reply.partition("</think>")
            _, opened, rest = rest.partition("<action>")
            command, closed, rest = rest.partition("</action>")
            if not (thought and opened and closed) or "<action>" in command + rest:
                raise BadReply(
                    "format", "A reply is <think>reasoning</think><action>one command</action>."
                )
            return Command(command)
        return self._read_call(reply)

    def _read_call(self, text: str) -> Command:
        reply = self._format.parse(text, self.tools)
        if not reply.calls:
            reason = f"parse_{reply.errors[0].reason}" if reply.errors else "no_call"
            detail = f"{reply.errors[0].message} " if reply.errors else ""
            call = self.write(self.example)
            raise BadReply(reason, f"{detail}A reply calls the tool {TOOL}, for example: {call}")
        first = reply.calls[0]
        if first.name != TOOL:
            raise BadReply(
                "unknown_tool", f"There is no tool {first.name[:64]!r}; the tool is {TOOL}."
            )
        wanted = first.arguments.get("command")
        if not isinstance(wanted, str) or len(first.arguments) != 1:
            raise BadReply("arguments", f"{TOOL} takes one argument, 'command', which is text.")
        error = None
        if len(reply.calls) > 1:
            error = agent_error(
                "too_many_calls", f"{len(reply.calls) - 1} more calls were not run: one a reply."
            )
        arguments = {"command": wanted}
        record = {"name": TOOL, "arguments": arguments, "result": None, "error": None}
        return Command(wanted, [record], error)
