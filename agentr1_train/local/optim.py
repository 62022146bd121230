"""Optimizers and learning-rate schedules of the local trainer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch


class Optimizers:
    """Several optimizers driven as one, each at its own multiple of the learning rate."""

    def __init__(self, parts: Sequence[tuple[torch.optim.Optimizer, float]]) -> None:
        self.parts = [optimizer for optimizer, _ in parts]
        self.scales = [scale for _, scale in parts]

    def set_lr(self, lr: float) -> None:
        """Set the rate of all parts."""
        for optimizer, scale in zip(self.parts, self.scales, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = lr * scale

    def zero_grad(self) -> None:
        """Drop the gradients."""
        for optimizer in self.parts:
            optimizer.zero_grad(set_to_none=True)

    def step(self) -> None:
        """Step all parts."""
        for optimizer in self.parts:
            optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        """The parts' states."""
        return {str(i): optimizer.state_dict() for i, optimizer in enumerate(self.parts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict`'s value."""
        for i, optimizer in enumerate(self.parts):
            optimizer.load_state_dict(state[str(i)])


def make_optimizer(model: Any, optim: Mapping[str, Any]) -> Optimizers:
    """AdamW, or Muon on the hidden matrices with AdamW on the rest.

    Keys of ``optim``: ``optimizer`` ("adamw" or "muon"), ``lr``, ``muon_lr`` (of the matrices, at
    the peak of ``lr``), ``betas``, ``eps``, ``weight_decay`` (matrices only).
    Muon: Jordan et al., 2024, as torch.optim has it.

    Raises:
        ValueError: unknown optimizer, or a torch without Muon.
    """
    kind = optim.get("optimizer") or "adamw"
    lr, decay = float(optim["lr"]), float(optim.get("weight_decay") or 0.0)
    betas = optim.get("betas") or (0.9, 0.95)
    pair, eps = (float(betas[0]), float(betas[1])), float(optim.get("eps") or 1e-8)
    params = {n: p for n, p in model.named_parameters() if p.requires_grad}
    hidden: dict[str, Any] = {}
    if kind == "muon":
        if not hasattr(torch.optim, "Muon"):
            raise ValueError(
                f"optimizer: muon needs torch 2.9 or later, this is {torch.__version__}"
            )
        hidden = {
            n: p for n, p in params.items() if p.dim() == 2 and "embed" not in n and "head" not in n
        }
    elif kind != "adamw":
        raise ValueError(f"optimizer: {kind!r}, expected adamw or muon")
    rest = [p for n, p in params.items() if n not in hidden]
    groups = [
        {"params": [p for p in rest if p.dim() > 1], "weight_decay": decay},
        {"params": [p for p in rest if p.dim() <= 1], "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups, lr=lr, betas=pair, eps=eps, fused=True)
    parts: list[tuple[torch.optim.Optimizer, float]] = [(adam, 1.0)]
    if hidden:
        peak = float(optim.get("muon_lr") or 0.01)
        muon = torch.optim.Muon(hidden.values(), lr=peak, weight_decay=decay, momentum=0.95)
        parts.append((muon, peak / lr))
    return Optimizers(parts)


def learning_rate(optim: Mapping[str, Any], step: int, total: int) -> float:
    """The rate of step ``step`` (0-based) of ``total``: linear warm-up, then the schedule."""
    peak = float(optim["lr"])
    warm = int(optim.get("lr_warmup_steps") or 0)
    if step < warm:
        return peak * (step + 1) / warm
    kind = optim.get("lr_scheduler_type") or "constant"
    done = (step - warm) / max(total - warm, 1)
    if kind == "constant":
        return peak
    if kind == "linear":
        return peak * (1.0 - done)
    if kind == "cosine":
        return peak * 0.5 * (1.0 + math.cos(math.pi * done))
    raise ValueError(f"lr_scheduler_type: {kind!r}, expected constant, linear or cosine")
