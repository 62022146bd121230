"""Context rules: which part of an episode the model is shown.

A rule is a pure function of the episode so far, ``C(z_0 .. z_t)`` in the step-level MDP: it builds
the whole input of the model at a step from the system prompt, the task, the turns taken and the
current observation. Whatever a rule leaves out, it keeps the system prompt, the task and the last
observation; what cannot fit raises `ContextOverflow`, which ends the episode with a named reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]


class ContextOverflow(Exception):
    """The parts that must be kept do not fit the budget. `reason` is the stop reason."""

    def __init__(self, message: str, reason: str = "context_overflow") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Turn:
    """One step taken: what the model said and what the environment answered."""

    action: str
    feedback: str
    info: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContextInput:
    """What a rule may use.

    Attributes:
        system: The system prompt; may be empty.
        task: The task's text and the first observation, as the first user message has them.
        turns: The turns taken, oldest first; the last one's feedback is the current observation.
        observation: What the environment says now.
        info: The current step's info.
        tools: The tools' schemas.
        feedback_role: ``"tool"`` or ``"user"``.
    """

    system: str
    task: str
    turns: Sequence[Turn]
    observation: str
    info: dict[str, Any]
    tools: Sequence[dict[str, Any]]
    feedback_role: str = "tool"

    def head(self) -> list[Message]:
        """The messages that are always kept: system prompt and task."""
        messages: list[Message] = []
        if self.system:
            messages.append({"role": "system", "content": self.system})
        messages.append({"role": "user", "content": self.task})
        return messages

    def turn_messages(self, turn: Turn) -> list[Message]:
        """A turn as two messages: the reply and the feedback."""
        return [
            {"role": "assistant", "content": turn.action},
            {"role": self.feedback_role, "content": turn.feedback},
        ]


class ContextRule:
    """Base class. `splices` says that each state begins with the one before it, token for token."""

    name = "rule"
    splices = False

    def reset(self) -> None:
        """Forget the episode; called when one starts."""

    def render(self, context: ContextInput) -> list[Message]:
        """The model's input."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Append(ContextRule):
    """Everything so far. The next prompt is the previous one, the reply and the new messages."""

    name = "append"
    splices = True

    def render(self, context: ContextInput) -> list[Message]:
        """System prompt, task and every turn."""
        messages = context.head()
        for turn in context.turns:
            messages += context.turn_messages(turn)
        return messages


class Window(ContextRule):
    """The last `k` turns; older ones are left out, with a line that says so.

    Args:
        k: Number of turns kept, at least 1.
    """

    name = "window"

    def __init__(self, k: int = 3) -> None:
        if k < 1:
            raise ValueError(f"a window keeps at least 1 turn, got k={k}")
        self.k = int(k)

    def render(self, context: ContextInput) -> list[Message]:
        """System prompt, task and the last `k` turns."""
        messages = context.head()
        dropped = len(context.turns) - self.k
        if dropped > 0:
            note = f"\n[{dropped} earlier turn{'s' if dropped > 1 else ''} left out]"
            messages[-1] = {**messages[-1], "content": messages[-1]["content"] + note}
        for turn in context.turns[-self.k :]:
            messages += context.turn_messages(turn)
        return messages

    def __repr__(self) -> str:
        return f"Window({self.k})"
