"""Spaces for text: `UnicodeText` (a str) and `ChatMessages` (a tuple of message dicts).

Gymnasium's own `Text` needs a fixed character set and, in `AsyncVectorEnv` with shared memory,
silently returns its initial buffer for every observation. These two spaces take any Unicode text,
and the functions registered below make SyncVectorEnv, AsyncVectorEnv (with shared memory),
FrameStackObservation and RecordEpisodeStatistics return what a single environment returns.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector.utils import (
    concatenate,
    create_empty_array,
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from gymnasium.vector.utils.space_utils import batch_differing_spaces
from gymnasium.wrappers.utils import create_zero_array

Message = dict[str, Any]

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class UnicodeText(Space[str]):
    """Any str of at most `max_length` characters (code points), the empty one included.

    Args:
        max_length: Longest text, in characters. A shared-memory slot takes four bytes for each.
        seed: Seed of `sample`.
    """

    def __init__(self, max_length: int = 131_072, *, seed: int | None = None) -> None:
        if max_length < 0:
            raise ValueError(f"max_length must be at least 0, got {max_length}")
        self.max_length = int(max_length)
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: a text has no array form."""
        return False

    def contains(self, x: Any) -> bool:
        """Whether `x` is a str that is short enough."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: None = None, probability: None = None) -> str:
        """A short text of a few lower-case words, and now and then another script."""
        if mask is not None or probability is not None:
            raise ValueError("UnicodeText.sample takes neither a mask nor a probability")
        rng = self.np_random
        words = [
            "".join(_LETTERS[i] for i in rng.integers(26, size=rng.integers(1, 9)))
            for _ in range(rng.integers(1, 5))
        ]
        if rng.integers(4) == 0:
            words.append("水🙂é")
        return " ".join(words)[: self.max_length]

    def to_jsonable(self, sample_n: Iterable[str]) -> list[str]:
        """The samples as a list."""
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        """The samples from a list."""
        return [str(sample) for sample in sample_n]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.max_length == self.max_length  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.max_length))

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"


class ChatMessages(Space[tuple[Message, ...]]):
    """A conversation: a tuple of ``{"role": str, "content": str, ...}`` dicts.

    Args:
        max_chars: Longest conversation, in characters of its JSON form.
        seed: Seed of `sample`.
    """

    roles: ClassVar[tuple[str, ...]] = ("system", "user", "assistant", "tool")

    def __init__(self, max_chars: int = 524_288, *, seed: int | None = None) -> None:
        if max_chars < 2:
            raise ValueError(f"max_chars must be at least 2, got {max_chars}")
        self.max_chars = int(max_chars)
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: a conversation has no array form."""
        return False

    def contains(self, x: Any) -> bool:
        """Whether `x` is a tuple of messages with known roles and str content."""
        if not isinstance(x, tuple):
            return False
        size = 2
        for message in x:
            if not isinstance(message, dict) or message.get("role") not in self.roles:
                return False
            content = message.get("content")
            if not isinstance(content, str):
                return False
            size += len(content)
        return size <= self.max_chars

    def sample(self, mask: None = None, probability: None = None) -> tuple[Message, ...]:
        """A system message and a user message of a word each."""
        if mask is not None or probability is not None:
            raise ValueError("ChatMessages.sample takes neither a mask nor a probability")
        text = UnicodeText(64)
        text.seed(int(self.np_random.integers(2**31)))
        return (
            {"role": "system", "content": text.sample()},
            {"role": "user", "content": text.sample()},
        )

    def to_jsonable(self, sample_n: Iterable[tuple[Message, ...]]) -> list[list[Message]]:
        """Each conversation as a list of messages."""
        return [[dict(message) for message in sample] for sample in sample_n]

    def from_jsonable(self, sample_n: list[Any]) -> list[tuple[Message, ...]]:
        """Conversations from lists of messages."""
        return [tuple(dict(message) for message in sample) for sample in sample_n]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.max_chars == self.max_chars  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.max_chars))

    def __repr__(self) -> str:
        return f"ChatMessages({self.max_chars})"


