"""Opens what is searched: the embedded articles, a corpus file and its index, or a server."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentr1_envs.retrieval import Passage

RETRIEVERS = ("bm25", "dense", "hybrid")
DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"


def check_arguments(corpus: Any, retriever: str, encoder: str | None) -> None:
    """Raise ValueError for arguments that cannot work, before anything is opened."""
    if retriever not in RETRIEVERS:
        raise ValueError(f"retriever must be one of {RETRIEVERS}, got {retriever!r}")
    if encoder is not None and retriever == "bm25":
        raise ValueError("encoder= is for retriever='dense' or 'hybrid'; bm25 has none")
    if retriever != "bm25" and not isinstance(corpus, str):
        raise ValueError(f"retriever={retriever!r} needs corpus=.., the path of a corpus file")
    if corpus is not None and not isinstance(corpus, str) and not hasattr(corpus, "search"):
        raise TypeError(
            "corpus must be a path, an address or an object with search(query, k), got "
            f"{type(corpus).__name__}"
        )


def in_memory(rows: Iterable[Mapping[str, Any]], source: str = "corpus") -> Any:
    """A BM25 index of some ten thousand rows ``{"id", "title", "text"}``."""
    from agentr1_envs.retrieval import Bm25Index

    return Bm25Index.in_memory(
        ((row["id"], row["title"], row["text"]) for row in rows), source=source
    )


@lru_cache(maxsize=1)
def embedded() -> Any:
    """The index of the embedded articles, made once a process and shared by its environments."""
    from agentr1_envs.hotpotqa.generator import world

    return in_memory(world().articles, "hotpotqa world")


def open_corpus(corpus: Any, retriever: str = "bm25", encoder: str | None = None) -> Any:
    """The retriever for a corpus file, a server's address or an object with ``search``.

    Raises:
        FileNotFoundError: there is no such corpus file.
        EnvironmentFault: the server does not answer.
    """
    if not isinstance(corpus, str):
        return corpus
    if corpus.startswith(("http://", "https://")):
        from agentr1_envs.retrieval.client import RetrievalClient

        return RetrievalClient(corpus)
    if not os.path.exists(corpus):
        raise FileNotFoundError(
            f"{corpus}: no such corpus file (`agentr1 prepare hotpotqa --corpus_output_path` "
            "writes one)"
        )
    return _open_file(os.path.abspath(corpus), retriever, encoder)


def _open_file(path: str, retriever: str, encoder: str | None) -> Any:
    from agentr1_envs.retrieval import Bm25Index

    sparse = Bm25Index.open_shared(path) if retriever != "dense" else None
    if retriever == "bm25":
        return sparse
    raise NotImplementedError  # completed with the dense retrievers


def find_title(retriever: Any, title: str) -> tuple[Passage | None, list[str]]:
    """The passage of exactly this title (letter case aside), else None and similar titles.

    Works with any retriever: an article mentions its own title more than others do.
    """
    wanted = " ".join(title.split()).casefold()
    if not wanted or len(title) > 500:
        return None, []
    found = retriever.search(title, 50)
    for passage in found:
        if passage.title.casefold() == wanted:
            return passage, []
    return None, list(dict.fromkeys(passage.title for passage in found))[:5]
