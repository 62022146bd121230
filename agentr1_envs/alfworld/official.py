"""ALFWorld's own files: reading the official layout, and writing generated games in it.

The layout is ``json_2.1.1/{train,valid_seen,valid_unseen}/TASK/TRIAL/`` with ``game.tw-pddl``
(JSON: ``pddl_domain``, ``grammar``, ``pddl_problem``, ``solvable``, ``walkthrough``; the first
three are needed) and ``traj_data.json`` (``task_type``, ``pddl_params``). As in ALFWorld's own
loader, games with "movable" or "Sliced" in their path, of other than the six types, or marked
unsolvable are left out; unlike there, paths are sorted. A game that does not say whether it is
solvable is kept if the scripted expert wins it, or if only the real engine could tell.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentr1_envs.alfworld.compiler import compile_game
from agentr1_envs.alfworld.engine import StateEngine
from agentr1_envs.alfworld.game import UnreachableGoal
from agentr1_envs.alfworld.generator import TASK_TYPES
from agentr1_envs.alfworld.grammar import split_goal
from agentr1_envs.alfworld.pddl import UnsupportedGame
from agentr1_envs.errors import TaskDataError, shorten
from agentr1_envs.task_files import atomic_write
from agentr1_envs.task_set import canonical_split, copy_json

GAME_FILE = "game.tw-pddl"
SPLIT_FOLDERS = {"train": "train", "validation": "valid_seen", "test": "valid_unseen"}
#: Games of json_2.1.1 that ALFWorld plays.
EXPECTED_COUNTS = {"train": 3553, "validation": 140, "test": 134}
_SOLVABLE = re.compile(rb'"solvable"\s*:\s*(true|false)')
_TASK_TYPE = re.compile(rb'"task_type"\s*:\s*"(\w+)"')
_SENTENCE = re.compile(r"Your task is to: (.*)\.\Z", re.S)


@lru_cache(maxsize=1)
def package_texts() -> tuple[str, str]:
    """Domain and grammar of the installed ``alfworld`` package.

    Raises:
        ImportError: it is not installed.
    """
    from importlib.util import find_spec

    from agentr1_envs.alfworld.textworld_engine import INSTALL_HINT

    spec = find_spec("alfworld")
    if spec is None or not spec.origin:
        raise ImportError(INSTALL_HINT)
    data = Path(spec.origin).parent / "data"
    return (
        (data / "alfred.pddl").read_text(encoding="utf-8"),
        (data / "alfred.twl2").read_text(encoding="utf-8"),
    )


def split_folder(root: str | os.PathLike[str], split: str) -> Path:
    """The folder that holds a split's games: ``root/valid_unseen`` and so on, or `root` itself.

    Raises:
        FileNotFoundError: `root` does not exist, or holds other splits but not this one.
    """
    base = Path(root)
    if not base.is_dir():
        raise FileNotFoundError(f"{base}: no such folder of ALFWorld games")
    inner = sorted(path for path in base.glob("json_2.1.*") if path.is_dir())
    has_split = [name for name in SPLIT_FOLDERS.values() if (base / name).is_dir()]
    if not has_split and inner:
        return split_folder(inner[-1], split)
    if not has_split:
        return base
    folder = base / SPLIT_FOLDERS[canonical_split(split)]
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder; {base} holds {', '.join(has_split)}")
    return folder


@dataclass(slots=True)
class Scan:
    """What a split's folder holds.

    Attributes:
        games: playable game files, sorted.
        skipped: reason -> number of game files left out.
        unreadable: (file, what is wrong with it).
        undecided: files without ``solvable`` that only the real engine could judge; they are kept.
        checked: files without ``solvable`` that the expert won.
    """

    folder: Path
    games: list[Path] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    unreadable: list[tuple[Path, str]] = field(default_factory=list)
    undecided: list[Path] = field(default_factory=list)
    checked: int = 0

    def skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


def game_files(folder: Path) -> list[Path]:
    """All game files under a folder, sorted by path."""
    found = []
    for place, folders, files in os.walk(folder, followlinks=True):
        folders.sort()
        if GAME_FILE in files:
            found.append(Path(place) / GAME_FILE)
    return sorted(found, key=lambda path: path.parts)


def scan(folder: Path, progress: Callable[[int, int], None] | None = None) -> Scan:
    """Find the playable games of a folder. Broken files are listed, not fatal."""
    result = Scan(folder)
    files = game_files(folder)
    for number, path in enumerate(files):
        _judge(path, result)
        if progress is not None:
            progress(number + 1, len(files))
    return result


def _judge(path: Path, result: Scan) -> None:
    place = str(path.parent.relative_to(result.folder))
    if "movable" in place or "Sliced" in place:
        result.skip("movable receptacle or sliced object")
        return
    try:
        if _task_type(path) not in TASK_TYPES:
            result.skip("other task type")
            return
        raw = path.read_bytes()
        found = _SOLVABLE.search(raw)
        if found is None or b'"pddl_problem"' not in raw or not raw.rstrip().endswith(b"}"):
            texts = _read_game(path)
            found = None if texts.get("solvable") is None else found
            verdict = True if found else _winnable(texts)
        else:
            verdict = None
    except (TaskDataError, OSError) as error:
        result.unreadable.append((path, str(error)))
        return
    if found is not None:
        if found.group(1) == b"true":
            result.games.append(path)
        else:
            result.skip("marked unsolvable")
    elif verdict is False:
        result.skip("does not say whether it is solvable, and the expert does not win it")
    else:
        result.games.append(path)
        if verdict is None:
            result.undecided.append(path)
        else:
            result.checked += 1


def _winnable(texts: dict[str, Any]) -> bool | None:
    """Whether the expert wins a game; None where the state engine does not know it."""
    from agentr1_envs.alfworld.expert import solve

    try:
        game = compile_game(
            texts["pddl_problem"], domain=texts["pddl_domain"], grammar=texts["grammar"]
        )
    except UnsupportedGame:
        return None
    except UnreachableGoal:
        return False
    return solve(StateEngine(game)) is not None


def _json_file(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise TaskDataError(str(path), f"JSON ({shorten(str(error))})") from None
    if not isinstance(value, dict):
        raise TaskDataError(str(path), "a JSON object", value=value)
    return value


def _read_game(path: Path) -> dict[str, Any]:
    texts = _json_file(path)
    for name in ("pddl_domain", "grammar", "pddl_problem"):
        if not isinstance(texts.get(name), str) or not texts[name].strip():
            raise TaskDataError(str(path), "a text", field=name, value=texts.get(name))
    return texts


def _trajectory(path: Path) -> dict[str, Any]:
    beside = path.with_name("traj_data.json")
    return _json_file(beside) if beside.is_file() else {}


def _task_type(path: Path) -> str:
    """From ``traj_data.json``; without one, from the folder's name."""
    beside = path.with_name("traj_data.json")
    # These files hold whole trajectories: they are not parsed for one word.
    quick = _TASK_TYPE.search(beside.read_bytes()) if beside.is_file() else None
    if quick is not None:
        return quick.group(1).decode("ascii")
    found = _trajectory(path).get("task_type")
    if isinstance(found, str):
        return found
    return next((t for t in TASK_TYPES if any(p.startswith(t) for p in path.parts)), "unknown")


