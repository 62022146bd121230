"""Rankings equal to those recorded from Lucene."""

from __future__ import annotations

import json

import pytest

from agentr1_envs.retrieval import Bm25Index


def _golden(shared, name):
    return json.loads((shared / "golden" / "lucene_bm25.json").read_text())[name]


def hotpotqa_documents(shared):
    corpus = json.loads((shared / "data" / "hotpotqa" / "hotpotqa_corpus.json").read_text())
    return [(title, title, "".join(sentences)) for title, sentences in corpus.items()]


def webshop_documents(shared):
    items = json.loads((shared / "golden" / "webshop" / "items_shuffle_1000.json").read_text())
    rows: dict[str, tuple] = {}
    for item in items:
        bullets = item["small_description"]
        first = (bullets[0] if bullets else "") if isinstance(bullets, list) else bullets or ""
        contents = f"{item['name']} {item['full_description']} {first}".lower()
        rows.setdefault(item["asin"], (item["asin"], item["name"], "-", contents))
    return list(rows.values())


@pytest.fixture(scope="module", params=["memory", "disk"])
def where(request):
    return request.param


@pytest.mark.parametrize("name", ["hotpotqa", "webshop"])
def test_every_recorded_ranking(shared, name, where, tmp_path):
    documents = (hotpotqa_documents if name == "hotpotqa" else webshop_documents)(shared)
    if where == "memory":
        index = Bm25Index.in_memory(documents)
    else:
        index = Bm25Index.build(documents, tmp_path / "index", progress=False)
    golden = _golden(shared, name)
    assert len(golden) == (60 if name == "hotpotqa" else 100)
    for case in golden:
        got = index.ids_and_scores(case["query"], 50)
        assert [id_ for id_, _ in got] == [id_ for id_, _ in case["hits"]], case["query"]
        for (_, score), (_, recorded) in zip(got, case["hits"], strict=True):
            assert score == pytest.approx(recorded, abs=1e-4)
