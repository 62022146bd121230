"""Rooms for generated games: what stands where, what it holds, what can be done with it.

The names of the kinds are those of AI2-THOR, on which ALFRED is built; numbers and chances are this
project's own, chosen so that games look like ALFWorld's (a kitchen has about 25 receptacles,
the other rooms 10 to 15; a room holds some 20 to 35 objects).
"""

from __future__ import annotations

from dataclasses import dataclass

#: Of generated games.
DIFFICULTIES = ("normal", "easy")

# Kind -> (at least, at most) in a room.
Counts = dict[str, tuple[int, int]]

ROOMS: dict[str, Counts] = {
    "kitchen": {
        "Cabinet": (6, 13),
        "CoffeeMachine": (1, 1),
        "CounterTop": (2, 3),
        "DiningTable": (0, 1),
        "Drawer": (3, 9),
        "Fridge": (1, 1),
        "GarbageCan": (1, 1),
        "Microwave": (1, 1),
        "Shelf": (0, 3),
        "SideTable": (0, 1),
        "SinkBasin": (1, 1),
        "StoveBurner": (4, 4),
        "Toaster": (1, 1),
    },
    "livingroom": {
        "ArmChair": (1, 2),
        "Cabinet": (0, 4),
        "CoffeeTable": (1, 2),
        "DiningTable": (0, 1),
        "Drawer": (1, 5),
        "Dresser": (0, 1),
        "GarbageCan": (1, 1),
        "Ottoman": (0, 1),
        "Safe": (0, 1),
        "Shelf": (0, 4),
        "SideTable": (1, 3),
        "Sofa": (1, 1),
        "TVStand": (0, 1),
    },
    "bedroom": {
        "ArmChair": (0, 1),
        "Bed": (1, 1),
        "Desk": (1, 2),
        "Drawer": (2, 6),
        "Dresser": (0, 1),
        "GarbageCan": (1, 1),
        "LaundryHamper": (0, 1),
        "Safe": (0, 1),
        "Shelf": (0, 5),
        "SideTable": (1, 2),
    },
    "bathroom": {
        "BathtubBasin": (0, 1),
        "Cabinet": (2, 5),
        "CounterTop": (1, 2),
        "Drawer": (0, 3),
        "GarbageCan": (1, 1),
        "HandTowelHolder": (1, 2),
        "Shelf": (0, 2),
        "SideTable": (0, 1),
        "SinkBasin": (1, 2),
        "Toilet": (1, 1),
        "ToiletPaperHanger": (1, 1),
        "TowelHolder": (1, 1),
    },
}

OPENABLE = frozenset({"Cabinet", "Drawer", "Fridge", "Microwave", "Safe"})
# Drawn as part of a larger thing: its id is "Sink|..|SinkBasin".
PART_OF = {"SinkBasin": "Sink", "BathtubBasin": "Bathtub"}

