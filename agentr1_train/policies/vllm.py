"""vLLM in this process as a policy (extra ``vllm``).

Requests of many episodes go to the engine in the batches of `TransformersPolicy`; the engine
schedules them on its own. Prompts are given as token ids, replies come back as token ids with the
log-probability of each, so episodes can be trained on. The log-probabilities are vLLM's processed
ones: at the request's temperature, and after a cut by ``top_p`` or ``top_k``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..prompts import PromptEncoder
from ..sampling import SampleRequest, SampleResult
from .transformers import TransformersPolicy


class VLLMSampler:
    """`Sampler`'s interface over ``vllm.LLM``."""

    def __init__(self, engine: Any, *, top_p: float = 1.0, top_k: int = 0) -> None:
        self.engine, self.top_p, self.top_k = engine, top_p, top_k

    def sample(self, requests: Sequence[SampleRequest]) -> list[SampleResult]:
        """Results in the order of ``requests``."""
        from vllm import SamplingParams

        params = [
            SamplingParams(
                temperature=r.temperature,
                top_p=self.top_p,
                top_k=self.top_k or -1,
                max_tokens=r.max_tokens,
                seed=r.seed & 0x7FFFFFFF,
                logprobs=0,  # of the sampled token alone
                skip_special_tokens=False,
            )
            for r in requests
        ]
        prompts = [{"prompt_token_ids": r.prompt_ids.tolist()} for r in requests]
        outputs = self.engine.generate(prompts, params, use_tqdm=False)
        return [_result(o.outputs[0]) for o in outputs]

    def forget(self, key: str) -> None:
        """Prefixes are the engine's own business."""

    def weights_changed(self) -> None:
        """Cached prefixes belong to the old weights."""
        self.engine.reset_prefix_cache()


def _result(output: Any) -> SampleResult:
    ids = np.asarray(output.token_ids, np.int32)
    logprobs = np.asarray(
        [table[int(i)].logprob for i, table in zip(ids, output.logprobs, strict=True)], np.float32
    )
    return SampleResult(ids, logprobs, "stop" if output.finish_reason == "stop" else "length")


class VLLMPolicy(TransformersPolicy):
    """A saved model served by vLLM in this process.

    Args:
        path: the model's directory.
        temperature, max_tokens, top_p, top_k, window: see `TransformersPolicy`.
        engine: arguments of ``vllm.LLM``.
        llm: an engine that exists already, in place of ``path``'s.
    """

    def __init__(
        self,
        path: str,
        *,
        temperature: float = 1.0,
        max_tokens: int = 256,
        top_p: float = 1.0,
        top_k: int = 0,
        window: float | None = 0.005,
        engine: Mapping[str, Any] | None = None,
        llm: Any = None,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if llm is None:
            from vllm import LLM

            # Of the distribution sampled from, at its temperature: what training compares with.
            given = {"enable_prefix_caching": True, "logprobs_mode": "processed_logprobs"}
            llm = LLM(model=path, **{**given, **(engine or {})})
        tokenizer = llm.get_tokenizer()
        self.model, self.tokenizer = None, tokenizer
        self.encoder = PromptEncoder(tokenizer, template_kwargs=template_kwargs)
        self.sampler: Any = VLLMSampler(llm, top_p=top_p, top_k=top_k)
        self.temperature, self.max_tokens, self.window = temperature, max_tokens, window
        self.max_prompt_tokens = int(llm.llm_engine.model_config.max_model_len) - 1
        self.version = 0
        self._waiting = []
        self._episodes = set()
        self._running = False
        self._timer: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="agentr1-vllm")
