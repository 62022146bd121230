"""Grounding a game's goal into tests that take well under a microsecond each.

A goal is a conjunction of *blocks* (one for each ``exists`` at the top), a block is a disjunction
of *cases*, and a case is a set of facts that must all hold. Facts that never change are decided
here; facts that no command sequence can make true (in the planner's relaxed sense) drop their case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from agentr1_envs.alfworld.pddl import UnsupportedGame

# Positions in the engine's list of flag words; each word has one bit for an object.
CLEAN, HOT, COOL, SLICED, TOGGLED, ON = range(6)
FLAG_PREDICATES = {
    "isclean": CLEAN,
    "ishot": HOT,
    "iscool": COOL,
    "issliced": SLICED,
    "istoggled": TOGGLED,
    "ison": ON,
}
# Predicates that commands change; the rest are fixed by (:init ..).
DYNAMIC = frozenset(FLAG_PREDICATES) | {
    "inreceptacle",
    "holds",
    "holdsany",
    "atlocation",
    "objectatlocation",
    "opened",
    "checked",
}


class Case(NamedTuple):
    """Facts that must all hold; indices are those of the compiled game, -1 means no condition."""

    flags: tuple[tuple[int, int], ...]  # (flag word, bits)
    inside: tuple[tuple[int, int], ...]  # (object, receptacle)
    held: int
    location: int


class Goal(NamedTuple):
    """Blocks of cases, and the names of the facts that they look at."""

    blocks: tuple[tuple[Case, ...], ...]
    watched: frozenset[str]


Atom = tuple[str, ...]


def _variables(words: list[Any]) -> dict[str, str]:
    """``?a ?b - t ?c - u`` -> {"?a": "t", "?b": "t", "?c": "u"}."""
    out: dict[str, str] = {}
    waiting: list[str] = []
    i = 0
    while i < len(words):
        word = words[i]
        if not isinstance(word, str):
            raise UnsupportedGame("the goal's exists has a nested list of variables")
        if word == "-":
            for name in waiting:
                out[name] = words[i + 1] if i + 1 < len(words) else ""
            waiting = []
            i += 2
            continue
        waiting.append(word)
        i += 1
    if waiting or any(not isinstance(t, str) or not n.startswith("?") for n, t in out.items()):
        raise UnsupportedGame("the goal's exists has a variable without a type")
    return out


def _flatten(formula: list[Any], variables: dict[str, str], atoms: list[Atom]) -> None:
    """Pull nested ``exists`` and ``and`` into one list of variables and one of literals."""
    if not formula or not isinstance(formula[0], str):
        raise UnsupportedGame("the goal holds an empty formula")
    head, rest = formula[0], formula[1:]
    if head == "and":
        for part in rest:
            _flatten(part, variables, atoms)
    elif head == "exists":
        if len(rest) != 2 or not isinstance(rest[0], list) or not isinstance(rest[1], list):
            raise UnsupportedGame("the goal has a malformed exists")
        found = _variables(rest[0])
        if set(found) & set(variables):
            raise UnsupportedGame("the goal uses one variable name twice")
        variables.update(found)
        _flatten(rest[1], variables, atoms)
    elif head == "not" and len(rest) == 1 and rest[0][:1] == ["="] and len(rest[0]) == 3:
        atoms.append(("!=", rest[0][1], rest[0][2]))
    elif head in ("not", "or", "forall", "imply", "when", "="):
        raise UnsupportedGame(f"the goal uses {head!r}")
    elif all(isinstance(word, str) for word in rest):
        atoms.append((head, *rest))
    else:
        raise UnsupportedGame(f"the goal has a malformed atom {head!r}")


def goal_blocks(goal: list[Any]) -> list[tuple[dict[str, str], list[Atom]]]:
    """Split a parsed goal into (variables, literals), one for each conjunct at the top."""
    blocks: list[tuple[dict[str, str], list[Atom]]] = []
    parts = goal[1:] if goal[:1] == ["and"] else [goal]
    for part in parts:
        variables: dict[str, str] = {}
        atoms: list[Atom] = []
        if not isinstance(part, list):
            raise UnsupportedGame("the goal holds a bare word")
        _flatten(part, variables, atoms)
        blocks.append((variables, atoms))
    if not blocks:
        raise UnsupportedGame("the goal is empty")
    return blocks


def solutions(
    variables: dict[str, str],
    atoms: list[Atom],
    domain_of: Callable[[str], list[str]],
    with_type: Callable[[str, str], list[str]],
    possible: Callable[[Atom], bool],
) -> list[list[Atom]]:
    """All groundings of a block whose literals are each possible, by backtracking.

    Args:
        variables: variable -> type.
        atoms: literals over variables and constants; ``!=`` is built in.
        domain_of: the entities of a type.
        with_type: the entities with a fact such as ``objecttype ?e mugtype``.
        possible: whether a ground atom is, or can become, true.
    """

    def ground(atom: Atom, binding: dict[str, str]) -> Atom:
        return tuple([binding.get(word, word) for word in atom])

    candidates: dict[str, list[str]] = {}
    for v, kind in variables.items():
        unary = [a for a in atoms if a[0] != "!=" and {w for w in a[1:] if w in variables} == {v}]
        entities = domain_of(kind)
        for atom in unary:
            if atom[0] in ("objecttype", "receptacletype") and atom[1] == v and atom[2] != v:
                allowed = set(entities)
                entities = [e for e in with_type(atom[0], atom[2]) if e in allowed]
        for atom in unary:
            entities = [e for e in entities if possible(ground(atom, {v: e}))]
        candidates[v] = entities
    # Fewest candidates first, then variables that share a literal with a bound one.
    order: list[str] = []
    left = set(variables)
    while left:
        linked = {
            v
            for v in left
            if any(v in a and any(b in a[1:] for b in order) for a in atoms if a[0] != "!=")
        }
        pick = min(linked or left, key=lambda v: (len(candidates[v]), v))
        order.append(pick)
        left.discard(pick)
    checks: list[list[Atom]] = []
    bound: set[str] = set()
    for v in order:
        bound.add(v)
        checks.append(
            [
                a
                for a in atoms
                if v in a[1:] and all(x in bound or x not in variables for x in a[1:])
            ]
        )
    if any(not possible(a) for a in atoms if not any(x in variables for x in a[1:])):
        return []

    found: list[list[Atom]] = []
    binding: dict[str, str] = {}

    def search(depth: int) -> None:
        if depth == len(order):
            found.append([ground(a, binding) for a in atoms if a[0] != "!="])
            return
        v = order[depth]
        for entity in candidates[v]:
            binding[v] = entity
            for atom in checks[depth]:
                g = ground(atom, binding)
                if g[1] == g[2] if atom[0] == "!=" else not possible(g):
                    break
            else:
                search(depth + 1)
        binding.pop(v, None)

    search(0)
    return found
