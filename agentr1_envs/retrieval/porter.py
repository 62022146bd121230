"""The Porter stemmer in the form Lucene's `PorterStemFilter` applies.

Source: M. F. Porter, "An algorithm for suffix stripping" (1980), with the departures of the
author's own later code that Lucene follows: "bli" -> "ble", "logi" -> "log", every doubled
consonant counts, and words of up to two characters stay as they are. Snowball's `porter` differs
from it on rare words. Any character that is not a, e, i, o, u (or a vocalic y) is a consonant.
"""

from __future__ import annotations

_STEP2: dict[str, list[tuple[str, str]]] = {
    "a": [("ational", "ate"), ("tional", "tion")],
    "c": [("enci", "ence"), ("anci", "ance")],
    "e": [("izer", "ize")],
    "l": [("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous")],
    "o": [("ization", "ize"), ("ation", "ate"), ("ator", "ate")],
    "s": [("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous")],
    "t": [("aliti", "al"), ("iviti", "ive"), ("biliti", "ble")],
    "g": [("logi", "log")],
}
_STEP3: dict[str, list[tuple[str, str]]] = {
    "e": [("icate", "ic"), ("ative", ""), ("alize", "al")],
    "i": [("iciti", "ic")],
    "l": [("ical", "ic"), ("ful", "")],
    "s": [("ness", "")],
}
# In the order the suffixes are tried; the first that fits decides.
_STEP4: dict[str, tuple[str, ...]] = {
    "a": ("al",),
    "c": ("ance", "ence"),
    "e": ("er",),
    "i": ("ic",),
    "l": ("able", "ible"),
    "n": ("ant", "ement", "ment", "ent"),
    "o": ("ion", "ou"),
    "s": ("ism",),
    "t": ("ate", "iti"),
    "u": ("ous",),
    "v": ("ive",),
    "z": ("ize",),
}


def _is_consonant(word: str, i: int) -> bool:
    # A y is a vowel after a consonant; runs of y alternate, so walk back to where the run starts.
    start = i
    while word[start] == "y" and start > 0:
        start -= 1
    first = word[start] not in "aeiou"
    return first if (i - start) % 2 == 0 else not first


def _measure(stem: str) -> int:
    """The number of vowel-to-consonant changes: m of [C](VC)^m[V]."""
    count, was_vowel, consonant = 0, False, True
    for i, char in enumerate(stem):
        consonant = not consonant if char == "y" and i > 0 else char not in "aeiou"
        if consonant and was_vowel:
            count += 1
        was_vowel = not consonant
    return count


def _has_vowel(stem: str) -> bool:
    return any(not _is_consonant(stem, i) for i in range(len(stem)))


def _ends_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _is_consonant(word, len(word) - 1)


def _ends_cvc(word: str) -> bool:
    """Consonant, vowel, consonant other than w, x, y at the end: hop, but not snow."""
    i = len(word) - 1
    return (
        i >= 2
        and word[i] not in "wxy"
        and _is_consonant(word, i)
        and not _is_consonant(word, i - 1)
        and _is_consonant(word, i - 2)
    )


def _step1(word: str) -> str:
    if word.endswith("s"):
        if word.endswith("sses") or word.endswith("ies"):
            word = word[:-2]
        elif not word.endswith("ss"):
            word = word[:-1]
    if word.endswith("eed"):
        if _measure(word[:-3]) > 0:
            word = word[:-1]
        return word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix) and _has_vowel(word[: -len(suffix)]):
            word = word[: -len(suffix)]
            if word.endswith(("at", "bl", "iz")):
                return word + "e"
            if _ends_double(word):
                return word if word[-1] in "lsz" else word[:-1]
            if _measure(word) == 1 and _ends_cvc(word):
                return word + "e"
            return word
    return word


def _replace(word: str, rules: list[tuple[str, str]]) -> str:
    for suffix, replacement in rules:
        if word.endswith(suffix):
            stem = word[: -len(suffix)]
            return stem + replacement if _measure(stem) > 0 else word
    return word


def _step4(word: str) -> str:
    for suffix in _STEP4.get(word[-2:-1], ()):
        if word.endswith(suffix):
            stem = word[: -len(suffix)]
            if suffix == "ion" and not stem.endswith(("s", "t")):
                continue
            return stem if _measure(stem) > 1 else word
    return word


def porter(word: str) -> str:
    """The stem of a lower-case word.

    >>> [porter(w) for w in ("caresses", "relational", "possibly", "films", "is")]
    ['caress', 'relat', 'possibl', 'film', 'is']
    """
    if len(word) <= 2:
        return word
    word = _step1(word)
    if len(word) > 1 and word[-1] == "y" and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    if len(word) > 1:
        word = _replace(word, _STEP2.get(word[-2], []))
        word = _replace(word, _STEP3.get(word[-1], []))
        word = _step4(word)
    if word[-1] == "e":
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_cvc(word[:-1])):
            word = word[:-1]
    if word.endswith("ll") and _measure(word[:-1]) > 1:
        word = word[:-1]
    return word
