from __future__ import annotations

import numpy as np
import pytest

from agentr1_train.balance import PADDING, plan, update_of


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("updates", [1, 2, 3])
def test_every_row_once_and_slices_equal(ranks: int, updates: int, whole: bool) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 31, 101):
        episodes = sorted(rng.integers(0, max(1, n // 3), n).tolist())
        lengths = rng.integers(1, 500, n).tolist()
        order = plan(lengths, episodes, ranks, updates, whole_episodes=whole)
        assert sorted(i for i in order if i != PADDING) == list(range(n))
        assert len(order) % (ranks * updates) == 0
        where = update_of(len(order), ranks, updates)
        assert all(where.count(u) == len(order) // updates for u in range(updates))
        if whole:
            share = len(order) // (ranks * updates)
            home: dict[int, set[int]] = {}
            for position, row in enumerate(order):
                if row != PADDING:
                    home.setdefault(episodes[row], set()).add(position // share)
            assert all(len(bins) == 1 for bins in home.values())
        else:
            assert order.count(PADDING) < ranks * updates


def test_loads_are_alike() -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(10, 1000, 400).tolist()
    order = plan(lengths, list(range(400)), 4)
    loads = [sum(lengths[i] for i in order[r * 100 : (r + 1) * 100]) for r in range(4)]
    assert max(loads) - min(loads) < 0.02 * max(loads)


def test_nothing_and_bad_counts() -> None:
    assert plan([], [], 2) == []
    with pytest.raises(ValueError, match="ranks=0"):
        plan([1], [0], 0)
