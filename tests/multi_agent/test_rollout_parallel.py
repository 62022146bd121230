"""Episodes of several agents: turns, rewards, transitions of each agent, faults, the store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from agentr1_wrappers.context import Append

import agentr1_envs  # noqa: F401 - registers the ids
from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.multi_agent import Role, as_parallel
from agentr1_envs.paperscout import paperscout_v0
from agentr1_envs.paperscout.expert import Expert, SelectorExpert
from agentr1_envs.paperscout.paperscout_v0 import CRAWLER, SELECTOR
from agentr1_envs.transitions import Episode, group_episodes, read_transitions, write_transitions
from agentr1_train.policies.base import GenerateRequest, Generation, Policy
from agentr1_train.rollout import EpisodeJob
from agentr1_train.rollout_parallel import (
    ParallelEnvLoop,
    ScriptedAgent,
    make_parallel_loop,
    run_parallel_episode,
)


@pytest.fixture(scope="session")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"size": 1500, "cache_dir": str(tmp_path_factory.mktemp("literature"))}


def paperscout(options: dict[str, Any], **kwargs: Any) -> Any:
    return paperscout_v0.parallel_env(library_options=options, split="test", **kwargs)


def experts() -> dict[str, Policy]:
    return {CRAWLER: ScriptedAgent(Expert), SELECTOR: ScriptedAgent(SelectorExpert)}


class Says(Policy):
    """Says the same at every turn, and keeps what it was asked."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.requests: list[GenerateRequest] = []

    async def generate(self, request: GenerateRequest) -> Generation:
        self.requests.append(request)
        await asyncio.sleep(0)
        return Generation(self.text)


class Fails(Policy):
    async def generate(self, request: GenerateRequest) -> Generation:
        if request.step == 1:
            raise ConnectionError("the server is down")
        return Generation("<tool_call>{}</tool_call>")


def test_two_experts(options: dict[str, Any]) -> None:
    loop = ParallelEnvLoop(lambda: paperscout(options), experts(), concurrency=4)
    jobs = [EpisodeJob(f"e{i}", seed=i, group_id=f"g{i}") for i in range(10)]
    episodes = asyncio.run(loop.run(jobs))
    assert [(e.episode_id, e.agent_id) for e in episodes] == [
        (f"e{i}", agent) for i in range(10) for agent in (CRAWLER, SELECTOR)
    ]
    for episode in episodes:
        assert episode.valid and episode.finished and episode.success and episode.score == 1.0
        assert episode.task_id.startswith("paperscout-test-") and episode.env_id == "paperscout_v0"
        assert [t.step for t in episode.transitions] == list(range(len(episode.transitions)))
        for t in episode.transitions:
            assert t.agent_id == episode.agent_id and t.group_id == episode.group_id
            assert [m["role"] for m in t.observation] == ["system", "user"]
            assert t.anchor and t.metrics
        assert not any(t.terminated or t.truncated for t in episode.transitions[:-1])
    assert loop.metrics.episodes == 20 and loop.metrics.invalid == 0
    crawler, selector = episodes[:2]
    assert "select(" not in crawler.transitions[0].observation[0]["content"]
    assert "Candidates" in selector.transitions[0].observation[1]["content"]
    # The next state of a step is the state of the next one.
    for episode in episodes:
        for a, b in zip(episode.transitions, episode.transitions[1:], strict=False):
            assert a.next_observation == b.observation
            assert a.feedback == b.observation[-1]["content"]


def test_rewards_reach_their_agents(options: dict[str, Any]) -> None:
    """What a script collects by hand is what the transitions hold, agent by agent."""
    env = paperscout(options)
    episodes = asyncio.run(run_parallel_episode(env, experts(), seed=3))
    again = paperscout(options)
    observations, infos = again.reset(seed=3)
    totals = dict.fromkeys(again.possible_agents, 0.0)
    turns: dict[str, list[str]] = {agent: [] for agent in totals}
    actions = {agent: iter(e.transitions) for agent, e in episodes.items()}
    while again.agents:
        (agent,) = again.active_agents()
        transition = next(actions[agent])
        assert transition.observation[-1]["content"] == observations[agent]
        turns[agent].append(transition.action)
        observations, rewards, _, _, infos = again.step({agent: transition.action})
        for name, reward in rewards.items():
            totals[name] += reward
    for agent, episode in episodes.items():
        assert episode.ret == pytest.approx(totals[agent])
        assert len(turns[agent]) == len(episode.transitions)
        assert episode.score == infos[agent]["score"]


