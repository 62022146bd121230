"""Word breaking by the rules of Unicode's UAX #29, as Lucene's `StandardTokenizer` applies them.

A token is a maximal run of letters, digits and connectors (`_`) that holds at least one letter or
digit; `.`, `'` and `:` join two letters, and `.`, `'`, `,` and `;` join two digits, so `9.5`,
`u.s.a` and `l'eau` stay whole. Han and Hiragana give one token a character, Katakana and the
scripts of South-East Asia one token a run, an emoji sequence one token. Tokens are cut at 255
characters, as Lucene cuts them.

Three expressions do the work, from fast to complete: ASCII text, text whose other characters are
plain letters or separators, and everything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from . import _unicode_classes as classes

MAX_TOKEN = 255

# One token of ASCII text. A joiner is tested first because most words end at a space.
_ASCII = re.compile(
    r"[A-Za-z0-9_]+(?:[.':,;](?:(?<=[A-Za-z][.':])(?=[A-Za-z])|(?<=[0-9][.',;])(?=[0-9]))"
    r"[A-Za-z0-9_]+)*"
)
find_ascii_words = _ASCII.findall
_CONNECTORS = "_\u202f\u203f\u2040\u2054\ufe33\ufe34\ufe4d\ufe4e\ufe4f\uff3f"


@cache
def _special() -> re.Pattern[str]:
    """Characters that only the complete expression treats right."""
    body = classes.char_class(
        classes.HEBREW,
        classes.KATAKANA,
        classes.EXTEND,
        classes.HAN,
        classes.HIRAGANA,
        classes.COMPLEX,
        classes.FLAG,
        classes.PICTURE,
    )
    # Keycaps need an extending character, which is in the class already; Double_Quote matters
    # beside Hebrew only.
    return re.compile(f"[{body}]")


@cache
def _plain() -> re.Pattern[str]:
    letter = classes.char_class(classes.LETTER)
    digit = classes.char_class(classes.DIGIT)
    connector = classes.char_class(classes.CONNECTOR)
    between_letters = classes.char_class(classes.MID_LETTER, classes.MID_BOTH)
    between_digits = classes.char_class(classes.MID_DIGIT, classes.MID_BOTH)
    word = f"[{letter}{digit}{connector}]+"
    return re.compile(
        f"{word}(?:[{between_letters}{between_digits}]"
        f"(?:(?<=[{letter}][{between_letters}])(?=[{letter}])"
        f"|(?<=[{digit}][{between_digits}])(?=[{digit}])){word})*"
    )


@cache
def _complete() -> re.Pattern[str]:
    def one(*tables: str) -> str:
        # WB4: what extends a character belongs to it.
        return f"[{classes.char_class(*tables)}]{extend}*+"

    extend = f"[{classes.char_class(classes.EXTEND)}]"
    hebrew, digit, katakana = one(classes.HEBREW), one(classes.DIGIT), one(classes.KATAKANA)
    connector = one(classes.CONNECTOR)
    between_letters = one(classes.MID_LETTER, classes.MID_BOTH)
    between_digits = one(classes.MID_DIGIT, classes.MID_BOTH)
    letter = (
        f"(?:{hebrew}(?:'{extend}*+|\"{extend}*+(?=[{classes.char_class(classes.HEBREW)}]))?"
        f"|{one(classes.LETTER)})"
    )
    # A letter before a joiner must be a letter after it too; likewise for digits.
    letters = f"{letter}(?:{between_letters}{letter}|{letter})*+"
    digits = f"{digit}(?:{between_digits}{digit}|{digit})*+"
    core = f"(?:(?:{katakana})++|(?:{letters}|{digits})++)"
    word = f"(?:{connector})*+{core}(?:(?:{connector})++{core})*+(?:{connector})*+"
    flags = classes.char_class(classes.FLAG)
    modifier = "[\U0001f3fb-\U0001f3ff\ufe0f]"
    picture = f"[{classes.char_class(classes.PICTURE)}]{modifier}*+"
    tag = "[\U000e0020-\U000e007f]"
    emoji = f"[{flags}]{{2}}|[0-9#*]\ufe0f?\u20e3|{picture}(?:\u200d{picture}|{tag})*+"
    return re.compile(
        f"{emoji}|{word}|(?:{one(classes.COMPLEX)})++|{one(classes.HAN)}|{one(classes.HIRAGANA)}"
    )


def holds_word(token: str) -> bool:
    """Whether the token has a letter or a digit: connectors alone are no word."""
    return token.strip(_CONNECTORS) != ""


def _cut(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """All tokens, none longer than MAX_TOKEN: the scanner sees that far and starts again there."""
    for found in pattern.finditer(text):
        position, end = found.span()
        while end - position > MAX_TOKEN:
            part = pattern.search(text, position, position + MAX_TOKEN)
            if part is None:  # nothing but connectors in reach
                position += MAX_TOKEN
                continue
            if part.start() > position:
                part = pattern.match(text, part.start(), min(part.start() + MAX_TOKEN, end))
                assert part is not None
            yield part.group()
            position = part.end()
        yield from pattern.findall(text, position, end)


def pattern_for(text: str) -> re.Pattern[str]:
    """The cheapest expression that is right for this text."""
    if text.isascii():
        return _ASCII
    return _complete() if _special().search(text) else _plain()


def find_words(text: str) -> list[str]:
    """The tokens of any text, in order, as written.

    >>> find_words("The 9.5 km of l'eau, U.S.A.; snake_case 東京")
    ['The', '9.5', 'km', 'of', "l'eau", 'U.S.A', 'snake_case', '東', '京']
    """
    pattern = pattern_for(text)
    tokens = pattern.findall(text)
    if tokens and max(map(len, tokens)) > MAX_TOKEN:
        tokens = list(_cut(pattern, text))
    return [token for token in tokens if holds_word(token)]
