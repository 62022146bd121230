"""An exact calculator for arithmetic that a model wrote.

It is safe by construction, not by a time-out: the text is tokenised and evaluated with two explicit
stacks (no recursion, no `eval`, no names but the six functions listed), and length, nesting,
exponents and the size of every intermediate value are bounded before the work is done. Values are
integers or fractions, so ``0.1 + 0.2`` is 0.3 and ``1/3*3`` is 1.

Grammar: numbers (``12``, ``1.5``, ``.5``, ``1,234``, ``2e3``; a ``$`` before a number is skipped),
``+ - * / // % ** ^``, unary signs, brackets, ``abs min max round floor ceil``. ``^`` is ``**``. The
signs ``× ÷ −`` are accepted. Precedence is Python's (``-2**2`` is -4). ``%`` after an operand and
before an operand or a bracket is the remainder, as in Python; otherwise it is per cent: ``20%*50``
is 10. One ``=`` at the end is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

Number = int | Fraction

MAX_CHARS = 1_000
MAX_DEPTH = 50
MAX_BITS = 1_024
MAX_EXPONENT = 1_000


class CalculatorError(ValueError):
    """The expression has no value here; the message says why and, where it helps, at what place."""


_token = re.compile(
    r"[ \t\r\n]*(?:"
    r"\$?((?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:[eE][+-]?[0-9]{1,4}(?![0-9]))?)"
    r"|(\*\*|//|[-+*/%^(),×÷−])"
    r"|([A-Za-z_][A-Za-z_0-9]*)"
    r"|(\S))"
)
_plain = re.compile(r"([0-9]{1,15})([-+*])([0-9]{1,15})").fullmatch
_SIGNS = {"^": "**", "×": "*", "÷": "/", "−": "-"}
# (precedence, right-associative); unary signs bind tighter than * and looser than **, as in Python.
_BINARY = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2, "**": 4}
_UNARY = 3


def evaluate(expression: str) -> Number:
    """The exact value of an arithmetic expression.

    Args:
        expression: At most `MAX_CHARS` characters.

    Raises:
        CalculatorError: It can't be read, or a bound would be passed.
    """
    simple = _plain(expression)
    if simple:  # the commonest form, at a fifth of the cost
        left, sign, right = simple.groups()
        if sign == "+":
            return int(left) + int(right)
        return int(left) * int(right) if sign == "*" else int(left) - int(right)
    if len(expression) > MAX_CHARS:
        raise CalculatorError(
            f"the expression has {len(expression)} characters; at most {MAX_CHARS} are read"
        )
    return _Evaluation(expression).run()


class _Evaluation:
    """One shunting-yard run: `values` and `operators` are its stacks."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.values: list[Number] = []
        # Operators: "+", "neg", "pos", "(", or a function's name (its bracket).
        self.operators: list[str] = []
        self.counts: list[int] = []  # arguments so far of each open function
        self.depth = 0

    def run(self) -> Number:
        text = self.text
        end = len(text.rstrip())
        if text[:end].endswith("="):
            end -= 1
            text = text[:end]
        position, operand_next = 0, True
        while True:
            match = _token.match(text, position, end)
            if match is None:
                break
            kind, token, position = match.lastindex, match[match.lastindex or 0], match.end()
            if kind == 1:
                if not operand_next:
                    raise self._fault("an operator is missing before", token, match)
                if "," in token and self.counts:
                    # Inside a function's brackets a comma separates arguments.
                    token = token.split(",")[0]
                    position = match.start(1) + len(token)
                self.values.append(self._literal(token))
                operand_next = False
            elif kind == 2:
                token = _SIGNS.get(token, token)
                operand_next = self._sign(token, operand_next, match, position, end, text)
            elif kind == 3:
                if not operand_next:
                    raise self._fault("an operator is missing before", token, match)
                position = self._function(token, match, text, position, end)
            else:
                raise self._fault("can't read", token, match)
        if operand_next:
            raise CalculatorError(
                "the expression is empty" if not text.strip() else "a number is missing at the end"
            )
        while self.operators:
            if self.operators[-1] == "(" or self.operators[-1] in _FUNCTIONS:
                raise CalculatorError("a closing bracket is missing")
            self._apply(self.operators.pop())
        return self.values[0]

    def _sign(
        self,
        token: str,
        operand_next: bool,
        match: re.Match[str],
        position: int,
        end: int,
        text: str,
    ) -> bool:
        """Takes an operator, bracket or comma; says whether an operand must follow."""
        operators = self.operators
        if token == "(":
            if not operand_next:
                raise self._fault("an operator is missing before", token, match)
            self._open("(")
            return True
        if operand_next:
            if token not in "+-":
                if token == ")" and operators and operators[-1] == "(":
                    raise self._fault("nothing stands before", token, match)
                raise self._fault("a number is missing before", token, match)
            # A chain of signs costs stack, not recursion; its length is bounded by MAX_CHARS.
            operators.append("neg" if token == "-" else "pos")
            return True
        if token in "),":
            while operators and operators[-1] != "(" and operators[-1] not in _FUNCTIONS:
                self._apply(operators.pop())
            if not operators or (token == "," and operators[-1] == "("):
                raise self._fault("there is no open bracket for", token, match)
            if token == ",":
                self.counts[-1] += 1
                return True
            self.depth -= 1
            opener = operators.pop()
            if opener != "(":
                self._call(opener, self.counts.pop() + 1)
            return False
        if token == "%":
            following = _token.match(text, position, end)
            if following is None or (following.lastindex == 2 and following[2] != "("):
                # Per cent binds tighter than everything: it belongs to the operand before it.
                self.values[-1] = self._bounded(_divide(self.values[-1], 100))
                return False
        precedence = _BINARY[token]
        while operators:
            top = operators[-1]
            above = _BINARY.get(top) or (_UNARY if top in ("neg", "pos") else 0)
            # "**" is right-associative, so an equal one on the stack waits.
            if above > precedence or (above == precedence and token != "**"):
                self._apply(operators.pop())
            else:
                break
        operators.append(token)
        return True

    def _function(self, name: str, match: re.Match[str], text: str, position: int, end: int) -> int:
        following = _token.match(text, position, end)
        if name not in _FUNCTIONS:
            known = ", ".join(_FUNCTIONS)
            raise self._fault(f"there are no names but {known}; got", name[:20], match)
        if following is None or following[2] != "(":
            raise self._fault("an opening bracket is missing after", name, match)
        self._open(name)
        self.counts.append(0)
        return following.end()

    def _open(self, opener: str) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise CalculatorError(f"brackets are nested deeper than {MAX_DEPTH}")
        self.operators.append(opener)

    def _literal(self, token: str) -> Number:
        digits, _, exponent = token.replace(",", "").lower().partition("e")
        whole, _, decimals = digits.partition(".")
        value: Number = int((whole + decimals) or "0")
        power = int(exponent or "0") - len(decimals)
        if abs(power) > MAX_EXPONENT:
            raise CalculatorError("a number is too large or too small")
        if power > 0:
            value *= 10**power
        elif power < 0:
            value = _divide(value, 10**-power)
        return self._bounded(value)

    def _apply(self, operator: str) -> None:
        values = self.values
        right = values.pop()
        if operator == "neg":
            values.append(-right)
            return
        if operator == "pos":
            values.append(right)
            return
        left = values.pop()
        result: Number
        if operator == "+":
            result = left + right
        elif operator == "-":
            result = left - right
        elif operator == "*":
            result = left * right
        elif operator == "**":
            result = _power(left, right)
        else:
            if right == 0:
                raise CalculatorError("division by zero")
            if operator == "/":
                result = _divide(left, right)
            elif operator == "//":
                result = left // right
            else:
                result = left % right
        values.append(self._bounded(result))

    def _call(self, name: str, count: int) -> None:
        arguments = self.values[-count:]
        del self.values[-count:]
        least, most, function = _FUNCTIONS[name]
        if not least <= count <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise CalculatorError(f"{name} takes {wanted} arguments, got {count}")
        self.values.append(self._bounded(function(*arguments)))

    @staticmethod
    def _bounded(value: Number) -> Number:
        if type(value) is int:
            if value.bit_length() > MAX_BITS:
                raise CalculatorError("a value is too large")
            return value
        if value.numerator.bit_length() > MAX_BITS or value.denominator.bit_length() > MAX_BITS:
            raise CalculatorError("a value is too large or too fine")
        return value.numerator if value.denominator == 1 else value

    def _fault(self, what: str, token: str, match: re.Match[str]) -> CalculatorError:
        place = match.end() - len(match[match.lastindex or 0])
        return CalculatorError(f"{what} {token!r} (character {place + 1})")


