"""From the text of a game (PDDL problem, domain, grammar) to a :class:`CompiledGame`."""

from __future__ import annotations

import hashlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from agentr1_envs.alfworld.game import CompiledGame, UnreachableGoal, entity_names
from agentr1_envs.alfworld.goal import (
    DYNAMIC,
    FLAG_PREDICATES,
    Atom,
    Case,
    Goal,
    goal_blocks,
    solutions,
)
from agentr1_envs.alfworld.grammar import Wording, parse_grammar, plain_text, split_goal
from agentr1_envs.alfworld.pddl import Problem, UnsupportedGame, parse_problem
from agentr1_envs.alfworld.wording import DEFAULT_WORDING, KNOWN_DOMAINS, KNOWN_SKELETONS

# Predicate -> types of its arguments, as the ALFRED domain declares them.
PREDICATES: dict[str, tuple[str, ...]] = {
    "atlocation": ("agent", "location"),
    "receptacleatlocation": ("receptacle", "location"),
    "objectatlocation": ("object", "location"),
    "openable": ("receptacle",),
    "opened": ("receptacle",),
    "inreceptacle": ("object", "receptacle"),
    "isreceptacleobject": ("object",),
    "inreceptacleobject": ("object", "object"),
    "isreceptacleobjectfull": ("object",),
    "wasinreceptacle": ("object", "receptacle"),
    "checked": ("receptacle",),
    "examined": ("location",),
    "receptacletype": ("receptacle", "rtype"),
    "cancontain": ("rtype", "otype"),
    "objecttype": ("object", "otype"),
    "holds": ("agent", "object"),
    "holdsany": ("agent",),
    "holdsanyreceptacleobject": ("agent",),
    "full": ("receptacle",),
    "isclean": ("object",),
    "cleanable": ("object",),
    "ishot": ("object",),
    "heatable": ("object",),
    "iscool": ("object",),
    "coolable": ("object",),
    "pickupable": ("object",),
    "moveable": ("object",),
    "toggleable": ("object",),
    "ison": ("object",),
    "istoggled": ("object",),
    "sliceable": ("object",),
    "issliced": ("object",),
}
Facts = dict[str, list[tuple[str, ...]]]


def domain_hash(domain: str) -> str:
    """SHA-256 of a PDDL domain, comments, case and spacing aside."""
    words = re.findall(r"[()]|[^\s()]+", re.sub(r";[^\n]*", "", domain).lower())
    return hashlib.sha256(" ".join(words).encode()).hexdigest()


@lru_cache(maxsize=64)
def _domain_has_help(domain: str) -> bool:
    digest = domain_hash(domain)
    if digest not in KNOWN_DOMAINS:
        raise UnsupportedGame(f"the PDDL domain (hash {digest[:12]}) is not a known ALFRED domain")
    return KNOWN_DOMAINS[digest]


def wording_of(domain: str, grammar: str) -> tuple[Wording, str]:
    """Recognise a game's domain and grammar.

    Returns:
        (wording, the goal's sentence as it is shown).

    Raises:
        UnsupportedGame: either is unknown.
    """
    bare, goal_text = split_goal(grammar)
    digest, wording = parse_grammar(bare)
    if digest not in KNOWN_SKELETONS:
        raise UnsupportedGame(f"the grammar (hash {digest[:12]}) is not a known ALFWorld grammar")
    if _domain_has_help(domain) and not wording.has_help:
        raise UnsupportedGame("the domain has the action 'help', the grammar does not")
    if wording.has_help and not _domain_has_help(domain):
        wording = wording.without_help()
    return wording, goal_text


def compile_game(
    pddl_problem: str,
    *,
    goal: str | None = None,
    domain: str | None = None,
    grammar: str | None = None,
) -> CompiledGame:
    """Compile a game.

    Args:
        pddl_problem: text of the problem.
        goal: the task's sentence, for a game that brings no grammar of its own; the wording is
            then that of ALFWorld 0.4.
        domain, grammar: texts that the game embeds; both or neither.

    Raises:
        UnsupportedGame: the game is outside what the state engine knows.
        UnreachableGoal: no sequence of commands can reach the goal.
    """
    if domain is not None and grammar is not None:
        wording, text = wording_of(domain, grammar)
    elif goal is not None:
        wording, text = DEFAULT_WORDING, plain_text(f"Your task is to: {goal}.")
    else:
        raise ValueError("a game needs either its goal or its own domain and grammar")
    return _Compiler(parse_problem(pddl_problem)).compile(wording, text)


