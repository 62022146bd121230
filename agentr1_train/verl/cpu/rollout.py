"""A rollout replica on transformers, for verl without a GPU (``rollout.name=hf_cpu``)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from agentr1_train.local.sampler import Sampler, SampleRequest
from agentr1_train.verl.cpu.batcher import Batcher

Weights = Iterator[tuple[str, torch.Tensor]]


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
        sampler = Sampler(self.model, pad_id=tokenizer.pad_token_id or end, stop_ids=[*stop])
        self.batcher = Batcher(sampler)
        self.response_length, self.global_steps = response_length, 0

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
        result = await self.batcher.sample(request)
        if result is None:  # verl's client asks again, with the tokens it has (here none)
            return TokenOutput(token_ids=[], log_probs=[], stop_reason="aborted")
        return TokenOutput(
            token_ids=result.response_ids.tolist(),
            log_probs=result.logprobs.tolist(),
            stop_reason="completed",
            extra_fields={"global_steps": self.global_steps},
        )

    async def load_weights(self, weights: dict[str, np.ndarray], global_steps: int | None) -> None:
        """Replace the weights; names as in the model's state dict."""
        state = {name: torch.from_numpy(np.array(w)) for name, w in weights.items()}
        missing, unexpected = self.model.load_state_dict(state, strict=False)
        tied = {n for n in missing if n.endswith("lm_head.weight")}
        if unexpected or set(missing) - tied:
            raise RuntimeError(f"weights: missing {missing}, unexpected {unexpected}")
        self.model.tie_weights()
        self.batcher.sampler.weights_changed()
        if global_steps is not None:
            self.global_steps = global_steps

    async def abort_all_requests(self, reject_request: bool = False) -> None:
        """See `Batcher.abort`."""
        await self.batcher.abort(reject_request)

    async def resume_generation(self) -> None:
        """See `Batcher.resume`."""
        await self.batcher.resume()

    async def nothing(self, *args: Any, **kwargs: Any) -> None:
        """Sleeping and waking: a CPU has no memory to hand over."""

    wake_up = sleep = clear_kv_cache = release_kv_cache = resume_kv_cache = nothing
    start_profile = stop_profile = nothing


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


async def _each(weights: Any) -> AsyncIterator[tuple[str, torch.Tensor]]:
    if hasattr(weights, "__aiter__"):
        async for pair in weights:
            yield pair
    else:
        for pair in weights:
            yield pair


class ServerAdapter(BaseRollout):
    """Hands weights to the server of its replica: in the training worker, or beside the server."""

    def __init__(self, *args: Any, replica_rank: int | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.replica_rank = int(os.environ["RANK"]) if replica_rank is None else replica_rank
        self.is_leader_rank = True

    async def resume(self, tags: list[str]) -> None: ...

    async def release(self) -> None: ...

    async def update_weights(
        self,
        weights: Weights | AsyncIterator[tuple[str, torch.Tensor]],
        wire_format: str = "named_tensors",
        global_steps: int | None = None,
        **kwargs: Any,
    ) -> None:
        # Every rank walks the generator: gathering a sharded tensor takes all of them.
        state = {n: w.detach().float().cpu().numpy().copy() async for n, w in _each(weights)}
        server = ray.get_actor(_name(self.replica_rank))
        await server.load_weights.remote(state, global_steps)
