"""The state engine on a hand-made flat: what is odd about ALFWorld, one by one."""

from __future__ import annotations

import pytest

from agentr1_envs.alfworld.compiler import compile_game
from agentr1_envs.alfworld.engine import StateEngine
from agentr1_envs.alfworld.game import UnreachableGoal, entity_names
from agentr1_envs.alfworld.pddl import UnsupportedGame

from .common import HOUSE, engine, in_threads


@pytest.fixture
def flat() -> StateEngine:
    game = StateEngine(compile_game(HOUSE, goal="put a mug in shelf"))
    game.reset()
    return game


def play(game: StateEngine, *commands: str) -> str:
    said = ""
    for command in commands:
        said = game.step(command)
        assert said != "Nothing happens.", command
    return said


def test_introduction(flat):
    assert flat.reset() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly "
        "around you, you see a desk 1, a fridge 1, a microwave 1, a shelf 1, and a sinkbasin 1."
        "\n\nYour task is to: put a mug in shelf."
    )


def test_look_before_the_first_move_sees_nothing(flat):
    assert play(flat, "look").endswith("you see nothing.")


def test_objects_are_listed_by_id_and_numbered_from_above(flat):
    said = play(flat, "go to desk 1")
    assert said == (
        "You arrive at desk 1. On the desk 1, you see a bowl 1, a egg 1, a knife 1, and a mug 2."
    )
    assert entity_names(["b_bar_2", "b_bar_1", "a_bar_1_bar_xbasin", "agent"]) == {
        "a_bar_1_bar_xbasin": "abasin 1",
        "b_bar_1": "b 2",
        "b_bar_2": "b 1",
        "agent": "agent ",
    }


def test_no_go_to_where_one_is(flat):
    play(flat, "go to desk 1")
    for command in ("go to desk 1", "go to shelf 1"):
        assert command not in flat.admissible()
        assert flat.step(command) == "Nothing happens."
    assert (
        play(flat, "look") == "You are facing the desk 1, and shelf 1. Next to it, you see nothing."
    )


def test_examine_reaches_held_objects_only(flat):
    play(flat, "go to desk 1")
    assert flat.step("examine mug 2") == "Nothing happens."
    play(flat, "take mug 2 from desk 1")
    assert play(flat, "examine mug 2") == "There's nothing special about mug 2."


def test_appliances_work_closed_and_heat_undoes_cold(flat):
    play(flat, "go to desk 1", "take mug 2 from desk 1", "go to fridge 1")
    play(flat, "cool mug 2 with fridge 1")
    assert play(flat, "examine mug 2") == "This is a cold mug 2."
    play(flat, "go to microwave 1", "heat mug 2 with microwave 1")
    assert play(flat, "examine mug 2") == "This is a hot mug 2."
    play(flat, "go to sinkbasin 1", "clean mug 2 with sinkbasin 1")
    assert play(flat, "examine mug 2") == "This is a hot and clean mug 2."


def test_use_turns_on_and_never_off(flat):
    said = play(flat, "go to shelf 1", "use desklamp 1")
    assert said == "You turn on the desklamp 1."
    assert play(flat, "use desklamp 1") == said


def test_slicing_needs_a_move(flat):
    play(flat, "go to fridge 1", "open fridge 1", "take apple 1 from fridge 1", "go to desk 1")
    play(flat, "move apple 1 to desk 1", "take knife 1 from desk 1")
    assert "slice apple 1 with knife 1" in flat.admissible()
    assert play(flat, "slice apple 1 with knife 1") == "You sliced the apple 1 with the knife 1."
    play(flat, "move knife 1 to desk 1", "take apple 1 from desk 1")
    assert play(flat, "examine apple 1") == "This is a sliced apple 1."


def test_movable_receptacles_show_what_is_inside(flat):
    play(flat, "go to desk 1", "take bowl 1 from desk 1")
    assert play(flat, "examine bowl 1") == "This is a normal bowl 1. In it, you see a egg 1."


def test_moved_between_receptacles_at_one_place_it_is_also_next_to_one(flat):
    play(flat, "go to desk 1", "take mug 2 from desk 1", "move mug 2 to shelf 1")
    assert flat.won and flat.score == 1 and flat.done
    assert play(flat, "look").endswith("Next to it, you see a mug 2.")
    play(flat, "take mug 2 from shelf 1")
    assert not flat.won
    play(flat, "move mug 2 to desk 1")
    assert play(flat, "look").endswith("Next to it, you see a mug 2.")


