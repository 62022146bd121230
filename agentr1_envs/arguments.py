"""Checks of constructor arguments, which also come from command lines and data rows."""

from __future__ import annotations

from typing import Any

import numpy as np


def whole(name: str, value: Any, least: int = 1) -> int:
    """`value` as an int.

    Raises:
        ValueError: It is no whole number (a bool, a float and a str are none) or below `least`.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def number(name: str, value: Any, least: float = 0.0) -> float:
    """`value` as a float.

    Raises:
        ValueError: It is no number, not finite, or below `least`.
    """
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not real or not least <= value < float("inf"):
        raise ValueError(f"{name} must be a finite number of at least {least:g}, got {value!r}")
    return float(value)
