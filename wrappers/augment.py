"""Augmentations: text added to the last message of the model's input."""

from __future__ import annotations

from collections.abc import Callable

from agentr1_wrappers.context import ContextInput

from agentr1_envs.tags import between


def admissible_actions(context: ContextInput) -> str:
    """The actions that would do something now, one a line."""
    actions = context.info.get("admissible_actions")
    return "Admissible actions:\n" + "\n".join(actions) if actions else ""


MAX_CHARS = 2000


def notes(context: ContextInput) -> str:
    """What the model has written in ``<note>..</note>`` so far, the newest notes if it is much.

    Notes stay when the context rule has long left out the replies they were written in.
    """
    found: list[str] = []
    for turn in context.turns:
        for text in between(turn.action, "note"):
            text = " ".join(text.split())
            if text and text not in found:
                found.append(text)
    kept: list[str] = []
    size = 0
    for text in reversed(found):
        size += len(text) + 3
        if size > MAX_CHARS and kept:
            break
        kept.append(f"- {text[:MAX_CHARS]}")
    return "Your notes:\n" + "\n".join(reversed(kept)) if kept else ""


def scratchpad(context: ContextInput) -> str:
    """The last ``<scratchpad>..</scratchpad>`` that the model wrote; a new one replaces it."""
    for turn in reversed(context.turns):
        found = between(turn.action, "scratchpad")
        if found:
            text = found[-1].strip()[:MAX_CHARS]
            return f"Your scratchpad:\n{text}" if text else ""
    return ""


AUGMENTATIONS: dict[str, Callable[[ContextInput], str]] = {
    "admissible_actions": admissible_actions,
    "notes": notes,
    "scratchpad": scratchpad,
}
