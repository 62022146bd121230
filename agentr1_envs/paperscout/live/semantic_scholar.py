"""Semantic Scholar's Academic Graph: search, papers, references, citations.

The interface is that of https://api.semanticscholar.org/api-docs/graph; a key, if there is one,
comes from the environment variable SEMANTIC_SCHOLAR_API_KEY and is sent as a header. Only papers
that have an arXiv identifier are returned: it is the name by which an agent expands a paper.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.paperscout.library import MAX_REFERENCES, PaperLibrary
from agentr1_envs.paperscout.live.http import LiveClient, MalformedAnswer
from agentr1_envs.paperscout.papers import (
    Paper,
    base_id,
    cut_words,
    date_from_id,
    is_arxiv_id,
    papers_before,
    parse_date,
)
from agentr1_envs.task_files import encodable

BASE_URL = "https://api.semanticscholar.org"
INTERVAL = 1.0
KEY_VARIABLE = "SEMANTIC_SCHOLAR_API_KEY"
FIELDS = "title,abstract,externalIds,publicationDate,year,authors"
# Of the papers found, those without an arXiv identifier are dropped: ask for more than wanted.
_OVERFETCH = 5
_MAX_PAGE = 100
_MAX_QUERY = 300


def parse_paper(record: Any) -> Paper | None:
    """One paper record, None when it has no arXiv identifier or no title."""
    if not isinstance(record, dict):
        raise MalformedAnswer(f"expected a paper object, got {type(record).__name__}")
    external = record.get("externalIds") or {}
    if not isinstance(external, dict):
        raise MalformedAnswer("expected externalIds to be an object")
    identifier, title = external.get("ArXiv"), record.get("title")
    if not isinstance(identifier, str) or not isinstance(title, str) or not title.strip():
        return None
    if not is_arxiv_id(base_id(identifier)):
        return None  # its citations could not be asked for
    authors = record.get("authors") or []
    if not isinstance(authors, list):
        raise MalformedAnswer("expected authors to be a list")
    date = parse_date(record.get("publicationDate")) or date_from_id(identifier)
    return Paper(
        id=base_id(identifier),
        # JSON can hold half of a surrogate pair, which no file and no tokenizer takes.
        title=encodable(cut_words(title, 200)),
        abstract=encodable(" ".join(str(record.get("abstract") or "").split())),
        authors=tuple(
            encodable(str(a["name"])) for a in authors if isinstance(a, dict) and a.get("name")
        ),
        date=date or parse_date(record.get("year")) or 0,
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer(f"no JSON: {error}") from error
    if not isinstance(value, dict):
        raise MalformedAnswer(f"expected an object, got {type(value).__name__}")
    return value


def list_parser(inner: str | None) -> Callable[[bytes], list[Paper]]:
    """A parser of ``{"data": [..]}`` whose entries hold the paper under ``inner``."""

    def parse(body: bytes) -> list[Paper]:
        value = _object(body)
        entries = value.get("data", [] if value.get("total") == 0 else None)
        if entries is None and inner is not None and "data" in value:
            return []  # The service says null where the publisher withholds the list.
        if not isinstance(entries, list):
            raise MalformedAnswer("expected a list under 'data'")
        papers = []
        for entry in entries:
            record = entry if inner is None or not isinstance(entry, dict) else entry.get(inner)
            if record is not None and (paper := parse_paper(record)) is not None:
                papers.append(paper)
        return papers

    return parse


class SemanticScholarLibrary(PaperLibrary):
    """Searches Semantic Scholar and follows its citation graph."""

    name = "semantic_scholar"
    blocking = True

    def __init__(self, client: LiveClient) -> None:
        self.client = client

    def search(self, query: str, k: int = 10, before: int | None = None) -> Sequence[Paper]:
        # The service reads a hyphen as an operator and finds nothing then.
        text = " ".join(query.replace("-", " ").split())[:_MAX_QUERY]
        if not text:
            return []
        params: dict[str, str | int] = {
            "query": text,
            "limit": min(_MAX_PAGE, k * _OVERFETCH),
            "fields": FIELDS,
        }
        if before is not None:
            params["publicationDateOrYear"] = f":{_dashed(before)}"
        papers = self.client.get("graph/v1/paper/search", params, list_parser(None))
        if papers is None:
            raise EnvironmentFault(f"{self.client.base_url}: no answer to a search")
        return papers_before(papers, before)[:k]

    def paper(self, identifier: str) -> Paper | None:
        name = base_id(identifier)
        if not is_arxiv_id(name):
            return None
        return self.client.get(
            f"graph/v1/paper/arXiv:{name}",
            {"fields": FIELDS},
            lambda body: parse_paper(_object(body)),
            missing_ok=True,
        )

    def references(
        self, identifier: str, limit: int = MAX_REFERENCES, before: int | None = None
    ) -> Sequence[Paper]:
        return self._linked(identifier, "references", "citedPaper", limit, before)

    def cited_by(
        self, identifier: str, limit: int = MAX_REFERENCES, before: int | None = None
    ) -> Sequence[Paper]:
        papers = self._linked(identifier, "citations", "citingPaper", _MAX_PAGE, before)
        return sorted(papers, key=lambda paper: paper.date)[:limit]

    def _linked(
        self, identifier: str, kind: str, inner: str, limit: int, before: int | None
    ) -> list[Paper]:
        name = base_id(identifier)
        if not is_arxiv_id(name):
            return []
        papers = self.client.get(
            f"graph/v1/paper/arXiv:{name}/{kind}",
            {"fields": FIELDS, "limit": min(1000, limit * _OVERFETCH)},
            list_parser(inner),
            missing_ok=True,
        )
        return papers_before(papers or [], before)[:limit]


def _dashed(date: int) -> str:
    return f"{date // 10000:04d}-{date // 100 % 100:02d}-{date % 100:02d}"
