"""Values that are made once a process, however many threads ask for them at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
# One lock for all: a value may need another, and making any of them is a matter of a second.
_lock = threading.RLock()


def once(make: Callable[P, T]) -> Callable[P, T]:
    """Keep what a function returns for each of its arguments; threads wait for the first one.

    ``functools.lru_cache`` would let every waiting thread make the value again.
    """
    made: dict[tuple[object, ...], T] = {}

    @wraps(make)
    def get(*args: P.args, **kwargs: P.kwargs) -> T:
        key = (*args, *sorted(kwargs.items()))
        if key not in made:
            with _lock:
                if key not in made:
                    made[key] = make(*args, **kwargs)
        return made[key]

    return get
