"""Groups of episodes: one task and seed, several samples; and groups that carry a signal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from agentr1_envs.seeding import derive_int
from agentr1_envs.transitions import Episode

from .rollout import EnvLoop, EpisodeJob


def group_jobs(
    names: Iterable[str],
    group_size: int,
    *,
    seed: int,
    options: Callable[[str], Mapping[str, Any] | None] | None = None,
) -> Iterable[EpisodeJob]:
    """``group_size`` episodes of one task for each name: one seed, different sampling.

    Args:
        names: unique names of the groups.
        group_size: episodes a group.
        seed: run seed.
        options: reset options of a group.
    """
    for name in names:
        env_seed = derive_int("group", seed, name, bits=31)
        chosen = options(name) if options else None
        for i in range(group_size):
            yield EpisodeJob(f"{name}/{i}", env_seed, chosen, name)


def has_signal(episodes: Sequence[Episode]) -> bool:
    """Whether a group's valid episodes differ in their return (else no advantage comes of it)."""
    returns = [e.ret for e in episodes if e.valid and e.transitions]
    return len(returns) > 1 and float(np.ptp(returns)) > 0.0


async def sample_groups(
    loop: EnvLoop,
    names: Iterable[str],
    *,
    want: int,
    group_size: int,
    seed: int,
    options: Callable[[str], Mapping[str, Any] | None] | None = None,
    keep: Callable[[Sequence[Episode]], bool] = has_signal,
    max_episodes: int | None = None,
    max_steps: int | None = None,
) -> tuple[list[Episode], dict[str, float]]:
    """Dynamic sampling: groups until ``want`` of them carry a signal, or a budget is spent.

    Args:
        names: group names, as many as may be needed (an infinite iterator is fine).
        want: groups to keep.
        keep: which groups to keep.
        max_episodes, max_steps: no new group is started beyond.

    Returns:
        Episodes of the kept groups (fewer when a budget ran out) and counts:
        ``groups_sampled``, ``groups_kept``, ``wasted_steps`` (steps of groups not kept).
    """
    started = steps = sampled = wasted = 0
    kept: dict[str, list[Episode]] = {}
    open_groups: dict[str, list[Episode]] = {}

    def jobs() -> Iterable[EpisodeJob]:
        nonlocal started
        for name in names:
            spent = max_steps is not None and steps >= max_steps
            full = max_episodes is not None and started + group_size > max_episodes
            if len(kept) >= want or spent or full:
                return
            started += group_size
            yield from group_jobs([name], group_size, seed=seed, options=options)

    async for episode in loop.stream(jobs()):
        steps += len(episode.transitions)
        group = open_groups.setdefault(episode.group_id, [])
        group.append(episode)
        if len(group) < group_size:
            continue
        del open_groups[episode.group_id]
        sampled += 1
        if len(kept) < want and keep(group):
            kept[episode.group_id] = sorted(group, key=lambda e: e.episode_id)
        else:
            wasted += sum(len(e.transitions) for e in group)
    episodes = [e for name in sorted(kept) for e in kept[name]]
    counts = {"groups_sampled": sampled, "groups_kept": len(kept), "wasted_steps": wasted}
    return episodes, {k: float(v) for k, v in counts.items()}
