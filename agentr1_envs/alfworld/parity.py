"""Is the state engine still ALFWorld? Both engines play the same commands and must agree.

After every command the observation, the admissible commands, score, done and won are compared.
Commands are the expert's, random admissible ones (drawn by verb, so that the many ``go to`` do not
crowd out the rest), and things no player should type.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from agentr1_envs.alfworld.compiler import compile_game
from agentr1_envs.alfworld.engine import StateEngine
from agentr1_envs.alfworld.expert import Planner, Stuck, solve
from agentr1_envs.alfworld.generator import TASK_TYPES, make_game
from agentr1_envs.alfworld.grammar import GOAL_PLACEHOLDER
from agentr1_envs.alfworld.official import OfficialTasks, package_texts
from agentr1_envs.alfworld.rows import unpack
from agentr1_envs.alfworld.textworld_engine import TextworldEngine
from agentr1_envs.seeding import derive_random

_ODD = (
    "",
    "LOOK",
    "Look",
    "  look  ",
    "\tinventory\n",
    "go  to {r}",
    "go to {R}",
    "goto {r}",
    " go to {r} ",
    "go to nowhere 9",
    "take {o}",
    "take {o} from {r}.",
    "examine",
    "examine {o}",
    "put {o} in/on {r}",
    "move {o} to {r}",
    "use {o}",
    "slice {o} with {o}",
    "heat {o} with {r}",
    "open {r}; close {r}",
    "fly to the moon",
    "nothing happens.",
    "看",
)


@dataclass(frozen=True, slots=True)
class ParityGame:
    """A game as text, under a name for reports."""

    name: str
    task_type: str
    problem: str
    domain: str
    grammar: str


@dataclass(slots=True)
class ParityReport:
    """Outcome of a parity run.

    Attributes:
        differences: one dict for each game that differed, with the commands up to there.
        engine_seconds, real_seconds: CPU seconds spent in steps (admissible commands included).
    """

    games: int = 0
    steps: int = 0
    won: int = 0
    by_type: dict[str, int] = field(default_factory=dict)
    verbs: dict[str, int] = field(default_factory=dict)
    differences: list[dict[str, Any]] = field(default_factory=list)
    engine_seconds: float = 0.0
    real_seconds: float = 0.0


def parity_games(number: int, seed: int) -> Iterator[ParityGame]:
    """Generated games of all types in turn, some of them bent to what official files also hold.

    The variations: the wording and domain of releases before 0.4, ``objectAtLocation`` facts, an
    agent that starts at a receptacle, doors that stand open, all receptacles at few locations.
    """
    domain, grammar = package_texts()
    for i in range(number):
        random = derive_random("alfworld-parity", seed, i)
        task_type = TASK_TYPES[i % len(TASK_TYPES)]
        index, easy = random.randrange(1 << 30), random.random() < 0.2
        row = make_game("test", index, task_type, "easy" if easy else "normal")
        problem = unpack(row["problem"])
        texts = (domain, grammar.replace(GOAL_PLACEHOLDER, row["goal"]))
        marks = ["easy"] if easy else []
        if random.random() < 0.3:
            texts, marks = (
                (older_domain(texts[0]), older_grammar(texts[1])),
                [*marks, "old wording"],
            )
        for chance, mark, bend in _BENDS:
            if random.random() < chance:
                problem = bend(problem, random)
                marks.append(mark)
        name = f"seed {seed} game {i}" + (f" ({', '.join(marks)})" if marks else "")
        yield ParityGame(name, task_type, problem, *texts)


def official_games(
    root: str, split: str, number: int, seed: int
) -> tuple[Iterator[ParityGame], int]:
    """Official games drawn without replacement, and how many there are of them.

    Raises:
        FileNotFoundError, TaskDataError: the folder holds no playable games.
    """
    panel = OfficialTasks(root, split)
    chosen = list(range(len(panel)))
    derive_random("alfworld-parity-official", seed).shuffle(chosen)
    chosen = chosen[:number]

    def games() -> Iterator[ParityGame]:
        for i in chosen:
            row = panel[i]
            texts = (row["pddl_problem"], row["pddl_domain"], row["grammar"])
            yield ParityGame(row["task_id"], row["task_type"], *texts)

    return games(), len(chosen)


def older_domain(domain: str) -> str:
    """The domain of ALFWorld before 0.4: without the action ``help``."""
    start = domain.index("(:action help")
    depth, end = 0, start
    while end < len(domain):
        depth += {"(": 1, ")": -1}.get(domain[end], 0)
        end += 1
        if depth == 0:
            break
    return domain[:start] + domain[end:]


def older_grammar(grammar: str) -> str:
    """The grammar of ALFWorld before 0.4: ``put X in/on Y``, arrival at a location, no ``help``."""
    for new, old in (
        ("You arrive at {r.name}.", "You arrive at {lend.name}."),
        ("move {o} to {r}", "put {o} in/on {r}"),
        ("You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}."),
    ):
        grammar = grammar.replace(new, old)
    return grammar[: grammar.index("action help {")]


def _facts(problem: str, predicate: str) -> list[list[str]]:
    head = f"({predicate} "
    return [line[len(head) : -1].split() for line in problem.split("\n") if line.startswith(head)]


def _with_facts(problem: str, facts: Iterable[str]) -> str:
    return problem.replace("(:init\n", "(:init\n" + "".join(f"({f})\n" for f in facts), 1)


def _object_locations(problem: str, random: Random) -> str:
    """Where objects are reached from: mostly, not always, from where their receptacle is."""
    at = {r: place for r, place in _facts(problem, "receptacleAtLocation")}
    places = sorted(set(at.values()))
    return _with_facts(
        problem,
        (
            f"objectAtLocation {o} {at[r] if random.random() < 0.8 else random.choice(places)}"
            for o, r in _facts(problem, "inReceptacle")
        ),
    )


def _leftovers(problem: str, random: Random) -> str:
    """What official problems hold besides: fixtures, kinds as objects, costs, old traces."""
    at = {r: place for r, place in _facts(problem, "receptacleAtLocation")}
    facts = ["= (total-cost) 0"]
    names = ["SaltShaker", "Chair"]
    for kind in ("Chair", "StoveKnob", "LightSwitch", "Sink"):
        for i in range(random.randint(0, 2)):
            name = f"{kind}_bar__plus_0{i}_dot_{random.randrange(10, 99)}"
            if name not in names:
                names.append(name)
                facts.append(f"objectType {name} {random.choice(('MugType', 'PanType'))}")
                facts.append(f"objectAtLocation {name} {random.choice(sorted(at.values()))}")
    inside = _facts(problem, "inReceptacle")
    facts += [f"wasInReceptacle {o} {r}" for o, r in inside if random.random() < 0.1]
    facts += [f"= (distance {a} {b}) 7" for a, b in zip(at.values(), at.values(), strict=True)][:3]
    declared = "".join(f"{name} - object\n" for name in names)
    return _with_facts(problem.replace("(:objects\n", f"(:objects\n{declared}", 1), facts)


def _start_at_receptacle(problem: str, random: Random) -> str:
    (agent, start), *_ = _facts(problem, "atLocation")
    place = random.choice(_facts(problem, "receptacleAtLocation"))[1]
    return problem.replace(f"(atLocation {agent} {start})", f"(atLocation {agent} {place})")


def _doors_open(problem: str, random: Random) -> str:
    doors = [r for (r,) in _facts(problem, "openable")]
    return _with_facts(problem, (f"opened {r}" for r in doors if random.random() < 0.5))


def _few_locations(problem: str, random: Random) -> str:
    rows = _facts(problem, "receptacleAtLocation")
    places = sorted({place for _, place in rows})
    kept = random.sample(places, max(2, len(places) // 4))
    for r, place in rows:
        problem = problem.replace(
            f"(receptacleAtLocation {r} {place})",
            f"(receptacleAtLocation {r} {random.choice(kept)})",
        )
    return problem


_BENDS: tuple[tuple[float, str, Callable[[str, Random], str]], ...] = (
    (0.25, "few locations", _few_locations),
    (0.35, "object locations", _object_locations),
    (0.3, "leftovers", _leftovers),
    (0.15, "starts at a receptacle", _start_at_receptacle),
    (0.2, "open doors", _doors_open),
)


def _errand(engine: StateEngine, random: Random) -> list[str]:
    """Commands of something that random play seldom gets done; [] where it can't be done."""
    game = engine.game
    kind = random.choice(("win", "win", "slice", "treat", "treat", "use"))
    if kind == "win":
        return solve(engine, tries=3) or []
    planner = Planner(engine)

    def some(bits: int) -> int:
        chosen = [o for o in range(len(game.objects)) if bits >> o & 1]
        if not chosen:
            raise Stuck
        return random.choice(chosen)

    try:
        if kind == "slice":
            food = some(game.sliceable_bits & game.pickupable_bits)
            if random.random() < 0.7:  # without objectAtLocation facts only a move allows slicing
                planner.take(food)
                planner.put(planner.nearest(game.accepts[food]))
            knife = some(game.knife_bits)
            planner.take(knife)
            planner.go(planner.find(food))
            planner.do("sliceobject", game.objects[food], game.objects[knife])
            planner.put(planner.nearest(game.accepts[knife]))
            planner.take(food)
            planner.do("examineobject", game.objects[food])
        elif kind == "use":
            lamp = some(game.toggleable_bits)
            planner.go(planner.find(lamp))
            planner.do("toggleobject", game.objects[lamp])
            planner.do("toggleobject", game.objects[lamp])
        else:
            planner.take(some(game.pickupable_bits & (game.cleanable_bits | game.coolable_bits)))
            planner.treat(random.sample(range(3), random.randint(1, 3)))
    except Stuck:
        pass
    return planner.plan


