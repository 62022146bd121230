"""`ToolEnv`: the reply is parsed, its tool calls are run in order, their results are fed back."""

from __future__ import annotations

from typing import Any

from agentr1_envs.arguments import whole
from agentr1_envs.task_env import StepOutcome, TextTaskEnv, agent_error
from agentr1_envs.tool_formats import ToolCall, get_format
from agentr1_envs.tools import Tool, ToolError


class ToolEnv(TextTaskEnv):
    """Base class of the tasks with tools.

    A reply with tool calls is a step whose observation is their results. A reply without one is
    the final answer and goes to `_on_answer`. A reply whose calls can't be parsed is a step too:
    the observation says what was wrong.

    Args:
        tool_format: How calls are written in a reply; a name of `agentr1_envs.tool_formats`.
        max_calls: Most calls run from one reply; further ones are refused by name.
        **kwargs: See `TextTaskEnv`.
    """

    def __init__(self, *, tool_format: str = "hermes", max_calls: int = 4, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tool_format, self.max_calls = tool_format, whole("max_calls", max_calls)
        self._format = get_format(tool_format)
        self._tools: dict[str, Tool] = {tool.name: tool for tool in self._make_tools()}

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        del state["_tools"]  # their argument models are classes made at run time
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._tools = {tool.name: tool for tool in self._make_tools()}

    # --- what an environment defines -------------------------------------------------------------

    def _make_tools(self) -> list[Tool]:
        """The tools, made once."""
        raise NotImplementedError

    def _on_answer(self, text: str) -> StepOutcome:
        """A reply without a tool call; `text` is what the format leaves of it."""
        raise NotImplementedError

    def _on_calls(self, calls: list[dict[str, Any]], outcome: StepOutcome) -> None:
        """After the calls of a reply ran: keep state, adjust the reward or end the episode."""

    # --- the step --------------------------------------------------------------------------------

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools in OpenAI's function schema; a fresh copy."""
        return [tool.schema for tool in self._tools.values()]

    def _act(self, action: str) -> StepOutcome:
        reply = self._format.parse(action, self._tools.values())
        if not reply.calls and not reply.errors:
            return self._on_answer(reply.text)
        results = [self._run(call) for call in reply.calls[: self.max_calls]]
        parts = [record["error"] or record["result"] for record in results]
        error = next(
            (
                agent_error(record.pop("kind"), record["error"])
                for record in results
                if record["error"]
            ),
            None,
        )
        for fault in reply.errors[:1]:  # one is enough to mend; more would only grow the text
            parts.append(f"Error: {fault.message}")
            error = error or agent_error(f"parse_{fault.reason}", fault.message)
        skipped = len(reply.calls) - self.max_calls
        if skipped > 0:
            message = f"Error: {skipped} more calls were not run; at most {self.max_calls} a reply."
            parts.append(message)
            error = error or agent_error("too_many_calls", message)
        for record in results:
            record.pop("kind", None)
        if len(parts) == 1:
            observation = parts[0]
        else:
            observation = "\n".join(f"[{number}] {part}" for number, part in enumerate(parts, 1))
        outcome = StepOutcome(observation, agent_error=error, tool_calls=results)
        self._on_calls(results, outcome)
        return outcome

    def _run(self, call: ToolCall) -> dict[str, Any]:
        record: dict[str, Any] = {
            "name": call.name,
            "arguments": call.arguments,
            "result": None,
            "error": None,
        }
        try:
            found = self._tools.get(call.name)
            if found is None:
                names = ", ".join(self._tools)
                raise ToolError(
                    f"there is no tool {call.name[:64]!r}; the tools are: {names}.", "unknown_tool"
                )
            record["result"] = found(call.arguments)
        except ToolError as error:
            record["error"], record["kind"] = f"Error: {error.message}", error.kind
        return record
