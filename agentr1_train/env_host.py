"""Environments that block, hosted outside the event loop: in threads or in worker processes."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing as mp
import pickle
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from agentr1_envs.errors import EnvironmentFault

START_TIMEOUT = 300.0  # seconds to start a worker process and make its environment
StepResult = tuple[Any, float, bool, bool, dict[str, Any]]


class WorkerLost(EnvironmentFault):
    """The process died of another environment's request; the episode may run again."""


class EnvHost:
    """One environment outside the loop. ``env`` is what scripted policies may look into."""

    env: Any = None
    spec: Any = None
    splices: bool = True

    async def reset(
        self, seed: int | None, options: Mapping[str, Any] | None
    ) -> tuple[Any, dict[str, Any], Any]:
        """Observation, info and tool schemas."""
        raise NotImplementedError

    async def step(self, action: str) -> StepResult:
        """As ``env.step``; raises `EnvironmentFault` after the time-out."""
        raise NotImplementedError

    def give_up(self) -> None:
        """The environment has failed: it will not be used again."""


def splices(env: Any) -> bool:
    """Whether the environment's states may be spliced; a context rule can forbid it."""
    return bool(getattr(getattr(env, "context", None), "splices", True))


def _reset(env: Any, seed: int | None, options: Any) -> tuple[Any, dict[str, Any], Any]:
    observation, info = env.reset(seed=seed, options=options)
    return observation, info, getattr(env.unwrapped, "tools", None) or ()


class ThreadHost(EnvHost):
    """The environment in a thread of its own (engines need not be thread-safe among calls)."""

    def __init__(self, make_env: Callable[[], Any], timeout: float | None) -> None:
        self._make, self._timeout, self._closed = make_env, timeout, False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="agentr1-env")

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        future = asyncio.get_running_loop().run_in_executor(self._thread, function, *args)
        try:
            return await asyncio.wait_for(future, self._timeout)
        except TimeoutError:
            raise EnvironmentFault(f"the environment took over {self._timeout:g} s") from None

    def _start(self, seed: int | None, options: Any) -> tuple[Any, dict[str, Any], Any]:
        if self.env is None:
            self.env = self._make()
            self.spec = getattr(self.env, "spec", None)
            self.splices = splices(self.env)
        return _reset(self.env, seed, options)

    async def reset(
        self, seed: int | None, options: Mapping[str, Any] | None
    ) -> tuple[Any, dict[str, Any], Any]:
        return await self._call(self._start, seed, options)

    async def step(self, action: str) -> StepResult:
        return await self._call(self.env.step, action)

    def give_up(self) -> None:
        # A thread cannot be killed; it ends by itself once a call that hangs has returned.
        self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self.env is not None:
                self._thread.submit(self.env.close)
            self._thread.shutdown(wait=False)


def _serve(connection: Any, make_env: Callable[[], Any]) -> None:
    """A worker process: one environment per slot, one request at a time."""
    envs: dict[int, Any] = {}
    while True:
        try:
            requests = connection.recv()
        except (EOFError, OSError):
            return
        for request in requests:
            number, slot, name, args = pickle.loads(request)
            # Each answer goes at once, although requests come many in a message: when the process
            # dies or hangs, the oldest request without an answer must be the one it died of.
            try:
                if name == "drop":
                    env = envs.pop(slot, None)
                    if env is not None:
                        env.close()
                    continue
                if name == "make":
                    envs[slot] = make_env()
                    answer = None
                elif name == "reset":
                    env = envs[slot]
                    env_id = getattr(env.spec, "id", None)
                    answer = (*_reset(env, *args), env_id, splices(env))
                else:
                    answer = envs[slot].step(*args)
                connection.send((number, True, answer))
            except Exception as error:
                connection.send((number, False, f"{type(error).__name__}: {error}"))


@dataclass(slots=True)
class _Request:
    """What waits to be sent; `future` is None where no answer is awaited."""

    number: int
    data: bytes
    future: asyncio.Future[Any] | None
    timeout: float | None


