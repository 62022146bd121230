"""Rollouts: faults, time-outs, isolation, groups, budgets, interruption."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial

import pytest
from agentr1_wrappers import ChatPrompt

from agentr1_envs.errors import EnvironmentFault
from agentr1_train.env_host import host_env
from agentr1_train.groups import group_jobs, has_signal, sample_groups
from agentr1_train.policies import make_policy
from agentr1_train.policies.base import Generation, Policy, PolicyFault
from agentr1_train.rollout import (
    EnvLoop,
    EpisodeJob,
    run_episode,
)
from benchmarks.rollout import NoOpEnv, StubPolicy
from tests.core.toy import ToyEnv, call


class Brittle(NoOpEnv):
    """Fails at its second step on odd seeds, in the way it is told."""

    def __init__(self, how: str = "fault", length: int = 4) -> None:
        super().__init__(length)
        self.how, self.seed = how, 0

    def reset(self, *, seed=None, options=None):
        self.seed = seed or 0
        return super().reset(seed=seed, options=options)

    def step(self, action):
        if self.seed % 2 and self.count == 1:
            if self.how == "fault":
                raise EnvironmentFault("back end down")
            if self.how == "hang":
                time.sleep(60)
            if self.how == "die":
                os._exit(3)
        return super().step(action)


def jobs(count: int) -> list[EpisodeJob]:
    return [EpisodeJob(f"e{i}", seed=i) for i in range(count)]


def run(loop: EnvLoop, todo):
    async def go():
        try:
            return await loop.run(todo)
        finally:
            await loop.close()

    return asyncio.run(go())


def check_half_failed(episodes, text: str) -> None:
    for i, e in enumerate(episodes):
        assert e.episode_id == f"e{i}"
        assert e.valid == (i % 2 == 0)
        if e.valid:
            assert len(e.transitions) == 4 and e.ret == 1.0 and e.success
        else:
            assert text in e.fault and not e.success and e.stop_reason == "fault"
            assert all(not t.valid for t in e.transitions)
            assert sum(t.reward for t in e.transitions) == 0.0


@pytest.mark.parametrize("isolation", ["inline", "thread"])
def test_a_fault_harms_no_other_episode(isolation):
    loop = EnvLoop(Brittle, StubPolicy(0.0), concurrency=4, isolation=isolation)
    check_half_failed(run(loop, jobs(10)), "EnvironmentFault: back end down")
    assert loop.metrics.invalid == 5 and loop.metrics.episodes == 10
    assert loop.metrics.faults == {"EnvironmentFault: back end down": 5}


def test_a_step_that_hangs_is_given_up_in_a_thread():
    make = partial(Brittle, "hang")
    loop = EnvLoop(make, StubPolicy(0.0), concurrency=4, isolation="thread", step_timeout=0.3)

    async def go():
        # The threads themselves cannot be killed: leave them behind, as the loop does.
        return await loop.run(jobs(3))

    start = time.monotonic()
    episodes = asyncio.run(go())
    assert time.monotonic() - start < 20
    check_half_failed(episodes, "took over 0.3 s")


@pytest.mark.parametrize("how", ["hang", "die"])
@pytest.mark.parametrize("workers", [None, 1])
def test_processes_contain_engines_that_hang_or_die(how, workers):
    loop = EnvLoop(
        partial(Brittle, how),
        StubPolicy(0.0),
        concurrency=2,
        isolation="process",
        step_timeout=15 if how == "die" else 3,
        workers=workers,
    )
    episodes = run(loop, jobs(3))
    check_half_failed(episodes, "took over" if how == "hang" else "worker process ended")


def test_a_request_that_cannot_be_sent_harms_no_other_of_its_message():
    loop = EnvLoop(
        NoOpEnv, StubPolicy(0.0), concurrency=6, isolation="process", step_timeout=15, workers=1
    )
    todo = jobs(6)
    todo[2].options = {"task": lambda: None}
    episodes = run(loop, todo)
    assert [e.valid for e in episodes] == [True, True, False, True, True, True]
    assert "pickle" in episodes[2].fault
    assert all(len(e.transitions) == 20 for e in episodes if e.valid)


def test_an_episode_after_a_worker_died_unnoticed_gets_a_new_process():
    """The request finds the pipe broken before the listener has reported the end."""

    async def go():
        pool = host_env("process", NoOpEnv, 15, 1)
        host = pool.new()
        await host.reset(0, None)
        process = host._worker.process
        process.kill()
        # No await in between: the event loop does not yet know.
        process.join()
        try:
            with pytest.raises(EnvironmentFault, match="worker process"):
                await host.reset(0, None)
            observation, _, _ = await host.reset(0, None)
            assert host._worker.process.is_alive()
            return observation
        finally:
            pool.close()

    assert asyncio.run(go()) is not None


def test_a_policy_that_fails_makes_the_episode_invalid():
    class Down(Policy):
        async def generate(self, request):
            if request.episode_id == "e1":
                raise PolicyFault("server down")
            return Generation("act")

    episodes = run(EnvLoop(NoOpEnv, Down(), concurrency=3), jobs(3))
    assert [e.valid for e in episodes] == [True, False, True]
    assert "server down" in episodes[1].fault


def test_an_environment_that_cannot_be_made_is_a_fault():
    def make():
        raise RuntimeError("no such engine")

    episodes = run(EnvLoop(make, StubPolicy(0.0), concurrency=2), jobs(3))
    assert [e.valid for e in episodes] == [False] * 3
    assert "no such engine" in episodes[0].fault


def test_concurrency_is_a_limit_and_jobs_are_taken_lazily():
    class Counting(Policy):
        now = most = 0

        def start_episode(self, *args):
            self.now += 1
            self.most = max(self.most, self.now)

        def end_episode(self, episode_id):
            self.now -= 1

        async def generate(self, request):
            await asyncio.sleep(0)
            return Generation("act")

    taken = 0

    def endless():
        nonlocal taken
        for i in range(10**9):
            taken += 1
            yield EpisodeJob(f"e{i}", seed=i)

    policy = Counting()
    loop = EnvLoop(NoOpEnv, policy, concurrency=3)

    async def go():
        seen = 0
        async for _ in loop.stream(endless()):
            seen += 1
            await asyncio.sleep(0.01)  # a slow consumer holds the producers back
            if seen == 5:
                return

    asyncio.run(go())
    assert policy.most <= 3
    assert taken < 30


def test_the_order_of_results_is_that_of_the_jobs_and_names_are_unique():
    episodes = run(EnvLoop(NoOpEnv, StubPolicy(0.0), concurrency=7), jobs(20))
    assert [e.episode_id for e in episodes] == [f"e{i}" for i in range(20)]
    with pytest.raises(ValueError, match="same episode_id"):
        run(EnvLoop(NoOpEnv, StubPolicy(0.0)), [EpisodeJob("x"), EpisodeJob("x")])


def test_a_wrong_isolation_or_inline_timeout_is_refused():
    with pytest.raises(ValueError, match="isolation must be"):
        EnvLoop(NoOpEnv, StubPolicy(0.0), isolation="fork")
    for name in ("expert", "random"):
        with pytest.raises(ValueError, match="looks into them: use 'inline' or 'thread'"):
            EnvLoop(NoOpEnv, make_policy(name), isolation="process")
    with pytest.raises(ValueError, match="step_timeout needs"):
        EnvLoop(NoOpEnv, StubPolicy(0.0), step_timeout=1.0)


def test_groups_share_task_and_seed_and_sampling_differs():
    todo = list(group_jobs(["a", "b"], 3, seed=5))
    assert len({j.seed for j in todo[:3]}) == 1 and todo[0].seed != todo[3].seed
    assert {j.group_id for j in todo[:3]} == {"a"}
    seeds = []

    class Seeds(Policy):
        async def generate(self, request):
            seeds.append((request.episode_id, request.step, request.seed))
            return Generation("act")

    for _ in range(2):
        run(EnvLoop(partial(NoOpEnv, 2), Seeds(), concurrency=6, seed=1), todo)
    first, second = sorted(seeds[:12]), sorted(seeds[12:])
    assert first == second  # the same run gives the same seeds
    assert len({s for _, _, s in first}) == 12


class Coin(NoOpEnv):
    """Pays by the reply; `seed % 3 == 0` tasks pay nothing whatever is said."""

    def reset(self, *, seed=None, options=None):
        self.dead = (seed or 0) % 3 == 0
        return super().reset(seed=seed, options=options)

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float(action == "1" and not self.dead), terminated, truncated, info


class Coins(Policy):
    async def generate(self, request):
        return Generation(str(request.episode_id.endswith("/0") * 1))


def test_dynamic_sampling_replaces_groups_without_signal():
    loop = EnvLoop(partial(Coin, 1), Coins(), concurrency=4)
    names = (f"g{i}" for i in range(100))
    episodes, counts = asyncio.run(sample_groups(loop, names, want=4, group_size=3, seed=0))
    assert len(episodes) == 12 and counts["groups_kept"] == 4
    for i in range(0, 12, 3):
        assert len({e.group_id for e in episodes[i : i + 3]}) == 1
        assert has_signal(episodes[i : i + 3])
    assert counts["groups_sampled"] > 4 and counts["wasted_steps"] > 0


def test_dynamic_sampling_stops_at_its_budget():
    loop = EnvLoop(partial(Coin, 1), StubPolicy(0.0), concurrency=4)
    names = (f"g{i}" for i in range(10**9))
    episodes, counts = asyncio.run(
        sample_groups(loop, names, want=2, group_size=2, seed=0, max_episodes=20)
    )
    assert episodes == [] and counts["groups_sampled"] == 10


def test_transitions_replay_to_the_same_observations():
    class Script(Policy):
        async def generate(self, request):
            return Generation([call("add", a=1), "nonsense <tool_call>", "7"][request.step])

    env = ChatPrompt(ToyEnv())
    episode = asyncio.run(run_episode(env, Script(), seed=11, env_id="toy"))
    other = ChatPrompt(ToyEnv())
    observation, info = other.reset(seed=11)
    for t in episode.transitions:
        assert t.observation == observation and t.anchor == info["anchor"]
        observation, reward, terminated, truncated, info = other.step(t.action)
        assert (t.reward, t.terminated, t.truncated) == (reward, terminated, truncated)
        assert t.feedback == info["feedback"] and t.next_observation == observation
        assert t.agent_error == info.get("agent_error")
    assert episode.finished and episode.transitions[-1].success == info["success"]
    assert episode.transitions[1].agent_error is not None


def test_a_prompt_over_the_budget_truncates_with_a_named_reason():
    from tests.train.test_prompts import OddPolicy

    policy = OddPolicy()
    free = asyncio.run(run_episode(ChatPrompt(ToyEnv()), policy, seed=1))
    lengths = [len(t.prompt_ids) for t in free.transitions]
    cut = asyncio.run(
        run_episode(ChatPrompt(ToyEnv()), policy, seed=1, max_prompt_tokens=lengths[1])
    )
    assert cut.valid and len(cut.transitions) == 2
    last = cut.transitions[-1]
    assert last.truncated and not last.terminated and last.stop_reason == "max_prompt_tokens"
    assert last.success is False and last.score == 0.0
    none = asyncio.run(run_episode(ChatPrompt(ToyEnv()), policy, seed=1, max_prompt_tokens=3))
    assert not none.valid and "first prompt" in none.fault
