"""Term numbers of many ASCII texts at once, in array operations.

Finding words with a regular expression and looking each up in a dictionary is what building an
index spends its time on. Here a whole run of texts is one array of bytes: word borders come from
comparisons of character classes, a word of up to 16 bytes is a pair of 64-bit integers, and an
open-addressing table in arrays maps such pairs to term numbers. Only words not seen before go
through Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .wordbreak import MAX_TOKEN

Bytes = npt.NDArray[np.uint8]
Keys = npt.NDArray[np.uint64]

_LETTER, _DIGIT, _CONNECTOR, _BETWEEN_LETTERS, _BETWEEN_DIGITS = 1, 2, 4, 8, 16
_WORD = _LETTER | _DIGIT | _CONNECTOR
_KEY_BYTES = 16


def _class_table() -> Bytes:
    table = np.zeros(256, np.uint8)
    for chars, bits in (
        (b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", _LETTER),
        (b"0123456789", _DIGIT),
        (b"_", _CONNECTOR),
        (b".'", _BETWEEN_LETTERS | _BETWEEN_DIGITS),
        (b":", _BETWEEN_LETTERS),
        (b",;", _BETWEEN_DIGITS),
    ):
        table[list(chars)] = bits
    return table


_CLASS = _class_table()
_LOWER = np.arange(256, dtype=np.uint8)
_LOWER[65:91] += 32
_MASK = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
_MIX1, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


def word_spans(text: Bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Starts and ends of the words of ASCII text; equal to the expression for ASCII.

    Args:
        text: bytes whose first and last are no part of a word, such as line breaks.
    """
    kinds = _CLASS[text]
    word = (kinds & _WORD) != 0
    joiners = np.flatnonzero(kinds >= _BETWEEN_LETTERS)
    before, here, after = kinds[joiners - 1], kinds[joiners], kinds[(joiners + 1) % len(text)]
    both = before & after
    joins = (((both & _LETTER) != 0) & ((here & _BETWEEN_LETTERS) != 0)) | (
        ((both & _DIGIT) != 0) & ((here & _BETWEEN_DIGITS) != 0)
    )
    word[joiners[joins]] = True
    edges = np.flatnonzero(word[1:] != word[:-1]) + 1
    return edges[::2], edges[1::2]


class WordTable:
    """Maps words, as pairs of integers, to numbers; grows as words come.

    Args:
        number_of: gives the number of a word not seen before.
    """

    def __init__(self, number_of: Callable[[str], int], bits: int = 14) -> None:
        self._number_of = number_of
        self._used = 0
        self._allocate(bits)

    def _allocate(self, bits: int) -> None:
        self._shift = np.uint64(64 - bits)
        self._size = 1 << bits
        self._first = np.zeros(self._size, np.uint64)  # 0 marks a free slot: no word has byte 0
        self._second = np.zeros(self._size, np.uint64)
        self._numbers = np.zeros(self._size, np.int64)

    def _slots(self, first: Keys, second: Keys) -> npt.NDArray[np.int64]:
        mixed = first * _MIX1
        mixed ^= second * _MIX2
        mixed ^= mixed >> np.uint64(29)
        mixed *= _MIX1
        return (mixed >> self._shift).astype(np.int64)

    def _find(self, first: Keys, second: Keys) -> tuple[npt.NDArray[np.int64], Any]:
        """Numbers, and where they are not known."""
        slots = self._slots(first, second)
        numbers = self._numbers[slots]
        stored = self._first[slots]
        right = (stored == first) & (self._second[slots] == second)
        missing = [np.flatnonzero(stored == 0)]
        open_ = np.flatnonzero(~right & (stored != 0))
        slots = slots[open_]
        while len(open_):
            slots = (slots + 1) & (self._size - 1)
            stored = self._first[slots]
            right = (stored == first[open_]) & (self._second[slots] == second[open_])
            numbers[open_[right]] = self._numbers[slots[right]]
            missing.append(open_[stored == 0])
            go_on = ~right & (stored != 0)
            open_, slots = open_[go_on], slots[go_on]
        return numbers, np.concatenate(missing)

    def _insert(self, first: Keys, second: Keys, numbers: npt.NDArray[np.int64]) -> None:
        """Store words that are not in the table, each once."""
        self._used += len(first)
        if self._used > self._size // 3:
            old = np.flatnonzero(self._first)
            first = np.concatenate([self._first[old], first])
            second = np.concatenate([self._second[old], second])
            numbers = np.concatenate([self._numbers[old], numbers])
            self._allocate(int(6 * self._used).bit_length())
        slots = self._slots(first, second)
        while len(slots):
            # Of the words that want one free slot the first takes it; the others try the next.
            _, leaders = np.unique(slots, return_index=True)
            takes = np.zeros(len(slots), np.bool_)
            takes[leaders] = self._first[slots[leaders]] == 0
            taken = slots[takes]
            self._first[taken], self._second[taken] = first[takes], second[takes]
            self._numbers[taken] = numbers[takes]
            first, second, numbers = first[~takes], second[~takes], numbers[~takes]
            slots = (slots[~takes] + 1) & (self._size - 1)

    def encode(
        self, texts: list[str]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
        """Numbers of all words of ASCII texts, and the number of words of each text.

        Returns None where a word is longer than a token may be: those have to be cut.
        """
        joined = ("\n" + "\n".join(texts) + "\n").encode("ascii") + bytes(_KEY_BYTES)
        text = _LOWER[np.frombuffer(joined, np.uint8)]
        starts, ends = word_spans(text)
        sizes = ends - starts
        if not len(starts):
            return starts, np.zeros(len(texts), np.int64)
        if int(sizes.max()) > MAX_TOKEN:
            return None
        borders = np.cumsum([1, *(len(one) + 1 for one in texts)])
        counts = np.diff(np.searchsorted(starts, borders))

        eight = np.ndarray(len(text) - 7, "<u8", buffer=text, strides=(1,))
        first = eight[starts] & _MASK[np.minimum(sizes, 8)]
        second = eight[starts + 8] & _MASK[np.clip(sizes - 8, 0, 8)]
        long = np.flatnonzero(sizes > _KEY_BYTES)
        first[long] = 1  # any key that is no word's; the words are looked up one by one below
        second[long] = 0
        numbers, missing = self._find(first, second)
        missing = missing[first[missing] != 1]
        if len(missing):
            self._learn(first[missing], second[missing])
            numbers[missing] = self._find(first[missing], second[missing])[0]
        words = text.tobytes()
        numbers[long] = [
            self._number_of(words[start:end].decode("ascii"))
            for start, end in zip(starts[long].tolist(), ends[long].tolist(), strict=True)
        ]
        return numbers, counts

    def _learn(self, first: Keys, second: Keys) -> None:
        order = np.lexsort((second, first))
        first, second = first[order], second[order]
        new = np.ones(len(first), np.bool_)
        new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
        first, second = first[new], second[new]
        words = np.stack([first, second], axis=1).astype("<u8").view("S16").ravel().tolist()
        numbers = [self._number_of(word.decode("ascii")) for word in words]
        self._insert(first, second, np.array(numbers, np.int64))
