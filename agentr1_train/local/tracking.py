"""Where metrics go: a JSONL file, tensorboard, the console, wandb and trackio when installed."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentr1_envs.task_files import atomic_write


def _clean(metrics: Mapping[str, Any]) -> dict[str, Any]:
    # JSON has no NaN; a reader that meets one stops.
    return {
        k: (None if isinstance(v, float) and (v != v or abs(v) == float("inf")) else v)
        for k, v in metrics.items()
    }


class JsonlTracker:
    """One JSON object a line in metrics.jsonl, appended and flushed."""

    def __init__(self, directory: Path, config: Mapping[str, Any], resume_at: int | None) -> None:
        self.path = directory / "metrics.jsonl"
        if resume_at is None:
            self.path.unlink(missing_ok=True)
        else:
            # Lines of steps that will be run again, and a line cut by the kill, go.
            kept = [r for r in read_metrics(self.path) if r["step"] <= resume_at]
            with atomic_write(self.path, "w") as handle:
                handle.writelines(json.dumps(r) + "\n" for r in kept)
        self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        self._file.write(json.dumps({"step": step, **_clean(metrics)}) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl; a last line cut by a kill is left out."""
    if not path.is_file():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            rows.append(row)
    return rows


class TensorboardTracker:
    """Event files under tensorboard/."""

    def __init__(self, directory: Path, config: Mapping[str, Any], resume_at: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        purge = None if resume_at is None else resume_at + 1
        self._writer = SummaryWriter(str(directory / "tensorboard"), purge_step=purge)

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        for name, v in metrics.items():
            if isinstance(v, (int, float)):
                self._writer.add_scalar(name, v, step)

    def close(self) -> None:
        self._writer.close()


class WandbTracker:
    """Weights & Biases; keys come from the environment (WANDB_API_KEY, WANDB_MODE)."""

    def __init__(self, directory: Path, config: Mapping[str, Any], resume_at: int | None) -> None:
        import wandb

        trainer = config.get("trainer", {})
        self._run = wandb.init(
            project=trainer.get("project_name"),
            name=trainer.get("experiment_name"),
            dir=str(directory),
            config=dict(config),
            resume="allow" if resume_at is not None else None,
        )

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        self._run.finish()


class TrackioTracker:
    """Trackio, a local dashboard with wandb's interface."""

    def __init__(self, directory: Path, config: Mapping[str, Any], resume_at: int | None) -> None:
        import trackio

        os.environ.setdefault("TRACKIO_DIR", str(directory / "trackio"))
        trainer = config.get("trainer", {})
        self._trackio = trackio
        trackio.init(
            project=trainer.get("project_name") or "agentr1",
            name=trainer.get("experiment_name"),
            config=dict(config),
        )

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        self._trackio.log({k: v for k, v in metrics.items() if v is not None}, step=step)

    def close(self) -> None:
        self._trackio.finish()


_KINDS: dict[str, tuple[Any, str | None]] = {
    "jsonl": (JsonlTracker, None),
    "tensorboard": (TensorboardTracker, "tensorboard"),
    "wandb": (WandbTracker, "wandb"),
    "trackio": (TrackioTracker, "trackio"),
}


class Trackers:
    """All trackers of a run. ``console`` is known here and drawn by the trainer's progress.

    Raises:
        ValueError: a name is unknown or its package is not installed.
    """

    def __init__(
        self,
        names: Sequence[str],
        directory: Path,
        config: Mapping[str, Any],
        *,
        resume_at: int | None = None,
    ) -> None:
        for name in names:
            if name == "console":
                continue
            if name not in _KINDS:
                known = ["console", *_KINDS]
                raise ValueError(f"trainer.logger: {name!r}, expected some of {known}")
            package = _KINDS[name][1]
            if package and importlib.util.find_spec(package) is None:
                raise ValueError(f"trainer.logger: {name} needs the package {package}: install it")
        self.console = "console" in names
        self._all = [
            _KINDS[name][0](directory, config, resume_at) for name in names if name != "console"
        ]

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Log numbers of a step."""
        for tracker in self._all:
            tracker.log(metrics, step)

    def close(self) -> None:
        """Flush and close."""
        for tracker in self._all:
            tracker.close()
