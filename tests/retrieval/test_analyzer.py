"""Words, stems and index terms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentr1_envs.retrieval import analyze, wordbreak
from agentr1_envs.retrieval.analyzer import TermEncoder
from agentr1_envs.retrieval.porter import porter

# From the rules of Porter's paper, in the order of its steps, and Lucene's departures at the end.
STEMS = """
caresses caress  ponies poni  ties ti  caress caress  cats cat  feed feed  agreed agre
plastered plaster  bled bled  motoring motor  sing sing  conflated conflat  troubled troubl
sized size  hopping hop  tanned tan  falling fall  hissing hiss  fizzed fizz  failing fail
filing file  happy happi  sky sky  relational relat  conditional condit  rational ration
valenci valenc  hesitanci hesit  digitizer digit  conformabli conform  radicalli radic
differentli differ  vileli vile  analogousli analog  vietnamization vietnam  predication predic
operator oper  feudalism feudal  decisiveness decis  hopefulness hope  callousness callous
formaliti formal  sensitiviti sensit  sensibiliti sensibl  triplicate triplic  formative form
formalize formal  electriciti electr  electrical electr  hopeful hope  goodness good
revival reviv  allowance allow  inference infer  airliner airlin  gyroscopic gyroscop
adjustable adjust  defensible defens  irritant irrit  replacement replac  adjustment adjust
dependent depend  adoption adopt  homologou homolog  communism commun  activate activ
angulariti angular  homologous homolog  effective effect  bowdlerize bowdler  probate probat
rate rate  cease ceas  controll control  roll roll  apology apolog  possibly possibl  is is
"""
PAIRS = [pair.split() for pair in STEMS.replace("\n", "  ").split("  ") if pair]


@pytest.mark.parametrize(("word", "stem"), PAIRS)
def test_stems(word, stem):
    assert porter(word) == stem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("9.5 mm, 1,234.5; 3;4 1.a a.1", ["9.5", "mm", "1,234.5", "3;4", "1", "a", "a", "1"]),
        ("u.s.a. l'eau rock'n'roll it's", ["u.s.a", "l'eau", "rock'n'roll", "it's"]),
        ("German:Die a:b 1:2 x::y", ["German:Die", "a:b", "1", "2", "x", "y"]),
        ("snake_case __init__ ___ _a._b", ["snake_case", "__init__", "_a", "_b"]),
        ("e-mail and/or (x) [y] «z»", ["e", "mail", "and", "or", "x", "y", "z"]),
        ("Association’s naïve café", ["Association’s", "naïve", "café"]),
        ("東京タワー、ひらがな", ["東", "京", "タワー", "ひ", "ら", "が", "な"]),
        ("한국어 단어", ["한국어", "단어"]),
        ("ภาษาไทย คำ", ["ภาษาไทย", "คำ"]),
        ("Серге́й", ["Серге́й"]),
        ("צה\"ל ג' x", ['צה"ל', "ג'", "x"]),
        ("🎉🎉 👩‍👩‍👧 🇩🇪🇫🇷 A♭ © ™", ["🎉", "🎉", "👩‍👩‍👧", "🇩🇪", "🇫🇷", "A", "♭"]),
        ("", []),
        (" \n\t.,;:'\"", []),
    ],
)
def test_words(text, words):
    assert wordbreak.find_words(text) == words


def test_terms():
    assert analyze("The dogs' owners' cat’s CAT'S Possibly") == [
        "dog",
        "owner",
        "cat",
        "cat",
        "possibl",
    ]
    assert analyze("to be or not to be") == []
    # A character at a time, as Java lowers: no final sigma, no combining dot.
    assert analyze("ΟΔΟΣ İ") == ["οδοσ", "i"]


def test_long_words_are_cut_where_lucene_cuts():
    assert [len(t) for t in wordbreak.find_words("x" * 600 + " y")] == [255, 255, 90, 1]
    assert [len(t) for t in wordbreak.find_words("é" * 300)] == [255, 45]
    assert wordbreak.find_words("_" * 1000 + " a") == ["a"]


def test_a_megabyte_of_anything_takes_no_time():
    for text in ("a" * 10**6, "a." * 500_000, "é'" * 500_000, "_" * 10**6, 'א"' * 300_000):
        wordbreak.find_words(text)


ALPHABET = "ab Z19_.,:;'’\"-éßΣλяאบ東かカ한́\u200d\u200e👩🇩\ufe0f\u3000"


@settings(deadline=None, max_examples=300)
@given(st.text(ALPHABET, max_size=30))
def test_encoder_gives_the_terms_of_analyze(text):
    encoder = TermEncoder()
    numbers: list[int] = []
    encoder.extend(numbers, text)
    assert [encoder.number(term) for term in analyze(text)] == [i for i in numbers if i >= 0]
    names = [name.decode() for name in encoder.names]
    assert [names[i] for i in numbers if i >= 0] == analyze(text)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.text(ALPHABET + "–“longword", max_size=40), max_size=6))
def test_many_texts_at_once_give_the_terms_of_each(texts):
    encoder = TermEncoder()
    for part in (texts, texts[::-1]):  # the second time, words are known
        assert bags(encoder, part) == [sorted(analyze(text)) for text in part]


def bags(encoder, texts):
    """For each text its terms, sorted."""
    numbers, places = encoder.encode(texts)
    found: list[list[str]] = [[] for _ in texts]
    for number, place in zip(numbers.tolist(), places.tolist(), strict=True):
        if number >= 0:
            found[place].append(encoder.names[number].decode())
    return [sorted(terms) for terms in found]


def test_many_words_at_once():
    # Enough distinct words for the table to grow, words at every length, and one to be cut.
    generator = np.random.default_rng(0)
    letters = np.array(list("abcdefghij'.1_"))
    texts = [
        " ".join("".join(generator.choice(letters, n)) for n in generator.integers(1, 40, 60))
        for _ in range(600)
    ]
    for extra in ([], ["y" * 300 + " z"], ["é" * 300 + " z"]):
        expected = [sorted(analyze(text)) for text in texts + extra]
        assert bags(TermEncoder(), texts + extra) == expected


def test_characters_that_only_end_words():
    from agentr1_envs.retrieval import analyzer

    for char in analyzer._BREAKS.pattern.strip("[]"):
        assert wordbreak.find_words(f"a{char}b{char}1{char}2 {char}") == ["a", "b", "1", "2"]


@settings(deadline=None, max_examples=300)
@given(st.text("ab Z19_.,:;'\"-#", max_size=40))
def test_the_three_expressions_agree_on_ascii(text):
    expected = wordbreak._ASCII.findall(text)
    assert wordbreak._plain().findall(text) == expected
    complete = wordbreak._complete().findall(text)
    assert complete == [word for word in expected if wordbreak.holds_word(word)]


@settings(deadline=None, max_examples=300)
@given(st.text("ab Z19_.,:;'’·éßΣλя한–“\xa0", max_size=40))
def test_plain_and_complete_agree_on_letters(text):
    expected = [w for w in wordbreak._plain().findall(text) if wordbreak.holds_word(w)]
    assert wordbreak._complete().findall(text) == expected


def test_no_text_breaks_the_encoder():
    encoder = TermEncoder()
    numbers: list[int] = []
    for text in ("\ud800 lone \udfff", "\x00\x01 nul", "a" * 300, "\U0010ffff end"):
        encoder.extend(numbers, text)
    assert {b"lone", b"nul", b"end"} <= set(encoder.names)
