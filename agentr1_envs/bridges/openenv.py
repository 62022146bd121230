"""OpenEnv: any id of the suite behind OpenEnv's HTTP and WebSocket server.

    agentr1 serve AgentR1/HotpotQA-v0 --port 8000

    from openenv.core import GenericEnvClient
    with GenericEnvClient(base_url="http://127.0.0.1:8000").sync() as env:
        result = env.reset(seed=0)
        result = env.step({"text": "..."})

Each WebSocket session has an environment of its own. What OpenEnv cannot carry: it has one flag
``done``; which of `terminated` and `truncated` it was stands in the observation. A fault of the
environment's machinery is an error answer, never an observation with a reward.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import gymnasium as gym
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
from openenv.core.env_server.types import EnvironmentMetadata
from pydantic import Field

from agentr1_envs.registration import ENVS
from agentr1_envs.task_set import canonical_split


class TextAction(Action):
    """What the agent says."""

    text: str = Field(description="the reply, as the model wrote it")


class TextObservation(Observation):
    """What the environment says, with the rest of a Gymnasium step."""

    text: str = Field(description="the environment's answer")
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = Field(default_factory=dict, description="the step's info")


class GymnasiumEnvironment(Environment[TextAction, TextObservation, State]):
    """An environment of the suite as OpenEnv's `Environment`.

    Args:
        env_id: A Gymnasium id with text spaces.
        **kwargs: Arguments of `gymnasium.make`.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env_id: str, **kwargs: Any) -> None:
        super().__init__()
        self.env_id, self.kwargs = env_id, kwargs
        self.env: gym.Env[Any, Any] = gym.make(env_id, **kwargs)
        self._episode_id = ""
        self._steps = 0

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> TextObservation:
        """Start an episode. ``task_id`` or ``task_index`` picks the task; at reset, info also has
        the system prompt and the tools."""
        options: dict[str, Any] = {
            key: kwargs[key] for key in ("task_id", "task_index") if key in kwargs
        }
        text, info = self.env.reset(seed=seed, options=options)
        self._episode_id, self._steps = episode_id or uuid4().hex, 0
        base: Any = self.env.unwrapped
        info = {**info, "system_prompt": base.system_prompt, "tools": base.tools}
        return TextObservation(text=text, info=info)

    def step(
        self, action: TextAction, timeout_s: float | None = None, **kwargs: Any
    ) -> TextObservation:
        """Do what the agent said."""
        text, reward, terminated, truncated, info = self.env.step(action.text)
        self._steps += 1
        return TextObservation(
            text=text,
            reward=float(reward),
            done=terminated or truncated,
            terminated=terminated,
            truncated=truncated,
            info=info,
        )

    @property
    def state(self) -> State:
        """Episode id and number of steps."""
        return State(episode_id=self._episode_id, step_count=self._steps)

    def get_metadata(self) -> EnvironmentMetadata:
        """Name and summary, for the server's pages."""
        entry = ENVS.get(self.env_id)
        summary = entry.summary if entry else self.env_id
        return EnvironmentMetadata(name=self.env_id, description=summary, version="0")

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    # --- OpenEnv's task discovery: ids only, since rows hold the answers --------------------------

    def list_splits(self) -> list[str]:
        """The split that this server plays."""
        return [self._base.split]

    def num_tasks(self, split: str) -> int:
        """Number of tasks of the split."""
        return len(self._panel(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """The id of a task."""
        return {"id": self._panel(split)[index]["task_id"], "index": index}

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """The first thousand tasks' ids."""
        return [self.get_task(split, i) for i in range(min(1000, self.num_tasks(split)))]

    @property
    def _base(self) -> Any:
        return self.env.unwrapped

    def _panel(self, split: str) -> Any:
        if canonical_split(split) != self._base.split:
            raise ValueError(f"this server plays the split {self._base.split!r}")
        return self._base.tasks


def make_app(env_id: str, *, max_concurrent_envs: int = 64, **kwargs: Any) -> Any:
    """The FastAPI application: ``/reset``, ``/step``, ``/ws``, ``/health`` and OpenEnv's others.

    Args:
        env_id: A Gymnasium id with text spaces.
        max_concurrent_envs: Most WebSocket sessions at once.
        **kwargs: Arguments of `gymnasium.make`.
    """
    GymnasiumEnvironment(env_id, **kwargs).close()  # a wrong argument shows now, not per request
    return create_fastapi_app(
        lambda: GymnasiumEnvironment(env_id, **kwargs),
        TextAction,
        TextObservation,
        max_concurrent_envs=max_concurrent_envs,
        env_name=env_id.replace("/", "-"),
    )
