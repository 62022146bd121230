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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from agentr1_envs.errors import TaskDataError

from . import store
from .documents import Chunk, Row, check_documents, check_not_empty, chunks, ends_of, id_order
from .segments import Array, Segment, merge
from .workers import Analysers


class Build:
    """A build in progress: the folder, and the part that all kinds of index share.

    Args:
        path: where the index will be.
        kind: its format.
        key: what a segment depends on besides its documents; segments made under another key are
            not taken up.
        progress: show a progress bar; `total` is the number of documents, if known.
    """

    def __init__(
        self, path: Path, kind: str, key: dict[str, Any], *, progress: bool, total: int | None
    ) -> None:
        self.path = path
        self.building = path.with_name(path.name + ".building")
        self.segments = self.building / "segments"
        self.bar = _Progress(progress, total)
        self.files: list[Path] = []
        self._prepare({"format": kind, **store.FORMATS[kind], **key})
        self.folder = store.ArrayFolder(self.building, kind)

    def _prepare(self, key: dict[str, Any]) -> None:
        key_path = self.building / "key.json"
        try:
            known = json.loads(key_path.read_bytes())
        except (OSError, ValueError):
            known = None
        if known != key:
            shutil.rmtree(self.building, ignore_errors=True)
            self.segments.mkdir(parents=True)
            key_path.write_text(json.dumps(key))
        self.segments.mkdir(exist_ok=True)

    def read(
        self,
        docs: Iterable[Row],
        source: str,
        analyse: Callable[[Path, Chunk], None],
        *,
        store_text: bool,
    ) -> dict[str, Any]:
        """Store all documents and have each run of them made into its segment file.

        Args:
            docs: the corpus.
            source: its name, for errors.
            analyse: makes the segment of a run; not called for segments that exist.
            store_text: keep titles and texts.

        Returns:
            What meta.json says of the corpus.
        """
        digest = hashlib.blake2b(digest_size=16)
        sizes: list[Array] = []
        ids: list[str] = []
        with self.folder.path("documents").open("wb") as stored:
            for chunk in chunks(check_documents(docs, source)):
                key = chunk.digest()
                digest.update(key)
                block, size = chunk.pack(store_text=store_text)
                stored.write(block)
                sizes.append(size)
                ids += chunk.ids
                self.files.append(self.segments / f"{len(self.files):06d}-{key.hex()}.npz")
                if not self.files[-1].is_file():
                    analyse(self.files[-1], chunk)
                self.bar.documents(len(ids))
            self.folder.arrays["documents"] = ["uint8", stored.tell()]
        check_not_empty(len(ids), source)
        self.folder.write("document_ends", ends_of(np.concatenate(sizes)))
        by_id, rank = id_order(ids)
        if by_id is not None and rank is not None:
            self.folder.write("by_id", by_id)
            self.folder.write("rank", rank)
        return {"documents": len(ids), "text": store_text, "source": digest.hexdigest()}

    def forget_if_empty(self) -> None:
        """Remove what was begun, unless it holds segments that the next build can take up."""
        if not any(self.segments.iterdir()):
            shutil.rmtree(self.building, ignore_errors=True)

    def publish(self, meta: dict[str, Any]) -> None:
        """Make the folder an index and put it in its place."""
        self.folder.finish(meta)
        shutil.rmtree(self.segments)
        (self.building / "key.json").unlink()
        store.publish(self.building, self.path)


@contextmanager
def started(
    path: Path, kind: str, key: dict[str, Any], *, progress: bool, total: int | None
) -> Iterator[Build]:
    """A build that holds the lock of its path and shows its progress."""
    path = Path(os.path.abspath(path))
    with store.build_lock(path):
        store.check_replaceable(path)
        store.remove_leftovers(path)
        build = Build(path, kind, key, progress=progress, total=total)
        try:
            with build.bar:
                yield build
        except TaskDataError:
            build.forget_if_empty()
            raise


def build_bm25(
    docs: Iterable[Row],
    path: Path,
    *,
    k1: float,
    b: float,
    workers: int | None,
    store_text: bool,
    progress: bool,
    source: str,
    total: int | None,
    corpus: Callable[[], dict[str, Any]] = dict,
) -> None:
    """See `Bm25Index.build`; `corpus` says where the documents are from, when all are read."""
    if workers is None:
        workers = min(os.cpu_count() or 1, 8)
    with started(path, "agentr1-bm25", {}, progress=progress, total=total) as build:
        with Analysers(workers) as analysers:

            def analyse(file: Path, chunk: Chunk) -> None:
                analysers.submit(file, *chunk.indexed)

            meta = build.read(docs, source, analyse, store_text=store_text)
        build.bar.next("merging segments", len(build.files))
        postings, terms = merge(
            [partial(_load, file) for file in build.files],
            build.folder.allocate,
            k1=k1,
            b=b,
            progress=build.bar.documents,
        )
        build.folder.write("terms", np.frombuffer(b"".join(terms), np.uint8))
        sizes = np.fromiter(map(len, terms), np.uint64, len(terms))
        build.folder.write("term_starts", ends_of(sizes))
        statistics = {"nonempty": postings.nonempty, "mean_length": postings.mean_length}
        build.publish({"k1": k1, "b": b, **statistics, **meta, "corpus": corpus()})


def _load(path: Path) -> Segment:
    with path.open("rb") as file:
        return Segment.load(file)


class _Progress:
    """A progress bar of documents read, then of segments merged; silent when not wanted."""

    def __init__(self, wanted: bool, total: int | None) -> None:
        self.bar: Any = None
        self.total = total
        if wanted:
            from rich.console import Console
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
                console=Console(stderr=True),
            )

    def __enter__(self) -> _Progress:
        if self.bar is not None:
            self.bar.start()
            self.next("reading documents", self.total)
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def documents(self, done: int) -> None:
        """So much of the present stage is done."""
        if self.bar is not None:
            self.bar.update(self.task, completed=done)

    def next(self, name: str, total: int | None) -> None:
        """Begin another stage."""
        if self.bar is not None:
            self.task = self.bar.add_task(name, total=total)
