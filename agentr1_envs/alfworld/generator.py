"""ALFWorld games made on the spot: all six task types in rooms of four kinds.

A *scene* is a room with its receptacles and where they stand; train, validation and test draw from
disjoint scenes, and a game fills a scene with objects and asks for something. Every game is a pure
function of (split, index) and is won by the scripted expert before it is handed out.

Scores on generated games are not ALFWorld scores.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Any

from agentr1_envs.alfworld.compiler import compile_game
from agentr1_envs.alfworld.engine import StateEngine
from agentr1_envs.alfworld.game import UnreachableGoal
from agentr1_envs.alfworld.rooms import (
    DIFFICULTIES,
    OBJECT_KINDS,
    OBJECTS,
    OPENABLE,
    PART_OF,
    RECEPTACLE_KINDS,
    ROOMS,
)
from agentr1_envs.alfworld.rows import pack
from agentr1_envs.seeding import derive_random
from agentr1_envs.task_set import GeneratedTasks, canonical_split

#: Named in task ids; changes whenever a game of the same index would change.
GENERATOR_KEY = "alfworld-gen1"
PANEL_SIZES = {"train": 10_000, "validation": 200, "test": 200}
SCENES = {"train": 240, "validation": 60, "test": 60}
MAX_EXPERT_STEPS = 30
# An easy room: so many receptacles, no two of a kind; kitchens keep what changes things.
EASY_RECEPTACLES = 7
_EASY_KEEPS = frozenset({"Fridge", "Microwave", "SinkBasin"})

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
# The goal sentences of ALFWorld's templates.
GOALS: dict[str, tuple[str, str]] = {
    "pick_and_place_simple": ("put a {obj} in {recep}", "put some {obj} on {recep}"),
    "look_at_obj_in_light": (
        "look at {obj} under the {toggle}",
        "examine the {obj} with the {toggle}",
    ),
    "pick_clean_then_place_in_recep": (
        "put a clean {obj} in {recep}",
        "clean some {obj} and put it in {recep}",
    ),
    "pick_heat_then_place_in_recep": (
        "put a hot {obj} in {recep}",
        "heat some {obj} and put it in {recep}",
    ),
    "pick_cool_then_place_in_recep": (
        "put a cool {obj} in {recep}",
        "cool some {obj} and put it in {recep}",
    ),
    "pick_two_obj_and_place": (
        "put two {obj} in {recep}",
        "find two {obj} and put them in {recep}",
    ),
}
_CHANGE = {
    "pick_clean_then_place_in_recep": ("clean", "SinkBasin", "isClean"),
    "pick_heat_then_place_in_recep": ("heat", "Microwave", "isHot"),
    "pick_cool_then_place_in_recep": ("cool", "Fridge", "isCool"),
}
_ABLE = {
    "clean": "cleanable",
    "heat": "heatable",
    "cool": "coolable",
    "slice": "sliceable",
    "light": "toggleable",
}


@dataclass(frozen=True, slots=True)
class Scene:
    """A room without its loose objects.

    Attributes:
        name: e.g. ``train-kitchen-17``.
        receptacles: (id, kind, location), in order of ids.
        locations: all locations of the room; the agent's start is the last.
    """

    name: str
    room: str
    receptacles: tuple[tuple[str, str, str], ...]
    locations: tuple[str, ...]


@dataclass(slots=True)
class Draft:
    """A game on its way to PDDL. ``places``: object id -> ids of the receptacles it lies in."""

    scene: Scene
    kinds: dict[str, str] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)
    nested: list[tuple[str, str]] = field(default_factory=list)


def _coordinate(value: float) -> str:
    text = f"{value:+06.2f}"
    return text.replace("+", "_plus_").replace("-", "_minus_").replace(".", "_dot_")


def _identifier(kind: str, point: tuple[float, float, float]) -> str:
    part_of = PART_OF.get(kind, kind)
    text = part_of + "".join("_bar_" + _coordinate(v) for v in point)
    return text if part_of == kind else f"{text}_bar_{kind}"


def _location(random: Random) -> str:
    def signed(value: int) -> str:
        return f"_minus_{-value}" if value < 0 else str(value)

    parts = (
        signed(random.randint(-12, 12)),
        signed(random.randint(-12, 12)),
        str(random.randrange(4)),
        random.choice(("_minus_30", "_minus_15", "0", "15", "30", "45", "60")),
    )
    return "loc" + "".join("_bar_" + part for part in parts)


def _easy_room(room: str, random: Random) -> dict[str, tuple[int, int]]:
    """The kinds of receptacles of an easy room, one of each."""
    kept = [kind for kind in ROOMS[room] if kind in _EASY_KEEPS]
    others = [kind for kind in ROOMS[room] if kind not in _EASY_KEEPS]
    kept += random.sample(others, EASY_RECEPTACLES - len(kept))
    return {kind: (1, 1) for kind in ROOMS[room] if kind in kept}


@lru_cache(maxsize=1024)
def make_scene(split: str, number: int, difficulty: str = "normal") -> Scene:
    """Scene `number` of a split; a pure function."""
    split, easy = canonical_split(split), difficulty == "easy"
    random = derive_random(_key(difficulty), "scene", split, number)
    room = tuple(ROOMS)[number % len(ROOMS)]
    receptacles: list[tuple[str, str, str]] = []
    locations: list[str] = []
    taken: set[str] = set()

    def new_location() -> str:
        while (location := _location(random)) in taken:
            pass
        taken.add(location)
        locations.append(location)
        return location

    counts = _easy_room(room, random) if easy else ROOMS[room]
    for kind, (least, most) in counts.items():
        for _ in range(random.randint(least, most)):
            while True:
                point = (random.uniform(-4, 4), random.uniform(0, 2.4), random.uniform(-4, 4))
                identifier = _identifier(kind, point)
                if identifier not in taken:
                    break
            taken.add(identifier)
            # About one in eight shares the spot from which something else is reached.
            shared = receptacles and random.random() < 0.12
            location = random.choice(receptacles)[2] if shared else new_location()
            receptacles.append((identifier, kind, location))
    new_location()  # where the agent starts: nothing is within reach
    prefix = f"{split}-easy" if easy else split
    return Scene(f"{prefix}-{room}-{number}", room, tuple(sorted(receptacles)), tuple(locations))


def _holders(scene: Scene, kind: str) -> list[str]:
    allowed = OBJECTS[kind].holders
    return [identifier for identifier, r_kind, _ in scene.receptacles if r_kind in allowed]


def _place(draft: Draft, random: Random, kind: str, avoid: str = "") -> str | None:
    """Add an object of a kind, not in a receptacle of the kind `avoid`; its id, if it fits."""
    kind_of = {identifier: r_kind for identifier, r_kind, _ in draft.scene.receptacles}
    holders = [r for r in _holders(draft.scene, kind) if kind_of[r] != avoid]
    if not holders:
        return None
    while True:
        point = (random.uniform(-4, 4), random.uniform(0, 2.4), random.uniform(-4, 4))
        identifier = _identifier(kind, point)
        if identifier not in draft.kinds:
            break
    draft.kinds[identifier] = kind
    # Prefer no kind of receptacle merely because there are many of it.
    by_kind: dict[str, list[str]] = defaultdict(list)
    for r in holders:
        by_kind[kind_of[r]].append(r)
    place = random.choice(by_kind[random.choice(sorted(by_kind))])
    draft.places[identifier] = [place]
    return identifier


def _furnish(
    draft: Draft, random: Random, wanted: str, avoid: str, lamp: str, share: float
) -> None:
    """Fill the room with distractors (of a `share` of the kinds), sparing the goal's own kind."""
    room = draft.scene.room
    for kind, spec in OBJECTS.items():
        if room not in spec.rooms or kind == lamp:
            continue
        if share < 1 and random.random() >= share:
            continue
        if kind == wanted:
            extra = random.choice((0, 0, 1))
        elif "light" in spec.can:
            extra = int(random.random() < 0.3)
        else:
            extra = random.choice((0, 1, 1, 2, 3)[: spec.count + 2])
        for _ in range(min(extra, spec.count)):
            _place(draft, random, kind, avoid if kind == wanted else "")
    at = {identifier: location for identifier, _, location in draft.scene.receptacles}
    kind_of = {identifier: kind for identifier, kind, _ in draft.scene.receptacles}
    for identifier, places in draft.places.items():
        # As in the real data, something that two things at one spot overlap is in both of them.
        kind = draft.kinds[identifier]
        twins = [
            r
            for r in _holders(draft.scene, kind)
            if r != places[0] and at[r] == at[places[0]] and kind_of[r] not in OPENABLE
        ]
        if twins and kind != wanted and random.random() < 0.1:
            places.append(random.choice(twins))
    outers = [i for i, kind in draft.kinds.items() if OBJECTS[kind].holds]
    for identifier, kind in draft.kinds.items():
        small = kind in ("Egg", "Fork", "Spoon", "KeyChain", "Pen")
        if small and kind != wanted and outers and random.random() < 0.1:
            outer = random.choice(outers)
            draft.places[identifier] = list(draft.places[outer])
            draft.nested.append((identifier, outer))


