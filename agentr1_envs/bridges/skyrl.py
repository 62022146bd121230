"""SkyRL-gym: the tasks as a `BaseTextEnv`, registered as ``agentr1``.

    import agentr1_envs.bridges.skyrl as bridge
    rows = bridge.rows("AgentR1/HotpotQA-v0", split="train", limit=2000)   # SkyRL's data schema
    env = skyrl_gym.make("agentr1", extras=rows[0])

The tools are described in the system message and calls stand in the reply's text, since SkyRL
renders no tools; the environment's answers are user messages. What SkyRL cannot carry: `done` is
one flag (`terminated` and `truncated` stand in the step's metadata), and it has no failed episode:
an `EnvironmentFault` is raised to its generator instead of being paid as 0.
"""

from __future__ import annotations

from typing import Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from agentr1_envs.bridges.common import first_messages, open_chat, spec_json, task_specs

DEFAULTS = {"tool_prompt": True, "feedback_role": "user"}


class GymnasiumTextEnv(BaseTextEnv):
    """One episode of a task.

    Args:
        env_config: SkyRL's configuration of the environment; not used.
        extras: A row; ``extras["extra_info"]["env_kwargs"]`` or ``extras["env_kwargs"]`` is the
            spec (a dict or JSON) of `agentr1_wrappers.make_agent_env`.
    """

    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        super().__init__()
        extras = extras or {}
        spec = extras.get("env_kwargs") or extras.get("extra_info", {}).get("env_kwargs")
        if spec is None:
            raise ValueError("a row for the env class 'agentr1' needs the field 'env_kwargs'")
        self.env, self._options = open_chat(spec, **DEFAULTS)
        self.max_turns = self.env.unwrapped.max_steps
        self._metrics: dict[str, Any] = {}
        self._length = 0

    def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """The first messages; the row's own `prompt` is replaced by the environment's."""
        messages, info = self.env.reset(options=self._options)
        self.turns, self._metrics, self._length = 0, {}, len(messages)
        return list(messages), {"task_id": info["task_id"]}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Do `action`; the observations are the new messages."""
        self.turns += 1
        messages, reward, terminated, truncated, info = self.env.step(action)
        done = terminated or truncated
        fresh = [] if done else list(messages[self._length + 1 :])
        self._length = len(messages)
        metadata: dict[str, Any] = {
            "terminated": terminated, "truncated": truncated, "anchor": info["anchor"],
        }  # fmt: skip
        if done:
            metadata |= {key: info[key] for key in ("success", "score", "stop_reason")}
            self._metrics = {**info.get("metrics", {}), "steps": self.turns}
            self._metrics |= {"success": float(info["success"]), "score": info["score"]}
        return BaseTextEnvStepOutput(
            observations=fresh,
            reward=float(reward),
            done=done,
            metadata=metadata,
            postprocessed_action=None,
        )

    def get_metrics(self) -> dict[str, Any]:
        """Success, score, steps and the task's own metrics, once the episode has ended."""
        return dict(self._metrics)

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def rows(
    env_id: str, *, split: str = "train", limit: int | None = None, **kwargs: Any
) -> list[dict[str, Any]]:
    """The tasks of a split as rows of SkyRL's data schema; arguments as `task_specs`."""
    result = []
    for row in task_specs(env_id, split=split, limit=limit, **kwargs):
        result.append(
            {
                "data_source": env_id,
                "prompt": first_messages(row["spec"], **DEFAULTS),
                "env_class": "agentr1",
                "reward_spec": {"method": "rule", "ground_truth": ""},
                "env_kwargs": spec_json(row["spec"]),
                "extra_info": {
                    "index": row["index"],
                    "task_id": row["task_id"],
                    "split": split,
                },
            }
        )
    return result


if "agentr1" not in skyrl_gym.envs.registration.registry:
    skyrl_gym.register(id="agentr1", entry_point="agentr1_envs.bridges.skyrl:GymnasiumTextEnv")