def test_store(options: dict[str, Any], tmp_path: Path) -> None:
    episodes = asyncio.run(run_parallel_episode(paperscout(options), experts(), seed=1))
    rows = [t for e in episodes.values() for t in e.transitions]
    write_transitions(tmp_path / "t.parquet", rows)
    back = group_episodes(read_transitions(tmp_path / "t.parquet"))
    assert {(e.agent_id, len(e.transitions), e.ret) for e in back} == {
        (e.agent_id, len(e.transitions), e.ret) for e in episodes.values()
    }


def test_roles_and_contexts() -> None:
    def make() -> Any:
        roles = (Role("solver", "solver"), Role("critic"), Role("critic"))
        return as_parallel(gym.make("AgentR1/GSM8KTool-v0", max_steps=2), roles)

    call = '<tool_call>{"name": "calculator", "arguments": {"expression": "2+3"}}</tool_call>'
    solver, critic = Says(call), Says("Go on.")
    episodes = asyncio.run(
        run_parallel_episode(
            make(),
            {"solver_0": solver, "critic_0": critic, "critic_1": critic},
            contexts={"solver_0": Append},
            seed=0,
        )
    )
    assert [len(e.transitions) for e in episodes.values()] == [4, 2, 2]
    roles = [[m["role"] for m in r.messages] for r in solver.requests]
    assert roles[0] == ["system", "user"]
    assert roles[3] == ["system", "user"] + ["assistant", "user"] * 3
    assert solver.requests[0].tools and not critic.requests[0].tools
    # Both critics are asked before either's answer is used: they speak at the same time.
    assert [r.episode_id for r in critic.requests[:2]] == ["episode/critic_0", "episode/critic_1"]
    assert len({r.seed for r in critic.requests[:2]}) == 2
    for episode in episodes.values():
        assert episode.stop_reason == "max_steps" and episode.transitions[-1].truncated


def test_faults(options: dict[str, Any]) -> None:
    policies = {**experts(), CRAWLER: Fails()}
    episodes = asyncio.run(run_parallel_episode(paperscout(options), policies, seed=0))
    for episode in episodes.values():
        assert not episode.valid and "the server is down" in str(episode.fault)
        assert all(not t.valid for t in episode.transitions)

    made: list[Any] = []

    def make() -> Any:
        env = paperscout(options)
        made.append(env)
        if len(made) == 1:

            def broken(*args: Any, **kwargs: Any) -> Any:
                raise EnvironmentFault("index gone")

            env.env.step = broken
        if len(made) == 3:
            raise EnvironmentFault("cannot open")
        return env

    loop = ParallelEnvLoop(make, experts(), concurrency=3)
    jobs = [EpisodeJob(f"e{i}", seed=i) for i in range(9)]
    episodes_list: list[Episode] = asyncio.run(loop.run(jobs))
    bad = [e for e in episodes_list if not e.valid]
    assert len(bad) == 4 and {str(e.fault) for e in bad} == {
        "EnvironmentFault: index gone",
        "EnvironmentFault: cannot open",
    }
    assert all(e.score == 1.0 for e in episodes_list if e.valid)
    assert loop.metrics.invalid == 4
    asyncio.run(loop.close())


