"""What a run with verl leaves beside verl's checkpoints; free of verl."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from agentr1_envs.task_files import atomic_write
from agentr1_envs.transitions import write_transitions
from agentr1_train.local.tracking import JsonlTracker
from agentr1_train.verl.batch import to_transitions


class RunFiles:
    """metrics.jsonl and transitions-*.parquet, as the local back end writes them."""

    def __init__(self, config: Any, version: str) -> None:
        self.folder = Path(config.trainer.default_local_dir)
        self.about = {"verl": version, "seed": str(config.agentr1.seed)}
        self.debug_dir = config.agentr1.verl.debug_dir
        self._tracker: JsonlTracker | None = None

    def transitions(
        self, step: int, keys: Sequence[str], extra: Sequence[Mapping[str, Any]], columns: Any
    ) -> None:
        """Write a batch's steps; ``columns`` are masks and advantages, a padded tensor a row."""
        self.folder.mkdir(parents=True, exist_ok=True)
        steps = to_transitions(keys, [f.get("agentr1", {}) for f in extra], *columns)
        write_transitions(self.folder / f"transitions-{step:05d}.parquet", steps, self.about)

    def metrics(self, step: int, values: Mapping[str, Any], *, after: int) -> None:
        """Append a line; the first of a process drops the lines of steps later than ``after``."""
        if self._tracker is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._tracker = JsonlTracker(self.folder, {}, after or None)
        plain = {k: float(v) for k, v in values.items() if isinstance(v, numbers.Real)}
        self._tracker.log(plain, step)

    def mend_tracker(self) -> None:
        """Name the newest checkpoint again where verl was killed while it named it.

        verl opens this file, which empties it, when all files of the checkpoint are written; it
        could not read an empty one.
        """
        tracker = self.folder / "latest_checkpointed_iteration.txt"
        if not tracker.is_file() or tracker.read_text().strip():
            return
        folders = [p for p in self.folder.glob("global_step_*") if p.name[12:].isdigit()]
        if not folders:
            tracker.unlink()
            return
        newest = max(folders, key=lambda p: p.stat().st_mtime_ns)
        with atomic_write(tracker, "w") as handle:
            handle.write(newest.name[12:])

    def debug(self, step: int, keys: Any, rows: Any, part: Any, result: Any) -> None:
        """Save what the estimator saw and gave, where the configuration asks for it."""
        if self.debug_dir:
            Path(self.debug_dir).mkdir(parents=True, exist_ok=True)
            tensors = {k: v for k, v in part.items() if isinstance(v, torch.Tensor)}
            payload = {"keys": list(keys), "rows": rows, "batch": tensors, "result": result}
            torch.save(payload, Path(self.debug_dir) / f"advantage-{step:05d}.pt")
