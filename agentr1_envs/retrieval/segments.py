"""Inverted lists: from texts to segments, from segments to one index.

A segment is the inverted form of a run of documents and does not depend on any other document, so
segments can be made in parallel, kept, and merged when all are there. A posting is a document
number and a code; the code stands for a pair (term frequency, quantised length), and after the
merge codes are ordered by what such a pair scores: a list's highest code bounds its scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import scoring
from .analyzer import TermEncoder

Array = npt.NDArray[Any]
Allocate = Callable[[str, Any, int], Array]


@dataclass(slots=True)
class Segment:
    """The inverted form of `documents` consecutive documents.

    Attributes:
        documents: how many documents.
        terms: the terms as UTF-8, in any order, joined by line breaks.
        df: [T] number of documents of each term.
        docs: [P] document numbers within the segment, ascending within a term.
        codes: [P] index into `pairs`.
        pairs: [C, 2] term frequency and quantised length.
        lengths: [documents] number of terms of each document.
    """

    documents: int
    terms: bytes
    df: Array
    docs: Array
    codes: Array
    pairs: Array
    lengths: Array

    def save(self, file: Any) -> None:
        """Write to an open binary file."""
        terms = np.frombuffer(self.terms, np.uint8)
        np.savez(
            file,
            terms=terms,
            df=self.df,
            docs=self.docs,
            codes=self.codes,
            pairs=self.pairs,
            lengths=self.lengths,
        )

    @classmethod
    def load(cls, file: Any) -> Segment:
        """Read what `save` wrote; never unpickles."""
        with np.load(file, allow_pickle=False) as data:
            return cls(
                documents=len(data["lengths"]),
                terms=data["terms"].tobytes(),
                df=data["df"],
                docs=data["docs"],
                codes=data["codes"],
                pairs=data["pairs"],
                lengths=data["lengths"],
            )


def smallest_unsigned(top: int) -> type[np.unsignedinteger[Any]]:
    """The smallest unsigned type that holds 0..top."""
    for kind in (np.uint8, np.uint16, np.uint32):
        if top <= np.iinfo(kind).max:
            return kind
    return np.uint64


def make_segment(texts: Iterable[str], encoder: TermEncoder | None = None) -> Segment:
    """Analyse texts and invert them. An encoder kept between calls saves repeated stemming."""
    encoder = encoder or TermEncoder()
    encoder.forget_if_large()
    listed = list(texts)
    count = len(listed)
    tokens, docs = encoder.encode(listed)
    kept = tokens >= 0
    tokens, docs = tokens[kept], docs[kept]
    lengths = np.bincount(docs, minlength=count).astype(np.uint32)

    used = np.flatnonzero(np.bincount(tokens, minlength=1)) if len(tokens) else tokens
    local = np.zeros(int(used[-1]) + 1 if len(used) else 1, np.int64)
    local[used] = np.arange(len(used))

    keys = local[tokens] * max(count, 1) + docs
    keys.sort()
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    tf = np.diff(first, append=len(keys))
    keys = keys[first]
    term, doc = np.divmod(keys, max(count, 1))
    pair = (tf << 8) | scoring.quantise(lengths)[doc]
    distinct, codes = _distinct(pair)
    return Segment(
        documents=count,
        terms=b"\n".join(map(encoder.names.__getitem__, used.tolist())),
        df=np.bincount(term, minlength=len(used)).astype(np.uint32),
        docs=doc.astype(np.uint32),
        codes=codes.astype(smallest_unsigned(len(distinct))),
        pairs=np.stack([distinct >> 8, distinct & 255], axis=1),
        lengths=lengths,
    )


def _distinct(values: Array) -> tuple[Array, Array]:
    """np.unique with inverse, by table where the values are small."""
    top = int(values.max(initial=0))
    if top >= 1 << 24:
        distinct, inverse = np.unique(values, return_inverse=True)
        return distinct, inverse
    table = np.zeros(top + 1, np.uint32)
    table[values] = 1
    distinct = np.flatnonzero(table)[: len(values)]
    table[distinct] = np.arange(len(distinct), dtype=np.uint32)
    return distinct, table[values]


@dataclass(slots=True)
class Postings:
    """A merged inverted index, in memory or mapped.

    Attributes:
        documents: number of documents.
        nonempty: number of documents with at least one term (BM25's N).
        mean_length: mean length of those, in terms (avgdl).
        starts: [T + 1] where each term's list starts.
        docs: [P] document numbers, ascending within a term.
        codes: [P] index into `values`; a higher code scores at least as much.
        top_code: [T] highest code of each term.
        values: [C] tf / (tf + norm) of each code, ascending, float32.
    """

    documents: int
    nonempty: int
    mean_length: float
    starts: Array
    docs: Array
    codes: Array
    top_code: Array
    values: Array


def merge(
    load: Sequence[Callable[[], Segment]],
    allocate: Allocate,
    *,
    k1: float,
    b: float,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[Postings, list[bytes]]:
    """Merge segments, in order, into one index.

    Args:
        load: one function for each segment; each is called twice.
        allocate: gives the array for a name, a type and a size (memory or a mapped file).
        k1, b: BM25's parameters.
        progress: called with the number of segments done.

    Returns:
        The postings, and the terms as UTF-8, ascending.
    """
    known: dict[bytes, int] = {}
    numbers: list[Array] = []
    df = np.zeros(1024, np.int64)
    pairs: set[tuple[int, int]] = set()
    documents = nonempty = tokens = 0
    for get in load:
        segment = get()
        terms = segment.terms.split(b"\n") if segment.terms else []
        number = np.fromiter(
            (known.setdefault(term, len(known)) for term in terms), np.int64, len(terms)
        )
        if len(known) > len(df):
            df = np.concatenate([df, np.zeros(max(len(known) - len(df), len(df)), np.int64)])
        df[number] += segment.df
        numbers.append(number.astype(np.uint32))
        pairs.update(map(tuple, segment.pairs.tolist()))
        documents += segment.documents
        nonempty += int(np.count_nonzero(segment.lengths))
        tokens += int(segment.lengths.sum(dtype=np.int64))
    mean_length = tokens / nonempty if nonempty else 1.0

    names = list(known)
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    starts = allocate("starts", np.uint64, len(names) + 1)
    starts[0] = 0
    np.cumsum(df[: len(names)][order], out=starts[1:], dtype=np.uint64)

    table, values = _rank_pairs(pairs, mean_length, k1, b)
    size = int(starts[-1])
    docs = allocate("docs", np.uint32, size)
    codes = allocate("codes", smallest_unsigned(len(values)), size)
    cursor = starts[:-1].astype(np.int64)
    base = 0
    for done, (get, number) in enumerate(zip(load, numbers, strict=True)):
        segment = get()
        term = rank[number]
        count = segment.df.astype(np.int64)
        ends = np.cumsum(count)
        place = np.repeat(cursor[term] - (ends - count), count)
        place += np.arange(len(place))
        docs[place] = segment.docs + np.uint32(base)
        translate = np.array([table[pair] for pair in map(tuple, segment.pairs.tolist())], np.int64)
        codes[place] = translate.astype(codes.dtype)[segment.codes]
        cursor[term] += count
        base += segment.documents
        progress(done + 1)
    top_code = allocate("top_code", codes.dtype, len(names))
    if size:
        top_code[:] = np.maximum.reduceat(codes, starts[:-1].astype(np.int64))
    kept_values = allocate("values", np.float32, len(values))
    kept_values[:] = values
    postings = Postings(
        documents, nonempty, mean_length, starts, docs, codes, top_code, kept_values
    )
    return postings, [names[i] for i in order]


def _rank_pairs(
    pairs: set[tuple[int, int]], mean_length: float, k1: float, b: float
) -> tuple[dict[tuple[int, int], int], Array]:
    """Give each (tf, length) pair its code: the rank of its value."""
    listed = sorted(pairs)
    both = np.array(listed, np.int64).reshape(-1, 2)
    values = scoring.saturation(both[:, 0], both[:, 1].astype(np.uint8), mean_length, k1, b)
    distinct, code = np.unique(values, return_inverse=True)
    return dict(zip(listed, code.tolist(), strict=True)), distinct
