"""Reading an ALFRED planning problem (PDDL) the way the planner behind TextWorld reads it.

Only what ALFWorld's problems use is understood: typed objects, ground facts in ``:init`` (numeric
fluents such as ``(= (distance a b) 3)`` are skipped, as the engine skips them) and a goal made of
``and``, ``or``, ``exists``, ``not (= ..)`` and positive atoms. Everything is lower-cased and
comments run from ``;`` to the end of the line, as in Fast Downward's reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


class UnsupportedGame(ValueError):
    """The state engine does not know this domain, grammar or problem form; the real engine may."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One planning problem.

    Attributes:
        types: object id -> type name, in the order of ``:objects``.
        facts: ``(predicate, arg, ...)`` tuples, in the order of ``:init``.
        goal: nested lists, e.g. ``["and", ["exists", ["?o", "-", "object"], [...]]]``.
    """

    types: dict[str, str]
    facts: list[tuple[str, ...]]
    goal: list[Any]


_COMMENT = re.compile(r";[^\n]*")
_TOKEN = re.compile(r"[()]|[^\s()]+")
_FACT = re.compile(r"\(([^()=]+)\)")
_NUMERIC = re.compile(r"\(=\s*\([^()]*\)\s*[0-9.]+\s*\)")
_SECTION = re.compile(r"\(\s*:(\w[\w-]*)")
_ID = re.compile(r"[a-z0-9_+.\-]+\Z")


def parse_problem(text: str) -> Problem:
    """Parse the text of a PDDL problem.

    Raises:
        UnsupportedGame: the text is not a problem of the form above.
    """
    text = text.lower()
    if ";" in text:
        text = _COMMENT.sub("", text)
    sections = {m.group(1): m for m in _SECTION.finditer(text)}
    spans = sorted(m.start() for m in sections.values())
    for name in ("objects", "init", "goal"):
        if name not in sections:
            raise UnsupportedGame(f"the PDDL problem has no (:{name} ..) section")
    if len(spans) != text.count("(:") or set(sections) - {"domain", "objects", "init", "goal"}:
        extra = sorted(set(sections) - {"domain", "objects", "init", "goal"})
        raise UnsupportedGame(f"the PDDL problem has repeated or unknown sections: {extra}")

    def section(name: str) -> str:
        match = sections[name]
        later = [s for s in spans if s > match.start()]
        return text[match.end() : later[0] if later else len(text)]

    return Problem(
        types=_parse_objects(section("objects")),
        facts=_parse_init(section("init")),
        goal=_parse_goal(section("goal")),
    )


def _parse_objects(body: str) -> dict[str, str]:
    words = body.rsplit(")", 1)[0].split()
    types: dict[str, str] = {}
    waiting: list[str] = []
    i, n = 0, len(words)
    while i < n:
        word = words[i]
        if word == "-":
            if i + 1 >= n:
                raise UnsupportedGame("the PDDL objects end with '-' and no type")
            kind = words[i + 1]
            for name in waiting:
                if name in types:
                    raise UnsupportedGame(f"the PDDL object {name!r} is declared twice")
                types[name] = kind
            waiting = []
            i += 2
            continue
        waiting.append(word)
        i += 1
    if waiting:
        raise UnsupportedGame(f"the PDDL object {waiting[0]!r} has no type")
    for name in types:
        # The engine renames "i" and "p", reads ids as cp1252 and cuts them at 1,024 bytes.
        if not _ID.match(name) or name in ("i", "p") or len(name) > 400:
            raise UnsupportedGame(f"the PDDL object name {name!r} is outside what is known")
    return types


def _parse_init(body: str) -> list[tuple[str, ...]]:
    body = body.rsplit(")", 1)[0]
    if "=" in body:
        body = _NUMERIC.sub("", body)
    facts = [tuple(fact.split()) for fact in _FACT.findall(body)]
    rest = _FACT.sub("", body)
    if rest.strip():
        raise UnsupportedGame(f"the PDDL init holds {rest.split()[0]!r}, which is not a fact")
    return facts


def _parse_goal(body: str) -> list[Any]:
    root: list[Any] = []
    stack = [root]
    for token in _TOKEN.findall(body):
        if token == "(":
            child: list[Any] = []
            stack[-1].append(child)
            stack.append(child)
        elif token == ")":
            if len(stack) == 1:
                break  # closes (:goal, what follows closes (define
            stack.pop()
        else:
            stack[-1].append(token)
    if len(stack) != 1 or len(root) != 1 or not isinstance(root[0], list):
        raise UnsupportedGame("the PDDL goal is not one formula")
    return root[0]
