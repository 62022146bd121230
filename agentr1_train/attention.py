"""Attention over packed rows without flash-attn: ``attn_implementation: packed_sdpa``.

A trainer that removes padding packs all sequences of a micro-batch into one row and tells them
apart by positions that start anew. flash-attn reads that directly; transformers' ``sdpa`` makes a
dense mask of the whole row instead, so that time and memory grow with the square of the tokens in
a micro-batch. Here the sequences are laid beside each other, those of similar length together, and
attention is causal within each: the same numbers, and PyTorch's flash kernels can be used.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import torch
from torch import Tensor

NAME = "packed_sdpa"


class Bucket(NamedTuple):
    """Sequences that are padded to one length.

    Attributes:
        tokens: int64 [m], their places in the packed row.
        slots: int64 [m], the same tokens' places in ``sequences * length``.
        sequences: how many.
        length: of the longest.
    """

    tokens: Tensor
    slots: Tensor
    sequences: int
    length: int


def buckets(position_ids: Tensor) -> list[Bucket]:
    """The sequences in [B, T] positions, those within a factor of two of a length together.

    A sequence starts with each row and wherever a position does not follow the one before it.
    """
    flat = position_ids.reshape(-1)
    first = torch.ones_like(flat, dtype=torch.bool)
    first[1:] = flat[1:] != flat[:-1] + 1
    first.view(position_ids.shape)[:, 0] = True
    starts = first.nonzero()[:, 0]
    lengths = torch.diff(starts, append=starts.new_tensor([len(flat)])).cpu()
    begins = starts.cpu()
    kinds = torch.log2(lengths.double()).floor().long()
    out = []
    for kind in kinds.unique().tolist():
        chosen = (kinds == kind).nonzero()[:, 0]
        n, longest = lengths[chosen], int(lengths[chosen].max())
        row = torch.repeat_interleave(torch.arange(len(chosen)), n)
        column = torch.arange(len(row)) - torch.repeat_interleave(n.cumsum(0) - n, n)
        tokens = torch.repeat_interleave(begins[chosen], n) + column
        device = position_ids.device
        out.append(
            Bucket(tokens.to(device), (row * longest + column).to(device), len(chosen), longest)
        )
    return out


_latest: tuple[Any, int, list[Bucket]] = (lambda: None, 0, [])


def _layout(position_ids: Tensor, rows: int) -> list[Bucket]:
    """`buckets` of [rows, T], kept for the layers of a forward pass, which share the tensor.

    ``position_ids`` may be one row for all.
    """
    global _latest
    if _latest[0]() is not position_ids or _latest[1] != rows:
        made = buckets(position_ids.expand(rows, -1))
        _latest = (weakref.ref(position_ids), rows, made)
    return _latest[2]


def packed_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    position_ids: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in each layer: [B, heads, T, d] in, [B, T, heads, d] out.

    Rows with a mask, and steps that read a cache, are transformers' own ``sdpa``.

    Raises:
        ValueError: a sequence is longer than the layer's sliding window, or positions have several
            axes (images), which do not tell where a sequence starts.
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    packed = attention_mask is None and position_ids is not None
    if not packed or query.shape[2] != key.shape[2] or kwargs.get("is_causal") is False:
        kwargs["position_ids"] = position_ids
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, **kwargs
        )
    assert position_ids is not None
    if position_ids.dim() != 2:
        raise ValueError(
            f"{NAME}: position_ids of shape {tuple(position_ids.shape)}, expected [rows, tokens]; "
            "set attn_implementation to sdpa"
        )
    rows, heads, width, size = query.shape
    window = kwargs.get("sliding_window")
    flat = [x.transpose(1, 2).reshape(rows * width, x.shape[1], size) for x in (query, key, value)]
    out = flat[0].new_zeros(rows * width, heads, value.shape[-1])
    for tokens, slots, sequences, length in _layout(position_ids, rows):
        if window and length > window:
            raise ValueError(
                f"{NAME}: a sequence of {length} tokens is longer than the sliding window of "
                f"{window}; set attn_implementation to sdpa"
            )
        # Padding is on the right and attention causal: no token sees it.
        q, k, v = (
            x.new_zeros(sequences * length, *x.shape[1:])
            .index_copy(0, slots, x[tokens])
            .view(sequences, length, *x.shape[1:])
            .transpose(1, 2)
            for x in flat
        )
        repeats = heads // k.shape[1]
        if repeats > 1:
            k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
        y = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, scale=scaling, is_causal=True
        )
        y = y.transpose(1, 2).reshape(sequences * length, heads, -1)
        out = out.index_copy(0, tokens, y[slots])
    return out.view(rows, width, heads, -1), None


def packed_mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """transformers' mask for ``sdpa`` where a batch has padding or a cache, else none."""
    from transformers.masking_utils import sdpa_mask

    whole = kwargs.get("q_length") == kwargs.get("kv_length")
    packed = kwargs.get("attention_mask") is None and whole
    return None if packed else sdpa_mask(*args, **kwargs)


def register() -> None:
    """Make ``packed_sdpa`` known to transformers."""
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(NAME, packed_attention)
    AttentionMaskInterface.register(NAME, packed_mask)