def _divide(left: Number, right: Number) -> Number:
    """The quotient; an int where it is whole."""
    if type(left) is int and type(right) is int and left % right == 0:
        return left // right
    return Fraction(left) / right


def _power(base: Number, exponent: Number) -> Number:
    if exponent.denominator != 1:
        raise CalculatorError("an exponent must be a whole number")
    power = int(exponent)
    if base in (0, 1, -1):
        if base == 0 and power < 0:
            raise CalculatorError("division by zero")
        if base == 0:
            return int(power == 0)
        return 1 if base == 1 or power % 2 == 0 else -1
    if abs(power) > MAX_EXPONENT:
        raise CalculatorError(f"an exponent is larger than {MAX_EXPONENT}")
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    # n bits to the power p have at least (n - 1) p bits: refused before the work is done.
    if (bits - 1) * abs(power) > MAX_BITS:
        raise CalculatorError("a value is too large")
    result: Any = base ** abs(power)
    return _divide(1, result) if power < 0 else result


def _round(value: Number, places: Number = 0) -> Number:
    """Half to even, as in Python, on the exact value."""
    if places.denominator != 1 or not -100 <= places <= 100:
        raise CalculatorError("round takes a whole number of places from -100 to 100")
    rounded = round(Fraction(value), int(places))
    return Fraction(rounded)


_FUNCTIONS: dict[str, tuple[int, int, Callable[..., Number]]] = {
    "abs": (1, 1, abs),
    "min": (1, 20, lambda *values: min(values)),
    "max": (1, 20, lambda *values: max(values)),
    "round": (1, 2, _round),
    "floor": (1, 1, lambda value: value // 1),
    "ceil": (1, 1, lambda value: -(-value // 1)),
}


def format_number(value: Number) -> str:
    """A value as text: ``42``, ``0.25``; ``1/3 = about 0.333333`` where decimals never end.

    Whole numbers are written in full. Decimals are exact up to twelve places.
    """
    if type(value) is int:
        return str(value)
    numerator, denominator = value.numerator, value.denominator
    if denominator == 1:
        return str(numerator)
    if 10**12 % denominator == 0:
        scaled = abs(numerator) * 10**12 // denominator
        whole, part = divmod(scaled, 10**12)
        decimals = f"{part:012d}".rstrip("0")
        return f"{'-' if numerator < 0 else ''}{whole}.{decimals}"
    try:
        about = f"{numerator / denominator:.6g}"
    except OverflowError:
        about = f"{numerator // denominator}"
    if denominator < 10**6 and abs(numerator) < 10**12:
        return f"{numerator}/{denominator} = about {about}"
    return f"about {about}"


def calculate(expression: str) -> str:
    """The value of an expression as text.

    Raises:
        CalculatorError: see `evaluate`.
    """
    return format_number(evaluate(expression))
