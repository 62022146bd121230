"""Documents: checking what a caller supplies, reading corpus files, and storing them for reading.

A corpus file is JSON lines, one document each: `{"id": str, "title": str, "text": str}`. `title`
may be missing; `contents` (what to index instead of title and text) may be present. Rows in
Pyserini's form, `{"id", "contents"}`, are read as well.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..errors import TaskDataError
from .base import Document
from .segments import Array

Row = Document | tuple[Any, ...] | Mapping[str, Any]


def check_documents(rows: Iterable[Row], source: str = "corpus") -> Iterator[Document]:
    """Turn rows into documents, one at a time.

    Args:
        rows: Document, (id, title, text), (id, title, text, contents) or mappings.
        source: name of their origin, for errors.

    Raises:
        TaskDataError: a row has another form, has no text, or repeats an id.
    """
    seen: dict[str, int] = {}
    for number, row in enumerate(rows):
        if isinstance(row, Mapping):
            document = _from_mapping(row, source, number)
        elif isinstance(row, tuple | list) and len(row) in (3, 4):
            document = Document(*row)
        else:
            raise TaskDataError(source, "(id, title, text[, contents])", number, value=row)
        id_, title, text, contents = document
        for name, value in (("id", id_), ("title", title), ("text", text)):
            if not isinstance(value, str):
                raise TaskDataError(source, "a string", number, name, value)
        if contents is not None and not isinstance(contents, str):
            raise TaskDataError(source, "a string or null", number, "contents", contents)
        if not id_:
            raise TaskDataError(source, "an id that is not empty", number, "id", id_)
        if not text.strip() and not (contents and contents.strip()):
            raise TaskDataError(source, "text that is not empty", number, "text", text)
        if (first := seen.setdefault(id_, number)) != number:
            raise TaskDataError(
                source, f"ids that are unique; row {first} has the same", number, "id", id_
            )
        yield document


def _from_mapping(row: Mapping[str, Any], source: str, number: int) -> Document:
    for name in ("id", "_id", "docid"):
        if name in row:
            break
    else:
        raise TaskDataError(source, "a field 'id'", number, "id")
    contents = row.get("contents")
    text = row.get("text", contents)
    if text is None:
        raise TaskDataError(source, "a field 'text' (or 'contents')", number, "text")
    return Document(row[name], row.get("title") or "", text, contents if "text" in row else None)


class CorpusFile:
    """The rows of a JSON-lines corpus file; reading them also hashes the file.

    Raises:
        TaskDataError: the file is missing; a line is no JSON object (when it is reached).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise TaskDataError(str(path), "a corpus file (JSON lines); there is no such file")
        self._digest: str | None = None

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        digest = hashlib.blake2b(digest_size=16)
        source = str(self.path)
        with self.path.open("rb") as file:
            self._stat = os.fstat(file.fileno())
            for number, line in enumerate(file):
                digest.update(line)
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    text = line[:200].decode("utf-8", "replace")
                    raise TaskDataError(
                        source, f"a line of JSON ({error})", number, value=text
                    ) from None
                if not isinstance(row, dict):
                    raise TaskDataError(source, "a JSON object", number, value=row)
                yield row
        self._digest = digest.hexdigest()

    def identity(self) -> dict[str, Any]:
        """Name, size, time of change and hash of the file, as it was when it was last read."""
        if self._digest is None:
            raise RuntimeError("the corpus file has not been read to its end")
        return {
            "name": self.path.name,
            "size": self._stat.st_size,
            "mtime_ns": self._stat.st_mtime_ns,
            "hash": self._digest,
        }


def read_corpus(path: str | os.PathLike[str]) -> Iterator[Document]:
    """The documents of a JSON-lines corpus file, one at a time.

    Raises:
        TaskDataError: the file is missing, or a row is no document; names file, row and field.
    """
    return check_documents(CorpusFile(path), str(path))


class StoredDocuments:
    """Id, title and text of every document, read from one block of UTF-8.

    Args:
        block: uint8 array (memory or a mapped file): id, title, text of each document in turn.
        ends: [3 * documents + 1] where each string starts; the last entry is the block's size.
    """

    def __init__(self, block: Array, ends: Array) -> None:
        self.block, self.ends = block, ends

    def __len__(self) -> int:
        return (len(self.ends) - 1) // 3

    def _text(self, i: int) -> str:
        start, end = self.ends[i : i + 2].tolist()
        return self.block[start:end].tobytes().decode("utf-8", "surrogatepass")

    def id(self, number: int) -> str:
        """The id of a document."""
        return self._text(3 * number)

    def get(self, number: int) -> tuple[str, str, str]:
        """Id, title and text of a document."""
        i = 3 * number
        a, b, c, d = self.ends[i : i + 4].tolist()
        block = self.block[a:d].tobytes()
        return (
            block[: b - a].decode("utf-8", "surrogatepass"),
            block[b - a : c - a].decode("utf-8", "surrogatepass"),
            block[c - a :].decode("utf-8", "surrogatepass"),
        )


