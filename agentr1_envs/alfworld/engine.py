"""The state engine: ALFWorld's commands on integer tables, with TextWorld's words.

It plays the ALFRED domain of ALFWorld exactly as TextWorld 1.7 and Fast Downward do, oddities
included, because agents are trained and compared on those:

* ``examine`` reaches receptacles that one stands at, and objects only while they are held;
* there is no ``go to`` a receptacle at the location where one already is;
* ``look`` before the first move sees nothing, although the introduction lists everything;
* ``use`` always turns on; heating, cooling and cleaning need no open appliance;
* ``slice`` needs the object to be at the location in the planner's sense (``objectAtLocation``);
* an object that was taken out of one of two receptacles that share a location, and put into the
  other, is also "next to" the player.
"""

from __future__ import annotations

from agentr1_envs.alfworld.game import CompiledGame
from agentr1_envs.alfworld.goal import CLEAN, COOL, HOT, ON, SLICED, TOGGLED, Case
from agentr1_envs.alfworld.speech import Speech

NOTHING = "Nothing happens."

# Kinds of commands. Those up to _QUIET change nothing.
(
    _LOOK,
    _INVENTORY,
    _HELP,
    _EXAMINE_RECEPTACLE,
    _EXAMINE_OBJECT,
    _QUIET,
    _OPEN,
    _CLOSE,
    _TAKE,
    _PUT,
    _CLEAN,
    _HEAT,
    _COOL,
    _USE,
    _SLICE,
) = range(15)

# What a command may change, by the names of facts that a goal looks at.
_CHANGES = {
    _TAKE: frozenset({"inreceptacle", "holds", "holdsany"}),
    _PUT: frozenset({"inreceptacle", "holds", "holdsany"}),
    _CLEAN: frozenset({"isclean"}),
    _HEAT: frozenset({"ishot", "iscool"}),
    _COOL: frozenset({"ishot", "iscool"}),
    _USE: frozenset({"istoggled", "ison"}),
    _SLICE: frozenset({"issliced"}),
}


