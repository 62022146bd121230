"""What a paper is: its fields, its identifier without a version, its date as a number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_PREFIX = re.compile(
    r"^(?:https?://(?:www\.|export\.)?arxiv\.org/(?:abs|pdf)/|arxiv:)", re.IGNORECASE
)
_VERSION = re.compile(r"v\d+$", re.IGNORECASE)
_SUBJECT_CLASS = re.compile(r"^([a-z-]+)\.[A-Z]{2}/")
_PLAIN_ID = re.compile(r"[0-9]{4}\.[0-9]{4,5}")
_ARXIV_ID = re.compile(r"\d{4}\.\d{4,5}|[a-z-]+/\d{7}")
_ISO_DATE = re.compile(r"^(\d{4})(?:[-/]?(\d{2})(?:[-/]?(\d{2}))?)?(?:[T ].*)?$")

ABSTRACT_WORDS = 400


def base_id(identifier: str) -> str:
    """The identifier of the work, whatever version or spelling names it.

    ``"arXiv:2106.01345v2"``, ``"https://arxiv.org/abs/2106.01345"`` and ``" 2106.01345 "`` are all
    ``"2106.01345"``; an old-style ``"math.GT/0309136v1"`` is ``"math/0309136"``, as arXiv itself
    resolves it.
    """
    if _PLAIN_ID.fullmatch(identifier) is not None:
        return identifier
    before, text = "", identifier.strip()
    if len(text) > 500:
        return text  # no identifier, and an agent's "v1v1v1.." would take long
    while text != before:  # so that the result names itself: "2106.01345v1v2" is no other paper
        before = text
        text = _PREFIX.sub("", text.strip()).removesuffix(".pdf")
        text = _SUBJECT_CLASS.sub(r"\1/", _VERSION.sub("", text))
    return text


def is_identifier(text: str) -> bool:
    """Whether a library can hold a paper of this name and an agent write it in a call.

    Control characters and halves of surrogate pairs are neither shown nor stored faithfully: a
    NUL at the end would make two papers one.
    """
    name = base_id(text)
    return bool(name) and len(text) <= 200 and name.isprintable() and " " not in name


def is_arxiv_id(identifier: str) -> bool:
    """Whether a versionless identifier has one of arXiv's two forms."""
    return _ARXIV_ID.fullmatch(identifier) is not None


def parse_date(value: Any) -> int | None:
    """A date as the number YYYYMMDD, or None when ``value`` is not one.

    Reads ``20230325``, ``"20230325"``, ``"2023-03-25"``, ``"2023-03-25T17:00:00Z"``, ``"2023-03"``
    and ``"2023"``; a missing month or day counts as the first, so that a paper known only by its
    year is not hidden from a cut-off later in that year.
    """
    if isinstance(value, bool) or value is None:
        return None
    if hasattr(value, "year") and hasattr(value, "month") and hasattr(value, "day"):
        return value.year * 10000 + value.month * 100 + value.day
    match = _ISO_DATE.match(str(value).strip())
    if match is None:
        return None
    year, month, day = int(match[1]), int(match[2] or 1), int(match[3] or 1)
    if not (year >= 1000 and 1 <= month <= 12 and 1 <= day <= 31):
        return None
    return year * 10000 + month * 100 + day


def date_from_id(identifier: str) -> int | None:
    """The first day of the month that an arXiv identifier was given out, or None."""
    match = re.match(r"^(?:[a-z-]+/)?(\d{2})(\d{2})(?:\.\d{4,5}|\d{3})$", base_id(identifier))
    if match is None or not 1 <= int(match[2]) <= 12:
        return None
    year = int(match[1])
    # Identifiers began in 1991; two digits are unambiguous until 2091.
    return (1900 + year if year >= 91 else 2000 + year) * 10000 + int(match[2]) * 100 + 1


def cut_words(text: str, limit: int) -> str:
    """``text`` on one line, at most ``limit`` words, with a mark where it was cut."""
    words = text.split(None, limit)
    if len(words) <= limit:
        return " ".join(words)
    return " ".join(words[:limit]) + " ..."


@dataclass(frozen=True, eq=False, slots=True)
class Paper:
    """One paper of a library. Compared by identity: a library hands out one object a paper.

    Slots, since a step looks at some forty papers and most of what that costs is memory.

    Args:
        id: identifier without a version (`base_id`).
        title: on one line.
        abstract: may be empty.
        authors: names in order.
        date: day of publication as YYYYMMDD.
        row: position in the local library that holds it, -1 elsewhere.
    """

    id: str
    title: str
    abstract: str = ""
    authors: tuple[str, ...] = ()
    date: int = 0
    row: int = -1
    _short: dict[int, str] = field(default_factory=dict, init=False, repr=False)

    def shortened(self, words: int = ABSTRACT_WORDS) -> str:
        """The abstract on one line, cut to a number of words; kept, as it is shown many times."""
        text = self._short.get(words)
        if text is None:
            text = self._short[words] = cut_words(self.abstract, words)
        return text

    @property
    def text(self) -> str:
        """What an index reads: the title and the abstract."""
        return f"{self.title}\n{self.abstract}" if self.abstract else self.title


def papers_before(papers: Sequence[Paper], before: int | None) -> list[Paper]:
    """The papers dated before YYYYMMDD; one of unknown date (0) may be newer and is left out."""
    return [paper for paper in papers if before is None or 0 < paper.date < before]
