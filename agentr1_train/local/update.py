"""One policy update from a batch of step rows: advantages, mini-batches, gradient accumulation."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from agentr1_envs.seeding import derive

from ..advantages import (
    AdvantageConfig,
    AdvantageResult,
    compute_advantages,
    distillation_advantages,
)
from ..losses import LossConfig, loss_weights, policy_loss, value_loss
from ..rows import RowBatch
from .forward import (
    Chain,
    ValueModel,
    build_chains,
    micro_batches,
    score,
    score_all,
    value,
    value_all,
)
from .optim import Optimizers


@dataclass(slots=True)
class UpdateConfig:
    """How a batch is turned into optimizer steps.

    Attributes:
        mini_batch_groups: groups an optimizer step; None takes the whole batch at once.
        epochs: passes over the batch.
        max_tokens: padded tokens per micro-batch.
        grad_clip: largest gradient norm.
        temperature: of the sampling; log-probabilities are of the distribution sampled from.
        recompute_old: take the ratio against this model's own log-probabilities before the update
            instead of the sampler's (they differ in half precision).
        value_clip: see `losses.value_loss`.
        distill_clip: bound of the per-token distillation reward.
        distill_coef: its weight.
        distill_with_reward: keep the task's advantages beside it.
    """

    mini_batch_groups: int | None = None
    epochs: int = 1
    max_tokens: int = 16384
    grad_clip: float = 1.0
    temperature: float = 1.0
    recompute_old: bool = False
    value_clip: float | None = 0.5
    distill_clip: float = 10.0
    distill_coef: float = 1.0
    distill_with_reward: bool = False


@dataclass(slots=True)
class _Means:
    """Averages over micro-batches by trained tokens; losses, whose weights add up, are summed."""

    sums: dict[str, float] = field(default_factory=dict)
    weight: dict[str, float] = field(default_factory=dict)

    def add(self, metrics: dict[str, float], weight: float, steps: int) -> None:
        for name, v in metrics.items():
            if name.endswith("_max"):
                self.sums[name] = max(self.sums.get(name, v), v)
                self.weight[name] = 1.0
            elif name.endswith(("_loss", "/kl", "/entropy")):
                self.sums[name] = self.sums.get(name, 0.0) + v / steps
                self.weight[name] = 1.0
            else:
                self.sums[name] = self.sums.get(name, 0.0) + v * weight
                self.weight[name] = self.weight.get(name, 0.0) + weight

    def result(self) -> dict[str, float]:
        return {n: v / max(self.weight[n], 1e-12) for n, v in self.sums.items()}


class Updater:
    """Holds what an update needs: models, optimizers, configurations.

    Args:
        model: the policy, trained in place.
        optimizer: of the policy.
        critic, critic_optimizer: needed by estimators with values.
        reference: frozen model for the KL terms; None where neither is used.
        teacher: model that the policy is distilled from on its own samples; None for plain RL.
        pad_id: padding id.
        seed: of the mini-batch order.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Optimizers,
        advantage: AdvantageConfig,
        loss: LossConfig,
        config: UpdateConfig,
        *,
        pad_id: int,
        seed: int = 0,
        critic: ValueModel | None = None,
        critic_optimizer: Optimizers | None = None,
        reference: Any = None,
        teacher: Any = None,
    ) -> None:
        if advantage.needs_values and critic is None:
            raise ValueError(f"{advantage.estimator} needs a critic")
        if (loss.kl_coef or advantage.kl_in_reward) and reference is None:
            raise ValueError("the KL terms need a reference model")
        self.model, self.optimizer = model, optimizer
        self.advantage, self.loss, self.config = advantage, loss, config
        self.pad_id, self.seed = pad_id, seed
        self.critic, self.critic_optimizer, self.reference = critic, critic_optimizer, reference
        self.teacher = teacher

    def update(
        self,
        batch: RowBatch,
        iteration: int,
        *,
        rewards: Tensor | None = None,
        policy: bool = True,
    ) -> tuple[dict[str, float], AdvantageResult]:
        """Train on a batch.

        Args:
            batch: rows, on the CPU; micro-batches are moved to the model's device.
            iteration: names the mini-batch order.
            rewards: [N] in place of the batch's.
            policy: False trains the critic alone.

        Returns:
            Metrics and the advantages.
        """
        c = self.config
        chains = build_chains(batch)
        kwargs = {"pad_id": self.pad_id, "temperature": c.temperature}
        old = batch.response_logprobs
        metrics: dict[str, float] = {}
        if c.recompute_old:
            old = score_all(self.model, batch, chains, c.max_tokens, **kwargs)
            gap = (old - batch.response_logprobs)[batch.train_mask]
            if len(gap):
                metrics["actor/sampler_logprob_gap"] = float(gap.abs().mean())
        reference = None
        if self.reference is not None:
            reference = score_all(self.reference, batch, chains, c.max_tokens, **kwargs)
        values = None
        if self.critic is not None:
            values = value_all(self.critic, batch, chains, c.max_tokens, pad_id=self.pad_id)
        result = compute_advantages(
            batch, self.advantage, values, reference, old_logprobs=old, rewards=rewards
        )
        metrics.update(result.metrics)
        if self.teacher is not None:
            taught = score_all(self.teacher, batch, chains, c.max_tokens, **kwargs)
            metrics.update(self._distill(batch, result, old, taught))
        means = _Means()
        minis = self._mini_batches(batch, chains, iteration)
        skipped = 0
        for rows, part in minis:
            if self.critic is not None:
                self._train_critic(part, rows, batch, result, values, means, len(minis))
            if policy:
                ok = self._train_policy(
                    part, rows, batch, old, result.advantages, reference, means, len(minis)
                )
                skipped += not ok
        metrics.update(means.result())
        metrics["actor/skipped_steps"] = float(skipped)
        return metrics, result

    def _distill(
        self, batch: RowBatch, result: AdvantageResult, old: Tensor, taught: Tensor
    ) -> dict[str, float]:
        """On-policy distillation: each sampled token is paid for how much the teacher likes it.

        The reward -(log p_student - log p_teacher), clamped, is the token's own advantage: its
        expectation is minus the reverse KL divergence, which needs no credit over later tokens
        (Agarwal et al. 2024, arXiv:2306.13649; Gu et al. 2024, arXiv:2306.08543).
        """
        c, mask = self.config, batch.train_mask
        paid = distillation_advantages(
            batch, taught, old, coef=c.distill_coef, clamp=c.distill_clip
        ).to(result.advantages)
        result.advantages = result.advantages + paid if c.distill_with_reward else paid
        gap = (old - taught).masked_fill(~mask, 0.0).sum() / mask.sum().clamp(min=1)
        return {"distill/reverse_kl": float(gap)}

    def _mini_batches(
        self, batch: RowBatch, chains: list[Chain], iteration: int
    ) -> list[tuple[Tensor, list[Chain]]]:
        """(rows, chains) of each optimizer step; whole groups stay together."""
        groups = batch.group.tolist()
        distinct = sorted({groups[c.rows[0]] for c in chains})
        size = self.config.mini_batch_groups or max(len(distinct), 1)
        out = []
        for epoch in range(self.config.epochs):
            order = distinct
            if len(distinct) > size:
                rng = derive("mini-batches", self.seed, iteration, epoch)
                order = [distinct[i] for i in rng.permutation(len(distinct))]
            for at in range(0, len(order), size):
                chosen = set(order[at : at + size])
                part = [c for c in chains if groups[c.rows[0]] in chosen]
                rows = torch.tensor(sorted(r for c in part for r in c.rows))
                out.append((rows, part))
        return out

    def _train_policy(
        self,
        part: Sequence[Chain],
        rows: Tensor,
        batch: RowBatch,
        old: Tensor,
        advantages: Tensor,
        reference: Tensor | None,
        means: _Means,
        steps: int,
    ) -> bool:
        c = self.config
        device = next(self.model.parameters()).device
        mask = batch.train_mask
        weights = torch.zeros_like(old)
        weights[rows] = loss_weights(batch.select(rows), self.loss.loss_weight).to(weights)
        # Chains without a weight (failed episodes, bootstrap states) need no pass.
        used = (weights * advantages != 0).any(1) if not self._dense else (weights != 0).any(1)
        live = used.tolist()
        part = [chain for chain in part if any(live[r] for r in chain.rows)]
        self.model.train()
        self.optimizer.zero_grad()
        for micro in micro_batches(part, c.max_tokens):
            s = score(
                self.model, micro, old.shape[1], pad_id=self.pad_id, temperature=c.temperature,
                want_entropy=True,
            )  # fmt: skip
            r, entropy = s.rows, s.entropy
            if entropy is not None and not self.loss.entropy_coef:
                entropy = entropy.detach()
            loss, m = policy_loss(
                s.values,
                old[r].to(device),
                advantages[r].to(device),
                mask[r].to(device),
                None,
                self.loss,
                weights=weights[r].to(device),
                ref_logprobs=None if reference is None else reference[r].to(device),
                entropy=entropy,
            )
            loss.backward()
            means.add(m, float(mask[r].sum()), steps)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), c.grad_clip)
        finite = bool(torch.isfinite(norm))
        if finite and part:
            self.optimizer.step()
        self.model.eval()
        means.add({"actor/grad_norm": float(norm) if finite else 0.0}, 1.0, steps)
        return finite

    @property
    def _dense(self) -> bool:
        """Whether tokens without an advantage have a gradient too."""
        return bool(self.loss.kl_coef or self.loss.entropy_coef)

    def _train_critic(
        self,
        part: Sequence[Chain],
        rows: Tensor,
        batch: RowBatch,
        result: AdvantageResult,
        old_values: Tensor | None,
        means: _Means,
        steps: int,
    ) -> None:
        assert self.critic is not None and self.critic_optimizer is not None
        device = next(self.critic.parameters()).device
        count = int(result.value_mask[rows].sum())
        self.critic_optimizer.zero_grad()
        for micro in micro_batches(part, self.config.max_tokens):
            s = value(self.critic, micro, result.returns.shape[1], pad_id=self.pad_id)
            r = s.rows
            loss, m = value_loss(
                s.values,
                result.returns[r].to(device),
                result.value_mask[r].to(device),
                old_values=None if old_values is None else old_values[r].to(device),
                clip=self.config.value_clip,
                count=count,
            )
            loss.backward()
            means.add(m, float(result.value_mask[r].sum()), steps)
        norm = torch.nn.utils.clip_grad_norm_(self.critic.parameters(), self.config.grad_clip)
        if torch.isfinite(norm):
            self.critic_optimizer.step()
        means.add({"critic/grad_norm": float(norm)}, 1.0, steps)


def frozen_copy(model: Any) -> Any:
    """A reference model: a copy that is never trained."""
    reference = copy.deepcopy(model).eval()
    for p in reference.parameters():
        p.requires_grad_(False)
    return reference
