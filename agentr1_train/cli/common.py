"""What several subcommands share."""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

from agentr1_envs.errors import EnvironmentFault, TaskDataError
from agentr1_envs.registration import ENVS


class UsageError(Exception):
    """The command line asks for something that does not exist; shown in one line, exit code 2."""


def add_env_option(parser: argparse.ArgumentParser, flag: str = "--env") -> None:
    """The option for arguments of the environment; read with `parse_pairs(args.env_kwargs)`."""
    parser.add_argument(
        flag,
        dest="env_kwargs",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an argument of the environment; may be repeated",
    )


def find_env_id(name: str) -> str:
    """The full id for an id, or for a short name such as ``hotpotqa`` or ``HotpotQA-v0``."""
    if name in gym.registry:
        return name
    for entry in ENVS.values():
        if name.lower() in (entry.task.lower(), entry.id.partition("/")[2].lower()):
            return entry.id
    if ":" in name:  # "module:Id-v0", Gymnasium's own form for other packages
        try:
            return gym.spec(name).id
        except (ModuleNotFoundError, gym.error.Error) as error:
            raise UsageError(f"{name}: {error}") from None
    known = list(ENVS)
    close = difflib.get_close_matches(name, known, 1, 0.4)
    hint = f"did you mean {close[0]}?" if close else "`agentr1 envs` lists the ids"
    raise UsageError(f"there is no environment {name!r}; {hint}")


def parse_value(text: str) -> Any:
    """A Python value from the command line: JSON, a Python literal, or the text itself."""
    lowered = text.lower()
    if lowered in ("none", "null"):
        return None
    if lowered in ("true", "false"):
        return lowered == "true"
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return text


def parse_pairs(pairs: list[str]) -> dict[str, Any]:
    """``key=value`` words as keyword arguments."""
    result: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise UsageError(f"expected key=value, got {pair!r}")
        result[key] = parse_value(value)
    return result


def check_output(path: str | os.PathLike[str] | None, flag: str) -> None:
    """Find out before the work, not after it, that a file cannot be written at its end.

    Raises:
        UsageError: it is a folder, or its folder cannot be made or written to.
    """
    if path is None:
        return
    target = Path(path)
    if target.is_dir():
        raise UsageError(f"{flag} {target}: expected a file's name, this is a folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # os.access says yes to root on a read-only mount.
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise UsageError(f"{flag} {target}: cannot write there: {error.strerror}") from None


def make_env(env_id: str, kwargs: dict[str, Any]) -> gym.Env[Any, Any]:
    """`gymnasium.make`, with a wrong argument as one line instead of a traceback."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Gymnasium warns of raises here as well
            return gym.make(env_id, **kwargs)
    except (TaskDataError, EnvironmentFault):
        raise
    except (TypeError, ValueError, AttributeError, OverflowError, gym.error.Error) as error:
        # Gymnasium appends to a TypeError what the line says already.
        reason = str(error).partition(" was raised from the environment creator")[0]
        raise UsageError(f"{env_id} {kwargs or ''}: {reason}") from error


def drawing_form(file: str) -> str:
    """``"svg"``, ``"html"`` or ``"text"``, by a file name's ending.

    Raises:
        UsageError: an ending that promises another form, such as .png.
    """
    endings = {".svg": "svg", ".html": "html", ".htm": "html", ".txt": "text", "": "text"}
    form = endings.get(os.path.splitext(file)[1].lower())
    if form is None:
        raise UsageError(f"{file}: expected a name that ends in .txt, .svg or .html")
    return form


def write_drawing(file: str, draw: Callable[[str], str]) -> None:
    """Write what `draw` gives for the form that the file's ending asks for; atomic."""
    from agentr1_envs.task_files import atomic_write

    text = draw(drawing_form(file))
    with atomic_write(file, "w") as handle:
        handle.write(text if text.endswith("\n") else text + "\n")
