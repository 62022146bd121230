"""Policy, value, KL and entropy losses, in plain torch, with the weight of a row a named choice.

| policy_loss | per token | source |
|---|---|---|
| ppo | max(-r A, -clip(r) A), with A < 0 at most -c A (dual clip) | Schulman 2017; Ye 2020 |
| gspo | the same with r = exp(mean token log-ratio) of the reply | Zheng 2025 |
| gmpo | geometric mean over the reply of token ratios clipped on the harmful side | Zhao 2025 |
| cispo | -stop_gradient(clip(r)) A log p | MiniMax 2025 |
| reinforce | -A log p | Williams 1992 |

`loss_weight` names what is averaged: "token" (every token counts the same), "step" (every row
counts the same, its tokens share its weight) or "episode" (every episode counts the same, its rows
share its weight, so an episode of N steps is not weighted N times). Weights are computed once over
the whole batch by `loss_weights` and sum to 1, so micro-batches add up to the batch's own gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from agentr1_train.rows import RowBatch

LOSS_WEIGHTS = ("episode", "step", "token")
MAX_LOG_RATIO = (
    20.0  # exp() of more overflows float32's useful range; such tokens are clipped anyway
)
# The clip ranges of each loss's own publication.
DEFAULT_CLIP = {
    "ppo": (0.2, 0.2),
    "gspo": (3e-4, 4e-4),
    "gmpo": (0.4, 0.4),
    "cispo": (1.0, 0.2),
    "reinforce": (0.0, 0.0),
}
KL_ESTIMATORS = {"k1": "k1", "k2": "k2", "k3": "k3", "kl": "k1", "mse": "k2", "low_var_kl": "k3"}


@dataclass(frozen=True, slots=True)
class LossConfig:
    """What to minimise.

    Attributes:
        policy_loss: a key of `POLICY_LOSSES`.
        clip_low, clip_high: the ratio stays in [1 - clip_low, 1 + clip_high] (gmpo: its log in
            [-clip_low, clip_high]); None takes DEFAULT_CLIP.
        dual_clip: c of ppo and gspo's bound for negative advantages (> 1); None switches it off.
        loss_weight: "episode", "step" or "token".
        kl_coef: coefficient of the KL term against the reference policy in the loss.
        kl_estimator: "k1", "k2" or "k3" (verl's names kl, mse, low_var_kl are understood).
        entropy_coef: coefficient of the entropy bonus.
    """

    policy_loss: str = "ppo"
    clip_low: float | None = None
    clip_high: float | None = None
    dual_clip: float | None = 3.0
    loss_weight: str = "episode"
    kl_coef: float = 0.0
    kl_estimator: str = "k3"
    entropy_coef: float = 0.0

    def __post_init__(self) -> None:
        for name, value, known in (
            ("policy_loss", self.policy_loss, POLICY_LOSSES),
            ("loss_weight", self.loss_weight, LOSS_WEIGHTS),
            ("kl_estimator", self.kl_estimator, KL_ESTIMATORS),
        ):
            if value not in known:
                raise ValueError(f"{name}: {value!r}, expected one of {sorted(known)}")
        if self.dual_clip is not None and not self.dual_clip > 1:
            raise ValueError(f"dual_clip: {self.dual_clip!r}, expected a number > 1 or None")

    @property
    def clip(self) -> tuple[float, float]:
        """(low, high), defaults filled in."""
        low, high = DEFAULT_CLIP[self.policy_loss]
        return (
            low if self.clip_low is None else self.clip_low,
            high if self.clip_high is None else self.clip_high,
        )


def kl_penalty(logprobs: Tensor, ref_logprobs: Tensor, kind: str = "k3") -> Tensor:
    """Approximate KL(policy || reference) per token from samples of the policy (Schulman 2020).

    k1 = log p - log q; k2 = k1^2 / 2; k3 = exp(-k1) - 1 + k1 (never negative), all finite.
    """
    d = (logprobs - ref_logprobs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    kind = KL_ESTIMATORS[kind]
    if kind == "k1":
        return d
    if kind == "k2":
        return 0.5 * d.square()
    return torch.exp(-d) - 1.0 + d


def loss_weights(rows: RowBatch, loss_weight: str, mask: Tensor | None = None) -> Tensor:
    """[N, T] weights of a whole batch's trained tokens, summing to 1 (to 0 without any).

    Args:
        rows: N rows; padding, bootstrap and invalid ones get 0 and enter no denominator.
        loss_weight: "episode", "step" or "token".
        mask: bool [N, T]; rows.train_mask where None.
    """
    if loss_weight not in LOSS_WEIGHTS:
        raise ValueError(f"loss_weight: {loss_weight!r}, expected one of {sorted(LOSS_WEIGHTS)}")
    mask = rows.train_mask if mask is None else mask & rows.live.to(mask.device)[:, None]
    tokens = mask.sum(-1).double().cpu()
    trained = tokens > 0
    if loss_weight == "token":
        w = trained.double()
        w = w / tokens.sum().clamp(min=1)
    else:
        w = trained.double() / tokens.clamp(min=1)
        if loss_weight == "step":
            w = w / trained.sum().clamp(min=1)
        else:
            ids = rows.episode.cpu()[trained]
            unique, at, count = torch.unique(ids, return_inverse=True, return_counts=True)
            w[trained] = w[trained] / (count[at].double() * max(len(unique), 1))
    return w.to(rows.response_logprobs)[:, None].to(mask.device) * mask


def policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    rows: RowBatch | None,
    cfg: LossConfig,
    *,
    weights: Tensor | None = None,
    ref_logprobs: Tensor | None = None,
    entropy: Tensor | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """The loss of a (micro-)batch and its metrics.

    Args:
        logprobs: [n, T] of the policy being trained (with gradient).
        old_logprobs: [n, T] of the policy that the ratio is taken against.
        advantages: [n, T].
        mask: bool [n, T], the trained tokens (`RowBatch.train_mask`).
        rows: the rows of this batch, for the weights; may be None where `weights` are given.
        cfg: which loss.
        weights: [n, T], this micro-batch's rows of `loss_weights` of the whole batch. None: the
            rows given here are the whole batch.
        ref_logprobs: [n, T], needed where cfg.kl_coef is not 0.
        entropy: [n, T], needed where cfg.entropy_coef is not 0.

    Returns:
        (scalar loss, metrics). A batch without a trained token gives a loss of 0 with gradient 0.
    """
    if weights is None:
        if rows is None:
            raise ValueError("policy_loss needs rows or weights, got neither")
        weights = loss_weights(rows, cfg.loss_weight, mask)
    weights = weights.to(logprobs)
    zero = torch.zeros((), dtype=logprobs.dtype, device=logprobs.device)
    # Outside the mask anything may stand, NaN included; where() keeps it out of the gradient too.
    lp = torch.where(mask, logprobs, zero)
    old = torch.where(mask, old_logprobs.to(lp), zero)
    adv = torch.where(mask, advantages.to(lp), zero)
    log_ratio = (lp - old).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    per_token, clipped = POLICY_LOSSES[cfg.policy_loss](lp, log_ratio, adv, mask, cfg)
    loss = (per_token * weights).sum()
    with torch.no_grad():
        n = mask.sum().clamp(min=1)
        metrics = {
            "actor/pg_loss": float(loss.detach()),
            "actor/clip_fraction": float((clipped & mask).sum() / n),
            "actor/ppo_kl": float(-(log_ratio * mask).sum() / n),
            "actor/ratio_max": float(log_ratio.max().exp()) if log_ratio.numel() else 1.0,
        }
    for name, coef, x in (
        ("kl_coef", cfg.kl_coef, ref_logprobs),
        ("entropy_coef", cfg.entropy_coef, entropy),
    ):
        if coef and x is None:
            raise ValueError(f"{name}={coef} needs {name.split('_')[0]} values [n, T], got None")
    if ref_logprobs is not None:
        ref = torch.where(mask, ref_logprobs.to(lp), zero)
        kl = (kl_penalty(lp, ref, cfg.kl_estimator) * weights).sum()
        metrics["actor/kl"] = float(kl.detach())
        if cfg.kl_coef:
            loss = loss + cfg.kl_coef * kl
    if entropy is not None:
        ent = (torch.where(mask, entropy, zero) * weights).sum()
        metrics["actor/entropy"] = float(ent.detach())
        if cfg.entropy_coef:
            loss = loss - cfg.entropy_coef * ent
    return loss, metrics


def value_loss(
    values: Tensor,
    returns: Tensor,
    value_mask: Tensor,
    *,
    old_values: Tensor | None = None,
    clip: float | None = 0.5,
    count: int | None = None,
    weights: Tensor | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """Half the squared error at `value_mask`, with PPO's clipping around old_values.

    Args:
        values, returns: [n, T]; value_mask: bool [n, T], from AdvantageResult.
        old_values: [n, T] at the time of the rollout; None switches clipping off.
        clip: how far a value may move from its old one before its gradient stops.
        count: positions in the whole batch, where these rows are a micro-batch of it.
        weights: [n, T] in place of 1 / count.
    """
    zero = torch.zeros((), dtype=values.dtype, device=values.device)
    v = torch.where(value_mask, values, zero)
    r = torch.where(value_mask, returns.to(v), zero)
    err = (v - r).square()
    clipped = torch.zeros_like(value_mask)
    if old_values is not None and clip is not None:
        old = torch.where(value_mask, old_values.to(v), zero)
        bounded = (old + (v - old).clamp(-clip, clip) - r).square()
        clipped = bounded > err
        err = torch.maximum(err, bounded)
    if weights is not None:
        loss = 0.5 * (err * weights.to(err)).sum()
    else:
        loss = 0.5 * err.sum() / max(int(value_mask.sum()) if count is None else count, 1)
    here = value_mask.sum().clamp(min=1)
    metrics = {
        "critic/vf_loss": float(loss.detach()),
        "critic/clip_fraction": float((clipped & value_mask).sum() / here),
        "critic/value_mean": float(v.detach().sum() / here),
    }
    return loss, metrics


# ------------------------------------------------------------------------- the policy losses
PerToken = tuple[Tensor, Tensor]  # (loss, "the clip cut the gradient") per token


def _clipped(log_ratio: Tensor, adv: Tensor, cfg: LossConfig) -> PerToken:
    low, high = cfg.clip
    ratio = log_ratio.exp()
    plain, bounded = -adv * ratio, -adv * ratio.clamp(1 - low, 1 + high)
    loss = torch.maximum(plain, bounded)
    cut = bounded > plain
    if cfg.dual_clip is not None:
        floor = -adv * cfg.dual_clip
        loss = torch.where(adv < 0, torch.minimum(loss, floor), loss)
    return loss, cut


def _ppo(lp: Tensor, log_ratio: Tensor, adv: Tensor, mask: Tensor, cfg: LossConfig) -> PerToken:
    return _clipped(log_ratio, adv, cfg)


def _row_mean(x: Tensor, mask: Tensor) -> Tensor:
    return (x * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)


def _gspo(lp: Tensor, log_ratio: Tensor, adv: Tensor, mask: Tensor, cfg: LossConfig) -> PerToken:
    # GSPO-token (eq. 13 of the paper): each token carries the reply's ratio and its own gradient,
    # which equals plain GSPO where a row's tokens share one advantage.
    sequence = _row_mean(log_ratio, mask).detach()
    return _clipped(torch.where(mask, lp - lp.detach() + sequence, 0.0), adv, cfg)


def _gmpo(lp: Tensor, log_ratio: Tensor, adv: Tensor, mask: Tensor, cfg: LossConfig) -> PerToken:
    low, high = cfg.clip
    sign = torch.where(adv >= 0, 1.0, -1.0).to(lp)
    bounded = log_ratio.clamp(-low, high)
    kept = sign * torch.minimum(sign * log_ratio, sign * bounded)
    ratio = _row_mean(kept, mask).exp()
    row_adv = _row_mean(adv, mask)
    return (-row_adv * ratio).expand_as(lp), (kept != log_ratio)


def _cispo(lp: Tensor, log_ratio: Tensor, adv: Tensor, mask: Tensor, cfg: LossConfig) -> PerToken:
    low, high = cfg.clip
    ratio = log_ratio.detach().exp()
    bounded = ratio.clamp(1 - low, 1 + high)
    return -bounded * adv * lp, ratio != bounded


def _reinforce(
    lp: Tensor, log_ratio: Tensor, adv: Tensor, mask: Tensor, cfg: LossConfig
) -> PerToken:
    return -adv * lp, torch.zeros_like(mask)


POLICY_LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor, LossConfig], PerToken]] = {
    "ppo": _ppo,
    "gspo": _gspo,
    "gmpo": _gmpo,
    "cispo": _cispo,
    "reinforce": _reinforce,
}
