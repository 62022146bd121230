"""Reward shaping around an environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym


class InvalidActionPenalty(gym.Wrapper[Any, Any, Any, Any]):
    """Takes `penalty` off the reward of each step with an ``info["agent_error"]``.

    Args:
        env: The environment.
        penalty: At least 0.
        kinds: Only errors of these kinds; None: all.
    """

    def __init__(
        self, env: gym.Env[Any, Any], penalty: float = 0.1, kinds: list[str] | None = None
    ) -> None:
        super().__init__(env)
        if not 0 <= penalty < float("inf"):
            raise ValueError(f"penalty must be at least 0 and finite, got {penalty!r}")
        self.penalty, self.kinds = float(penalty), None if kinds is None else frozenset(kinds)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Do `action`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        error = info.get("agent_error")
        if error is not None and (self.kinds is None or error["kind"] in self.kinds):
            reward = float(reward) - self.penalty
        return observation, float(reward), terminated, truncated, info
