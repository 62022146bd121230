"""Checks of constructor arguments, which also come from command lines and data rows."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from agentr1_envs.errors import shorten


def whole(name: str, value: Any, least: int = 1) -> int:
    """`value` as an int.

    Raises:
        ValueError: It is no whole number (a bool, a float and a str are none) or below `least`.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def number(name: str, value: Any, least: float | None = 0.0) -> float:
    """`value` as a float.

    Raises:
        ValueError: It is no number, not finite, or below `least` (None: any finite one will do).
    """
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    # An int of JSON may be larger than any float.
    if not real or not abs(value) <= sys.float_info.max or (least is not None and value < least):
        bound = "" if least is None else f" of at least {least:g}"
        raise ValueError(f"{name} must be a finite number{bound}, got {shorten(repr(value))}")
    return float(value)


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
