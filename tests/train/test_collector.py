"""The garbage collector's threshold while a rollout runs."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from agentr1_train.collector import rare_collections
from agentr1_train.rollout import EnvLoop, EpisodeJob
from benchmarks.rollout import NoOpEnv, StubPolicy


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_the_highest_of_several_holds_and_the_last_sets_it_back() -> None:
    gc.set_threshold(700, 11, 12)
    outer, inner = rare_collections(1000), rare_collections(4000)
    with outer:
        assert gc.get_threshold() == (10_000, 11, 12)
        with inner:
            assert gc.get_threshold() == (40_000, 11, 12)
        assert gc.get_threshold() == (10_000, 11, 12)
        with rare_collections(2):
            assert gc.get_threshold() == (10_000, 11, 12)
    assert gc.get_threshold() == (700, 11, 12)


@pytest.mark.parametrize("own", [0, 1_000_000])
def test_a_higher_threshold_and_a_collector_that_is_off_stay(own: int) -> None:
    gc.set_threshold(own, 10, 10)
    with rare_collections(1000):
        assert gc.get_threshold()[0] == own
    assert gc.get_threshold()[0] == own


def test_what_somebody_else_sets_meanwhile_stays() -> None:
    gc.set_threshold(700, 10, 10)
    with rare_collections(1000):
        gc.set_threshold(123, 10, 10)
    assert gc.get_threshold()[0] == 123


def test_a_rollout_sets_it_and_sets_it_back_also_when_its_consumer_stops() -> None:
    gc.set_threshold(700, 10, 10)
    seen: list[int] = []

    class Watching(StubPolicy):
        def end_episode(self, episode_id: str) -> None:
            seen.append(gc.get_threshold()[0])

    async def first(count: int) -> None:
        loop = EnvLoop(lambda: NoOpEnv(2), Watching(0.0), concurrency=200)
        stream = loop.stream(EpisodeJob(f"e{i}") for i in range(300))
        async for _ in stream:
            count -= 1
            if not count:
                break
        await stream.aclose()
        await loop.close()

    for count in (300, 1):
        seen.clear()
        asyncio.run(first(count))
        assert seen[0] == 2_000 and gc.get_threshold()[0] == 700
