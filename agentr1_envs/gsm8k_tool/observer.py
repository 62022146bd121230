"""A scripted policy that sees what a model sees: it reads the generator's texts."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from agentr1_envs.tool_formats import ToolCall, get_format

from .answer import MARK
from .generator import TEMPLATES
from .templates import DISTRACTORS


class Observer:
    """Solves generated problems from their text and the calculator's answers alone.

    It knows how the generator words its problems, not the numbers' values or the task's row.
    Problems it can't read, such as the official ones, it answers with 0.

    Args:
        env: The environment or a wrapper of it; only the name of its tool format is used.
    """

    def __init__(self, env: Any) -> None:
        self._format = get_format(env.unwrapped.tool_format)
        self._steps: list[str] = []
        self._values: dict[str, str] = {}
        self._done = 0

    def reset(self, obs: str, info: dict[str, Any]) -> None:
        """Reads the problem."""
        self._steps, self._values, self._done = [], {}, 0
        for pattern, template in _readers():
            match = pattern.fullmatch(obs)
            if match:
                found = match.groupdict()
                self._values = {key[2:]: found[key] for key in found if key.startswith("n_")}
                self._steps = [step for _, step in TEMPLATES[template].steps]
                return

    def act(self, obs: str, info: dict[str, Any]) -> str:
        """The next call, or the answer when all are made."""
        if not self._steps:
            return f"{MARK} 0"
        if self._done:
            self._values[f"s{self._done}"] = obs
        if self._done == len(self._steps):
            return f"{MARK} {obs}"
        expression = self._steps[self._done].format(**self._values)
        self._done += 1
        return self._format.render([ToolCall("calculator", {"expression": expression})])


@lru_cache
def _readers() -> list[tuple[re.Pattern[str], str]]:
    """A pattern for every text of every template."""
    extra = "|".join(_pattern(sentence, set()) for sentence in DISTRACTORS)
    readers = []
    for template in TEMPLATES.values():
        for facts, question in template.texts:
            seen: set[str] = set()
            text = _pattern(facts, seen) + rf"(?: (?:{extra}))? " + _pattern(question, seen)
            readers.append((re.compile(text), template.name))
    return readers


def _pattern(text: str, seen: set[str]) -> str:
    """A template's text as a pattern: numbers become groups ``n_KEY``, words match any word."""

    def field(match: re.Match[str]) -> str:
        key = match[1]
        if key in ("name", "other", "item"):
            return r"\w+"
        if key == "x":
            return r"\d+"
        if key in seen:
            return f"(?P=n_{key})"
        seen.add(key)
        return rf"(?P<n_{key}>\d+)"

    return re.sub(r"\\\{(\w+)\\\}", field, re.escape(text))
