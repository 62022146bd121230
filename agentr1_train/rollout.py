"""Many episodes at once over one policy.

`run_episode` is one episode as a coroutine, over any policy; trainers of other stacks call it from
their own loops. `EnvLoop` runs many of them: with a limit on how many are open, environments that
block in threads or processes with a time-out per step, and one rule above all: an environment or a
server that fails makes its own episode invalid, harms no other, and is never a reward.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentr1_envs.seeding import derive_int
from agentr1_envs.transitions import Episode, Transition

from .collector import rare_collections
from .env_host import EnvHost, WorkerLost, host_env, splices
from .policies.base import GenerateRequest, Policy
from .prompts import ConversationIds
from .rollout_metrics import RolloutMetrics

_SEED_MASK = (1 << 63) - 1
MAX_ATTEMPTS = 3  # of an episode whose worker process died of another environment


@dataclass(slots=True)
class EpisodeJob:
    """One episode to run.

    Attributes:
        episode_id: unique in the run.
        seed: the environment's seed; the same for all episodes of a group.
        options: reset options (``task_id``, ``task_index``, ``task``).
        group_id: equal for episodes that are compared with each other.
        sampling_seed: seed of the replies; from run seed and episode_id where None.
    """

    episode_id: str
    seed: int | None = None
    options: Mapping[str, Any] | None = None
    group_id: str = ""
    sampling_seed: int | None = None


def _tool_schemas(env: Any) -> Sequence[Any]:
    return getattr(env.unwrapped, "tools", None) or ()


def _messages(observation: Any) -> tuple[dict[str, Any], ...]:
    if isinstance(observation, str):
        return ({"role": "user", "content": observation},)
    return tuple(observation)


def _text(observation: Any, info: Mapping[str, Any]) -> str:
    """What the environment said now, whatever the state was built into."""
    if isinstance(observation, str):
        return observation
    said = info.get("feedback")  # ChatPrompt's
    if said is not None:
        return said
    return observation[-1].get("content") or "" if observation else ""


async def run_episode(
    env: Any,
    policy: Policy,
    *,
    episode_id: str = "episode",
    group_id: str = "",
    agent_id: str = "agent",
    env_id: str | None = None,
    seed: int | None = None,
    options: Mapping[str, Any] | None = None,
    sampling_seed: int = 0,
    max_prompt_tokens: int | None = None,
) -> Episode:
    """Play one episode and return its transitions, with the exact ids the policy used.

    Args:
        env: a Gymnasium environment with text or `ChatPrompt` observations, or an `EnvHost`
            (environments that block, in a thread or process).
        policy: see `policies.base.Policy`; the same policy may serve many episodes at once.
        episode_id, group_id, agent_id, env_id: stored with the transitions.
        seed, options: of ``env.reset``.
        sampling_seed: seed of the replies; reply t uses ``sampling_seed + t``.
        max_prompt_tokens: an episode whose next prompt is longer is truncated there, with
            ``stop_reason="max_prompt_tokens"``.

    Returns:
        The episode. ``valid`` is False, and ``fault`` says why, when the environment or the policy
        failed; nothing is raised for these but cancellation.
    """
    host = env if isinstance(env, EnvHost) else None
    spec = getattr(env, "spec", None)
    episode = Episode(episode_id, "", env_id or (spec.id if spec else ""), group_id, agent_id)
    seconds = {"environment": 0.0, "generation": 0.0}
    started = False
    try:
        clock = time.perf_counter
        t0 = clock()
        if host is None:
            observation, info = env.reset(seed=seed, options=options)
            tools = _tool_schemas(env)
        else:
            observation, info, tools = await host.reset(seed, options)
        t1 = clock()
        seconds["environment"] += t1 - t0
        episode.task_id = str(info.get("task_id", ""))
        policy.start_episode(
            episode_id, env if host is None else host.env, _text(observation, info), info
        )
        started = True
        await _play(
            env, host, policy, episode, observation, info, tools, sampling_seed,
            _smaller(max_prompt_tokens, policy.max_prompt_tokens), seconds, t1,
        )  # fmt: skip
    except Exception as error:
        # Whatever failed, it was not the agent: mark the whole episode.
        episode.valid, episode.fault = False, f"{type(error).__name__}: {error}"
        for t in episode.transitions:
            t.valid = False
        if episode.transitions:
            episode.transitions[-1].extra["fault"] = episode.fault
    finally:
        if started:
            policy.end_episode(episode_id)
    episode.seconds = seconds
    return episode


def _smaller(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


async def _play(
    env: Any,
    host: EnvHost | None,
    policy: Policy,
    episode: Episode,
    observation: Any,
    info: Mapping[str, Any],
    tools: Sequence[Any],
    sampling_seed: int,
    max_prompt_tokens: int | None,
    seconds: dict[str, float],
    now: float,
) -> None:
    clock = time.perf_counter
    encoder = policy.encoder
    splice = host.splices if host else splices(env)
    prompts = None if encoder is None else ConversationIds(encoder, tools, splice=splice)
    messages = _messages(observation)
    ids = None if prompts is None else prompts.next(messages)
    if ids is not None and max_prompt_tokens is not None and len(ids) > max_prompt_tokens:
        raise ValueError(
            f"the first prompt has {len(ids)} tokens, expected at most {max_prompt_tokens}"
        )
    transitions = episode.transitions
    step = 0
    ended = False
    while not ended:
        generation = await policy.generate(
            GenerateRequest(
                messages, tools, ids, episode.episode_id, step, (sampling_seed + step) & _SEED_MASK,
                _text(observation, info), info,
            )
        )  # fmt: skip
        t0 = clock()
        seconds["generation"] += t0 - now
        anchor = info.get("anchor", "")
        if host is None:
            observation, reward, terminated, truncated, info = env.step(generation.text)
        else:
            observation, reward, terminated, truncated, info = await host.step(generation.text)
        now = clock()
        seconds["environment"] += now - t0
        ended = terminated or truncated
        following = _messages(observation)
        transition = Transition(
            episode_id=episode.episode_id,
            step=step,
            task_id=episode.task_id,
            env_id=episode.env_id,
            observation=messages,
            action=generation.text,
            feedback=_text(observation, info),
            reward=float(reward),
            terminated=bool(terminated),
            truncated=bool(truncated),
            stop_reason=info.get("stop_reason"),
            next_observation=following,
            agent_id=episode.agent_id,
            group_id=episode.group_id,
            anchor=anchor,
            prompt_ids=generation.prompt_ids,
            response_ids=generation.response_ids,
            response_logprobs=generation.logprobs,
            agent_error=info.get("agent_error"),
            metrics=info.get("metrics") or {},
            policy_version=generation.policy_version,
            success=info.get("success"),
            score=info.get("score"),
        )
        if generation.finish_reason == "length":
            transition.extra["finish_reason"] = "length"
        transitions.append(transition)
        step += 1
        if prompts is None or (ended and not truncated):
            messages = following
            continue
        prompts.record(messages, generation.prompt_ids, generation.response_ids)
        ids = prompts.next(following)
        messages = following
        if truncated:
            transition.next_prompt_ids = ids
        elif max_prompt_tokens is not None and len(ids) > max_prompt_tokens:
            # The state cannot be shown whole, and a cut one would be another task.
            transition.truncated, transition.stop_reason = True, "max_prompt_tokens"
            transition.success, transition.score = False, 0.0
            ended = True


class EnvLoop:
    """Runs episodes concurrently.

    Args:
        make_env: makes one environment; called once per slot, and again after a fault. For
            ``isolation="process"`` it must be picklable (`functools.partial` of `make_agent_env`).
        policy: serves all episodes.
        concurrency: most episodes open at once.
        isolation: ``"inline"`` steps environments in the event loop (right for those that never
            block), ``"thread"`` and ``"process"`` outside it.
        step_timeout: seconds a reset or step may take outside the loop; the episode is then
            invalid and its environment is given up. Processes are killed, threads are left behind.
        workers: processes that share the environments; None gives each environment its own.
        seed: run seed; sampling seeds come from it and the episode's id.
        max_prompt_tokens: see `run_episode`.
        env_id: stored with transitions; the environment's own where None.
    """

    def __init__(
        self,
        make_env: Callable[[], Any],
        policy: Policy,
        *,
        concurrency: int = 64,
        isolation: str = "inline",
        step_timeout: float | None = None,
        workers: int | None = None,
        seed: int = 0,
        max_prompt_tokens: int | None = None,
        env_id: str | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {concurrency}")
        if isolation not in ("inline", "thread", "process"):
            raise ValueError(f"isolation must be inline, thread or process, got {isolation!r}")
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        if step_timeout is not None and not step_timeout > 0:  # NaN is not either
            raise ValueError(
                f"step_timeout must be a positive number of seconds, got {step_timeout}"
            )
        if isolation == "inline" and step_timeout is not None:
            raise ValueError(
                "step_timeout needs isolation='thread' or 'process': "
                "an environment stepped inside the event loop cannot be interrupted"
            )
        if isolation == "process" and policy.looks_inside:
            raise ValueError(
                "isolation='process' keeps environments in other processes, and a scripted or "
                "random policy looks into them: use 'inline' or 'thread'"
            )
        self.make_env, self.policy, self.concurrency = make_env, policy, concurrency
        self.isolation, self.step_timeout, self.workers = isolation, step_timeout, workers
        self.seed, self.max_prompt_tokens, self.env_id = seed, max_prompt_tokens, env_id
        self.metrics = RolloutMetrics()
        self._idle: list[Any] = []
        self._pool: Any = None

    def _new_env(self) -> Any:
        if self._idle:
            return self._idle.pop()
        if self.isolation == "inline":
            return self.make_env()
        if self._pool is None:
            self._pool = host_env(self.isolation, self.make_env, self.step_timeout, self.workers)
        return self._pool.new()

    async def _one(self, job: EpisodeJob, queued: float) -> Episode:
        began = time.perf_counter()
        sampling = job.sampling_seed
        if sampling is None:
            sampling = derive_int("sampling", self.seed, job.episode_id, bits=62)
        try:
            env = self._new_env()
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
            return Episode(
                job.episode_id, "", self.env_id or "", job.group_id, valid=False, fault=fault
            )
        for _ in range(MAX_ATTEMPTS):
            episode = await self._attempt(env, job, sampling)
            if not (episode.fault or "").startswith(WorkerLost.__name__):
                break
        episode.seconds["queue"] = began - queued
        if episode.valid:
            self._idle.append(env)
        elif isinstance(env, EnvHost):
            env.give_up()
        else:
            _close_quietly(env)
        return episode

    async def _attempt(self, env: Any, job: EpisodeJob, sampling: int) -> Episode:
        return await run_episode(
            env,
            self.policy,
            episode_id=job.episode_id,
            group_id=job.group_id,
            env_id=self.env_id,
            seed=job.seed,
            options=job.options,
            sampling_seed=sampling,
            max_prompt_tokens=self.max_prompt_tokens,
        )

    async def stream(self, jobs: Iterable[EpisodeJob]) -> AsyncIterator[Episode]:
        """Episodes as they end. Jobs are taken one by one as slots come free (back-pressure)."""
        source = iter(jobs)
        done: asyncio.Queue[Episode | BaseException | None] = asyncio.Queue()
        # A job is begun only while few results wait to be taken: a slow consumer holds back the
        # episodes, not a full queue the workers (who could then not be cancelled).
        credit = asyncio.Semaphore(2 * self.concurrency)
        start = time.perf_counter()
        working = self.concurrency

        async def work() -> None:
            nonlocal working
            try:
                while True:
                    await credit.acquire()
                    # Not a for loop: all workers share the iterator.
                    job = next(source, None)
                    if job is None:
                        break
                    done.put_nowait(await self._one(job, start))
            except Exception as error:
                done.put_nowait(error)
            working -= 1
            credit.release()  # the next worker may find the end too
            if working == 0:
                done.put_nowait(None)

        tasks = [asyncio.create_task(work()) for _ in range(self.concurrency)]
        before = self.metrics.wall_seconds
        try:
            with rare_collections(self.concurrency):
                while (item := await done.get()) is not None:
                    credit.release()
                    if isinstance(item, BaseException):
                        raise item
                    self.metrics.add(item)
                    self.metrics.wall_seconds = before + time.perf_counter() - start
                    yield item
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def run(
        self,
        jobs: Sequence[EpisodeJob],
        *,
        on_episode: Callable[[Episode], None] | None = None,
    ) -> list[Episode]:
        """All episodes, in the order of ``jobs``. After a cancellation see `stream` for parts."""
        return await in_order(jobs, self.stream, on_episode)

    async def close(self) -> None:
        """Close every environment."""
        for env in self._idle:
            if not isinstance(env, EnvHost):
                _close_quietly(env)
        self._idle.clear()
        if self._pool is not None:
            self._pool.close()
            self._pool = None


async def in_order(
    jobs: Sequence[EpisodeJob],
    stream: Callable[[Sequence[EpisodeJob]], AsyncIterator[Episode]],
    on_episode: Callable[[Episode], None] | None = None,
) -> list[Episode]:
    """What `stream` makes of the jobs, in the order of the jobs; a job's episodes as they came.

    Args:
        on_episode: told of each episode when it ends.

    Raises:
        ValueError: two jobs have the same episode_id.
    """
    found: dict[str, list[Episode]] = {job.episode_id: [] for job in jobs}
    if len(found) != len(jobs):
        raise ValueError("two jobs have the same episode_id")
    async for episode in stream(jobs):
        found[episode.episode_id].append(episode)
        if on_episode is not None:
            on_episode(episode)
    return [episode for episodes in found.values() for episode in episodes]


def _close_quietly(env: Any) -> None:
    # A broken environment may fail to close; its episode's fault has been recorded.
    try:
        env.close()
    except Exception:
        return
