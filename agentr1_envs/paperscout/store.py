"""Papers and citations in one folder, memory-mapped: opened at once, shared by all processes.

The folder holds ``papers.jsonl`` (one paper a line, by date), offsets into it, dates, identifiers
with their rows, and the citations in both directions as compressed rows: the papers that row ``i``
cites are ``refs[refs_start[i] : refs_start[i + 1]]``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agentr1_envs.errors import TaskDataError
from agentr1_envs.paperscout.papers import Paper, base_id

FORMAT = "agentr1-papers"
VERSION = 1
_ARRAYS = (
    "offsets", "dates", "ids", "id_rows", "refs_start", "refs", "cited_start", "cited",
)  # fmt: skip


def write_papers(
    folder: str | os.PathLike[str],
    papers: Sequence[Paper],
    references: Sequence[Sequence[int]],
    progress: Callable[[int], None] | None = None,
) -> str:
    """Writes papers and citations into an existing folder; returns the hash of their content.

    Args:
        papers: in the order of their dates; identifiers unique.
        references: for each paper the positions, in ``papers``, of those it cites, in its order.
        progress: told the number of papers written so far.
    """
    path = Path(folder)
    count = len(papers)
    digest = hashlib.blake2b(digest_size=16)
    offsets = np.zeros(count + 1, np.int64)
    with open(path / "papers.jsonl", "wb") as handle:
        for row, paper in enumerate(papers):
            record = [paper.id, paper.title, paper.abstract, list(paper.authors), paper.date]
            line = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
            handle.write(line)
            digest.update(line)
            offsets[row + 1] = offsets[row] + len(line)
            if progress is not None and (row + 1) % 1000 == 0:
                progress(row + 1)
    lengths = np.fromiter((len(r) for r in references), np.int64, count)
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    flat = np.fromiter((r for row in references for r in row), np.int32, int(starts[-1]))
    digest.update(starts.tobytes())
    digest.update(flat.tobytes())
    cited_start, cited = _transposed(starts, flat, count)
    identifiers = np.array([paper.id.encode() for paper in papers])
    order = np.argsort(identifiers, kind="stable").astype(np.int32)
    arrays: dict[str, npt.NDArray[Any]] = {
        "offsets": offsets,
        "dates": np.fromiter((paper.date for paper in papers), np.int32, count),
        "ids": identifiers[order],
        "id_rows": order,
        "refs_start": starts,
        "refs": flat,
        "cited_start": cited_start,
        "cited": cited,
    }
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array, allow_pickle=False)
    meta: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "papers": count,
        "citations": len(flat),
        "hash": digest.hexdigest(),
    }
    (path / "papers.json").write_text(json.dumps(meta, indent=1) + "\n")
    if progress is not None:
        progress(count)
    return meta["hash"]


def _transposed(
    starts: npt.NDArray[np.int64], flat: npt.NDArray[np.int32], count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """The citations the other way round; citing papers in their order, which is that of dates."""
    citing = np.repeat(np.arange(count, dtype=np.int32), np.diff(starts))
    back = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(flat, minlength=count), out=back[1:])
    return back, citing[np.argsort(flat, kind="stable")]


def set_index_source(folder: Path, source: str) -> None:
    """Notes which index was made of the papers of a folder."""
    meta = {**_read_meta(folder), "index": source}
    (folder / "papers.json").write_text(json.dumps(meta, indent=1) + "\n")


class PaperStore:
    """The papers of a folder, by row.

    Raises:
        TaskDataError: the folder holds no such store, or one whose files do not fit together.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        source = str(self.folder)
        meta = _read_meta(self.folder)
        self.count: int = meta["papers"]
        self.citations: int = meta["citations"]
        self.hash: str = meta["hash"]
        self.index_source: str = meta.get("index", "")
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        for name in _ARRAYS:
            file = self.folder / f"{name}.npy"
            try:
                self._arrays[name] = np.load(file, mmap_mode="r", allow_pickle=False).view(
                    np.ndarray
                )
            except (OSError, ValueError) as error:
                raise TaskDataError(
                    source, f"a readable array file ({error})", field=file.name
                ) from None
        expected = {
            "offsets": self.count + 1,
            "dates": self.count,
            "ids": self.count,
            "id_rows": self.count,
            "refs_start": self.count + 1,
            "refs": meta["citations"],
            "cited_start": self.count + 1,
            "cited": meta["citations"],
        }
        for name, length in expected.items():
            if self._arrays[name].shape != (length,):
                shape = self._arrays[name].shape
                raise TaskDataError(source, f"{length} entries", field=f"{name}.npy", value=shape)
        texts = self.folder / "papers.jsonl"
        size = int(self._arrays["offsets"][-1])
        if not texts.is_file() or texts.stat().st_size != size:
            got = texts.stat().st_size if texts.is_file() else "no file"
            raise TaskDataError(source, f"{size} bytes", field="papers.jsonl", value=got)
        self._texts: npt.NDArray[np.uint8] = np.memmap(texts, np.uint8, "r").view(np.ndarray)
        self._width = self._arrays["ids"].dtype.itemsize

    def __len__(self) -> int:
        return self.count

    def row_of(self, identifier: str) -> int:
        """The row of an identifier (any version), -1 when unknown."""
        key = base_id(identifier).encode("utf-8", "replace")
        if len(key) > self._width:
            return -1
        ids = self._arrays["ids"]
        # Of the array's own type: searchsorted would convert the whole array to another one.
        place = int(ids.searchsorted(np.array(key, ids.dtype)))
        if place < self.count and ids[place] == key:
            return int(self._arrays["id_rows"][place])
        return -1

    def read(self, row: int) -> Paper:
        """A new object for the paper of a row."""
        offsets = self._arrays["offsets"]
        line = self._texts[offsets[row] : offsets[row + 1]].tobytes()
        identifier, title, abstract, authors, date = json.loads(line)
        return Paper(identifier, title, abstract, tuple(authors), date, row)

    def rows_before(self, date: int) -> int:
        """How many papers are dated earlier: as rows are in date order, they are the first."""
        dates = self._arrays["dates"]
        limits = np.iinfo(dates.dtype)
        # Of the array's own type: searchsorted would convert the whole array to another one.
        return int(dates.searchsorted(dates.dtype.type(min(max(date, limits.min), limits.max))))

    def references(self, row: int, limit: int | None = None) -> list[int]:
        """Rows that a row cites, in its order."""
        return self._linked("refs", row, limit)

    def cited_by(self, row: int, limit: int | None = None) -> list[int]:
        """Rows that cite a row, earliest first."""
        return self._linked("cited", row, limit)

    def _linked(self, name: str, row: int, limit: int | None) -> list[int]:
        first, end = self._arrays[f"{name}_start"][row : row + 2].tolist()
        if limit is not None:
            end = min(end, first + limit)
        return self._arrays[name][first:end].tolist()


def _read_meta(folder: Path) -> dict[str, Any]:
    file = folder / "papers.json"
    try:
        meta = json.loads(file.read_text())
    except FileNotFoundError:
        raise TaskDataError(
            str(folder), "a folder made by `agentr1 prepare paperscout`", field="papers.json",
            value="no file",
        ) from None  # fmt: skip
    except (OSError, ValueError) as error:
        raise TaskDataError(str(folder), f"JSON ({error})", field="papers.json") from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise TaskDataError(str(folder), f'"format": "{FORMAT}"', field="papers.json", value=meta)
    if meta.get("version") != VERSION:
        raise TaskDataError(
            str(folder), f"version {VERSION}", field="papers.json", value=meta.get("version")
        )
    for name, kind in (("papers", int), ("citations", int), ("hash", str)):
        if not isinstance(meta.get(name), kind):
            raise TaskDataError(
                str(folder), f"{name}: {kind.__name__}", field="papers.json", value=meta.get(name)
            )
    return meta
