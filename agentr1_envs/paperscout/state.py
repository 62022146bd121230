"""What a model is shown: the observation alone, which holds the whole state of the search."""

from __future__ import annotations

from typing import Any


def pool_state(context: Any) -> str:
    """Writer for the context rule `Rewrite`: the last observation, with nothing before it.

    The environment rebuilds its observation at each step (query, pool, history), so the turns
    taken add nothing but length. Use as
    ``context={"name": "rewrite", "fn": "agentr1_envs.paperscout.state:pool_state"}``.

    Args:
        context: the rule's `ContextInput`.
    """
    return context.observation
