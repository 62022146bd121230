"""`agentr1 train backend=verl`: compose a recipe's configuration and start stock verl with it.

Free of verl itself but for its YAML files: training runs in a process of its own,
``python -m verl.trainer.main_ppo`` on the composed file, which stays in the run's directory.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentr1_train.cli.common import UsageError
from agentr1_train.config import OPEN, ConfigError, expand_key, recipe_dir
from agentr1_train.local.tiny import SIZES
from agentr1_train.verl import check_version
from agentr1_train.verl.settings import make_advantage, make_loss
from agentr1_train.verl.watch import watch

PLUGIN = "agentr1_train.verl.plugin"
MODES = ("agentr1_sync", "agentr1_colocate_async", "agentr1_separate_async")
PRESETS = {
    "steppo": [
        "algorithm.adv_estimator=gae",
        "actor_rollout_ref.actor.policy_loss.loss_mode=gspo",  # its clip range is the default
    ]
}
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
# What only the cold start of an embedded model reads, and what is passed on: any key may be added.
_FREE = ("agentr1.cold_start", "agentr1.eval", "agentr1.tiny", *OPEN)


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

    verl = importlib.util.find_spec("verl")
    if verl is None or not verl.submodule_search_locations:
        raise ConfigError("backend=verl: verl is not installed; pip install 'agentr1[verl]'")
    try:
        check_version(importlib.metadata.version("verl"))
    except RuntimeError as error:
        raise ConfigError(str(error)) from None
    recipe, cpu, presets = None, False, list[str]()
    overrides: list[str] = []
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
        elif key == "agentr1.preset":
            if value not in PRESETS:
                raise ConfigError(f"preset={value}: expected one of {sorted(PRESETS)}")
            presets += PRESETS[value]
        elif key not in _DROPPED:
            free = any(key == one or key.startswith(one + ".") for one in _FREE)
            sign = "++" if free and not sign else sign
            overrides.append(f"{sign}{key}{found}{value}")
    if recipe is None:
        raise ConfigError("no recipe: expected recipe=NAME (agentr1 train recipe=gsm8k_tool)")
    folder = recipe_dir(recipe).resolve()
    if not (folder / "verl.yaml").is_file():
        raise ConfigError(f"{folder}: expected a verl.yaml beside base.yaml")
    # As a folder: looking into the package imports it, which takes seconds.
    defaults = Path(verl.submodule_search_locations[0], "trainer", "config")
    search = f"hydra.searchpath=['file://{defaults}','pkg://agentr1_train.conf']"
    overrides = [search, *["size=cpu"] * cpu, *presets, *overrides]
    try:
        with initialize_config_dir(str(folder), version_base=None):
            return hydra_compose("verl", overrides), cpu
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(str(error)) from None


def run(
    settings: Sequence[str], *, resume: bool, overwrite: bool, print_only: bool, quiet: bool = False
) -> int:
    """Compose, prepare model and rows where the embedded ones are meant, train.

    Returns:
        The exit code: 0 when verl trained to the end.

    Raises:
        UsageError: a setting is impossible, or the run exists and neither flag was given.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from agentr1_train.cli.train import run_folder

    try:
        config, cpu = compose(settings)
        if print_only:
            print(OmegaConf.to_yaml(config), end="")
            return 0
        _check(config, cpu)
    except (ValueError, OmegaConfBaseException) as error:  # ConfigError is a ValueError
        raise UsageError(" ".join(str(error).split())) from None
    directory = Path(config.trainer.default_local_dir).resolve()
    with run_folder(directory, resume=resume, overwrite=overwrite):
        config.trainer.resume_mode = "auto" if resume else "disable"
        config.trainer.default_local_dir = str(directory)
        if config.actor_rollout_ref.model.path in SIZES:
            model = _tiny_model(settings, directory / "cold_start", quiet)
            config.actor_rollout_ref.model.path = str(model)
        task = recipe_dir(_value(settings, "recipe")).name
        if _embedded(config):
            config.data.train_files, config.data.val_files = _rows(task, directory / "data")
        path = directory / "verl_config.yaml"
        path.write_text(OmegaConf.to_yaml(config), encoding="utf-8")
        words = [sys.executable, "-u", "-m", "verl.trainer.main_ppo"]
        words += ["--config-path", str(directory), "--config-name", "verl_config"]
        words += ["hydra.run.dir=.", "hydra.output_subdir=null"]
        total = config.trainer.total_training_steps
        return watch(words, environment(cpu), directory, total, quiet=quiet)


def _check(config: Any, cpu: bool) -> None:
    """What verl would find out a minute later, in a process far away.

    Raises:
        ValueError: names the setting and what was expected.
    """
    from agentr1_wrappers import make_agent_env
    from omegaconf import OmegaConf

    make_loss(config)
    make_advantage(config)
    mode, actor = config.trainer.v1.trainer_mode, config.actor_rollout_ref.actor
    if mode not in MODES:
        raise ValueError(f"trainer.v1.trainer_mode: {mode!r}, expected one of {list(MODES)}")
    if mode == "agentr1_separate_async":
        rollout, updates = config.actor_rollout_ref.rollout, config.trainer.v1.separate_async
        if not (rollout.nnodes and rollout.n_gpus_per_node):
            raise ValueError(f"{mode}: rollout.nnodes and rollout.n_gpus_per_node, expected >= 1")
        if rollout.checkpoint_engine.backend == "naive":
            engine = "file" if cpu else "nccl, nixl or mooncake"
            raise ValueError(f"{mode}: rollout.checkpoint_engine.backend: expected {engine}")
        prompts = updates.parameter_sync_step * actor.ppo_mini_batch_size
        if config.data.train_batch_size != prompts:
            raise ValueError(
                f"{mode}: data.train_batch_size: {config.data.train_batch_size}, expected "
                f"separate_async.parameter_sync_step x ppo_mini_batch_size = {prompts}"
            )
    if config.data.train_batch_size % actor.ppo_mini_batch_size:
        raise ValueError(
            f"ppo_mini_batch_size: {actor.ppo_mini_batch_size}, expected a divisor of the "
            f"{config.data.train_batch_size} prompts of data.train_batch_size"
        )
    model = str(config.actor_rollout_ref.model.path)
    hub = (
        re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", model) and not cpu
    )  # the CPU's rollout reads folders
    if model not in SIZES and not hub and not Path(model, "config.json").is_file():
        what = "" if cpu else ", a name of the model hub"
        raise ValueError(f"model={model}: expected a saved model's folder{what} or {list(SIZES)}")
    if not _embedded(config):
        for name in ("train_files", "val_files"):
            files = config.data[name]
            for file in [files] if isinstance(files, str) else files:
                if not Path(file).expanduser().exists():
                    raise ValueError(f"data.{name}: {file}: no such file; see agentr1 prepare")
    spec = OmegaConf.to_container(config.agentr1.env, resolve=True)
    assert isinstance(spec, dict)
    try:
        make_agent_env({str(k): v for k, v in spec.items() if v is not None}).close()
    except TypeError as error:
        raise ValueError(f"agentr1.env: {error}") from None
    if not cpu and "RAY_ADDRESS" not in os.environ:
        import torch

        if not torch.cuda.is_available():
            raise ValueError(
                "backend=verl: no GPU here; give device=cpu, or RAY_ADDRESS of a cluster that runs"
            )


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


def _tiny_model(settings: Sequence[str], directory: Path, quiet: bool) -> Path:
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
        train_locally(load_config(words), resume=True, overwrite=False, quiet=quiet)
    return checkpoints(directory / "checkpoints")[-1]
