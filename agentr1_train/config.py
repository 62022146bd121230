"""Run configuration: defaults, a recipe's base.yaml, the command line; merged in this order.

Files are read with OmegaConf (plain YAML: no tags are executed) and the command line follows
Hydra's override grammar (``key=value``, ``+key=value``, ``~key``, lists and dicts).
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omegaconf import DictConfig

#: Short keys for the command line.
ALIASES: dict[str, str] = {
    "backend": "agentr1.backend",
    "model": "actor_rollout_ref.model.path",
    "estimator": "algorithm.adv_estimator",
    "adv_estimator": "algorithm.adv_estimator",
    "policy_loss": "actor_rollout_ref.actor.policy_loss.loss_mode",
    "loss_weight": "agentr1.loss_weight",
    "context": "agentr1.env.context",
    "lr": "actor_rollout_ref.actor.optim.lr",
    "temperature": "actor_rollout_ref.rollout.temperature",
    "n": "actor_rollout_ref.rollout.n",
    "batch": "data.train_batch_size",
    "gamma": "algorithm.gamma",
    "lam": "algorithm.lam",
    "steps": "trainer.total_training_steps",
    "name": "trainer.experiment_name",
    "dir": "trainer.default_local_dir",
    "device": "trainer.device",
    "logger": "trainer.logger",
    "seed": "agentr1.seed",
    "preset": "agentr1.preset",
    "env": "agentr1.env.kwargs",
    "eval": "agentr1.eval",
    "cold_start": "agentr1.cold_start",
    "teacher": "agentr1.distill.teacher",
    "student": "actor_rollout_ref.model.path",
    "task_reward": "agentr1.distill.task_reward",
    "data": "agentr1.cold_start.data",
    "concurrency": "agentr1.rollout.concurrency",
    "isolation": "agentr1.rollout.isolation",
    "deterministic": "agentr1.deterministic",
}
#: Below these any key may be added: they are passed on as keyword arguments.
OPEN = (
    "agentr1.env.kwargs",
    "agentr1.env.context",
    "agentr1.eval.kwargs",
    "agentr1.eval.extra",
    "agentr1.cold_start.policy",
    "agentr1.cold_start.kwargs",
)
_CONTEXT = "agentr1.env.context"
_RENAMED_VALUES = {"actor_rollout_ref.actor.policy_loss.loss_mode": {"vanilla": "ppo"}}


class ConfigError(ValueError):
    """A file or override that cannot be used; the message names it and what was expected."""


def recipe_dir(recipe: str) -> Path:
    """The directory of a recipe: a name of `agentr1_recipes`, or a path to base.yaml or its folder.

    Raises:
        ConfigError: neither exists; the message lists the recipes that do.
    """
    path = Path(recipe)
    if path.name == "base.yaml" and path.is_file():
        return path.parent
    if (path / "base.yaml").is_file():
        return path
    import agentr1_recipes

    root = Path(agentr1_recipes.__path__[0])
    if recipe.isidentifier() and (root / recipe / "base.yaml").is_file():
        return root / recipe
    known = sorted(p.parent.name for p in root.glob("*/base.yaml"))
    raise ConfigError(f"recipe={recipe!r}: expected a folder with base.yaml or one of {known}")


def expand_key(key: str) -> str:
    """The long form of a key; one that is no alias is returned as it is."""
    head, dot, rest = key.partition(".")
    if head == "data" and dot:  # verl's own group; only the bare word is short for something
        return key
    return ALIASES.get(key) or (ALIASES[head] + dot + rest if head in ALIASES else key)


def load_config(overrides: Sequence[str], *, recipe: str | None = None) -> DictConfig:
    """The whole configuration of a run.

    Args:
        overrides: ``key=value`` in Hydra's grammar, keys long or short (`ALIASES`);
            ``recipe=NAME`` among them picks the recipe.
        recipe: the recipe where no override names one.

    Raises:
        ConfigError: unknown key or recipe, unreadable file, missing value.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import OverrideParseException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except OverrideParseException as error:
        raise ConfigError(f"override {error.override!r}: expected key=value") from None
    for one in parsed:
        if one.key_or_group == "recipe":
            recipe = str(one.value())
    if recipe is None:
        raise ConfigError("no recipe: expected recipe=NAME (agentr1 train recipe=gsm8k_tool)")
    base = recipe_dir(recipe) / "base.yaml"
    defaults = OmegaConf.load(Path(__file__).parent / "conf" / "local.yaml")
    try:
        config = OmegaConf.merge(defaults, OmegaConf.load(base))
    except (OmegaConfBaseException, YAMLError, OSError, ValueError) as error:
        raise ConfigError(f"{base}: {' '.join(str(error).split())}") from None
    assert isinstance(config, _dict_config())
    config.recipe = recipe
    # A preset first, so that single keys can still change what it sets.
    rest = [one for one in parsed if one.key_or_group != "recipe"]
    for one in [o for o in rest if expand_key(o.key_or_group) == "agentr1.preset"]:
        _apply(config, one)
    _preset(config)
    for one in rest:
        _apply(config, one)
    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        raise ConfigError(f"{base}: no value for {', '.join(missing)}")
    if not config.trainer.default_local_dir:
        config.trainer.default_local_dir = os.path.join("runs", str(config.trainer.experiment_name))
    return config


