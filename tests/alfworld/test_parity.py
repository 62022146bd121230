"""The state engine against the real one, and the real one against itself unmodified."""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import re
import secrets
import subprocess
import sys

import gymnasium as gym
import pytest

import agentr1_envs  # noqa: F401
from agentr1_envs.alfworld import parity, wording
from agentr1_envs.alfworld.compiler import compile_game, domain_hash, wording_of
from agentr1_envs.alfworld.engine import StateEngine
from agentr1_envs.alfworld.expert import Expert
from agentr1_envs.alfworld.game import UnreachableGoal
from agentr1_envs.alfworld.grammar import parse_grammar, split_goal
from agentr1_envs.alfworld.pddl import UnsupportedGame
from agentr1_envs.alfworld.textworld_engine import TextworldEngine
from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.seeding import derive_random

from .common import HOUSE, in_threads, package_texts

pytestmark = pytest.mark.textworld
ID = "AgentR1/ALFWorld-v0"


@pytest.fixture(scope="module")
def texts():
    pytest.importorskip("textworld")
    pytest.importorskip("fast_downward")
    return package_texts()


def real(problem: str, texts: tuple[str, str], goal: str = "put a mug in shelf"):
    return TextworldEngine(problem, texts[0], texts[1].replace("UNKNOWN GOAL", goal))


def test_sixty_games_of_all_types(texts):
    seed = secrets.randbelow(1 << 30)
    report = parity.run_parity(60, seed, steps=36)
    assert not report.differences, parity.format_difference(report.differences[0])
    assert report.games == 60 and report.steps == 60 * 36
    assert len(report.by_type) == 6 and min(report.by_type.values()) == 10
    assert report.won >= 20
    verbs = {"go", "take", "move", "put", "open", "close", "use", "slice", "clean", "heat", "cool"}
    assert verbs <= set(report.verbs), f"seed {seed}: {report.verbs}"
    assert report.verbs["(no command)"] > 60


ODD_HOUSES = {
    "flat": HOUSE,
    "held at the start": HOUSE.replace(
        "(inReceptacle Mug_bar__plus_01 Desk_bar_1)",
        "(holds agent1 Mug_bar__plus_01) (holdsAny agent1)",
    ),
    "in two receptacles": HOUSE.replace(
        "(isReceptacleObject Bowl_bar_1)",
        "(isReceptacleObject Bowl_bar_1) (inReceptacle Knife_bar_1 Shelf_bar_1)"
        " (inReceptacle Mug_bar__plus_02 Microwave_bar_1)",
    ),
    "an unreachable receptacle": HOUSE.replace(
        "(receptacleAtLocation Microwave_bar_1 loc_bar_3)", ""
    ),
    "a receptacle without a type": HOUSE.replace(
        "(receptacleType Microwave_bar_1 MicrowaveType)", ""
    ),
    "objects nowhere, at a location": HOUSE.replace(
        "(inReceptacle Apple_bar_1 Fridge_bar_1)",
        "(objectAtLocation Apple_bar_1 loc_bar_1) (objectAtLocation Knife_bar_1 loc_bar_2)",
    ),
    "flags and doors set at the start": HOUSE.replace(
        "(toggleable DeskLamp_bar_1)",
        "(toggleable DeskLamp_bar_1) (isToggled DeskLamp_bar_1) (isClean Mug_bar__plus_01)"
        " (isCool Mug_bar__plus_01) (isHot Mug_bar__plus_01) (isSliced Apple_bar_1)"
        " (opened Fridge_bar_1) (opened Desk_bar_1) (pickupable DeskLamp_bar_1)",
    ),
    "everything at one place": re.sub(
        r"(receptacleAtLocation \w+) loc_bar_\d", r"\1 loc_bar_1", HOUSE
    ),
    "the goal holds at once": HOUSE.replace("?r ShelfType", "?r DeskType"),
    "a place and a held object": HOUSE[: HOUSE.index("(:goal")]
    + "(:goal (and (exists (?a - agent ?l - location) (and (atLocation ?a ?l)"
    " (receptacleAtLocation Shelf_bar_1 ?l))) (exists (?o - object ?a - agent)"
    " (and (holds ?a ?o) (objectType ?o MugType) (isClean ?o))))))",
}