@dataclass
class Chunk:
    """A run of documents in the form in which it is stored, hashed and analysed."""

    documents: list[Document]

    CHARS: ClassVar[int] = 16_000_000
    DOCUMENTS: ClassVar[int] = 32_768

    @property
    def ids(self) -> list[str]:
        """The ids, in order."""
        return [document.id for document in self.documents]

    def pack(self, *, store_text: bool = True) -> tuple[bytes, Array]:
        """Ids, titles and texts as one block of UTF-8, and the size of each string in bytes."""
        if store_text:
            return self._whole
        parts = [part for one in self.ids for part in (_encode(one), b"", b"")]
        return b"".join(parts), np.fromiter(map(len, parts), np.uint64, len(parts))

    @cached_property
    def _whole(self) -> tuple[bytes, Array]:
        parts = [_encode(part) for document in self.documents for part in document[:3]]
        return b"".join(parts), np.fromiter(map(len, parts), np.uint64, len(parts))

    @cached_property
    def indexed(self) -> tuple[bytes, Array]:
        """What is indexed, joined, as UTF-8, and the size of each text in characters."""
        texts = [document.indexed for document in self.documents]
        sizes = np.fromiter(map(len, texts), np.uint64, len(texts))
        return _encode("".join(texts)), sizes

    def digest(self) -> bytes:
        """Hash of ids, titles, texts and what is indexed."""
        digest = hashlib.blake2b(digest_size=16)
        for block, sizes in (self.pack(), self.indexed):
            digest.update(sizes.tobytes())
            digest.update(block)
        return digest.digest()


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def chunks(documents: Iterable[Document]) -> Iterator[Chunk]:
    """Cut a corpus into runs; the cuts depend on the documents only."""
    run: list[Document] = []
    size = 0
    for document in documents:
        run.append(document)
        size += len(document.text)
        if len(run) == Chunk.DOCUMENTS or size >= Chunk.CHARS:
            yield Chunk(run)
            run, size = [], 0
    if run:
        yield Chunk(run)


def split_indexed(block: bytes, sizes: Array) -> Iterator[str]:
    """The texts that `Chunk.indexed` joined."""
    joined = block.decode("utf-8", "surrogatepass")
    start = 0
    for size in sizes.tolist():
        yield joined[start : start + size]
        start += size


def id_order(ids: list[str]) -> tuple[Array | None, Array | None]:
    """(document numbers in the order of their ids, rank of each document); None, None if sorted."""
    if all(a < b for a, b in pairwise(ids)):
        return None, None
    by_id = np.array(sorted(range(len(ids)), key=ids.__getitem__), np.uint32)
    rank = np.empty(len(ids), np.uint32)
    rank[by_id] = np.arange(len(ids), dtype=np.uint32)
    return by_id, rank


def store_in_memory(
    docs: Iterable[Row], source: str, analyse: Callable[[Chunk], None], *, store_text: bool
) -> tuple[StoredDocuments, Array | None, Array | None, str]:
    """Store a corpus in memory and have each run of its documents analysed.

    Returns:
        The documents, what `id_order` gives, and the hash of the corpus.

    Raises:
        TaskDataError: the corpus is empty, or a document is not as it should be.
    """
    digest = hashlib.blake2b(digest_size=16)
    blocks: list[bytes] = []
    sizes: list[Array] = []
    ids: list[str] = []
    for chunk in chunks(check_documents(docs, source)):
        digest.update(chunk.digest())
        analyse(chunk)
        block, size = chunk.pack(store_text=store_text)
        blocks.append(block)
        sizes.append(size)
        ids += chunk.ids
    check_not_empty(len(ids), source)
    whole = np.frombuffer(b"".join(blocks), np.uint8)
    by_id, rank = id_order(ids)
    return StoredDocuments(whole, ends_of(np.concatenate(sizes))), by_id, rank, digest.hexdigest()


def ends_of(sizes: Array) -> Array:
    """Where each of some strings starts when they are joined, and where the last one ends."""
    ends = np.zeros(len(sizes) + 1, np.uint64)
    np.cumsum(sizes, out=ends[1:])
    return ends


def check_not_empty(documents: int, source: str) -> None:
    """Raise TaskDataError for a corpus without documents."""
    if not documents:
        raise TaskDataError(source, "at least one document")