def _choices(scene: Scene, task_type: str) -> list[tuple[str, str, str]]:
    """All (object kind, receptacle kind, lamp kind) that make sense in a scene."""
    present = {kind for _, kind, _ in scene.receptacles}
    out: list[tuple[str, str, str]] = []
    for kind, spec in sorted(OBJECTS.items()):
        if scene.room not in spec.rooms or spec.fixed:
            continue
        sources = {r for r in present if r in spec.holders}
        if task_type == "look_at_obj_in_light":
            out.extend(
                (kind, "", lamp)
                for lamp, other in sorted(OBJECTS.items())
                if "light" in other.can and scene.room in other.rooms and present & other.holders
            )
            continue
        verb, appliance, _ = _CHANGE.get(task_type, ("", "", ""))
        if verb and (verb not in spec.can or appliance not in present):
            continue
        if task_type == "pick_two_obj_and_place" and spec.count < 2:
            continue
        out.extend((kind, r, "") for r in sorted(sources) if len(sources) > 1)
    return out


def _goal_pddl(task_type: str, kind: str, recep: str, lamp: str) -> str:
    if task_type == "look_at_obj_in_light":
        return f"""(:goal
    (and
        (exists (?ot - object ?r - receptacle ?a - agent ?l - location)
            (and
                (objectType ?ot {lamp}Type)
                (toggleable ?ot)
                (isToggled ?ot)
                (receptacleAtLocation ?r ?l)
                (atLocation ?a ?l)
                (inReceptacle ?ot ?r)))
        (exists (?o - object ?a - agent)
            (and
                (objectType ?o {kind}Type)
                (holds ?a ?o)))))"""
    lines = [f"(objectType ?o {kind}Type)", f"(receptacleType ?r {recep}Type)"]
    if task_type in _CHANGE:
        verb, _, changed = _CHANGE[task_type]
        lines = [f"({_ABLE[verb]} ?o)", *lines, f"({changed} ?o)"]
    lines.append("(inReceptacle ?o ?r)")
    if task_type == "pick_two_obj_and_place":
        lines.append(
            f"(exists (?o2 - object) (and (not (= ?o ?o2)) (objectType ?o2 {kind}Type) "
            "(inReceptacle ?o2 ?r)))"
        )
    body = "\n                    ".join(lines)
    return f"""(:goal
    (and
        (exists (?r - receptacle)
            (exists (?o - object)
                (and
                    {body})))))"""


