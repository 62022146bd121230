"""Opens what is searched: the embedded articles, a corpus file and its index, or a server."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentr1_envs.hotpotqa.once import once

if TYPE_CHECKING:
    from agentr1_envs.retrieval import Bm25Index, Passage

_SMALL_CORPUS = 16 << 20  # bytes
RETRIEVERS = ("bm25", "dense", "hybrid")


def check_arguments(corpus: Any, retriever: str, encoder: str | None) -> None:
    """Raise ValueError for arguments that cannot work, before anything is opened."""
    if retriever not in RETRIEVERS:
        raise ValueError(f"retriever must be one of {RETRIEVERS}, got {retriever!r}")
    if encoder is not None and retriever == "bm25":
        raise ValueError("encoder= is for retriever='dense' or 'hybrid'; bm25 has none")
    if retriever != "bm25" and not isinstance(corpus, str):
        raise ValueError(f"retriever={retriever!r} needs corpus=.., the path of a corpus file")
    if retriever != "bm25" and encoder is None:
        raise ValueError(f"retriever={retriever!r} needs encoder=.., a path or a name")
    if corpus is not None and not isinstance(corpus, str) and not hasattr(corpus, "search"):
        raise TypeError(
            "corpus must be a path, an address or an object with search(query, k), got "
            f"{type(corpus).__name__}"
        )


def in_memory(rows: Iterable[Mapping[str, Any]], source: str = "corpus") -> Bm25Index:
    """A BM25 index of some ten thousand rows ``{"id", "title", "text"}``."""
    from agentr1_envs.retrieval import Bm25Index

    triples = ((row["id"], row["title"], row["text"]) for row in rows)
    return Bm25Index.in_memory(triples, source=source)


@once
def embedded() -> Bm25Index:
    """The index of the embedded articles, made once a process and shared by its environments."""
    from agentr1_envs.hotpotqa.generator import world

    return in_memory(world().articles, "hotpotqa world")


def open_corpus(
    corpus: Any,
    retriever: str = "bm25",
    encoder: str | None = None,
    *,
    progress: bool | None = None,
) -> Any:
    """The retriever for a corpus file, an index folder, a server or an object with ``search``.

    Indices of a corpus file stand beside it and are built where they are missing or were built
    from other content; processes that need the same one wait for the one that builds it. One
    process opens each of them once.

    Args:
        progress: show a bar while building; None shows it in a terminal only.

    Raises:
        FileNotFoundError: there is no such corpus.
        TaskDataError: the corpus, its index or the encoder is not as it should be.
        EnvironmentFault: the server does not answer.
    """
    if not isinstance(corpus, str):
        return corpus
    from agentr1_envs import retrieval

    if corpus.startswith(("http://", "https://")):
        return _client(corpus)
    if os.path.isdir(corpus):
        return _folder(os.path.realpath(corpus))
    if not os.path.isfile(corpus):
        raise FileNotFoundError(
            f"{corpus}: no such corpus file (`agentr1 prepare hotpotqa --corpus_output_path` "
            "writes one)"
        )
    if progress is None:
        progress = sys.stdout.isatty()
    # Starting processes costs more than a small corpus is worth.
    workers = 1 if os.path.getsize(corpus) < _SMALL_CORPUS else None
    sparse = retrieval.open_corpus(corpus, progress=progress, workers=workers)
    if retriever == "bm25":
        return sparse
    assert encoder is not None  # check_arguments saw to it
    dense = _dense(os.path.realpath(corpus), encoder, sparse.source, progress)
    return dense if retriever == "dense" else retrieval.HybridRetriever([sparse, dense])


@once
def _client(url: str) -> Any:
    from agentr1_envs.retrieval import RetrievalClient

    return RetrievalClient(url)


@once
def _folder(path: str) -> Any:
    from agentr1_envs.retrieval import open_retriever

    return open_retriever(path)


@once
def _encoder(name: str) -> Any:
    from agentr1_envs.retrieval import load_encoder

    return load_encoder(name)


def dense_path(corpus: str | os.PathLike[str], encoder: str) -> Path:
    """Where the vectors of a corpus file stand, for one encoder: beside it."""
    path = Path(corpus).absolute()
    model = re.sub(r"[^A-Za-z0-9.]+", "-", encoder).strip("-.")
    return path.with_name(f"{path.name}.{model}.dense")


@once
def _dense(corpus: str, encoder: str, source: str, progress: bool) -> Any:
    """The dense index of what the BM25 index ``source`` was built from."""
    from agentr1_envs.retrieval import DenseIndex, read_corpus, store

    path = dense_path(corpus, encoder)
    with store.build_lock(path.with_name(f"{path.name}.check")):
        current = path.exists() and store.read_meta(path, "agentr1-dense")["source"] == source
        if not current:
            DenseIndex.build(
                read_corpus(corpus), path, _encoder(encoder), progress=progress, source=corpus
            )
    return DenseIndex.open(path, _encoder(encoder), source=source)


def find_title(retriever: Any, title: str) -> tuple[Passage | None, list[str]]:
    """The passage of exactly this title (letter case aside), else None and similar titles.

    Works with any retriever: an article mentions its own title more than others do. In a BM25 index
    it is also looked up by id, which the corpora made here take from the title: titles of stop
    words only ("The The") are found by no search.
    """
    from agentr1_envs.retrieval import Bm25Index, Passage

    wanted = " ".join(title.split()).casefold()
    if not wanted or len(title) > 500:
        return None, []
    if isinstance(retriever, Bm25Index) and (number := retriever.number(title.strip())) >= 0:
        name, found_title, text = retriever.document(number)
        if found_title.casefold() == wanted:
            return Passage(name, found_title, text, 0.0), []
    found = retriever.search(title, 50)
    for passage in found:
        if passage.title.casefold() == wanted:
            return passage, []
    return None, list(dict.fromkeys(passage.title for passage in found))[:5]
