"""arXiv's search (Atom), with the citations of Semantic Scholar, which arXiv does not publish.

The interface is that of the arXiv API user's manual (https://info.arxiv.org/help/api/); it asks
for at most one request every three seconds.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.paperscout.library import MAX_REFERENCES, PaperLibrary
from agentr1_envs.paperscout.live.http import LiveClient, MalformedAnswer
from agentr1_envs.paperscout.live.semantic_scholar import SemanticScholarLibrary
from agentr1_envs.paperscout.papers import (
    Paper,
    base_id,
    cut_words,
    date_from_id,
    is_arxiv_id,
    is_identifier,
    papers_before,
    parse_date,
)

BASE_URL = "https://export.arxiv.org"
INTERVAL = 3.0
_ATOM = "{http://www.w3.org/2005/Atom}"
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
# Words that arXiv's own index ignores or reads as operators.
_SKIPPED_WORDS = (
    "a an and andnot are as at be by can could do does for from have in into is it me of on or "
    "provide some papers that the their these this to us use using was what which with works you "
    "studies list give find any about"
)
_SKIPPED = frozenset(_SKIPPED_WORDS.split())
_MAX_WORDS = 20


def parse_feed(body: bytes) -> list[Paper]:
    """The papers of an Atom feed.

    Raises:
        MalformedAnswer: no feed, a cut feed, or the error entry of the service.
    """
    # The service never sends a document type; refusing one rules out entity expansion.
    plain = body.replace(b"\0", b"")  # as UTF-16 it reads the same
    if b"<!DOCTYPE" in plain or b"<!ENTITY" in plain:
        raise MalformedAnswer("a document type declaration")
    try:
        root = ElementTree.fromstring(body)
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # also its encoding
        raise MalformedAnswer(f"no XML: {error}") from error
    if root.tag != f"{_ATOM}feed":
        raise MalformedAnswer(f"expected an Atom feed, got <{root.tag}>")
    papers = []
    for entry in root.iter(f"{_ATOM}entry"):
        address = entry.findtext(f"{_ATOM}id", "").strip()
        if "/api/errors" in address:
            raise MalformedAnswer(entry.findtext(f"{_ATOM}summary", "error entry").strip())
        title = entry.findtext(f"{_ATOM}title", "")
        if not is_identifier(address) or not title.strip():
            raise MalformedAnswer("an entry without id or title")
        names = (a.findtext(f"{_ATOM}name", "").strip() for a in entry.iter(f"{_ATOM}author"))
        papers.append(
            Paper(
                id=base_id(address),
                title=cut_words(title, 200),
                abstract=" ".join(entry.findtext(f"{_ATOM}summary", "").split()),
                authors=tuple(name for name in names if name),
                date=parse_date(entry.findtext(f"{_ATOM}published")) or date_from_id(address) or 0,
            )
        )
    return papers


def search_expression(query: str, before: int | None) -> str | None:
    """The ``search_query`` for free text, None when it has no word.

    Only words reach the service, so that no character of a query is read as an operator.
    """
    words = list(dict.fromkeys(_WORD.findall(query)))
    chosen = [w for w in words if w.lower() not in _SKIPPED] or words
    if not chosen:
        return None
    text = " OR ".join(f"all:{word}" for word in chosen[:_MAX_WORDS])
    if before is None:
        return text
    # The range includes its end; the last minute of the day before is the last allowed one.
    return f"({text}) AND submittedDate:[190001010000 TO {_day_before(before)}2359]"


def _day_before(date: int) -> int:
    from datetime import date as day
    from datetime import timedelta

    year, month, rest = date // 10000, date // 100 % 100, date % 100
    earlier = day(year, month, 1) + timedelta(days=rest - 2)
    return earlier.year * 10000 + earlier.month * 100 + earlier.day


class ArxivLibrary(PaperLibrary):
    """Searches arXiv; follows citations through a `SemanticScholarLibrary`."""

    name = "arxiv"
    blocking = True

    def __init__(self, client: LiveClient, citations: SemanticScholarLibrary) -> None:
        self.client = client
        self.citations = citations

    def search(self, query: str, k: int = 10, before: int | None = None) -> Sequence[Paper]:
        expression = search_expression(query, before)
        if expression is None:
            return []
        papers = self.client.get(
            "api/query",
            {
                "search_query": expression,
                "start": 0,
                "max_results": k,
                "sortBy": "relevance",
                "sortOrder": "descending",
            },
            parse_feed,
        )
        if papers is None:
            raise EnvironmentFault(f"{self.client.base_url}: no answer to a search")
        return papers_before(papers, before)[:k]

    def paper(self, identifier: str) -> Paper | None:
        name = base_id(identifier)
        # arXiv answers a malformed identifier with an error entry, not with an empty feed.
        if not is_arxiv_id(name):
            return None
        papers = self.client.get("api/query", {"id_list": name, "max_results": 1}, parse_feed)
        return next((p for p in papers or () if p.id == name), None)

    def references(
        self, identifier: str, limit: int = MAX_REFERENCES, before: int | None = None
    ) -> Sequence[Paper]:
        return self.citations.references(identifier, limit, before)

    def cited_by(
        self, identifier: str, limit: int = MAX_REFERENCES, before: int | None = None
    ) -> Sequence[Paper]:
        return self.citations.cited_by(identifier, limit, before)
