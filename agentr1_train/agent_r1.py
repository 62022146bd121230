"""The layers of Agent-R1 under their own names, as thin forms over this project's parts.

| Agent-R1 | here |
|---|---|
| ``BaseTool`` | `agentr1_envs.tools.BaseTool` |
| ``ToolEnv`` | `agentr1_envs.tool_env.ToolEnv` |
| ``AgentEnv`` | any Gymnasium environment with text spaces: `agent_env` |
| ``AgentEnvLoop`` | `AgentEnvLoop`: a row of data in, a list of transitions out |
| ``AgentFlowBase`` | `AgentFlowBase`: a coroutine of model calls, for what is no environment |
| ``env_kwargs`` of a row | the same column; its older form is translated |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentr1_envs.tool_env import ToolEnv
from agentr1_envs.tools import BaseTool
from agentr1_envs.transitions import Episode, Transition

from .policies.base import GenerateRequest, Policy
from .prompts import ConversationIds
from .rollout import run_episode

__all__ = ["AgentEnvLoop", "AgentFlowBase", "BaseTool", "FlowStep", "ToolEnv", "agent_env"]


def agent_env(env_kwargs: Mapping[str, Any] | str) -> Any:
    """The environment of a row's ``env_kwargs`` (JSON or a dict, in either form)."""
    from agentr1_wrappers import make_agent_env

    return make_agent_env(env_kwargs)


def _options(env_kwargs: Mapping[str, Any] | str) -> dict[str, Any]:
    from agentr1_wrappers import reset_options

    return reset_options(env_kwargs)


class AgentEnvLoop:
    """Runs the environment of a data row over a policy.

    Args:
        policy: see `policies.base.Policy`.
        max_prompt_tokens: see `rollout.run_episode`.
    """

    def __init__(self, policy: Policy, *, max_prompt_tokens: int | None = None) -> None:
        self.policy, self.max_prompt_tokens = policy, max_prompt_tokens

    async def run(
        self,
        env_kwargs: Mapping[str, Any] | str,
        *,
        episode_id: str = "episode",
        group_id: str = "",
        seed: int | None = None,
        sampling_seed: int = 0,
    ) -> Episode:
        """One episode. A group's rows have one ``seed`` and each its own ``sampling_seed``."""
        env = agent_env(env_kwargs)
        try:
            return await run_episode(
                env,
                self.policy,
                episode_id=episode_id,
                group_id=group_id,
                seed=seed,
                options=_options(env_kwargs) or None,
                sampling_seed=sampling_seed,
                max_prompt_tokens=self.max_prompt_tokens,
            )
        finally:
            env.close()


class FlowStep:
    """One call of the model inside a flow. Set ``reward`` whenever it is known."""

    def __init__(self, transition: Transition) -> None:
        self.transition = transition

    @property
    def text(self) -> str:
        """What the model said."""
        return self.transition.action

    def then(self, text: str, role: str = "user") -> list[dict[str, Any]]:
        """The conversation so far with this reply and a further message."""
        reply = {"role": "assistant", "content": self.transition.action}
        return [*self.transition.observation, reply, {"role": role, "content": text}]

    @property
    def reward(self) -> float:
        """Reward of this step."""
        return self.transition.reward

    @reward.setter
    def reward(self, value: float) -> None:
        self.transition.reward = float(value)


class AgentFlowBase:
    """A flow of model calls that is no environment: write `flow`, call the model with `ask`.

    The steps of a flow are transitions like any other: with the exact ids that were fed and
    sampled, trained by the same estimators.

        class Refine(AgentFlowBase):
            async def flow(self, row):
                draft = await self.ask([{"role": "user", "content": row["question"]}])
                better = await self.ask(draft.then("Improve it."))
                better.reward = float(row["answer"] in better.text)

    Args:
        policy: see `policies.base.Policy`.
        name: stored as the steps' env_id.
    """

    def __init__(self, policy: Policy, *, name: str = "flow") -> None:
        self.policy, self.name = policy, name
        self._steps: list[Transition] = []
        self._episode: Episode | None = None
        self._seed = 0
        self._ids: ConversationIds | None = None

    async def flow(self, row: Mapping[str, Any]) -> None:
        """The flow itself; override. Its steps are the calls of `ask`, in order."""
        raise NotImplementedError

    async def ask(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> FlowStep:
        """Ask the model; where the conversation only grew, ids are spliced, never made again."""
        if self._episode is None:
            raise RuntimeError("ask() belongs inside flow(): call run(row)")
        encoder = self.policy.encoder
        state = tuple(dict(m) for m in messages)
        prompt = None
        if encoder is not None:
            if self._ids is None:
                self._ids = ConversationIds(encoder, tools)
            prompt = self._ids.next(state)
        number = len(self._steps)
        generation = await self.policy.generate(
            GenerateRequest(
                state, tools, prompt, self._episode.episode_id, number, self._seed + number
            )
        )
        if self._ids is not None:
            self._ids.record(state, generation.prompt_ids, generation.response_ids)
        step = Transition(
            episode_id=self._episode.episode_id,
            step=number,
            task_id=self._episode.task_id,
            env_id=self.name,
            group_id=self._episode.group_id,
            observation=state,
            action=generation.text,
            prompt_ids=generation.prompt_ids,
            response_ids=generation.response_ids,
            response_logprobs=generation.logprobs,
            policy_version=generation.policy_version,
        )
        self._steps.append(step)
        return FlowStep(step)

    async def run(
        self,
        row: Mapping[str, Any],
        *,
        episode_id: str = "episode",
        group_id: str = "",
        sampling_seed: int = 0,
    ) -> Episode:
        """One run of the flow. A flow that raises gives an invalid episode, never a reward."""
        episode = Episode(episode_id, str(row.get("task_id", "")), self.name, group_id)
        # A flow object may serve many runs at once: each has a state of its own.
        one = object.__new__(type(self))
        one.__dict__.update(self.__dict__)
        one._episode, one._steps, one._seed, one._ids = episode, [], sampling_seed, None
        episode.transitions = one._steps
        self.policy.start_episode(episode_id, None, "", {})
        try:
            await one.flow(row)
            if not one._steps:
                raise ValueError("the flow asked the model nothing")
            last = one._steps[-1]
            last.terminated, last.stop_reason = True, "flow"
            last.success, last.score = episode.ret > 0, min(max(episode.ret, 0.0), 1.0)
        except Exception as error:
            episode.valid, episode.fault = False, f"{type(error).__name__}: {error}"
            for t in one._steps:
                t.valid = False
        finally:
            self.policy.end_episode(episode_id)
        return episode
