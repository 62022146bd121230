"""Random numbers that depend on nothing but their names.

``derive("hotpotqa", "train", 17)`` is the same generator on every machine, in every process and
thread, whatever ran before. Python's ``hash`` is salted per process and the global random state is
shared with the user's program, so neither is ever used.
"""

from __future__ import annotations

import hashlib
import random

import numpy as np


def derive_int(*parts: str | int, bits: int = 64) -> int:
    """An integer in [0, 2**bits) made from `parts` by BLAKE2b."""
    text = "\x1f".join(str(part) for part in parts).encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(text, digest_size=(bits + 7) // 8).digest()
    return int.from_bytes(digest, "little") & ((1 << bits) - 1)


def derive(*parts: str | int) -> np.random.Generator:
    """A NumPy generator (PCG64) seeded from `parts`."""
    return np.random.Generator(np.random.PCG64(derive_int(*parts, bits=128)))


def derive_random(*parts: str | int) -> random.Random:
    """A `random.Random` seeded from `parts`; cheaper than NumPy for a few scalar draws."""
    return random.Random(derive_int(*parts, bits=128))


def short_hash(text: str) -> str:
    """16 hexadecimal digits that stand for `text`."""
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=8).hexdigest()
