"""Task rows of ALFWorld: what they hold, and how a row becomes a game.

A row has ``task_id``, ``task_type``, ``goal`` and the PDDL problem, either as text
(``pddl_problem``) or packed (``problem``). A game that brings its own domain and grammar has them
as text (``pddl_domain``, ``grammar``) or packed together (``logic``); a generated game has neither
and speaks as ALFWorld 0.4 does.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import zlib
from collections import OrderedDict
from typing import Any
from weakref import WeakValueDictionary

from agentr1_envs.alfworld.compiler import compile_game
from agentr1_envs.alfworld.game import CompiledGame
from agentr1_envs.errors import TaskDataError

# What TextWorld's grammar would not print as it stands.
_SPECIAL = re.compile(r'[";|<>\[\]#{}\t\n\\]|//')
_TEXTS = ("pddl_problem", "problem", "pddl_domain", "grammar", "logic", "goal")


_strong: OrderedDict[bytes, CompiledGame] = OrderedDict()
_live: WeakValueDictionary[bytes, CompiledGame] = WeakValueDictionary()
_lock = threading.Lock()
STRONG_CACHE = 256


def pack(text: str) -> str:
    """A text, deflated, in ASCII: a PDDL problem becomes about a tenth."""
    return base64.b64encode(zlib.compress(text.encode("utf-8"))).decode("ascii")


def unpack(packed: str) -> str:
    """The inverse of :func:`pack`.

    Raises:
        ValueError: `packed` is not such a text.
    """
    try:
        return zlib.decompress(base64.b64decode(packed, validate=True)).decode("utf-8")
    except (ValueError, zlib.error) as error:
        raise ValueError(f"not a packed text: {error}") from None


def pack_logic(domain: str, grammar: str) -> str:
    """A game's domain and grammar in one field; equal for games that differ in the goal only."""
    return pack(json.dumps([domain, grammar]))


def check_row(row: dict[str, Any]) -> None:
    """Check a row's fields (what they hold is read when the game is compiled).

    Raises:
        TaskDataError: names the row and the field.
    """
    task_id = row.get("task_id")
    for field in _TEXTS:
        if field in row and row[field] is not None and not isinstance(row[field], str):
            raise TaskDataError("task", "text", task_id, field, row[field])
    if not (row.get("pddl_problem") or row.get("problem")):
        expected = "a PDDL problem (or 'problem', a packed one)"
        raise TaskDataError("task", expected, task_id, "pddl_problem", row.get("pddl_problem"))
    if bool(row.get("pddl_domain")) != bool(row.get("grammar")):
        expected = "'pddl_domain' and 'grammar' together, or neither"
        raise TaskDataError("task", expected, task_id, "grammar", row.get("grammar"))
    if not (row.get("grammar") or row.get("logic")):
        goal = row.get("goal")
        if not goal or not goal.strip() or _SPECIAL.search(goal):
            expected = "the goal's sentence, without any of \" ; | < > [ ] # { } // and tabs"
            raise TaskDataError("task", expected, task_id, "goal", goal)


def row_texts(row: dict[str, Any]) -> tuple[str, str | None, str | None]:
    """(problem, domain, grammar) of a row; the last two are None where it brings none.

    Raises:
        TaskDataError: a packed field cannot be read.
    """
    task_id = row.get("task_id")
    problem, domain, grammar = row.get("pddl_problem"), row.get("pddl_domain"), row.get("grammar")
    if not problem:
        try:
            problem = unpack(row["problem"])
        except ValueError as error:
            raise TaskDataError(
                "task", f"a packed PDDL problem ({error})", task_id, "problem", row["problem"]
            ) from None
    if not grammar and row.get("logic"):
        try:
            domain, grammar = json.loads(unpack(row["logic"]))
        except (ValueError, TypeError) as error:
            raise TaskDataError(
                "task", f"a packed domain and grammar ({error})", task_id, "logic", row["logic"]
            ) from None
    return problem, domain or None, grammar or None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _cached(key: str) -> CompiledGame | None:
    """The game that was kept under `key`, if somebody plays it or did so lately."""
    digest = _digest(key)
    with _lock:
        game = _live.get(digest)
        if digest in _strong:
            _strong.move_to_end(digest)
        return game


def _keep(key: str, game: CompiledGame) -> None:
    """Share a compiled game under `key`; idle ones are dropped after ``STRONG_CACHE`` others."""
    digest = _digest(key)
    with _lock:
        _live[digest] = _strong[digest] = game
        while len(_strong) > STRONG_CACHE:
            _strong.popitem(last=False)


def game_of(row: dict[str, Any]) -> CompiledGame:
    """The compiled game of a row.

    Raises:
        TaskDataError: the row's texts cannot be read.
        UnsupportedGame: the state engine does not know the domain, grammar or form of the problem.
        UnreachableGoal: nothing can reach the goal.
    """
    key = "\0".join(row.get(field) or "" for field in _TEXTS)
    game = _cached(key)
    if game is None:
        problem, domain, grammar = row_texts(row)
        if grammar is None:
            game = compile_game(problem, goal=row["goal"])
        else:
            game = compile_game(problem, domain=domain, grammar=grammar)
        _keep(key, game)
    return game
