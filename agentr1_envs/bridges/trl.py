"""TRL (1.16): the tasks in `GRPOTrainer`, through its ``rollout_func``.

    from agentr1_envs.bridges import trl as bridge
    dataset = bridge.dataset("AgentR1/HotpotQA-v0", split="train", limit=2000)
    trainer = GRPOTrainer(
        model=..., train_dataset=dataset, args=GRPOConfig(...),
        rollout_func=bridge.EnvironmentRollout(), reward_funcs=bridge.environment_reward,
    )

An episode is one completion: the sampled tokens exactly as sampled, the environment's answers
between them masked out of the loss (``env_mask``). What TRL cannot carry: rewards per step (an
episode has their sum), truncation (an episode that reaches `max_completion_length` ends there and
keeps what it earned), and context rules that rewrite the prompt: only Append. A failed episode has
no reward: it is None, which TRL turns into NaN and leaves out. `rollout_func` is marked
experimental in TRL; this bridge generates with the method that the trainer's own tool loop uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agentr1_envs.bridges.common import first_messages, open_chat, spec_json, task_specs
from agentr1_envs.errors import EnvironmentFault

_SPEC = "agentr1"


def dataset(env_id: str, *, split: str = "train", limit: int | None = None, **kwargs: Any) -> Any:
    """The tasks of a split as a `datasets.Dataset` with a conversational ``prompt`` column.

    The first message carries the task's spec in an extra field, since TRL hands the rollout nothing
    but prompts. Arguments as `task_specs`.
    """
    from datasets import Dataset

    rows = []
    for row in task_specs(env_id, split=split, limit=limit, **kwargs):
        messages = first_messages(row["spec"])
        messages[0][_SPEC] = spec_json(row["spec"])
        rows.append({"prompt": messages, "task_id": row["task_id"]})
    return Dataset.from_list(rows)


def environment_reward(completions: list[Any], **columns: Any) -> list[float | None]:
    """The sum of each episode's rewards; None for an episode that failed."""
    return list(columns["agentr1_reward"])


@dataclass
class _Episode:
    env: Any
    ids: Any
    messages: tuple[Any, ...]
    prompt: list[int]
    completion: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)
    over: bool = False
    failed: bool = False

    @property
    def state(self) -> list[int]:
        return self.prompt + self.completion


class EnvironmentRollout:
    """A ``rollout_func``: plays one episode for each prompt, all of a batch side by side.

    Args:
        tool_prompt: Describe the tools in the system message, for templates that render none.
        feedback_role: Role of the environment's answers; None takes the environment's.
    """

    def __init__(self, *, tool_prompt: bool = False, feedback_role: str | None = None) -> None:
        self.defaults = {"tool_prompt": tool_prompt, "feedback_role": feedback_role}
        self._encoder: Any = None

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        """Play the prompts' tasks with the trainer's policy."""
        from agentr1_train.prompts import PromptEncoder

        if self._encoder is None:
            tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
            self._encoder = PromptEncoder(tokenizer)
        episodes = [self._open(prompt) for prompt in prompts]
        budget = trainer.max_completion_length
        has_logprobs = True
        while live := [episode for episode in episodes if not episode.over]:
            states = [episode.state for episode in live]
            replies, logprobs = trainer._generate_single_turn(states, None, {}, 1)
            has_logprobs = has_logprobs and logprobs is not None
            for i, episode in enumerate(live):
                reply = list(replies[i])
                episode.logprobs += logprobs[i] if logprobs is not None else [0.0] * len(reply)
                self._step(episode, reply, budget)
        for episode in episodes:
            episode.env.close()
        rewards = [None if e.failed else float(sum(e.rewards)) for e in episodes]
        return {
            "prompt_ids": [e.prompt for e in episodes],
            "completion_ids": [e.completion for e in episodes],
            "logprobs": [e.logprobs for e in episodes] if has_logprobs else None,
            "env_mask": [e.mask for e in episodes],
            "agentr1_reward": rewards,
            "agentr1_success": [float(e.info.get("success", False)) for e in episodes],
        }

    def _open(self, prompt: list[dict[str, Any]]) -> _Episode:
        from agentr1_train.prompts import ConversationIds

        spec = prompt[0].get(_SPEC)
        if not spec:
            raise ValueError("a prompt without a task: make the dataset with bridge.dataset()")
        env, options = open_chat(spec, **self.defaults)
        messages, info = env.reset(options=options)
        ids = ConversationIds(self._encoder, info["tools"])
        return _Episode(env, ids, messages, ids.next(messages).tolist(), info=info)

    def _step(self, episode: _Episode, reply: list[int], budget: int) -> None:
        import numpy as np

        state = np.asarray(episode.state, np.int32)
        sampled = np.asarray(reply, np.int32)
        episode.completion += reply
        episode.mask += [1] * len(reply)
        episode.ids.record(episode.messages, state, sampled)
        try:
            messages, reward, terminated, truncated, info = episode.env.step(
                self._encoder.decode(sampled)
            )
        except EnvironmentFault:
            episode.failed = episode.over = True
            return
        episode.rewards.append(float(reward))
        episode.messages, episode.info = messages, info
        episode.over = terminated or truncated
        if not episode.over:
            fed = episode.ids.next(messages)[len(state) + len(reply) :].tolist()
            if len(episode.completion) + len(fed) >= budget:
                episode.over = True
                return
            episode.completion += fed
            episode.mask += [0] * len(fed)
            episode.logprobs += [0.0] * len(fed)
