"""verl's V1 trainers with step-level rewards, estimators, losses and padding."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transfer_queue as tq
import verl
from omegaconf import open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.distillation import is_distillation_enabled
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.v1 import trainer_base
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.seqlen_balancing import log_seqlen_unbalance

from agentr1_train.advantages import VALUE_ESTIMATORS, RewardScaler, compute_advantages
from agentr1_train.balance import PADDING, plan, update_of
from agentr1_train.losses import loss_weights
from agentr1_train.verl import check_version
from agentr1_train.verl.batch import items, step_rewards, task_metrics, to_rows
from agentr1_train.verl.files import RunFiles
from agentr1_train.verl.loss import VALUE_WEIGHTS, WEIGHTS, actor_loss, critic_loss
from agentr1_train.verl.settings import make_advantage, make_loss, overridden

check_version(verl.__version__)


class StepLevel:
    """Mixed into one of verl's trainers, before it."""

    base_mode = "sync"
    # What verl's trainer brings.
    config: Any
    use_critic: bool
    global_steps: int
    parameter_sync_step: Any
    actor_rollout_wg: Any
    critic_wg: Any
    tokenizer: Any

    def __init__(self, config: Any) -> None:
        if config.critic.enable is None:
            with open_dict(config):
                config.critic.enable = config.algorithm.adv_estimator in VALUE_ESTIMATORS
        self.files = RunFiles(config, verl.__version__)
        self.adapter_seconds: Any = None
        self.rows: dict[str, list[Any]] = {}  # of an iteration, by key; no padding
        self.columns: dict[str, bool] = {}  # of rows; whether it is a tensor
        super().__init__(config)  # type: ignore[call-arg]

    # ------------------------------------------------------------------ set-up
    def _build_replay_buffer(self) -> Any:
        own, actor = self.config.agentr1, self.config.actor_rollout_ref.actor
        # verl compares its mode's name with "sync" in several places.
        self.trainer_mode = self.base_mode
        self.advantage = make_advantage(self.config)
        self.loss = make_loss(self.config)
        if self.advantage.needs_values and not self.use_critic:
            raise ValueError(f"{self.advantage.estimator} needs a critic: set critic.enable=true")
        if actor.get("shuffle") or self.config.critic.get("shuffle"):
            raise ValueError("actor.shuffle, critic.shuffle: expected false, updates are planned")
        if is_distillation_enabled(self.config.get("distillation")):
            raise ValueError(
                "distillation.enabled: verl asks its teacher for an episode's last row only; "
                "the local back end distils all steps"
            )
        self.scaler = RewardScaler(self.advantage.gamma) if own.reward_scale == "pspo" else None
        buffer = super()._build_replay_buffer()  # type: ignore[misc]
        buffer.poll_interval = float(own.verl.poll_interval)
        return buffer

    def _setup(self) -> None:
        super()._setup()  # type: ignore[misc]
        self.actor_rollout_wg.set_loss_fn(partial(actor_loss, self.loss))
        if self.use_critic:
            clip = self.config.critic.cliprange_value
            self.critic_wg.set_loss_fn(partial(critic_loss, clip))

    def _updates(self, part: Any) -> int:
        """Optimizer steps an iteration: prompts a batch over prompts an update."""
        prompts = self.config.data.train_batch_size // self.parameter_sync_step
        if prompts % part.ppo_mini_batch_size:
            raise ValueError(
                f"ppo_mini_batch_size: {part.ppo_mini_batch_size}, expected a divisor of the "
                f"{prompts} prompts a batch"
            )
        return prompts // part.ppo_mini_batch_size

    # ------------------------------------------------------------------ rewards and padding
    def _balance_batch(
        self, batch: KVBatchMeta, metrics: dict[str, Any], logging_prefix: str = "global_seqlen",
        keep_minibatch: bool = False,
    ) -> KVBatchMeta:  # fmt: skip
        """Plan rows over ranks and updates with few paddings."""
        began = time.perf_counter()
        data = tq.kv_batch_get(batch.keys, batch.partition_id, select_fields=["extra_fields"])
        for key, extra in zip(batch.keys, items(data["extra_fields"]), strict=True):
            self.rows[key] = [extra]
        if not self.columns:
            # All rows have the same columns.
            row = tq.kv_batch_get(batch.keys[:1], batch.partition_id)
            self.columns = {k: isinstance(v, torch.Tensor) for k, v in row.items()}
            if any(items(row.get("multi_modal_inputs", []))):  # a dict, which the model reads
                self.columns["multi_modal_inputs"] = True
        wg = self.actor_rollout_wg
        if "actor" not in wg._dispatch_info:
            wg._dispatch_info["actor"] = wg._query_dispatch_info("actor")
        self.ranks = max(wg._dispatch_info["actor"]) + 1
        updates = self._updates(self.config.actor_rollout_ref.actor)
        if self.use_critic:
            updates = math.lcm(updates, self._updates(self.config.critic))
        n = len(batch)
        tokens = [tag["seq_len"] for tag in batch.tags]
        names: dict[str, int] = {}
        episodes = [names.setdefault(k.rsplit("_", 1)[0], len(names)) for k in batch.keys]
        order = plan(
            tokens, episodes, self.ranks, updates,
            whole_episodes=bool(self.config.agentr1.verl.whole_episodes),
        )  # fmt: skip
        if len(order) > n:  # to exactly that many rows: n modulo more than n is n
            batch = upsample_batch_to_divisible_size(batch, len(order), self.tokenizer.eos_token_id)
        free = iter(range(n, len(order)))
        placed = [next(free) if i == PADDING else i for i in order]
        batch.reorder(placed)
        share = len(order) // self.ranks
        lengths = [tag["seq_len"] for tag in batch.tags]
        parts = [list(range(r * share, (r + 1) * share)) for r in range(self.ranks)]
        metrics.update(log_seqlen_unbalance(lengths, parts, logging_prefix))
        expected = self.config.data.train_batch_size // self.parameter_sync_step
        expected *= self.config.actor_rollout_ref.rollout.n
        metrics["agentr1/padding_rows"] = len(order) - n
        metrics["agentr1/failed_episodes"] = expected - len(names)
        batch.fields = self._tensors(self.columns)
        self.adapter_seconds += time.perf_counter() - began
        return batch

    def _tensors(self, names: Iterable[str]) -> list[str]:
        """The columns that workers read.

        By default verl sends them all, and a row has its dataset's too: games, prompts, texts, each
        of them an object that is pickled, selected and moved to the device by itself.
        """
        return [name for name in names if self.columns.get(name, True)]

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        batch = super()._compute_old_log_prob(batch, metrics)  # type: ignore[misc]
        batch.fields = self._tensors(batch.fields)
        return batch

    # ------------------------------------------------------------------ advantages
    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """verl's own method, with our estimators where it calls its own, on each step's own reward.

        Its KL penalty, its rollout correction and its write-back stay. What it stores as rewards is
        the episode's return on every row, which its group filter reads before this.
        """
        began = time.perf_counter()
        lengths = [tag["response_len"] for tag in batch.tags]
        fields = [self.rows[k][0]["agentr1"] if k in self.rows else {} for k in batch.keys]
        made: dict[str, torch.Tensor] = {}

        def estimate(data: Any, batch_keys: list[str], **_: Any) -> Any:
            began = time.perf_counter()
            part = data.batch
            scores = step_rewards(fields, part["response_mask"].shape[1], lengths)
            # Against the KL divergence, where that is among the rewards.
            paid = part["token_level_rewards"] - part["token_level_scores"]
            part["token_level_scores"] = part["rm_scores"] = made["rm_scores"] = scores
            part["token_level_rewards"] = scores + paid
            logprobs = part.get("rollout_log_probs", part.get("old_log_probs"))
            rows = to_rows(batch_keys, fields, part["response_mask"], logprobs)
            rewards = self.scaler(rows) if self.scaler else None
            result = compute_advantages(
                rows, self.advantage, part.get("values"), rewards=rewards,
                token_rewards=paid if self.config.algorithm.use_kl_in_reward else None,
            )  # fmt: skip
            part["advantages"], part["returns"] = result.advantages, result.returns
            for k, *row in zip(batch_keys, part["response_mask"], result.advantages, strict=True):
                self.rows.get(k, []).extend(row)
            made.update(self._weights(rows, result.value_mask, part.get("rollout_is_weights")))
            metrics.update({f"agentr1/{k}": v for k, v in result.metrics.items()})
            self.files.debug(self.global_steps, batch_keys, rows, part, result)
            self.adapter_seconds += time.perf_counter() - began
            return data

        replaced = trainer_base.compute_advantage_for_multi_trajectories
        trainer_base.compute_advantage_for_multi_trajectories = estimate
        self.adapter_seconds += time.perf_counter() - began
        try:
            batch = super()._compute_advantage(batch, metrics)  # type: ignore[misc]
        finally:
            trainer_base.compute_advantage_for_multi_trajectories = replaced
        began = time.perf_counter()
        rows = {k: [x[:n] for x, n in zip(v, lengths, strict=True)] for k, v in made.items()}
        nested = {k: torch.nested.as_nested_tensor(v, layout=torch.jagged) for k, v in rows.items()}
        batch = tq.kv_batch_put(
            keys=batch.keys, partition_id=batch.partition_id,
            fields=TensorDict(nested, batch_size=len(batch)),
        )  # fmt: skip
        batch.fields = self._tensors(batch.fields)
        self.adapter_seconds += time.perf_counter() - began
        return batch

    def _weights(self, rows: Any, value_mask: Any, corrections: Any) -> dict[str, torch.Tensor]:
        """Loss weights that sum to 1 in each update."""
        weights = torch.zeros_like(rows.response_logprobs)
        n = len(rows)

        def per_update(part: Any) -> Iterator[torch.Tensor]:
            updates = self._updates(part)
            where = torch.tensor(update_of(n, self.ranks, updates))
            yield from ((where == u).nonzero()[:, 0] for u in range(updates))

        for index in per_update(self.config.actor_rollout_ref.actor):
            weights[index] = loss_weights(rows.select(index), self.loss.loss_weight)
        if corrections is not None:
            weights = weights * corrections
        made = {WEIGHTS: weights}
        if self.use_critic:
            made[VALUE_WEIGHTS] = value_mask.float()
            for index in per_update(self.config.critic):
                made[VALUE_WEIGHTS][index] /= value_mask[index].sum().clamp(min=1)
        return made

    # ------------------------------------------------------------------ updates
    def _update_critic(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        rows = len(batch) // self._updates(self.config.critic)
        with overridden(
            self.config, critic__ppo_mini_batch_size=rows, actor_rollout_ref__rollout__n=1
        ):
            return super()._update_critic(batch, metrics)  # type: ignore[misc]

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        rows = len(batch) // self._updates(self.config.actor_rollout_ref.actor)
        with overridden(
            self.config,
            actor_rollout_ref__actor__ppo_mini_batch_size=rows,
            actor_rollout_ref__rollout__n=1,
        ):
            return super()._update_actor(batch, metrics)  # type: ignore[misc]

    # ------------------------------------------------------------------ logs, dumps, checkpoints
    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> KVBatchMeta:
        """One iteration; its transitions are on disk before its checkpoint says it is done."""
        self.adapter_seconds, self.rows = 0.0, {}
        batch = super().step(metrics, timing_raw)  # type: ignore[misc]
        began = time.perf_counter()
        rows = {k: self.rows[k] for k in batch.keys if k in self.rows}
        extra, *columns = zip(*rows.values(), strict=True)
        found, self.env_seconds = task_metrics(list(rows), extra)
        metrics.update(found)
        if self.config.agentr1.verl.dump:
            self.files.transitions(self.global_steps, list(rows), extra, columns)
        self.adapter_seconds += time.perf_counter() - began
        return batch

    def _validate(self) -> dict[str, float]:
        found: dict[str, float] = super()._validate()  # type: ignore[misc]
        if self.adapter_seconds is None:  # before the first step; later it is among its metrics
            self.files.metrics(self.global_steps, found, after=self.global_steps)
        return found

    def _compute_metrics(
        self, batch: KVBatchMeta, metrics: dict[str, Any], timing_raw: dict[str, float],
        global_steps: int, epoch: int,
    ) -> None:  # fmt: skip
        rest = (timing_raw, global_steps, epoch)
        super()._compute_metrics(batch, metrics, *rest)  # type: ignore[misc]
        # Environments run inside the workers' event loops: side by side, one after another in each.
        workers = self.config.actor_rollout_ref.rollout.agent.num_workers
        share = (self.env_seconds / workers + self.adapter_seconds) / max(timing_raw["step"], 1e-9)
        metrics["agentr1/env_seconds"] = self.env_seconds
        metrics["agentr1/adapter_seconds"] = self.adapter_seconds
        metrics["agentr1/env_and_adapter_share"] = share
        self.files.metrics(global_steps, metrics, after=global_steps - 1)

    def _save_checkpoint(self) -> None:
        if self.scaler:  # before verl's own, which declares the checkpoint complete
            folder = Path(self.config.trainer.default_local_dir, f"global_step_{self.global_steps}")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "reward_scaler.json").write_text(json.dumps(self.scaler.state_dict()))
        super()._save_checkpoint()  # type: ignore[misc]

    def _load_checkpoint(self) -> None:
        self.files.mend_tracker()
        super()._load_checkpoint()  # type: ignore[misc]
        root = Path(self.config.trainer.default_local_dir)
        state = root / f"global_step_{self.global_steps}" / "reward_scaler.json"
        if self.scaler and self.global_steps and state.is_file():
            self.scaler.load_state_dict(json.loads(state.read_text()))


@register_trainer("agentr1_sync")
class Sync(StepLevel, PPOTrainerSync):
    """Rollout and training in turns on the same devices."""


@register_trainer("agentr1_colocate_async")
class ColocateAsync(StepLevel, PPOTrainerColocateAsync):
    """verl's colocate_async: long episodes go on while the next update runs."""

    base_mode = "colocate_async"


@register_trainer("agentr1_separate_async")
class SeparateAsync(StepLevel, PPOTrainerSeparateAsync):
    """verl's separate_async: rollout on devices of its own."""

    base_mode = "separate_async"
