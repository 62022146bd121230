"""A rollout replica on transformers, for verl without a GPU (``rollout.name=hf_cpu``)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from typing import Any

import numpy as np
import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from agentr1_train.local.sampler import Sampler, SampleRequest, SampleResult

WINDOW = 0.02  # seconds that a request waits for others to share its batch


def _name(replica_rank: int) -> str:
    return f"agentr1_hf_cpu_{replica_rank}"


class HFServer:
    """A Ray actor with the model: requests that wait are answered in one batch."""

    def __init__(self, model_path: str, response_length: int, threads: int) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.set_num_threads(threads)
        tokenizer = AutoTokenizer.from_pretrained(model_path, local_files_only=True)
        self.model = AutoModelForCausalLM.from_pretrained(
            model_path, local_files_only=True, dtype=torch.float32
        ).eval()
        end = tokenizer.eos_token_id
        ends = self.model.generation_config.eos_token_id
        stop = {end, *(ends if isinstance(ends, list) else [ends])} - {None}
        self.sampler = Sampler(self.model, pad_id=tokenizer.pad_token_id or end, stop_ids=[*stop])
        self.response_length, self.global_steps = response_length, 0
        self.waiting: list[tuple[SampleRequest, asyncio.Future[SampleResult]]] = []
        self.worker: asyncio.Task[None] | None = None

    async def generate(
        self, prompt_ids: list[int], sampling_params: dict[str, Any], request_id: str, **_: Any
    ) -> TokenOutput:
        """Tokens and the log-probabilities they were sampled with."""
        request = SampleRequest(
            np.asarray(prompt_ids, np.int32),
            seed=int(sampling_params.get("seed", 0)),
            temperature=float(sampling_params.get("temperature", 1.0)),
            max_tokens=int(sampling_params.get("max_tokens", self.response_length)),
        )
        future: asyncio.Future[SampleResult] = asyncio.get_running_loop().create_future()
        self.waiting.append((request, future))
        if self.worker is None or self.worker.done():
            self.worker = asyncio.create_task(self._serve())
        result = await future
        return TokenOutput(
            token_ids=result.response_ids.tolist(),
            log_probs=result.logprobs.tolist(),
            stop_reason="completed",
            extra_fields={"global_steps": self.global_steps},
        )

    async def _serve(self) -> None:
        while self.waiting:
            await asyncio.sleep(WINDOW)
            batch, self.waiting = self.waiting, []
            try:
                results = await asyncio.to_thread(self.sampler.sample, [r for r, _ in batch])
            except Exception as error:  # told to each who waits; the next batch may do
                for _, future in batch:
                    future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
                continue
            for (_, future), result in zip(batch, results, strict=True):
                future.set_result(result)

    async def load_weights(self, weights: dict[str, np.ndarray], global_steps: int | None) -> None:
        """Replace the weights; names as in the model's state dict."""
        state = {name: torch.from_numpy(np.array(w)) for name, w in weights.items()}
        missing, unexpected = self.model.load_state_dict(state, strict=False)
        tied = {n for n in missing if n.endswith("lm_head.weight")}
        if unexpected or set(missing) - tied:
            raise RuntimeError(f"weights: missing {missing}, unexpected {unexpected}")
        self.model.tie_weights()
        self.sampler.weights_changed()
        if global_steps is not None:
            self.global_steps = global_steps

    async def nothing(self, *args: Any, **kwargs: Any) -> None:
        """Sleeping and waking: a CPU has no memory to hand over."""

    wake_up = sleep = clear_kv_cache = release_kv_cache = resume_kv_cache = nothing
    abort_all_requests = resume_generation = start_profile = stop_profile = nothing


class HFReplica(RolloutReplica):
    """One server per replica, on the worker's node."""

    async def launch_servers(self) -> None:
        if self.world_size != 1:
            raise ValueError("rollout.name=hf_cpu: expected tensor_model_parallel_size=1")
        path = self.model_config["path"]
        server: Any = ray.remote(HFServer)
        self._server_handle = server.options(
            name=_name(self.replica_rank), max_concurrency=self.max_concurrency, num_cpus=0
        ).remote(path, self.config.response_length, int(os.environ.get("OMP_NUM_THREADS", "1")))
        self.servers = [self._server_handle]
        self._server_address = _name(self.replica_rank)


class ServerAdapter(BaseRollout):
    """In the training worker: hands its weights to the server of its replica."""

    async def resume(self, tags: list[str]) -> None: ...

    async def release(self) -> None: ...

    async def update_weights(
        self,
        weights: Generator[tuple[str, torch.Tensor], None, None],
        wire_format: str = "named_tensors",
        global_steps: int | None = None,
        **kwargs: Any,
    ) -> None:
        # Every rank walks the generator: gathering a sharded tensor takes all of them.
        state = {name: w.detach().float().cpu().numpy().copy() for name, w in weights}
        server = ray.get_actor(_name(int(os.environ["RANK"])))
        await server.load_weights.remote(state, global_steps)
