"""Building an index on disk: parallel, resumable, atomic.

The corpus is cut into runs of documents. Each becomes a segment file named by the hash of the run,
so a build that was cut off finds again what it had done; the segments are merged into the
index's arrays, and the folder is renamed to its final name.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from . import store
from .analyzer import ANALYZER_VERSION
from .documents import Row, check_documents, check_not_empty, chunks, ends_of, id_order
from .segments import Array, Segment, merge
from .workers import Analysers


def _prepare(building: Path) -> Path:
    """The folder of segments; segments of another version are removed."""
    segments = building / "segments"
    key = {"version": store.VERSION, "analyzer": ANALYZER_VERSION}
    key_path = building / "key.json"
    try:
        known = json.loads(key_path.read_bytes())
    except (OSError, ValueError):
        known = None
    if known != key:
        shutil.rmtree(building, ignore_errors=True)
        segments.mkdir(parents=True)
        key_path.write_text(json.dumps(key))
    segments.mkdir(exist_ok=True)
    return segments


def _load(path: Path) -> Segment:
    with path.open("rb") as file:
        return Segment.load(file)


def build_index(
    docs: Iterable[Row],
    path: Path,
    *,
    k1: float,
    b: float,
    store_text: bool,
    workers: int | None,
    progress: bool,
    source: str,
    total: int | None,
    corpus: dict[str, Any] | None = None,
) -> None:
    """See `Bm25Index.build`; `corpus` (where the documents are from) is kept in meta.json."""
    if workers is None:
        workers = min(os.cpu_count() or 1, 8)
    path = Path(os.path.abspath(path))
    with store.build_lock(path), _Progress(progress, total) as bar:
        building = path.with_name(path.name + ".building")
        segments = _prepare(building)
        folder = store.ArrayFolder(building)
        digest = hashlib.blake2b(digest_size=16)
        files: list[Path] = []
        sizes: list[Array] = []
        ids: list[str] = []
        with (
            folder.path("documents").open("wb") as stored,
            Analysers(workers) as analysers,
        ):
            for chunk in chunks(check_documents(docs, source)):
                key = chunk.digest()
                digest.update(key)
                block, size = chunk.pack(store_text=store_text)
                stored.write(block)
                sizes.append(size)
                ids += chunk.ids
                files.append(segments / f"{len(files):06d}-{key.hex()}.npz")
                if not files[-1].is_file():
                    analysers.submit(files[-1], *chunk.indexed())
                bar.documents(len(ids))
            stored_bytes = stored.tell()
        check_not_empty(len(ids), source)
        bar.merging(len(files))
        postings, terms = merge(
            [partial(_load, file) for file in files],
            folder.allocate,
            k1=k1,
            b=b,
            progress=bar.merged,
        )
        folder.arrays["documents"] = ["uint8", stored_bytes]
        folder.write("document_ends", ends_of(np.concatenate(sizes)))
        del sizes
        by_id, rank = id_order(ids)
        if by_id is not None and rank is not None:
            folder.write("by_id", by_id)
            folder.write("rank", rank)
        folder.write("terms", np.frombuffer(b"".join(terms), np.uint8))
        folder.write("term_starts", ends_of(np.fromiter(map(len, terms), np.uint64, len(terms))))
        folder.finish(
            {
                "k1": k1,
                "b": b,
                "documents": postings.documents,
                "nonempty": postings.nonempty,
                "mean_length": postings.mean_length,
                "text": store_text,
                "source": digest.hexdigest(),
                "corpus": corpus,
            }
        )
        shutil.rmtree(segments)
        (building / "key.json").unlink()
        store.publish(building, path)


class _Progress:
    """A progress bar of documents read, then of segments merged; silent when not wanted."""

    def __init__(self, wanted: bool, total: int | None) -> None:
        self.bar: Any = None
        self.total = total
        if wanted:
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
            )

    def __enter__(self) -> _Progress:
        if self.bar is not None:
            self.bar.start()
            self.task = self.bar.add_task("indexing documents", total=self.total)
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def documents(self, done: int) -> None:
        if self.bar is not None:
            self.bar.update(self.task, completed=done)

    def merging(self, total: int) -> None:
        if self.bar is not None:
            self.task = self.bar.add_task("merging segments", total=total)

    merged = documents
