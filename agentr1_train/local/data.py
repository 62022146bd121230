"""Episodes to learn from and panels to be judged on: shared by cold start, RL and evaluation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from agentr1_envs.registration import ENVS
from agentr1_envs.seeding import derive_int
from agentr1_envs.transitions import Episode

from ..policies.base import Policy
from ..policies.scripted import make_policy
from ..rollout import EnvLoop, EpisodeJob

SPEC_KEYS = (
    "env_id", "context", "wrappers", "augment", "tool_format", "feedback_role", "tool_prompt",
    "system_prompt", "agents",
)  # fmt: skip


def env_spec(config: Mapping[str, Any], **kwargs: Any) -> dict[str, Any]:
    """The `make_agent_env` spec of ``config["agentr1"]["env"]``; ``kwargs`` go over its own."""
    env = config["agentr1"]["env"]
    spec = {key: env[key] for key in SPEC_KEYS if env.get(key) is not None}
    spec["kwargs"] = {**(env.get("kwargs") or {}), **kwargs}
    return spec


def env_maker(spec: Mapping[str, Any]) -> Callable[[], Any]:
    """A picklable function that makes the environment."""
    from agentr1_wrappers import make_agent_env

    return partial(make_agent_env, dict(spec))


def isolation_of(setting: str, env_id: str) -> str:
    """``auto`` is threads where the environments' table says that steps may block."""
    if setting != "auto":
        return setting
    entry = ENVS.get(env_id)
    return "thread" if entry is not None and entry.blocking else "inline"


def make_loop(
    spec: Mapping[str, Any],
    policy: Policy | str,
    settings: Mapping[str, Any],
    *,
    seed: int,
    max_prompt_tokens: int | None = None,
) -> Any:
    """An `EnvLoop` from ``agentr1.rollout``.

    With ``agents`` in the spec the environment is one of several agents, `policy` plays those that
    are trained, and the loop is a `ParallelEnvLoop`, which is used in the same way.
    """
    if spec.get("agents"):
        from ..rollout_parallel import make_parallel_loop

        return make_parallel_loop(
            spec,
            policy,
            concurrency=int(settings["concurrency"]),
            seed=seed,
            max_prompt_tokens=max_prompt_tokens,
        )
    assert isinstance(policy, Policy)
    return EnvLoop(
        env_maker(spec),
        policy,
        concurrency=int(settings["concurrency"]),
        isolation=isolation_of(settings["isolation"], spec["env_id"]),
        step_timeout=settings.get("step_timeout"),
        workers=settings.get("workers"),
        seed=seed,
        max_prompt_tokens=max_prompt_tokens,
        env_id=spec["env_id"],
    )


def expert_episodes(
    spec: Mapping[str, Any],
    count: int,
    *,
    policy: str,
    seed: int,
    on_episode: Callable[[Episode], None] | None = None,
) -> list[Episode]:
    """Solved episodes of a scripted policy; those that it fails are left out.

    Raises:
        ValueError: it solved none.
    """
    # Of several agents, each that is trained plays its own script of that name.
    player = policy if spec.get("agents") else make_policy(policy, env_id=spec["env_id"])
    settings = {"concurrency": min(count, 64), "isolation": "auto"}
    loop = make_loop(spec, player, settings, seed=seed)
    jobs = [EpisodeJob(f"expert/{i}", derive_int("expert", seed, i, bits=31)) for i in range(count)]

    async def play() -> list[Episode]:
        try:
            return await loop.run(jobs, on_episode=on_episode)
        finally:
            await loop.close()

    episodes = asyncio.run(play())
    solved = [e for e in episodes if e.success]
    if not solved:
        faults = ", ".join(loop.metrics.faults) or "no episode ended in success"
        raise ValueError(f"policy {policy!r} solved none of {count} episodes: {faults}")
    return solved


def panel_size(loop: EnvLoop) -> int:
    """Tasks in the panel of the loop's environments."""
    env = loop.make_env()
    try:
        tasks = getattr(env.unwrapped, "tasks", None)
        if tasks is None:
            raise ValueError(f"{env.unwrapped}: it has no panel of tasks to be evaluated on")
        return len(tasks)
    finally:
        env.close()


async def play_panel(
    loop: EnvLoop,
    count: int,
    *,
    name: str,
    on_episode: Callable[[Episode], None] | None = None,
) -> list[Episode]:
    """The first ``count`` tasks of the environment's panel, once each, in order."""
    jobs = [
        EpisodeJob(f"{name}/{i}", derive_int("panel", name, i, bits=31), {"task_index": i})
        for i in range(count)
    ]
    return await loop.run(jobs, on_episode=on_episode)


def summarise(episodes: Sequence[Episode]) -> dict[str, float]:
    """Success, score, steps and errors over the valid episodes, and how many were not."""
    valid = [e for e in episodes if e.valid]
    n = max(len(valid), 1)
    steps = sum(len(e.transitions) for e in valid)
    errors = sum(t.agent_error is not None for e in valid for t in e.transitions)
    return {
        "episodes": float(len(episodes)),
        "invalid": float(len(episodes) - len(valid)),
        "success": sum(e.success for e in valid) / n,
        "score": sum(e.score for e in valid) / n,
        "return": sum(e.ret for e in valid) / n,
        "steps": steps / n,
        "errors": errors / n,
    }
