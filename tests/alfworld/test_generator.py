"""Generated games: all types, disjoint scenes, official wording, won by the expert."""

from __future__ import annotations

import re
import subprocess
import sys

import gymnasium as gym
import pytest

from agentr1_envs.alfworld.engine import StateEngine
from agentr1_envs.alfworld.expert import solve
from agentr1_envs.alfworld.generator import (
    EASY_RECEPTACLES,
    GOALS,
    MAX_EXPERT_STEPS,
    SCENES,
    TASK_TYPES,
    generated_tasks,
    make_game,
    make_scene,
)
from agentr1_envs.alfworld.observer import parse_goal
from agentr1_envs.alfworld.rooms import OBJECTS, OPENABLE, ROOMS
from agentr1_envs.alfworld.rows import game_of, pack, unpack

from .common import row

NUMBER = 120


@pytest.fixture(scope="module")
def rows():
    return [row("train", i) for i in range(NUMBER)]


def test_all_types_in_turn_and_all_rooms(rows):
    assert [r["task_type"] for r in rows[:6]] == list(TASK_TYPES)
    assert {r["room"] for r in rows} == set(ROOMS)
    assert make_game("test", 5, "look_at_obj_in_light")["task_type"] == "look_at_obj_in_light"
    with pytest.raises(ValueError, match="task_type must be one of"):
        make_game("test", 5, "dance")


def test_every_game_is_won_by_the_expert_and_not_at_the_start(rows):
    for r in rows:
        engine = StateEngine(game_of(r))
        assert not engine.won
        plan = solve(engine)
        assert plan is not None and 0 < len(plan) <= MAX_EXPERT_STEPS
        for command in plan:
            assert not engine.won
            assert engine.step(command) != "Nothing happens."
        assert engine.won


def test_goals_are_worded_as_alfworld_words_them(rows):
    for r in rows:
        wanted = r["pddl_params"]
        texts = [
            g.format(
                obj=wanted["object_target"].lower(),
                recep=wanted["parent_target"].lower(),
                toggle=wanted["toggle_target"].lower(),
            )
            for g in GOALS[r["task_type"]]
        ]
        assert r["goal"] in texts
        assert parse_goal(r["goal"])["obj"] == wanted["object_target"].lower()


def test_the_same_index_is_the_same_game_in_another_process():
    code = (
        "from agentr1_envs.alfworld.generator import make_game; import hashlib, json;"
        "print(hashlib.sha256(json.dumps([make_game('test', i) for i in (0, 3, 77)])"
        ".encode()).hexdigest())"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(hashes) == 1 and hashes.pop().strip()


def test_splits_share_no_scene():
    seen: dict[str, str] = {}
    for split, number in SCENES.items():
        for i in range(number):
            scene = make_scene(split, i)
            for receptacle, _, _ in scene.receptacles:
                key = f"{scene.room} {receptacle}"
                assert seen.setdefault(key, split) == split
    layouts = {
        split: {make_scene(split, i).receptacles for i in range(n)} for split, n in SCENES.items()
    }
    assert not layouts["train"] & layouts["validation"]
    assert not layouts["train"] & layouts["test"]
    assert not layouts["validation"] & layouts["test"]


def test_rooms_are_furnished_as_their_kind(rows):
    shared = twins = nested = 0
    for r in rows:
        problem = unpack(r["problem"])
        kinds = dict(re.findall(r"\(receptacleType (\w+) (\w+)Type\)", problem))
        for kind, (least, most) in ROOMS[r["room"]].items():
            assert least <= list(kinds.values()).count(kind) <= most
        places = dict(re.findall(r"\(receptacleAtLocation (\S+) (\S+)\)", problem))
        shared += len(set(places.values())) < len(places)
        inside = re.findall(r"\(inReceptacle (\w+) (\w+)\)", problem)
        twins += len({o for o, _ in inside}) < len(inside)
        nested += "(inReceptacleObject" in problem
        object_kinds = dict(re.findall(r"\(objectType (\w+) (\w+)Type\)", problem))
        for o, receptacle in inside:
            spec = OBJECTS[object_kinds[o]]
            alone = f"(inReceptacleObject {o} " not in problem
            assert not alone or kinds[receptacle] in spec.holders
            assert r["room"] in spec.rooms
        doors = set(re.findall(r"\(openable (\S+)\)", problem))
        assert doors == {r for r, kind in kinds.items() if kind in OPENABLE}
    assert shared > NUMBER / 2 and twins and nested


def test_easy_games_are_small_and_others():
    for i in range(24):
        row = make_game("train", i, difficulty="easy")
        problem = unpack(row["problem"])
        kinds = re.findall(r"\(receptacleType \w+ (\w+)Type\)", problem)
        assert len(kinds) == len(set(kinds)) == EASY_RECEPTACLES
        assert set(kinds) <= set(ROOMS[row["room"]])
        if row["room"] == "kitchen":
            assert {"Fridge", "Microwave", "SinkBasin"} <= set(kinds)
        assert row["scene"].startswith("train-easy-")
        engine = StateEngine(game_of(row))
        for command in solve(engine):
            engine.step(command)
        assert engine.won
    easy, normal = generated_tasks("test", 6, "easy"), generated_tasks("test", 6)
    assert easy.hash != normal.hash and easy[2]["task_id"] != normal[2]["task_id"]
    layouts = {
        split: {make_scene(split, i, "easy").receptacles for i in range(n)}
        for split, n in SCENES.items()
    }
    assert not layouts["train"] & layouts["test"] and not layouts["train"] & layouts["validation"]
    env = gym.make("AgentR1/ALFWorld-v0", difficulty="easy", split="test")
    observation, _ = env.reset(options={"task_index": 0})
    assert observation.count(" 1,") + observation.count(" 1.") == EASY_RECEPTACLES
    for make in (
        lambda: make_game("test", 0, difficulty="hard"),
        lambda: gym.make("AgentR1/ALFWorld-v0", difficulty="hard"),
    ):
        with pytest.raises(ValueError, match="difficulty must be one of"):
            make()


def test_the_table_of_objects_names_known_rooms_and_receptacles():
    known = {kind for room in ROOMS.values() for kind in room}
    for name, spec in OBJECTS.items():
        assert spec.holders <= known, name
        assert spec.can <= {"clean", "heat", "cool", "slice", "light"}, name


def test_panels():
    panel = generated_tasks("valid_unseen", 12)
    assert (len(panel), panel.split) == (12, "test")
    task = panel[7]
    assert panel[panel.index(task["task_id"])] == task
    assert generated_tasks("test", 12).hash == panel.hash != generated_tasks("test", 13).hash
    # One for all environments of the process; what one of them does to its row stays there.
    again = generated_tasks("test", 12)
    again[7]["pddl_params"]["object_target"] = "changed"
    assert again is panel and again[7] == task


def test_packing():
    text = "mugs & 茶 \U0001f375"
    assert unpack(pack(text)) == text
    for bad in ("", "x", "é", pack(text)[:-5], "AAAA"):
        with pytest.raises(ValueError, match="not a packed text"):
            unpack(bad)
