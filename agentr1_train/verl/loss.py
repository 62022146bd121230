"""`agentr1_train.losses` as verl's loss functions: called in its workers on each micro-batch."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.padding import no_padding_2_padding

from agentr1_train.losses import LossConfig, policy_loss, value_loss

WEIGHTS, VALUE_WEIGHTS = "agentr1_weights", "agentr1_value_weights"


def _parts(data: TensorDict, *fields: str) -> tuple[int, dict[str, torch.Tensor]]:
    """Data-parallel size, and fields as padded [n, T] tensors."""
    present = [name for name in fields if name in data]
    padded = data.select(*present).to_padded_tensor()
    return int(data["dp_size"]), {name: padded[name] for name in present}


def _metrics(metrics: dict[str, float], scale: int) -> dict[str, Any]:
    """Losses are parts of a sum over micro-batches and ranks; the rest are averages."""
    return {
        name: Metric(value=value * scale, aggregation=AggregationType.SUM)
        if name.endswith(("_loss", "/kl", "/entropy"))
        else Metric(value=value, aggregation=AggregationType.MEAN)
        for name, value in metrics.items()
    }


def actor_loss(
    cfg: LossConfig, model_output: dict[str, Any], data: TensorDict, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, Any]]:
    """The policy loss with its KL and entropy terms.

    The weights were computed by the trainer over the whole update and sum to 1 there, so padding
    rows and the split into micro-batches change nothing. Ranks average their gradients, hence the
    factor of the data-parallel size.
    """
    logprobs = no_padding_2_padding(model_output["log_probs"], data)
    entropy = model_output.get("entropy")
    if entropy is not None:
        entropy = no_padding_2_padding(entropy, data)
    dp, part = _parts(data, "response_mask", "old_log_probs", "advantages", "ref_log_prob", WEIGHTS)
    loss, metrics = policy_loss(
        logprobs,
        part["old_log_probs"],
        part["advantages"],
        # What weighs nothing counts nowhere: padding, rejected and failed rows.
        part["response_mask"].bool() & (part[WEIGHTS] > 0),
        None,
        cfg,
        weights=part[WEIGHTS],
        ref_logprobs=part.get("ref_log_prob"),
        entropy=entropy,
    )
    return loss * dp, _metrics(metrics, dp)


def critic_loss(
    clip: float, model_output: dict[str, Any], data: TensorDict, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, Any]]:
    """The value loss, at the positions that the estimator named."""
    values = no_padding_2_padding(model_output["values"], data)
    dp, part = _parts(data, "values", "returns", VALUE_WEIGHTS)
    weights = part[VALUE_WEIGHTS]
    loss, metrics = value_loss(
        values, part["returns"], weights > 0, old_values=part["values"], clip=clip, weights=weights
    )
    return loss * dp, _metrics(metrics, dp)
