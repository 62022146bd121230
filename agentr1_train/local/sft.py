"""Supervised learning on written or collected episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from agentr1_envs.seeding import derive
from agentr1_envs.transitions import Transition

from .forward import Chain, chain_rows, micro_batches
from .optim import Optimizers


def examples(transitions: Sequence[Transition]) -> list[Chain]:
    """Training sequences: an episode whose conversation only grew is one of them.

    Raises:
        ValueError: a transition has no token ids.
    """
    rows = sorted(range(len(transitions)), key=lambda i: _order(transitions[i]))
    for i in rows:
        t = transitions[i]
        if not len(t.prompt_ids) or not len(t.response_ids):
            raise ValueError(
                f"episode {t.episode_id!r}, step {t.step}: expected token ids, got none"
            )
    parts = [transitions[i] for i in rows]
    return chain_rows(
        (i, (t.episode_id, t.agent_id), t.prompt_ids, t.response_ids)
        for i, t in zip(rows, parts, strict=True)
    )


def _order(t: Transition) -> tuple[str, str, int]:
    return t.episode_id, t.agent_id, t.step


def _batch_tensors(part: Sequence[Chain], pad_id: int, loss_on: str, device: Any) -> Any:
    longest = max(len(c.ids) for c in part)
    ids = np.full((len(part), longest), pad_id, np.int64)
    mask = np.zeros((len(part), longest), bool)
    for b, chain in enumerate(part):
        ids[b, : len(chain.ids)] = chain.ids
        if loss_on == "all":
            mask[b, 1 : len(chain.ids)] = True
        for start, n in zip(chain.starts, chain.lengths, strict=True):
            mask[b, start : start + n] = True
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


@dataclass(slots=True)
class SupervisedConfig:
    """Attributes: ``loss_on`` is "action" (sampled tokens) or "all" (the whole conversation)."""

    batch_size: int = 32
    loss_on: str = "action"
    max_tokens: int = 16384
    grad_clip: float = 1.0


class Supervised:
    """Next-token training on `Chain` examples, in an order that depends on the seed alone."""

    def __init__(
        self,
        model: Any,
        optimizer: Optimizers,
        data: Sequence[Chain],
        config: SupervisedConfig,
        *,
        pad_id: int,
        seed: int,
    ) -> None:
        if not data:
            raise ValueError("supervised training: no example to learn from")
        if config.loss_on not in ("action", "all"):
            raise ValueError(f"loss_on: {config.loss_on!r}, expected action or all")
        self.model, self.optimizer, self.data = model, optimizer, list(data)
        self.config, self.pad_id, self.seed = config, pad_id, seed
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def _pick(self, step: int) -> list[Chain]:
        """The examples of step ``step``: a walk through a new shuffle each epoch."""
        size = min(self.config.batch_size, len(self.data))
        per_epoch = len(self.data) // size
        epoch, at = divmod(step, per_epoch)
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = derive("sft", self.seed, epoch).permutation(len(self.data))
        return [self.data[i] for i in self._order[at * size : (at + 1) * size]]

    def step(self, step: int, lr: float) -> dict[str, float]:
        """One optimizer step (micro-batches accumulate); mean loss per trained token."""
        device = next(self.model.parameters()).device
        self.optimizer.set_lr(lr)
        self.model.train()
        self.optimizer.zero_grad()
        batch = self._pick(step)
        parts = [
            _batch_tensors(p, self.pad_id, self.config.loss_on, device)
            for p in micro_batches(batch, self.config.max_tokens)
        ]
        total = max(sum(int(mask.sum()) for _, mask in parts), 1)
        loss_sum = 0.0
        for ids, mask in parts:
            hidden = self.model.base_model(input_ids=ids, use_cache=False).last_hidden_state
            target = mask[:, 1:]
            logits = self.model.get_output_embeddings()(hidden[:, :-1][target]).float()
            loss = F.cross_entropy(logits, ids[:, 1:][target], reduction="sum") / total
            loss.backward()
            loss_sum += float(loss.detach())
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip)
        if torch.isfinite(norm):
            self.optimizer.step()
        self.model.eval()
        return {"sft/loss": loss_sum, "sft/grad_norm": float(norm), "sft/tokens": float(total)}
