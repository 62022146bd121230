"""What verl imports in each process: ``VERL_USE_EXTERNAL_MODULES=agentr1_train.verl.plugin``.

Importing verl's trainers takes seconds, and most processes (rollout servers, training workers) do
not need them, so everything here waits until verl itself imports the module it belongs to.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

import verl

from agentr1_train.verl import check_version
from agentr1_train.verl.after_import import AfterImport

check_version(verl.__version__)  # here, so that it ends the command itself and not a far worker


def _register_trainers(_: ModuleType) -> None:
    importlib.import_module("agentr1_train.verl.trainer")


def _register_agent_loop(module: Any) -> None:
    target = "agentr1_train.verl.agent_loop.GymStepAgentLoop"
    module._agent_loop_registry["agentr1_gym_step"] = {"_target_": target}


def _value_model_attention(module: Any) -> None:
    """verl loads value models with flash_attention_2 only; without flash-attn they get sdpa."""
    load = module.load_valuehead_model

    def load_valuehead_model(
        local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool
    ) -> Any:
        from transformers import AutoModelForTokenClassification

        if importlib.util.find_spec("flash_attn") is not None:
            return load(local_path, torch_dtype, model_config, trust_remote_code)
        wanted = getattr(model_config, "_attn_implementation", None) or "sdpa"
        return AutoModelForTokenClassification.from_pretrained(
            local_path,
            dtype=torch_dtype,
            config=model_config,
            attn_implementation="sdpa" if wanted.startswith("flash") else wanted,
            trust_remote_code=trust_remote_code,
        )

    module.load_valuehead_model = load_valuehead_model


def _fast_logprobs(module: Any) -> None:
    """Without flash-attn verl loops over tokens in Python; chunks of rows cost a few kernels."""
    import torch

    def logprobs_from_logits_v2(logits: Any, labels: Any) -> Any:
        shape = labels.shape
        flat, ids = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
        # About 256 MB of float32 logits at a time.
        rows = max(1, (1 << 26) // flat.shape[-1])
        parts = [
            -torch.nn.functional.cross_entropy(x.float(), y, reduction="none")
            for x, y in zip(flat.split(rows), ids.split(rows), strict=True)
        ]
        return torch.cat(parts).reshape(shape) if parts else flat.new_zeros(shape)

    if os.environ.get("AGENTR1_VERL_LOGPROBS") != "verl":  # to measure what it gains
        module.logprobs_from_logits_v2 = logprobs_from_logits_v2


_after = AfterImport()
sys.meta_path.insert(0, _after)
_after.add("verl.trainer.ppo.v1.trainer_sync", _register_trainers)
_after.add("verl.experimental.agent_loop.agent_loop", _register_agent_loop)
_after.add("verl.utils.model", _value_model_attention)
_after.add("verl.utils.torch_functional", _fast_logprobs)
_after.add(
    "transformers.modeling_utils",
    lambda _: importlib.import_module("agentr1_train.attention").register(),
)
if os.environ.get("VERL_PLATFORM") == "cpu":
    from agentr1_train.verl.cpu import platform as _platform

    _platform.install(_after.add)
