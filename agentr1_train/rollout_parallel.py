"""Episodes of several agents, with one policy for each.

`run_parallel_episode` plays one episode of a `TextParallelEnv` and gives each agent an `Episode` of
its own: the transitions of the steps in which it was asked to act. What it is paid while others
act counts for its last action. `ParallelEnvLoop` plays many at once. As in `rollout.EnvLoop`, a
failure of an environment or a policy makes its episode invalid and is never a reward.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from agentr1_wrappers.context import ContextInput, ContextRule, Turn

from agentr1_envs.multi_agent.base import TextParallelEnv
from agentr1_envs.registration import load
from agentr1_envs.seeding import derive_int
from agentr1_envs.transitions import Episode, Message, Transition

from .policies.base import GenerateRequest, Generation, Policy
from .prompts import ConversationIds
from .rollout import EpisodeJob, RolloutMetrics, in_order

_SEED_MASK = (1 << 63) - 1


class LastObservation(ContextRule):
    """The system prompt and what the agent is told now, nothing before it.

    The right rule where observations hold the whole state, as those of PaperScout do.
    """

    name = "last_observation"

    def render(self, context: ContextInput) -> list[Message]:
        """System prompt and the observation."""
        messages: list[Message] = []
        if context.system:
            messages.append({"role": "system", "content": context.system})
        messages.append({"role": "user", "content": context.observation})
        return messages


class ScriptedAgent(Policy):
    """Plays a script: ``make(env)`` gives an object with ``act(observation, info)``.

    A script may have ``reset(observation, info)``, called at the start.
    """

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make
        self._players: dict[str, Any] = {}

    def start_episode(
        self, episode_id: str, env: Any, observation: Any, info: Mapping[str, Any]
    ) -> None:
        """Makes the script's object for an episode."""
        player = self._make(env)
        if hasattr(player, "reset"):
            player.reset(observation, dict(info))
        self._players[episode_id] = player

    async def generate(self, request: GenerateRequest) -> Generation:
        """What the script says."""
        player = self._players[request.episode_id]
        return Generation(player.act(request.observation, dict(request.info)))

    def end_episode(self, episode_id: str) -> None:
        """Forgets the episode."""
        self._players.pop(episode_id, None)


