"""A task of one's own: count the coins. The whole environment, its generator and its expert."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agentr1_envs.seeding import derive
from agentr1_envs.task_env import StepOutcome
from agentr1_envs.task_set import GeneratedTasks, TaskSource
from agentr1_envs.tool_env import ToolEnv
from agentr1_envs.tools import Tool, ToolError

SIZES = {"train": 10_000, "validation": 200, "test": 200}


def make_task(split: str, index: int) -> dict[str, Any]:
    """Task `index` of a split: drawn from its own name, so it never depends on what ran before."""
    rng = derive("coins-v1", split, index)
    coins = {name: int(rng.integers(1, 9)) for name in ("gold", "silver", "copper")}
    return {"coins": coins, "answer": sum(coins.values())}


class CoinsEnv(ToolEnv):
    """Open three boxes and say how many coins there are."""

    default_max_steps = 6
    system_prompt = "Open the boxes, then answer with the number of all coins."
    task_text = "The boxes are called gold, silver and copper. How many coins do they hold?"

    def _make_tasks(self, split: str) -> TaskSource:
        return GeneratedTasks(
            lambda index: make_task(split, index), size=SIZES[split], split=split, key="coins-v1"
        )

    def _make_tools(self) -> list[Tool]:
        def open_box(name: str) -> str:
            """Open a box and count its coins.

            Args:
                name: gold, silver or copper.
            """
            coins = self.task["coins"]
            if name not in coins:
                raise ToolError(f"there is no box {name!r}: {', '.join(coins)}", "no_box")
            self.opened.add(name)
            return f"{coins[name]} coins"

        return [Tool(open_box)]

    def _start(self, task: dict[str, Any]) -> str:
        self.opened: set[str] = set()
        self.right = False
        return self.task_text

    def _on_answer(self, text: str) -> StepOutcome:
        self.right = text.strip() == str(self.task["answer"])
        reply = "Right." if self.right else "Wrong."
        return StepOutcome(reply, float(self.right), terminated=True, stop_reason="answer")

    def _final(self) -> tuple[bool, float]:
        return self.right, float(self.right)

    def _anchor_state(self) -> str:
        return f"{sorted(self.opened)} {self.right}"


class Expert:
    """Opens every box, then adds."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.env = env

    def reset(self, observation: str, info: dict[str, Any]) -> None:
        self.total, self.left = 0, ["gold", "silver", "copper"]

    def act(self, observation: str, info: dict[str, Any]) -> str:
        for call in info.get("tool_calls", []):
            self.total += int(call["result"].split()[0])
        if not self.left:
            return str(self.total)
        name = self.left.pop(0)
        return f'<tool_call>{{"name": "open_box", "arguments": {{"name": "{name}"}}}}</tool_call>'


gym.register("Coins-v0", CoinsEnv, order_enforce=False, disable_env_checker=True)
