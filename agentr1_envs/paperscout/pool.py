"""The state of a search: the papers kept, what was asked, and the text that shows it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentr1_envs.paperscout.papers import ABSTRACT_WORDS, Paper

_QUERY_SHOWN = 200


@dataclass(slots=True)
class Entry:
    """A paper in the pool with the selector's figure in [0, 1]."""

    paper: Paper
    score: float
    number: int
    expanded: bool = False

    @property
    def key(self) -> tuple[float, int]:
        """Best score first; among equals the one found first."""
        return -self.score, self.number


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

    def add(self, paper: Paper, score: float) -> None:
        """Adds a paper that is not in the pool yet."""
        entry = Entry(paper, score, len(self._by_number))
        self.entries[paper.id] = entry
        self._by_number.append(entry)
        insort(self._open, entry.key)

    def mark_expanded(self, entry: Entry) -> None:
        """Moves a paper to the list of those whose citations were followed."""
        entry.expanded = True
        del self._open[bisect_left(self._open, entry.key)]
        insort(self._expanded, entry.key)

    def best(self, *, expanded: bool, count: int | None = None) -> list[Entry]:
        """The best papers of one of the two lists (``count`` None: all of them)."""
        keys = self._expanded if expanded else self._open
        return [self._by_number[number] for _, number in keys[:count]]

    def ranked(self) -> list[Entry]:
        """All papers, best first."""
        return sorted(self._by_number, key=lambda entry: entry.key)

    def record(self, record: CallRecord) -> None:
        """Keeps a call and the line of the history that tells of it."""
        self.records.append(record)
        self._lines.append(history_line(record))

    def state_key(self) -> str:
        """Equal for equal states, whatever the order of the calls that led to them."""
        return "\n".join(
            (
                *sorted(self.entries),
                "expanded",
                *sorted(e.paper.id for e in self._by_number if e.expanded),
                "queries",
                *sorted(self.queries),
            )
        )

    def text(self, head: str, notes: Iterable[str] = ()) -> str:
        """The observation: the query, both lists, the history, and what went wrong last."""
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
            parts.extend([self._entry_text(number) for _, number in keys[: self.shown]])
        if self._lines:
            parts.append("History:\n" + "\n".join(self._lines))
        else:
            parts.append("History: none")
        parts.extend(notes)
        return "\n\n".join(parts)

    def _entry_text(self, number: int) -> str:
        entry = self._by_number[number]
        paper = entry.paper
        abstract = paper.shortened(self.words) if self.words else ""
        line = f"[{paper.id}] {paper.title} (score {entry.score:.2f})"
        return f"{line}\n{abstract}" if abstract else line


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
