"""Reading and comparing final answers.

An answer is what stands after the last ``####`` of a reply, up to the end of that line: one number,
perhaps with a currency sign before it and units or a full stop after it. Comparison is exact, on
fractions: ``42``, ``42.0``, ``$42`` and ``42 apples.`` are equal, and so are ``1/2`` and ``0.5``.
"""

from __future__ import annotations

import re
from fractions import Fraction

MARK = "####"
MAX_CHARS = 200
"""An answer line longer than this is no number."""

_number = re.compile(
    r"(?P<sign>[-+]?)\s?[$€£¥₹]?\s?(?P<sign2>[-+]?)"
    r"(?P<whole>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+(?!,?[0-9])|(?=\.[0-9]))"
    r"(?P<decimals>\.[0-9]+)?"
    r"(?:\s?/\s?(?P<denominator>[0-9]+))?"
).match
# A second number makes an answer ambiguous; digits in a unit (m2, km^2, CO2) do not.
_second_number = re.compile(r"(?<![A-Za-z0-9^])\.?[0-9]").search
# Look-alikes: dashes, the minus sign, full-width forms. Not NFKC, which makes 42² into 422.
_PLAIN = str.maketrans(
    "\u2212\u2010\u2011\u2012\u2013\uff0d\uff0b\uff0f\uff0c\uff0e\uff04０１２３４５６７８９",
    "-----" + "-+/,.$0123456789",
)


def extract_answer(text: str) -> str | None:
    """What stands after the last ``####``, to the end of its line; None without the mark."""
    start = text.rfind(MARK)
    if start < 0:
        return None
    line = text[start + len(MARK) :].lstrip(" \t").partition("\n")[0]
    return line.strip()


def parse_number(text: str) -> Fraction | None:
    """The number that an answer names, or None when it names none or several.

    Accepted: signs (also U+2212), currency signs, thousands separators, decimals, fractions,
    full-width digits, ``*`` and backquotes of markup, units and punctuation after the number.
    Never a number: ``nan``, ``inf``, an empty text, a zero denominator, ``1e5``, ``1,23``.
    """
    if text.isascii():
        if text.isdigit() and len(text) <= MAX_CHARS:
            return Fraction(int(text))
    elif len(text) <= MAX_CHARS:
        text = text.translate(_PLAIN)
    if len(text) > MAX_CHARS:
        return None
    text = text.strip().strip("*`_ ")
    match = _number(text)
    if match is None:
        return None
    sign, sign2, whole, decimals, denominator = match.groups()
    rest = text[match.end() :]
    if (sign and sign2) or not _is_tail(rest):
        return None
    value = Fraction((whole.replace(",", "") or "0") + (decimals or ""))
    if denominator:
        if int(denominator) == 0:
            return None
        value /= int(denominator)
    return -value if "-" in (sign, sign2) else value


def _is_tail(rest: str) -> bool:
    """Whether what follows the number is only units and punctuation."""
    if not rest:
        return True
    # "1e5", "5x3", "3.4.5", "5^2": a digit after a letter that touches the number.
    if re.match(r"[A-Za-z^.,:/*+-]+[0-9]", rest):
        return False
    return _second_number(rest) is None


def same_number(text: str, truth: str) -> bool:
    """Whether two answers name the same number; False when either names none."""
    value = parse_number(text)
    return value is not None and value == parse_number(truth)


def score_reply(text: str, truth: str) -> float:
    """1.0 when the last ``####`` answer of a reply equals `truth`, else 0.0."""
    answer = extract_answer(text)
    return 1.0 if answer is not None and same_number(answer, truth) else 0.0
