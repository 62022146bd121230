"""Retrieval: one interface over BM25 (Lucene-exact), dense and hybrid search.

index = Bm25Index.in_memory([("p1", "Ada Lovelace", "She wrote the first programme.")])
index.search("who wrote the first programme?", k=5)  # [Passage(id, title, text, score)]
"""

from __future__ import annotations

from typing import Any

from .base import MAX_QUERY_CHARS, Document, Passage, QueryError, Retriever

# Loaded on first use, so that importing an environment does not pay for what it does not search.
_LAZY = {
    "Bm25Index": "bm25",
    "DenseIndex": "dense",
    "HybridRetriever": "hybrid",
    "RetrievalClient": "client",
    "Encoder": "encoders",
    "load_encoder": "encoders",
    "open_corpus": "opening",
    "open_retriever": "opening",
    "analyze": "analyzer",
    "read_corpus": "documents",
}

__all__ = [
    "MAX_QUERY_CHARS",
    "Bm25Index",
    "DenseIndex",
    "Document",
    "Encoder",
    "HybridRetriever",
    "Passage",
    "QueryError",
    "RetrievalClient",
    "Retriever",
    "analyze",
    "load_encoder",
    "open_corpus",
    "open_retriever",
    "read_corpus",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
