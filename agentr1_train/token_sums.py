"""Sums over the tokens of rows, [N, T] at a time: what `token_gae` is made of.

Each pass works on blocks of rows that fit the cache, and the recursion over tokens is a product of
matrices a block of columns, so the cost is that of reading the tensors a few times.
"""

from __future__ import annotations

import torch
from torch import Tensor

_ROWS_AT_ONCE = 2_048  # of passes over [N, T]: what one pass wrote is in the cache for the next
_COLUMNS_AT_ONCE = 64


def precise(t: Tensor) -> Tensor:
    """At least float32; float64 off the CPU, where float32 products may be rounded to fewer bits
    (and float64 is fast)."""
    if t.device.type != "cpu":
        return t.double()
    return t.to(torch.promote_types(t.dtype, torch.float32))


class Packing:
    """Moves each row's trained tokens to its front and back. Masks without gaps need neither.

    Args:
        mask: bool [N, T].
        lengths: int64 [N], its sum by rows.
    """

    def __init__(self, mask: Tensor, lengths: Tensor) -> None:
        self.mask, self.lengths = mask, lengths
        self.front = torch.arange(mask.shape[1], device=mask.device) < lengths[:, None]
        self.gaps = not torch.equal(self.front, mask)

    def pack(self, t: Tensor) -> Tensor:
        return self._move(t, self.mask, self.front)

    def unpack(self, t: Tensor) -> Tensor:
        return self._move(t, self.front, self.mask)

    def _move(self, t: Tensor, source: Tensor, target: Tensor) -> Tensor:
        if not self.gaps:
            return t
        out = torch.zeros_like(t)
        out[target] = t[source]
        return out


def deltas(
    v: Tensor, penalty: Tensor | None, carried: Tensor, lengths: Tensor, gamma: float
) -> Tensor:
    """[N, T]: gamma V of the next token - V (+ penalty); `carried` is added to a row's last."""
    out = torch.empty_like(v)
    for i in range(0, len(v), _ROWS_AT_ONCE):
        part = slice(i, i + _ROWS_AT_ONCE)
        torch.neg(v[part], out=out[part])
        out[part, :-1].add_(v[part, 1:], alpha=gamma)
        if penalty is not None:
            out[part].add_(penalty[part])
    return out.scatter_add_(1, (lengths - 1).clamp(min=0)[:, None], carried[:, None])


def discounted_sums(x: Tensor, decay: float) -> Tensor:
    """In place: column t becomes the sum over s >= t of decay^(s - t) x_s.

    A block of columns is one product with the triangle of powers; what comes from the right of
    the block enters at its last column.
    """
    size = _COLUMNS_AT_ONCE
    place = torch.arange(size, dtype=torch.float64)
    distance = place[:, None] - place
    triangle = torch.pow(torch.tensor(decay, dtype=torch.float64), distance.clamp(min=0)).tril()
    triangle = triangle.to(x)
    for i in range(0, len(x), _ROWS_AT_ONCE):
        rows = x[i : i + _ROWS_AT_ONCE]
        for start in reversed(range(0, x.shape[1], size)):
            block = rows[:, start : start + size]
            width = block.shape[1]
            if start + width < x.shape[1]:
                block[:, -1].add_(rows[:, start + width], alpha=decay)
            block.copy_(block @ triangle[:width, :width])
    return x


def whiten_tokens(adv: Tensor, mask: Tensor, n: int, eps: float) -> None:
    """In place: zero mean, unit (unbiased) variance over the trained tokens; 0 without spread.

    Args:
        adv: [N, T], 0 outside `mask`.
        n: how many tokens `mask` holds.
        eps: added to the variance.
    """
    if n < 2:
        adv.zero_()
        return
    mean = float(adv.sum(-1).double().sum()) / n
    squares, largest = 0.0, 0.0
    for i in range(0, len(adv), _ROWS_AT_ONCE):
        part = slice(i, i + _ROWS_AT_ONCE)
        x = adv[part].sub_(mean).mul_(mask[part])
        squares += float(torch.linalg.vector_norm(x, dim=-1).double().square().sum())
        largest = max(largest, float(torch.linalg.vector_norm(x, torch.inf)))
    if largest <= 8 * torch.finfo(adv.dtype).eps * abs(mean):
        adv.zero_()  # equal but for rounding
        return
    adv.mul_((squares / (n - 1) + eps) ** -0.5)
