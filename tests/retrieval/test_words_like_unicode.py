"""Word breaks against an independent implementation of UAX #29 (the regex package)."""

from __future__ import annotations

import json

import pytest

from agentr1_envs.retrieval.wordbreak import find_words, holds_word

regex = pytest.importorskip("regex")


def test_real_paragraphs_break_as_unicode_says(shared):
    corpus = json.loads((shared / "data" / "hotpotqa" / "hotpotqa_corpus.json").read_text())
    split = regex.compile(r"(?w)\b").split
    # Lucene departs from the rules for these: one token a character or a run, emoji and symbols.
    special = regex.compile(r"[\p{Han}\p{Hiragana}\p{LB=SA}\p{Extended_Pictographic}♭♮]")
    compared = 0
    for title, sentences in corpus.items():
        text = title + "\n" + "".join(sentences)
        if special.search(text):
            continue
        words = [w for w in split(text) if regex.search(r"[\p{L}\p{N}]", w) and holds_word(w)]
        words = [w for w in words if not regex.fullmatch(r"[\p{No}\p{Nl}]+", w)]
        assert find_words(text) == words, title
        compared += 1
    assert compared > 900