class _Compiler:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.facts = self._group()
        mentioned = {name for fact in problem.facts for name in fact[1:]}
        self.names = entity_names(mentioned)
        self.of_type: dict[str, list[str]] = defaultdict(list)
        for entity in sorted(mentioned):
            self.of_type[problem.types[entity]].append(entity)
        self.index: dict[str, int] = {}
        for kind in ("object", "receptacle", "location"):
            self.index.update((e, i) for i, e in enumerate(self.of_type[kind]))

    def _group(self) -> Facts:
        """Facts by predicate, checked against the domain's declarations."""
        types = self.problem.types
        groups: Facts = defaultdict(list)
        for fact in dict.fromkeys(self.problem.facts):
            arguments = fact[1:]
            if tuple(map(types.get, arguments)) != PREDICATES.get(fact[0]):
                expected = PREDICATES.get(fact[0])
                raise UnsupportedGame(
                    f"the fact ({' '.join(fact)}) does not fit the ALFRED domain: "
                    + (f"it needs declared {expected}" if expected else "no such predicate")
                )
            groups[fact[0]].append(arguments)
        return groups

    def bits(self, predicate: str) -> int:
        bits = 0
        for row in self.facts[predicate]:
            bits |= 1 << self.index[row[0]]
        return bits

    def typed(self, predicate: str) -> dict[str, set[str]]:
        """Entity -> its types."""
        out: dict[str, set[str]] = defaultdict(set)
        for entity, kind in self.facts[predicate]:
            out[entity].add(kind)
        return out

    def kinds(self, predicate: str) -> dict[str, int]:
        """Type -> bits of the entities that have it."""
        out: dict[str, int] = defaultdict(int)
        for entity, kind in self.facts[predicate]:
            out[kind] |= 1 << self.index[entity]
        return dict(out)

    def compile(self, wording: Wording, goal_text: str) -> CompiledGame:
        facts, index = self.facts, self.index
        objects, receptacles = self.of_type["object"], self.of_type["receptacle"]
        if len(self.of_type["agent"]) != 1 or len(facts["atlocation"]) != 1:
            raise UnsupportedGame("the game does not have exactly one agent at one location")
        held = [index[o] for _, o in facts["holds"]]
        if len(held) > 1 or len(held) != len(facts["holdsany"]):
            raise UnsupportedGame("the game starts with an odd set of held objects")
        location_of = [-1] * len(receptacles)
        receptacles_at: dict[int, list[int]] = defaultdict(list)
        for receptacle, location in sorted(facts["receptacleatlocation"]):
            r = index[receptacle]
            if location_of[r] != -1:
                raise UnsupportedGame(f"the receptacle {receptacle!r} has two locations")
            location_of[r] = index[location]
            receptacles_at[index[location]].append(r)
        self.location_of = location_of
        receptacle_types, object_types = self.typed("receptacletype"), self.typed("objecttype")
        receptacles_of, objects_of = self.kinds("receptacletype"), self.kinds("objecttype")
        accepts = [0] * len(objects)
        for rtype, otype in facts["cancontain"]:
            if rtype in receptacles_of and otype in objects_of:
                for o in _bit_positions(objects_of[otype]):
                    accepts[o] |= receptacles_of[rtype]
        contents: list[list[int]] = [[] for _ in receptacles]
        for inside, receptacle in facts["inreceptacle"]:
            contents[index[receptacle]].append(index[inside])
        inner: dict[int, list[int]] = {index[o]: [] for (o,) in facts["isreceptacleobject"]}
        for inside, outside in sorted(facts["inreceptacleobject"]):
            if index[outside] in inner and inside != outside:
                inner[index[outside]].append(index[inside])
        flags = [0] * 6
        for predicate, word in FLAG_PREDICATES.items():
            flags[word] = self.bits(predicate)
        names = self.names
        goto = {
            sys.intern(wording.commands["gotolocation"] % names[e]): r
            for r, e in enumerate(receptacles)
            if location_of[r] != -1
        }
        game = CompiledGame(
            wording=wording,
            goal_text=goal_text,
            goal=Goal((), frozenset()),
            object_ids=tuple(map(sys.intern, objects)),
            receptacle_ids=tuple(map(sys.intern, receptacles)),
            objects=tuple(names[e] for e in objects),
            receptacles=tuple(names[e] for e in receptacles),
            object_types=tuple(_one_type(object_types.get(e)) for e in objects),
            receptacle_types=tuple(_one_type(receptacle_types.get(e)) for e in receptacles),
            location_names=tuple(names[e] for e in self.of_type["location"]),
            location_of=tuple(location_of),
            receptacles_at={at: tuple(rs) for at, rs in receptacles_at.items()},
            goto=goto,
            goto_sorted=tuple(sorted(goto)),
            openable_bits=self.bits("openable"),
            sink_bits=receptacles_of.get("sinkbasintype", 0),
            microwave_bits=receptacles_of.get("microwavetype", 0),
            fridge_bits=receptacles_of.get("fridgetype", 0),
            accepts=tuple(accepts),
            pickupable_bits=self.bits("pickupable"),
            cleanable_bits=self.bits("cleanable"),
            heatable_bits=self.bits("heatable"),
            coolable_bits=self.bits("coolable"),
            toggleable_bits=self.bits("toggleable"),
            sliceable_bits=self.bits("sliceable"),
            knife_bits=objects_of.get("knifetype", 0) | objects_of.get("butterknifetype", 0),
            inner={o: tuple(inside) for o, inside in inner.items()},
            start_location=index[facts["atlocation"][0][1]],
            start_held=held[0] if held else -1,
            start_opened=self.bits("opened"),
            start_contents=tuple(tuple(sorted(c)) for c in contents),
            start_flags=tuple(flags),
            start_places=frozenset((index[o], index[at]) for o, at in facts["objectatlocation"]),
        )
        game.goal = self._goal(game)
        return game

    # -- the goal ----------------------------------------------------------------------------

    def _goal(self, game: CompiledGame) -> Goal:
        self._reach(game)
        blocks: list[tuple[Case, ...]] = []
        watched: set[str] = set()
        for variables, atoms in goal_blocks(self.problem.goal):
            for atom in atoms:
                if atom[0] == "checked" or atom[0] not in {*PREDICATES, "!="}:
                    raise UnsupportedGame(f"the goal uses the predicate {atom[0]!r}")
                if atom[0] != "!=" and len(atom) - 1 != len(PREDICATES[atom[0]]):
                    raise UnsupportedGame(f"the goal uses {atom[0]!r} with {len(atom) - 1} terms")
            cases = {
                case
                for solution in solutions(
                    variables, atoms, self._domain_of, self._of_type_fact, self._possible
                )
                for case in self._cases(solution)
            }
            if not cases:
                raise UnreachableGoal(
                    f"the goal ({game.goal_text!r}) cannot be reached: no objects, receptacles and "
                    "commands make its facts true"
                )
            blocks.append(tuple(sorted(cases)))
            watched.update(a[0] for a in atoms if a[0] in DYNAMIC)
        return Goal(tuple(blocks), frozenset(watched))

    def _domain_of(self, kind: str) -> list[str]:
        if kind == "object":  # the root of the type tree: everything is an object
            return [e for group in self.of_type.values() for e in group]
        return self.of_type[kind]

    def _reach(self, game: CompiledGame) -> None:
        """Prepare what :meth:`_possible` asks: what the planner's relaxation can make true."""
        self.game = game
        self.static = {(p, *row) for p, rows in self.facts.items() for row in rows}
        usable = sum(1 << r for r, at in enumerate(game.location_of) if at != -1)
        self.usable_bits = usable
        inside = 0
        for r, contents in enumerate(game.start_contents):
            if usable >> r & 1:
                for o in contents:
                    inside |= 1 << o
        self.holdable_bits = inside & game.pickupable_bits
        if game.start_held >= 0:
            self.holdable_bits |= 1 << game.start_held
        self.inside_bits = inside | self.holdable_bits

    def _possible(self, atom: Atom) -> bool:
        """Whether a ground fact is true at the start or can become true (delete effects aside)."""
        if atom in self.static:
            return True
        predicate = atom[0]
        if predicate not in DYNAMIC:
            return False
        game, index = self.game, self.index
        if predicate in ("holds", "holdsany"):
            if atom[1] != self.of_type["agent"][0]:
                return False
            if predicate == "holdsany":
                return self.holdable_bits != 0
            return atom[2] in index and bool(self.holdable_bits >> index[atom[2]] & 1)
        if predicate == "atlocation":
            return index.get(atom[2]) in game.receptacles_at and atom[1] in self.of_type["agent"]
        if self.problem.types.get(atom[1]) != PREDICATES[predicate][0]:
            return False
        o = index.get(atom[1], -1)
        if o < 0:
            return False
        if predicate == "opened":
            return bool(game.openable_bits & self.usable_bits & (1 << o))
        holdable = bool(self.holdable_bits >> o & 1)
        if predicate == "inreceptacle":
            if self.problem.types.get(atom[2]) != "receptacle" or atom[2] not in index:
                return False
            return holdable and bool(game.accepts[o] & self.usable_bits & (1 << index[atom[2]]))
        if predicate == "objectatlocation":
            at = game.receptacles_at.get(index.get(atom[2], -1), ())
            return holdable and any(game.accepts[o] >> r & 1 for r in at)
        if predicate in ("istoggled", "ison"):
            return bool(game.toggleable_bits & self.inside_bits & (1 << o))
        if predicate == "issliced":
            placed = any(
                at == game.start_location or at in game.receptacles_at
                for x, at in game.start_places
                if x == o
            ) or (holdable and bool(game.accepts[o] & self.usable_bits))
            knife = bool(game.knife_bits & self.holdable_bits)
            return placed and knife and bool(game.sliceable_bits >> o & 1)
        able, place = {
            "isclean": (game.cleanable_bits, game.sink_bits),
            "ishot": (game.heatable_bits, game.microwave_bits),
            "iscool": (game.coolable_bits, game.fridge_bits),
        }.get(predicate, (0, 0))
        return holdable and bool(able >> o & 1) and bool(place & self.usable_bits)

    def _of_type_fact(self, predicate: str, kind: str) -> list[str]:
        """Entities with a fact such as ``(objectType ?e MugType)``, sorted."""
        return sorted(row[0] for row in self.facts[predicate] if row[1:] == (kind,))

    def _cases(self, solution: list[Atom]) -> Iterable[Case]:
        index = self.index
        flags = [0] * 6
        inside: set[tuple[int, int]] = set()
        held = location = -1
        for predicate, *args in solution:
            if predicate in FLAG_PREDICATES:
                flags[FLAG_PREDICATES[predicate]] |= 1 << index[args[0]]
            elif predicate == "inreceptacle":
                if not self.holdable_bits >> index[args[0]] & 1:
                    continue  # it is there and nothing can move it
                inside.add((index[args[0]], index[args[1]]))
            elif predicate == "holds":
                if held not in (-1, index[args[1]]):
                    return
                held = index[args[1]]
            elif predicate == "atlocation":
                if location not in (-1, index[args[1]]):
                    return
                location = index[args[1]]
            elif predicate in DYNAMIC:
                raise UnsupportedGame(f"the goal uses the predicate {predicate!r}")
        words = tuple((word, bits) for word, bits in enumerate(flags) if bits)
        yield Case(words, tuple(sorted(inside)), held, location)


def _bit_positions(bits: int) -> Iterable[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def _one_type(types: set[str] | None) -> str:
    return min(types).removesuffix("type") if types else ""
