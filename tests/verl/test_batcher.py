"""The queue in front of the CPU's sampler; runs without verl."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from agentr1_train.sampling import SampleRequest, SampleResult
from agentr1_train.verl.cpu.batcher import Batcher


class Echo:
    """Samples the prompt, and keeps the size of each batch."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def sample(self, requests: Any) -> list[SampleResult]:
        self.sizes.append(len(requests))
        if any(len(r.prompt_ids) == 0 for r in requests):
            raise ValueError("an empty prompt")
        return [SampleResult(r.prompt_ids, np.zeros(len(r.prompt_ids)), "stop") for r in requests]


def request(*ids: int) -> SampleRequest:
    return SampleRequest(np.asarray(ids, np.int32), seed=0, temperature=1.0, max_tokens=4)


def test_requests_that_wait_together_share_a_batch() -> None:
    async def run() -> list[Any]:
        return await asyncio.gather(*(batcher.sample(request(i, i)) for i in range(5)))

    sampler = Echo()
    batcher = Batcher(sampler)  # type: ignore[arg-type]
    results = asyncio.run(run())
    assert [r.response_ids.tolist() for r in results] == [[i, i] for i in range(5)]
    assert sampler.sizes == [5]


def test_an_error_reaches_each_who_waits_and_none_later() -> None:
    async def run() -> Any:
        batcher = Batcher(Echo())  # type: ignore[arg-type]
        both = await asyncio.gather(
            batcher.sample(request(1)), batcher.sample(request()), return_exceptions=True
        )
        assert all(isinstance(r, RuntimeError) and "an empty prompt" in str(r) for r in both)
        return await batcher.sample(request(2))

    assert asyncio.run(run()).response_ids.tolist() == [2]


@pytest.mark.parametrize("reject", [False, True])
def test_aborted_requests_come_back_empty_and_later_ones_wait_or_too(reject: bool) -> None:
    async def run() -> None:
        batcher = Batcher(Echo())  # type: ignore[arg-type]
        waiting = [asyncio.create_task(batcher.sample(request(i))) for i in range(3)]
        await asyncio.sleep(0)
        await batcher.abort(reject)
        assert await asyncio.gather(*waiting) == [None] * 3
        late = asyncio.create_task(batcher.sample(request(7)))
        for _ in range(5):
            await asyncio.sleep(0)
        assert late.done() == reject
        await batcher.resume()
        if reject:
            assert await late is None
            late = asyncio.create_task(batcher.sample(request(7)))
        result = await late
        assert result is not None and result.response_ids.tolist() == [7]

    asyncio.run(run())