def read_row(path: Path, folder: Path) -> dict[str, Any]:
    """The task row of an official game file, with its texts as they are.

    Raises:
        TaskDataError: the file is no game.
    """
    texts = _read_game(path)
    try:
        sentence = split_goal(texts["grammar"])[1]
    except UnsupportedGame as error:
        raise TaskDataError(str(path), f"a known grammar ({error})", field="grammar") from None
    goal = _SENTENCE.match(sentence)
    parameters = _trajectory(path).get("pddl_params")
    place = path.parent.relative_to(folder).as_posix()
    row: dict[str, Any] = {
        "task_id": f"{folder.name}/{place}" if place != "." else folder.name,
        "task_type": _task_type(path),
        "goal": goal.group(1) if goal else sentence,
        "pddl_domain": texts["pddl_domain"],
        "grammar": texts["grammar"],
        "pddl_problem": texts["pddl_problem"],
    }
    if isinstance(parameters, dict):
        row["pddl_params"] = copy_json(parameters)
    return row


_scans: OrderedDict[tuple[str, int], Scan] = OrderedDict()
_scan_lock = threading.Lock()


def _scan_once(folder: Path) -> Scan:
    """The scan of a folder, shared by all environments of the process."""
    key = (str(folder.resolve()), folder.stat().st_mtime_ns)
    with _scan_lock:
        if key not in _scans:
            _scans[key] = scan(folder)
            while len(_scans) > 8:
                _scans.popitem(last=False)
        return _scans[key]


