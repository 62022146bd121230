"""An episode of a scripted policy, for the benchmarks that replay its actions."""

from __future__ import annotations

from typing import Any


def play_script(env: Any, policy: Any, **reset: Any) -> tuple[list[str], dict[str, Any]]:
    """The actions of an episode and its last info; ``reset`` is for `env.reset`."""
    observation, info = env.reset(**reset)
    policy.reset(observation, info)
    actions: list[str] = []
    over = False
    while not over:
        actions.append(policy.act(observation, info))
        observation, _, terminated, truncated, info = env.step(actions[-1])
        over = terminated or truncated
    return actions, info
