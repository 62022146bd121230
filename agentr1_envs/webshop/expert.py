"""Scripted shoppers.

`Expert` sees the goal and shows that it can be reached; `Observer` sees the pages only and shows
how far simple reading goes; `Reader` is an observer that reads more than it needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from agentr1_envs.webshop import pages
from agentr1_envs.webshop.reward import matches, normalize_color

_PRICE = re.compile(r",? and price lower than ([\d.]+) dollars")
_WORD = re.compile(r"[^\W_]+(?:[.'-][^\W_]+)*")
_TAG_PRICE = re.compile(r"^\$([\d.]+)(?: to \$[\d.]+)?$")
_CARD = re.compile(r"^\[\*?([A-Za-z0-9]+)\] (.*?) \$([\d.]+)(?: to \$[\d.]+)?$")
_BUTTONS = {pages.SEARCH, pages.BACK, pages.PREV, pages.NEXT, pages.BUY, *pages.SUB_PAGES}
_BUTTON = re.compile(r"^ {0,2}\[(?:clicked )?button\] (.*) \[(?:clicked )?button_\]$")
_FILLERS = """
i am looking for need find me a an the to that is with and in buy would like want please show some
of my it as which are should be on size make help choose made
"""
_COMMON = frozenset(_FILLERS.split())


class Expert:
    """Buys the goal's own product with the goal's options; looks at the catalog and the goal."""

    def __init__(self, env: Any) -> None:
        self.shop = env.unwrapped

    def reset(self, observation: str, info: dict[str, Any]) -> None:
        """A new episode."""
        task = self.shop.task
        self.wanted = self.shop.catalog.row_of(task["asin"])
        options = task["goal_options"]
        self.values = list(options.values()) if isinstance(options, dict) else list(options)
        self.values = [value for value in self.values if value is not None]
        self.query = self._best_query(task)

    def _best_query(self, task: dict[str, Any]) -> str:
        """Search words that bring the product far forward."""
        catalog, product = self.shop.catalog, self.shop.catalog.product(self.wanted)
        title = " ".join(product.title.split())
        described = " ".join(product.description.split()[:60])
        tries = [title, task["instruction_text"], f"{title} {described}", described]
        best, best_place = title, 10**9
        for query in filter(str.strip, tries):
            found = catalog.search(query.lower())
            place = found.index(self.wanted) if self.wanted in found else 10**9
            if place < best_place:
                best, best_place = query, place
        return best

    def act(self, observation: str, info: dict[str, Any]) -> str:
        """The next action."""
        return self.shop.format_action(self._command())

    def _command(self) -> str:
        session = self.shop.session
        if session.page == "search":
            return f"search[{self.query}]"
        if session.page == "results":
            if session.query != self.query.lower():
                return "click[back to search]"
            link = session.link_to(self.wanted)
            if link is not None:
                return f"click[{link}]"
            return "click[next >]" if "next >" in session.clickables() else "click[back to search]"
        if session.page == "sub":
            return "click[< prev]"
        if session.product.row != self.wanted:
            return "click[< prev]"
        label = self._missing_option(session)
        return f"click[{label}]" if label else f"click[{pages.BUY}]"

    def _missing_option(self, session: Any) -> str | None:
        labels = {
            (option, value): label
            for label, (kind, _, *rest) in session.targets().items()
            if kind == pages.OPTION
            for option, value in [rest]
        }
        goal = self.shop.task["goal_options"]
        named = list(goal.items()) if isinstance(goal, dict) else [(None, v) for v in self.values]
        taken: set[str] = set()
        for name, wanted in named:
            place = next(
                (
                    (option, value)
                    for option, value in labels
                    if value == wanted and option not in taken and name in (None, option)
                ),
                None,
            ) or next(
                (
                    (option, value)
                    for option, value in labels
                    if option not in taken
                    and matches(normalize_color(value), normalize_color(wanted))
                ),
                None,
            )
            if place is None:
                continue
            taken.add(place[0])
            if session.options.get(place[0]) != place[1]:
                return labels[place]
        return None


class Observer:
    """Reads the pages and nothing else: searches the instruction's words, takes the affordable
    result whose title shares most of them, clicks the options it names, and buys.

    Raises:
        ValueError: The environment's observation is ``text``, which does not tell what is a button.
    """

    def __init__(self, env: Any) -> None:
        mode = getattr(env.unwrapped, "observation", "text_rich")
        if mode not in _READERS:
            raise ValueError(f"the observer reads observation={sorted(_READERS)}, not {mode!r}")
        self._read = _READERS[mode]
        self._format = env.unwrapped.format_action

    def reset(self, observation: str, info: dict[str, Any]) -> None:
        """A new episode."""
        self.text, self.cap = _instruction(observation)
        self.words = [w for w in _WORD.findall(self.text.lower()) if w not in _COMMON]
        self.clicked: set[str] = set()

    def act(self, observation: str, info: dict[str, Any]) -> str:
        """The next action."""
        return self._format(self._command(self._read(observation)))

    def _command(self, page: _Page) -> str:
        if pages.SEARCH in page.buttons:
            return f"search[{' '.join(self.words) or self.text}]"
        if pages.BUY in page.buttons:
            return self._configure(page.options)
        if page.cards:
            return self._choose(page.cards)
        return "click[< prev]" if pages.PREV in page.buttons else "click[back to search]"

    def _choose(self, cards: list[tuple[str, str, float]]) -> str:
        def value(place: int) -> float:
            _, title, price = cards[place]
            words = set(_WORD.findall(title.lower()))
            shared = sum(word in words for word in self.words)
            return shared + 0.5 / (1 + place) - (100 if price > self.cap else 0)

        return f"click[{cards[max(range(len(cards)), key=value)][0]}]"

    def _configure(self, options: list[str]) -> str:
        lowered = f" {' '.join(_WORD.findall(self.text.lower()))} "
        named = [o for o in options if f" {' '.join(_WORD.findall(o.lower()))} " in lowered]
        for option in sorted(named, key=len, reverse=True):
            longer = any(option != other and option in other for other in named)
            if option not in self.clicked and not longer:
                self.clicked.add(option)
                return f"click[{option}]"
        return f"click[{pages.BUY}]"


class Reader(Observer):
    """Opens a product's description before it decides about options.

    It buys what the observer buys, two clicks later: a tight limit of steps tells the two apart.
    """

    def reset(self, observation: str, info: dict[str, Any]) -> None:
        """A new episode."""
        super().reset(observation, info)
        self.unread = [pages.SUB_PAGES[0]]

    def _configure(self, options: list[str]) -> str:
        return f"click[{self.unread.pop(0)}]" if self.unread else super()._configure(options)


@dataclass
class _Page:
    """What can be told apart on a page: buttons, option labels, (ASIN, title, lowest price)."""

    buttons: set[str] = field(default_factory=set)
    options: list[str] = field(default_factory=list)
    cards: list[tuple[str, str, float]] = field(default_factory=list)


def _read_rich(observation: str) -> _Page:
    page, lines = _Page(), observation.splitlines()
    for place, line in enumerate(lines):
        match = _BUTTON.match(line)
        if match is None:
            continue
        if line.startswith("  "):
            page.options.append(match.group(1))
            continue
        price = _TAG_PRICE.match(lines[place + 2]) if place + 2 < len(lines) else None
        if price and not lines[place - 1]:
            page.cards.append((match.group(1), lines[place + 1], float(price.group(1))))
        else:
            page.buttons.add(match.group(1))
    return page


def _read_compact(observation: str) -> _Page:
    page = _Page()
    for line in observation.splitlines():
        card = _CARD.match(line)
        if card:
            page.cards.append((card.group(1), card.group(2), float(card.group(3))))
        elif line.startswith("[") and line.endswith("]"):
            for text in line[1:-1].split("] ["):
                if text in _BUTTONS:
                    page.buttons.add(text)
                else:
                    page.options.append(text.removeprefix("*"))
    return page


_READERS = {"text_rich": _read_rich, "compact": _read_compact}


def _instruction(observation: str) -> tuple[str, float]:
    lines = observation.splitlines()
    place = next((n for n, line in enumerate(lines) if line.startswith("Instruction:")), -1)
    text = lines[place + 1] if 0 <= place < len(lines) - 1 else observation
    match = _PRICE.search(text)
    return _PRICE.sub("", text), float(match.group(1)) if match else float("inf")
