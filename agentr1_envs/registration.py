"""The one table of environments: id, class, scripted policies, data preparation."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym


@dataclass(frozen=True)
class EnvEntry:
    """An environment of the suite.

    Attributes:
        id: Gymnasium id.
        entry_point: ``"module:Class"``.
        task: Name of the task family: the folder under ``recipes/`` and `agentr1 prepare TASK`.
        summary: One line for tables.
        experts: Scripted policies by name, ``"module:Class"`` each. ``"expert"`` may see
            everything, ``"observer"`` sees what a player sees.
        prepare: Module with `add_arguments` and `main` for `agentr1 prepare`.
        blocking: Whether steps may block (network, slow engines), so that rollouts should run
            them in threads.
    """

    id: str
    entry_point: str
    task: str
    summary: str
    experts: dict[str, str] = field(default_factory=dict)
    prepare: str | None = None
    blocking: bool = False


ENVS: dict[str, EnvEntry] = {
    entry.id: entry
    for entry in (
        EnvEntry(
            id="AgentR1/GSM8KTool-v0",
            entry_point="agentr1_envs.gsm8k_tool.env:GSM8KToolEnv",
            task="gsm8k_tool",
            summary="Grade-school word problems with a calculator",
            experts={
                "expert": "agentr1_envs.gsm8k_tool.expert:Expert",
                "mental": "agentr1_envs.gsm8k_tool.expert:Mental",
                "observer": "agentr1_envs.gsm8k_tool.observer:Observer",
            },
            prepare="agentr1_recipes.gsm8k_tool.prepare",
        ),
        EnvEntry(
            id="AgentR1/HotpotQA-v0",
            entry_point="agentr1_envs.hotpotqa.env:HotpotQAEnv",
            task="hotpotqa",
            summary="Multi-hop questions answered by searching passages",
            experts={
                "expert": "agentr1_envs.hotpotqa.expert:Expert",
                "observer": "agentr1_envs.hotpotqa.expert:Observer",
                "guesser": "agentr1_envs.hotpotqa.expert:Guesser",
            },
            prepare="agentr1_recipes.hotpotqa.prepare",
        ),
        EnvEntry(
            id="AgentR1/ALFWorld-v0",
            entry_point="agentr1_envs.alfworld.env:ALFWorldEnv",
            task="alfworld",
            summary="Household tasks in text",
            experts={
                "expert": "agentr1_envs.alfworld.expert:Expert",
                "observer": "agentr1_envs.alfworld.observer:Observer",
                "surveyor": "agentr1_envs.alfworld.observer:Surveyor",
            },
            prepare="agentr1_recipes.alfworld.prepare",
        ),
        EnvEntry(
            id="AgentR1/WebShop-v0",
            entry_point="agentr1_envs.webshop.env:WebShopEnv",
            task="webshop",
            summary="Find and buy the product that an instruction describes",
            experts={
                "expert": "agentr1_envs.webshop.expert:Expert",
                "observer": "agentr1_envs.webshop.expert:Observer",
                "reader": "agentr1_envs.webshop.expert:Reader",
            },
            prepare="agentr1_recipes.webshop.prepare",
        ),
        EnvEntry(
            id="AgentR1/PaperScout-v0",
            entry_point="agentr1_envs.paperscout.env:PaperScoutEnv",
            task="paperscout",
            summary="Scholarly search with citations",
            experts={
                "expert": "agentr1_envs.paperscout.expert:Expert",
                "observer": "agentr1_envs.paperscout.expert:Observer",
            },
            prepare="agentr1_recipes.paperscout.prepare",
        ),
    )
}


def load(target: str) -> Any:
    """The object behind ``"module:name"``."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def env_class(env_id: str) -> type[gym.Env[Any, Any]]:
    """The class behind an id of the table."""
    return load(ENVS[env_id].entry_point)


def register_all() -> None:
    """Register every id with Gymnasium; entry points are strings, so nothing else is imported."""
    for entry in ENVS.values():
        if entry.id in gym.registry:
            continue
        gym.register(
            id=entry.id,
            entry_point=entry.entry_point,
            # `reset` and `step` check their own order, in every wrapper stack, at no cost.
            order_enforce=False,
            disable_env_checker=True,
            vector_entry_point=f"agentr1_envs.vector:{entry.entry_point.rpartition(':')[2]}",
        )