class _Worker:
    """One process and the requests it has not answered.

    What the loop asks in one round goes out as one message, and answers that came since its last
    round wake it once: with thousands of episodes the messages would cost more than the steps.
    """

    def __init__(self, make_env: Callable[[], Any], name: str) -> None:
        # spawn: a forked child would inherit the locks of threads that do not exist in it.
        context = mp.get_context("spawn")
        self.connection, child = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(child, make_env), name=name, daemon=True
        )
        self.process.start()
        child.close()
        self.loop = asyncio.get_running_loop()
        self.outbox: list[_Request] = []
        self.inbox: deque[tuple[int, bool, Any]] = deque()
        self.woken = False
        self.waiting: dict[int, tuple[asyncio.Future[Any], float | None]] = {}
        self.timer: asyncio.TimerHandle | None = None
        self.numbers = itertools.count()
        self.alive = True
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                self.inbox.append(self.connection.recv())
            except (EOFError, OSError):
                break
            if not self.woken:
                self.woken = True
                self._tell(self._deliver)
        self._tell(self._died)

    def _tell(self, function: Callable[..., None], *args: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    def _deliver(self) -> None:
        self.woken = False  # before looking: what comes from here on wakes the loop again
        while self.inbox:
            number, ok, answer = self.inbox.popleft()
            future, _ = self.waiting.pop(number, (None, None))
            if future is None or future.done():
                continue
            if ok:
                future.set_result(answer)
            else:
                future.set_exception(EnvironmentFault(answer))
        self._watch()

    def _watch(self) -> None:
        """Time the request that is being served: the oldest. Those behind it only wait."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        for _, timeout in self.waiting.values():
            if timeout is not None:
                self.timer = self.loop.call_later(timeout, self._expire, timeout)
            return

    def _expire(self, timeout: float) -> None:
        self.kill()
        self._fail(f"the environment took over {timeout:g} s; its process was killed")

    def _died(self) -> None:
        self.alive = False
        if self.waiting:
            self.process.join(1)
            self._fail(f"worker process ended (exit code {self.process.exitcode})")

    def _fail(self, message: str) -> None:
        # Requests are served in order, so the oldest is the one the process died of; the others
        # only shared it and may run again elsewhere.
        kind: type[EnvironmentFault] = EnvironmentFault
        for future, _ in self.waiting.values():
            if not future.done():
                future.set_exception(kind(message))
            kind = WorkerLost
        self.waiting.clear()
        self._watch()

    def ask(
        self, slot: int, name: str, args: tuple[Any, ...], timeout: float | None
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self.loop.create_future()
        self._post(slot, name, args, future, timeout)
        return future

    def tell(self, slot: int, name: str) -> None:
        """A request without an answer."""
        self._post(slot, name, (), None, None)

    def _post(
        self,
        slot: int,
        name: str,
        args: tuple[Any, ...],
        future: asyncio.Future[Any] | None,
        timeout: float | None,
    ) -> None:
        number = next(self.numbers)
        # Pickled here, so that what cannot be is the fault of this request alone.
        data = pickle.dumps((number, slot, name, args), pickle.HIGHEST_PROTOCOL)
        self.outbox.append(_Request(number, data, future, timeout))
        if len(self.outbox) == 1:
            self.loop.call_soon(self._send)

    def _send(self) -> None:
        requests, self.outbox = self.outbox, []
        try:
            if not self.alive:
                raise OSError("it has ended")
            self.connection.send([request.data for request in requests])
        except (OSError, ValueError) as error:
            self.alive = False  # known before its listener reports it: the next reset starts anew
            for request in requests:
                if request.future is not None and not request.future.done():
                    lost = WorkerLost(f"worker process is gone: {error}")
                    request.future.set_exception(lost)
            return
        idle = not self.waiting
        for request in requests:
            if request.future is not None:
                self.waiting[request.number] = request.future, request.timeout
        if idle:
            self._watch()

    def kill(self) -> None:
        self.alive = False
        self.process.kill()


class ProcessHost(EnvHost):
    """An environment in a worker process."""

    def __init__(self, pool: ProcessPool, slot: int) -> None:
        self._pool, self._slot = pool, slot
        self._worker: _Worker | None = None

    async def _call(self, name: str, *args: Any, timeout: float | None = None) -> Any:
        assert self._worker is not None
        return await self._worker.ask(self._slot, name, args, timeout or self._pool.timeout)

    async def reset(
        self, seed: int | None, options: Mapping[str, Any] | None
    ) -> tuple[Any, dict[str, Any], Any]:
        if self._worker is None or not self._worker.alive:
            self._worker = self._pool.worker(self._slot)
            # Starting a process and loading an engine is no step: it has a time-out of its own.
            await self._call("make", timeout=START_TIMEOUT)
        options = None if options is None else dict(options)
        observation, info, tools, env_id, self.splices = await self._call("reset", seed, options)
        self.spec = _Spec(env_id) if env_id else None
        return observation, info, tools

    async def step(self, action: str) -> StepResult:
        return await self._call("step", action)

    def give_up(self) -> None:
        if self._worker is not None and self._worker.alive:
            self._worker.tell(self._slot, "drop")


class _Spec:
    def __init__(self, env_id: str) -> None:
        self.id = env_id


class ProcessPool:
    """``workers`` processes, or one for each environment where None."""

    def __init__(
        self, make_env: Callable[[], Any], timeout: float | None, workers: int | None
    ) -> None:
        self.make_env, self.timeout, self.count = make_env, timeout, workers
        self._workers: dict[int, _Worker] = {}
        self._slots = itertools.count()

    def new(self) -> ProcessHost:
        return ProcessHost(self, next(self._slots))

    def worker(self, slot: int) -> _Worker:
        number = slot if self.count is None else slot % self.count
        worker = self._workers.get(number)
        if worker is None or not worker.alive:
            worker = self._workers[number] = _Worker(self.make_env, f"agentr1-env-{number}")
        return worker

    def close(self) -> None:
        for worker in self._workers.values():
            worker.connection.close()
            worker.kill()
        for worker in self._workers.values():
            worker.process.join(5)


class ThreadPool:
    """A thread for each environment."""

    def __init__(self, make_env: Callable[[], Any], timeout: float | None) -> None:
        self.make_env, self.timeout = make_env, timeout
        self._hosts: list[ThreadHost] = []

    def new(self) -> ThreadHost:
        host = ThreadHost(self.make_env, self.timeout)
        self._hosts.append(host)
        return host

    def close(self) -> None:
        for host in self._hosts:
            host.close()


def host_env(
    isolation: str, make_env: Callable[[], Any], timeout: float | None, workers: int | None
) -> ThreadPool | ProcessPool:
    """A pool of hosted environments for ``isolation`` ``"thread"`` or ``"process"``."""
    if isolation == "thread":
        return ThreadPool(make_env, timeout)
    return ProcessPool(make_env, timeout, workers)
