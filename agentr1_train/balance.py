"""Which row goes to which rank and which update, and how many padding rows that takes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

PADDING = -1


def plan(
    lengths: Sequence[int],
    episodes: Sequence[int],
    ranks: int,
    updates: int = 1,
    *,
    whole_episodes: bool = False,
) -> list[int]:
    """Order rows so that contiguous equal slices are the ranks' shares and, in them, the updates'.

    The result has a multiple of ranks x updates entries. Slice r of `ranks` equal slices goes to
    rank r; inside it, slice u of `updates` equal slices is trained in update u. Longest units are
    placed first, each into the bin with the fewest tokens, so ranks finish together.

    Args:
        lengths: tokens of each row.
        episodes: id of each row's episode.
        whole_episodes: keep an episode's rows in one bin (this can take more padding rows); else
            every row is placed by itself and at most ranks x updates - 1 padding rows are needed.

    Returns:
        Row numbers, with PADDING where a padding row fills a bin.
    """
    if ranks < 1 or updates < 1:
        raise ValueError(f"plan: ranks={ranks}, updates={updates}, expected both >= 1")
    n_bins = ranks * updates
    units: dict[int, list[int]] = {}
    for row, episode in enumerate(episodes):
        units.setdefault(episode if whole_episodes else row, []).append(row)
    by_size = sorted(units.values(), key=lambda rows: (-sum(lengths[i] for i in rows), rows[0]))
    bins: list[list[int]] = [[] for _ in range(n_bins)]
    room = None if whole_episodes else -(-len(lengths) // n_bins)
    heap = [(0, i) for i in range(n_bins)]
    for rows in by_size:
        tokens, i = heapq.heappop(heap)
        bins[i].extend(rows)
        if room is None or len(bins[i]) < room:
            heapq.heappush(heap, (tokens + sum(lengths[r] for r in rows), i))
    height = max((len(b) for b in bins), default=0)
    # Bin i is update i // ranks of rank i % ranks: consecutive bins got similar loads, so the ranks
    # of one update are alike, which is what they wait for.
    order: list[int] = []
    for rank in range(ranks):
        for update in range(updates):
            rows = bins[update * ranks + rank]
            order.extend(sorted(rows))
            order.extend([PADDING] * (height - len(rows)))
    return order


def update_of(n_rows: int, ranks: int, updates: int) -> list[int]:
    """The update (0..updates-1) in which each row of a planned batch of n_rows is trained."""
    share = n_rows // (ranks * updates)
    return [(i // share) % updates for i in range(n_rows)]
