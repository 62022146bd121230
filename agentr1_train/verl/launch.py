"""`agentr1 train backend=verl`: compose a recipe's configuration and start stock verl with it.

Free of verl itself but for its YAML files: training runs in a process of its own,
``python -m verl.trainer.main_ppo`` on the composed file, which stays in the run's directory.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentr1_train.cli.common import UsageError
from agentr1_train.config import ConfigError, expand_key, recipe_dir

PLUGIN = "agentr1_train.verl.plugin"
TINY = ("tiny", "deep", "micro")
ROWS = {"train": 2_000, "validation": 200, "test": 200}  # of the embedded task, made for a run
MODEL_KEY = "actor_rollout_ref.model.path"
# Ray runs its workers at niceness 15 and gives up on one that has not started within a minute: on
# a machine that does anything else at the same time, a run then crawls or dies.
RAY = {
    "RAY_worker_niceness": "0",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_USAGE_STATS_ENABLED": "0",
}
# Keys of the local back end that have another name, or no meaning, in verl.
_DROPPED = ("agentr1.backend", "recipe")


def environment(cpu: bool) -> dict[str, str]:
    """The process environment that verl needs to find the plug-in."""
    env = {
        **os.environ,
        "VERL_USE_EXTERNAL_MODULES": PLUGIN,
        "TOKENIZERS_PARALLELISM": "false",
    }
    for name, value in RAY.items():
        env.setdefault(name, value)
    if cpu:
        env.update(VERL_PLATFORM="cpu", VERL_ENGINE_DEVICE="cuda")
        env.setdefault("OMP_NUM_THREADS", "1")
    return env


def compose(settings: Sequence[str]) -> tuple[Any, bool]:
    """The whole configuration, and whether it runs without a GPU.

    Args:
        settings: ``recipe=NAME``, ``device=cpu`` and overrides with short or long keys.

    Raises:
        ConfigError: no such recipe or key; verl is not installed.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    if importlib.util.find_spec("verl") is None:
        raise ConfigError("backend=verl: verl is not installed; pip install 'agentr1[verl]'")
    recipe, cpu, overrides = None, False, []
    for word in settings:
        key, found, value = word.partition("=")
        if not found and not key.startswith("~"):
            raise ConfigError(f"override {word!r}: expected key=value")
        sign = key[: len(key) - len(key.lstrip("+~"))]
        key = expand_key(key.lstrip("+~"))
        if key == "recipe":
            recipe = value
        elif key == "trainer.device" or (key == "size" and value == "cpu"):
            cpu = cpu or value == "cpu"
        elif key not in _DROPPED:
            overrides.append(f"{sign}{key}{found}{value}")
    if recipe is None:
        raise ConfigError("no recipe: expected recipe=NAME (agentr1 train recipe=gsm8k_tool)")
    folder = recipe_dir(recipe).resolve()
    if not (folder / "verl.yaml").is_file():
        raise ConfigError(f"{folder}: expected a verl.yaml beside base.yaml")
    if cpu:
        overrides.insert(0, "size=cpu")
    try:
        with initialize_config_dir(str(folder), version_base=None):
            return hydra_compose("verl", overrides), cpu
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(str(error)) from None


def run(settings: Sequence[str], *, resume: bool, overwrite: bool, print_only: bool) -> int:
    """Compose, prepare model and rows where the embedded ones are meant, train."""
    from omegaconf import OmegaConf

    try:
        config, cpu = compose(settings)
    except ConfigError as error:
        raise UsageError(str(error)) from None
    if print_only:
        print(OmegaConf.to_yaml(config), end="")
        return 0
    directory = Path(config.trainer.default_local_dir).resolve()
    used = directory.is_dir() and any(directory.iterdir())
    if used and not (resume or overwrite):
        raise UsageError(f"{directory} holds a run: give --resume, --overwrite or name=OTHER")
    config.trainer.resume_mode = "auto" if resume else "disable"
    config.trainer.default_local_dir = str(directory)
    directory.mkdir(parents=True, exist_ok=True)
    if config.actor_rollout_ref.model.path in TINY:
        config.actor_rollout_ref.model.path = str(_tiny_model(settings, directory / "cold_start"))
    task = recipe_dir(_value(settings, "recipe")).name
    if _embedded(config):
        config.data.train_files, config.data.val_files = _rows(task, directory / "data")
    path = directory / "verl_config.yaml"
    path.write_text(OmegaConf.to_yaml(config), encoding="utf-8")
    words = [sys.executable, "-m", "verl.trainer.main_ppo", "--config-path", str(directory)]
    words += ["--config-name", "verl_config", "hydra.run.dir=.", "hydra.output_subdir=null"]
    return subprocess.run(words, env=environment(cpu), check=False).returncode


def _value(settings: Sequence[str], key: str) -> str:
    return next(w.partition("=")[2] for w in settings if w.partition("=")[0] == key)


def _embedded(config: Any) -> bool:
    """Whether the rows are still verl's own default, that is, none were named."""
    return str(config.data.train_files).startswith("~/data/rlhf")


def _rows(task: str, folder: Path) -> tuple[str, str]:
    """Rows of the embedded task, made by the recipe's own prepare command once."""
    train, validation = folder / "train.parquet", folder / "validation.parquet"
    if not (train.is_file() and validation.is_file()):
        prepare = importlib.import_module(f"agentr1_recipes.{task}.prepare")
        parser = argparse.ArgumentParser()
        prepare.add_arguments(parser)
        known = {word for action in parser._actions for word in action.option_strings}
        words: list[str] = []
        for flag in ("--local_save_dir", "--output_dir"):
            if flag in known:
                words += [flag, str(folder)]
        for split, count in ROWS.items():
            if f"--num_{split}" in known:
                words += [f"--num_{split}", str(count)]
        if prepare.main(parser.parse_args(words)):
            raise UsageError(f"agentr1 prepare {task} failed; give data.train_files=FILE")
    return str(train), str(validation)


def _tiny_model(settings: Sequence[str], directory: Path) -> Path:
    """From nothing, cold-started on the scripted expert: the local back end, with no update."""
    from agentr1_train.cli.train import run as train_locally
    from agentr1_train.config import load_config
    from agentr1_train.local.checkpoint import checkpoints

    if not checkpoints(directory / "checkpoints"):
        keep = ("recipe", "agentr1.cold_start", "agentr1.env", "agentr1.seed", "agentr1.tiny")
        words = [
            w
            for w in settings
            if expand_key(w.partition("=")[0]) == MODEL_KEY
            or expand_key(w.partition("=")[0]).startswith(keep)
        ]
        words += [f"dir={directory}", "device=cpu", "steps=0", "logger=[console]"]
        words += ["agentr1.eval.episodes=50", "agentr1.eval.extra={}"]
        train_locally(load_config(words), resume=True, overwrite=False, quiet=False)
    return checkpoints(directory / "checkpoints")[-1]