class _Seat:
    """One agent in one episode: its conversation, its transitions, what it is still owed."""

    def __init__(
        self,
        env: TextParallelEnv,
        agent: str,
        policy: Policy,
        context: ContextRule,
        episode: Episode,
        limit: int | None,
        system: str | None,
    ) -> None:
        self.agent, self.policy, self.context, self.episode = agent, policy, context, episode
        self.key = f"{episode.episode_id}/{agent}"
        self.system = env.system_prompt(agent) if system is None else system
        self.tools = tuple(env.tools(agent))
        self.first: str | None = None
        self.turns: list[Turn] = []
        self.open: Transition | None = None
        self.owed = 0.0
        encoder = policy.encoder
        splices = bool(getattr(context, "splices", False))
        self.prompts = (
            None if encoder is None else ConversationIds(encoder, self.tools, splice=splices)
        )
        self.limit = _smaller(limit, policy.max_prompt_tokens)
        context.reset()

    def state(self, observation: str, info: dict[str, Any]) -> tuple[Message, ...]:
        """The messages of a turn; the open transition is closed with them."""
        if self.first is None:
            self.first = observation
        if self.open is not None:
            self.turns.append(Turn(self.open.action, observation, {}))
        context = ContextInput(
            self.system,
            self.first,
            tuple(self.turns),
            observation,
            info,
            self.tools,
            "user",
        )
        messages = tuple(dict(message) for message in self.context.render(context))
        if self.open is not None:
            self.open.feedback, self.open.next_observation = observation, messages
            self.open = None
        return messages

    async def act(self, observation: str, info: dict[str, Any], sampling_seed: int) -> str:
        """One turn: asks the policy and opens a transition."""
        messages = self.state(observation, info)
        ids = None if self.prompts is None else self.prompts.next(messages)
        if ids is not None and self.limit is not None and len(ids) > self.limit:
            raise ValueError(
                f"a prompt of {self.agent} has {len(ids)} tokens, expected at most {self.limit}"
            )
        step = len(self.episode.transitions)
        generation = await self.policy.generate(
            GenerateRequest(
                messages,
                self.tools,
                ids,
                self.key,
                step,
                (sampling_seed + step) & _SEED_MASK,
                observation,
                info,
            )
        )
        self.open = Transition(
            episode_id=self.episode.episode_id,
            step=step,
            task_id=self.episode.task_id,
            env_id=self.episode.env_id,
            observation=messages,
            action=generation.text,
            agent_id=self.agent,
            group_id=self.episode.group_id,
            anchor=str(info.get("anchor", "")),
            prompt_ids=generation.prompt_ids,
            response_ids=generation.response_ids,
            response_logprobs=generation.logprobs,
            policy_version=generation.policy_version,
            reward=self.owed,
        )
        self.owed = 0.0
        if generation.finish_reason == "length":
            self.open.extra["finish_reason"] = "length"
        self.episode.transitions.append(self.open)
        if self.prompts is not None:
            self.prompts.record(messages, generation.prompt_ids, generation.response_ids)
        return generation.text

    def pay(self, reward: float) -> None:
        """A reward counts for the last action; before the first one it waits for it."""
        if self.episode.transitions:
            self.episode.transitions[-1].reward += reward
        else:
            self.owed += reward

    def told(self, info: Mapping[str, Any]) -> None:
        """What the environment says of the action just taken."""
        assert self.open is not None
        self.open.agent_error = info.get("agent_error")
        self.open.metrics = info.get("metrics") or {}

    def end(
        self, observation: str, info: dict[str, Any], terminated: bool, truncated: bool
    ) -> None:
        """The episode is over: the last transition carries how."""
        transitions = self.episode.transitions
        if not transitions:
            return
        messages = self.state(observation, info)
        last = transitions[-1]
        last.terminated, last.truncated = terminated, truncated
        last.stop_reason = info.get("stop_reason")
        last.success, last.score = info.get("success"), info.get("score")
        last.metrics = info.get("metrics") or last.metrics
        if truncated and self.prompts is not None:
            last.next_prompt_ids = self.prompts.next(messages)


