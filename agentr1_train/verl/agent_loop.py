"""An episode of a Gymnasium environment as verl's rows: one `AgentLoopOutput` per step."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from agentr1_wrappers import reset_options
from agentr1_wrappers.agent_env import read_spec
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from agentr1_envs.seeding import derive_int
from agentr1_envs.transitions import Episode
from agentr1_train.policies.base import GenerateRequest, Generation, Policy, PolicyFault
from agentr1_train.prompts import PromptEncoder
from agentr1_train.rollout import run_episode
from agentr1_train.verl.batch import episode_summary, step_fields
from agentr1_train.verl.environments import Environments

logger = logging.getLogger(__name__)
logger.setLevel(os.getenv("VERL_LOGGING_LEVEL", "INFO"))


class VerlPolicy(Policy):
    """verl's inference servers as a policy: token ids in, token ids and log-probabilities out."""

    name = "verl"

    def __init__(
        self, server: Any, encoder: PromptEncoder, sampling: Mapping[str, Any], rollout: Any
    ) -> None:
        self.server, self.encoder, self.sampling = server, encoder, sampling
        self.max_prompt_tokens = int(rollout.prompt_length)
        self.response_length = int(rollout.response_length)
        # vLLM is slower with a generator per request, and needs none for training.
        self.seeded = rollout.name == "hf_cpu" or bool(rollout.get("full_determinism", False))
        self.versions: list[int] = []

    async def generate(self, request: GenerateRequest) -> Generation:
        assert request.prompt_ids is not None and self.encoder is not None
        params = dict(self.sampling)
        if self.seeded:
            params["seed"] = request.seed % (1 << 31)
        out = await self.server.generate(
            request_id=request.episode_id,
            prompt_ids=request.prompt_ids.tolist(),
            sampling_params=params,
        )
        if out.stop_reason in ("abort", "aborted"):
            raise PolicyFault("the inference server gave the request up")
        ids = np.asarray(out.token_ids[: self.response_length], np.int32)
        if out.log_probs is None and params.get("logprobs"):
            raise PolicyFault("the inference server returned no log-probabilities")
        version = out.extra_fields.get("global_steps")
        first = out.extra_fields.get("min_global_steps", version)
        self.versions += [v for v in (first, version) if v is not None]
        ended = len(ids) > 0 and int(ids[-1]) in self.encoder.end_ids
        return Generation(
            self.encoder.decode(ids),
            request.prompt_ids,
            ids,
            np.asarray((out.log_probs or [])[: len(ids)], np.float32),
            "stop" if ended else "length",
            -1 if version is None else int(version),
        )


_shared: dict[Any, Any] = {}  # of this process: encoder and environments, by what they were made of


