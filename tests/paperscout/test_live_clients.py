"""arXiv and Semantic Scholar clients over a local server that speaks their formats."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.paperscout.live.arxiv import ArxivLibrary, parse_feed, search_expression
from agentr1_envs.paperscout.live.http import LiveClient, MalformedAnswer
from agentr1_envs.paperscout.live.semantic_scholar import SemanticScholarLibrary, list_parser
from tests.paperscout.local_server import Answer, Request, ScriptedServer


def feed(*entries: tuple[str, str, str]) -> bytes:
    parts = [
        f"<entry><id>http://arxiv.org/abs/{name}</id><published>{date}</published>"
        f"<title>{title}</title><summary> Line one\n  line two </summary>"
        "<author><name>A. Author</name></author><author><name>B. Böhm</name></author></entry>"
        for name, title, date in entries
    ]
    return (
        '<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom">'
        f"<title>query</title>{''.join(parts)}</feed>"
    ).encode()


def record(name: str | None, title: str | None = "T", date: str | None = "2020-05-01") -> dict:
    ids = {"ArXiv": name} if name else {"DOI": "10.1/x"}
    return {
        "paperId": "x",
        "externalIds": ids,
        "title": title,
        "abstract": None,
        "publicationDate": date,
        "year": 2020,
        "authors": [{"authorId": None, "name": "A. Author"}],
    }


def client(server: ScriptedServer) -> LiveClient:
    return LiveClient(server.url, interval=0, backoff=0.01, timeout=1, tries=2)


def scholar(server: ScriptedServer) -> SemanticScholarLibrary:
    return SemanticScholarLibrary(client(server))


def arxiv(server: ScriptedServer) -> ArxivLibrary:
    return ArxivLibrary(client(server), scholar(server))


def query_of(request: Request) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}


def test_arxiv_search(server: ScriptedServer) -> None:
    server.script = [
        Answer(
            feed(
                ("2101.00001v3", "First\n  title", "2021-01-02T03:04:05Z"),
                ("math.GT/0309136v1", "Old &amp; good", "2003-09-08T00:00:00Z"),
                ("2305.00001v1", "Too late", "2023-05-01T00:00:00Z"),
            )
        )
    ]
    papers = arxiv(server).search("What works use (deep) learning: AND 水?", 10, before=20230101)
    assert [p.id for p in papers] == ["2101.00001", "math/0309136"]
    assert papers[0].title == "First title" and papers[0].abstract == "Line one line two"
    assert papers[0].authors == ("A. Author", "B. Böhm") and papers[0].date == 20210102
    sent = query_of(server.requests[0])
    assert sent["search_query"] == (
        "(all:deep OR all:learning OR all:水) AND submittedDate:[190001010000 TO 202212312359]"
    )
    assert sent["max_results"] == "10"


@pytest.mark.parametrize(
    ("query", "before", "expected"),
    [
        ("graph graph nets", None, "all:graph OR all:nets"),
        ("the of", None, "all:the OR all:of"),
        ("?!", None, None),
        ("", 20200101, None),
        ("few-shot", 20240301, "(all:few-shot) AND submittedDate:[190001010000 TO 202402292359]"),
        ("x", 20230101, "(all:x) AND submittedDate:[190001010000 TO 202212312359]"),
    ],
)
def test_search_expression(query: str, before: int | None, expected: str | None) -> None:
    assert search_expression(query, before) == expected


def test_arxiv_paper(server: ScriptedServer) -> None:
    server.script = [Answer(feed(("2101.00001v3", "T", "2021-01-02T03:04:05Z")))]
    library = arxiv(server)
    found = library.paper("arXiv:2101.00001v2")
    assert found is not None and found.id == "2101.00001"
    server.script = [Answer(feed())]
    assert library.paper("2101.00002") is None
    count = len(server.requests)
    assert library.paper("../../etc/passwd") is None
    assert library.paper("") is None
    assert len(server.requests) == count


def test_arxiv_faults(server: ScriptedServer) -> None:
    error = feed(("api/errors#x", "Error", "2021-01-01T00:00:00Z")).replace(
        b"http://arxiv.org/abs/api/errors", b"http://arxiv.org/api/errors"
    )
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa">]>' + feed()
    for body in (error, bomb, feed()[:-20], b"<html></html>", b"Rate exceeded."):
        with pytest.raises(MalformedAnswer):
            parse_feed(body)
        server.script = [Answer(body)]
        with pytest.raises(EnvironmentFault, match="malformed answer"):
            arxiv(server).search("x")


def test_scholar_search(server: ScriptedServer) -> None:
    data = [
        record("2101.00001v2"),
        record(None),
        record("2102.00002", title=None),
        record("2103.00003", date=None),
        record("2401.00001", date="2024-01-01"),
    ]
    server.script = [Answer(json.dumps({"total": 5, "data": data}).encode())]
    papers = scholar(server).search("graph-based nets", 2, before=20230401)
    assert [(p.id, p.date) for p in papers] == [("2101.00001", 20200501), ("2103.00003", 20210301)]
    sent = query_of(server.requests[0])
    assert sent["query"] == "graph based nets" and sent["publicationDateOrYear"] == ":2023-04-01"
    assert scholar(server).search("  ") == []
    server.script = [Answer(b'{"total": 0, "offset": 0}')]
    assert scholar(server).search("nothing") == []


def test_scholar_citations(server: ScriptedServer) -> None:
    answers: dict[str, Any] = {
        "references": {"data": [{"citedPaper": record("1901.00001")}, {"citedPaper": None}]},
        "citations": {
            "data": [
                {"citingPaper": record("2201.00001", date="2022-01-01")},
                {"citingPaper": record("2101.00009", date="2021-01-01")},
            ]
        },
    }
    server.handler = lambda r: Answer(
        json.dumps(answers[urlsplit(r.path).path.rpartition("/")[2]]).encode()
    )
    library = arxiv(server)
    assert [p.id for p in library.references("2101.00001v4")] == ["1901.00001"]
    assert urlsplit(server.requests[0].path).path == "/graph/v1/paper/arXiv:2101.00001/references"
    assert [p.id for p in library.cited_by("2101.00001")] == ["2101.00009", "2201.00001"]
    assert library.cited_by("2101.00001", before=20200101) == []
    server.handler = lambda r: Answer(status=404, body=b'{"error": "Paper not found"}')
    assert library.references("2101.00001") == []
    assert scholar(server).paper("2101.00001") is None
    assert scholar(server).paper("no id") is None
    server.handler = lambda r: Answer(b'{"data": null}')
    assert library.references("2101.00001") == []
    with pytest.raises(EnvironmentFault):
        scholar(server).search("x")


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"data": 3}', b'{"data": [3]}', b"\xff\xfe"])
def test_scholar_malformed(body: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        list_parser(None)(body)
