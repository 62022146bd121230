"""Folders that appear whole or not at all, and where what can be made again is kept."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from agentr1_envs.task_files import process_lives


def default_cache_dir() -> Path:
    """``$AGENTR1_CACHE``, or ``agentr1`` in ``$XDG_CACHE_HOME`` or in ``~/.cache``."""
    named = os.environ.get("AGENTR1_CACHE")
    if named:
        return Path(named)
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "agentr1"


@contextlib.contextmanager
def atomic_folder(target: str | os.PathLike[str], *, keep_existing: bool) -> Iterator[Path]:
    """A new folder that takes the place of ``target`` when the block ends without an error.

    Args:
        keep_existing: when another process made ``target`` meanwhile, keep that one (both hold
            the same); otherwise replace it.
    """
    final = Path(target)
    final.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(final)
    made = final.parent / f".{final.name}.{os.getpid()}-{uuid.uuid4().hex}.tmp"
    made.mkdir()
    try:
        yield made
        for _ in range(100):
            try:
                os.rename(made, final)
                return
            except OSError:
                if not final.exists():
                    raise
            if keep_existing:
                return
            old = made.with_suffix(".old")
            with contextlib.suppress(FileNotFoundError):
                os.rename(final, old)
            shutil.rmtree(old, ignore_errors=True)
        raise OSError(f"{final}: another process keeps writing it")
    except OSError as error:
        if error.errno and error.filename is None:
            error.filename = str(final)  # a full disk does not say which file it cut
        raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Makes ``folder`` and waits until no other process is within this block for it.

    The lock is on the folder itself, so it leaves no file and ends with the process. Where the
    system has no such locks nothing is waited for.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have none
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _remove_stale(final: Path) -> None:
    """Removes what processes that were killed left beside ``final``."""
    for folder in final.parent.glob(f".{glob.escape(final.name)}.*-*"):
        pid = folder.name[len(final.name) + 2 :].partition("-")[0]
        if folder.suffix in (".tmp", ".old") and pid.isdigit() and not process_lives(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
