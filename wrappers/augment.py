"""Augmentations: text added to the last message of the model's input."""

from __future__ import annotations

from collections.abc import Callable

from agentr1_wrappers.context import ContextInput


def admissible_actions(context: ContextInput) -> str:
    """The actions that would do something now, one a line."""
    actions = context.info.get("admissible_actions")
    return "Admissible actions:\n" + "\n".join(actions) if actions else ""


AUGMENTATIONS: dict[str, Callable[[ContextInput], str]] = {
    "admissible_actions": admissible_actions,
}
