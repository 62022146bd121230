"""The state of a search: the papers kept, what was asked, and the text that shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agentr1_envs.paperscout.papers import ABSTRACT_WORDS, Paper

_QUERY_SHOWN = 200


@dataclass(slots=True)
class Entry:
    """A paper in the pool with the selector's figure in [0, 1]; `number` counts from the first."""

    paper: Paper
    score: float
    number: int
    expanded: bool = False


# What the pool keeps of a paper: minus its score, its number, itself. Such keys sort by the best
# score, and among equals by what was found first; `Entry` objects are made only where one is asked
# for, since a step adds some thirty papers and few are ever looked at.
_Key = tuple[float, int, Paper]


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
        self._keys: dict[str, _Key] = {}
        self.queries: set[str] = set()
        self.records: list[CallRecord] = []
        self._open: list[_Key] = []
        self._expanded: list[_Key] = []
        self._expanded_ids: set[str] = set()
        self._texts: dict[int, str] = {}
        self._lines: list[str] = []
        self._sorted = True

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, identifier: str) -> bool:
        return identifier in self._keys

    @property
    def entries(self) -> dict[str, Entry]:
        """The papers by identifier, in the order they were found."""
        return {name: self._entry(key) for name, key in self._keys.items()}

    def unknown(self, papers: Iterable[Paper]) -> dict[str, Paper]:
        """Those that are not in the pool, by identifier: a live service may list one twice."""
        keys = self._keys
        return {paper.id: paper for paper in papers if paper.id not in keys}

    def add(self, new: Iterable[tuple[Paper, float]]) -> None:
        """Adds papers that are not in the pool yet."""
        number = len(self._keys)
        for paper, score in new:
            key = self._keys[paper.id] = (-score, number, paper)
            self._open.append(key)
            number += 1
        self._sorted = False

    def mark_expanded(self, identifier: str) -> None:
        """Moves a paper to the list of those whose citations were followed."""
        key = self._keys[identifier]
        self._open.remove(key)
        self._expanded.append(key)
        self._expanded_ids.add(identifier)
        self._sorted = False

    def is_expanded(self, identifier: str) -> bool:
        """Whether the citations of this paper were followed."""
        return identifier in self._expanded_ids

    def _entry(self, key: _Key) -> Entry:
        negative, number, paper = key
        return Entry(paper, -negative, number, paper.id in self._expanded_ids)

    def _sort(self) -> None:
        if not self._sorted:
            self._open.sort()
            self._expanded.sort()
            self._sorted = True

    def best(self, *, expanded: bool, count: int | None = None) -> list[Entry]:
        """The best papers of one of the two lists (``count`` None: all of them)."""
        self._sort()
        keys = self._expanded if expanded else self._open
        return [self._entry(key) for key in keys[:count]]

    def ranked(self) -> list[Entry]:
        """All papers, best first."""
        return [self._entry(key) for key in sorted(self._keys.values())]

    def record(self, record: CallRecord) -> None:
        """Keeps a call and the line of the history that tells of it."""
        self.records.append(record)
        self._lines.append(history_line(record))

    def state_key(self) -> str:
        """Equal for equal states, whatever the order of the calls that led to them.

        The pool is a function of the calls that filled it, so these stand for it; its size tells
        apart what a live service answered differently.
        """
        expanded, queries = sorted(self._expanded_ids), sorted(self.queries)
        return "\n".join((str(len(self._keys)), *expanded, "", *queries))

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
            texts = self._texts
            entries = [texts.get(key[1]) or self._show(key) for key in keys[: self.shown]]
            # Titles alone need no empty lines between them.
            parts.extend(entries if self.words else ["\n".join(entries)])
        if self._lines:
            parts.append("History:\n" + "\n".join(self._lines))
        else:
            parts.append("History: none")
        parts.extend(notes)
        return "\n\n".join(parts)

    def _show(self, key: _Key) -> str:
        """How the observation shows a paper; kept, since good ones are shown at every step."""
        negative, number, paper = key
        text = f"[{paper.id}] {paper.title} (score {-negative:.2f})"
        if self.words and paper.abstract:
            text += f"\n{paper.shortened(self.words)}"
        self._texts[number] = text
        return text


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
