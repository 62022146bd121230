"""English text analysis equal to Lucene's `EnglishAnalyzer`: text in, index terms out.

Words by UAX #29, possessive 's off, lower case, 33 stop words out, Porter stems. Source: Apache
Lucene's analysis-common module (the behaviour, not the code).
"""

from __future__ import annotations

from collections.abc import Iterator

from .porter import porter
from .wordbreak import MAX_TOKEN, find_ascii_words, find_words, holds_word

# Part of every index's identity: change it when the terms of any text change.
ANALYZER_VERSION = "english-1"

_STOP_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
_POSSESSIVES = ("'s", "'S", "’s", "’S", "＇s", "＇S")


def _lower(word: str) -> str:
    """Lower case a character at a time, as Java does: no final sigma, no combining dot."""
    if word.isascii():
        return word.lower()
    return "".join(char.lower()[0] for char in word)


def term_of(word: str) -> str | None:
    """The index term of one word, or None for a stop word."""
    if word.endswith(_POSSESSIVES):
        word = word[:-2]
    word = _lower(word)
    if word in STOP_WORDS:
        return None
    return porter(word)


class _TermIds(dict[str, int]):
    """Word as written -> number of its term; -1 for words that are not indexed.

    Both steps are remembered: the dictionary look-up in C is all that a known word costs.
    """

    MAX_CACHED = 2_000_000  # words as written; the terms themselves are never forgotten

    def __init__(self, ids: dict[str, int]) -> None:
        super().__init__()
        self.ids = ids

    def __missing__(self, word: str) -> int:
        if len(word) > MAX_TOKEN:
            raise _LongWord
        term = term_of(word) if holds_word(word) else None
        number = -1 if term is None else self.ids.setdefault(term, len(self.ids))
        if len(self) >= self.MAX_CACHED:
            self.clear()
        self[word] = number
        return number


class _LongWord(Exception):
    """A word that must be cut before it is looked up."""


class TermEncoder:
    """Turns many texts into term numbers; numbers are given in order of first sight.

    Attributes:
        ids: term -> number, all terms seen so far.
    """

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self._words = _TermIds(self.ids)

    def encode(self, text: str) -> Iterator[int]:
        """Term numbers of the text in order; -1 stands for a word that is not indexed."""
        find = find_ascii_words if text.isascii() else find_words
        return map(self._words.__getitem__, find(text))

    def extend(self, numbers: list[int], text: str) -> None:
        """Append the term numbers of the text to `numbers`."""
        size = len(numbers)
        try:
            numbers.extend(self.encode(text))
        except _LongWord:
            del numbers[size:]
            numbers.extend(map(self._words.__getitem__, find_words(text)))


def analyze(text: str) -> list[str]:
    """The index terms of a text, in order, with repeats.

    >>> analyze("The cat's whiskers are Running, in the U.S.A.!")
    ['cat', 'whisker', 'run', 'u.s.a']
    """
    return [term for word in find_words(text) if (term := term_of(word)) is not None]
