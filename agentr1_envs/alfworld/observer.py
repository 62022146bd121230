"""A scripted player that reads what is on the screen and searches the room."""

from __future__ import annotations

import re
from typing import Any

_GOALS = (
    (r"put (?:a|some) (?P<obj>\w+) (?:in|on) (?P<recep>\w+)", ""),
    (r"look at (?P<obj>\w+) under the (?P<lamp>\w+)", ""),
    (r"examine the (?P<obj>\w+) with the (?P<lamp>\w+)", ""),
    (r"put a clean (?P<obj>\w+) in (?P<recep>\w+)", "clean"),
    (r"clean some (?P<obj>\w+) and put it in (?P<recep>\w+)", "clean"),
    (r"put a hot (?P<obj>\w+) in (?P<recep>\w+)", "heat"),
    (r"heat some (?P<obj>\w+) and put it in (?P<recep>\w+)", "heat"),
    (r"put a cool (?P<obj>\w+) in (?P<recep>\w+)", "cool"),
    (r"cool some (?P<obj>\w+) and put it in (?P<recep>\w+)", "cool"),
    (r"put two (?P<obj>\w+) in (?P<recep>\w+)", "two"),
    (r"find two (?P<obj>\w+) and put them in (?P<recep>\w+)", "two"),
)
_APPLIANCE = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
_SEEN = re.compile(r"\b(?:On|In) (?:the )?(?P<recep>\w+ \d+|it), you see (?P<list>[^.]*)\.")
_OPENED = re.compile(r"The (\w+ \d+) is open")
_THING = re.compile(r"\ba (\w+ \d+)")
_ROOM = re.compile(r"you see ([^.]*)\.")


def parse_goal(text: str) -> dict[str, str]:
    """``{"obj", "recep" or "lamp", "how"}`` of a goal sentence; {} for one that is not a template.

    ``how`` is "", "clean", "heat", "cool" or "two".
    """
    match = re.search(r"[Yy]our task is to: (.*?)\.?\s*$", text, re.M)
    sentence = (match.group(1) if match else text).strip().rstrip(".")
    for pattern, how in _GOALS:
        found = re.fullmatch(pattern, sentence)
        if found:
            return {**found.groupdict(), "how": how}
    return {}


def _text(obs: Any, info: dict[str, Any]) -> str:
    """What the environment said, also where a wrapper made a conversation of it."""
    return obs if isinstance(obs, str) else str(info["feedback"])


def _kind(name: str) -> str:
    return name.split(" ")[0]


