"""Index and search N generated passages, beside bm25s, in one run.

    python -m benchmarks.retrieval --passages 1000000 --json FILE

The corpus has English function words on its first ranks and made-up words below, drawn by a
Zipf-Mandelbrot law. bm25s runs as its documentation shows it: English stop words, no stemmer, no
text stored, nothing saved to disk; ours stems, stores the texts and writes everything to disk.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

_COMMON = (
    "the of and in to a was is for as on by with at from that it his an are were which this be he "
    "or also has had first its new one their after not but who two have her city they been other "
    "all when during there into time may more between years over world state school most only "
    "under made where known used later united film national born university county american "
    "series area season company team family second town south north part river group war game "
    "album band song player won member music located district history population species"
)
_SYLLABLES = (
    "ba ca da fa ga la ma na pa ra sa ta va be ce de fe ge le me ne pe re se te ve bi ci di li mi "
    "ni ri si ti vi bo co do lo mo no ro so to vo bu cu du lu mu nu ru su tu ston ville ham ter "
    "son ing ed ness tion ly er al ous"
)


def _words(size: int, generator: np.random.Generator) -> list[str]:
    """Distinct words, most frequent first."""
    words = dict.fromkeys(_COMMON.split())
    syllables = _SYLLABLES.split()
    while len(words) < size:
        count = generator.integers(2, 6, 4096)
        picked = generator.choice(syllables, (4096, 5))
        for n, parts in zip(count.tolist(), picked.tolist(), strict=True):
            words["".join(parts[:n])] = None
    return list(words)[:size]


def passages(
    count: int, *, mean: int = 60, vocabulary: int = 500_000, seed: int = 0
) -> Iterator[tuple[str, str, str]]:
    """Generated (id, title, text) rows of about `mean` words."""
    generator = np.random.default_rng(seed)
    words = np.array(_words(vocabulary, generator), object)
    weights = 1 / (np.arange(vocabulary) + 2.7) ** 1.05
    ladder = np.cumsum(weights / weights.sum())
    for first in range(0, count, 10_000):
        rows = min(10_000, count - first)
        sizes = np.clip(generator.normal(mean, mean / 3, rows), 10, None).astype(int)
        drawn = words[np.searchsorted(ladder, generator.random(int(sizes.sum())))].tolist()
        rare = generator.integers(2000, vocabulary, (rows, 2))
        position = 0
        for row, size in enumerate(sizes.tolist()):
            title = " ".join(word.capitalize() for word in words[rare[row]])
            body = " ".join(drawn[position : position + size])
            position += size
            yield f"p{first + row:08d}", title, f"{title} is {body}."


def questions(rows: list[tuple[str, str, str]], count: int, seed: int = 1) -> list[str]:
    """Questions of about nine words, each with words of one passage."""
    generator = np.random.default_rng(seed)
    asked = []
    for i in generator.integers(0, len(rows), count).tolist():
        words = rows[i][2].split()
        start = int(generator.integers(0, max(1, len(words) - 8)))
        asked.append("which " + " ".join(words[start : start + 8]))
    return asked


def _percentiles(seconds: list[float]) -> dict[str, float]:
    p50, p95 = np.percentile(np.array(seconds) * 1e3, [50, 95])
    return {"p50_ms": round(float(p50), 3), "p95_ms": round(float(p95), 3)}


_SECOND = """
import sys, time, json
from agentr1_envs.retrieval import Bm25Index
def private():
    rows = [line.split() for line in open("/proc/self/smaps_rollup")]
    return sum(int(row[1]) for row in rows if row[0].startswith("Private_")) / 1024
before = private()
start = time.perf_counter()
index = Bm25Index.open(sys.argv[1])
opened = time.perf_counter() - start
for query in json.load(open(sys.argv[2])):
    index.search(query, 10)
print(json.dumps({"open_s": round(opened, 4), "private_MiB": round(private(), 1),
                  "private_before_MiB": round(before, 1)}))
"""


def _cpu_seconds() -> float:
    """CPU time of this process and of its children that ended: what a busy machine can't blur."""
    return sum(os.times()[:4])


def ours(
    rows: list[tuple[str, str, str]], asked: list[str], folder: Path, k: int, workers: int | None
) -> dict[str, Any]:
    """Build, open and search; and open once more in a second process."""
    from agentr1_envs.retrieval import Bm25Index

    start, spent = time.perf_counter(), _cpu_seconds()
    Bm25Index.build(rows, folder, progress=False, workers=workers)
    built, spent = time.perf_counter() - start, _cpu_seconds() - spent
    start = time.perf_counter()
    index = Bm25Index.open(folder)
    opened = time.perf_counter() - start
    seconds = []
    for query in asked:
        start = time.perf_counter()
        index.search(query, k)
        seconds.append(time.perf_counter() - start)
    query_file = folder.with_name("queries.json")
    query_file.write_text(json.dumps(asked))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    answer = subprocess.run(
        [sys.executable, "-c", _SECOND, str(folder), str(query_file)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    ).stdout
    disk = sum(file.stat().st_size for file in folder.iterdir())
    return {
        "build_s": round(built, 2),
        "build_cpu_s": round(spent, 2),
        "open_s": round(opened, 4),
        "disk_MB": round(disk / 1e6, 1),
        **_percentiles(seconds),
        "second_process": json.loads(answer),
    }


def bm25s(rows: list[tuple[str, str, str]], asked: list[str], k: int) -> dict[str, Any]:
    """The same with bm25s, in memory."""
    import bm25s as peer

    start, spent = time.perf_counter(), _cpu_seconds()
    texts = [f"{title}\n{text}" for _, title, text in rows]
    tokens = peer.tokenize(texts, stopwords="en", show_progress=False)
    index = peer.BM25(method="lucene", k1=0.9, b=0.4)
    index.index(tokens, show_progress=False)
    built, spent = time.perf_counter() - start, _cpu_seconds() - spent
    del tokens
    seconds = []
    for query in asked:
        start = time.perf_counter()
        words = peer.tokenize([query], stopwords="en", show_progress=False)
        index.retrieve(words, k=k, show_progress=False)
        seconds.append(time.perf_counter() - start)
    return {
        "version": peer.__version__,
        "build_s": round(built, 2),
        "build_cpu_s": round(spent, 2),
        **_percentiles(seconds),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--workers", type=int, help="processes that analyse (default: the cores)")
    parser.add_argument("--no-peer", action="store_true", help="leave bm25s out")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()

    rows = list(passages(args.passages))
    asked = questions(rows, args.queries)
    figures: dict[str, Any] = {"passages": len(rows), "queries": len(asked), "k": args.k}
    with tempfile.TemporaryDirectory() as folder:
        figures["agentr1"] = ours(rows, asked, Path(folder) / "index", args.k, args.workers)
        shutil.rmtree(Path(folder) / "index")
    print(json.dumps({"agentr1": figures["agentr1"]}), flush=True)
    if not args.no_peer:
        figures["bm25s"] = bm25s(rows, asked, args.k)
        figures["ratios"] = {
            name: round(figures["agentr1"][name] / figures["bm25s"][name], 3)
            for name in ("build_s", "build_cpu_s", "p50_ms", "p95_ms")
        }
    print(json.dumps(figures, indent=1))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