def _pick(engine: StateEngine, random: Random, plan: list[str]) -> str:
    """The next command: the errand's, a random admissible one, or an odd one."""
    admissible = engine.admissible()
    chance = random.random()
    if chance < 0.6:
        if not plan or plan[-1] not in admissible:
            plan[:] = _errand(engine, random)[::-1]
        if plan:
            return plan.pop()
    if chance > 0.9:
        game = engine.game
        o = random.choice(game.objects) if game.objects else "mug 1"
        r = random.choice(game.receptacles) if game.receptacles else "desk 1"
        return random.choice(_ODD).format(o=o, r=r, R=r.upper())
    verbs: dict[str, list[str]] = {}
    for command in admissible:
        verbs.setdefault(command.split(" ")[0], []).append(command)
    useful = [v for v in verbs if v not in ("look", "inventory", "help", "examine")]
    verb = random.choice(useful if useful and random.random() < 0.7 else list(verbs))
    return random.choice(verbs[verb])


def compare_game(game: ParityGame, steps: int, random: Random, report: ParityReport) -> None:
    """Play one game in both engines; add to the report."""
    fast = StateEngine(compile_game(game.problem, domain=game.domain, grammar=game.grammar))
    real = TextworldEngine(game.problem, game.domain, game.grammar)
    report.games += 1
    report.by_type[game.task_type] = report.by_type.get(game.task_type, 0) + 1
    commands: list[str] = []
    won = False
    try:
        said = fast.reset(), real.reset()
        plan: list[str] = []
        while True:
            won = won or fast.won
            mine = (said[0], fast.admissible(), fast.score, fast.done, fast.won)
            theirs = (said[1], real.admissible(), real.score, real.done, real.won)
            if mine != theirs:
                names = ("observation", "admissible", "score", "done", "won")
                what = next(n for n, a, b in zip(names, mine, theirs, strict=True) if a != b)
                i = names.index(what)
                report.differences.append(
                    {
                        "game": game.name,
                        "commands": commands,
                        "what": what,
                        "state_engine": mine[i],
                        "textworld": theirs[i],
                    }
                )
                return
            if len(commands) >= steps:
                return
            command = _pick(fast, random, plan)
            commands.append(command)
            report.steps += 1
            verb = command.strip().split(" ")[0] if command.strip() in mine[1] else "(no command)"
            report.verbs[verb] = report.verbs.get(verb, 0) + 1
            start = time.process_time()
            mine_said = fast.step(command)
            fast.admissible()
            middle = time.process_time()
            real_said = real.step(command)
            real.admissible()
            report.engine_seconds += middle - start
            report.real_seconds += time.process_time() - middle
            said = mine_said, real_said
    finally:
        report.won += won
        real.close()


def run_parity(
    games: int,
    seed: int,
    steps: int = 50,
    progress: Callable[[ParityReport], None] | None = None,
    source: Iterable[ParityGame] | None = None,
) -> ParityReport:
    """Compare the engines on generated games (or on `source`); play goes on after the goal."""
    report = ParityReport()
    for i, game in enumerate(parity_games(games, seed) if source is None else source):
        compare_game(game, steps, derive_random("alfworld-parity-play", seed, i), report)
        if progress is not None:
            progress(report)
    return report


def format_difference(difference: dict[str, Any]) -> str:
    """A difference as text that can be replayed."""
    return json.dumps(difference, ensure_ascii=False, indent=1)