class Observer:
    """Plays from observations and admissible actions alone: search, fetch, change, deliver.

    It visits receptacles in the order of the introduction, open ones first, and remembers what it
    saw. It gives up by looking around.

    Args:
        env: an ALFWorld environment; only its action format is asked for.
    """

    def __init__(self, env: Any) -> None:
        self._format = env.unwrapped.format_action
        self.goal: dict[str, str] = {}

    def reset(self, obs: Any, info: dict[str, Any]) -> None:
        """Read the room and the goal."""
        obs = _text(obs, info)
        self.goal = parse_goal(obs)
        room = _ROOM.search(obs)
        self.receptacles = _THING.findall(room.group(1)) if room else []
        if not self.receptacles:  # it starts at a receptacle: the room is in the commands only
            actions = info.get("admissible_actions", [])
            self.receptacles = [a[6:] for a in actions if a.startswith("go to ")]
        self.unseen = list(self.receptacles)
        self.where: dict[str, str] = {}  # object -> receptacle
        self.held = ""
        self.done: set[str] = set()  # objects that are where they belong
        self.changed = False
        self.here = ""
        self.target = ""
        self._last = ""

    def act(self, obs: Any, info: dict[str, Any]) -> str:
        """The next command, in the environment's action format."""
        self._read(_text(obs, info))
        self._last = self._choose(info.get("admissible_actions", []))
        return self._format(self._last)

    def _read(self, obs: str) -> None:
        """Learn from the answer to the last command."""
        command = self._last
        if obs == "Nothing happens.":
            if command.startswith("go to "):
                self._seen(command[6:])
            return
        if command.startswith("go to "):
            self.here = command[6:]
        if command.startswith("take "):
            name = command[5:].split(" from ")[0]
            self.held, self.changed = name, False
            self.where.pop(name, None)
        elif command.startswith(("move ", "put ")):
            self.where[self.held] = self.here
            if _kind(self.here) == self.goal.get("recep"):
                self.done.add(self.held)
                self.target = self.here
            self.held = ""
        elif command.startswith(("clean ", "heat ", "cool ")):
            self.changed = True
        opened = _OPENED.search(obs)
        for match in _SEEN.finditer(obs):
            place = match["recep"]
            if place == "it" and opened:
                place = opened.group(1)
            self._seen(place)
            for thing in _THING.findall(match["list"]):
                self.where[thing] = place
                if self.goal.get("how") == "two" and _kind(place) == self.goal.get("recep"):
                    self._already(thing, place)

    def _already(self, thing: str, place: str) -> None:
        """One of two wanted objects lies in a fitting receptacle: bring the other there."""
        if _kind(thing) == self.goal.get("obj") and self.target in ("", place):
            self.target = place
            self.done.add(thing)

    def _seen(self, receptacle: str) -> None:
        if receptacle in self.unseen:
            self.unseen.remove(receptacle)

    def _choose(self, actions: list[str]) -> str:
        wanted, lamp = self.goal.get("obj", ""), self.goal.get("lamp", "")
        if self.held and _kind(self.held) != wanted:
            return self._drop(actions)
        if not self.held:
            return self._fetch(wanted, actions)
        if lamp:
            use = next((a for a in actions if a.startswith(f"use {lamp} ")), "")
            return use or self._fetch(lamp, actions)
        how = _APPLIANCE.get(self.goal.get("how", ""), "")
        if how and not self.changed:
            verb = self.goal["how"]
            change = next((a for a in actions if a.startswith(f"{verb} {self.held} with ")), "")
            return change or self._visit(how, actions)
        return self._deliver(actions)

    def _fetch(self, kind: str, actions: list[str]) -> str:
        """Get to an object of a kind and take it, searching if none was seen."""
        for thing in sorted(self.where):
            if _kind(thing) == kind and thing not in self.done:
                take = next((a for a in actions if a.startswith(f"take {thing} from ")), "")
                if take:
                    self.here = take.split(" from ")[1]
                    return take
                move = self._approach(self.where[thing], actions)
                if move:
                    return move
                self.where.pop(thing)
        return self._search(actions)

    def _search(self, actions: list[str]) -> str:
        for a in actions:
            if a.startswith("open ") and a[5:] in self.unseen and a[5:] == self.here:
                return a
        closed_last = sorted(self.unseen, key=lambda r: _kind(r) in ("cabinet", "drawer", "safe"))
        for receptacle in closed_last:
            move = self._approach(receptacle, actions)
            if move:
                return move
            self._seen(receptacle)
        return "look"

    def _approach(self, receptacle: str, actions: list[str]) -> str:
        """A command that brings a receptacle's contents into reach; "" if there is none."""
        go, unlock = f"go to {receptacle}", f"open {receptacle}"
        if go in actions:
            return go
        if unlock in actions:
            return unlock
        examine = f"examine {receptacle}"
        return examine if examine in actions and self._last != examine else ""

    def _visit(self, kind: str, actions: list[str]) -> str:
        for receptacle in self.receptacles:
            if _kind(receptacle) == kind and f"go to {receptacle}" in actions:
                return f"go to {receptacle}"
        return "look"

    def _deliver(self, actions: list[str]) -> str:
        wanted = self.goal.get("recep", "")
        spots = [r for r in self.receptacles if _kind(r) == wanted and self.target in ("", r)]
        for receptacle in spots:
            for a in actions:
                if a.startswith(("move ", "put ")) and a.endswith(f" {receptacle}"):
                    self.here = receptacle
                    return a
        for receptacle in spots:
            move = self._approach(receptacle, actions)
            if move:
                return move
        return "look"

    def _drop(self, actions: list[str]) -> str:
        for a in actions:
            if a.startswith(("move ", "put ")):
                self.here = a.rsplit(" to ", 1)[-1].rsplit(" in/on ", 1)[-1]
                return a
        for receptacle in self.receptacles:
            if f"go to {receptacle}" in actions and receptacle != self.here:
                return f"go to {receptacle}"
        return "look"


class Surveyor(Observer):
    """Looks into every receptacle before it takes anything, also past what it came for.

    It solves the same tasks in more steps: a tight limit of steps tells the two ways apart.
    """

    def _fetch(self, kind: str, actions: list[str]) -> str:
        move = self._search(actions) if self.unseen else "look"
        return super()._fetch(kind, actions) if move == "look" else move
