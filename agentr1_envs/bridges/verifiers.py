"""verifiers (0.4): the tasks as a taskset and an environment, loadable by ``vf-eval``.

    vf-eval agentr1-verifiers --env.taskset.env-id AgentR1/HotpotQA-v0 \\
        --env.taskset.split validation --env.taskset.limit 200 -m MODEL

The environment plays the user: the agent's reply is an action, the next observation is the next
user turn. The tools are described in the system prompt and calls stand in the reply's text, so the
tool-less ``null`` harness is the agent's default. Rewards are summed onto the trace
(``agentr1_reward``); score, success and the task's own numbers are metrics. What verifiers cannot
carry: rewards per step (a trace has one sum; the steps' rewards are in ``trace.info``) and the
difference between `terminated` and `truncated` (the stop condition names it). An `EnvironmentFault`
is the episode's error, which verifiers retries, and never a reward.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

from agentr1_envs.bridges.common import open_chat, task_specs

DEFAULTS = {"tool_prompt": True, "feedback_role": "user"}


class AgentR1Data(vf.TaskData):
    """A task by name; it holds no answer."""

    spec: dict[str, Any]


class AgentR1Config(vf.TasksetConfig):
    """Which tasks."""

    env_id: str = "AgentR1/GSM8KTool-v0"
    """Gymnasium id of the environment."""
    split: str = "train"
    """Split of its tasks."""
    limit: int | None = 1000
    """Only the first so many tasks."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of the environment."""


class AgentR1Task(vf.Task[AgentR1Data, vf.State, vf.TaskConfig]):
    """One task."""


class AgentR1Taskset(vf.Taskset[AgentR1Task, AgentR1Config]):
    """The tasks of a split, in the panel's order."""

    def load(self) -> Iterator[AgentR1Task]:
        """Yield the tasks, with the messages that open each."""
        config = self.config
        rows = task_specs(config.env_id, split=config.split, limit=config.limit, **config.kwargs)
        for row in rows:
            env, options = open_chat(row["spec"], **DEFAULTS)
            messages, _ = env.reset(options=options)
            env.close()
            texts = {message["role"]: message["content"] for message in messages}
            data = AgentR1Data(
                id=row["task_id"],
                name=row["task_id"],
                system_prompt=texts.get("system"),
                prompt=texts["user"],
                spec=row["spec"],
            )
            yield AgentR1Task(data, config.task)


class AgentR1EnvConfig(vf.EnvConfig):
    """The one agent."""

    agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"})


class AgentR1Env(vf.Env[AgentR1EnvConfig]):
    """An episode: replies are actions, observations are user turns."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play the task to its end, or until the agent's own limits stop it."""
        env, options = open_chat(task.data.spec, **DEFAULTS)
        rewards: list[float] = []
        info: dict[str, Any] = {}
        try:
            # A step may block (search, a live service): the loop's other episodes go on.
            await asyncio.to_thread(env.reset, options=options)
            async with agents.agent.interaction(task) as interaction:
                segment = await interaction.turn()
                while not segment.terminated:
                    messages, reward, terminated, truncated, info = await asyncio.to_thread(
                        env.step, segment.last_reply
                    )
                    rewards.append(float(reward))
                    if terminated or truncated:
                        interaction.trace.stop(info["stop_reason"])
                        break
                    segment = await interaction.turn(messages[-1]["content"])
        finally:
            env.close()
        trace = interaction.trace
        trace.info["agentr1"] = {"rewards": rewards, "stop_reason": info.get("stop_reason")}
        trace.record_reward("agentr1_reward", sum(rewards))
        trace.record_metric("success", float(info.get("success", False)))
        trace.record_metric("score", float(info.get("score", 0.0)))
        trace.record_metric("steps", float(len(rewards)))
        for name, value in info.get("metrics", {}).items():
            if isinstance(value, (int, float)):
                trace.record_metric(name, float(value))


__all__ = ["AgentR1Env", "AgentR1Taskset"]
