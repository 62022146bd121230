"""`TokenBudget` and `Summarise`: context rules for episodes longer than a prompt may be."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from agentr1_wrappers.context import ContextInput, ContextOverflow, ContextRule, Message, Turn

Counter = Callable[[Sequence[Message]], int]
Summariser = Callable[[str, str, Sequence[Turn]], str]


def _load(target: Any, what: str) -> Any:
    if isinstance(target, str):
        from agentr1_envs.registration import load

        target = load(target)
    if not callable(target):
        raise TypeError(f"{what} must be callable or 'module:function', got {target!r}")
    return target


def rough_count(messages: Sequence[Message]) -> int:
    """Tokens by a rule of thumb that errs on the high side for most tokenizers: bytes / 3."""
    return sum(4 + (len(m["content"].encode("utf-8", "replace")) + 2) // 3 for m in messages)


class TokenBudget(ContextRule):
    """As many of the last turns as fit a number of tokens.

    The system prompt, the tools, the task and the last observation are always kept. If they alone
    are too many, the episode is truncated with the stop reason ``context_budget``.

    Args:
        n: Tokens of the whole prompt.
        count: Tokens of some messages; a callable or ``"module:function"``, such as
            `agentr1_train.prompts.PromptEncoder.count` of the model's tokenizer. None estimates
            (`rough_count`).
        reserve: Tokens kept free.
    """

    name = "budget"

    def __init__(self, n: int, count: Counter | str | None = None, reserve: int = 0) -> None:
        if n < 1 or reserve < 0 or reserve >= n:
            raise ValueError(f"a budget needs n > reserve >= 0, got n={n}, reserve={reserve}")
        self.n, self.reserve = int(n), int(reserve)
        self.count: Counter = rough_count if count is None else _load(count, "count")

    def render(self, context: ContextInput) -> list[Message]:
        """System prompt, task and the last turns that fit, with a line for those that do not."""
        room = self.n - self.reserve
        if context.tools:
            tools = json.dumps(list(context.tools), ensure_ascii=False)
            room -= self.count([{"role": "system", "content": tools}])
        kept = len(context.turns)
        while True:
            messages = self._with(context, kept)
            if self.count(messages) <= room:
                return messages
            if kept == 0:
                break
            kept -= 1
        used = self.count(messages) + self.n - self.reserve - room
        raise ContextOverflow(
            f"the parts that must be kept have {used} tokens, the budget is "
            f"{self.n - self.reserve}",
            "context_budget",
        )

    def _with(self, context: ContextInput, kept: int) -> list[Message]:
        messages = context.head()
        dropped = len(context.turns) - kept
        if dropped:
            note = f"\n[{dropped} earlier turn{'s' if dropped > 1 else ''} left out]"
            messages[-1] = {**messages[-1], "content": messages[-1]["content"] + note}
        if kept == 0 and context.turns:
            # The last observation stays even when the reply that led to it does not fit.
            last = context.turns[-1].feedback
            text = f"{messages[-1]['content']}\n{last}" if last else messages[-1]["content"]
            messages[-1] = {**messages[-1], "content": text}
        for turn in context.turns[dropped:]:
            messages += context.turn_messages(turn)
        return messages

    def __repr__(self) -> str:
        return f"TokenBudget({self.n})"


def brief(task: str, summary: str, turns: Sequence[Turn]) -> str:
    """A summary without a model: each turn's reply and the first line of its answer, cut short."""
    lines = [summary] if summary else []
    for turn in turns:
        answer = turn.feedback.strip().partition("\n")[0]
        lines.append(f"- {' '.join(turn.action.split())[:120]} -> {answer[:160]}")
    return "\n".join(lines)


class Summarise(ContextRule):
    """The last turns as they were, and a summary of those before.

    Args:
        fn: Makes the new summary of ``(task, summary so far, turns that leave)``; a callable or
            ``"module:function"``, for instance a `ServerSummary`. Called once for each turn that
            leaves the window, in order. None takes `brief`.
        keep: Turns kept as they were, at least 1.
        max_chars: Longest summary; the oldest part of a longer one is cut.
    """

    name = "summarise"

    def __init__(
        self, fn: Summariser | str | None = None, keep: int = 2, max_chars: int = 2000
    ) -> None:
        if keep < 1 or max_chars < 1:
            raise ValueError(f"expected keep >= 1 and max_chars >= 1, got {keep} and {max_chars}")
        self.fn: Summariser = brief if fn is None else _load(fn, "fn")
        self.keep, self.max_chars = int(keep), int(max_chars)
        self.reset()

    def reset(self) -> None:
        """Forget the episode's summary."""
        self._summary, self._done = "", 0

    def render(self, context: ContextInput) -> list[Message]:
        """System prompt, task with the summary, and the last turns."""
        leaving = context.turns[self._done : max(len(context.turns) - self.keep, 0)]
        if leaving:
            text = self.fn(context.task, self._summary, leaving)
            if len(text) > self.max_chars:
                text = "[..]" + text[-(self.max_chars - 4) :] if self.max_chars > 4 else text[:1]
            self._summary, self._done = text, self._done + len(leaving)
        messages = context.head()
        if self._summary:
            text = f"{messages[-1]['content']}\n\n[Summary of earlier turns]\n{self._summary}"
            messages[-1] = {**messages[-1], "content": text}
        for turn in context.turns[self._done :]:
            messages += context.turn_messages(turn)
        return messages

    def __repr__(self) -> str:
        return f"Summarise(keep={self.keep})"


class ServerSummary:
    """Summaries by a model behind an OpenAI-compatible server; blocks while it writes.

    Rollouts should step such environments outside the event loop (``isolation="thread"``). A server
    that fails is a fault of the environment, never of the agent.

    Args:
        base_url: Up to and including ``/v1``. The key comes from OPENAI_API_KEY.
        model: Name on the server.
        max_tokens, timeout: Of one summary; seconds.
    """

    PROMPT = (
        "Summarise for the agent itself what it has done and learned so far in this task. Keep "
        "facts, numbers and names that may still be needed. Be brief.\n\nTask:\n{task}\n\n"
        "Summary so far:\n{summary}\n\nNew turns:\n{turns}"
    )

    def __init__(
        self, base_url: str, model: str, *, max_tokens: int = 300, timeout: float = 60.0
    ) -> None:
        self.base_url, self.model = base_url.rstrip("/"), model
        self.max_tokens, self.timeout = max_tokens, timeout

    def __call__(self, task: str, summary: str, turns: Sequence[Turn]) -> str:
        import os

        import httpx

        from agentr1_envs.errors import EnvironmentFault

        said = "\n".join(f"Agent: {t.action}\nAnswer: {t.feedback}" for t in turns)
        prompt = self.PROMPT.format(task=task, summary=summary or "(none)", turns=said)
        key = os.environ.get("OPENAI_API_KEY")
        try:
            response = httpx.post(
                f"{self.base_url}/chat/completions",
                json={
                    "model": self.model,
                    "messages": [{"role": "user", "content": prompt}],
                    "max_tokens": self.max_tokens,
                    "temperature": 0.0,
                },
                headers={"Authorization": f"Bearer {key}"} if key else {},
                timeout=self.timeout,
            )
            response.raise_for_status()
            return str(response.json()["choices"][0]["message"]["content"] or "").strip()
        except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError) as error:
            raise EnvironmentFault(f"summary by {self.base_url} failed: {error}") from None
