"""Putting a finished catalog folder in its place, whatever else happens to be there or goes on."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from pathlib import Path

from agentr1_envs.errors import EnvironmentFault, TaskDataError
from agentr1_envs.webshop.catalog import FORMAT, Catalog


def check_target(target: Path) -> None:
    """Refuse to replace anything that is no catalog."""
    if target.is_dir() and any(target.iterdir()) and not _is_catalog(target):
        raise TaskDataError(str(target), "an empty folder, a catalog to replace or a new path")
    if target.exists() and not target.is_dir():
        raise TaskDataError(str(target), "a folder, or a path where one can be made")


def is_usable(path: Path, key: str) -> bool:
    """Whether `path` is an undamaged catalog that was made of the source with this key."""
    try:
        return Catalog(path).check().hash == key
    except EnvironmentFault:
        return False


def _is_catalog(path: Path) -> bool:
    try:
        meta = json.loads((path / "meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(meta, dict) and meta.get("format") == FORMAT


def remove_stale(target: Path) -> None:
    """Clear up what killed conversions left; a living one's folders are let alone."""
    for path in target.parent.glob(f".{target.name}.*-*"):
        kind, _, pid = path.name.removeprefix(f".{target.name}.").rpartition("-")
        if kind not in ("partial", "old") or not pid.isdigit() or _alive(int(pid)):
            continue
        if kind == "old" and not target.exists():
            os.replace(path, target)  # it was killed between the two steps of _replace
        else:
            shutil.rmtree(path, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def replace(partial: Path, target: Path) -> None:
    """Put the finished folder in its place; of two that finish at once, the later one stays."""
    for _ in range(100):
        try:
            os.replace(partial, target)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        old = target.with_name(f".{target.name}.old-{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):  # another process moved it away first
            os.replace(target, old)
        shutil.rmtree(old, ignore_errors=True)
    raise EnvironmentFault(f"{target} is being replaced by other processes all the time")
