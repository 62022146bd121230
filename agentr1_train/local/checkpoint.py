"""Checkpoints that are whole or absent, whatever kills the process.

A checkpoint is a directory written under a temporary name and renamed when complete; readers look
at complete ones only. The newest two are kept, so that one is there while the next is written.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from . import tiny

KEEP = 2
_PREFIX = "step-"


def _number(path: Path) -> int:
    return int(path.name.removeprefix(_PREFIX))


def checkpoints(root: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    found = [
        p
        for p in root.glob(_PREFIX + "*")
        if p.name.removeprefix(_PREFIX).isdecimal() and (p / "state.json").is_file()
    ]
    return sorted(found, key=_number)


def save_checkpoint(
    root: Path,
    number: int,
    *,
    model: Any,
    tokenizer: Any,
    tensors: Mapping[str, Any],
    state: Mapping[str, Any],
) -> Path:
    """Write ``root/step-NUMBER``: a loadable model, optimizer tensors and plain state."""
    root.mkdir(parents=True, exist_ok=True)
    final = root / f"{_PREFIX}{number:06d}"
    work = root / f".{final.name}.{os.getpid()}.tmp"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    tiny.save(model, tokenizer, work)
    torch.save(dict(tensors), work / "training.pt")
    (work / "state.json").write_text(json.dumps(dict(state), indent=1))
    for path in work.iterdir():
        _sync(path)
    if final.exists():  # the run was resumed from before this one and came here again
        shutil.rmtree(final)
    os.replace(work, final)
    _sync(root)
    for old in checkpoints(root)[:-KEEP]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load_checkpoint(path: Path, device: str = "cpu") -> tuple[dict[str, Any], dict[str, Any]]:
    """``(tensors, state)``. Only tensors and plain containers are unpickled.

    Raises:
        ValueError: a file of it is missing or damaged.
    """
    try:
        tensors = torch.load(path / "training.pt", map_location=device, weights_only=True)
        state = json.loads((path / "state.json").read_text())
    except (OSError, ValueError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise _damaged(path, error) from None
    if not isinstance(state, dict) or not isinstance(tensors, dict):
        raise _damaged(path, TypeError("no mapping"))
    return tensors, state


def _damaged(path: Path, error: Exception) -> ValueError:
    reason = str(error).partition("\n")[0] or type(error).__name__
    return ValueError(
        f"{path}: expected a whole checkpoint ({reason}); "
        "remove this folder and --resume goes on from the one before"
    )


def load_model(path: Path, **kwargs: Any) -> tuple[Any, Any]:
    """`tiny.load` of a checkpoint, with the checkpoint's name in what goes wrong."""
    try:
        return tiny.load(path, **kwargs)
    except Exception as error:  # each of the libraries beneath has exceptions of its own
        raise _damaged(path, error) from error


def clean(root: Path) -> None:
    """Remove what a killed process left half-written."""
    for work in root.glob(f".{_PREFIX}*.tmp"):
        shutil.rmtree(work, ignore_errors=True)