@lru_cache(maxsize=4096)
def _can_contain(receptacle_kinds: tuple[str, ...], object_kinds: tuple[str, ...]) -> str:
    return "\n".join(
        f"(canContain {r}Type {o}Type)"
        for r in receptacle_kinds
        for o in object_kinds
        if r in OBJECTS[o].holders
    )


_TYPES = "\n".join(
    [f"{kind}Type - otype" for kind in OBJECT_KINDS]
    + [f"{kind}Type - rtype" for kind in RECEPTACLE_KINDS]
)


def _problem_pddl(draft: Draft, goal: str) -> str:
    scene = draft.scene
    objects = sorted(draft.kinds)
    parts = ["(define (problem plan_proc)", "(:domain alfred)", "(:objects", "agent1 - agent"]
    parts.append(_TYPES)
    parts += [f"{o} - object" for o in objects]
    parts += [f"{r} - receptacle" for r, _, _ in scene.receptacles]
    parts += [f"{location} - location" for location in scene.locations]
    parts += [")", "(:init"]
    for identifier, kind, location in scene.receptacles:
        parts.append(f"(receptacleType {identifier} {kind}Type)")
        parts.append(f"(receptacleAtLocation {identifier} {location})")
        if kind in OPENABLE:
            parts.append(f"(openable {identifier})")
    parts.append(
        _can_contain(
            tuple(sorted({kind for _, kind, _ in scene.receptacles})),
            tuple(sorted(set(draft.kinds.values()))),
        )
    )
    for identifier in objects:
        spec = OBJECTS[draft.kinds[identifier]]
        parts.append(f"(objectType {identifier} {draft.kinds[identifier]}Type)")
        parts += [f"(inReceptacle {identifier} {r})" for r in draft.places[identifier]]
        if not spec.fixed:
            parts.append(f"(pickupable {identifier})")
        if spec.holds:
            parts.append(f"(isReceptacleObject {identifier})")
        parts += [f"({fact} {identifier})" for verb, fact in _ABLE.items() if verb in spec.can]
    parts += [f"(inReceptacleObject {inner} {outer})" for inner, outer in draft.nested]
    parts.append(f"(atLocation agent1 {scene.locations[-1]})")
    parts += [")", goal, ")"]
    return "\n".join(parts)


