"""The state of a search: the papers kept, what was asked, and the text that shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agentr1_envs.paperscout.papers import ABSTRACT_WORDS, Paper

_QUERY_SHOWN = 200


@dataclass(slots=True)
class Entry:
    """A paper in the pool with the selector's figure in [0, 1].

    `text` is how the observation shows it; made when it is first shown.
    """

    paper: Paper
    score: float
    number: int
    expanded: bool = False
    text: str = ""


@dataclass(slots=True)
class CallRecord:
    """One call as the report shows it.

    Attributes:
        step: 1-based step of the episode.
        kind: ``"search"`` or ``"expand"``.
        argument: the query, or the identifier.
        new: papers that it added to the pool, with their scores, best first.
        found: how many papers the library returned.
        reward: its process reward.
        error: what was wrong with it, None for a valid call.
    """

    step: int
    kind: str
    argument: str
    new: list[tuple[Paper, float]] = field(default_factory=list)
    found: int = 0
    reward: float = 0.0
    error: str | None = None


class Pool:
    """Papers that the search has kept, by score, and its history.

    Args:
        shown: how many papers of each list the observation shows.
        words: words of each abstract that it shows.
    """

    def __init__(self, shown: int = 10, words: int = ABSTRACT_WORDS) -> None:
        self.shown, self.words = shown, words
        self.entries: dict[str, Entry] = {}
        self.seen: set[str] = set()
        self.queries: set[str] = set()
        self.records: list[CallRecord] = []
        self._open: list[tuple[float, int]] = []
        self._expanded: list[tuple[float, int]] = []
        self._by_number: list[Entry] = []
        self._lines: list[str] = []
        self._sorted = True

    def add(self, new: Iterable[tuple[Paper, float]]) -> None:
        """Adds papers that are not in the pool yet."""
        number = len(self._by_number)
        for paper, score in new:
            entry = Entry(paper, score, number)
            self.entries[paper.id] = entry
            self._by_number.append(entry)
            # Best score first; among equals the one found first.
            self._open.append((-score, number))
            number += 1
        self._sorted = False

    def mark_expanded(self, entry: Entry) -> None:
        """Moves a paper to the list of those whose citations were followed."""
        entry.expanded = True
        key = (-entry.score, entry.number)
        self._open.remove(key)
        self._expanded.append(key)
        self._sorted = False

    def _sort(self) -> None:
        if not self._sorted:
            self._open.sort()
            self._expanded.sort()
            self._sorted = True

    def best(self, *, expanded: bool, count: int | None = None) -> list[Entry]:
        """The best papers of one of the two lists (``count`` None: all of them)."""
        self._sort()
        keys = self._expanded if expanded else self._open
        return [self._by_number[number] for _, number in keys[:count]]

    def ranked(self) -> list[Entry]:
        """All papers, best first."""
        return sorted(self._by_number, key=lambda entry: (-entry.score, entry.number))

    def record(self, record: CallRecord) -> None:
        """Keeps a call and the line of the history that tells of it."""
        self.records.append(record)
        self._lines.append(history_line(record))

    def state_key(self) -> str:
        """Equal for equal states, whatever the order of the calls that led to them.

        The pool is a function of the calls that filled it, so these stand for it; its size tells
        apart what a live service answered differently.
        """
        expanded = sorted(self._by_number[number].paper.id for _, number in self._expanded)
        return "\n".join((str(len(self.entries)), *expanded, "", *sorted(self.queries)))

    def text(self, head: str, notes: Iterable[str] = ()) -> str:
        """The observation: the query, both lists, the history, and what went wrong last."""
        self._sort()
        parts = [head]
        for title, keys in (
            ("Papers not expanded yet", self._open),
            ("Expanded papers", self._expanded),
        ):
            count = len(keys)
            if not count:
                parts.append(f"{title}: none")
                continue
            some = f"best {self.shown} of {count}" if count > self.shown else str(count)
            parts.append(f"{title} ({some}):")
            entries = [self._entry_text(number) for _, number in keys[: self.shown]]
            # Titles alone need no empty lines between them.
            parts.extend(entries if self.words else ["\n".join(entries)])
        if self._lines:
            parts.append("History:\n" + "\n".join(self._lines))
        else:
            parts.append("History: none")
        parts.extend(notes)
        return "\n\n".join(parts)

    def _entry_text(self, number: int) -> str:
        entry = self._by_number[number]
        if not entry.text:
            paper = entry.paper
            entry.text = f"[{paper.id}] {paper.title} (score {entry.score:.2f})"
            if self.words and paper.abstract:
                entry.text += f"\n{paper.shortened(self.words)}"
        return entry.text


def history_line(record: CallRecord) -> str:
    """``[Search] query -> 4 new papers``."""
    label = "[Search]" if record.kind == "search" else "[Expand]"
    argument = " ".join(record.argument.split())
    if len(argument) > _QUERY_SHOWN:
        argument = argument[:_QUERY_SHOWN] + "..."
    if record.error is not None:
        return f"{label} {argument} -> error"
    count = len(record.new)
    return f"{label} {argument} -> {count or 'no'} new paper{'' if count == 1 else 's'}"
