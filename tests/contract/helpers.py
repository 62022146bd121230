"""What the contract tests share: odd actions, recorded trajectories, one digest of them.

``python -m tests.contract.helpers ID SEED`` prints a digest, for tests in other processes.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from typing import Any

import gymnasium as gym

import agentr1_envs  # noqa: F401  (registers the ids)
from agentr1_envs.registration import ENVS, load

IDS = list(ENVS)
FINAL_KEYS = {"success", "score", "stop_reason"}
OPTIONAL_KEYS = {"admissible_actions", "tool_calls", "metrics", "agent_error"}

JUNK = [
    "",
    " ",
    "数学题：三加四？",
    "🙂🙃 👩‍👩‍👧‍👦",
    "\x00\x07\u200b\u202e",
    "a" * 5_000,
    "<tool_call>{'name': 1}</tool_call>",
    '<tool_call>{"name": "没有", "arguments": {"查询": "🙂"}}</tool_call>',
    '<tool_call>{"name": "search", "arguments": {"query": "🙂 数学", "k": -1}}</tool_call>',
    "<action>看</action>",
    "search[数学 🙂]",
    "click[nothing]",
    "look",
    "help",
    "</think>",
    "[" * 3_000,
    "%s {0} \\ ' \" \r\n\t",
]
"""Replies no environment asks for; none may raise, and most are agent errors."""

Step = dict[str, Any]


def make(env_id: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """An environment of the suite, as a user makes it."""
    return gym.make(env_id, **kwargs)


def expert(env: gym.Env[Any, Any], name: str = "expert") -> Any:
    """The scripted policy of that name for an environment."""
    return load(ENVS[env.unwrapped.spec.id].experts[name])(env)  # type: ignore[union-attr]


class Mixed:
    """Mostly the expert, sometimes junk, so that every kind of outcome occurs.

    After junk the expert may be lost; then a listed admissible action, or more junk, goes on.
    """

    def __init__(self, env: gym.Env[Any, Any], seed: int, junk: float = 0.25) -> None:
        self._expert, self._rng, self._junk = expert(env), random.Random(seed), junk
        self._lost = False

    def reset(self, obs: Any, info: dict[str, Any]) -> None:
        """A new episode."""
        self._lost = False
        self._expert.reset(obs, info)

    def act(self, obs: Any, info: dict[str, Any]) -> str:
        """The next reply."""
        admissible = info.get("admissible_actions")
        if self._rng.random() < self._junk:
            return self._rng.choice(JUNK)
        if not self._lost:
            try:
                return self._expert.act(obs, info)
            except (LookupError, ValueError, RuntimeError, StopIteration, TypeError):
                self._lost = True
        return self._rng.choice(admissible or JUNK)


def play(
    env: gym.Env[Any, Any], policy: Any, seed: int | None, steps: int, *, spoil: bool = False
) -> list[Step]:
    """`steps` steps, with resets where episodes end; copies of all that the environment returns.

    With `spoil`, every container that the environment handed out is emptied after it was copied.
    """
    record: list[Step] = []
    obs, info = env.reset(seed=seed)
    while True:
        policy.reset(obs, info)
        record.append({"obs": obs, "info": copied(info)})
        ended = False
        while not ended:
            if len(record) > steps:
                return record
            action = policy.act(obs, info)
            if spoil:
                empty(info)
            obs, reward, terminated, truncated, info = env.step(action)
            ended = terminated or truncated
            record.append(
                {
                    "action": action,
                    "obs": obs,
                    "reward": reward,
                    "terminated": terminated,
                    "truncated": truncated,
                    "info": copied(info),
                }
            )
        if spoil:
            empty(info)
        obs, info = env.reset()


def copied(value: Any) -> Any:
    """A deep copy by way of JSON: proves that the value is plain data."""
    return json.loads(json.dumps(value, allow_nan=False))


def containers(value: Any) -> list[Any]:
    """Every mutable container in a value."""
    found: list[Any] = []
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            found.append(item)
            stack += item.values()
        elif isinstance(item, (list, set)):
            found.append(item)
            stack += item
        elif isinstance(item, tuple):
            stack += item
    return found


def empty(value: Any) -> None:
    """Empties every container in a value."""
    for item in containers(value):
        item.clear()


def digest(record: list[Step]) -> str:
    """A hash of a trajectory."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def main() -> None:
    """Prints the digest of a mixed trajectory."""
    env = make(sys.argv[1])
    seed = int(sys.argv[2])
    print(digest(play(env, Mixed(env, seed), seed, 60)))


if __name__ == "__main__":
    main()
