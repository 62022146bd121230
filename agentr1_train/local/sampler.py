"""Batched sampling with the exact log-probability of each sampled id.

One uniform number per token, taken from the request's own generator, is turned into a token by
inverting the cumulative distribution: what a request samples depends on its seed and its prompt,
never on the other requests that happened to share its batch (up to the rounding of the matrix
products).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..sampling import SampleRequest, SampleResult
from .llama import LlamaRunner, Prefix, make_runner

__all__ = ["SampleRequest", "SampleResult", "Sampler"]


class Sampler:
    """Sample responses for many prompts at once with one model.

    Args:
        model: a transformers causal language model.
        pad_id: id used for padding.
        stop_ids: ids that end a response; the one sampled is part of the response.
        top_p, top_k: cut of the distribution, 1.0 and 0 for none.
        max_batch: rows decoded together; larger calls are split.
        reuse_prefixes: keep keys and values between the turns of a conversation (``key``).
        dtype: of the forward passes; the weights' own where None.
    """

    def __init__(
        self,
        model: Any,
        *,
        pad_id: int,
        stop_ids: Sequence[int],
        top_p: float = 1.0,
        top_k: int = 0,
        max_batch: int = 256,
        reuse_prefixes: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.runner = make_runner(model, dtype)
        self.pad_id = pad_id
        self.stop_ids = torch.tensor(sorted(set(stop_ids)), dtype=torch.long)
        self.top_p, self.top_k, self.max_batch = top_p, top_k, max_batch
        self._reuse = reuse_prefixes and self.runner.reuses_prefixes
        self._prefixes: dict[str, Prefix] = {}
        self.prefilled = 0  # tokens run through the model as prompts, for metrics
        self.decoded = 0

    def weights_changed(self) -> None:
        """Must be called after every change of the model's weights."""
        self._prefixes.clear()
        self.runner.refresh()

    def forget(self, key: str) -> None:
        """Drop what is kept for a conversation that has ended."""
        self._prefixes.pop(key, None)

    def sample(self, requests: Sequence[SampleRequest]) -> list[SampleResult]:
        """Results in the order of ``requests``."""
        for i, r in enumerate(requests):
            if not 0 < len(r.prompt_ids) < self.runner.max_positions:
                raise ValueError(
                    f"request {i}: prompt of {len(r.prompt_ids)} tokens, expected 1 to "
                    f"{self.runner.max_positions - 1} (the model's positions)"
                )
        order = sorted(range(len(requests)), key=lambda i: len(requests[i].prompt_ids))
        results: list[SampleResult | None] = [None] * len(requests)
        for at in range(0, len(order), self.max_batch):
            part = order[at : at + self.max_batch]
            for i, result in zip(part, self._batch([requests[i] for i in part]), strict=True):
                results[i] = result
        return results  # type: ignore[return-value]

    def _lookup(self, request: SampleRequest) -> Prefix | None:
        prefix = self._prefixes.get(request.key) if self._reuse and request.key else None
        if prefix is None:
            return None
        n = len(prefix.ids)
        same = n < len(request.prompt_ids) and np.array_equal(request.prompt_ids[:n], prefix.ids)
        return prefix if same else None

    def _prefill(self, requests: list[SampleRequest], room: int) -> tuple[Any, Tensor]:
        """Each distinct prompt once, then one row per request."""
        unique: dict[bytes, int] = {}
        index = [unique.setdefault(r.prompt_ids.tobytes(), len(unique)) for r in requests]
        first = {u: i for i, u in reversed(list(enumerate(index)))}
        chosen = [requests[first[u]] for u in range(len(unique))]
        prompts = [r.prompt_ids for r in chosen]
        prefixes = [self._lookup(r) for r in chosen]
        if not all(prefixes):
            prefixes = [None] * len(prefixes)
        self.prefilled += sum(
            len(p) - (0 if f is None else len(f.ids))
            for p, f in zip(prompts, prefixes, strict=True)
        )
        state, logits = self.runner.prefill(prompts, prefixes, room, self.pad_id)
        if len(unique) < len(requests):
            rows = torch.tensor(index, device=logits.device)
            state, logits = self.runner.expand(state, rows), logits[rows]
        return state, logits

    def _filter(self, logits: Tensor) -> Tensor:
        if self.top_k:
            k = min(self.top_k, logits.shape[-1])
            least = logits.topk(k, dim=-1).values[:, -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        if self.top_p < 1.0:
            ordered, ids = logits.sort(dim=-1, descending=True)
            p = ordered.softmax(-1)
            drop = p.cumsum(-1) - p > self.top_p
            logits = logits.masked_fill(drop.gather(-1, ids.argsort(-1)), -torch.inf)
        return logits

    def _batch(self, requests: list[SampleRequest]) -> list[SampleResult]:
        longest = max(len(r.prompt_ids) for r in requests)
        room = min(max(r.max_tokens for r in requests), self.runner.max_positions - longest)
        state, logits = self._prefill(requests, room)
        device = logits.device
        count = len(requests)
        uniform = torch.from_numpy(
            np.stack([np.random.default_rng(r.seed).random(room) for r in requests])
        ).to(device)
        limit = torch.tensor([min(r.max_tokens, room) for r in requests], device=device)
        temperature = torch.tensor([r.temperature for r in requests], device=device)[:, None]
        greedy = temperature[:, 0] == 0
        scale = torch.where(greedy[:, None], 1.0, temperature)
        stop_ids = self.stop_ids.to(device)
        ids = torch.zeros(count, room, dtype=torch.long, device=device)
        logps = torch.zeros(count, room, device=device)
        length = torch.zeros(count, dtype=torch.long, device=device)
        stopped = torch.zeros(count, dtype=torch.bool, device=device)
        alive = torch.arange(count, device=device)  # rows of the state, as rows of the request
        where: list[tuple[Any, int, int] | None] = [None] * count
        active = torch.ones(count, dtype=torch.bool, device=device)
        for t in range(room):
            logp = torch.log_softmax(logits / scale[alive], dim=-1)
            cut = self._filter(logp)
            mass = cut.double().exp().cumsum(-1)
            draw = (uniform[alive, t] * mass[:, -1])[:, None]
            token = torch.searchsorted(mass, draw, right=True)[:, 0].clamp_(max=mass.shape[1] - 1)
            token = torch.where(greedy[alive], logits.argmax(-1), token)
            ids[alive, t] = token
            logps[alive, t] = logp.gather(1, token[:, None])[:, 0]
            running = active[alive]
            ends = torch.isin(token, stop_ids)
            length[alive] += running
            stopped[alive] |= running & ends
            active[alive] = running & ~ends & (t + 1 < limit[alive])
            left = int(active.sum())
            if left == 0:
                break
            if left <= 0.75 * len(alive):
                rows = active[alive].nonzero()[:, 0]
                self._remember(where, alive, state, ~active[alive])
                state, alive, token = self.runner.keep(state, rows), alive[rows], token[rows]
            logits = self.runner.decode(state, token)
            self.decoded += len(alive)
        self._remember(where, alive, state, torch.ones(len(alive), dtype=torch.bool))
        return self._results(requests, ids, logps, length, stopped, where)

    def _remember(
        self, where: list[tuple[Any, int, int] | None], alive: Tensor, state: Any, rows: Tensor
    ) -> None:
        if not self._reuse:
            return
        start = state.start.tolist()
        names = alive.tolist()
        for i in rows.nonzero()[:, 0].tolist():
            if where[names[i]] is None:
                where[names[i]] = (state, i, start[i])

    def _results(
        self,
        requests: list[SampleRequest],
        ids: Tensor,
        logps: Tensor,
        length: Tensor,
        stopped: Tensor,
        where: list[tuple[Any, int, int] | None],
    ) -> list[SampleResult]:
        all_ids = ids.to("cpu", torch.int32).numpy()
        all_logps = logps.float().cpu().numpy()
        out = []
        for i, (n, done) in enumerate(zip(length.tolist(), stopped.tolist(), strict=True)):
            out.append(
                SampleResult(
                    all_ids[i, :n].copy(), all_logps[i, :n].copy(), "stop" if done else "length"
                )
            )
            place, key = where[i], requests[i].key
            if place is not None and key and isinstance(self.runner, LlamaRunner):
                # The last sampled token was never fed, so its keys are not there yet.
                seen = np.concatenate([requests[i].prompt_ids, all_ids[i, : n - 1]])
                state, row, start = place
                self._prefixes[key] = self.runner.prefix(state, row, start, seen)
        return out
