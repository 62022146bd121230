"""What the tests of ALFWorld share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest

from agentr1_envs.alfworld.engine import StateEngine
from agentr1_envs.alfworld.generator import make_game
from agentr1_envs.alfworld.rows import game_of


@cache
def row(split: str, index: int, task_type: str | None = None) -> dict[str, Any]:
    """A generated task row with an id."""
    return {"task_id": f"{split}-{index}", **make_game(split, index, task_type)}


def engine(split: str = "test", index: int = 0, task_type: str | None = None) -> StateEngine:
    """A generated game, at its start."""
    game = StateEngine(game_of(row(split, index, task_type)))
    game.reset()
    return game


def package_texts() -> tuple[str, str]:
    """Domain and grammar of the installed alfworld package, or a skip."""
    from agentr1_envs.alfworld import official

    try:
        return official.package_texts()
    except ImportError as error:
        pytest.skip(str(error))


def in_threads(play: Callable[[int], Any], count: int) -> list[Any]:
    """``[play(0), play(1), ..]``, all at the same time."""
    start = threading.Barrier(count)

    def run(number: int) -> Any:
        start.wait()
        return play(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


# A hand-made flat: two receptacles share a location, one is closed, one object is in two of them.
HOUSE = """
(define (problem small) (:domain alfred)
(:objects agent1 - agent
  MugType AppleType KnifeType BowlType DeskLampType EggType - otype
  DeskType FridgeType SinkBasinType MicrowaveType ShelfType - rtype
  Mug_bar__plus_01 Mug_bar__plus_02 Apple_bar_1 Knife_bar_1 Bowl_bar_1 DeskLamp_bar_1 - object
  Egg_bar_1 - object
  Desk_bar_1 Shelf_bar_1 Fridge_bar_1 Microwave_bar_1 Sink_bar_1_bar_SinkBasin - receptacle
  loc_bar_0 loc_bar_1 loc_bar_2 loc_bar_3 loc_bar_9 - location)
(:init
  ; a comment, and a numeric fluent that the engine ignores
  (= (distance loc_bar_0 loc_bar_1) 3)
  (receptacleType Desk_bar_1 DeskType) (receptacleType Shelf_bar_1 ShelfType)
  (receptacleType Fridge_bar_1 FridgeType) (receptacleType Microwave_bar_1 MicrowaveType)
  (receptacleType Sink_bar_1_bar_SinkBasin SinkBasinType)
  (receptacleAtLocation Desk_bar_1 loc_bar_1) (receptacleAtLocation Shelf_bar_1 loc_bar_1)
  (receptacleAtLocation Fridge_bar_1 loc_bar_2) (receptacleAtLocation Microwave_bar_1 loc_bar_3)
  (receptacleAtLocation Sink_bar_1_bar_SinkBasin loc_bar_0)
  (openable Fridge_bar_1) (openable Microwave_bar_1)
  (canContain DeskType MugType) (canContain ShelfType MugType) (canContain DeskType AppleType)
  (canContain DeskType KnifeType) (canContain FridgeType AppleType)
  (canContain FridgeType MugType)
  (objectType Mug_bar__plus_01 MugType) (objectType Mug_bar__plus_02 MugType)
  (objectType Apple_bar_1 AppleType) (objectType Knife_bar_1 KnifeType)
  (objectType Bowl_bar_1 BowlType) (objectType DeskLamp_bar_1 DeskLampType)
  (objectType Egg_bar_1 EggType)
  (inReceptacle Mug_bar__plus_01 Desk_bar_1) (inReceptacle Mug_bar__plus_02 Fridge_bar_1)
  (inReceptacle Apple_bar_1 Fridge_bar_1) (inReceptacle Knife_bar_1 Desk_bar_1)
  (inReceptacle Bowl_bar_1 Desk_bar_1) (inReceptacle DeskLamp_bar_1 Shelf_bar_1)
  (inReceptacle Egg_bar_1 Desk_bar_1) (inReceptacleObject Egg_bar_1 Bowl_bar_1)
  (isReceptacleObject Bowl_bar_1) (toggleable DeskLamp_bar_1)
  (pickupable Mug_bar__plus_01) (pickupable Mug_bar__plus_02) (pickupable Apple_bar_1)
  (pickupable Knife_bar_1) (pickupable Bowl_bar_1) (pickupable Egg_bar_1)
  (cleanable Mug_bar__plus_01) (heatable Mug_bar__plus_01) (coolable Mug_bar__plus_01)
  (sliceable Apple_bar_1)
  (atLocation agent1 loc_bar_9))
(:goal (and (exists (?r - receptacle) (exists (?o - object) (and
  (objectType ?o MugType) (receptacleType ?r ShelfType) (inReceptacle ?o ?r)))))))
"""