def test_policies_must_fit(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected one for each of"):
        asyncio.run(run_parallel_episode(paperscout(options), {CRAWLER: Says("x")}))
    with pytest.raises(ValueError, match="same episode_id"):
        loop = ParallelEnvLoop(lambda: paperscout(options), experts())
        asyncio.run(loop.run([EpisodeJob("a"), EpisodeJob("a")]))


def test_same_seed_same_episodes(options: dict[str, Any]) -> None:
    def run() -> list[Any]:
        loop = ParallelEnvLoop(lambda: paperscout(options), experts(), concurrency=5)
        jobs = [EpisodeJob(f"e{i}", seed=i) for i in range(8)]
        return [(t.action, t.reward) for e in asyncio.run(loop.run(jobs)) for t in e.transitions]

    assert run() == run()


def test_only_the_trained_agents(options: dict[str, Any]) -> None:
    spec = {
        "env_id": "agentr1_envs.paperscout.paperscout_v0:parallel_env",
        "kwargs": {"library_options": options, "split": "test"},
        "agents": {CRAWLER: "observer", SELECTOR: "train"},
        "context": {"name": "rewrite", "fn": "agentr1_envs.paperscout.state:pool_state"},
        "system_prompt": "Judge.",
    }
    loop = make_parallel_loop(spec, Says("none"), seed=1)
    episodes = asyncio.run(loop.run([EpisodeJob(f"e{i}", seed=i, group_id="g") for i in range(3)]))
    assert [e.agent_id for e in episodes] == [SELECTOR] * 3
    assert {e.group_id for e in episodes} == {"g"}
    first = episodes[0].transitions[0].observation
    assert first[0]["content"] == "Judge." and "Candidates" in first[1]["content"]
    both = make_parallel_loop({**spec, "agents": dict.fromkeys((CRAWLER, SELECTOR), "train")},
                              "expert")  # fmt: skip
    episodes = asyncio.run(both.run([EpisodeJob("e", seed=1, group_id="g")]))
    assert [e.group_id for e in episodes] == [f"g/{CRAWLER}", f"g/{SELECTOR}"]
    assert all(t.group_id == e.group_id for e in episodes for t in e.transitions)
    for agents, message in (
        ({CRAWLER: "train"}, "agents: expected"),
        ({CRAWLER: "expert", SELECTOR: "expert"}, "'train' for at least one"),
        ({CRAWLER: "nobody", SELECTOR: "train"}, "no script 'nobody', expected one of: train, exp"),
    ):
        with pytest.raises(ValueError, match=message):
            make_parallel_loop({**spec, "agents": agents}, Says("x"))


@pytest.mark.slow
@pytest.mark.parametrize("agents", ["{crawler_0: train, selector_0: train}",
                                    "{crawler_0: expert, selector_0: train}"])  # fmt: skip
def test_the_local_trainer_trains_one_or_both(
    agents: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """A few steps of everything: written episodes, cold start, updates, panels, files."""
    pytest.importorskip("torch")
    from agentr1_train.cli.main import main

    run = tmp_path / "run"
    code = main(
        [
            "train",
            "recipe=paperscout",
            "model=micro",
            "agentr1.env.env_id=agentr1_envs.paperscout.paperscout_v0:parallel_env",
            f"agentr1.env.agents={agents}",
            "agentr1.env.kwargs.shown=2",
            "+agentr1.env.kwargs.selector_words=0",
            "+agentr1.env.kwargs.max_candidates=8",
            f"+agentr1.env.kwargs.library_options.size={options['size']}",
            f"+agentr1.env.kwargs.library_options.cache_dir={options['cache_dir']}",
            "agentr1.cold_start.policy=expert",
            "agentr1.cold_start.steps=2",
            "agentr1.cold_start.episodes=8",
            "agentr1.cold_start.batch_size=4",
            "trainer.total_training_steps=2",
            "trainer.test_freq=0",
            "data.train_batch_size=2",
            "data.max_response_length=8",
            "actor_rollout_ref.rollout.n=2",
            "agentr1.eval.episodes=2",
            "agentr1.num_threads=1",
            f"trainer.default_local_dir={run}",
        ]
    )
    assert code == 0
    rows = read_transitions(sorted(run.glob("transitions-*.parquet"))[-1])
    trained = {name for name in (CRAWLER, SELECTOR) if f"{name}: train" in agents}
    assert trained >= {t.agent_id for t in rows} and rows
    assert all(len(t.response_ids) == len(t.response_logprobs) > 0 for t in rows)
