"""`ToGymText`: for code that insists on Gymnasium's own `Text` space."""

from __future__ import annotations

import string
from typing import Any

import gymnasium as gym
from gymnasium.spaces import Text


class ToGymText(gym.Wrapper[str, str, str, str]):
    """Observation and action space become `gymnasium.spaces.Text`.

    Characters outside `charset` are replaced, longer texts are cut, since `Text` can't hold them.
    Prefer `UnicodeText` wherever the code around allows it: nothing is lost there.

    Args:
        env: An environment with text spaces.
        max_length: Longest observation and action.
        charset: The characters of the spaces; printable ASCII by default.
        replacement: Stands for a character outside; must be in `charset`.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        max_length: int = 4096,
        charset: str = string.printable,
        replacement: str = "?",
    ) -> None:
        super().__init__(env)
        if len(replacement) != 1 or replacement not in charset:
            raise ValueError("the replacement must be one character of the charset")
        self.max_length, self.replacement = max_length, replacement
        self._charset = frozenset(charset)
        self.observation_space = Text(max_length, min_length=0, charset=self._charset)
        self.action_space = Text(max_length, min_length=0, charset=self._charset)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._fit(observation), info

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Do `action`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._fit(observation), reward, terminated, truncated, info

    def _fit(self, text: str) -> str:
        allowed, other = self._charset, self.replacement
        return "".join(c if c in allowed else other for c in text[: self.max_length])