class OfficialTasks:
    """A split's official games as a panel of tasks; files are read when their task is asked for.

    Args:
        root: the folder ``json_2.1.1``, or one like it.
        split: "train", "validation" (valid_seen) or "test" (valid_unseen), or an alias.

    Raises:
        FileNotFoundError: there is no such folder.
        TaskDataError: it holds no playable game.
    """

    def __init__(self, root: str | os.PathLike[str], split: str = "train") -> None:
        self.split = canonical_split(split)
        self.folder = split_folder(root, self.split)
        found = _scan_once(self.folder)
        if not found.games:
            reasons = [f"{n} {why}" for why, n in found.skipped.items()]
            if found.unreadable:
                reasons.append(
                    f"{len(found.unreadable)} unreadable, the first: {found.unreadable[0][1]}"
                )
            expected = f"at least one playable {GAME_FILE}"
            raise TaskDataError(str(self.folder), expected, value="; ".join(reasons) or "none")
        if found.unreadable:
            warnings.warn(
                f"{len(found.unreadable)} ALFWorld game files cannot be read and are left out, the "
                f"first: {found.unreadable[0][1]}",
                stacklevel=3,
            )
        self._games = found.games
        self._ids = {
            f"{self.folder.name}/{path.parent.relative_to(self.folder).as_posix()}": i
            for i, path in enumerate(self._games)
        }
        self._rows: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._hash: str | None = None

    @property
    def hash(self) -> str:
        """SHA-256 over the games' ids and files, in order."""
        if self._hash is None:
            digest = hashlib.sha256()
            for task_id, path in zip(self._ids, self._games, strict=True):
                digest.update(task_id.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
            self._hash = digest.hexdigest()
        return self._hash

    def __len__(self) -> int:
        return len(self._games)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self._rows.get(index)
        if row is None:
            row = read_row(self._games[index], self.folder)
            self._rows[index] = row
            if len(self._rows) > 128:
                with contextlib.suppress(KeyError):  # another thread emptied it first
                    self._rows.popitem(last=False)
        return copy_json(row)

    def index(self, task_id: str) -> int:
        """The position of a task; `KeyError` when it is not in the panel."""
        return self._ids[task_id]

    def __repr__(self) -> str:
        return f"OfficialTasks({len(self)} games of {self.folder}, split={self.split!r})"


def write_games(rows: Iterable[dict[str, Any]], folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Write generated games in the official layout; yields each game file when it is complete.

    Args:
        rows: rows of the generator.
        folder: a split's folder, such as ``DIR/train``.

    Raises:
        ImportError: the package ``alfworld``, which holds domain and grammar, is not installed.
    """
    from agentr1_envs.alfworld.expert import solve
    from agentr1_envs.alfworld.rows import game_of, row_texts
    from agentr1_envs.alfworld.textworld_engine import grammar_with_goal

    domain, grammar = package_texts()
    for row in rows:
        parameters = row["pddl_params"]
        scene = re.sub(r"\W+", "_", str(row.get("scene", "0")))
        number = re.sub(r"\W+", "_", row["task_id"])
        target = parameters["parent_target"] or parameters["toggle_target"] or "None"
        task = f"{row['task_type']}-{parameters['object_target']}-None-{target}-{scene}"
        place = Path(folder) / task / f"trial_{number}"
        place.mkdir(parents=True, exist_ok=True)
        problem, own_domain, own_grammar = row_texts(row)
        game = {
            "pddl_domain": own_domain or domain,
            "grammar": own_grammar or grammar_with_goal(grammar, row["goal"]),
            "pddl_problem": problem,
            "solvable": True,
            "walkthrough": solve(StateEngine(game_of(row))),
        }
        trajectory = {
            "task_type": row["task_type"],
            "task_id": f"trial_{number}",
            "pddl_params": parameters,
            "scene": {"scene_num": scene, "room": row.get("room", "")},
            "turk_annotations": {"anns": [{"task_desc": row["goal"], "high_descs": []}]},
        }
        for name, value in (("traj_data.json", trajectory), (GAME_FILE, game)):
            with atomic_write(place / name, "w") as handle:
                json.dump(value, handle)
        yield place / GAME_FILE