class GymStepAgentLoop:
    """Plays one episode of the environment that the row's ``env_kwargs`` describe.

    Not built on AgentLoopBase: its constructor makes a template parser for every episode, which
    nothing here uses; verl only calls `run`.
    """

    def __init__(
        self, trainer_config: Any, server_manager: Any, tokenizer: Any, data_config: Any, **_: Any
    ) -> None:
        self.config, self.server = trainer_config.config, server_manager
        self.own = self.config.agentr1
        kwargs = dict(data_config.config.get("apply_chat_template_kwargs") or {})
        key = (id(tokenizer), json.dumps(kwargs, default=str, sort_keys=True))
        if key not in _shared:
            _shared[key] = PromptEncoder(tokenizer, template_kwargs=kwargs)
        self.encoder: PromptEncoder = _shared[key]

    def _environments(self) -> Environments:
        loop = asyncio.get_running_loop()
        if loop not in _shared:
            r = self.own.rollout
            _shared[loop] = Environments(
                int(r.concurrency), str(r.isolation), r.step_timeout, r.workers
            )
        return _shared[loop]

    def _spec(self, env_kwargs: Any) -> dict[str, Any]:
        """The row's environment over the configuration's."""
        from omegaconf import OmegaConf

        base = OmegaConf.to_container(self.own.env, resolve=True)
        row = read_spec(env_kwargs) if env_kwargs else {}
        assert isinstance(base, dict)
        if row and row["env_id"] != base.get("env_id"):
            return row
        merged = {**base, **row}
        merged["kwargs"] = {**(base.get("kwargs") or {}), **(row.get("kwargs") or {})}
        return {str(k): v for k, v in merged.items() if v is not None}

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[AgentLoopOutput]:
        """One row per step; none where environment or server failed, which is logged."""
        spec = self._spec(row.get("env_kwargs"))
        info = row.get("extra_info") or {}
        train = info.get("split", "train") == "train"
        options = reset_options(spec) or None
        spec.pop("options", None)
        # The row's own split: the environments' tasks differ between splits.
        if "split" in info and "split" not in spec.get("kwargs", {}):
            spec["kwargs"] = {**spec.get("kwargs", {}), "split": info["split"]}
        step = int(row["global_steps"]) if train else 0
        seed = derive_int("verl-env", self.own.seed, step, str(row.get("index")), bits=31)
        policy = VerlPolicy(
            self.server, self.encoder, sampling_params, self.config.actor_rollout_ref.rollout
        )
        environments, key = self._environments(), json.dumps(spec, sort_keys=True, default=str)
        session = f"{row['uid']}_{row['session_id']}"
        async with environments.slots:
            try:
                env = environments.take(key, spec)
            except Exception as error:
                logger.warning("episode %s left out: %s: %s", session, type(error).__name__, error)
                return []
            episode = await run_episode(
                env,
                policy,
                episode_id=session,
                group_id=str(row["uid"]),
                env_id=spec["env_id"],
                seed=seed,
                options=options,
                # Sessions of a row share the task and differ in what is sampled.
                sampling_seed=derive_int("verl-reply", seed, int(row["session_id"]), bits=31),
            )
            environments.give(key, env, episode.valid)
        if not episode.valid or not episode.transitions:
            logger.warning("episode %s left out: %s", session, episode.fault)
            return []
        # The state after a cut is a row for the critic; where there is none, nobody looks at it.
        bootstrap = train and bool(self.config.critic.enable)
        keep, source = train and bool(self.own.verl.dump), str(row.get("data_source"))
        return self._rows(episode, policy, source, bootstrap=bootstrap, keep=keep)

    def _rows(
        self, episode: Episode, policy: VerlPolicy, source: str, *, bootstrap: bool, keep: bool
    ) -> list[AgentLoopOutput]:
        seconds, steps, summary = episode.seconds, episode.transitions, episode_summary(episode)
        common: dict[str, Any] = {}
        if policy.versions:
            common = {"min_global_steps": min(policy.versions)}
            common["max_global_steps"] = max(policy.versions)
        rows = []
        last = steps[-1]
        with_end = bootstrap and last.truncated and not last.terminated
        states: list[tuple[Any, ...]] = [
            (t, t.prompt_ids, t.response_ids, t.response_logprobs, False) for t in steps
        ]
        if with_end and len(last.next_prompt_ids):
            # Its one token is trained by nobody; a critic gives V of the state a limit cut off.
            states.append((last, last.next_prompt_ids, steps[0].response_ids[:0], None, True))
        for t, prompt, response, logprobs, is_end in states:
            n = len(response)
            own = step_fields(t, bootstrap=is_end, keep=keep, data_source=source)
            rows.append(
                AgentLoopOutput(
                    prompt_ids=prompt.tolist(),
                    # verl takes no empty response: the token stands in and is masked.
                    response_ids=response.tolist() or [self.encoder.end_id],
                    response_mask=[1] * n or [0],
                    response_logprobs=[float(x) for x in logprobs] if n else [0.0],
                    reward_score=float(episode.ret),
                    num_turns=len(steps),
                    metrics=AgentLoopMetrics(
                        generate_sequences=seconds.get("generation", 0.0),
                        tool_calls=seconds.get("environment", 0.0),
                    ),
                    extra_fields={**common, "reward_extra_info": summary, "agentr1": own},
                )
            )
        return rows
