"""The client of a retrieval server: a retriever like any other."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import EnvironmentFault
from .base import Passage, QueryError, Retriever, check_query, encodable

if TYPE_CHECKING:
    import httpx

TOKEN_VARIABLE = "AGENTR1_RETRIEVAL_TOKEN"
_TRY_AGAIN = (429, 502, 503, 504)
_ASKERS_FAULT = (400, 413, 422)


class RetrievalClient(Retriever):
    """Searches at a server that `agentr1 retrieval serve` started.

    Connections are kept and shared by threads; a process that was forked opens its own. Proxies
    of the environment are not used unless `trust_env=True`.

    Args:
        url: the server, such as `http://127.0.0.1:8765`.
        token: the server's token; None takes the environment variable AGENTR1_RETRIEVAL_TOKEN.
        timeout: seconds for a search, all retries included.
        retries: how often a request is sent again after a lost connection or a busy server.
        batch: queries sent in one request.
        trust_env: take proxy settings from the environment.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 10.0,
        retries: int = 3,
        batch: int = 64,
        trust_env: bool = False,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url begins with http:// or https://; got {url!r}")
        if timeout <= 0 or retries < 0 or batch < 1:
            raise ValueError("timeout is over 0, retries at least 0, batch at least 1")
        self.url, self.timeout, self.retries = url.rstrip("/"), timeout, retries
        self.batch, self.trust_env = batch, trust_env
        self._token = os.environ.get(TOKEN_VARIABLE) if token is None else token
        if self._token and not self._token.isprintable():
            raise ValueError("the token has characters that no header takes")
        self._setup()

    def _setup(self) -> None:
        self._lock = threading.Lock()
        self._open: tuple[int, httpx.Client] | None = None

    def search(self, query: str, k: int = 5) -> list[Passage]:
        """The best k passages.

        Raises:
            QueryError: the query or k is nothing the server searches.
            EnvironmentFault: no answer within the time-out, or no proper one.
        """
        return self.search_batch([query], k)[0]

    def search_batch(self, queries: Sequence[str], k: int = 5) -> list[list[Passage]]:
        """`search` for each query, in order; the time-out holds for each request of `batch`."""
        for query in queries:
            check_query(query, k)
        found: list[list[Passage]] = []
        for first in range(0, len(queries), self.batch):
            part = [encodable(query) for query in queries[first : first + self.batch]]
            answer = self._ask("POST", "/search", {"queries": part, "k": k})
            found += self._passages(answer, len(part))
        return found

    def health(self) -> dict[str, Any]:
        """What the server says of itself."""
        answer = self._ask("GET", "/health", None)
        if not isinstance(answer, dict):
            raise self._fault(f"/health answered {answer!r:.80}")
        return answer

    def close(self) -> None:
        """Close the connections; a later search opens new ones."""
        with self._lock:
            if self._open is not None and self._open[0] == os.getpid():
                self._open[1].close()
            self._open = None

    def _client(self) -> httpx.Client:
        import httpx

        with self._lock:
            if self._open is None or self._open[0] != os.getpid():
                bearer = f"Bearer {self._token}".encode()
                headers = {b"Authorization": bearer} if self._token else {}
                client = httpx.Client(base_url=self.url, headers=headers, trust_env=self.trust_env)
                self._open = (os.getpid(), client)
            return self._open[1]

    def _ask(self, method: str, route: str, body: Any) -> Any:
        import httpx

        deadline = time.monotonic() + self.timeout
        problem = ""
        for attempt in range(self.retries + 1):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                status, content = self._send(method, route, body, deadline)
            except (httpx.TransportError, httpx.DecodingError) as error:
                problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            else:
                if status == 200:
                    try:
                        return json.loads(content)
                    except ValueError:
                        raise self._fault(f"answered no JSON: {content[:80]!r}") from None
                message = _message(content)
                if status in _ASKERS_FAULT:
                    raise QueryError(f"the retrieval server refused the query: {message}")
                problem = f"status {status}: {message}"
                if status not in _TRY_AGAIN:
                    break
            pause = min(0.1 * 2**attempt, 2.0)
            if attempt < self.retries and time.monotonic() + pause < deadline:
                time.sleep(pause)
        raise self._fault(problem or "no answer")

    def _send(self, method: str, route: str, body: Any, deadline: float) -> tuple[int, bytes]:
        """One request. httpx bounds each read; the deadline bounds them all together."""
        import httpx

        left = max(deadline - time.monotonic(), 0.001)
        request = self._client().stream(method, route, json=body, timeout=left)
        with request as response:
            content = bytearray()
            for part in response.iter_bytes():
                content += part
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the answer came too slowly")
            return response.status_code, bytes(content)

    def _passages(self, answer: Any, wanted: int) -> list[list[Passage]]:
        try:
            results = [
                [Passage(p["id"], p["title"], p["text"], float(p["score"])) for p in passages]
                for passages in answer["results"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise self._fault(f"answered without passages ({error!r})") from None
        if len(results) != wanted:
            raise self._fault(f"answered {len(results)} of {wanted} queries")
        return results

    def _fault(self, problem: str) -> EnvironmentFault:
        return EnvironmentFault(
            f"retrieval server {self.url}: {problem} (time-out {self.timeout:g} s)"
        )

    def __getstate__(self) -> dict[str, Any]:
        # The token does not travel in pickles; the other process has the environment variable.
        hidden = ("_lock", "_open", "_token")
        return {name: value for name, value in vars(self).items() if name not in hidden}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._token = os.environ.get(TOKEN_VARIABLE)
        self._setup()

    def __repr__(self) -> str:
        return f"RetrievalClient({self.url!r})"


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["error"])[:300]
    except (ValueError, KeyError, TypeError):
        return repr(content[:80])
