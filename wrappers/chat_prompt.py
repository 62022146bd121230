"""`ChatPrompt`: from the environment's text to the state of the step-level MDP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
from agentr1_wrappers.context import Append, ContextInput, ContextOverflow, ContextRule, Turn
from gymnasium.error import ResetNeeded

from agentr1_envs.spaces import ChatMessages
from agentr1_envs.task_set import copy_json

Message = dict[str, Any]
Augmentation = Callable[[ContextInput], str]
#: What a turn keeps of its info, for rules that look back.
KEPT = ("agent_error", "tool_calls")


class ChatPrompt(gym.Wrapper[Any, Any, Any, Any]):
    """Observations become the whole conversation a model is given.

    The state is the system message, the task, and what the context rule keeps of the turns. The
    environment's own answer stays in ``info["feedback"]``, the tools' schemas in ``info["tools"]``
    (at reset).

    Args:
        env: An environment with text spaces. From a `TextTaskEnv` the system prompt, the task and
            the tools are taken; any other environment has an empty system prompt.
        context: The context rule; `Append` by default.
        augment: Functions of the `ContextInput` whose text is added to the last message, such as
            the admissible actions.
        feedback_role: Role of the environment's answers: ``"tool"``, or ``"user"`` for chat
            templates that know no tools. None takes ``"tool"`` where the environment has tools.
        tool_prompt: Describe the tools in the system message, for chat templates that do not
            render tools; `info["tools"]` is then empty.
        system_prompt: Replaces the environment's.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        context: ContextRule | None = None,
        augment: Sequence[Augmentation] = (),
        feedback_role: str | None = None,
        tool_prompt: bool = False,
        system_prompt: str | None = None,
    ) -> None:
        super().__init__(env)
        if feedback_role not in (None, "tool", "user"):
            raise ValueError(f"feedback_role must be 'tool' or 'user', got {feedback_role!r}")
        self.context, self.augment = context or Append(), tuple(augment)
        self.tool_prompt, self._system_override = tool_prompt, system_prompt
        self._feedback_role = feedback_role
        self.observation_space = ChatMessages()
        self._turns: list[Turn] = []
        self._task = ""
        self._system = ""
        self._tools: list[dict[str, Any]] = []
        self._role = "user"
        self._last: tuple[Message, ...] = ()
        self._running = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[tuple[Message, ...], dict[str, Any]]:
        """Start an episode; the observation is a tuple of messages."""
        self._running = False
        observation, info = self.env.reset(seed=seed, options=options)
        base = self.env.unwrapped
        self._tools = list(getattr(base, "tools", []))
        self._role = self._feedback_role or ("tool" if self._tools else "user")
        override = self._system_override
        self._system = (getattr(base, "system_prompt", "") or "") if override is None else override
        if self.tool_prompt and self._tools:
            text = self._instructions(base)
            self._system = f"{self._system}\n\n{text}" if self._system else text
            self._tools = []
        task = getattr(base, "task_text", "") or ""
        # Many tasks open by saying their own text; it is not said twice.
        parts = [task] if task and task not in observation else []
        self._task = "\n\n".join([*parts, observation] if observation else parts)
        self._turns = []
        self.context.reset()
        state = self._render(observation, info)
        self._running = True
        info["feedback"] = observation
        info["tools"] = self._tools
        return state, info

    def step(self, action: str) -> tuple[tuple[Message, ...], Any, bool, bool, dict[str, Any]]:
        """Do `action`.

        When the state that must be kept does not fit the rule's budget, the episode is truncated
        and ``info["stop_reason"]`` names why; ``info["success"]`` and ``info["score"]`` are filled.
        """
        if not self._running:
            raise ResetNeeded("the episode has ended or none was started: call reset() first")
        self._running = False
        observation, reward, terminated, truncated, info = self.env.step(action)
        # A copy: what the caller does to its info must not reach a later state.
        kept: dict[str, Any] = {key: copy_json(info[key]) for key in KEPT if key in info}
        self._turns.append(Turn(action, observation, kept))
        info["feedback"] = observation
        try:
            state = self._render(observation, info)
        except ContextOverflow as overflow:
            state = self._last
            if not (terminated or truncated):
                truncated = True
                info.setdefault("success", False)
                info.setdefault("score", 0.0)
                info["stop_reason"] = overflow.reason
        self._running = not (terminated or truncated)
        return state, reward, terminated, truncated, info

    def _render(self, observation: str, info: dict[str, Any]) -> tuple[Message, ...]:
        context = ContextInput(
            self._system,
            self._task,
            tuple(self._turns),
            observation,
            info,
            tuple(self._tools),
            self._role,
        )
        messages = [dict(message) for message in self.context.render(context)]
        extra = [text for text in (function(context) for function in self.augment) if text]
        if extra:
            messages[-1]["content"] = "\n\n".join([messages[-1]["content"], *extra])
        self._last = tuple(messages)
        return tuple(dict(message) for message in messages)

    @staticmethod
    def _instructions(base: Any) -> str:
        from agentr1_envs.tool_formats import get_format

        return get_format(getattr(base, "tool_format", "hermes")).instructions(base.tools)