def test_closed_receptacles(flat):
    assert play(flat, "go to fridge 1") == "You arrive at fridge 1. The fridge 1 is closed."
    assert flat.step("take apple 1 from fridge 1") == "Nothing happens."
    assert play(flat, "open fridge 1") == (
        "You open the fridge 1. The fridge 1 is open. In it, you see a apple 1, and a mug 1."
    )
    assert play(flat, "close fridge 1") == "You close the fridge 1."


def test_only_outer_white_space_is_forgiven(flat):
    assert flat.step("  look \n") != "Nothing happens."
    for command in ("LOOK", "Look", "go  to desk 1", "go to desk 1.", "", "put mug 2 in/on desk 1"):
        assert flat.step(command) == "Nothing happens.", command


def test_help_has_no_leading_newline(flat):
    assert play(flat, "help").startswith("Available commands:\n  look:")


def test_unreachable_goals_are_refused():
    with pytest.raises(UnreachableGoal, match="cannot be reached"):
        compile_game(HOUSE.replace("?r ShelfType", "?r MicrowaveType"), goal="x")


def test_a_goal_that_holds_already():
    done = HOUSE.replace("?r ShelfType", "?r DeskType")
    assert StateEngine(compile_game(done, goal="x")).won


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(openable Fridge_bar_1)", "(locked Fridge_bar_1)", "no such predicate"),
        ("(openable Fridge_bar_1)", "(openable Mug_bar__plus_01)", "receptacle"),
        ("(openable Fridge_bar_1)", "(openable Nowhere)", "receptacle"),
        ("(atLocation agent1 loc_bar_9)", "", "exactly one agent"),
        ("(openable Fridge_bar_1)", "(holds agent1 Mug_bar__plus_01)", "odd set"),
        ("(openable Fridge_bar_1)", "(not (opened Fridge_bar_1))", "not a fact"),
        ("(objectType ?o MugType)", "(not (objectType ?o MugType))", "'not'"),
        ("(objectType ?o MugType)", "(checked ?r)", "checked"),
        ("(:goal", "(:wish", "no \\(:goal"),
        (
            "(openable Fridge_bar_1)",
            "(receptacleAtLocation Desk_bar_1 loc_bar_2)",
            "two locations",
        ),
        ("Mug_bar__plus_02 Apple", "Müg Apple", "outside what is known"),
    ],
)
def test_what_is_not_known_is_refused_never_guessed(old, new, message):
    assert old in HOUSE
    with pytest.raises(UnsupportedGame, match=message):
        compile_game(HOUSE.replace(old, new), goal="put a mug in shelf")


def test_state_keys_are_equal_for_equal_states_only(flat):
    keys = {"start": flat.state_key()}
    play(flat, "look", "inventory")
    assert flat.state_key() == keys["start"]
    play(flat, "go to desk 1")
    keys["desk"] = flat.state_key()
    play(flat, "take mug 2 from desk 1")
    keys["held"] = flat.state_key()
    play(flat, "go to fridge 1", "open fridge 1", "close fridge 1", "go to desk 1")
    assert flat.state_key() == keys["held"]
    play(flat, "move mug 2 to desk 1")
    assert flat.state_key() == keys["desk"]
    play(flat, "take mug 2 from desk 1", "move mug 2 to shelf 1", "take mug 2 from shelf 1")
    keys["look now shows it"] = flat.state_key()
    play(flat, "move mug 2 to desk 1", "go to fridge 1", "open fridge 1")
    keys["fridge"] = flat.state_key()
    play(flat, "take apple 1 from fridge 1", "move apple 1 to fridge 1")
    keys["can be sliced now"] = flat.state_key()
    assert len(set(keys.values())) == 6


def test_goal_progress(flat):
    assert flat.goal_progress() == 0.0
    lamp = engine(task_type="look_at_obj_in_light")
    from agentr1_envs.alfworld.expert import solve

    seen = [lamp.goal_progress()]
    for command in solve(lamp):
        lamp.step(command)
        seen.append(lamp.goal_progress())
    assert seen[0] < 1 and seen[-1] == 1.0 and seen == sorted(seen)


def test_copies_are_independent(flat):
    other = flat.copy()
    play(other, "go to desk 1", "take mug 2 from desk 1")
    assert flat.held == -1 and flat.contents(flat.game.receptacles.index("desk 1"))
    assert "go to desk 1" in flat.admissible()


def test_sixteen_threads_play_as_one_does():
    def transcript(number: int) -> list[str]:
        game = engine("train", number % 8)
        said = [game.reset()]
        for i in range(200):
            commands = game.admissible()
            said.append(game.step(commands[(i * 7 + number) % len(commands)]))
        return said

    assert in_threads(transcript, 16) == [transcript(number) for number in range(16)]