def _dict_config() -> Any:
    from omegaconf import DictConfig

    return DictConfig


def _apply(config: DictConfig, override: Any) -> None:
    from omegaconf import OmegaConf

    key = expand_key(override.key_or_group)
    if override.is_delete():
        parent, _, leaf = key.rpartition(".")
        node = OmegaConf.select(config, parent) if parent else config
        if node is None or leaf not in node:
            raise ConfigError(f"override {override.input_line!r}: no such key {key!r}")
        del node[leaf]
        return
    value = override.value()
    value = _RENAMED_VALUES.get(key, {}).get(value, value) if isinstance(value, str) else value
    if key == _CONTEXT:  # append, window:3 or {name: .., ..}: a rule as a whole
        config.agentr1.env.context = {}
    free = any(key == o or key.startswith(o + ".") for o in OPEN)
    if not free and not override.is_add() and not _exists(config, key):
        known = _keys(config)
        near = difflib.get_close_matches(key, [*known, *ALIASES], 3)
        hint = f"; close: {', '.join(near)}" if near else ""
        raise ConfigError(f"override {override.input_line!r}: unknown key {key!r}{hint}")
    OmegaConf.update(config, key, value, merge=isinstance(value, dict), force_add=True)


def _exists(config: DictConfig, key: str) -> bool:
    node: Any = config
    for part in key.split("."):
        if not isinstance(node, _dict_config()) or part not in node:
            return False
        node = node._get_node(part)
    return True


def _keys(config: Any, prefix: str = "") -> list[str]:
    out = []
    for key in config:
        node = config._get_node(key)
        name = f"{prefix}{key}"
        out += _keys(node, name + ".") if isinstance(node, _dict_config()) else [name]
    return out


def _preset(config: DictConfig) -> None:
    name = config.agentr1.preset
    if name is None:
        return
    if name != "steppo":
        raise ConfigError(f"agentr1.preset: {name!r}, expected steppo or null")
    config.algorithm.adv_estimator = "gae"
    config.actor_rollout_ref.actor.policy_loss.loss_mode = "gspo"
    config.actor_rollout_ref.actor.clip_ratio_low = 3e-4
    config.actor_rollout_ref.actor.clip_ratio_high = 4e-4


def save_config(config: DictConfig, path: str | Path) -> None:
    """Write the resolved configuration; atomic."""
    from omegaconf import OmegaConf

    from agentr1_envs.task_files import atomic_write

    with atomic_write(path) as handle:
        handle.write(OmegaConf.to_yaml(config, resolve=True).encode())
