"""Processes that analyse text while an index is built.

Workers are plain child processes that speak over pipes: no fork of a process that has threads, and
no need for an `if __name__ == "__main__"` in the script that builds an index.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..errors import EnvironmentFault
from .analyzer import TermEncoder
from .documents import split_indexed
from .segments import Array, make_segment


def analyse(path: Path, block: bytes, sizes: Array, encoder: TermEncoder) -> None:
    """Make the segment of a run of documents and write it to its file, whole or not at all."""
    segment = make_segment(split_indexed(block, sizes), encoder)
    partial = path.with_suffix(f".{os.getpid()}.part")
    with partial.open("wb") as file:
        segment.save(file)
    os.replace(partial, path)


class Analysers:
    """A pool of analysing processes.

    The first run of documents is analysed here and now when it turns out to be the only one: a
    small corpus pays for no process.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._encoder = TermEncoder()
        self._first: tuple[Path, bytes, Array] | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._children: list[subprocess.Popen[bytes]] = []
        self._pending: list[Future[None]] = []

    def __enter__(self) -> Analysers:
        return self

    def submit(self, path: Path, block: bytes, sizes: Array) -> None:
        """Analyse a run; blocks while all workers are busy and one run waits for each."""
        if self.workers <= 1:
            analyse(path, block, sizes, self._encoder)
            return
        if self._pool is None:
            if self._first is None:
                self._first = (path, block, sizes)
                return
            self._pool = ThreadPoolExecutor(self.workers, "analyser")
            first, self._first = self._first, None
            self._pending.append(self._pool.submit(self._ask, *first))
        while len(self._pending) >= 2 * self.workers:
            self._pending.pop(0).result()
        self._pending.append(self._pool.submit(self._ask, path, block, sizes))

    def _ask(self, path: Path, block: bytes, sizes: Array) -> None:
        child: subprocess.Popen[bytes] | None = getattr(self._local, "child", None)
        if child is None:
            child = _start()
            self._local.child = child
            self._children.append(child)
        assert child.stdin is not None and child.stdout is not None
        head = {"path": str(path), "block": len(block), "sizes": len(sizes)}
        try:
            child.stdin.write(json.dumps(head).encode() + b"\n")
            child.stdin.write(sizes.tobytes())
            child.stdin.write(block)
            child.stdin.flush()
            answer = child.stdout.readline()
        except OSError:
            answer = b""
        if answer != b"done\n":
            code = child.wait()
            raise EnvironmentFault(
                f"a worker process that analyses text ended with code {code} (out of memory?); "
                "what is done is kept: build again to go on, with fewer workers if need be"
            )

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                if self._first is not None:
                    analyse(*self._first, self._encoder)
                for future in self._pending:
                    future.result()
        finally:
            for future in self._pending:
                future.cancel()
            if self._pool is not None:
                if kind is not None:
                    for child in self._children:
                        child.kill()
                self._pool.shutdown()
            for child in self._children:
                if child.stdin is not None:
                    with suppress(OSError):  # what was not written to a child that is gone
                        child.stdin.close()
                child.wait()
                if child.stdout is not None:
                    child.stdout.close()


def _start() -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer runs of documents until the other side hangs up."""
    encoder = TermEncoder()
    while head := requests.readline():
        request = json.loads(head)
        sizes = np.frombuffer(requests.read(8 * request["sizes"]), np.uint64)
        block = requests.read(request["block"])
        if len(block) < request["block"]:
            return
        analyse(Path(request["path"]), block, sizes, encoder)
        answers.write(b"done\n")
        answers.flush()


if __name__ == "__main__":
    # An interrupt reaches the whole process group; the parent decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(sys.stdin.buffer, sys.stdout.buffer)
