"""One ALFWorld game compiled into tables: everything that does not change while it is played.

A compiled game is shared by all environments that play it; what an episode changes lives in
:class:`agentr1_envs.alfworld.engine.StateEngine`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentr1_envs.alfworld.goal import Goal
from agentr1_envs.alfworld.grammar import Wording


class UnreachableGoal(ValueError):
    """No sequence of commands can reach the goal (the real engine cannot load such a game)."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class CompiledGame:
    """Tables of one game. Objects and receptacles are numbered in the order of their sorted ids.

    Attributes that end in ``_bits`` are integers with one bit for an object (or receptacle).
    """

    wording: Wording
    goal_text: str
    goal: Goal
    object_ids: tuple[str, ...]
    receptacle_ids: tuple[str, ...]
    objects: tuple[str, ...]  # names that players see
    receptacles: tuple[str, ...]
    object_types: tuple[str, ...]  # lower case, without "type"; "" where the file gives none
    receptacle_types: tuple[str, ...]
    location_names: tuple[str, ...]
    # Layout
    location_of: tuple[int, ...]  # receptacle -> location, -1 for one that can't be reached
    receptacles_at: dict[int, tuple[int, ...]]
    goto: dict[str, int]  # command -> receptacle
    goto_sorted: tuple[str, ...]
    openable_bits: int
    sink_bits: int
    microwave_bits: int
    fridge_bits: int
    # Objects
    accepts: tuple[int, ...]  # object -> bits of the receptacles that it may be put in
    pickupable_bits: int
    cleanable_bits: int
    heatable_bits: int
    coolable_bits: int
    toggleable_bits: int
    sliceable_bits: int
    knife_bits: int
    inner: dict[int, tuple[int, ...]]  # movable receptacle -> objects inside it
    # Start
    start_location: int
    start_held: int
    start_opened: int
    start_contents: tuple[tuple[int, ...], ...]  # receptacle -> objects, sorted
    start_flags: tuple[int, ...]
    start_places: frozenset[tuple[int, int]]  # (object, location): objectAtLocation
    # Filled in by the engine when first needed; the same value whichever thread writes it.
    goto_lists: dict[int, tuple[str, ...]] = field(default_factory=dict)
    intro: str = ""


def entity_names(ids: Iterable[str]) -> dict[str, str]:
    """The names that players see.

    The rule is that of ALFWorld's demangler: ids are sorted, ``mug_bar_..`` becomes ``mug N``, the
    numbers of a kind are handed out from the highest down to 1, and ``basin`` anywhere in an id is
    appended to its kind.
    """
    kinds: dict[str, str] = {}
    counts: dict[str, int] = defaultdict(int)
    ordered = sorted(ids)
    for entity in ordered:
        kind, bar, _ = entity.partition("_bar_")
        if bar:
            if "basin" in entity:
                kind += "basin"
            kinds[entity] = kind
            counts[kind] += 1
    names: dict[str, str] = {}
    for entity in ordered:
        kind = kinds.get(entity, "")
        if kind:
            names[entity] = sys.intern(f"{_unescape(kind)} {counts[kind]}")
            counts[kind] -= 1
        else:
            names[entity] = _unescape(entity) + " "
    return names


def _unescape(text: str) -> str:
    if "_" in text:
        for mark, char in (("minus", "-"), ("plus", "+"), ("dot", "."), ("comma", ",")):
            text = text.replace(f"_{mark}_", char)
    return text
