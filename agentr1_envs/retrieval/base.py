"""What every retriever takes and gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

MAX_QUERY_CHARS = 32_768


class Passage(NamedTuple):
    """One retrieved document.

    Attributes:
        id: the document's id in its corpus.
        title: its title ("" where the corpus has none).
        text: its text ("" where the index stores ids only).
        score: the retriever's score; higher is better, comparable within one result only.
    """

    id: str
    title: str
    text: str
    score: float


class Document(NamedTuple):
    """One document to index.

    Attributes:
        id: unique in its corpus.
        title: stored, and given back in a Passage.
        text: stored, and given back in a Passage.
        contents: what is indexed; None indexes the title, a line break and the text.
    """

    id: str
    title: str
    text: str
    contents: str | None = None

    @property
    def indexed(self) -> str:
        """The text that is searched."""
        if self.contents is not None:
            return self.contents
        return f"{self.title}\n{self.text}" if self.title else self.text


class QueryError(ValueError):
    """A query that cannot be searched: an error of whoever asked, not of the retriever."""


def check_query(query: str, k: int) -> None:
    """Raise QueryError for a query that no retriever takes."""
    if not isinstance(query, str):
        raise QueryError(f"a query is a string; got {type(query).__name__}")
    if len(query) > MAX_QUERY_CHARS:
        raise QueryError(
            f"the query has {len(query):,} characters; at most {MAX_QUERY_CHARS:,} are searched"
        )
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise QueryError(f"k is the number of passages wanted, at least 1; got {k!r}")


class Retriever(ABC):
    """Finds passages for a query.

    `search` may be called from any thread. A query that matches nothing gives an empty list; a
    retriever that cannot answer raises `EnvironmentFault`, never an empty list.
    """

    @abstractmethod
    def search(self, query: str, k: int = 5) -> list[Passage]:
        """The best k passages, best first; fewer when fewer match.

        Raises:
            QueryError: the query is no string or too long, or k is less than 1.
            EnvironmentFault: the retriever cannot answer.
        """

    def search_batch(self, queries: Sequence[str], k: int = 5) -> list[list[Passage]]:
        """`search` for each query, in order."""
        return [self.search(query, k) for query in queries]
