"""Requests that wait together are sampled together; free of verl."""

from __future__ import annotations

import asyncio

from agentr1_train.local.sampler import Sampler, SampleRequest, SampleResult

WINDOW = 0.02  # seconds that a request waits for others to share its batch


class Batcher:
    """A sampler for the coroutines of one event loop, which can be stopped between batches."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler
        self.waiting: list[tuple[SampleRequest, asyncio.Future[SampleResult | None]]] = []
        self.worker: asyncio.Task[None] | None = None
        self.open, self.rejecting = asyncio.Event(), False
        self.open.set()

    async def sample(self, request: SampleRequest) -> SampleResult | None:
        """The result; None where the request was given up by `abort`."""
        if not self.rejecting:
            await self.open.wait()
        if not self.open.is_set():
            return None
        future: asyncio.Future[SampleResult | None] = asyncio.get_running_loop().create_future()
        self.waiting.append((request, future))
        if self.worker is None or self.worker.done():
            self.worker = asyncio.create_task(self._serve())
        return await future

    async def _serve(self) -> None:
        while self.waiting:
            await asyncio.sleep(WINDOW)
            batch, self.waiting = self.waiting, []
            try:
                results = await asyncio.to_thread(self.sampler.sample, [r for r, _ in batch])
            except Exception as error:  # told to each who waits; the next batch may do
                for _, future in batch:
                    if not future.done():  # cancelled
                        future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
                continue
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)

    async def abort(self, reject: bool) -> None:
        """Give back what waits and let the batch in work end.

        Args:
            reject: give back what comes before `resume` as well, instead of letting it wait.
        """
        self.open.clear()
        self.rejecting = reject
        waiting, self.waiting = self.waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_result(None)
        if self.worker is not None:
            await self.worker

    async def resume(self) -> None:
        """Take requests again."""
        self.rejecting = False
        self.open.set()