_TABLES = "CounterTop DiningTable SideTable CoffeeTable"
_SEATS = "ArmChair Sofa Ottoman"
_STUDY = "Desk Dresser Shelf TVStand"
_FOOD = f"{_TABLES} Fridge Microwave SinkBasin GarbageCan"
_DISH = f"{_TABLES} Cabinet Shelf Fridge Microwave SinkBasin"
_POTS = f"{_TABLES} Cabinet Fridge SinkBasin StoveBurner"
_CUTLERY = f"{_TABLES} Drawer SinkBasin"
_DESK_THINGS = f"{_TABLES} {_STUDY} Drawer"
_BATH = "CounterTop SideTable Cabinet Drawer Shelf Toilet GarbageCan"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object.

    Attributes:
        holders: kinds of receptacles that it may be put in.
        rooms: rooms that it occurs in.
        count: most of it in one room.
        can: any of "clean heat cool slice light", blank-separated.
        holds: it is itself a (movable) receptacle.
        fixed: it cannot be picked up.
    """

    holders: frozenset[str]
    rooms: tuple[str, ...]
    count: int = 3
    can: frozenset[str] = frozenset()
    holds: bool = False
    fixed: bool = False


def _kind(holders: str, rooms: str, count: int = 3, can: str = "", **flags: bool) -> Kind:
    names = {"k": "kitchen", "l": "livingroom", "b": "bedroom", "w": "bathroom"}
    return Kind(
        frozenset(holders.split()),
        tuple(names[r] for r in rooms),
        count,
        frozenset(can.split()),
        **flags,
    )


OBJECTS: dict[str, Kind] = {
    "AlarmClock": _kind(_DESK_THINGS.replace(" Drawer", ""), "b"),
    "Apple": _kind(_FOOD, "k", can="clean heat cool slice"),
    "BaseballBat": _kind("Bed CounterTop DiningTable SideTable", "b", 1),
    "BasketBall": _kind(f"{_TABLES} {_SEATS} Bed Desk Dresser", "b", 1),
    "Book": _kind(f"{_DESK_THINGS} {_SEATS} Bed Cabinet", "bl", 3),
    "Bowl": _kind(f"{_DISH} Desk", "kb", can="clean cool", holds=True),
    "Box": _kind(f"{_TABLES} {_STUDY} {_SEATS} Cabinet", "l", 2, holds=True),
    "Bread": _kind(_FOOD.replace(" SinkBasin", ""), "k", 2, "heat cool slice"),
    "ButterKnife": _kind(_CUTLERY, "k", can="clean"),
    "CD": _kind(f"{_DESK_THINGS} Cabinet GarbageCan Safe", "b", 3),
    "Candle": _kind(f"{_DESK_THINGS} {_BATH}", "wl", 3),
    "CellPhone": _kind(f"{_DESK_THINGS} {_SEATS} Bed Safe", "bl", 3),
    "Cloth": _kind(f"{_BATH} BathtubBasin SinkBasin LaundryHamper Dresser", "w", 3, "clean"),
    "CreditCard": _kind(f"{_DESK_THINGS} {_SEATS}", "bl", 3),
    "Cup": _kind(_DISH, "k", can="clean heat cool", holds=True),
    "DeskLamp": _kind("Desk Dresser SideTable", "bl", 1, "light", fixed=True),
    "DishSponge": _kind(f"{_BATH} BathtubBasin SinkBasin DiningTable", "kw", 2, "clean"),
    "Egg": _kind(_FOOD, "k", can="clean heat cool"),
    "FloorLamp": _kind("SideTable Shelf Dresser Desk", "l", 1, "light", fixed=True),
    "Fork": _kind(_CUTLERY, "k", can="clean"),
    "Glassbottle": _kind(f"{_DISH} Desk Dresser", "k", 2),
    "HandTowel": _kind(f"{_BATH} HandTowelHolder SinkBasin BathtubBasin", "w", 2),
    "Kettle": _kind(f"{_TABLES} Cabinet Shelf SinkBasin StoveBurner", "k", 2, "clean"),
    "KeyChain": _kind(f"{_DESK_THINGS} {_SEATS} Safe", "bl", 3),
    "Knife": _kind(_CUTLERY, "k", 2, "clean"),
    "Ladle": _kind(f"{_CUTLERY} Cabinet", "k", 2, "clean"),
    "Laptop": _kind(f"{_TABLES} {_SEATS} Bed Desk Dresser", "bl", 2),
    "Lettuce": _kind(_FOOD.replace(" Microwave", ""), "k", 2, "clean cool slice"),
    "Mug": _kind(f"{_DISH} CoffeeMachine Desk Dresser", "kb", 3, "clean heat cool", holds=True),
    "Newspaper": _kind(f"{_DESK_THINGS} {_SEATS} Bed Toilet GarbageCan", "l", 2),
    "Pan": _kind(_POTS, "k", 2, "clean cool", holds=True),
    "PaperTowelRoll": _kind(f"{_TABLES} Cabinet Shelf GarbageCan Toilet", "k", 1),
    "Pen": _kind(f"{_DESK_THINGS} GarbageCan", "b", 3),
    "Pencil": _kind(f"{_DESK_THINGS} GarbageCan", "b", 3),
    "PepperShaker": _kind(f"{_TABLES} Cabinet Drawer Shelf", "k", 3),
    "Pillow": _kind("Bed Sofa ArmChair Ottoman", "bl", 2),
    "Plate": _kind(f"{_DISH} Desk", "k", can="clean heat cool", holds=True),
    "Plunger": _kind("Cabinet CounterTop Toilet", "w", 1),
    "Pot": _kind(f"{_POTS} Shelf", "k", 2, "clean cool", holds=True),
    "Potato": _kind(_FOOD, "k", can="clean heat cool slice"),
    "RemoteControl": _kind(f"{_DESK_THINGS} {_SEATS}", "l", 3),
    "SaltShaker": _kind(f"{_TABLES} Cabinet Drawer Shelf", "k", 3),
    "ScrubBrush": _kind("Cabinet CounterTop Toilet GarbageCan", "w", 1),
    "SoapBar": _kind(f"{_BATH} BathtubBasin SinkBasin", "w", 3, "clean"),
    "SoapBottle": _kind(f"{_BATH} DiningTable", "kw", 3),
    "Spatula": _kind(_CUTLERY, "k", can="clean"),
    "Spoon": _kind(_CUTLERY, "k", can="clean"),
    "SprayBottle": _kind(f"{_BATH} DiningTable Dresser", "w", 3),
    "Statue": _kind(f"{_TABLES} {_STUDY} Safe", "l", 3),
    "TennisRacket": _kind(f"{_TABLES} Bed Desk Dresser", "b", 1),
    "TissueBox": _kind(f"{_DESK_THINGS} {_BATH}", "lw", 2),
    "ToiletPaper": _kind(f"{_BATH} ToiletPaperHanger", "w", 3),
    "Tomato": _kind(_FOOD, "k", can="clean heat cool slice"),
    "Towel": _kind("TowelHolder BathtubBasin", "w", 1),
    "Vase": _kind(f"{_TABLES} {_STUDY} Cabinet Safe", "lk", 2),
    "Watch": _kind(f"{_DESK_THINGS} Safe", "l", 3),
    "WateringCan": _kind(f"{_TABLES} {_STUDY} Cabinet Drawer", "l", 1),
    "WineBottle": _kind(f"{_TABLES} Cabinet Fridge Shelf GarbageCan", "k", 2, "cool"),
}

# Declared in every problem, as ALFRED's problems declare all kinds.
OBJECT_KINDS = tuple(sorted(OBJECTS))
RECEPTACLE_KINDS = tuple(sorted({kind for room in ROOMS.values() for kind in room}))
