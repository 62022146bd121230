"""An OpenAI-compatible server that answers as the scripted expert would.

It knows an episode by the text of its first user message and a step by the number of replies in the
conversation, so it needs nothing that a model would not be given.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.bridges.common import Played


def text_of(content: Any) -> str:
    """A message's content as text."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [])


class ExpertServer:
    """Serves the replies of `episodes` on 127.0.0.1 while the context is open."""

    def __init__(self, episodes: list[Played]) -> None:
        self.episodes = episodes
        self.requests = 0
        routes = [
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/v1/models", self.models),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes), host="127.0.0.1", port=0, log_level="error"
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/v1"

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(20)

    async def models(self, request: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": "expert", "object": "model"}]})

    async def chat(self, request: Request) -> Response:
        self.requests += 1
        body = json.loads(await request.body())
        messages = body["messages"]
        opening = next(text_of(m["content"]) for m in messages if m["role"] == "user")
        step = sum(m["role"] == "assistant" for m in messages)
        for episode in self.episodes:
            if episode.observations[0] in opening:
                said = episode.actions[step]
                break
        else:
            return JSONResponse({"error": {"message": f"unknown task {opening[:80]!r}"}}, 400)
        if body.get("stream"):
            return StreamingResponse(self.stream(said), media_type="text/event-stream")
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": said},
            "finish_reason": "stop",
        }
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return JSONResponse(
            {
                "id": "x",
                "object": "chat.completion",
                "created": 0,
                "model": "expert",
                "choices": [choice],
                "usage": usage,
            }
        )

    async def stream(self, said: str) -> AsyncIterator[bytes]:
        base = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "expert"}
        chunks: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": said}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {
                "choices": [],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            },
        ]
        for chunk in chunks:
            yield b"data: " + json.dumps({**base, **chunk}).encode() + b"\n\n"
        yield b"data: [DONE]\n\n"
