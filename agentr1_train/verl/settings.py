"""verl's configuration to ours; free of verl."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from omegaconf import OmegaConf, open_dict

from agentr1_train.advantages import AdvantageConfig
from agentr1_train.losses import DEFAULT_CLIP, LossConfig

# verl's names of losses that have another name here.
LOSS_NAMES = {"vanilla": "ppo", "geo_mean": "gmpo"}
VERL_CLIP = 0.2  # verl has no null here: its default in both bounds means "not chosen"


def make_advantage(config: Any) -> AdvantageConfig:
    """The estimator of ``algorithm`` and ``agentr1``. KL in the reward is verl's own."""
    algorithm, own = config["algorithm"], config["agentr1"]
    return AdvantageConfig(
        estimator=str(algorithm["adv_estimator"]),
        gamma=float(algorithm["gamma"]),
        lam=float(algorithm["lam"]),
        norm_by_std=bool(algorithm["norm_adv_by_std_in_grpo"]),
        gigpo_mode=str(own["gigpo_mode"]),
        step_weight=float(own["gigpo_step_weight"]),
        clip=own["advantage_clip"],
    )


def make_loss(config: Any) -> LossConfig:
    """The loss of ``actor_rollout_ref.actor``."""
    actor = config["actor_rollout_ref"]["actor"]
    name = str(actor["policy_loss"]["loss_mode"])
    name = LOSS_NAMES.get(name, name)
    low, high = actor["clip_ratio_low"], actor["clip_ratio_high"]
    if name in DEFAULT_CLIP and low == high == VERL_CLIP:
        low = high = None  # the range of the loss's own publication
    return LossConfig(
        policy_loss=name,
        clip_low=low,
        clip_high=high,
        dual_clip=float(actor["clip_ratio_c"]),
        loss_weight=str(config["agentr1"]["loss_weight"]),
        kl_coef=float(actor["kl_loss_coef"]) if actor["use_kl_loss"] else 0.0,
        kl_estimator=str(actor["kl_loss_type"]),
        entropy_coef=float(actor["entropy_coeff"]),
    )


@contextlib.contextmanager
def overridden(config: Any, **values: Any) -> Iterator[None]:
    """Set keys (``__`` for dots) of a configuration for a moment."""
    keys = {name.replace("__", "."): value for name, value in values.items()}
    before = {key: OmegaConf.select(config, key) for key in keys}
    with open_dict(config):
        for key, value in keys.items():
            OmegaConf.update(config, key, value)
        try:
            yield
        finally:
            for key, value in before.items():
                OmegaConf.update(config, key, value)
