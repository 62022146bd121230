"""A transformers model as a policy: requests of many episodes are answered in shared batches."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..prompts import PromptEncoder
from ..sampling import SampleRequest, SampleResult
from .base import GenerateRequest, Generation, Policy, PolicyFault


@dataclass(slots=True)
class _Waiting:
    key: tuple[str, int]
    request: SampleRequest
    future: asyncio.Future[SampleResult]


class TransformersPolicy(Policy):
    """Batched sampling from a model in this process, with exact log-probabilities.

    A batch starts when every running episode waits for a reply, or ``window`` seconds after the
    first that waits; what arrives while a batch runs joins the next.

    Args:
        model, tokenizer: a causal language model and its tokenizer, with a chat template.
        temperature: 0 is greedy.
        max_tokens: longest reply.
        top_p, top_k: cut of the distribution; 1.0 and 0 for none.
        max_batch: most rows decoded together.
        window: seconds to wait for company. None waits until every running episode waits
            (lockstep: batches then depend on nothing but the episodes).
        dtype: torch dtype of the passes; the weights' own where None.
        template_kwargs: further arguments of the chat template.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        temperature: float = 1.0,
        max_tokens: int = 256,
        top_p: float = 1.0,
        top_k: int = 0,
        max_batch: int = 256,
        window: float | None = 0.02,
        dtype: Any = None,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        from ..local.sampler import Sampler

        ends = _end_ids(model, tokenizer)
        self.model, self.tokenizer = model, tokenizer
        self.encoder: PromptEncoder = PromptEncoder(
            tokenizer, template_kwargs=template_kwargs, end_ids=ends
        )
        pad = tokenizer.pad_token_id
        self.sampler = Sampler(
            model,
            pad_id=ends[0] if pad is None else pad,
            stop_ids=ends,
            top_p=top_p,
            top_k=top_k,
            max_batch=max_batch,
            dtype=dtype,
        )
        self.temperature, self.max_tokens, self.window = temperature, max_tokens, window
        # A reply needs room for a token at least.
        self.max_prompt_tokens: int = self.sampler.runner.max_positions - 1
        self.version = 0
        self._waiting: list[_Waiting] = []
        self._episodes: set[str] = set()
        self._running = False
        self._timer: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="agentr1-sampler")

    @classmethod
    def from_path(cls, path: str, *, device: str | None = None, **kwargs: Any) -> Any:
        """A policy from a directory written by ``save_pretrained``; never contacts a hub."""
        import torch

        from ..local import tiny

        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
        model, tokenizer = tiny.load(path, dtype=dtype, device=device)
        return cls(model, tokenizer, **kwargs)

    def weights_changed(self, version: int) -> None:
        """Must be called after each update of the model's weights."""
        self.version = version
        self.sampler.weights_changed()

    def start_episode(
        self, episode_id: str, env: Any, observation: str, info: Mapping[str, Any]
    ) -> None:
        self._episodes.add(episode_id)

    def end_episode(self, episode_id: str) -> None:
        self._episodes.discard(episode_id)
        self.sampler.forget(episode_id)
        self._maybe_start()

    async def generate(self, request: GenerateRequest) -> Generation:
        ids = request.prompt_ids
        if ids is None:
            ids = self.encoder.encode(request.messages, request.tools)
        if len(ids) > self.max_prompt_tokens:
            raise PolicyFault(
                f"prompt of {len(ids)} tokens, expected at most {self.max_prompt_tokens}"
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[SampleResult] = loop.create_future()
        sample = SampleRequest(
            ids, request.seed, self.temperature, self.max_tokens, request.episode_id or None
        )
        self._waiting.append(_Waiting((request.episode_id, request.step), sample, future))
        version = self.version
        self._maybe_start()
        if self._waiting and self.window is not None and self._timer is None and not self._running:
            self._timer = loop.call_later(self.window, self._start)
        result = await future
        return Generation(
            self.encoder.decode(result.response_ids),
            ids,
            result.response_ids,
            result.logprobs,
            result.finish_reason,
            version,
        )

    def _maybe_start(self) -> None:
        if self._waiting and len(self._waiting) >= len(self._episodes):
            self._start()

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._running or not self._waiting:
            return
        # The order of rows must not depend on which environment was quicker.
        batch = sorted(self._waiting, key=lambda w: w.key)
        self._waiting = []
        self._running = True
        task = asyncio.get_running_loop().run_in_executor(
            self._thread, self.sampler.sample, [w.request for w in batch]
        )
        task.add_done_callback(lambda done: self._finish(batch, done))

    def _finish(self, batch: list[_Waiting], done: asyncio.Future[list[SampleResult]]) -> None:
        self._running = False
        if done.cancelled():
            for w in batch:
                w.future.cancel()
            return
        error = done.exception()
        for i, w in enumerate(batch):
            if w.future.done():  # the episode was given up meanwhile
                continue
            if error is not None:
                w.future.set_exception(PolicyFault(f"{type(error).__name__}: {error}"))
            else:
                w.future.set_result(done.result()[i])
        if self.window is not None and self._waiting:
            # Let the episodes just answered come back before the next batch is put together.
            self._timer = asyncio.get_running_loop().call_later(self.window, self._start)
        self._maybe_start()

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _end_ids(model: Any, tokenizer: Any) -> list[int]:
    """The ids that end a reply: the generation config's and the tokenizer's."""
    config = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ids = config if isinstance(config, list) else [config]
    found = [i for i in [tokenizer.eos_token_id, *ids] if i is not None]
    if not found:
        raise ValueError("neither tokenizer nor model names a token that ends a turn (eos)")
    return list(dict.fromkeys(found))
