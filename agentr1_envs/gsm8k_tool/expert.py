"""Scripted policies for `AgentR1/GSM8KTool-v0`."""

from __future__ import annotations

from typing import Any

from agentr1_envs.tool_formats import ToolCall, get_format

from .answer import MARK


class Expert:
    """Sees the task: makes its calls one a reply, then answers.

    Tasks without ``calls`` are answered at once.

    Args:
        env: The environment or a wrapper of it.
    """

    def __init__(self, env: Any) -> None:
        self._env = env.unwrapped
        self._format = get_format(self._env.tool_format)
        self._replies: list[str] = []

    def reset(self, obs: Any, info: dict[str, Any]) -> None:
        """Reads the new episode's task."""
        task = self._env.task
        # The last reply is kept free for the answer.
        calls = (task.get("calls") or [])[: self._env.max_steps - 1]
        render = self._format.render
        replies = [render([ToolCall("calculator", {"expression": call})]) for call in calls]
        replies.append(f"{MARK} {task['answer']}")
        self._replies = replies[::-1]

    def act(self, obs: Any, info: dict[str, Any]) -> str:
        """The next reply of the solution."""
        return self._replies.pop() if len(self._replies) > 1 else self._replies[0]


class Mental(Expert):
    """Sees the task: answers at once, as someone who does sums in their head.

    Right, but not to be imitated by a model that cannot: a cold start on a mixture of both styles
    leaves it to reinforcement learning to find out which one pays.
    """

    def reset(self, obs: Any, info: dict[str, Any]) -> None:
        """Reads the new episode's task."""
        self._replies = [f"{MARK} {self._env.task['answer']}"]
