"""What is asked of a sampler and what it gives; free of torch, so that engines without it can."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(slots=True)
class SampleRequest:
    """One prompt. ``temperature`` 0 is greedy; ``key`` names the conversation for prefix reuse."""

    prompt_ids: np.ndarray
    seed: int
    temperature: float = 1.0
    max_tokens: int = 256
    key: str | None = None


@dataclass(slots=True)
class SampleResult:
    """``response_ids`` (T,) int32 and ``logprobs`` (T,) float32 of exactly those ids.

    Log-probabilities are those of the distribution sampled from: at the request's temperature, and
    at temperature 1 for greedy requests. With ``top_p`` or ``top_k`` they are of the distribution
    before the cut, as inference servers report them.
    """

    response_ids: np.ndarray
    logprobs: np.ndarray
    finish_reason: str  # "stop" (an end-of-turn token was sampled) or "length"
