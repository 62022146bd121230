"""Lucene-exact BM25 over memory or memory-mapped files."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import EnvironmentFault
from . import scoring, store
from .analyzer import TermEncoder, analyze
from .base import Allow, Passage, Retriever, allowed_mask, check_query
from .documents import Chunk, Row, StoredDocuments, ends_of, split_indexed, store_in_memory
from .segments import Array, Postings, Segment, make_segment, merge
from .topk import Accumulators, top_k

_shared: dict[Path, tuple[int, Bm25Index]] = {}
_shared_lock = threading.Lock()


class Terms(Sequence[bytes]):
    """The vocabulary in ascending order, read from one block."""

    def __init__(self, block: Array, starts: Array) -> None:
        self.block, self.starts = block, starts

    @classmethod
    def of(cls, terms: list[bytes]) -> Terms:
        """Pack a list of terms."""
        sizes = np.fromiter(map(len, terms), np.uint64, len(terms))
        return cls(np.frombuffer(b"".join(terms), np.uint8), ends_of(sizes))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, i: Any) -> Any:
        return self.block[int(self.starts[i]) : int(self.starts[i + 1])].tobytes()

    def find(self, term: str) -> int:
        """The number of a term; -1 if no document has it."""
        key = term.encode("utf-8", "surrogatepass")
        i = bisect_left(self, key)
        return i if i < len(self) and self[i] == key else -1


class Bm25Index(Retriever):
    """A BM25 index that ranks as Lucene does: same analysis, same arithmetic, ties by id.

    Make one with `in_memory`, `build` or `open`; `open_shared` gives one object for each index
    and process. Searching is exact, works from any thread, and an index on disk is mapped, so that
    processes share its pages.

    Attributes:
        documents: the number of documents; they are numbered from 0 in the order of the corpus.
        source: hash of what was indexed (hexadecimal).
    """

    def __init__(
        self,
        postings: Postings,
        terms: Terms,
        stored: StoredDocuments,
        by_id: Array | None,
        rank: Array | None,
        meta: dict[str, Any],
    ) -> None:
        self._postings, self._terms, self._stored = postings, terms, stored
        self._by_id, self._rank = by_id, rank
        self.meta = meta
        self.documents = postings.documents
        self.source: str = meta["source"]
        self.path: Path | None = None
        self._setup()

    def _setup(self) -> None:
        self._accumulators = Accumulators()
        self._term_number = lru_cache(65_536)(self._terms.find)

    # -- making one ---------------------------------------------------------------------------

    @classmethod
    def in_memory(
        cls,
        docs: Iterable[Row],
        *,
        k1: float = scoring.K1,
        b: float = scoring.B,
        store_text: bool = True,
        source: str = "corpus",
    ) -> Bm25Index:
        """Index documents in memory: the right form for up to some ten thousand.

        Args:
            docs: (id, title, text), (id, title, text, contents), `Document` or mappings.
            k1, b: BM25's parameters.
            store_text: keep titles and texts; else passages have empty ones.
            source: name of the corpus, for errors.

        Raises:
            TaskDataError: the corpus is empty, or a document is not as it should be.
        """
        encoder = TermEncoder()
        segments: list[Segment] = []

        def analyse(chunk: Chunk) -> None:
            segments.append(make_segment(split_indexed(*chunk.indexed), encoder))

        stored, by_id, rank, digest = store_in_memory(docs, source, analyse, store_text=store_text)
        postings, terms = merge(
            [partial(_identity, segment) for segment in segments],
            lambda name, kind, size: np.empty(size, kind),
            k1=k1,
            b=b,
        )
        meta = {"k1": k1, "b": b, "source": digest, "text": store_text}
        return cls(postings, Terms.of(terms), stored, by_id, rank, meta)

    @classmethod
    def build(
        cls,
        docs: Iterable[Row],
        path: str | os.PathLike[str],
        *,
        k1: float = scoring.K1,
        b: float = scoring.B,
        store_text: bool = True,
        workers: int | None = None,
        progress: bool = True,
        source: str = "corpus",
        total: int | None = None,
    ) -> Bm25Index:
        """Index documents into a folder, and open it.

        The folder appears when it is complete. A build that was interrupted, in whatever way,
        takes up its work when it is called again with the same documents.

        Args:
            docs: as for `in_memory`; read once, in order, never held as a whole.
            path: the folder to make; an index that is there already is replaced at the end.
            k1, b, store_text, source: as for `in_memory`.
            workers: processes that analyse text; None takes one for each core, at most 8.
            progress: show a progress bar.
            total: number of documents, if known, for the progress bar.

        Raises:
            TaskDataError: the corpus is empty, or a document is not as it should be.
            EnvironmentFault: a worker died, or something that is no index is at the path.
        """
        from .build import build_bm25

        build_bm25(
            docs,
            Path(path),
            k1=k1,
            b=b,
            workers=workers,
            store_text=store_text,
            progress=progress,
            source=source,
            total=total,
        )
        return cls.open(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, source: str | None = None) -> Bm25Index:
        """Map the index in a folder.

        Args:
            path: the folder.
            source: the hash that the indexed corpus must have (`Bm25Index.source`), if known.

        Raises:
            TaskDataError: there is no index, it is damaged, or it is one of another corpus.
        """
        folder = Path(path)
        meta = store.read_meta(folder, "agentr1-bm25")
        store.check_source(folder, meta["source"], source)
        arrays = store.open_arrays(folder, meta)
        postings = Postings(
            meta["documents"],
            meta["nonempty"],
            meta["mean_length"],
            *(arrays[name] for name in ("starts", "docs", "codes", "top_code", "values")),
        )
        index = cls(
            postings,
            Terms(arrays["terms"], arrays["term_starts"]),
            StoredDocuments(arrays["documents"], arrays["document_ends"]),
            arrays.get("by_id"),
            arrays.get("rank"),
            meta,
        )
        index.path = folder.resolve()
        return index

    @classmethod
    def open_shared(cls, path: str | os.PathLike[str], *, source: str | None = None) -> Bm25Index:
        """`open`, but one object for each index and process; a rebuilt index is opened anew."""
        folder = Path(path).resolve()
        with _shared_lock:
            try:
                stamp = (folder / store.META).stat().st_mtime_ns
            except OSError:
                stamp = -1
            known = _shared.get(folder)
            if known is None or known[0] != stamp:
                known = _shared[folder] = (stamp, cls.open(folder))
        index = known[1]
        store.check_source(folder, index.source, source)
        return index

    # -- searching ----------------------------------------------------------------------------

    def top(
        self, query: str, k: int, allow: Allow | None = None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Numbers and scores of the best k documents, for callers that keep documents themselves.

        Args:
            query: any text.
            k: how many documents, at least 1.
            allow: which documents may be returned: a boolean mask [documents], an integer array
                of document numbers, or a function of a document number. Statistics (N, df,
                avgdl) stay those of the whole corpus.

        Returns:
            (numbers, scores), best first, equal scores in the order of ids.
        """
        check_query(query, k)
        counts = Counter(analyze(query))
        weights: list[tuple[int, np.float32]] = []
        for term, count in counts.items():
            number = self._term_number(term)
            if number >= 0:
                starts = self._postings.starts
                df = int(starts[number + 1]) - int(starts[number])
                weights.append(
                    (number, np.float32(count) * scoring.idf(df, self._postings.nonempty))
                )
        if not weights:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        if callable(allow):
            return self._top_where(weights, k, allow)
        return self._top(weights, k, None if allow is None else allowed_mask(allow, self.documents))

    def _top(
        self, weights: list[tuple[int, np.float32]], k: int, mask: npt.NDArray[np.bool_] | None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        try:
            return top_k(
                self._postings,
                weights,
                min(k, self.documents),
                rank=self._rank,
                accumulators=self._accumulators,
                allow=mask,
            )
        except IndexError as error:  # a number that no index of this size holds
            raise self._damaged(error) from None

    def _top_where(
        self, weights: list[tuple[int, np.float32]], k: int, allow: Callable[[int], bool]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        # A function is asked about the best documents only; look deeper until k are allowed.
        depth, kept, asked = 2 * k, np.empty(0, np.bool_), 0
        while True:
            numbers, scores = self._top(weights, depth, None)
            more = [bool(allow(number)) for number in numbers[asked:].tolist()]
            kept = np.concatenate([kept, np.array(more, np.bool_)])
            asked = len(numbers)
            if int(kept.sum()) >= k or asked < depth:
                return numbers[kept][:k], scores[kept][:k]
            depth *= 4

    def ids_and_scores(
        self, query: str, k: int = 5, allow: Allow | None = None
    ) -> list[tuple[str, float]]:
        """Ids and scores of the best k documents; arguments as for `top`."""
        numbers, scores = self.top(query, k, allow)
        return list(zip(map(self._stored.id, numbers.tolist()), scores.tolist(), strict=True))

    def search(self, query: str, k: int = 5, allow: Allow | None = None) -> list[Passage]:
        """The best k passages; arguments as for `top`."""
        numbers, scores = self.top(query, k, allow)
        try:
            return [
                Passage(*self._stored.get(number), score)
                for number, score in zip(numbers.tolist(), scores.tolist(), strict=True)
            ]
        except UnicodeDecodeError as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> EnvironmentFault:
        return EnvironmentFault(f"{self.path or 'index'}: damaged, build it again ({error})")

    def search_batch(
        self, queries: Sequence[str], k: int = 5, allow: Allow | None = None
    ) -> list[list[Passage]]:
        """`search` for each query, in order."""
        return [self.search(query, k, allow) for query in queries]

    # -- documents ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.documents

    def document_frequency(self, term: str) -> int:
        """How many documents have an index term (one that `analyze` gives)."""
        number = self._term_number(term)
        if number < 0:
            return 0
        first, end = self._postings.starts[number : number + 2].tolist()
        return int(end) - int(first)

    def id(self, number: int) -> str:
        """The id of a document."""
        return self._stored.id(range(self.documents)[number])

    def document(self, number: int) -> tuple[str, str, str]:
        """Id, title and text of a document."""
        return self._stored.get(range(self.documents)[number])

    def number(self, id_: str) -> int:
        """The number of the document with this id; -1 if there is none."""
        by_id = self._by_id
        numbers: Sequence[int] = range(self.documents) if by_id is None else by_id  # type: ignore
        i = bisect_left(numbers, id_, key=lambda n: self._stored.id(int(n)))
        if i < self.documents and self._stored.id(int(numbers[i])) == id_:
            return int(numbers[i])
        return -1

    def __reduce__(self) -> Any:
        # Another process maps the same files; only an index in memory travels as a whole.
        if self.path is not None:
            return (Bm25Index.open_shared, (str(self.path),))
        return (_revive, (self.__getstate__(),))

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k not in ("_accumulators", "_term_number")}

    def __repr__(self) -> str:
        return f"Bm25Index({self.documents:,} documents, {len(self._terms):,} terms)"


def _identity(segment: Segment) -> Segment:
    return segment


def _revive(state: dict[str, Any]) -> Bm25Index:
    index = Bm25Index.__new__(Bm25Index)
    vars(index).update(state)
    index._setup()
    return index
