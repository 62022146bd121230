"""What the state engine says: TextWorld's sentences about a state, in the game's own wording."""

from __future__ import annotations

from agentr1_envs.alfworld.game import CompiledGame

# examineObject.feedback: (clean, hot, cool, sliced) -> alternative, first match as in the grammar.
_EXAMINE_CASES = (
    (("clean", "hot", "sliced"), 1),
    (("clean", "cool", "sliced"), 2),
    (("clean", "sliced"), 3),
    (("hot", "sliced"), 4),
    (("cool", "sliced"), 5),
    (("clean", "hot"), 6),
    (("clean", "cool"), 7),
    (("hot",), 8),
    (("clean",), 9),
    (("cool",), 10),
)


def _examine_table() -> tuple[int, ...]:
    """Index clean + 2 hot + 4 cool + 8 sliced -> alternative, 0 where none applies."""
    names = ("clean", "hot", "cool", "sliced")
    table = []
    for bits in range(16):
        holds = {n for i, n in enumerate(names) if bits >> i & 1}
        table.append(next((alt for need, alt in _EXAMINE_CASES if holds.issuperset(need)), 0))
    return tuple(table)


_EXAMINE = _examine_table()


class Speech:
    """The sentences of an engine; a part of `StateEngine`, which has the state."""

    __slots__ = ()

    game: CompiledGame
    _contents: list[tuple[int, ...]]
    _flags: list[int]
    _held: int
    _left: frozenset[tuple[int, int]]
    _location: int
    _opened: int
    _places: frozenset[tuple[int, int]]

    def _introduction(self) -> str:
        """The first observation: the room, or what one stands at, and the task."""
        game = self.game
        say = game.wording.say
        if game.receptacles_at.get(self._location):
            text = self._look()
        else:
            names = [
                say["overview(r)"][0] % ("a", name)
                for r, name in enumerate(game.receptacles)
                if game.location_of[r] != -1
            ]
            texts = say["list_appliances"]
            text = say["look.feedback"][1] % (texts[0] % self._list(names) if names else texts[1])
        return say["intro"][0] % (text, game.goal_text)

    def _inventory(self) -> str:
        texts = self.game.wording.say["inventory.feedback"]
        if self._held < 0:
            return texts[1]
        return texts[0] % self._list(["a " + self.game.objects[self._held]])

    def _list(self, items: list[str]) -> str:
        say = self.game.wording.say
        if not items:
            return say["list_empty"][0]
        if len(items) == 1:
            return items[0]
        first = say["list_separator"][0].join(items[:-1])
        return first + say["list_last_separator"][0] + items[-1]

    def _examine_receptacle(self, r: int) -> str:
        game = self.game
        texts = game.wording.say["examineReceptacle.feedback"]
        if self.game.openable_bits >> r & 1:
            if not self._opened >> r & 1:
                return texts[1] % game.receptacles[r]
            text = texts[0]
        else:
            text = texts[2]
        names = game.objects
        listed = self._list(["a " + names[o] for o in self._contents[r]])
        return text % (game.receptacles[r], listed)

    def _examine_object(self, o: int) -> str:
        game = self.game
        texts = game.wording.say["examineObject.feedback"]
        name = game.objects[o]
        if o in game.inner:
            return texts[0] % (name, self._list(["a " + game.objects[i] for i in game.inner[o]]))
        clean, hot, cool, sliced, toggled, _ = (word >> o & 1 for word in self._flags)
        alternative = _EXAMINE[clean | hot << 1 | cool << 2 | sliced << 3]
        if not alternative:
            if game.toggleable_bits >> o & toggled:
                alternative = 11
            elif game.sliceable_bits >> o & sliced:
                alternative = 13
            else:
                alternative = 14
        return texts[alternative] % name

    def _look(self) -> str:
        game = self.game
        say = game.wording.say
        here = game.receptacles_at.get(self._location)
        if not here:
            return say["look.feedback"][1] % say["list_appliances"][1]
        facing = say["look-variations"][0] % self._list([game.receptacles[r] for r in here])
        floor = [
            say["overview(o)"][0] % ("a", game.objects[o])
            for o, place in sorted(self._places)
            if place == self._location
            for r in here
            if (o, r) in self._left
        ]
        texts = say["list_objects_on_the_floor"]
        return say["look.feedback"][0] % (
            facing,
            texts[0] % self._list(floor) if floor else texts[1],
        )