@pytest.mark.parametrize("name", ODD_HOUSES)
def test_odd_games(texts, name):
    for old in (False, True):
        domain, grammar = texts
        grammar = grammar.replace("UNKNOWN GOAL", "put a 100% clean mug; in {shelf")
        if old:
            domain, grammar = parity.older_domain(domain), parity.older_grammar(grammar)
        game = parity.ParityGame(name, "odd", ODD_HOUSES[name], domain, grammar)
        report = parity.ParityReport()
        parity.compare_game(game, 80, derive_random("odd", name), report)
        assert not report.differences, parity.format_difference(report.differences[0])


def random_world(random) -> str:
    """A small problem of random facts, many of them such as no house has."""
    objects = [f"{k}_bar_{i}" for k in ("Mug", "Knife", "Apple", "Basin") for i in range(2)]
    receptacles = ["Desk_bar_1", "Desk_bar_2", "Box_bar_1", "Sink_bar_1_bar_SinkBasin"]
    receptacles += ["Fridge_bar_1", "Microwave_bar_1"]
    places = [f"loc_bar_{i}" for i in range(4)]
    otypes = ["MugType", "KnifeType", "ButterKnifeType", "AppleType"]
    rtypes = ["DeskType", "BoxType", "SinkBasinType", "FridgeType", "MicrowaveType"]
    facts = [f"(atLocation agent1 {random.choice(places)})"]

    def some(text: str, chance: float, *pools: list[str]) -> None:
        for words in itertools.product(*pools):
            if random.random() < chance:
                facts.append(f"({text} {' '.join(words)})")

    for r in receptacles:
        if random.random() < 0.9:
            facts.append(f"(receptacleAtLocation {r} {random.choice(places[:3])})")
    some("receptacleType", 0.35, receptacles, rtypes)
    some("objectType", 0.4, objects, otypes)
    some("canContain", 0.4, rtypes, otypes)
    some("inReceptacle", 0.3, objects, receptacles)
    some("inReceptacleObject", 0.1, objects, objects)
    some("objectAtLocation", 0.15, objects, places)
    for fact in ("openable", "opened"):
        some(fact, 0.4, receptacles)
    for fact in ("pickupable", "cleanable", "heatable", "coolable", "sliceable"):
        some(fact, 0.7, objects)
    for fact in ("toggleable", "isReceptacleObject", "isClean", "isHot", "isCool", "isSliced"):
        some(fact, 0.25, objects)
    some("isToggled", 0.2, objects)
    some("isOn", 0.2, objects)
    if random.random() < 0.3:
        facts += [f"(holds agent1 {random.choice(objects)})", "(holdsAny agent1)"]
    wanted = random.choice(
        (
            "(isClean ?o)",
            "(isHot ?o) (isClean ?o)",
            "(isCool ?o) (not (= ?o ?p)) (inReceptacle ?p ?r)",
            "(isSliced ?o)",
            "(isToggled ?o)",
            "(opened ?r)" if random.random() < 0.2 else "(objectType ?o MugType)",
        )
    )
    random.shuffle(facts)
    lines = [*(f"{o} - object" for o in objects), *(f"{r} - receptacle" for r in receptacles)]
    lines += [f"{place} - location" for place in places]
    lines += [f"{t} - otype" for t in otypes] + [f"{t} - rtype" for t in rtypes]
    return (
        "(define (problem p) (:domain alfred) (:objects agent1 - agent\n"
        + "\n".join(lines)
        + ")\n(:init\n"
        + "\n".join(facts)
        + f")\n(:goal (and (exists (?r - receptacle ?o - object ?p - object) (and {wanted}"
        " (inReceptacle ?o ?r) (objectType ?o AppleType))))))"
    )