# --- Gymnasium's dispatch ------------------------------------------------------------------------
# `batch_space` (a Tuple of copies) and `concatenate` (a tuple) are right by Gymnasium's default for
# custom spaces. `iterate` must NOT be registered: Gymnasium iterates a Tuple of registered spaces
# leaf by leaf, which for a str would be character by character.


def _encode(space: Space[Any], value: Any) -> bytes:
    if isinstance(space, UnicodeText):
        return value.encode("utf-8", "surrogatepass")
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _decode(space: Space[Any], data: bytes) -> Any:
    text = data.decode("utf-8", "surrogatepass")
    return text if isinstance(space, UnicodeText) else tuple(json.loads(text))


def _zero(space: Space[Any]) -> Any:
    return "" if isinstance(space, UnicodeText) else ()


def _slot_bytes(space: UnicodeText | ChatMessages) -> int:
    chars = space.max_length if isinstance(space, UnicodeText) else space.max_chars
    return 4 * chars + 8  # UTF-8 takes at most four bytes a character; eight hold the length


class SharedTexts(Sequence[Any]):
    """A live view on the slots: AsyncVectorEnv reads shared memory once and keeps the result.

    Copying it (which AsyncVectorEnv does for every step unless ``copy=False``) gives the plain
    tuple of what the environments wrote.
    """

    def __init__(self, space: UnicodeText | ChatMessages, memory: Any, n: int) -> None:
        self._space, self._memory, self._n = space, memory, n

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(self._n)))
        index = index + self._n if index < 0 else index
        if not 0 <= index < self._n:
            raise IndexError(index)
        size = _slot_bytes(self._space)
        buffer = memoryview(self._memory.get_obj()).cast("B")
        start = int(index) * size
        length = int.from_bytes(buffer[start : start + 8], "little")
        if length == 0:
            return _zero(self._space)
        return _decode(self._space, bytes(buffer[start + 8 : start + 8 + length]))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self._n))

    def __copy__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[Any, ...]:
        return tuple(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, SharedTexts)) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


for _cls in (UnicodeText, ChatMessages):

    @create_empty_array.register(_cls)
    def _create_empty(space: Any, n: int = 1, fn: Any = np.zeros) -> tuple[Any, ...]:
        return tuple(_zero(space) for _ in range(n))

    @create_zero_array.register(_cls)
    def _create_zero(space: Any) -> Any:
        return _zero(space)

    @concatenate.register(_cls)
    def _concatenate(space: Any, items: Any, out: Any) -> tuple[Any, ...]:
        return tuple(items)

    @batch_differing_spaces.register(_cls)
    def _batch_differing(spaces: Sequence[Any]) -> Any:
        from gymnasium.spaces import Tuple

        return Tuple([type(s)(*_size(s)) for s in spaces])

    @create_shared_memory.register(_cls)
    def _create_shared(space: Any, n: int = 1, ctx: Any = multiprocessing) -> Any:
        return ctx.Array(ctypes.c_uint8, n * _slot_bytes(space))

    @read_from_shared_memory.register(_cls)
    def _read_shared(space: Any, shared_memory: Any, n: int = 1) -> Any:
        return SharedTexts(space, shared_memory, n)

    @write_to_shared_memory.register(_cls)
    def _write_shared(space: Any, index: int, value: Any, shared_memory: Any) -> None:
        data, size = _encode(space, value), _slot_bytes(space)
        if len(data) > size - 8:
            raise ValueError(
                f"observation of {len(data)} bytes does not fit {space!r}: "
                "the environment returned something outside its observation space"
            )
        buffer = memoryview(shared_memory.get_obj()).cast("B")
        start = index * size
        buffer[start : start + 8] = len(data).to_bytes(8, "little")
        buffer[start + 8 : start + 8 + len(data)] = data


def _size(space: UnicodeText | ChatMessages) -> tuple[int]:
    return (space.max_length if isinstance(space, UnicodeText) else space.max_chars,)
