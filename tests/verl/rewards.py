"""A reward that an untrained model gets some of: what it writes decides how much."""

from __future__ import annotations

from typing import Any

import gymnasium as gym


class LetterReward(gym.Wrapper):
    """Adds a number in [0, 1) that depends on the action's text, so that episodes differ."""

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        paid = sum(i * ord(c) for i, c in enumerate(action, 1)) % 97 / 97
        return observation, float(reward) + paid, terminated, truncated, info
