"""What several bridges share: the tasks of a split as rows, and environments made of them."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym


def task_specs(
    env_id: str, *, split: str = "train", limit: int | None = None, **kwargs: Any
) -> list[dict[str, Any]]:
    """The tasks of a split as specs for `agentr1_wrappers.make_agent_env`.

    A spec names its task by index: it holds no answer.

    Args:
        env_id: A Gymnasium id of the suite.
        split: The split.
        limit: Only the first so many tasks. Generated splits can be long: give one.
        **kwargs: Further arguments of the environment.

    Returns:
        ``{"task_id", "index", "spec"}`` each.
    """
    env = gym.make(env_id, split=split, **kwargs)
    panel = env.unwrapped.tasks  # type: ignore[attr-defined]
    count = len(panel) if limit is None else min(limit, len(panel))
    rows = []
    for index in range(count):
        spec = {
            "env_id": env_id,
            "kwargs": {**kwargs, "split": split},
            "options": {"task_index": index},
        }
        rows.append({"task_id": panel[index]["task_id"], "index": index, "spec": spec})
    env.close()
    return rows


def open_chat(spec: dict[str, Any] | str, **defaults: Any) -> tuple[Any, dict[str, Any]]:
    """A chat environment of `spec` and its reset options; `defaults` fill keys it lacks."""
    from agentr1_wrappers import make_agent_env, reset_options
    from agentr1_wrappers.agent_env import read_spec

    full = {**defaults, **read_spec(spec)}
    return make_agent_env(full), reset_options(full)


def first_messages(spec: dict[str, Any] | str, **defaults: Any) -> list[dict[str, Any]]:
    """The messages that open an episode of `spec`."""
    env, options = open_chat(spec, **defaults)
    messages, _ = env.reset(options=options)
    env.close()
    return [dict(message) for message in messages]


def spec_json(spec: dict[str, Any]) -> str:
    """`spec` as JSON, for columns that hold text."""
    return json.dumps(spec, ensure_ascii=False)
