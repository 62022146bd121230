"""The scripted policy that knows the whole state and the goal's facts.

It wins every game of the six types in few steps. `agentr1_envs.alfworld.observer` is the one that
sees what a player sees; the gap between them is what searching costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentr1_envs.alfworld.engine import StateEngine
from agentr1_envs.alfworld.goal import CLEAN, COOL, HOT, SLICED, TOGGLED, Case

_APPLIANCES = (
    (CLEAN, "cleanobject", "sink_bits"),
    (HOT, "heatobject", "microwave_bits"),
    (COOL, "coolobject", "fridge_bits"),
)


class Stuck(Exception):
    """The script has no way on for this case."""


class Planner:
    """Carries out errands on a copy of the game, noting the commands that they take."""

    def __init__(self, engine: StateEngine) -> None:
        self.engine, self.game = engine.copy(), engine.game
        self.plan: list[str] = []

    def run(self, case: Case) -> list[str]:
        """The commands that make one case of the goal true.

        Raises:
            Stuck: the script has no way on.
        """
        engine = self.engine
        flags = [(word, o) for word, bits in case.flags for o in _bits(bits)]
        inside = dict(case.inside)
        changed = {o for word, o in flags if word not in (TOGGLED,)}
        for o in [engine.held, *sorted(changed | set(inside))]:
            if o < 0 or engine.won or o == case.held or o not in changed | set(inside):
                continue
            self._bring(o, [w for w, x in flags if x == o and w != TOGGLED], inside.get(o, -1))
        if case.held >= 0 and engine.held != case.held:
            self.take(case.held)
        for word, o in flags:
            if word == TOGGLED and not engine.has_flag(TOGGLED, o):
                self.go(self.find(o))
                self.do("toggleobject", self.game.objects[o])
        if case.location >= 0 and engine.location != case.location:
            self.go(self.game.receptacles_at[case.location][0])
        if not engine.won:
            raise Stuck
        return self.plan

    def _bring(self, o: int, words: list[int], target: int) -> None:
        """Give an object its properties and put it where it belongs."""
        engine, game = self.engine, self.game
        missing = [w for w in words if not engine.has_flag(w, o)]
        if not missing and (target < 0 or o in engine.contents(target)):
            return
        if engine.held != o:
            self.take(o)
        for word in missing:
            for flag, action, place in _APPLIANCES:
                if flag == word:
                    self._apply(action, getattr(game, place))
                    break
            else:
                raise Stuck
        if target >= 0 and not engine.won:
            self.put(target)

    def take(self, o: int) -> None:
        """Fetch an object, putting down what is held."""
        engine, game = self.engine, self.game
        if engine.held >= 0:
            self.put(self.nearest(game.accepts[engine.held]))
        r = self.find(o)
        self.go(r)
        if engine.is_closed(r):
            self.do("openobject", game.receptacles[r])
        self.do("pickupobject", game.objects[o], game.receptacles[r])

    def treat(self, words: list[int]) -> None:
        """Clean, heat, cool (where it can be done) what is held, looking at it each time."""
        game, held = self.game, self.engine.held
        for word in words:
            _, action, place = _APPLIANCES[word]
            able = (game.cleanable_bits, game.heatable_bits, game.coolable_bits)[word]
            if able >> held & 1 and getattr(game, place):
                self._apply(action, getattr(game, place))
                self.do("examineobject", game.objects[held])

    def _apply(self, action: str, places: int) -> None:
        """Go to one of `places` and do `action` with what is held."""
        self.go(self.nearest(places))
        here = self.game.receptacles_at[self.engine.location]
        spot = next(r for r in here if places >> r & 1)
        self.do(action, self.game.objects[self.engine.held], self.game.receptacles[spot])

    def put(self, r: int) -> None:
        """Put what is held into a receptacle."""
        engine, game = self.engine, self.game
        self.go(r)
        if engine.is_closed(r):
            self.do("openobject", game.receptacles[r])
        self.do("putobject", game.objects[engine.held], game.receptacles[r])

    def find(self, o: int) -> int:
        """A receptacle that holds an object."""
        holders = 0
        for r in range(len(self.game.receptacles)):
            if o in self.engine.contents(r):
                holders |= 1 << r
        return self.nearest(holders)

    def nearest(self, bits: int) -> int:
        """A receptacle out of `bits`: one here, else an open one, else any that can be reached."""
        game, here = self.game, self.engine.location
        reachable = [r for r in _bits(bits) if game.location_of[r] >= 0]
        if not reachable:
            raise Stuck
        return min(
            reachable, key=lambda r: (self.engine.is_closed(r), game.location_of[r] != here, r)
        )

    def go(self, r: int) -> None:
        """Be at a receptacle."""
        if self.game.location_of[r] != self.engine.location:
            self.do("gotolocation", self.game.receptacles[r])

    def do(self, action: str, *names: str) -> None:
        """One command, which must do something."""
        command = self.game.wording.commands[action] % names
        moves = self.engine.moves
        self.engine.step(command)
        if self.engine.moves == moves or len(self.plan) > 60:
            raise Stuck
        self.plan.append(command)


def _bits(bits: int) -> Iterator[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def solve(engine: StateEngine, tries: int = 12) -> list[str] | None:
    """Commands that win the game from its present state.

    Args:
        engine: the game; it is not touched.
        tries: how many ways to meet the goal are played through; the shortest is taken.

    Returns:
        The commands, empty for a game that is won; None if the script finds no way. Goals that
        ask for slicing are beyond it.
    """
    if engine.won:
        return []
    best: list[str] | None = None
    for count, case in enumerate(_cases(engine)):
        if (count >= tries and best is not None) or count >= 10 * tries:
            break
        try:
            plan = Planner(engine).run(case)
        except Stuck:
            continue
        if best is None or len(plan) < len(best):
            best = plan
    return best


def _cases(engine: StateEngine) -> list[Case]:
    """Ways to meet the goal, as single cases, those with the fewest missing facts first."""
    merged = [Case((), (), -1, -1)]
    for block in engine.game.goal.blocks:
        ranked = sorted(block, key=lambda case: _missing(engine, case))[:64]
        merged = [both for one in merged for other in ranked if (both := _merge(one, other))]
    merged = [case for case in merged if not any(word == SLICED for word, _ in case.flags)]
    return sorted(merged, key=lambda case: _missing(engine, case))


def _missing(engine: StateEngine, case: Case) -> int:
    count = sum((bits & ~engine.flag_bits(word)).bit_count() for word, bits in case.flags)
    count += sum(o not in engine.contents(r) for o, r in case.inside)
    # Objects that lie open cost a command less than those behind a door.
    count *= 4
    for o, _ in case.inside:
        count += all(
            engine.is_closed(r)
            for r in range(len(engine.game.receptacles))
            if o in engine.contents(r)
        )
    return count


def _merge(one: Case, other: Case) -> Case | None:
    if min(one.held, other.held) >= 0 and one.held != other.held:
        return None
    if min(one.location, other.location) >= 0 and one.location != other.location:
        return None
    flags: dict[int, int] = {}
    for word, bits in (*one.flags, *other.flags):
        flags[word] = flags.get(word, 0) | bits
    return Case(
        tuple(sorted(flags.items())),
        tuple(sorted({*one.inside, *other.inside})),
        max(one.held, other.held),
        max(one.location, other.location),
    )


class Expert:
    """Plays the shortest of the plans that `solve` finds; sees the whole state.

    Args:
        env: an ALFWorld environment, wrapped or not.
    """

    def __init__(self, env: Any) -> None:
        self.env = env.unwrapped
        self._plan: list[str] = []

    def reset(self, obs: str, info: dict[str, Any]) -> None:
        """Plan the episode that just began."""
        plan = solve(self.env.state_engine())
        if plan is None:
            raise ValueError(f"the expert finds no way to win the game {info['task_id']!r}")
        self._plan = plan[::-1]

    def act(self, obs: str, info: dict[str, Any]) -> str:
        """The next command, in the environment's action format."""
        return self.env.format_action(self._plan.pop() if self._plan else "look")
