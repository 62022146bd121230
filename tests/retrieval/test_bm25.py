"""Searching: exact against a plain computation of the formula, on every path."""

from __future__ import annotations

import pickle
import threading
from collections import Counter

import numpy as np
import pytest

from agentr1_envs.retrieval import Bm25Index, Document, QueryError, analyze
from agentr1_envs.retrieval.scoring import LENGTHS, idf


def corpus(count, seed, words=60, mean=12):
    generator = np.random.default_rng(seed)
    weights = 1 / np.arange(1, words + 1)
    rows = []
    for i in generator.permutation(count).tolist():
        size = int(generator.integers(1, 2 * mean))
        drawn = generator.choice(words, size, p=weights / weights.sum())
        rows.append((f"d{i}", f"title{i}", " ".join(f"w{n}x" for n in drawn)))
    return rows


def plain_ranking(rows, query, k, allowed=None):
    """The formula of the docs, a document at a time."""
    contents = [analyze(Document(*row).indexed) for row in rows]
    n = sum(bool(c) for c in contents)
    mean = np.float32(sum(map(len, contents)) / n)
    df = Counter(term for c in contents for term in set(c))
    asked = Counter(analyze(query))
    scored = []
    for i, (row, terms) in enumerate(zip(rows, contents, strict=True)):
        tf = Counter(terms)
        if not any(term in tf for term in asked) or (allowed is not None and not allowed(i)):
            continue
        length = np.float32(max(size for size in LENGTHS.tolist() if size <= len(terms)))
        norm = np.float32(0.9) * (np.float32(1) - np.float32(0.4) + np.float32(0.4) * length / mean)
        total = 0.0
        for term, count in asked.items():
            if term in tf:
                share = np.float32(tf[term] / (tf[term] + float(norm)))
                total += float(np.float32(count) * idf(df[term], n) * share)
        scored.append((row[0], np.float32(total)))
    scored.sort(key=lambda pair: (-pair[1], pair[0]))
    return [(id_, float(score)) for id_, score in scored[:k]]


@pytest.mark.parametrize("seed", range(6))
def test_equal_to_the_plain_formula(seed):
    rows = corpus(400, seed)
    index = Bm25Index.in_memory(rows)
    generator = np.random.default_rng(seed)
    for _ in range(30):
        words = generator.integers(0, 60, int(generator.integers(1, 9))).tolist()
        query = " ".join(f"w{n}x" for n in words) + " title7"
        k = int(generator.choice([1, 3, 10, 50, 1000]))
        assert index.ids_and_scores(query, k) == plain_ranking(rows, query, k)


def test_filters_in_every_form():
    rows = corpus(300, 7)
    index = Bm25Index.in_memory(rows)
    query = "w0x w1x w5x w40x"
    for modulus in (2, 7, 150):
        expected = plain_ranking(rows, query, 10, lambda i, m=modulus: i % m == 0)
        mask = np.arange(300) % modulus == 0
        assert index.ids_and_scores(query, 10, mask) == expected
        assert index.ids_and_scores(query, 10, np.flatnonzero(mask)) == expected
        assert index.ids_and_scores(query, 10, lambda i, m=modulus: i % m == 0) == expected
    assert index.ids_and_scores(query, 10, []) == []
    assert index.ids_and_scores(query, 10, lambda i: False) == []
    for wrong in (np.ones(5, bool), np.ones((2, 2)), [300], [-1]):
        with pytest.raises(ValueError, match="allow"):
            index.search(query, 10, wrong)


def test_many_ties_go_by_id():
    rows = [(id_, "", "same words here") for id_ in ("b", "é", "a", "Z", "10", "9")]
    index = Bm25Index.in_memory(rows)
    assert [p.id for p in index.search("words", 4)] == ["10", "9", "Z", "a"]
    assert [p.id for p in index.search("words", 99)] == sorted(id_ for id_, _, _ in rows)


def test_memory_and_disk_and_a_copy_in_another_process_agree(tmp_path):
    rows = corpus(500, 3)
    memory = Bm25Index.in_memory(rows)
    disk = Bm25Index.build(rows, tmp_path / "index", progress=False)
    assert disk.source == memory.source
    again = pickle.loads(pickle.dumps(disk))
    copy = pickle.loads(pickle.dumps(memory))
    for query in ("w1x w2x w3x", "title9 w0x", "w50x"):
        assert memory.search(query, 20) == disk.search(query, 20)
        assert again.search(query, 20) == copy.search(query, 20) == disk.search(query, 20)
    assert Bm25Index.open_shared(tmp_path / "index") is again


