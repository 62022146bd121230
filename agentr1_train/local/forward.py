"""Log-probabilities, entropies and values of a batch of step rows, from as few tokens as possible.

Under `Append`, step t + 1's prompt starts with step t's prompt and reply. Such rows are merged into
one chain, so that an episode is one causal sequence and each of its tokens runs through the model
once, not once for every step that follows. Attention is causal, so the numbers are those of the
separate rows. Rows that do not continue one another are chains of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..rows import RowBatch


@dataclass(slots=True)
class Chain:
    """One sequence and the replies in it.

    Attributes:
        ids: int32 [L].
        rows: rows of the batch whose replies stand in it.
        starts: column of each reply's first token.
        lengths: tokens of each reply; 0 asks for the value after the prompt alone.
    """

    ids: np.ndarray
    rows: list[int]
    starts: list[int]
    lengths: list[int]


def chain_rows(items: Iterable[tuple[int, Any, np.ndarray, np.ndarray]]) -> list[Chain]:
    """Chains of ``(row, episode, prompt ids, reply ids)``, given in order of episode and step."""
    chains: list[Chain] = []
    last: Any = None
    for row, episode, prompt, reply in items:
        chain = chains[-1] if chains and last == episode else None
        last = episode
        n = 0 if chain is None else len(chain.ids)
        if chain is not None and len(prompt) >= n and np.array_equal(prompt[:n], chain.ids):
            chain.ids = np.concatenate([prompt, reply])
        else:
            chain = Chain(np.concatenate([prompt, reply]), [], [], [])
            chains.append(chain)
        chain.rows.append(row)
        chain.starts.append(len(prompt))
        chain.lengths.append(len(reply))
    return chains


def build_chains(batch: RowBatch) -> list[Chain]:
    """Merge rows of an episode where the next prompt continues the last prompt and reply."""
    prompts, replies = batch.prompt_ids.cpu().numpy(), batch.response_ids.cpu().numpy()
    p_len = batch.prompt_mask.sum(1).tolist()
    r_len = batch.response_mask.sum(1).tolist()
    width = prompts.shape[1]
    episode, step = batch.episode.cpu().numpy(), batch.step.cpu().numpy()
    real = (~batch.padding & batch.valid).cpu().numpy()
    order = [i for i in np.lexsort((step, episode)).tolist() if real[i] and p_len[i]]
    return chain_rows(
        (i, episode[i], prompts[i, width - p_len[i] :], replies[i, : r_len[i]]) for i in order
    )


def micro_batches(chains: Sequence[Chain], max_tokens: int) -> Iterator[list[Chain]]:
    """Chains of similar length together, at most ``max_tokens`` padded tokens each (or one)."""
    part: list[Chain] = []
    for chain in sorted(chains, key=lambda c: (-len(c.ids), c.rows)):
        width = len(part[0].ids) if part else len(chain.ids)
        if part and (len(part) + 1) * width > max_tokens:
            yield part
            part = []
        part.append(chain)
    if part:
        yield part


@dataclass(slots=True)
class Scores:
    """Results for some rows, in the layout of the batch.

    Attributes:
        rows: int64 [n], their numbers in the batch.
        values: [n, T], log-probabilities (`score`) or values (`value`).
        entropy: [n, T] or None.
        tokens: run through the model, padding included.
    """

    rows: Tensor
    values: Tensor
    entropy: Tensor | None
    tokens: int


class ValueModel(nn.Module):
    """A critic: a copy of a language model's trunk and one linear head, zero at first."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        import copy

        self.trunk = copy.deepcopy(model.base_model)
        weight = model.get_input_embeddings().weight
        self.head = nn.Linear(model.config.hidden_size, 1, device=weight.device, dtype=weight.dtype)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, ids: Tensor) -> Tensor:
        """[B, L] ids -> [B, L] values of the state after each token."""
        hidden = self.trunk(input_ids=ids, use_cache=False).last_hidden_state
        return self.head(hidden)[..., 0].float()


def _layout(part: Sequence[Chain], pad_id: int, device: Any) -> tuple[Any, ...]:
    """Padded ids, and for every reply token its (chain, column before it, local row, token)."""
    longest = max(len(c.ids) for c in part)
    ids = np.full((len(part), longest), pad_id, np.int64)
    where: list[np.ndarray] = []
    rows: list[int] = []
    for b, chain in enumerate(part):
        ids[b, : len(chain.ids)] = chain.ids
        for row, start, n in zip(chain.rows, chain.starts, chain.lengths, strict=True):
            t = np.arange(max(n, 1))
            spot = np.stack([np.full_like(t, b), start - 1 + t, np.full_like(t, len(rows)), t])
            where.append(spot)
            rows.append(row)
    index = torch.from_numpy(np.concatenate(where, axis=1)).to(device)
    return torch.from_numpy(ids).to(device), index, torch.tensor(rows)


def score(
    model: Any,
    part: Sequence[Chain],
    width: int,
    *,
    pad_id: int,
    temperature: float = 1.0,
    want_entropy: bool = False,
) -> Scores:
    """Log-probabilities of the replies in some chains.

    Args:
        model: a causal language model; gradients flow if enabled.
        width: T, columns of the result.
        temperature: logits are divided by it, as when sampling.
        want_entropy: of the distribution at each token.
    """
    device = next(model.parameters()).device
    ids, (chain, column, row, t), rows = _layout(part, pad_id, device)
    # Padding is on the right and attention causal: no real token sees it, so no mask is needed.
    hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    logits = model.get_output_embeddings()(hidden[chain, column]).float()
    if temperature not in (0.0, 1.0):
        logits = logits / temperature
    logp = F.log_softmax(logits, dim=-1)
    following = (column + 1).clamp(max=ids.shape[1] - 1)
    picked = logp.gather(1, ids[chain, following][:, None])[:, 0]
    out = torch.zeros(len(rows), width, device=device).index_put((row, t), picked)
    entropy = None
    if want_entropy:
        h = -(logp.exp() * logp).sum(-1)
        entropy = torch.zeros(len(rows), width, device=device).index_put((row, t), h)
    return Scores(rows, out, entropy, ids.numel())


def value(critic: ValueModel, part: Sequence[Chain], width: int, *, pad_id: int) -> Scores:
    """Values at the replies: column t is the state before reply token t."""
    device = next(critic.parameters()).device
    ids, (chain, column, row, t), rows = _layout(part, pad_id, device)
    v = critic(ids)[chain, column]
    out = torch.zeros(len(rows), width, device=device).index_put((row, t), v)
    return Scores(rows, out, None, ids.numel())


@torch.no_grad()
def score_all(
    model: Any, batch: RowBatch, chains: Sequence[Chain], max_tokens: int, **kwargs: Any
) -> Tensor:
    """[N, T] log-probabilities of the whole batch, on the batch's device."""
    out = torch.zeros_like(batch.response_logprobs)
    for part in micro_batches(chains, max_tokens):
        s = score(model, part, out.shape[1], **kwargs)
        out[s.rows] = s.values.to(out)
    return out * batch.response_mask


@torch.no_grad()
def value_all(
    critic: ValueModel, batch: RowBatch, chains: Sequence[Chain], max_tokens: int, *, pad_id: int
) -> Tensor:
    """[N, T] values of the whole batch, on the batch's device."""
    out = torch.zeros(batch.response_mask.shape, dtype=torch.float32)
    for part in micro_batches(chains, max_tokens):
        s = value(critic, part, out.shape[1], pad_id=pad_id)
        out[s.rows] = s.values.to(out)
    return out.to(batch.response_logprobs.device)
