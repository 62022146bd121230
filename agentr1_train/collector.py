"""Python's garbage collector while thousands of episodes are open."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_OBJECTS_PER_EPISODE = 10  # new containers that open episodes hold on to in a step or two

_lock = threading.Lock()
_asked: list[int] = []
_before: tuple[int, int, int] | None = None


@contextmanager
def rare_collections(episodes: int) -> Iterator[None]:
    """Collect once for some steps of all open episodes, not once for every 700 new objects.

    What a step makes is kept (transitions) or freed by its reference count, so a collection finds
    next to nothing, yet looks at all the young objects of all the open episodes: at 4,000 of them
    that was a third of the loop's time, in pauses of up to 90 ms. Only the first threshold changes,
    only upwards, and it is set back at the end; a collector that is switched off stays so.

    Args:
        episodes: how many are open at once. Loops in other threads may ask too: the highest holds.
    """
    global _before
    wanted = _OBJECTS_PER_EPISODE * episodes
    with _lock:
        if not _asked:
            _before = gc.get_threshold()
        _asked.append(wanted)
        _set()
    try:
        yield
    finally:
        with _lock:
            ours = _threshold()
            _asked.remove(wanted)
            # Whoever set another threshold meanwhile keeps it.
            if gc.get_threshold()[0] == ours:
                _set()


def _threshold() -> int:
    assert _before is not None
    return max([_before[0], *_asked]) if _before[0] else 0


def _set() -> None:
    gc.set_threshold(_threshold(), *gc.get_threshold()[1:])
