"""KV-cache forward passes used by the sampler: a fast one for Llama models, one for all others.

Both keep a batch of left-padded sequences that end in the same column, so that a decoding step
writes one column for all rows. ``LlamaRunner`` runs on the parameters of a transformers
``LlamaForCausalLM`` (the tests hold it to the model's own logits); it writes into one preallocated
buffer, where the library's cache copies every key and value at each token, and it can start from
the keys and values of an earlier turn of the same conversation.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel


@dataclass(slots=True)
class Prefix:
    """Keys and values of the first ``len(ids)`` tokens of a conversation, inside ``buffer``."""

    ids: np.ndarray
    buffer: Tensor  # (rows, 2 * layers, kv heads, columns, head size)
    row: int
    start: int


@dataclass(slots=True)
class State:
    """A batch in decoding: row i occupies columns ``start[i] .. used`` of the buffer."""

    buffer: Any
    start: Tensor  # (rows,) first column of each row
    used: int  # columns filled so far, the same for all rows
    bias: Tensor  # (rows, 1, 1, columns) added to attention scores: 0 or -inf


def _pad_left(prompts: list[np.ndarray], width: int, pad: int, device: Any) -> Tensor:
    out = np.full((len(prompts), width), pad, np.int64)
    for i, ids in enumerate(prompts):
        tail = ids[-width:]
        out[i, width - len(tail) :] = tail
    return torch.from_numpy(out).to(device)


class LlamaRunner:
    """Prefill and decode on the weights of a ``LlamaForCausalLM`` (grouped queries included)."""

    reuses_prefixes = True

    def __init__(self, model: Any, dtype: torch.dtype | None = None) -> None:
        self.model, self._dtype = model, dtype
        c = model.config
        self.layers = c.num_hidden_layers
        self.heads, self.kv_heads = c.num_attention_heads, c.num_key_value_heads
        self.head_dim = getattr(c, "head_dim", None) or c.hidden_size // self.heads
        self.eps = c.rms_norm_eps
        self.max_positions = c.max_position_embeddings
        self.refresh()

    @staticmethod
    def supports(model: Any) -> bool:
        """Whether this forward is the model's own: plain Llama, no biases, no other activation."""
        c = model.config
        return (
            getattr(c, "model_type", "") == "llama"
            and not getattr(c, "attention_bias", False)
            and not getattr(c, "mlp_bias", False)
            and c.hidden_act == "silu"
            and type(model).__name__ == "LlamaForCausalLM"
            and (getattr(c, "rope_parameters", None) or {}).get("rope_type", "default")
            in ("default", "linear", "llama3", "yarn")
        )

    @torch.no_grad()
    def refresh(self) -> None:
        """Take over the model's present weights (fused copies are made of some)."""
        m = self.model.model
        self.device = m.embed_tokens.weight.device
        self.dtype = dtype = self._dtype or m.embed_tokens.weight.dtype
        self.embed = m.embed_tokens.weight.to(dtype)
        tied = self.model.lm_head.weight is m.embed_tokens.weight
        self.head = self.embed if tied else self.model.lm_head.weight.to(dtype)
        self.norm = m.norm.weight.to(dtype)
        self.blocks = []
        for b in m.layers:
            a, f = b.self_attn, b.mlp
            self.blocks.append(
                tuple(
                    w.to(dtype)
                    for w in (
                        b.input_layernorm.weight,
                        torch.cat([a.q_proj.weight, a.k_proj.weight, a.v_proj.weight]),
                        a.o_proj.weight,
                        b.post_attention_layernorm.weight,
                        torch.cat([f.gate_proj.weight, f.up_proj.weight]),
                        f.down_proj.weight,
                    )
                )
            )
        positions = torch.arange(self.max_positions, device=self.device)[None]
        probe = torch.zeros(1, 1, 1, dtype=torch.float32, device=self.device)
        cos, sin = m.rotary_emb(probe, position_ids=positions)
        self.cos, self.sin = cos[0].to(self.dtype), sin[0].to(self.dtype)

    def _kernels(self) -> contextlib.AbstractContextManager[Any]:
        """cuDNN's attention would plan anew for each length and wants masks aligned its own way."""
        if torch.device(self.device).type != "cuda":
            return contextlib.nullcontext()
        return sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])

    def _forward(
        self, ids: Tensor, positions: Tensor, buffer: Tensor, column: int, bias: Tensor
    ) -> Tensor:
        """Run ``ids`` (rows, width) placed at ``column``; returns logits after the last token."""
        rows, width = ids.shape
        end = column + width
        h, kv, d = self.heads, self.kv_heads, self.head_dim
        cos = self.cos[positions].unsqueeze(2)  # (rows, width, 1, d)
        sin = self.sin[positions].unsqueeze(2)
        x = F.embedding(ids, self.embed)
        last = self.layers - 1
        for n, (norm1, qkv, out, norm2, gate_up, down) in enumerate(self.blocks):
            y = F.linear(F.rms_norm(x, (x.shape[-1],), norm1, self.eps), qkv)
            y = y.view(rows, width, h + 2 * kv, d)
            qk = y[:, :, : h + kv]
            a, b = qk.chunk(2, dim=-1)
            qk = qk * cos + torch.cat((-b, a), dim=-1) * sin
            buffer[:, 2 * n, :, column:end] = qk[:, :, h:].transpose(1, 2)
            buffer[:, 2 * n + 1, :, column:end] = y[:, :, h + kv :].transpose(1, 2)
            q = qk[:, :, :h]
            if n == last and width > 1:  # only the last position is asked for
                q, x, mask = q[:, -1:], x[:, -1:], bias[:, :, -1:]
            else:
                mask = bias
            # Queries that share a key head become more query positions of that head: nothing is
            # repeated, and the cache (what decoding waits for) is read once.
            w = q.shape[1]
            q = q.view(rows, w, kv, h // kv, d).permute(0, 2, 3, 1, 4).reshape(rows, kv, -1, d)
            y = F.scaled_dot_product_attention(
                q,
                buffer[:, 2 * n, :, :end],
                buffer[:, 2 * n + 1, :, :end],
                attn_mask=mask.repeat(1, 1, h // kv, 1) if w > 1 else mask,
            )
            y = y.view(rows, kv, h // kv, w, d).permute(0, 3, 1, 2, 4).reshape(rows, w, h * d)
            x = x + F.linear(y, out)
            y = F.linear(F.rms_norm(x, (x.shape[-1],), norm2, self.eps), gate_up)
            gate, up = y.chunk(2, dim=-1)
            x = x + F.linear(F.silu(gate) * up, down)
        x = F.rms_norm(x[:, -1], (x.shape[-1],), self.norm, self.eps)
        return F.linear(x, self.head).float()

    @torch.no_grad()
    def prefill(
        self, prompts: list[np.ndarray], prefixes: list[Prefix | None], room: int, pad: int
    ) -> tuple[State, Tensor]:
        """Run the prompts; ``room`` columns are kept for new tokens. Logits (rows, vocabulary)."""
        n = np.array([len(p) for p in prompts])
        total = int(n.max())
        width = max(
            len(p) - (0 if f is None else len(f.ids))
            for p, f in zip(prompts, prefixes, strict=True)
        )
        rows = len(prompts)
        shape = (rows, 2 * self.layers, self.kv_heads, total + room, self.head_dim)
        buffer = torch.zeros(shape, dtype=self.dtype, device=self.device)
        head = total - width  # columns before this one come from the cache
        for i, prefix in enumerate(prefixes):
            take = int(n[i]) - width
            if prefix is not None and take > 0:
                source = prefix.buffer[prefix.row, :, :, prefix.start : prefix.start + take]
                buffer[i, :, :, head - take : head] = source
        start = torch.from_numpy(total - n).to(self.device)
        # CUDA's attention reads the rows of a mask in aligned pieces, also those of a slice.
        columns = torch.arange(-(-(total + room) // 16) * 16, device=self.device)
        bias = torch.zeros(rows, 1, 1, len(columns), dtype=self.dtype, device=self.device)
        bias.masked_fill_((columns[None] < start[:, None])[:, None, None], -torch.inf)
        ids = _pad_left(prompts, width, pad, self.device)
        query = columns[head:total]
        positions = (query[None] - start[:, None]).clamp_(min=0)
        key = columns[:total]
        seen = (key[None, None] <= query[None, :, None]) & (key[None, None] >= start[:, None, None])
        # A padded query sees itself alone: a row of nothing but -inf would be NaN.
        seen |= (key[None] == query[:, None])[None]
        mask = torch.zeros(rows, 1, width, total, dtype=self.dtype, device=self.device)
        mask.masked_fill_(~seen[:, None], -torch.inf)
        with self._kernels():
            logits = self._forward(ids, positions, buffer, head, mask)
        return State(buffer, start, total, bias), logits

    @torch.no_grad()
    def decode(self, state: State, tokens: Tensor) -> Tensor:
        """Append one token to every row; logits (rows, vocabulary) for the next."""
        positions = (state.used - state.start)[:, None]
        bias = state.bias[..., : state.used + 1]
        with self._kernels():
            logits = self._forward(tokens[:, None], positions, state.buffer, state.used, bias)
        state.used += 1
        return logits

    def keep(self, state: State, rows: Tensor) -> State:
        """The batch without the other rows."""
        return State(state.buffer[rows], state.start[rows], state.used, state.bias[rows])

    def expand(self, state: State, rows: Tensor) -> State:
        """Rows of the batch repeated or reordered (identical prompts are prefilled once)."""
        return self.keep(state, rows)

    def prefix(self, state: State, row: int, start: int, ids: np.ndarray) -> Prefix:
        """What a later turn may start from."""
        return Prefix(ids, state.buffer, row, start)


class GenericRunner:
    """The same interface over any transformers causal language model and its own cache."""

    reuses_prefixes = False

    def __init__(self, model: Any, dtype: torch.dtype | None = None) -> None:
        self.model, self._dtype = model, dtype
        self.max_positions = getattr(model.config, "max_position_embeddings", 1 << 30)

    def refresh(self) -> None:
        """Nothing is copied: the model's weights are used as they are."""

    @property
    def device(self) -> Any:
        return next(self.model.parameters()).device

    def _precision(self) -> Any:
        # Weights that are trained in float32 are used in the dtype that training uses them in.
        wanted = self._dtype or torch.float32
        return torch.autocast(self.device.type, wanted, enabled=wanted != torch.float32)

    @torch.no_grad()
    def prefill(
        self, prompts: list[np.ndarray], prefixes: list[Prefix | None], room: int, pad: int
    ) -> tuple[State, Tensor]:
        del prefixes, room
        total = max(map(len, prompts))
        ids = _pad_left(prompts, total, pad, self.device)
        start = torch.tensor([total - len(p) for p in prompts], device=self.device)
        columns = torch.arange(total, device=self.device)
        attention = (columns[None] >= start[:, None]).long()
        with self._precision():
            out = self.model(
                input_ids=ids,
                attention_mask=attention,
                position_ids=(columns[None] - start[:, None]).clamp_(min=0),
                use_cache=True,
                logits_to_keep=1,
            )
        return State(out.past_key_values, start, total, attention), out.logits[:, -1].float()

    @torch.no_grad()
    def decode(self, state: State, tokens: Tensor) -> Tensor:
        state.bias = torch.cat([state.bias, state.bias.new_ones(len(tokens), 1)], dim=1)
        with self._precision():
            out = self.model(
                input_ids=tokens[:, None],
                attention_mask=state.bias,
                position_ids=(state.used - state.start)[:, None],
                past_key_values=state.buffer,
                use_cache=True,
                logits_to_keep=1,
            )
        state.used += 1
        return out.logits[:, -1].float()

    def keep(self, state: State, rows: Tensor) -> State:
        state.buffer.batch_select_indices(rows)
        return State(state.buffer, state.start[rows], state.used, state.bias[rows])

    def expand(self, state: State, rows: Tensor) -> State:
        return self.keep(state, rows)


def make_runner(model: Any, dtype: torch.dtype | None = None) -> LlamaRunner | GenericRunner:
    """The fast forward where the model is a plain Llama, the library's own for the rest.

    ``dtype`` is what the passes run in; the weights' own where None.
    """
    kind = LlamaRunner if LlamaRunner.supports(model) else GenericRunner
    return kind(model, dtype)
