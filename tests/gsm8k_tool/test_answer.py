"""Reading and comparing answers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentr1_envs.gsm8k_tool.answer import extract_answer, parse_number, same_number, score_reply

ACCEPTED = [
    ("42", 42), ("42.0", 42), ("$42", 42), ("42.", 42), ("42.00", 42), ("+42", 42), ("042", 42),
    ("1,234", 1234), ("$1,234.50", Fraction(2469, 2)), ("1,234,567 people", 1234567),
    ("-3", -3), ("\u22123", -3), ("- 3", -3), ("-$3", -3), ("$-3", -3), ("\u20133", -3),
    ("1/2", Fraction(1, 2)), ("0.5", Fraction(1, 2)), (".5", Fraction(1, 2)), ("5 / 2", 2.5),
    ("42 apples", 42), ("42 apples.", 42), ("42%", 42), ("42 km/h", 42), ("42 m2", 42), ("42²", 42),
    ("42 m^2", 42), ("42!", 42), ("42)", 42), ("**42**", 42), ("`42`", 42), ("4２", 42),
    ("€42", 42), ("42个", 42), (" 42 ", 42), ("42th", 42),
]  # fmt: skip
REFUSED = [
    "", " ", "nan", "NaN", "inf", "-inf", "Infinity", "x", "forty", "$", "-", "--3", "1e5", "1,23",
    "12,34", "1,2345", "1, 2", "42 or 43", "4 2", "1/0", "3.4.5", "5-3", "1 1/2", "10:30", "1/2/3",
    "= 42", "answer 42", "9" * 300, "42 43 44", "٤٢", "½", "0x10", "1_000", "True", "42 4３",
    "5x3", "3*4",
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), ACCEPTED)
def test_accepted(text: str, value: float) -> None:
    assert parse_number(text) == value
    assert score_reply(f"So\n#### {text}", str(value)) == 1.0


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    assert parse_number(text) is None
    assert not same_number(text, text)
    assert not same_number(text, "42") and not same_number("42", text)


def test_extract() -> None:
    assert extract_answer("x") is None
    assert extract_answer("####") == ""
    assert extract_answer("#### 1\n#### 2\nbye") == "2"
    assert extract_answer("#####7") == "7"
    assert extract_answer("####\n42") == ""
    assert score_reply("42", "42") == 0.0
    assert score_reply("#### 42\n#### 41", "42") == 0.0, "only the last answer counts"
    assert score_reply("#### 41 42 43", "42") == 0.0, "a list of guesses is no answer"
    assert score_reply("####" * 250_000 + "1", "1") == 1.0
    assert score_reply("#### " + "1" * 1_000_000, "1") == 0.0


@given(st.text(max_size=40))
def test_any_text(text: str) -> None:
    value = parse_number(text)
    assert value is None or isinstance(value, Fraction)
    extract_answer(text)


@given(st.integers(-(10**9), 10**9))
def test_every_way_to_write_a_whole_number(number: int) -> None:
    for text in (f"{number}", f"{number:,}", f"{number}.0", f"{number:,}.00", f"{number} cm."):
        assert parse_number(text) == number
    assert parse_number(f"{number}".replace("-", "\u2212")) == number
