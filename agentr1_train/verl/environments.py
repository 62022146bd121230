"""The environments of one worker process; free of verl."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from agentr1_wrappers import make_agent_env

from agentr1_envs.registration import ENVS
from agentr1_train.env_host import EnvHost, host_env


class Environments:
    """Environments of one worker process, kept between episodes and made where none is idle."""

    def __init__(self, concurrency: int, isolation: str, timeout: float | None, workers: Any):
        self.slots = asyncio.Semaphore(concurrency)
        self.isolation, self.timeout, self.workers = isolation, timeout, workers
        self.idle: dict[str, list[Any]] = {}
        self.pools: dict[str, Any] = {}

    def take(self, key: str, spec: dict[str, Any]) -> Any:
        if free := self.idle.get(key):
            return free.pop()
        entry = ENVS.get(spec["env_id"])
        isolation = self.isolation
        if isolation == "auto":
            isolation = "thread" if entry is not None and entry.blocking else "inline"
        make = partial(make_agent_env, spec)
        if isolation == "inline":
            return make()
        if key not in self.pools:
            self.pools[key] = host_env(isolation, make, self.timeout, self.workers)
        return self.pools[key].new()

    def give(self, key: str, env: Any, healthy: bool) -> None:
        if healthy:
            self.idle.setdefault(key, []).append(env)
        elif isinstance(env, EnvHost):
            env.give_up()
        else:
            env.close()
