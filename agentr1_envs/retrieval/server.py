"""An HTTP server that lets many processes and machines share one index.

Routes, JSON both ways:

    POST /search   {"queries": [str], "k": int} -> {"results": [[{"id", "title", "text", "score"}]]}
    GET  /health   -> {"status": "ok", "retriever": str, "documents": int | null, ..}

Every error is {"error": str} with a status that says whose it is: 400 and 422 a malformed
request, 401 a missing or wrong token, 413 a request over a limit, 503 a full queue, 504 a search
over its time, 500 a retriever that failed.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError
from starlette.exceptions import HTTPException

from .base import MAX_QUERY_CHARS, QueryError, Retriever


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server accepts.

    Attributes:
        body_bytes: size of a request.
        queries: queries of a request.
        query_chars: characters of a query.
        k: passages of a query.
        seconds: time for a request, waiting included.
        threads: searches at once.
        waiting: requests that may wait for a thread; further ones are turned away.
    """

    body_bytes: int = 1 << 20
    queries: int = 256
    query_chars: int = MAX_QUERY_CHARS
    k: int = 1000
    seconds: float = 30.0
    threads: int = 4
    waiting: int = 256


class SearchRequest(BaseModel):
    """The body of POST /search."""

    model_config = ConfigDict(extra="forbid")

    queries: list[StrictStr]
    k: StrictInt = Field(default=5, ge=1)


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def create_app(
    retriever: Retriever, *, token: str | None = None, limits: Limits | None = None
) -> FastAPI:
    """The ASGI application that serves a retriever.

    Args:
        retriever: what is searched; its `search_batch` is called from several threads.
        token: if given, requests must carry `Authorization: Bearer <token>`.
        limits: what is accepted.
    """
    limits = limits or Limits()
    app = FastAPI(title="agentr1 retrieval", docs_url=None, redoc_url=None, openapi_url=None)
    pool = ThreadPoolExecutor(limits.threads, "search")
    places = threading.BoundedSemaphore(limits.threads + limits.waiting)

    def check_token(request: Request) -> None:
        if token is None:
            return
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode("latin-1"), f"Bearer {token}".encode()):
            raise _Refused(401, "the token is missing or wrong (Authorization: Bearer TOKEN)")

    async def read_body(request: Request) -> bytes:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > limits.body_bytes:
                raise _Refused(413, f"a request has at most {limits.body_bytes:,} bytes")
        return bytes(body)

    def check_size(wanted: SearchRequest) -> None:
        if len(wanted.queries) > limits.queries:
            raise _Refused(413, f"a request has at most {limits.queries} queries")
        if wanted.k > limits.k:
            raise _Refused(413, f"k is at most {limits.k}")
        longest = max(map(len, wanted.queries), default=0)
        if longest > limits.query_chars:
            raise _Refused(413, f"a query has at most {limits.query_chars:,} characters")

    def answer(wanted: SearchRequest) -> bytes:
        try:
            found = retriever.search_batch(wanted.queries, wanted.k)
        finally:
            places.release()
        results = [[passage._asdict() for passage in passages] for passages in found]
        # A lone surrogate in a corpus can't be sent as UTF-8; escaped, it can.
        return json.dumps({"results": results}).encode()

    @app.post("/search")
    async def search(request: Request) -> Any:
        check_token(request)
        try:
            body = await asyncio.wait_for(read_body(request), limits.seconds)
        except TimeoutError:
            raise _Refused(408, "the request did not arrive in time") from None
        wanted = SearchRequest.model_validate_json(body)
        check_size(wanted)
        if not places.acquire(blocking=False):
            raise _Refused(503, "the queue is full; try again")
        work = pool.submit(answer, wanted)
        work.add_done_callback(lambda done: places.release() if done.cancelled() else None)
        try:
            # A search that runs already can't be stopped; it keeps its place until it ends.
            content = await asyncio.wait_for(asyncio.wrap_future(work), limits.seconds)
        except TimeoutError:
            raise _Refused(504, f"the search took more than {limits.seconds:g} s") from None
        return Response(content, media_type="application/json")

    @app.get("/health")
    async def health(request: Request) -> Any:
        check_token(request)
        return {
            "status": "ok",
            "retriever": type(retriever).__name__,
            "documents": getattr(retriever, "documents", None),
            "source": getattr(retriever, "source", None),
            "max_k": limits.k,
            "max_queries": limits.queries,
        }

    def failed(status: int, message: str) -> JSONResponse:
        headers = {"Retry-After": "1"} if status == 503 else None
        return JSONResponse({"error": message}, status, headers)

    @app.exception_handler(_Refused)
    async def refused(request: Request, error: _Refused) -> JSONResponse:
        return failed(error.status, str(error))

    @app.exception_handler(QueryError)
    async def bad_query(request: Request, error: QueryError) -> JSONResponse:
        return failed(422, str(error))

    async def malformed(request: Request, error: Any) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "body"
        return failed(422, f"{where}: {first['msg']}")

    app.add_exception_handler(ValidationError, malformed)
    app.add_exception_handler(RequestValidationError, malformed)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        return failed(error.status_code, str(error.detail))

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> JSONResponse:
        return failed(500, f"the retriever failed: {type(error).__name__}: {error}")

    return app


def serve(
    retriever: Retriever,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    limits: Limits | None = None,
) -> None:
    """Serve a retriever until interrupted.

    Raises:
        OSError: the address is in use or can't be bound.
    """
    import socket

    import uvicorn

    limits = limits or Limits()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        print(f"serving {retriever!r} at http://{shown}:{port}", flush=True)
        config = uvicorn.Config(
            create_app(retriever, token=token, limits=limits),
            log_level="warning",
            access_log=False,
            timeout_keep_alive=75,
        )
        uvicorn.Server(config).run(sockets=[listener])
