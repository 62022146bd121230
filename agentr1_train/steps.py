"""Which row follows which: the rows that count, sorted by episode and step, and sums over them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from agentr1_train.rows import RowBatch


@dataclass(slots=True)
class Steps:
    """M rows that count (`RowBatch.live`), sorted by episode and step. All on the CPU.

    Attributes:
        index: int64 [M], row numbers in the batch.
        episode: int64 [M], 0..E-1.
        episode_ids: int64 [E], sorted; the batch's own ids.
        episode_group: int64 [E], 0..G-1.
        n_groups: G.
        next: int64 [M], the sorted position of the episode's next row (itself at the end).
        has_next: bool [M].
        tokens: float64 [M], trained tokens of the row.
    """

    index: Tensor
    episode: Tensor
    episode_ids: Tensor
    episode_group: Tensor
    n_groups: int
    next: Tensor
    has_next: Tensor
    tokens: Tensor

    def __len__(self) -> int:
        return int(self.index.shape[0])

    @property
    def n_episodes(self) -> int:
        return int(self.episode_ids.shape[0])

    @property
    def n_tokens(self) -> float:
        """Trained tokens of the batch, 1 if there are none: a safe denominator."""
        return max(float(self.tokens.sum()), 1.0)

    @property
    def trained(self) -> Tensor:
        """float64 [M]: 1 for rows with a trained token, 0 for rows without."""
        return (self.tokens > 0).double()

    @classmethod
    def of(cls, rows: RowBatch, mask: Tensor) -> Steps:
        """Sort the rows of a batch; `mask` is bool [N, T], its trained tokens.

        Raises:
            ValueError: two rows have the same episode and step.
        """
        index = torch.nonzero(rows.live.cpu()).flatten()
        ids, step = rows.episode.cpu()[index], rows.step.cpu()[index]
        by_step = torch.argsort(step, stable=True)
        order = by_step[torch.argsort(ids[by_step], stable=True)]
        index, ids, step = index[order], ids[order], step[order]
        same = ids[1:] == ids[:-1]
        twice = torch.nonzero(same & (step[1:] == step[:-1])).flatten()
        if len(twice):
            i = int(twice[0])
            raise ValueError(
                f"rows {int(index[i])} and {int(index[i + 1])} are both step {int(step[i])} of "
                f"episode {int(ids[i])}; expected one row a step"
            )
        episode_ids, episode = torch.unique_consecutive(ids, return_inverse=True)
        has_next = torch.zeros(len(index), dtype=torch.bool)
        has_next[:-1] = same
        position = torch.arange(len(index))
        group = torch.empty(len(episode_ids), dtype=torch.int64)
        group[episode] = rows.group.cpu()[index]
        groups, episode_group = torch.unique(group, return_inverse=True)
        # Summing bytes is twice as fast as summing bools.
        counts = mask.view(torch.uint8).sum(-1, dtype=torch.int32)
        tokens = counts.to("cpu", torch.float64)[index]
        following = torch.where(has_next, position + 1, position)
        n_groups = int(groups.shape[0])
        return cls(
            index, episode, episode_ids, episode_group, n_groups, following, has_next, tokens
        )

    def take(self, x: Tensor) -> Tensor:
        """[N] in the batch's order -> float64 [M] in sorted order."""
        return x.detach().to("cpu", torch.float64)[self.index]

    def put(self, x: Tensor, like: Tensor, n: int | None = None) -> Tensor:
        """float64 [M] -> [N] in the batch's order, 0 for rows that do not count."""
        out = torch.zeros(like.shape[0] if n is None else n, dtype=torch.float64)
        out[self.index] = x
        return out.to(like)

    def find_episodes(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Positions 0..E-1 of the batch's episode ids, and which of them are there at all."""
        if not self.n_episodes:
            return torch.zeros_like(ids), torch.zeros(len(ids), dtype=torch.bool)
        at = torch.searchsorted(self.episode_ids, ids).clamp(max=self.n_episodes - 1)
        return at, self.episode_ids[at] == ids

    def episode_sum(self, x: Tensor) -> Tensor:
        """[M] -> [E]."""
        return torch.zeros(self.n_episodes, dtype=torch.float64).index_add(0, self.episode, x)

    def episode_last(self, x: Tensor) -> Tensor:
        """[M] -> [M]: the value at the episode's last row, on each of its rows."""
        last = torch.zeros(self.n_episodes, dtype=torch.float64)
        last[self.episode[~self.has_next]] = x[~self.has_next]
        return last[self.episode]

    def scan(self, x: Tensor, decay: Tensor) -> Tensor:
        """y_i = x_i + decay_i y_next(i), over each episode: log2(longest episode) passes.

        Pointer jumping: after pass k each row has summed 2^k rows ahead of it, so the cost does not
        depend on how unequal the episodes' lengths are.
        """
        nxt, coef = self.next, decay * self.has_next
        while bool(coef.any()):
            x = x + coef * x[nxt]
            coef = coef * coef[nxt]
            nxt = nxt[nxt]
        return x

    def reversed(self) -> Steps:
        """The same rows, where `next` leads to the episode's previous row."""
        position = torch.arange(len(self))
        has_previous = torch.zeros(len(self), dtype=torch.bool)
        has_previous[1:] = self.has_next[:-1]
        return replace(self, next=position - has_previous.long(), has_next=has_previous)

    def push_back(self, x: Tensor, keep: Tensor) -> Tensor:
        """Move x of rows outside `keep` onto the episode's nearest earlier row inside it."""
        if bool(keep.all()):
            return x
        home, ok = self._latest(keep)
        return torch.zeros_like(x).index_add(0, home[ok], x[ok])

    def skip(self, keep: Tensor) -> Steps:
        """The same rows, where `next` leads from a kept row to the next kept one."""
        if bool(keep.all()):
            return self
        kept = torch.nonzero(keep).flatten()
        nxt, has = torch.arange(len(self)), torch.zeros(len(self), dtype=torch.bool)
        same = self.episode[kept[1:]] == self.episode[kept[:-1]]
        nxt[kept[:-1][same]] = kept[1:][same]
        has[kept[:-1][same]] = True
        return replace(self, next=nxt, has_next=has)

    def _latest(self, keep: Tensor) -> tuple[Tensor, Tensor]:
        position = torch.arange(len(self))
        home = torch.where(keep, position, torch.full_like(position, -1)).cummax(0).values
        ok = (home >= 0) & (self.episode[home.clamp(min=0)] == self.episode)
        return home, ok


def whiten(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """(x - mean) / (std + eps) where element i counts `weight` times; std is the unbiased one.

    0 everywhere if fewer than two elements count or all that count are equal.
    """
    n = float(weight.sum())
    counted = x[weight > 0]
    if n < 2 or bool((counted == counted[0]).all()):
        return torch.zeros_like(x)
    mean = (x * weight).sum() / n
    std = (((x - mean).square() * weight).sum() / (n - 1)).sqrt()
    return (x - mean) / (std + eps)


def group_norm(x: Tensor, group: Tensor, n_groups: int, eps: float | None) -> Tensor:
    """x minus its group's mean, over the group's unbiased std + eps unless eps is None.

    0 in groups of one and in groups whose elements are all equal.
    """
    zeros = torch.zeros(n_groups, dtype=torch.float64)
    n = zeros.index_add(0, group, torch.ones_like(x))
    mean = zeros.index_add(0, group, x) / n.clamp(min=1)
    centred = x - mean[group]
    low = torch.full_like(zeros, torch.inf).scatter_reduce(0, group, x, "amin")
    high = torch.full_like(zeros, -torch.inf).scatter_reduce(0, group, x, "amax")
    centred = torch.where((low == high)[group], torch.zeros_like(centred), centred)
    if eps is None:
        return centred
    var = zeros.index_add(0, group, centred.square()) / (n - 1).clamp(min=1)
    return centred / (var.sqrt() + eps)[group]
