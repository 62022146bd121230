"""`RecordTransitions`: play by hand or with any code, and keep the steps."""

from __future__ import annotations

import os
from typing import Any

import gymnasium as gym

from agentr1_envs.task_set import copy_json
from agentr1_envs.transitions import Episode, Transition, write_transitions


def as_messages(observation: Any) -> tuple[dict[str, Any], ...]:
    """An observation as messages: a text becomes one user message."""
    if isinstance(observation, str):
        return ({"role": "user", "content": observation},)
    return tuple(dict(message) for message in observation)


class RecordTransitions(gym.Wrapper[Any, str, Any, str]):
    """Keeps each step as a `Transition` and writes them with `save`.

    Args:
        env: An environment with text actions; its observations are text or messages.
        path: Written by `close` when given.
        max_episodes: Only the newest so many episodes are kept; None: all.
    """

    def __init__(
        self,
        env: gym.Env[Any, str],
        path: str | os.PathLike[str] | None = None,
        max_episodes: int | None = None,
    ) -> None:
        super().__init__(env)
        self.path, self.max_episodes = path, max_episodes
        self.episodes: list[Episode] = []
        self._count = 0
        self._state: tuple[dict[str, Any], ...] = ()
        self._anchor = ""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode and a record of it."""
        observation, info = self.env.reset(seed=seed, options=options)
        spec = self.env.spec
        name = f"episode-{self._count}"
        self._count += 1
        self.episodes.append(Episode(name, info.get("task_id", ""), spec.id if spec else ""))
        if self.max_episodes is not None:
            del self.episodes[: -self.max_episodes]
        self._state, self._anchor = as_messages(observation), info.get("anchor", "")
        return observation, info

    def step(self, action: str) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Do `action` and record what came of it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        episode = self.episodes[-1]
        # Copies: what the caller does to what it was given must not reach the record.
        following = as_messages(observation)
        feedback = info.get("feedback", observation if isinstance(observation, str) else "")
        episode.transitions.append(
            Transition(
                episode_id=episode.episode_id,
                step=len(episode.transitions),
                task_id=episode.task_id,
                env_id=episode.env_id,
                observation=self._state,
                action=action,
                feedback=feedback,
                reward=float(reward),
                terminated=terminated,
                truncated=truncated,
                stop_reason=info.get("stop_reason"),
                next_observation=following,
                anchor=self._anchor,
                agent_error=copy_json(info.get("agent_error")),
                metrics=copy_json(info.get("metrics", {})),
                success=info.get("success"),
                score=info.get("score"),
            )
        )
        self._state, self._anchor = following, info.get("anchor", "")
        return observation, reward, terminated, truncated, info

    def save(self, path: str | os.PathLike[str]) -> int:
        """Write the kept steps as Parquet; returns their number."""
        return write_transitions(path, (t for e in self.episodes for t in e.transitions))

    def close(self) -> None:
        """Write to `path`, where one was given, and close the environment."""
        if self.path is not None and self.episodes:
            self.save(self.path)
        super().close()
