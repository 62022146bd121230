"""A real HTTP server on 127.0.0.1 that answers by a script: good, busy, broken, slow, cut off."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """One answer of the script.

    Attributes:
        delay: seconds before the status line.
        trickle: seconds between the ten parts that the body is then sent in.
        cut: declare the whole length and close after half of it.
        drop: close the connection without an answer.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    trickle: float = 0.0
    cut: bool = False
    drop: bool = False


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes
    at: float


class ScriptedServer:
    """Answers from `script` in order (the last one for ever), or by `handler(request)`."""

    def __init__(self) -> None:
        self.script: list[Answer] = []
        self.handler: Callable[[Request], Answer] | None = None
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                request = Request(
                    self.path, dict(self.headers), self.rfile.read(length), time.monotonic()
                )
                answer = outer._next(request)
                time.sleep(answer.delay)
                if answer.drop:
                    self.close_connection = True
                    return
                try:
                    self.send_response(answer.status)
                    for name, value in answer.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(answer.body)))
                    self.end_headers()
                    size = -(-len(answer.body) // 10) if answer.trickle else len(answer.body)
                    if answer.cut:
                        self.wfile.write(answer.body[: size // 2])
                        self.close_connection = True
                        return
                    for start in range(0, len(answer.body), size or 1):
                        self.wfile.write(answer.body[start : start + size])
                        self.wfile.flush()
                        time.sleep(answer.trickle)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            do_POST = do_GET

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    def _next(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            if self.handler is not None:
                return self.handler(request)
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    try:
        yield server
    finally:
        server.close()