def _smaller(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


async def run_parallel_episode(
    env: TextParallelEnv,
    policies: Mapping[str, Policy],
    *,
    contexts: Mapping[str, Callable[[], ContextRule]] | None = None,
    system_prompts: Mapping[str, str] | None = None,
    episode_id: str = "episode",
    group_id: str = "",
    env_id: str | None = None,
    seed: int | None = None,
    options: Mapping[str, Any] | None = None,
    sampling_seed: int = 0,
    max_prompt_tokens: int | None = None,
) -> dict[str, Episode]:
    """Play one episode; agents that are asked at the same time answer concurrently.

    Args:
        env: a text parallel environment.
        policies: one for each of its possible agents; the same object may serve several.
        contexts: for an agent what makes its context rule; `LastObservation` where none is given.
        system_prompts: for an agent what replaces the environment's prompt for it.
        episode_id, group_id, env_id: stored with the transitions.
        seed, options: of ``env.reset``.
        sampling_seed: seed of the replies; each agent has a stream of its own.
        max_prompt_tokens: a longer prompt makes the episode invalid.

    Returns:
        An episode for each agent, with ``agent_id``. When anything failed, all of them are invalid
        and say why; nothing is raised but cancellation, and `ValueError` for a missing policy.
    """
    check_policies(env, policies)
    name = env_id or str(env.metadata.get("name", ""))
    episodes = {
        agent: Episode(episode_id, "", name, group_id, agent) for agent in env.possible_agents
    }
    seconds = {"environment": 0.0, "generation": 0.0}
    seats: list[_Seat] = []
    try:
        clock = time.perf_counter
        began = clock()
        observations, infos = env.reset(seed=seed, options=dict(options) if options else None)
        for agent, episode in episodes.items():
            episode.task_id = str(infos[agent].get("task_id", ""))
            rule = (contexts or {}).get(agent, LastObservation)()
            system = (system_prompts or {}).get(agent)
            seat = _Seat(env, agent, policies[agent], rule, episode, max_prompt_tokens, system)
            inner = getattr(env, "env", env)
            seat.policy.start_episode(seat.key, inner, observations[agent], infos[agent])
            seats.append(seat)
        seconds["environment"] += clock() - began
        place = {seat.agent: seat for seat in seats}
        seeds = {a: derive_int("agent", sampling_seed, a, bits=62) for a in episodes}
        while env.agents:
            active = [agent for agent in env.agents if infos[agent]["active"]]
            began = clock()
            replies = await asyncio.gather(
                *(place[a].act(observations[a], infos[a], seeds[a]) for a in active)
            )
            now = clock()
            seconds["generation"] += now - began
            actions = dict(zip(active, replies, strict=True))
            observations, rewards, terminations, truncations, infos = env.step(actions)
            seconds["environment"] += clock() - now
            for agent in active:
                place[agent].told(infos[agent])
            for agent, reward in rewards.items():
                place[agent].pay(reward)
        for agent, seat in place.items():
            seat.end(observations[agent], infos[agent], terminations[agent], truncations[agent])
    except Exception as error:
        # Whatever failed, it was no agent's fault, and it voids the episode of all.
        for episode in episodes.values():
            episode.valid, episode.fault = False, f"{type(error).__name__}: {error}"
            for transition in episode.transitions:
                transition.valid = False
            if episode.transitions:
                episode.transitions[-1].extra["fault"] = episode.fault
    finally:
        for seat in seats:
            seat.policy.end_episode(seat.key)
    for episode in episodes.values():
        episode.seconds = dict(seconds)
    return episodes


def check_policies(env: TextParallelEnv, policies: Mapping[str, Policy]) -> None:
    """Raises ValueError unless there is exactly one policy for each agent."""
    if set(policies) != set(env.possible_agents):
        raise ValueError(
            f"policies: expected one for each of {env.possible_agents}, got {sorted(policies)}"
        )


class ParallelEnvLoop:
    """Plays episodes of several agents concurrently, in the event loop.

    Args:
        make_env: makes one environment; called once per slot, and again after a fault.
        policies: one for each agent; they serve all episodes.
        give: the agents whose episodes are given; None for all. With several of them each has a
            group of its own, ``group_id/agent``: agents are not compared with each other.
        contexts, system_prompts: see `run_parallel_episode`.
        concurrency: most episodes open at once.
        seed: run seed; sampling seeds come from it and the episode's id.
        max_prompt_tokens, env_id: see `run_parallel_episode`.

    Attributes:
        metrics: counts the episodes that are given.
    """

    def __init__(
        self,
        make_env: Callable[[], TextParallelEnv],
        policies: Mapping[str, Policy],
        *,
        give: Iterable[str] | None = None,
        contexts: Mapping[str, Callable[[], ContextRule]] | None = None,
        system_prompts: Mapping[str, str] | None = None,
        concurrency: int = 64,
        seed: int = 0,
        max_prompt_tokens: int | None = None,
        env_id: str | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {concurrency}")
        self.make_env, self.policies, self.contexts = make_env, dict(policies), contexts
        self.system_prompts = system_prompts
        self.give = list(self.policies if give is None else give)
        if not self.give or set(self.give) - set(self.policies):
            raise ValueError(f"give: expected some of {sorted(self.policies)}, got {self.give}")
        self.concurrency, self.seed = concurrency, seed
        self.max_prompt_tokens, self.env_id = max_prompt_tokens, env_id
        self.metrics = RolloutMetrics()
        self._idle: list[TextParallelEnv] = []

    async def _one(self, job: EpisodeJob) -> list[Episode]:
        sampling = job.sampling_seed
        if sampling is None:
            sampling = derive_int("sampling", self.seed, job.episode_id, bits=62)
        try:
            env = self._idle.pop() if self._idle else self.make_env()
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
            name = self.env_id or ""
            return self._given(
                {
                    agent: Episode(job.episode_id, "", name, job.group_id, agent, [], False, fault)
                    for agent in self.policies
                }
            )
        episodes = await run_parallel_episode(
            env,
            self.policies,
            contexts=self.contexts,
            system_prompts=self.system_prompts,
            episode_id=job.episode_id,
            group_id=job.group_id,
            env_id=self.env_id,
            seed=job.seed,
            options=job.options,
            sampling_seed=sampling,
            max_prompt_tokens=self.max_prompt_tokens,
        )
        if all(episode.valid for episode in episodes.values()):
            self._idle.append(env)
        return self._given(episodes)

    def _given(self, episodes: Mapping[str, Episode]) -> list[Episode]:
        given = [episodes[agent] for agent in self.give]
        if len(given) > 1:
            for episode in given:
                episode.group_id = f"{episode.group_id}/{episode.agent_id}"
                for transition in episode.transitions:
                    transition.group_id = episode.group_id
        return given

    async def stream(self, jobs: Iterable[EpisodeJob]) -> AsyncIterator[Episode]:
        """Episodes as they end, agent after agent."""
        source = iter(jobs)
        start = time.perf_counter()
        running: set[asyncio.Task[list[Episode]]] = set()
        try:
            while True:
                while len(running) < self.concurrency and (job := next(source, None)) is not None:
                    running.add(asyncio.create_task(self._one(job)))
                if not running:
                    return
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    now = time.perf_counter()
                    self.metrics.wall_seconds += now - start
                    start = now
                    for episode in task.result():
                        self.metrics.add(episode)
                        yield episode
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def run(
        self,
        jobs: Sequence[EpisodeJob],
        *,
        on_episode: Callable[[Episode], None] | None = None,
    ) -> list[Episode]:
        """All episodes, in the order of ``jobs`` and of the agents."""
        return await in_order(jobs, self.stream, on_episode)

    async def close(self) -> None:
        """Close every environment."""
        while self._idle:
            self._idle.pop().close()


def parallel_maker(spec: Mapping[str, Any]) -> Callable[[], TextParallelEnv]:
    """What makes the environment of a configuration: ``env_id`` is ``"module:function"``."""
    return partial(load(spec["env_id"]), **(spec.get("kwargs") or {}))


def make_parallel_loop(
    spec: Mapping[str, Any],
    policy: Policy | str,
    *,
    concurrency: int = 64,
    seed: int = 0,
    max_prompt_tokens: int | None = None,
) -> ParallelEnvLoop:
    """A loop from a configuration in which some agents are trained.

    Args:
        spec: ``env_id`` (``"module:function"`` that makes the environment), ``kwargs``,
            ``agents`` (for each agent ``"train"`` or the name of one of its scripts), and where
            wanted ``context`` (a spec of `make_context`) and ``system_prompt``, for all agents.
        policy: what plays the agents that are trained; the name of a script for written episodes.
        concurrency, seed, max_prompt_tokens: see `ParallelEnvLoop`.

    Returns:
        The loop; it gives the episodes of the trained agents.

    Raises:
        ValueError: an agent is missing or unknown, none is trained, or a script does not exist.
    """
    from agentr1_wrappers import make_context

    make = parallel_maker(spec)
    env = make()
    agents: Mapping[str, str] = spec["agents"]
    if set(agents) != set(env.possible_agents):
        raise ValueError(f"agents: expected {env.possible_agents}, got {sorted(agents)}")
    trained = [agent for agent, who in agents.items() if who == "train"]
    if not trained:
        raise ValueError(f"agents: expected 'train' for at least one, got {dict(agents)}")
    policies: dict[str, Policy] = {}
    for agent, who in agents.items():
        script = policy if who == "train" else who
        if isinstance(script, Policy):
            policies[agent] = script
            continue
        scripts = env.scripts.get(agent, {})
        if script not in scripts:
            known = ", ".join(["train", *scripts])
            raise ValueError(f"agents.{agent}: no script {script!r}, expected one of: {known}")
        policies[agent] = ScriptedAgent(load(scripts[script]))
    contexts = None
    if spec.get("context"):
        contexts = dict.fromkeys(agents, partial(make_context, spec["context"]))
    prompt = spec.get("system_prompt")
    return ParallelEnvLoop(
        make,
        policies,
        give=trained,
        contexts=contexts,
        system_prompts=None if prompt is None else dict.fromkeys(agents, prompt),
        concurrency=concurrency,
        seed=seed,
        max_prompt_tokens=max_prompt_tokens,
    )
