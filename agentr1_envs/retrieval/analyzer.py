"""English text analysis equal to Lucene's `EnglishAnalyzer`: text in, index terms out.

Words by UAX #29, possessive 's off, lower case, 33 stop words out, Porter stems. Source: Apache
Lucene's analysis-common module (the behaviour, not the code).
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from .porter import porter
from .word_table import WordTable
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

    def __init__(self, ids: dict[str, int], names: list[bytes]) -> None:
        super().__init__()
        self.ids, self.names = ids, names

    def __missing__(self, word: str) -> int:
        if len(word) > MAX_TOKEN:
            raise _LongWord
        term = term_of(word) if holds_word(word) else None
        number = self[word] = -1 if term is None else self.number(term)
        return number

    def number(self, term: str) -> int:
        """The number of a term; a new one for a new term."""
        number = self.ids.setdefault(term, len(self.names))
        if number == len(self.names):
            self.names.append(term.encode())
        return number


class _LongWord(Exception):
    """A word that must be cut before it is looked up."""


# Characters that end a word and nothing else: written as spaces, they leave most English text
# in ASCII, which is analysed faster.
_BREAKS = re.compile("[\u00a0\u2009\u2013\u2014\u201c\u201d\u2026\u2212\u00a3\u00b0\u20ac\u2022]")


class TermEncoder:
    """Turns many texts into term numbers; numbers are given in order of first sight.

    Attributes:
        names: the terms seen so far, as UTF-8, in the order of their numbers.
    """

    MAX_WORDS = 1_500_000  # some 500 MB

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew: numbers given so far mean nothing any more."""
        self.names: list[bytes] = []
        self._words = _TermIds({}, self.names)
        self._table = WordTable(self._words.__getitem__)

    def forget_if_large(self) -> None:
        """Start anew once so many words are remembered that memory matters more than speed."""
        if len(self._words) > self.MAX_WORDS:
            self.forget()

    def number(self, term: str) -> int:
        """The number of a term that `analyze` gave."""
        return self._words.number(term)

    def extend(self, numbers: list[int], text: str) -> None:
        """Append the term numbers of one text; -1 stands for a word that is not indexed."""
        size = len(numbers)
        find = find_ascii_words if text.isascii() else find_words
        try:
            numbers.extend(map(self._words.__getitem__, find(text)))
        except _LongWord:
            del numbers[size:]
            numbers.extend(map(self._words.__getitem__, find_words(text)))

    def encode(self, texts: list[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Term numbers of many texts, as bags of words.

        Returns:
            (numbers, places): the number of each word, -1 for words that are not indexed, and the
            place in `texts` of the text that has it; in no particular order.
        """
        parted = [(text, "") if text.isascii() else _part(text) for text in texts]
        found = self._table.encode([plain for plain, _ in parted])
        if found is None:  # a word that has to be cut
            numbers, counts = np.empty(0, np.int64), np.zeros(len(texts), np.int64)
            parted = [("", text) for text in texts]
        else:
            numbers, counts = found
        rest: list[int] = []
        rest_counts = np.zeros(len(texts), np.int64)
        for i, (_, odd) in enumerate(parted):
            if odd:
                size = len(rest)
                self.extend(rest, odd)
                rest_counts[i] = len(rest) - size
        places = np.arange(len(texts))
        return (
            np.concatenate([numbers, np.array(rest, np.int64)]),
            np.concatenate([np.repeat(places, counts), np.repeat(places, rest_counts)]),
        )


def _part(text: str) -> tuple[str, str]:
    """The words of a text in ASCII, and the others; no word holds a space."""
    text = _BREAKS.sub(" ", text)
    if text.isascii():
        return text, ""
    words = text.split(" ")
    odd = [word for word in words if not word.isascii()]
    return " ".join([word for word in words if word.isascii()]), " ".join(odd)


def analyze(text: str) -> list[str]:
    """The index terms of a text, in order, with repeats.

    >>> analyze("The cat's whiskers are Running, in the U.S.A.!")
    ['cat', 'whisker', 'run', 'u.s.a']
    """
    return [term for word in find_words(text) if (term := term_of(word)) is not None]
