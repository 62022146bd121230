"""Between verl's rows and `RowBatch` / `Transition`; free of verl, so that it is tested without it.

A row's key is ``{uid}_{session}_{index}``: group, episode, step. What verl has no field for travels
in the row's extra field ``agentr1``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agentr1_envs.transitions import Episode, Transition
from agentr1_train.rows import NO_ID, RowBatch, dense_ids

_TEXT = ("task_id", "env_id", "action", "feedback", "stop_reason", "success", "score", "metrics")


def step_fields(
    t: Transition, *, bootstrap: bool, keep: bool, data_source: str = ""
) -> dict[str, Any]:
    """What travels with a row: numbers, and with ``keep`` what the dump of transitions needs.

    The trainer asks verl's queue for this one column: each column costs it as much as all of this.
    """
    fields: dict[str, Any] = {
        "step": t.step + bootstrap,
        "reward": 0.0 if bootstrap else float(t.reward),
        "terminated": bool(t.terminated) and not bootstrap,
        "truncated": bool(t.truncated) and not bootstrap,
        "anchor": "" if bootstrap else t.anchor,
        "bootstrap": bootstrap,
        "data_source": data_source,
    }
    if keep and not bootstrap:
        text: dict[str, Any] = {name: getattr(t, name) for name in _TEXT}
        text["observation"] = list(t.observation)
        text["next_observation"] = list(t.next_observation)
        text["agent_error"], text["extra"] = t.agent_error, t.extra
        text["policy_version"] = t.policy_version
        fields["transition"] = json.dumps(text, ensure_ascii=False, default=str)
        fields["tokens"] = (t.prompt_ids, t.response_ids, t.response_logprobs)
    return fields


def items(x: Any) -> list[Any]:
    """A non-tensor column as a list."""
    return [getattr(v, "data", v) for v in (x.tolist() if hasattr(x, "tolist") else x)]


def is_padding(key: str) -> bool:
    """verl names its padding rows ``pad<hex>_..``; the uids of real rows are hex and dashes."""
    return key.startswith("pad")


def to_rows(
    keys: Sequence[str], fields: Sequence[Mapping[str, Any]], mask: Tensor, logprobs: Tensor
) -> RowBatch:
    """Rows of a batch, in its order.

    Args:
        keys: N row keys.
        fields: N dicts as of `step_fields`; those of padding rows are not looked at.
        mask: [N, T], tokens that are trained.
        logprobs: [N, T], of the policy that sampled.
    """
    n = len(keys)
    pad = np.fromiter((is_padding(k) for k in keys), bool, n)

    def column(name: str, kind: Any) -> Tensor:
        values = (0 if p else f[name] for p, f in zip(pad, fields, strict=True))
        return torch.from_numpy(np.fromiter(values, kind, n))

    def ids(names: Sequence[Any]) -> Tensor:
        return torch.from_numpy(np.where(pad, NO_ID, dense_ids(names)))

    mask = mask.bool() & ~torch.from_numpy(pad)[:, None]
    anchors = [None if p else f["anchor"] or None for p, f in zip(pad, fields, strict=True)]
    empty = torch.zeros((n, 0), dtype=torch.int64)
    return RowBatch(
        prompt_ids=empty,
        prompt_mask=empty.bool(),
        response_ids=torch.zeros_like(mask, dtype=torch.int64),
        response_mask=mask,
        response_logprobs=logprobs.float(),
        rewards=column("reward", np.float64),
        terminated=column("terminated", np.bool_),
        truncated=column("truncated", np.bool_),
        episode=ids([k.rsplit("_", 1)[0] for k in keys]),
        group=ids([k.rsplit("_", 2)[0] for k in keys]),
        anchor=ids(anchors),
        step=column("step", np.int64),
        valid=torch.ones(n, dtype=torch.bool),
        padding=torch.from_numpy(pad),
        bootstrap=column("bootstrap", np.bool_),
    )


def episode_summary(episode: Episode) -> dict[str, float]:
    """What verl logs of an episode, and averages over a validation set."""
    steps = episode.transitions
    return {
        "acc": float(episode.success),
        "success": float(episode.success),
        "score": float(episode.score),
        "steps": float(len(steps)),
        "errors": float(sum(t.agent_error is not None for t in steps)),
        "tool_calls": float(sum(t.metrics.get("tool_calls", 0) for t in steps)),
        "truncated": float(steps[-1].truncated),
        "env_seconds": episode.seconds.get("environment", 0.0),
    }


def task_metrics(
    keys: Sequence[str], extra: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, float], float]:
    """Means over the episodes of each data source, and all seconds spent in environments."""
    by_source: dict[str, dict[str, Mapping[str, float]]] = {}
    for key, f in zip(keys, extra, strict=True):
        if not is_padding(key):
            sessions = by_source.setdefault(f["agentr1"]["data_source"], {})
            sessions[key.rsplit("_", 1)[0]] = f["reward_extra_info"]
    metrics: dict[str, float] = {}
    seconds = 0.0
    for source, sessions in by_source.items():
        infos = list(sessions.values())
        seconds += sum(i["env_seconds"] for i in infos)
        for name in infos[0]:
            short = source.removeprefix("agentr1/")
            metrics[f"agentr1/{short}/{name}"] = float(np.mean([i[name] for i in infos]))
    return metrics, seconds


def step_rewards(fields: Sequence[Mapping[str, Any]], width: int, lengths: Sequence[int]) -> Tensor:
    """Each row's reward at its last token, float32 [N, width]: where verl keeps scores.

    Rows without fields are padding and have none.
    """
    scores = torch.zeros(len(fields), width)
    rewards = torch.tensor([f.get("reward", 0.0) for f in fields])
    scores[torch.arange(len(fields)), torch.tensor(lengths) - 1] = rewards
    return scores


def to_transitions(
    keys: Sequence[str],
    fields: Sequence[Mapping[str, Any]],
    masks: Sequence[Tensor],
    advantages: Sequence[Tensor],
) -> list[Transition]:
    """The batch's steps as the local back end stores them, episode by episode.

    Masks and advantages may be padded on the right.
    """
    out = []
    for key, f, mask, adv in zip(keys, fields, masks, advantages, strict=True):
        if is_padding(key) or f["bootstrap"] or "transition" not in f:
            continue
        text = json.loads(f["transition"])
        prompt, response, logprobs = f["tokens"]
        trained = adv[: len(response)][mask[: len(response)].bool()]
        uid, session, _ = key.rsplit("_", 2)
        out.append(
            Transition(
                episode_id=f"{uid}_{session}",
                group_id=uid,
                step=int(f["step"]),
                reward=float(f["reward"]),
                terminated=bool(f["terminated"]),
                truncated=bool(f["truncated"]),
                anchor=f["anchor"],
                observation=tuple(text.pop("observation")),
                next_observation=tuple(text.pop("next_observation")),
                prompt_ids=prompt,
                response_ids=response,
                response_logprobs=logprobs,
                advantage=float(trained.mean()) if len(trained) else None,
                **text,
            )
        )
    out.sort(key=lambda t: (t.group_id, t.episode_id, t.step))
    return out
