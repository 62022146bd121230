"""Reading one huge JSON array or object value by value, never the whole file in memory.

The official product file is a single array of 5.5 GB. Python's own C decoder reads a value from a
position in a text, so a window over the file is enough: no further dependency is needed.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agentr1_envs.errors import TaskDataError

_SPACE = re.compile(r"[ \t\r\n]*")
CHUNK_BYTES = 4 << 20
MAX_VALUE_CHARS = 64 << 20


class JsonWindow:
    """A moving window over a JSON file.

    Args:
        path: UTF-8 JSON (a byte order mark is skipped).
        on_bytes: Called with the number of bytes of each chunk read, for progress bars.
        digest: Updated with each chunk, so that a file is hashed while it is read.
    """

    def __init__(
        self,
        path: Path,
        on_bytes: Callable[[int], None] | None = None,
        digest: hashlib._Hash | None = None,
    ) -> None:
        self.path, self._on_bytes, self._digest = path, on_bytes, digest
        self._file = path.open("rb")
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="strict")
        self._scan = json.JSONDecoder().raw_decode
        self._text, self._at, self._before, self._ended = "", 0, 0, False

    def __enter__(self) -> JsonWindow:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def fail(self, expected: str, value: Any = None) -> TaskDataError:
        """An error that names the file and the position in characters."""
        shown = self._text[self._at : self._at + 60] if value is None else value
        place = self._before + self._at
        return TaskDataError(str(self.path), f"{expected} at character {place}", value=shown)

    def _more(self) -> bool:
        if self._ended:
            return False
        chunk = self._file.read(CHUNK_BYTES)
        if self._on_bytes is not None:
            self._on_bytes(len(chunk))
        if self._digest is not None:
            self._digest.update(chunk)
        self._ended = not chunk
        try:
            new = self._decoder.decode(chunk, final=self._ended)
        except UnicodeDecodeError as error:
            raise self.fail(f"UTF-8 text ({error.reason})", error.object[error.start :][:8]) from (
                None
            )
        self._before += self._at
        self._text, self._at = self._text[self._at :] + new, 0
        return True

    def peek(self) -> str:
        """The next character that is no white space; "" at the end of the file."""
        while True:
            match = _SPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, characters: str, expected: str) -> str:
        """Step over the next character, which must be one of `characters`."""
        found = self.peek()
        if not found or found not in characters:
            raise self.fail(expected)
        self._at += 1
        return found

    def value(self) -> Any:
        """The next JSON value."""
        self.peek()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except json.JSONDecodeError as error:
                # Either the window ends inside the value or the file is broken here. A value that
                # fails well before the window's end can't be cured by more text.
                cut = error.pos >= len(self._text) - 16 or error.msg.startswith("Unterminated")
                if cut and len(self._text) - self._at < MAX_VALUE_CHARS and self._more():
                    continue
                self._at = max(self._at, min(error.pos, len(self._text)))
                raise self.fail(f"JSON ({error.msg})") from None
            except RecursionError:
                raise self.fail("JSON that is not nested thousands of levels deep") from None
            # A number may go on in the next chunk: "1" or "1e+" may become "1e+5".
            rest = self._text[end : end + 3]
            at_end = end + len(rest) == len(self._text) and not rest.strip("+-.eE0123456789")
            if at_end and isinstance(value, (int, float)) and self._more():
                continue
            self._at = end
            return value

    def finish(self) -> None:
        """Nothing but white space may follow."""
        if self.peek():
            raise self.fail("the end of the file")


def iter_array(window: JsonWindow) -> Iterator[Any]:
    """The elements of the file's one array.

    Raises:
        TaskDataError: The file holds something else or is broken; what came before was yielded.
    """
    window.take("[", "a JSON array, '['")
    if window.peek() == "]":
        window.take("]", "']'")
    else:
        while True:
            yield window.value()
            if window.take(",]", "',' or ']'") == "]":
                break
    window.finish()


def iter_items(window: JsonWindow) -> Iterator[tuple[str, Any]]:
    """The (key, value) pairs of the file's one object.

    Raises:
        TaskDataError: The file holds something else or is broken; what came before was yielded.
    """
    window.take("{", "a JSON object, '{'")
    if window.peek() == "}":
        window.take("}", "'}'")
    else:
        while True:
            if window.peek() != '"':
                raise window.fail("a key in quotes")
            key = window.value()
            window.take(":", "':'")
            yield key, window.value()
            if window.take(",}", "',' or '}'") == "}":
                break
    window.finish()
