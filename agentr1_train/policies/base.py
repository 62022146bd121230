"""What a rollout asks of a policy. Free of torch, so that scripted and HTTP policies are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..prompts import Ids, PromptEncoder

_NO_IDS = np.empty(0, np.int32)
_NO_LOGPROBS = np.empty(0, np.float32)


# One array without elements serves all: there is nothing in it to share.
def _no_ids() -> Ids:
    return _NO_IDS


def _no_logprobs() -> npt.NDArray[np.float32]:
    return _NO_LOGPROBS


class PolicyFault(RuntimeError):
    """The policy's machinery failed (server down, prompt too long): no fault of the agent.

    The episode is marked invalid and left out of training; it is never a reward.
    """


@dataclass(slots=True)
class GenerateRequest:
    """One state.

    Attributes:
        messages: the state as chat messages.
        tools: OpenAI-style schemas; empty where there are none.
        prompt_ids: int32 [P], the state as token ids, where the policy has an encoder.
        episode_id, step: whose turn it is.
        seed: seed of this reply's sampling; the same seed and state give the same reply.
        observation: the environment's own last text, which scripted policies act on.
        info: the environment's last info.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    prompt_ids: Ids | None = None
    episode_id: str = ""
    step: int = 0
    seed: int = 0
    observation: str = ""
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Generation:
    """One reply.

    Attributes:
        text: the action; special tokens kept, the end-of-turn token aside.
        prompt_ids: int32 [P], exactly what the model was fed; empty if unknown.
        response_ids: int32 [R], exactly what was sampled, the end-of-turn token included.
        logprobs: float32 [R], of exactly those ids.
        finish_reason: "stop", or "length" when the reply was cut by its token limit.
        policy_version: number of updates the weights had seen; -1 if unknown.
        metrics: numbers worth logging.
    """

    text: str
    prompt_ids: Ids = field(default_factory=_no_ids)
    response_ids: Ids = field(default_factory=_no_ids)
    logprobs: npt.NDArray[np.float32] = field(default_factory=_no_logprobs)
    finish_reason: str = "stop"
    policy_version: int = -1
    metrics: dict[str, float] = field(default_factory=dict)


class Policy:
    """Base class. Only `generate` must be defined.

    Attributes:
        encoder: turns states into ids before `generate` is asked; None where the policy takes
            messages.
        max_prompt_tokens: longest prompt it takes; the episode is truncated beyond.
        looks_inside: it needs the environment itself, which must then live in this process.
    """

    name: ClassVar[str] = "policy"
    encoder: PromptEncoder | None = None
    max_prompt_tokens: int | None = None
    looks_inside: ClassVar[bool] = False

    async def generate(self, request: GenerateRequest) -> Generation:
        """Answer one state.

        Raises:
            PolicyFault: no answer can be had.
        """
        raise NotImplementedError

    def start_episode(
        self, episode_id: str, env: Any, observation: str, info: Mapping[str, Any]
    ) -> None:
        """An episode begins. `env` is the environment itself, for scripts that look inside."""

    def end_episode(self, episode_id: str) -> None:
        """It has ended; whatever was kept for it can go."""

    async def close(self) -> None:
        """Release what the policy holds."""