def test_worlds_of_random_facts(texts):
    seed = secrets.randbelow(1 << 30)
    report, refused = parity.ParityReport(), 0
    for i in range(60):
        random = derive_random("random-worlds", seed, i)
        problem = random_world(random)
        domain, grammar = texts
        grammar = grammar.replace("UNKNOWN GOAL", "do it")
        if i % 3 == 0:
            domain, grammar = parity.older_domain(domain), parity.older_grammar(grammar)
        game = parity.ParityGame(f"seed {seed} world {i}", "random", problem, domain, grammar)
        try:
            compile_game(problem, domain=domain, grammar=grammar)
        except UnreachableGoal:
            with pytest.raises(UnreachableGoal):
                TextworldEngine(problem, domain, grammar)
            refused += 1
        except UnsupportedGame:  # such as two receptacles' worth of held objects
            refused += 1
        else:
            parity.compare_game(game, 30, random, report)
        assert not report.differences, problem + parity.format_difference(report.differences[0])
    assert report.games > 30, (refused, report.games)


def test_games_patched_from_one_release_to_the_next(texts):
    """json_2.1.2: the older texts with the new wording put in, and a help that is no rule."""
    domain, grammar = texts
    text = wording.DEFAULT_WORDING.say["help.feedback"][0]
    older = parity.older_grammar(grammar)
    for new, old in (
        ("You arrive at {lend.name}.", "You arrive at {r.name}."),
        ("put {o} in/on {r}", "move {o} to {r}"),
        ("You put the {o.name} in/on the {r.name}.", "You move the {o.name} to the {r.name}."),
    ):
        older = older.replace(new, old)
    patched = f'{older}\naction help {{\n    template :: "help";\n    feedback :: "\n{text}";\n}}\n'
    start, _, end = parity.older_domain(domain).rpartition(")")
    help_action = domain[domain.index("(:action help") : domain.rindex(")")]
    game = parity.ParityGame("patched", "odd", HOUSE, f"{start}{help_action}){end}", patched)
    report = parity.ParityReport()
    parity.compare_game(game, 60, derive_random("patched"), report)
    assert not report.differences and report.verbs.get("help")


def test_what_is_known_beforehand_is_what_the_package_holds(texts):
    domain, grammar = texts
    assert wording.KNOWN_DOMAINS[domain_hash(domain)] is True
    assert wording.KNOWN_DOMAINS[domain_hash(parity.older_domain(domain))] is False
    digest, found = parse_grammar(split_goal(grammar)[0])
    assert digest in wording.KNOWN_SKELETONS
    default = wording.DEFAULT_WORDING
    assert {k: found.commands[k] for k in default.commands} == default.commands
    assert {k: found.say[k] for k in default.say} == default.say
    old, _ = wording_of(parity.older_domain(domain), parity.older_grammar(grammar))
    assert old.commands["putobject"] == "put %s in/on %s"
    assert old.arrive_names_location and not old.has_help


def test_unknown_domains_and_grammars_go_to_the_real_engine(texts):
    domain, grammar = texts
    grammar = grammar.replace("UNKNOWN GOAL", "put a mug in shelf")
    row = {"task_id": "odd", "goal": "put a mug in shelf", "pddl_problem": HOUSE}
    for changed in (
        (domain.replace("(pickupable ?o)\n", ""), grammar),
        (domain, grammar.replace("issliced(o:object)", "sliceable(o:object)")),
    ):
        with pytest.raises(UnsupportedGame):
            compile_game(HOUSE, domain=changed[0], grammar=changed[1])
        env = gym.make(ID)
        task = {**row, "pddl_domain": changed[0], "grammar": changed[1]}
        with pytest.warns(UserWarning, match="played in the real engine"):
            obs, info = env.reset(options={"task": task})
        assert "Your task is to: put a mug in shelf." in obs
        assert "metrics" not in info and "go to desk 1" in info["admissible_actions"]
        assert env.step("go to desk 1")[0].startswith("You arrive at desk 1.")
        assert env.unwrapped.task_text == "Your task is to: put a mug in shelf."
        with pytest.raises(EnvironmentFault, match="not known to the state engine"):
            env.unwrapped.state_engine()
        env.close()


