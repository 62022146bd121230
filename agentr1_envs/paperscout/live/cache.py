"""Answers of a service kept in one SQLite file, with an expiry."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from agentr1_envs.arguments import number
from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.paperscout.files import default_cache_dir

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, body BLOB NOT NULL, "
    "stored REAL NOT NULL) WITHOUT ROWID"
)


def default_cache_path() -> Path:
    """The file that is used when none is named."""
    return default_cache_dir() / "paperscout.sqlite"


class ResponseCache:
    """Bodies by key; safe for several threads, several processes and after a fork.

    Args:
        path: the SQLite file; its folder is made.
        max_age: seconds after which an answer is no longer used (except offline).
        clock: seconds since the epoch; replaced in tests.

    Raises:
        EnvironmentFault: the file cannot be opened or is no SQLite database.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        max_age: float = 30 * 86400.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        self.max_age = number("max_age", max_age)
        self._clock = clock
        self._local = threading.local()
        self._connection()

    def _connection(self) -> sqlite3.Connection:
        # A connection serves one thread of one process: SQLite forbids carrying it over a fork.
        if getattr(self._local, "pid", None) == os.getpid():
            return self._local.connection
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=30.0, isolation_level=None)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(_SCHEMA)
        except (sqlite3.Error, OSError) as error:
            try:
                connection = self._unwritable()
            except sqlite3.Error:
                raise self._fault(error) from error
        self._local.connection, self._local.pid = connection, os.getpid()
        return connection

    def _unwritable(self) -> sqlite3.Connection:
        """A file on a disk that cannot be written, to answer from; storing is a fault then."""
        address = f"file:{quote(os.path.abspath(self.path))}?mode=ro&immutable=1"
        connection = sqlite3.connect(address, uri=True, isolation_level=None)
        connection.execute("SELECT key FROM answers LIMIT 1")
        return connection

    def _fault(self, error: Exception) -> EnvironmentFault:
        return EnvironmentFault(
            f"response cache {self.path}: {error}; expected a SQLite file this process can "
            "write (delete it, or choose another with cache_path=)"
        )

    def get(self, key: str, *, any_age: bool = False) -> bytes | None:
        """The stored body, None when there is none or (without ``any_age``) it is too old."""
        try:
            row = (
                self._connection()
                .execute("SELECT body, stored FROM answers WHERE key = ?", (key,))
                .fetchone()
            )
        except sqlite3.Error as error:
            raise self._fault(error) from error
        if row is None or (not any_age and self._clock() - row[1] > self.max_age):
            return None
        return bytes(row[0])

    def put(self, key: str, body: bytes) -> None:
        """Stores a body under a key, in place of an earlier one."""
        try:
            self._connection().execute(
                "INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (key, body, self._clock())
            )
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def purge(self) -> int:
        """Deletes what has expired; returns how many answers that were."""
        try:
            cursor = self._connection().execute(
                "DELETE FROM answers WHERE stored < ?", (self._clock() - self.max_age,)
            )
        except sqlite3.Error as error:
            raise self._fault(error) from error
        return cursor.rowcount

    def __reduce__(self) -> tuple[type[ResponseCache], tuple[str, float]]:
        return type(self), (str(self.path), self.max_age)
