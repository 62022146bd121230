"""Checks of constructor arguments, which also come from command lines and data rows."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from agentr1_envs.errors import shorten


def whole(name: str, value: Any, least: int = 1) -> int:
    """`value` as an int.

    Raises:
        ValueError: It is no whole number (a bool, a float and a str are none), below `least` or
            too large to be a length.
    """
    whole_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole_number or not least <= value <= sys.maxsize:
        got = shorten(repr(value))
        raise ValueError(f"{name} must be a whole number of at least {least}, got {got}")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """`value` as a bool.

    Raises:
        ValueError: It is none: "no" and "off" from a command line would otherwise be true.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be true or false, got {shorten(repr(value))}")
    return bool(value)


def number(name: str, value: Any, least: float | None = 0.0) -> float:
    """`value` as a float.

    Raises:
        ValueError: It is no number, not finite, or below `least` (None: any finite one will do).
    """
    real = math.nan
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):  # an int of JSON may be larger than any float
            real = float(value)
    if not math.isfinite(real) or (least is not None and real < least):
        bound = "" if least is None else f" of at least {least:g}"
        raise ValueError(f"{name} must be a finite number{bound}, got {shorten(repr(value))}")
    return real


def share(name: str, value: Any) -> float:
    """`value` as a float in (0, 1].

    Raises:
        ValueError: It is no such number.
    """
    if not 0 < number(name, value) <= 1:
        raise ValueError(f"{name}: expected a value in (0, 1], got {value!r}")
    return float(value)


def mapping(name: str, value: Any) -> dict[str, Any]:
    """`value` as a dict of its own; None is the empty one.

    Raises:
        ValueError: It is no mapping.
    """
    if value is not None and not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a mapping or None, got {value!r}")
    return dict(value or {})