def test_unreachable_goals(texts):
    problem = HOUSE.replace("?r ShelfType", "?r MicrowaveType")
    for make in (lambda: compile_game(problem, goal="x"), lambda: real(problem, texts)):
        with pytest.raises(UnreachableGoal):
            make()
    with pytest.raises(EnvironmentFault, match="cannot"):
        real("(define (problem x)", texts)
    assert real(HOUSE, texts).reset()  # the engine lives on


def unmodified(problem: str, texts: tuple[str, str], goal: str):
    """TextWorld's own environment, with ALFWorld's names; nothing of this project in it."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.envs.pddl import PddlEnv

    names = dict.fromkeys(("admissible_commands", "won", "score"), True)
    env = AlfredDemangler(PddlEnv(textworld.EnvInfos(**names)), shuffle=False)
    env.load(
        {
            "pddl_domain": texts[0],
            "grammar": texts[1].replace("UNKNOWN GOAL", goal),
            "pddl_problem": problem,
        }
    )
    return env


@pytest.mark.slow
def test_the_kept_work_changes_no_character(texts):
    game = next(iter(parity.parity_games(1, 5)))
    for problem, goal in ((HOUSE, "put a mug in shelf"), (game.problem, "do something")):
        plain, kept = unmodified(problem, texts, goal), real(problem, texts, goal)
        state = plain.reset()
        assert state.feedback == kept.reset()
        random = derive_random("kept", goal)
        for _ in range(12):
            assert kept.admissible() == state["admissible_commands"]
            assert kept.won == state["won"]
            command = random.choice([*state["admissible_commands"], "dance"])
            state, _, _ = plain.step(command)
            assert kept.step(command) == state.feedback


def test_the_process_is_left_alone(texts):
    arguments, stdout = list(sys.argv), sys.stdout
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        engine = real(HOUSE, texts)
        engine.reset()
        engine.step("go to desk 1")
        engine.close()
    assert printed.getvalue() == ""
    assert sys.argv == arguments and sys.stdout is stdout


def test_argv_is_not_read_at_import(texts):
    code = (
        "import sys; sys.argv = ['x', '--nonsense']\n"
        "from agentr1_envs.alfworld.textworld_engine import _import_engine\n"
        "_import_engine(); print(sys.argv)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"},
    )
    assert done.stdout.strip() == "['x', '--nonsense']", done.stderr


def test_threads_with_the_real_engine(texts):
    games = list(parity.parity_games(4, 3))

    def transcript(number: int) -> list[str]:
        game = games[number % 4]
        engine = TextworldEngine(game.problem, game.domain, game.grammar)
        said = [engine.reset()]
        for i in range(15):
            commands = engine.admissible()
            said.append(engine.step(commands[(i * 7 + number) % len(commands)]))
        engine.close()
        return said

    assert in_threads(transcript, 8) == [transcript(number) for number in range(8)]


def test_instances_are_reused(texts):
    from agentr1_envs.alfworld import textworld_engine

    engines = [real(HOUSE, texts) for _ in range(3)]
    for engine in engines:
        engine.close()
        engine.close()
    before = len(textworld_engine._POOL)
    engine = real(HOUSE, texts)
    assert len(textworld_engine._POOL) == before - 1
    del engine
    gc.collect()
    assert len(textworld_engine._POOL) == before


def test_one_environment_on_either_engine(texts):
    fast = gym.make(ID, split="test", order="sequential")
    slow = gym.make(ID, split="test", order="sequential", engine="textworld")
    for _ in range(2):
        for _ in range(2):  # the second time the same engine plays on
            one, other = (
                fast.reset(options={"task_index": 2}),
                slow.reset(options={"task_index": 2}),
            )
            assert one == other
        assert isinstance(slow.unwrapped._engine, TextworldEngine)
        policy = Expert(slow)
        policy.reset(*other)
        done = False
        while not done:
            command = policy.act("", {})
            mine, theirs = fast.step(command), slow.step(command)
            assert mine == theirs
            done = mine[2]
        assert mine[4]["success"]
    slow.close()


def test_games_that_nobody_recorded_are_played_by_rule():
    game = StateEngine(compile_game(HOUSE.replace("Mug", "Zebra"), goal="put a zebra in shelf"))
    game.reset()
    assert "zebra 2" in game.step("go to desk 1")
