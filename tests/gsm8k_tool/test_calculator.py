"""The calculator: exact, equal to Python where Python is exact, and bounded."""

from __future__ import annotations

import contextlib
import re
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentr1_envs.gsm8k_tool.calculator import (
    MAX_CHARS,
    CalculatorError,
    calculate,
    evaluate,
    format_number,
)

VALUES = [
    ("3*4", "12"),
    ("0.1+0.2", "0.3"),
    ("1/3*3", "1"),
    ("1/3", "1/3 = about 0.333333"),
    ("-2**2", "-4"),
    ("2**-1", "0.5"),
    ("2**3**2", "512"),
    ("2^10", "1024"),
    ("7//2", "3"),
    ("-7//2", "-4"),
    ("7%3", "1"),
    ("7%(3)", "1"),
    ("20%*50", "10"),
    ("100-20%", "99.8"),
    ("(5+5)%", "0.1"),
    ("1,234+1", "1235"),
    ("$5*3", "15"),
    ("3*4=", "12"),
    (" 3 * 4 ", "12"),
    ("3×4÷2−1", "5"),
    ("max(1,234)", "234"),
    ("max(1, 2, 3)-min(4,5)", "-1"),
    ("round(2.567, 2)", "2.57"),
    ("round(2.5)", "2"),
    ("floor(-1.5)+ceil(1.2)", "0"),
    ("abs(-3)", "3"),
    ("--3", "3"),
    ("2e3", "2000"),
    (".5+5.", "5.5"),
    ("0**0", "1"),
    ("1/1000000", "0.000001"),
    ("-1/8", "-0.125"),
    ("2**1000", str(2**1000)),
]


@pytest.mark.parametrize(("expression", "value"), VALUES)
def test_values(expression: str, value: str) -> None:
    assert calculate(expression) == value


ERRORS = [
    ("9**9**9", "exponent"),
    ("3999999**3999999", "exponent"),
    ("(" * 10_000 + ")" * 10_000, "characters"),
    ("(" * 400 + "1" + ")" * 400, "nested deeper"),
    ("1" * 1_000_000, "characters"),
    ("1+" * 500_000 + "1", "characters"),
    ("__import__('os')", "no names but"),
    ("os.system", "no names but"),
    ("9" * 900, "too large"),
    ("2**1000*2**1000", "too large"),
    ("1.1**900", "too large"),
    ("9e999", "too large"),
    ("1e-999", "too large or too fine"),
    ("1e99999", "missing before|can't read|too large"),
    ("2**0.5", "whole number"),
    ("round(1, 1000)", "places"),
    ("round(1, 0.5)", "places"),
    ("1/0", "division by zero"),
    ("1//0", "division by zero"),
    ("1%(0)", "division by zero"),
    ("0**-1", "division by zero"),
    ("", "empty"),
    ("  ", "empty"),
    ("=", "empty"),
    ("3 4", r"missing before '4' \(character 3\)"),
    ("2(3)", "missing before"),
    ("(1", "closing bracket"),
    ("max(1", "closing bracket"),
    ("1)", "no open bracket"),
    ("()", "nothing stands before"),
    ("min()", "missing before"),
    ("max(3,)", "missing before"),
    ("abs(1,2)", "abs takes 1"),
    ("3,4", "no open bracket"),
    ("(3,4)", "no open bracket"),
    ("max", "opening bracket"),
    ("3*", "missing at the end"),
    ("*3", "missing before"),
    ("1.5.2", "missing before"),
    ("٣+1", "can't read"),
    ("x=3", "no names but"),
    ("3;4", "can't read"),
    ("'a'*9", "can't read"),
    ("nan", "no names but"),
    ("inf", "no names but"),
    ("1_000", "missing before"),
    ("0x10", "missing before"),
    ("3\x00", "can't read"),
]


@pytest.mark.parametrize(("expression", "message"), ERRORS)
def test_errors(expression: str, message: str) -> None:
    with pytest.raises(CalculatorError, match=message) as caught:
        calculate(expression)
    assert len(str(caught.value)) < 200


# Numbers and bases of powers stand between marks, so that one text serves both sides: in Python a
# power of an int may be a float.
numbers = st.integers(0, 10**6).map("<{}>".format) | st.builds(
    "<{}.{:03}>".format, st.integers(0, 9999), st.integers(0, 999)
)
expressions = st.recursive(
    numbers,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//"]), inner).map("".join)
        | inner.map("({})".format)
        | inner.map("-{}".format)
        | st.tuples(inner, st.sampled_from(["**2", "**3", "**-1"])).map(
            lambda p: f"{{({p[0]})}}{p[1]}"
        )
        | st.tuples(inner, inner).map(lambda p: f"max({p[0]},({p[1]}))")
    ),
    max_leaves=12,
)


@settings(max_examples=400, deadline=None)
@given(expressions)
def test_equal_to_python_on_fractions(expression: str) -> None:
    python = re.sub(r"<(.+?)>", r"Fraction('\1')", expression)
    python = python.replace("{", "Fraction(").replace("}", ")")
    expression = re.sub(r"[<>{}]", "", expression)
    try:
        expected = eval(python, {"Fraction": Fraction, "max": max})
    except ZeroDivisionError:
        with pytest.raises(CalculatorError, match="division by zero"):
            evaluate(expression)
        return
    try:
        value = evaluate(expression)
    except CalculatorError as error:
        assume("too " not in str(error) and "nested" not in str(error))
        assume("characters" not in str(error))
        raise
    assert value == expected
    assert type(value) is int or (type(value) is Fraction and value.denominator != 1)


ALPHABET = [*"0123456789.,()+-*/%^$= eE", "**", "//", "max(", "round(", "abs", "×", "é", "\n"]


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(ALPHABET), max_size=40).map("".join) | st.text(max_size=40))
def test_any_text_gives_a_value_or_a_calculator_error(expression: str) -> None:
    try:
        text = calculate(expression)
    except CalculatorError:
        return
    assert re.fullmatch(r"-?[0-9]+(\.[0-9]+)?|(-?[0-9]+/[0-9]+ = )?about -?[0-9.e+-]+", text)


@given(st.integers(-(10**18), 10**18), st.sampled_from([1, 2, 4, 5, 8, 10, 25, 1000, 10**12]))
def test_exact_decimals_read_back(numerator: int, denominator: int) -> None:
    value = Fraction(numerator, denominator)
    assert Fraction(format_number(value)) == value


@pytest.mark.timeout(60)
def test_the_costliest_expressions_are_cheap() -> None:
    """Thousands of the worst that the bounds allow; unbounded work would never end."""
    worst = [
        "*".join(["1.000000001"] * 80),
        "+".join(f"1/{n}" for n in range(3, 200)),
        "-" * (MAX_CHARS - 1) + "1",
        "(" * 50 + "2**1000" + ")" * 50 + "%" * 800,
        "2**1000/3**600*5**400/7**300",
        "/".join(["7"] * 500),
    ]
    for expression in worst * 100:
        with contextlib.suppress(CalculatorError):
            calculate(expression)
