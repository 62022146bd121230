"""The single-process trainer: a cold start on written episodes, then reinforcement learning.

A run is a directory: config.yaml, metrics.jsonl, curve.png, transitions-*.parquet, tensorboard/
and checkpoints/. It can be killed at any moment and continued: everything random is derived from
the run's seed and the number of the update, never from a generator that lives across updates.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.seeding import derive
from agentr1_envs.transitions import Episode, Transition, write_transitions

from ..advantages import RewardScaler
from ..groups import group_jobs, sample_groups
from ..policies.transformers import TransformersPolicy
from ..rollout import EnvLoop
from ..rows import RowBatch
from . import tiny
from .checkpoint import checkpoints, clean, load_checkpoint, load_model, save_checkpoint
from .data import env_spec, make_loop, panel_size, play_panel, summarise
from .forward import ValueModel
from .optim import Optimizers, learning_rate, make_optimizer
from .progress import Progress
from .report import closing_table, draw_curve
from .settings import (
    make_advantage,
    make_loss,
    make_update,
    run_metadata,
)
from .sft import Supervised, SupervisedConfig
from .start import cold_start_data, prepare_model
from .tracking import Trackers, read_metrics
from .update import Updater, frozen_copy


class Trainer:
    """One run of one recipe.

    Args:
        config: a resolved configuration (`agentr1_train.config`), as plain containers.
        resume: continue from the run directory's last checkpoint if there is one.
        quiet: no progress bars.
    """

    def __init__(
        self, config: Mapping[str, Any], *, resume: bool = False, quiet: bool = False
    ) -> None:
        self.config = config
        self.own: Mapping[str, Any] = config["agentr1"]
        self.actor: Mapping[str, Any] = config["actor_rollout_ref"]["actor"]
        self.directory = Path(config["trainer"]["default_local_dir"])
        self.seed = int(self.own["seed"])
        self.total = int(config["trainer"]["total_training_steps"])
        self.iteration = 0
        self.cold_step = 0
        self.phase = "cold_start"
        self.elapsed = 0.0
        self._set_up_torch()
        root = self.directory / "checkpoints"
        clean(root)
        found = checkpoints(root) if resume else []
        self.last = found[-1] if found else None
        self._checkpoints = root
        state: dict[str, Any] = {}
        tensors: dict[str, Any] = {}
        self.progress = Progress(enabled=not quiet and "console" in config["trainer"]["logger"])
        if self.last is not None:
            tensors, state = load_checkpoint(self.last, self.device)
            self.model, self.tokenizer = load_model(self.last, dtype=self.dtype, device=self.device)
            self.cold_episodes = None
        else:
            self.model, self.tokenizer, self.cold_episodes = prepare_model(
                config, device=self.device, dtype=self.dtype, progress=self.progress
            )
        own_choice = self.own["num_threads"] or self.own["deterministic"]
        size = sum(p.numel() for p in self.model.parameters())
        if self.device == "cpu" and not own_choice and size < 50_000_000:
            # The matrices of a small model are too small to be worth many threads' hand-over.
            torch.set_num_threads(min(torch.get_num_threads(), 4))
        self._build(tensors, state)
        resumed = int(state["step"]) if state else None
        self.trackers = Trackers(
            list(config["trainer"]["logger"]), self.directory, config, resume_at=resumed
        )

    # ------------------------------------------------------------------------------ set-up

    def _set_up_torch(self) -> None:
        device = self.config["trainer"]["device"]
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if device not in ("cpu", "cuda") and not device.startswith("cuda:"):
            raise ValueError(f"trainer.device: {device!r}, expected cpu, cuda or auto")
        self.device = device
        # Weights are always kept and stepped in float32; the passes run in half precision on a GPU.
        self.dtype = torch.float32
        wanted = self.own["dtype"]
        if wanted not in ("auto", "float32", "bfloat16"):
            raise ValueError(f"agentr1.dtype: {wanted!r}, expected auto, float32 or bfloat16")
        half = wanted == "bfloat16" or (wanted == "auto" and device != "cpu")
        self.compute_dtype = torch.bfloat16 if half else torch.float32
        threads = self.own["num_threads"]
        if self.own["deterministic"]:
            torch.use_deterministic_algorithms(True)
            threads = 1
        if threads:
            torch.set_num_threads(int(threads))

    def _build(self, tensors: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Optimizers, critic, reference, policies and panels around the model."""
        c = self.config
        self.pad_id = int(self.tokenizer.pad_token_id or 0)
        self.phase = state.get("phase", "cold_start")
        # The evaluation before the first update stands in the metrics of a run resumed after it.
        self._started_before = self.phase == "rl"
        self.iteration = int(state.get("iteration", 0))
        self.cold_step = int(state.get("cold_step", 0))
        self.elapsed = float(state.get("elapsed", 0.0))
        self.cpu = float(state.get("cpu", 0.0))
        self.cold_cpu = float(state.get("cold_cpu", 0.0))
        if not int(self.own["cold_start"]["steps"]) and self.phase == "cold_start":
            self.phase = "rl"
        self._start_phase()
        scale = self.own["reward_scale"]
        if scale not in (None, "pspo"):
            raise ValueError(f"agentr1.reward_scale: {scale!r}, expected pspo or null")
        self.scaler = RewardScaler(float(c["algorithm"]["gamma"])) if scale else None
        if self.scaler is not None and state.get("reward_scaler"):
            self.scaler.load_state_dict(state["reward_scaler"])
        if tensors:
            self.optimizer.load_state_dict(tensors["optimizer"])
            if self.critic is not None and "critic" in tensors:
                self.critic.load_state_dict(tensors["critic"])
                assert self.critic_optimizer is not None
                self.critic_optimizer.load_state_dict(tensors["critic_optimizer"])
            if self.reference is not None and "reference" in tensors:
                self.reference.load_state_dict(tensors["reference"])
        rollout = c["actor_rollout_ref"]["rollout"]
        common: dict[str, Any] = {
            "max_tokens": int(c["data"]["max_response_length"]),
            "max_batch": int(rollout["max_num_seqs"]),
            "window": None if self.own["deterministic"] else 0.02,
            "dtype": self.compute_dtype,
        }
        self.policy = TransformersPolicy(
            self.model,
            self.tokenizer,
            temperature=float(rollout["temperature"]),
            top_p=float(rollout["top_p"]),
            top_k=max(int(rollout["top_k"]), 0),
            **common,
        )
        self.judge = TransformersPolicy(self.model, self.tokenizer, temperature=0.0, **common)
        train_kwargs = {"tasks": c["data"]["train_files"]} if c["data"]["train_files"] else {}
        self.loop = self._loop(env_spec(c, **train_kwargs), self.policy)
        self.panels: dict[str, tuple[EnvLoop, int]] = {}
        val = {"tasks": c["data"]["val_files"]} if c["data"]["val_files"] else {}
        for name, panel in {"heldout": self.own["eval"], **self.own["eval"]["extra"]}.items():
            kwargs = {"split": panel.get("split", "test"), **val, **(panel.get("kwargs") or {})}
            count = int(panel.get("episodes", self.own["eval"]["episodes"]))
            if count:
                loop = self._loop(env_spec(c, **kwargs), self.judge)
                self.panels[name] = loop, min(count, panel_size(loop))

    def _loop(self, spec: Mapping[str, Any], policy: TransformersPolicy) -> EnvLoop:
        return make_loop(
            spec,
            policy,
            self.own["rollout"],
            seed=self.seed,
            max_prompt_tokens=int(self.config["data"]["max_prompt_length"]),
        )

    def _start_phase(self) -> None:
        """Fresh optimizers: the cold start's moments say nothing about the policy gradient."""
        c, own = self.config, self.own
        rl = self.phase == "rl"
        optim = self.actor["optim"] if rl else own["cold_start"]
        self.optimizer = make_optimizer(self.model, optim)
        self.critic: ValueModel | None = None
        self.critic_optimizer: Optimizers | None = None
        self.reference = None
        self.updater: Updater | None = None
        if not rl:
            return
        advantage, loss = make_advantage(c), make_loss(c)
        if advantage.needs_values:
            self.critic = ValueModel(self.model)
            self.critic_optimizer = make_optimizer(self.critic, c["critic"]["optim"])
        if loss.kl_coef or advantage.kl_in_reward:
            self.reference = frozen_copy(self.model)
        self.updater = Updater(
            self.model,
            self.optimizer,
            advantage,
            loss,
            make_update(c, self.compute_dtype != torch.float32),
            pad_id=self.pad_id,
            seed=self.seed,
            critic=self.critic,
            critic_optimizer=self.critic_optimizer,
            reference=self.reference,
            teacher=self._teacher(),
        )

    def _teacher(self) -> Any:
        """The model to distil from; it must speak the student's tokens."""
        path = self.own["distill"]["teacher"]
        if not path:
            return None
        teacher, tokenizer = tiny.load(path, dtype=self.dtype, device=self.device)
        if tokenizer.get_vocab() != self.tokenizer.get_vocab():
            raise ValueError(
                f"distill.teacher {path}: expected the student's tokenizer "
                f"({len(self.tokenizer)} tokens), got another ({len(tokenizer)})"
            )
        return frozen_copy(teacher)

    # -------------------------------------------------------------------------------- run

    def run(self) -> dict[str, float]:
        """Train to the end (or the time limit); the last evaluation's numbers."""
        self._started = time.perf_counter() - self.elapsed
        self._cpu_before = self.cpu - time.process_time()
        try:
            with self.progress:
                if self.phase == "cold_start":
                    self._cold_start()
                result = asyncio.run(self._reinforce())
        finally:
            self.trackers.close()
        rows = read_metrics(self.directory / "metrics.jsonl")
        if rows:
            draw_curve(rows, self.directory / "curve.png", str(self.directory.name))
            self.progress.print(closing_table(rows))
        self.progress.print(f"run: {self.directory}")
        return result

    def _precision(self) -> Any:
        half = self.compute_dtype != torch.float32
        return torch.autocast(self.device.partition(":")[0], self.compute_dtype, enabled=half)

    def _clock(self) -> float:
        self.elapsed = time.perf_counter() - self._started
        self.cpu = self._cpu_before + time.process_time()
        return self.elapsed

    def _times(self) -> dict[str, float]:
        elapsed = self._clock()
        return {
            "time/elapsed": elapsed,
            "time/cpu_total": self.cpu,
            "time/cold_start_cpu": self.cold_cpu,
        }

    def _cold_start(self) -> None:
        settings = self.own["cold_start"]
        steps = int(settings["steps"])
        data = cold_start_data(self.config, self.tokenizer, self.cold_episodes, self.progress)
        self.cold_episodes = None
        learner = self._supervised(data)
        save_every = int(settings["save_freq"])
        self.progress.start("cold start", steps, self.cold_step)
        while self.cold_step < steps:
            lr = learning_rate(settings, self.cold_step, steps)
            began = time.process_time()
            with self._precision():
                metrics = learner.step(self.cold_step, lr)
            self.cold_cpu += time.process_time() - began
            self.cold_step += 1
            self.progress.advance("cold start", loss=metrics["sft/loss"])
            if save_every and self.cold_step % save_every == 0 and self.cold_step < steps:
                self._clock()
                self._save()
        self.phase = "rl"
        self._start_phase()

    def _supervised(self, data: list[Any]) -> Supervised:
        settings = self.own["cold_start"]
        config = SupervisedConfig(
            batch_size=int(settings["batch_size"]),
            loss_on=settings["loss_on"],
            max_tokens=int(self.actor["ppo_max_token_len_per_gpu"]),
            grad_clip=float(self.actor["grad_clip"]),
        )
        return Supervised(
            self.model, self.optimizer, data, config, pad_id=self.pad_id, seed=self.seed
        )

    async def _reinforce(self) -> dict[str, float]:
        trainer = self.config["trainer"]
        result: dict[str, float] = {}
        if not self._started_before:
            result = await self._evaluate()
            self.trackers.log({**result, **self._times()}, 0)
            self._save()
        self.progress.start("training", self.total, self.iteration)
        test_freq, save_freq = int(trainer["test_freq"]), int(trainer["save_freq"])
        limit = self.own["time_limit"]
        while self.iteration < self.total:
            if limit is not None and self._clock() >= float(limit):
                break
            metrics = await self._iterate()
            self.iteration += 1
            last = self.iteration == self.total
            due = test_freq and self.iteration % test_freq == 0
            if due and not last:
                result = await self._evaluate()
                metrics.update(result)
            if last:
                result = await self._evaluate()
                metrics.update(result)
            metrics.update(self._times())
            self.trackers.log(metrics, self.iteration)
            if last or (save_freq and self.iteration % save_freq == 0):
                self._save()
        else:
            if not result:  # resumed after the end
                return await self._evaluate()
            await self._close()
            return result
        result = await self._evaluate()
        self.trackers.log({**result, **self._times()}, self.iteration)
        self._save()
        await self._close()
        return result

    async def _close(self) -> None:
        await self.loop.close()
        for loop, _ in self.panels.values():
            await loop.close()

    async def _iterate(self) -> dict[str, float]:
        """One update: roll out, estimate, learn."""
        assert self.updater is not None
        began, cpu = time.perf_counter(), time.process_time()
        self.optimizer.set_lr(learning_rate(self.actor["optim"], self.iteration, self.total))
        self.policy.weights_changed(self.iteration)
        episodes, counts = await self._roll_out()
        rolled = time.perf_counter()
        transitions = [t for e in episodes for t in e.transitions]
        self._check(episodes, f"update {self.iteration + 1}")
        metrics = {f"train/{k}": v for k, v in summarise(episodes).items()} | counts
        if any(e.valid for e in episodes) and transitions:
            batch = RowBatch.from_transitions(
                transitions, pad_id=self.pad_id, bootstrap=self.critic is not None
            )
            warm = self.iteration >= int(self.config["critic"]["warmup_steps"])
            with self._precision():
                updated, advantages = self.updater.update(
                    batch,
                    self.iteration,
                    rewards=self._rewards(batch),
                    policy=warm or self.critic is None,
                )
            metrics.update(updated)
            _note_advantages(transitions, batch, advantages.advantages)
        self._write_transitions(transitions)
        metrics["train/response_tokens"] = float(sum(len(t.response_ids) for t in transitions))
        # Rows as a trainer without chains would see them: each step's whole prompt and its reply.
        metrics["train/row_tokens"] = metrics["train/response_tokens"] + float(
            sum(len(t.prompt_ids) for t in transitions)
        )
        metrics["time/rollout"] = rolled - began
        metrics["time/environment"] = sum(e.seconds.get("environment", 0.0) for e in episodes)
        metrics["time/update"] = time.perf_counter() - rolled
        if self.device != "cpu":
            used = torch.cuda.max_memory_allocated(self.device)
            metrics["perf/max_memory_allocated_gb"] = used / 2**30
        metrics["time/cpu"] = time.process_time() - cpu
        self.progress.advance(
            "training", success=metrics["train/success"], ret=metrics["train/return"]
        )
        return metrics

    async def _roll_out(self) -> tuple[list[Episode], dict[str, float]]:
        data, algorithm = self.config["data"], self.config["algorithm"]
        want = int(data["train_batch_size"])
        size = int(self.config["actor_rollout_ref"]["rollout"]["n"])
        prefix = f"u{self.iteration:05d}"
        filtering = algorithm["filter_groups"]
        if filtering["enable"]:
            most = want * int(filtering["max_num_gen_batches"])
            names = (f"{prefix}/g{g:04d}" for g in range(most))
            return await sample_groups(self.loop, names, want=want, group_size=size, seed=self.seed)
        names = (f"{prefix}/g{g:04d}" for g in range(want))
        return await self.loop.run(list(group_jobs(names, size, seed=self.seed))), {}

    @staticmethod
    def _check(episodes: list[Episode], what: str) -> None:
        """Single episodes may fail; when all do, going on would only waste time."""
        if episodes and not any(e.valid for e in episodes):
            raise EnvironmentFault(
                f"{what}: all {len(episodes)} episodes failed, the first with: {episodes[0].fault}"
            )

    def _rewards(self, batch: RowBatch) -> torch.Tensor | None:
        """Scaled rewards; or those of the control: returns dealt to episodes at random."""
        if self.scaler is not None:
            return self.scaler(batch)
        if not self.own["shuffle_rewards"]:
            return None
        episode = batch.episode.numpy()
        ids = np.unique(episode[batch.live.numpy()])
        returns = {i: float(batch.rewards[torch.from_numpy(episode == i)].sum()) for i in ids}
        dealt = derive("shuffled rewards", self.seed, self.iteration).permutation(
            np.array([returns[i] for i in ids])
        )
        rewards = torch.zeros_like(batch.rewards)
        for i, value in zip(ids, dealt, strict=True):
            rows = np.flatnonzero((episode == i) & batch.live.numpy())
            rewards[rows[np.argmax(batch.step.numpy()[rows])]] = value
        return rewards

    def _shown(self, name: str, _: Episode) -> None:
        self.progress.advance(name)

    async def _evaluate(self) -> dict[str, float]:
        """Greedy success on the fixed panels."""
        self.judge.weights_changed(self.iteration)
        out: dict[str, float] = {}
        for name, (loop, count) in self.panels.items():
            self.progress.start(f"panel {name}", count)
            shown = partial(self._shown, f"panel {name}")
            episodes = await play_panel(loop, count, name=name, on_episode=shown)
            self.progress.finish(f"panel {name}")
            self._check(episodes, f"panel {name}")
            out |= {f"eval/{name}/{k}": v for k, v in summarise(episodes).items()}
            if self.iteration == 0 or self.iteration == self.total:
                self._write(
                    [t for e in episodes for t in e.transitions],
                    f"panel-{name}-{self.iteration:05d}.parquet",
                )
            self.progress.note(
                f"update {self.iteration}: greedy success on {name} "
                f"{out[f'eval/{name}/success']:.3f} ({count} tasks)"
            )
        return out

    # ------------------------------------------------------------------------------ files

    def _write_transitions(self, transitions: list[Transition]) -> None:
        every = int(self.own["rollout"]["save_freq"])
        first_or_last = self.iteration == 0 or self.iteration + 1 == self.total
        if every and (first_or_last or (self.iteration + 1) % every == 0):
            self._write(transitions, f"transitions-{self.iteration + 1:05d}.parquet")

    def _write(self, transitions: list[Transition], name: str) -> None:
        write_transitions(self.directory / name, transitions, run_metadata(self.config))

    def _save(self) -> None:
        tensors: dict[str, Any] = {"optimizer": self.optimizer.state_dict()}
        if self.critic is not None and self.critic_optimizer is not None:
            tensors["critic"] = self.critic.state_dict()
            tensors["critic_optimizer"] = self.critic_optimizer.state_dict()
        if self.reference is not None:
            tensors["reference"] = self.reference.state_dict()
        cold = int(self.own["cold_start"]["steps"])
        number = self.cold_step if self.phase == "cold_start" else cold + self.iteration
        self.last = save_checkpoint(
            self._checkpoints,
            number,
            model=self.model,
            tokenizer=self.tokenizer,
            tensors=tensors,
            state={
                "phase": self.phase,
                "step": self.iteration if self.phase == "rl" else -1,
                "iteration": self.iteration,
                "cold_step": self.cold_step,
                "elapsed": self._clock(),
                "cpu": self.cpu,
                "cold_cpu": self.cold_cpu,
                "reward_scaler": self.scaler.state_dict() if self.scaler else None,
            },
        )


def _note_advantages(
    transitions: list[Transition], batch: RowBatch, advantages: torch.Tensor
) -> None:
    """The row's mean advantage, stored with its transition for inspection."""
    mask = batch.train_mask
    mean = (advantages * mask).sum(1) / mask.sum(1).clamp(min=1)
    for t, value in zip(transitions, mean.tolist(), strict=False):
        t.advantage = value
