"""Dense retrieval: exact inner-product search over unit vectors."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import store
from .base import Allow, Passage, Retriever, allowed_mask, check_query, encodable
from .documents import Chunk, Row, StoredDocuments, split_indexed, store_in_memory
from .encoders import Encoder, load_encoder
from .segments import Array

_BLOCK = 65_536  # rows scored at once: 256 KiB of scores for each query


class DenseIndex(Retriever):
    """Finds the passages whose vectors are nearest to the query's, exactly.

    Make one with `in_memory`, `build` or `open`. Vectors on disk are mapped. With FAISS installed,
    a flat inner-product index of it is used (it copies the vectors into memory); without, numpy.

    Attributes:
        documents: the number of documents.
        source: hash of what was indexed (hexadecimal).
        encoder: the encoder; it must be the one the passages were encoded with.
    """

    def __init__(
        self,
        vectors: Array,
        stored: StoredDocuments,
        rank: Array | None,
        encoder: Encoder,
        meta: dict[str, Any],
        *,
        engine: str = "auto",
    ) -> None:
        if engine not in ("auto", "faiss", "numpy"):
            raise ValueError(f"engine is 'auto', 'faiss' or 'numpy'; got {engine!r}")
        self._vectors, self._stored, self._rank = vectors, stored, rank
        self.encoder, self.meta = encoder, meta
        self.documents, self.source = len(vectors), str(meta["source"])
        self._faiss: Any = None
        self._lock = threading.Lock()
        if engine == "faiss" or (engine == "auto" and importlib.util.find_spec("faiss")):
            import faiss

            self._faiss = faiss.IndexFlatIP(vectors.shape[1])
            for first in range(0, len(vectors), _BLOCK):
                self._faiss.add(np.asarray(vectors[first : first + _BLOCK], np.float32))

    # -- making one ---------------------------------------------------------------------------

    @classmethod
    def in_memory(
        cls,
        docs: Iterable[Row],
        encoder: Encoder | str | os.PathLike[str],
        *,
        engine: str = "auto",
        source: str = "corpus",
    ) -> DenseIndex:
        """Encode documents and keep everything in memory.

        Args:
            docs: as for `Bm25Index.in_memory`.
            encoder: an encoder, or what `load_encoder` takes.
            engine: "faiss", "numpy", or "auto" (FAISS if installed).
            source: name of the corpus, for errors.
        """
        loaded = _encoder(encoder)
        vectors: list[Array] = []

        def analyse(chunk: Chunk) -> None:
            vectors.append(_encode(chunk, loaded))

        stored, _, rank, digest = store_in_memory(docs, source, analyse, store_text=True)
        meta = {"source": digest, "model": loaded.name, "text": True}
        return cls(np.concatenate(vectors), stored, rank, loaded, meta, engine=engine)

    @classmethod
    def build(
        cls,
        docs: Iterable[Row],
        path: str | os.PathLike[str],
        encoder: Encoder | str | os.PathLike[str],
        *,
        dtype: str = "float32",
        engine: str = "auto",
        store_text: bool = True,
        progress: bool = True,
        source: str = "corpus",
        total: int | None = None,
    ) -> DenseIndex:
        """Encode documents into a folder, and open it.

        As with `Bm25Index.build`, the folder appears when it is complete, and a build that was
        interrupted takes up its work.

        Args:
            docs, path, store_text, progress, source, total: as for `Bm25Index.build`.
            encoder, engine: as for `in_memory`.
            dtype: of the stored vectors: "float32", or "float16" at half the size.
        """
        encoder = _encoder(encoder)
        if dtype not in ("float32", "float16"):
            raise ValueError(f"dtype is 'float32' or 'float16'; got {dtype!r}")
        from .build import started

        key = {"model": encoder.name, "dimension": encoder.dimension, "dtype": dtype}
        with started(Path(path), "agentr1-dense", key, progress=progress, total=total) as build:

            def analyse(file: Path, chunk: Chunk) -> None:
                partial = file.with_suffix(f".{os.getpid()}.part")
                with partial.open("wb") as handle:
                    np.savez(handle, vectors=_encode(chunk, encoder).astype(dtype))
                os.replace(partial, file)

            meta = build.read(docs, source, analyse, store_text=store_text)
            size = meta["documents"] * encoder.dimension
            vectors = build.folder.allocate("vectors", dtype, size)
            start = 0
            for file in build.files:
                with np.load(file, allow_pickle=False) as data:
                    part = data["vectors"].ravel()
                vectors[start : start + len(part)] = part
                start += len(part)
            build.publish({**key, **meta})
        return cls.open(path, encoder, engine=engine)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        encoder: Encoder | str | os.PathLike[str] | None = None,
        *,
        engine: str = "auto",
        source: str | None = None,
    ) -> DenseIndex:
        """Map the index in a folder.

        Args:
            path: the folder.
            encoder: the encoder; None loads the one that the index names.
            engine: as for `in_memory`.
            source: the hash that the indexed corpus must have, if known.

        Raises:
            TaskDataError: there is no index, it is damaged, of another corpus or another encoder.
        """
        folder = Path(path)
        meta = store.read_meta(folder, "agentr1-dense")
        store.check_source(folder, meta["source"], source)
        arrays = store.open_arrays(folder, meta)
        loaded = _encoder(meta["model"] if encoder is None else encoder)
        if loaded.dimension != meta["dimension"]:
            raise store.TaskDataError(
                str(folder),
                f"an encoder of {meta['dimension']} dimensions ({meta['model']})",
                field="dimension",
                value=loaded.dimension,
            )
        return cls(
            arrays["vectors"].reshape(-1, meta["dimension"]),
            StoredDocuments(arrays["documents"], arrays["document_ends"]),
            arrays.get("rank"),
            loaded,
            meta,
            engine=engine,
        )

    # -- searching ----------------------------------------------------------------------------

    def search(self, query: str, k: int = 5, allow: Allow | None = None) -> list[Passage]:
        """The best k passages; `allow` as for `Bm25Index.top`. An empty query finds nothing."""
        return self.search_batch([query], k, allow)[0]

    def search_batch(
        self, queries: Sequence[str], k: int = 5, allow: Allow | None = None
    ) -> list[list[Passage]]:
        """`search` for each query, in order; encoded and scored together."""
        for query in queries:
            check_query(query, k)
        asked = [i for i, query in enumerate(queries) if query.strip()]
        results: list[list[Passage]] = [[] for _ in queries]
        if asked:
            vectors = self.encoder.encode([encodable(queries[i]) for i in asked], query=True)
            mask = None if allow is None else allowed_mask(allow, self.documents)
            k = min(k, self.documents)
            for i, (numbers, scores) in zip(asked, self._top(vectors, k, mask), strict=True):
                results[i] = [
                    Passage(*self._stored.get(number), score)
                    for number, score in zip(numbers.tolist(), scores.tolist(), strict=True)
                ]
        return results

    def _top(
        self, queries: npt.NDArray[np.float32], k: int, mask: npt.NDArray[np.bool_] | None
    ) -> Iterator[tuple[Array, Array]]:
        if self._faiss is not None and mask is None:
            with self._lock:
                # One more than k shows whether the last place is tied; then numpy decides by id.
                scores, numbers = self._faiss.search(queries, min(k + 1, self.documents))
            for row, (found, score) in enumerate(zip(numbers, scores, strict=True)):
                if len(found) > k and score[k] == score[k - 1]:
                    yield from self._scan(queries[row : row + 1], k, None)
                else:
                    yield self._ordered(found[:k], score[:k], k)
            return
        yield from self._scan(queries, k, mask)

    def _scan(
        self, queries: npt.NDArray[np.float32], k: int, mask: npt.NDArray[np.bool_] | None
    ) -> Iterator[tuple[Array, Array]]:
        kept: list[tuple[list[Array], list[Array]]] = [([], []) for _ in queries]
        for first in range(0, self.documents, _BLOCK):
            block = np.asarray(self._vectors[first : first + _BLOCK], np.float32)
            scores = queries @ block.T
            rows = None if mask is None else np.flatnonzero(mask[first : first + _BLOCK])
            for (numbers, values), score in zip(kept, scores, strict=True):
                chosen = np.arange(len(score)) if rows is None else rows
                score = score if rows is None else score[rows]
                if len(score) > k:
                    place = np.flatnonzero(score >= np.partition(score, -k)[-k])
                    chosen, score = chosen[place], score[place]
                numbers.append(chosen + first)
                values.append(score)
        for numbers, values in kept:
            yield self._ordered(np.concatenate(numbers), np.concatenate(values), k)

    def _ordered(self, numbers: Array, scores: Array, k: int) -> tuple[Array, Array]:
        ties = numbers if self._rank is None else self._rank[numbers]
        order = np.lexsort((ties, -scores))[:k]
        return numbers[order], scores[order]

    def __len__(self) -> int:
        return self.documents

    def __repr__(self) -> str:
        return f"DenseIndex({self.documents:,} documents, {self.encoder.name})"


def _encoder(encoder: Encoder | str | os.PathLike[str]) -> Encoder:
    return load_encoder(encoder) if isinstance(encoder, str | os.PathLike) else encoder


def _encode(chunk: Chunk, encoder: Encoder) -> npt.NDArray[np.float32]:
    return encoder.encode(list(map(encodable, split_indexed(*chunk.indexed))), query=False)