def test_threads_share_an_index():
    rows = corpus(2000, 5)
    index = Bm25Index.in_memory(rows)
    queries = [f"w{i}x w{i + 1}x w{i + 7}x" for i in range(40)]
    expected = index.search_batch(queries, 10)
    results: dict[int, list] = {}

    def work(number):
        results[number] = [index.search_batch(queries, 10) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found == expected for runs in results.values() for found in runs)
    assert len(results) == 4


def test_fields_and_documents():
    index = Bm25Index.in_memory(
        [
            Document("a", "Title A", "stored text", contents="what is searched"),
            {"id": "b", "title": "Title B", "text": "plain text"},
            {"_id": "c", "contents": "pyserini form"},
        ]
    )
    assert [p.id for p in index.search("stored")] == []
    assert index.search("searched")[0][:3] == ("a", "Title A", "stored text")
    assert [p.id for p in index.search("title")] == ["b"]
    assert index.search("pyserini")[0].text == "pyserini form"
    assert index.number("b") == 1 and index.id(1) == "b" and index.number("nope") == -1
    assert index.document(2) == ("c", "", "pyserini form")
    with pytest.raises(IndexError):
        index.document(3)
    ids_only = Bm25Index.in_memory([("a", "T", "some text")], store_text=False)
    assert ids_only.search("some")[0][:3] == ("a", "", "")


def test_numbers_of_ids_in_any_order():
    rows = corpus(200, 2)
    index = Bm25Index.in_memory(rows)
    assert [index.number(row[0]) for row in rows] == list(range(200))


def test_documents_without_terms_count_for_nothing():
    rows = [("a", "", "the and of"), ("b", "", "real words"), ("c", "", "real thing")]
    index = Bm25Index.in_memory(rows)
    assert index.documents == 3
    expected = plain_ranking(rows, "real words", 5)
    assert index.ids_and_scores("real words", 5) == expected
    nothing = Bm25Index.in_memory(rows[:1])
    assert nothing.search("the and of real") == []


@pytest.mark.parametrize("query", ["", "   ", "?!.,;:", "the of and", "你好世界", "\ud800", "\x00"])
def test_queries_that_match_nothing(query):
    assert Bm25Index.in_memory(corpus(50, 1)).search(query) == []


def test_chinese_is_found_a_character_at_a_time():
    index = Bm25Index.in_memory([("a", "", "東京の塔"), ("b", "", "京都"), ("c", "", "Paris")])
    assert [p.id for p in index.search("東京", 5)] == ["a", "b"]


def test_queries_that_are_errors():
    index = Bm25Index.in_memory(corpus(50, 1))
    with pytest.raises(QueryError, match=r"1,000,000 characters; at most 32,768"):
        index.search("word " * 200_000)
    with pytest.raises(QueryError, match="string"):
        index.search(None)
    for k in (0, -1, 2.5, True):
        with pytest.raises(QueryError, match="at least 1"):
            index.search("w1x", k)


def test_a_query_as_long_as_allowed():
    rows = corpus(300, 4)
    query = " ".join(f"w{i % 60}x" for i in range(6000))
    assert Bm25Index.in_memory(rows).ids_and_scores(query, 10) == plain_ranking(rows, query, 10)


def test_pruning_keeps_scores_that_round_to_the_same():
    # Many near ties over many lists: sums that differ only beyond 32 bits must go by id.
    generator = np.random.default_rng(0)
    rows = [
        (f"{i:04d}", "", " ".join(f"w{n}x" for n in generator.permutation(14)[:8]))
        for i in generator.permutation(600).tolist()
    ]
    index = Bm25Index.in_memory(rows)
    for k in (1, 2, 5, 17):
        query = "w0x w1x w2x w3x w4x w5x w6x"
        assert index.ids_and_scores(query, k) == plain_ranking(rows, query, k)


def test_huge_frequencies_are_exact():
    rows = [("a", "", "rare " * 70_000), ("b", "", "rare " * 300 + "x"), ("c", "", "rare y")]
    index = Bm25Index.in_memory(rows)
    assert index.ids_and_scores("rare", 3) == plain_ranking(rows, "rare", 3)