class StateEngine(Speech):
    """One playthrough of a compiled game.

    Instances are independent (any number of threads may each use their own); the game is shared.
    Call :meth:`reset` first.

    Attributes:
        game: the compiled game.
        won: whether the goal holds now.
    """

    __slots__ = (
        "_contents",
        "_flags",
        "_held",
        "_left",
        "_location",
        "_opened",
        "_places",
        "_progress",
        "_table",
        "game",
        "moves",
        "won",
    )

    def __init__(self, game: CompiledGame) -> None:
        self.game = game
        self._restart()

    def _restart(self) -> None:
        game = self.game
        self._location = game.start_location
        self._held = game.start_held
        self._opened = game.start_opened
        self._contents = list(game.start_contents)
        self._flags = list(game.start_flags)
        self._places: frozenset[tuple[int, int]] = game.start_places
        # (object, receptacle) pairs that the engine knows to be false because the object was
        # taken out; pairs that were never true are not in it.
        self._left: frozenset[tuple[int, int]] = frozenset()
        self._table: dict[str, tuple[int, int, int]] | None = None
        self._progress = -1.0
        self.moves = 0
        self.won = self._goal_holds()

    def copy(self) -> StateEngine:
        """An independent engine in the same state."""
        other = StateEngine.__new__(StateEngine)
        for name in StateEngine.__slots__:
            value = getattr(self, name)
            setattr(other, name, list(value) if isinstance(value, list) else value)
        return other

    # -- playing -----------------------------------------------------------------------------

    def reset(self) -> str:
        """Start over; returns the introduction with the goal."""
        self._restart()
        if not self.game.intro:
            self.game.intro = self._introduction()
        return self.game.intro

    def step(self, command: str) -> str:
        """Carry out a command; returns what the engine says."""
        command = command.strip()
        table = self._table
        if table is None:
            table = self._commands()
        entry = table.get(command)
        if entry is None:
            receptacle = self.game.goto.get(command)
            if receptacle is None or self.game.location_of[receptacle] == self._location:
                return NOTHING
            return self._go(receptacle)
        self.moves += 1
        kind, o, r = entry
        if kind < _QUIET:
            return self._observe(kind, o, r)
        return self._change(kind, o, r)

    def admissible(self) -> list[str]:
        """The commands that do something now, sorted."""
        table = self._table
        if table is None:
            table = self._commands()
        listed = list(table)
        listed += self.game.goto_lists.get(self._location) or self._goto_list()
        listed.sort()
        return listed

    @property
    def done(self) -> bool:
        """Whether the game ended; TextWorld ends it exactly when the goal holds."""
        return self.won

    @property
    def score(self) -> int:
        """1 while the goal holds, else 0."""
        return int(self.won)

    # -- the state ---------------------------------------------------------------------------

    def state_key(self) -> str:
        """Text that is equal for two moments of one game if and only if their states are.

        Facts that can no longer show in any answer or command are not part of the state: where an
        object was put matters to ``slice`` and, at spots with several receptacles, to ``look``.
        """
        start = self.game.start_contents
        moved = [
            f"{r}:{','.join(map(str, now))}"
            for r, now in enumerate(self._contents)
            if now is not start[r] and now != start[r]
        ]
        flags = ",".join(map(str, self._flags))
        key = f"{self._location}/{self._held}/{self._opened}/{flags}/{' '.join(moved)}"
        if self._places is not self.game.start_places:
            key += self._traces()
        return key

    def _traces(self) -> str:
        """What taking and putting left behind, as far as it can show."""
        game = self.game
        left = sorted(
            pair
            for pair in self._left
            if len(game.receptacles_at.get(game.location_of[pair[1]], ())) > 1
        )
        shows = {(o, game.location_of[r]) for o, r in left}
        placed = sorted(
            pair
            for pair in self._places ^ game.start_places
            if pair in shows or game.sliceable_bits >> pair[0] & 1
        )
        return f"/{placed}/{left}" if placed or left else ""

    @property
    def location(self) -> int:
        return self._location

    @property
    def held(self) -> int:
        """The held object, or -1."""
        return self._held

    def contents(self, receptacle: int) -> tuple[int, ...]:
        """Objects in a receptacle, seen or not."""
        return self._contents[receptacle]

    def has_flag(self, word: int, obj: int) -> bool:
        """Whether e.g. ``CLEAN`` (see goal.py) holds for an object."""
        return bool(self._flags[word] >> obj & 1)

    def flag_bits(self, word: int) -> int:
        """Bits of the objects for which a flag holds."""
        return self._flags[word]

    def is_closed(self, receptacle: int) -> bool:
        return bool(self.game.openable_bits & ~self._opened & (1 << receptacle))

    def goal_progress(self) -> float:
        """Share of the goal's conditions that hold: of the best case, averaged over the blocks."""
        if self._progress < 0:
            blocks = self.game.goal.blocks
            self._progress = sum(max(map(self._share, block)) for block in blocks) / len(blocks)
        return self._progress

    def _share(self, case: Case) -> float:
        true = total = 0
        for word, bits in case.flags:
            total += bits.bit_count()
            true += (self._flags[word] & bits).bit_count()
        for o, r in case.inside:
            total += 1
            true += o in self._contents[r]
        if case.held >= 0:
            total += 1
            true += case.held == self._held
        if case.location >= 0:
            total += 1
            true += case.location == self._location
        return true / total if total else 1.0

    def _goal_holds(self) -> bool:
        flags, contents = self._flags, self._contents
        for block in self.game.goal.blocks:
            for needed, inside, held, location in block:
                if held >= 0 and held != self._held:
                    continue
                if location >= 0 and location != self._location:
                    continue
                for word, bits in needed:
                    if flags[word] & bits != bits:
                        break
                else:
                    for o, r in inside:
                        if o not in contents[r]:
                            break
                    else:
                        break
            else:
                return False
        return True

    # -- commands ----------------------------------------------------------------------------

    def _goto_list(self) -> tuple[str, ...]:
        game, here = self.game, self._location
        listed = tuple(c for c in game.goto_sorted if game.location_of[game.goto[c]] != here)
        game.goto_lists[here] = listed
        return listed

    def _commands(self) -> dict[str, tuple[int, int, int]]:
        """Everything admissible but ``go to``: command -> (kind, object, receptacle)."""
        game, held = self.game, self._held
        text = game.wording.commands
        objects, receptacles = game.objects, game.receptacles
        table: dict[str, tuple[int, int, int]] = {
            text["look"]: (_LOOK, 0, 0),
            text["inventory"]: (_INVENTORY, 0, 0),
        }
        if game.wording.has_help:
            table[text["help"]] = (_HELP, 0, 0)
        held_bit = 1 << held if held >= 0 else 0
        if held_bit:
            table[text["examineobject"] % objects[held]] = (_EXAMINE_OBJECT, held, 0)
        here = game.receptacles_at.get(self._location, ())
        for r in here:
            bit, name = 1 << r, receptacles[r]
            table[text["examinereceptacle"] % name] = (_EXAMINE_RECEPTACLE, 0, r)
            openable = game.openable_bits & bit
            if openable and not self._opened & bit:
                table[text["openobject"] % name] = (_OPEN, 0, r)
                reach = False
            else:
                reach = True
                if openable:
                    table[text["closeobject"] % name] = (_CLOSE, 0, r)
            inside = self._contents[r]
            if held_bit:
                if reach and game.accepts[held] & bit:
                    table[text["putobject"] % (objects[held], name)] = (_PUT, held, r)
                for kind, action, place, able in (
                    (_CLEAN, "cleanobject", game.sink_bits, game.cleanable_bits),
                    (_HEAT, "heatobject", game.microwave_bits, game.heatable_bits),
                    (_COOL, "coolobject", game.fridge_bits, game.coolable_bits),
                ):
                    if place & bit and able & held_bit:
                        table[text[action] % (objects[held], name)] = (kind, held, r)
            elif reach and inside:
                take, pickupable = text["pickupobject"], game.pickupable_bits
                for o in inside:
                    if pickupable >> o & 1:
                        table[take % (objects[o], name)] = (_TAKE, o, r)
            if game.toggleable_bits:
                for o in inside:
                    if game.toggleable_bits >> o & 1:
                        table[text["toggleobject"] % objects[o]] = (_USE, o, r)
        if held_bit & game.knife_bits:
            at = self._location
            for o, place in self._places:
                if place == at and game.sliceable_bits >> o & 1:
                    table[text["sliceobject"] % (objects[o], objects[held])] = (_SLICE, o, held)
        self._table = table
        return table

    def _go(self, r: int) -> str:
        game = self.game
        self.moves += 1
        self._location = game.location_of[r]
        self._table = None
        if "atlocation" in game.goal.watched:
            self._progress = -1.0
            self.won = self._goal_holds()
        wording = game.wording
        name = (
            game.location_names[self._location]
            if wording.arrive_names_location
            else game.receptacles[r]
        )
        return wording.say["GotoLocation.feedback"][0] % (name, self._examine_receptacle(r))

    def _change(self, kind: int, o: int, r: int) -> str:
        game = self.game
        say, bit = game.wording.say, 1 << o
        flags = self._flags
        self._table = None
        if kind == _TAKE:
            self._contents[r] = tuple(x for x in self._contents[r] if x != o)
            self._held = o
            self._left |= {(o, r)}
            self._places -= {(o, self._location)}
            said = say["PickupObject.feedback"][0] % (game.objects[o], game.receptacles[r])
        elif kind == _PUT:
            self._contents[r] = tuple(sorted({*self._contents[r], o}))
            self._held = -1
            self._left -= {(o, r)}
            self._places |= {(o, self._location)}
            said = say["PutObject.feedback"][0] % (game.objects[o], game.receptacles[r])
        elif kind == _OPEN:
            self._opened |= 1 << r
            name = game.receptacles[r]
            said = say["OpenObject.feedback"][0] % (name, self._examine_receptacle(r))
        elif kind == _CLOSE:
            self._opened &= ~(1 << r)
            said = say["CloseObject.feedback"][0] % game.receptacles[r]
        elif kind == _CLEAN:
            flags[CLEAN] |= bit
            said = say["cleanObject.feedback"][0] % (game.objects[o], game.receptacles[r])
        elif kind == _HEAT:
            flags[HOT] |= bit
            flags[COOL] &= ~bit
            said = say["heatObject.feedback"][0] % (game.objects[o], game.receptacles[r])
        elif kind == _COOL:
            flags[COOL] |= bit
            flags[HOT] &= ~bit
            said = say["coolObject.feedback"][0] % (game.objects[o], game.receptacles[r])
        elif kind == _USE:
            flags[ON] ^= bit
            flags[TOGGLED] |= bit
            said = say["toggleObject.feedback"][0] % game.objects[o]
        else:  # slice: r is the knife
            flags[SLICED] |= bit
            said = say["sliceObject.feedback"][0] % (game.objects[o], game.objects[r])
        changes = _CHANGES.get(kind)
        if changes is not None and not changes.isdisjoint(game.goal.watched):
            self._progress = -1.0
            self.won = self._goal_holds()
        return said

    def _observe(self, kind: int, o: int, r: int) -> str:
        if kind == _EXAMINE_RECEPTACLE:
            return self._examine_receptacle(r)
        if kind == _LOOK:
            return self._look()
        if kind == _EXAMINE_OBJECT:
            return self._examine_object(o)
        if kind == _HELP:
            return self.game.wording.say["help.feedback"][0]
        return self._inventory()
