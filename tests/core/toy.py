"""A small environment with one tool, for the tests of the parts that all tasks share."""

from __future__ import annotations

from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.task_env import StepOutcome
from agentr1_envs.task_set import GeneratedTasks
from agentr1_envs.tool_env import ToolEnv
from agentr1_envs.tools import Tool, ToolError


def call(name: str, **arguments: object) -> str:
    """A call in the hermes format."""
    import json

    text = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>{text}</tool_call>"


class ToyEnv(ToolEnv):
    """Guess the number; the tool `add` adds, and fails in chosen ways."""

    default_max_steps = 4
    system_prompt = "Be brief."

    def _make_tasks(self, split):
        return GeneratedTasks(
            lambda i: {"question": f"数{i}🙂é", "answer": i}, size=50, split=split, key="toy-v1"
        )

    def _make_tools(self):
        def add(a: int, b: int = 2) -> int:
            """Add two numbers.

            Args:
                a: The first,
                    said in two lines.
                b: The second.
            """
            if a == 666:
                raise EnvironmentFault("the adder is down")
            if a == 667:
                raise ZeroDivisionError("a bug")
            if a < 0:
                raise ToolError("no negative numbers", "negative")
            return a + b

        return [Tool(add)]

    def _start(self, task):
        self._solved = False
        self._sum = 0
        return task["question"]

    def _on_calls(self, calls, outcome):
        self._sum += len(calls)

    def _on_answer(self, text):
        assert self._task is not None
        self._solved = text == str(self._task["answer"])
        return StepOutcome("Done.", float(self._solved), True, "answered")

    def _final(self):
        return self._solved, float(self._solved)

    def _anchor_state(self):
        return f"{self._sum} {self._solved}"

    def _metrics(self):
        return {"calls": float(self._sum)}

    @property
    def task_text(self):
        return self._task["question"] if self._task else ""