def _key(difficulty: str) -> str:
    return GENERATOR_KEY if difficulty == "normal" else f"{GENERATOR_KEY}-{difficulty}"


def make_game(
    split: str, index: int, task_type: str | None = None, difficulty: str = "normal"
) -> dict[str, Any]:
    """Game `index` of a split, as a task row; a pure function.

    Args:
        task_type: one of ``TASK_TYPES``; None goes through them in turn.
        difficulty: ``"easy"`` rooms have at most seven receptacles, no two of a kind, and few
            objects.

    Returns:
        A row with ``task_type``, ``goal``, ``room``, ``scene``, ``pddl_params`` (the keys of
        ALFRED's ``traj_data.json``), ``problem`` (packed PDDL, see rows.py) and
        ``expert_steps``.
    """
    from agentr1_envs.alfworld.expert import solve

    split = canonical_split(split)
    if task_type is None:
        task_type = TASK_TYPES[index % len(TASK_TYPES)]
    elif task_type not in TASK_TYPES:
        raise ValueError(f"task_type must be one of {TASK_TYPES}, got {task_type!r}")
    if difficulty not in DIFFICULTIES:
        raise ValueError(f"difficulty must be one of {DIFFICULTIES}, got {difficulty!r}")
    random = derive_random(_key(difficulty), "game", split, task_type, index)
    while True:
        scene = make_scene(split, random.randrange(SCENES[split]), difficulty)
        choices = _choices(scene, task_type)
        if not choices:
            continue
        # First the kind of object, so that those that fit in many places are not preferred.
        kind = random.choice(sorted({choice[0] for choice in choices}))
        _, recep, lamp = random.choice([choice for choice in choices if choice[0] == kind])
        draft = Draft(scene)
        wanted = 2 if task_type == "pick_two_obj_and_place" else 1
        placed = [_place(draft, random, kind, avoid=recep) for _ in range(wanted)]
        if lamp:
            placed.append(_place(draft, random, lamp))
        if None in placed:
            continue
        _furnish(draft, random, kind, recep, lamp, 0.3 if difficulty == "easy" else 1.0)
        goal = random.choice(GOALS[task_type]).format(
            obj=kind.lower(), recep=recep.lower(), toggle=lamp.lower()
        )
        problem = _problem_pddl(draft, _goal_pddl(task_type, kind, recep, lamp))
        try:
            engine = StateEngine(compile_game(problem, goal=goal))
        except UnreachableGoal:  # pragma: no cover - the choices above avoid it
            continue
        plan = None if engine.won else solve(engine)
        if plan is None or len(plan) > MAX_EXPERT_STEPS:
            continue
        return {
            "task_type": task_type,
            "goal": goal,
            "room": scene.room,
            "scene": scene.name,
            "pddl_params": {
                "object_target": kind,
                "parent_target": recep,
                "mrecep_target": "",
                "toggle_target": lamp,
                "object_sliced": False,
            },
            "expert_steps": len(plan),
            "problem": pack(problem),
        }


def generated_tasks(
    split: str, size: int | None = None, difficulty: str = "normal"
) -> GeneratedTasks:
    """The embedded panel of a split, one for all environments of the process.

    Making a game takes milliseconds (it is solved, too), and the episodes of a group play the same
    one in as many environments.
    """
    split = canonical_split(split)
    return _panel(split, PANEL_SIZES[split] if size is None else size, difficulty)


@lru_cache(maxsize=16)
def _panel(split: str, size: int, difficulty: str) -> GeneratedTasks:
    return GeneratedTasks(
        lambda index: make_game(split, index, difficulty=difficulty),
        size=size,
        split=split,
        key=_key(difficulty),
    )
