"""From the configuration's keys (verl's names) to the objects that they set up."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..advantages import AdvantageConfig
from ..losses import LossConfig
from .update import UpdateConfig


def make_advantage(config: Mapping[str, Any]) -> AdvantageConfig:
    """The estimator of ``algorithm``."""
    a, own = config["algorithm"], config["agentr1"]
    names = {"kl": "k1", "mse": "k2", "low_var_kl": "k3"}
    return AdvantageConfig(
        estimator=a["adv_estimator"],
        gamma=float(a["gamma"]),
        lam=float(a["lam"]),
        norm_by_std=bool(a["norm_adv_by_std_in_grpo"]),
        gigpo_mode=own["gigpo_mode"],
        step_weight=float(own["gigpo_step_weight"]),
        kl_in_reward=float(a["kl_ctrl"]["kl_coef"]) if a["use_kl_in_reward"] else 0.0,
        kl_estimator=names.get(a["kl_penalty"], a["kl_penalty"]),
        clip=own["advantage_clip"],
    )


def make_loss(config: Mapping[str, Any]) -> LossConfig:
    """The loss of ``actor_rollout_ref.actor``."""
    a = config["actor_rollout_ref"]["actor"]
    return LossConfig(
        policy_loss=a["policy_loss"]["loss_mode"],
        clip_low=a["clip_ratio_low"],
        clip_high=a["clip_ratio_high"],
        dual_clip=a["clip_ratio_c"],
        loss_weight=config["agentr1"]["loss_weight"],
        kl_coef=float(a["kl_loss_coef"]) if a["use_kl_loss"] else 0.0,
        kl_estimator=a["kl_loss_type"],
        entropy_coef=float(a["entropy_coeff"]),
    )


def make_update(config: Mapping[str, Any], half: bool) -> UpdateConfig:
    """How batches become optimizer steps; ``half``: the passes run in half precision."""
    a = config["actor_rollout_ref"]["actor"]
    old = config["agentr1"]["old_logprobs"]
    if old not in ("auto", "rollout", "recompute"):
        raise ValueError(f"agentr1.old_logprobs: {old!r}, expected auto, rollout or recompute")
    return UpdateConfig(
        mini_batch_groups=a["ppo_mini_batch_size"],
        epochs=int(a["ppo_epochs"]),
        max_tokens=int(a["ppo_max_token_len_per_gpu"]),
        grad_clip=float(a["grad_clip"]),
        temperature=float(config["actor_rollout_ref"]["rollout"]["temperature"]),
        recompute_old=old == "recompute" or (old == "auto" and half),
        value_clip=config["critic"]["cliprange_value"],
        distill_clip=float(config["agentr1"]["distill"]["clip"]),
        distill_coef=float(config["agentr1"]["distill"]["coef"]),
        distill_with_reward=bool(config["agentr1"]["distill"]["task_reward"]),
    )


def run_metadata(config: Mapping[str, Any]) -> dict[str, str]:
    """What a run's files should be known by: versions, git hash, seed, configuration."""
    import transformers

    from agentr1_envs import __version__

    return {
        "agentr1": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "git": _git_hash(),
        "seed": str(config["agentr1"]["seed"]),
        "env": json.dumps(config["agentr1"]["env"], ensure_ascii=False),
        "recipe": str(config.get("recipe", "")),
    }


def _git_hash() -> str:
    """Of the checkout this file stands in; empty for an installed package."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
