"""What every retriever takes and gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

MAX_QUERY_CHARS = 32_768

# Which documents may be returned: a boolean mask of all documents, an array of document numbers,
# or a function of a document number.
Allow = npt.ArrayLike | Callable[[int], bool]


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


def encodable(text: str) -> str:
    """The text with lone surrogates, which no encoding takes, replaced by `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


def allowed_mask(allow: Any, documents: int) -> npt.NDArray[np.bool_]:
    """Any form of `Allow` as a boolean mask [documents].

    Raises:
        ValueError: it has another form, or names a document that does not exist.
    """
    if callable(allow):
        return np.fromiter((bool(allow(i)) for i in range(documents)), np.bool_, documents)
    given = np.asarray(allow)
    if given.dtype == np.bool_ and given.shape == (documents,):
        return given
    if given.ndim == 1 and (given.dtype.kind in "iu" or not given.size):
        if given.size and not 0 <= int(given.min()) <= int(given.max()) < documents:
            raise ValueError(f"allow: document numbers are 0 to {documents - 1}")
        mask = np.zeros(documents, np.bool_)
        mask[given.astype(np.int64)] = True
        return mask
    raise ValueError(
        f"allow: expected a boolean mask of {documents} documents, an array of document numbers "
        f"or a function; got {given.dtype} of shape {given.shape}"
    )


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
