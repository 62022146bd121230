"""`agentr1 train recipe=NAME key=value ... [--resume]`."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentr1_train.cli.common import UsageError

#: Held while a process trains in the folder; not part of the run.
LOCK = ".lock"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line; settings are ``key=value`` words in Hydra's grammar."""
    from agentr1_train.config import ALIASES

    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "short keys:\n" + "\n".join(f"  {k:14} {v}" for k, v in ALIASES.items())
    parser.add_argument("settings", nargs="*", metavar="key=value", help="recipe=NAME and settings")
    parser.add_argument("--resume", action="store_true", help="continue a run that was interrupted")
    parser.add_argument("--overwrite", action="store_true", help="start anew in an existing run")
    parser.add_argument("--print-config", action="store_true", help="print the settings and stop")
    parser.add_argument("--quiet", action="store_true", help="no progress display")


def main(args: argparse.Namespace) -> int:
    """Train; 0 when the run ended by itself."""
    if {"backend=verl", "agentr1.backend=verl"} & set(args.settings):
        from agentr1_train.verl.launch import run as run_verl

        return run_verl(
            args.settings,
            resume=args.resume,
            overwrite=args.overwrite,
            print_only=args.print_config,
            quiet=args.quiet,
        )
    return start(args, resolve(args.settings))


def start(args: argparse.Namespace, config: Any) -> int:
    """Run, or print the settings where that was asked for."""
    if args.print_config:
        from omegaconf import OmegaConf

        print(OmegaConf.to_yaml(config, resolve=True), end="")
        return 0
    run(config, resume=args.resume, overwrite=args.overwrite, quiet=args.quiet)
    return 0


def resolve(settings: list[str]) -> Any:
    """The configuration, or a `UsageError` that says what is wrong with the words."""
    try:
        from agentr1_train.config import ConfigError, load_config
    except ImportError as error:  # pragma: no cover - depends on the installation
        raise UsageError(f"{error}; training needs pip install 'agentr1[train]'") from None
    try:
        return load_config(settings)
    except ConfigError as error:
        raise UsageError(str(error)) from None
    except ModuleNotFoundError as error:
        raise UsageError(f"{error}; training needs pip install 'agentr1[train]'") from None


def run(config: Any, *, resume: bool, overwrite: bool, quiet: bool) -> dict[str, float]:
    """Train with a resolved configuration.

    Raises:
        UsageError: a setting is impossible, or the run exists and neither flag was given.
    """
    from omegaconf import OmegaConf

    from agentr1_train.config import save_config

    # Threads that spin while they wait fight with whatever else runs on the machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    directory = Path(config.trainer.default_local_dir)
    resume = resume or config.trainer.resume_mode == "auto"
    backend = str(config.agentr1.backend)
    if backend != "local":
        raise UsageError(f"backend={backend}: expected local or verl")
    with run_folder(directory, resume=resume, overwrite=overwrite):
        plain = OmegaConf.to_container(config, resolve=True)
        assert isinstance(plain, dict)
        try:
            from agentr1_train.local.trainer import Trainer

            trainer = Trainer(plain, resume=resume, quiet=quiet)  # type: ignore[arg-type]
        except (ValueError, TypeError) as error:
            raise UsageError(str(error)) from error
        # Only now: a setting that cannot work leaves neither a run nor another run's settings.
        save_config(config, directory / "config.yaml")
        return trainer.run()


@contextlib.contextmanager
def run_folder(directory: Path, *, resume: bool, overwrite: bool) -> Iterator[None]:
    """A run's folder for this process alone; what an earlier run left is kept, cleared or refused.

    Raises:
        UsageError: it is a file, another process trains there, or it holds a run and neither flag
            was given.
    """
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"dir={directory}: expected a folder, this is a file")
    with _alone(directory):
        used = any(path.name != LOCK for path in directory.iterdir())
        if used and not (resume or overwrite):
            raise UsageError(f"{directory} holds a run: give --resume, --overwrite or name=OTHER")
        if used and not resume:
            _clear(directory)
        yield


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Keep a second process out of a run's folder; the lock goes with the process, however it ends.

    A folder that was made here and has stayed empty is removed again.
    """
    import fcntl

    new = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / LOCK, "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{directory}: another process is training there") from None
        except OSError:
            pass  # a file system without locks: as good as it gets
        try:
            yield
        finally:
            if new and [path.name for path in directory.iterdir()] == [LOCK]:
                (directory / LOCK).unlink()
                directory.rmdir()


def _clear(directory: Path) -> None:
    """Remove what a run left; files that no run writes stay."""
    import shutil

    for pattern in (
        "config.yaml", "metrics.jsonl", "curve.png", "transitions-*.parquet", "panel-*.parquet",
        "checkpoints", "tensorboard", "global_step_*", "latest_checkpointed_iteration.txt",
        "verl.log", "verl_config.yaml", "cold_start", "data",
    ):  # fmt: skip
        for path in directory.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
