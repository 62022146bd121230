"""Requests with everything a rate-limited public service asks for.

One limiter a host serves all clients of the process, so that a thousand environments together
stay within what the service allows one user. A failure that lasts is an `EnvironmentFault`; it
never looks like an empty answer.
"""

from __future__ import annotations

import email.utils
import hashlib
import json
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode, urlsplit

from agentr1_envs.arguments import number, whole
from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.paperscout.live.cache import ResponseCache

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
USER_AGENT = "agentr1 (literature search environment)"


class MalformedAnswer(ValueError):
    """A body that is not what the service documents; raised by parsers, retried by the client."""


class HostLimiter:
    """At most one request every ``interval`` seconds to one host, over all threads."""

    _all: dict[str, HostLimiter] = {}
    _registry_lock = threading.Lock()

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0.0

    @classmethod
    def of(cls, host: str) -> HostLimiter:
        """The limiter that every client of ``host`` in this process shares."""
        with cls._registry_lock:
            return cls._all.setdefault(host, cls())

    def reserve(self, interval: float) -> float:
        """Takes the next free place; returns how many seconds from now it is."""
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + interval
            return start - now

    def postpone(self, seconds: float) -> None:
        """Nobody asks this host again for ``seconds``."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)


def retry_after(value: str | None, now: float) -> float | None:
    """Seconds that a Retry-After header asks for (a number or an HTTP date), or None."""
    if not value:
        return None
    text = value.strip()
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return None


class LiveClient:
    """Requests to one service.

    Args:
        base_url: scheme, host and path prefix of the service.
        interval: seconds between two requests of this process to the host.
        timeout: seconds for one try, from the connection to the last byte.
        tries: how often a request is sent before it is given up.
        backoff: seconds before the second try; doubles with each further one, with jitter.
        max_wait: the longest Retry-After that is waited for; a longer one is a fault at once.
        max_bytes: the largest body that is read.
        cache: where answers are kept; None keeps none.
        offline: answer from the cache only, whatever the age; anything else is a fault.
        headers: sent with each request; never stored and never part of an error text.
    """

    def __init__(
        self,
        base_url: str,
        *,
        interval: float = 1.0,
        timeout: float = 20.0,
        tries: int = 4,
        backoff: float = 1.0,
        max_wait: float = 60.0,
        max_bytes: int = 16 << 20,
        cache: ResponseCache | None = None,
        offline: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(f"base_url: expected http(s)://host/..., got {base_url!r}")
        if offline and cache is None:
            raise ValueError("offline=True needs a cache to answer from")
        self.base_url = base_url.rstrip("/")
        self.interval = number("interval", interval)
        self.timeout = number("timeout", timeout)
        self.tries = whole("tries", tries)
        self.backoff = number("backoff", backoff)
        self.max_wait = number("max_wait", max_wait)
        self.max_bytes = whole("max_bytes", max_bytes)
        self.cache = cache
        self.offline = offline
        self._headers = {"User-Agent": USER_AGENT, **(headers or {})}
        self._limiter = HostLimiter.of(parts.netloc.lower())
        self._client: httpx.Client | None = None
        self._pid = 0
        self._client_lock = threading.Lock()
        # Jitter keeps processes apart; it decides no result, so it needs no seed of a task.
        self._jitter = random.Random()

    def get(
        self,
        path: str,
        params: Mapping[str, str | int],
        parse: Callable[[bytes], T],
        *,
        missing_ok: bool = False,
    ) -> T | None:
        """The parsed answer to a GET request.

        Args:
            path: below the base URL.
            params: the query string; sorted, so that equal requests share a cache entry.
            parse: turns the body into a value; raises `MalformedAnswer` on a bad one.
            missing_ok: a 404 is an answer (None) instead of a fault.

        Raises:
            EnvironmentFault: no good answer after all tries, or offline without a stored one.
        """
        url = f"{self.base_url}/{path.lstrip('/')}?{urlencode(sorted(params.items()))}"
        return self._answer("GET", url, None, parse, missing_ok)

    def post(self, path: str, payload: Any, parse: Callable[[bytes], T]) -> T:
        """The parsed answer to a POST request with a JSON body; cached by URL and body.

        Args:
            path: below the base URL.
            payload: JSON value.
            parse: as for `get`.

        Raises:
            EnvironmentFault: as for `get`.
        """
        url = f"{self.base_url}/{path.lstrip('/')}"
        body = json.dumps(payload, sort_keys=True, ensure_ascii=False)
        value = self._answer("POST", url, body.encode("utf-8", "replace"), parse, False)
        assert value is not None  # only a 404 that is expected gives None
        return value

    def _answer(
        self,
        method: str,
        url: str,
        content: bytes | None,
        parse: Callable[[bytes], T],
        missing_ok: bool,
    ) -> T | None:
        key = hashlib.sha256(url.encode() + b"\n" + (content or b"")).hexdigest()
        if self.cache is not None:
            body = self.cache.get(key, any_age=self.offline)
            if body is not None:
                try:
                    return parse(body) if body else None
                except MalformedAnswer as error:
                    if self.offline:
                        raise EnvironmentFault(f"{url}: bad stored answer: {error}") from error
        if self.offline:
            raise EnvironmentFault(f"{url}: not in the cache, and offline mode sends no request")
        reason = ""
        for attempt in range(self.tries):
            wait = self._limiter.reserve(self.interval)
            if wait > 0:
                time.sleep(wait)
            body, reason, delay = self._try(method, url, content, missing_ok)
            if body is not None:
                try:
                    value = parse(body) if body else None
                except MalformedAnswer as error:
                    # A cut connection without a declared length looks exactly like this.
                    reason, delay = f"malformed answer: {error}", None
                else:
                    if self.cache is not None:
                        self.cache.put(key, body)
                    return value
            if delay is not None and delay > self.max_wait:
                raise EnvironmentFault(
                    f"{url}: {reason}; asked to wait {delay:.0f} s, more than max_wait "
                    f"{self.max_wait:.0f} s"
                )
            if attempt + 1 < self.tries:
                self._pause(attempt, delay)
        raise EnvironmentFault(f"{url}: gave up after {self.tries} tries: {reason}")

    def _pause(self, attempt: int, delay: float | None) -> None:
        if delay is not None:
            # The service speaks to the whole process, not to this request alone.
            self._limiter.postpone(delay)
            return
        time.sleep(self.backoff * 2**attempt * self._jitter.uniform(0.75, 1.25))

    def _try(
        self, method: str, url: str, content: bytes | None, missing_ok: bool
    ) -> tuple[bytes | None, str, float | None]:
        """One request: (body or None, what went wrong, seconds the service asks to wait).

        An empty body stands for 404.
        """
        import httpx

        started = time.monotonic()
        try:
            kind = {} if content is None else {"Content-Type": "application/json"}
            with self._http().stream(method, url, content=content, headers=kind) as response:
                status = response.status_code
                if status == 404 and missing_ok:
                    return b"", "", None
                if status in RETRIED:
                    asked = retry_after(response.headers.get("retry-after"), time.time())
                    return None, f"status {status}", asked
                if status != 200:
                    raise EnvironmentFault(f"{url}: status {status}, expected 200")
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > self.max_bytes:
                        raise EnvironmentFault(
                            f"{url}: answer of more than {self.max_bytes} bytes, expected less"
                        )
                    # httpx limits the time between two reads; a trickle needs this one.
                    if time.monotonic() - started > self.timeout:
                        return None, f"answer took more than {self.timeout:g} s", None
        except httpx.TimeoutException:
            return None, f"no answer within {self.timeout:g} s", None
        except httpx.HTTPError as error:
            return None, f"{type(error).__name__}: {error}", None
        if not body:
            return None, "empty answer", None
        return bytes(body), "", None

    def _http(self) -> httpx.Client:
        with self._client_lock:
            # A forked child must not share its parent's sockets. Redirects are not followed: the
            # headers may hold a key that is meant for this host alone.
            if self._client is None or self._pid != os.getpid():
                import httpx

                self._client = httpx.Client(timeout=self.timeout, headers=self._headers)
                self._pid = os.getpid()
            return self._client

    def close(self) -> None:
        """Closes the connections; the next request opens new ones."""
        with self._client_lock:
            if self._client is not None:
                self._client.close()
                self._client = None
