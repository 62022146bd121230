"""A recording proxy before an OpenAI-compatible server.

An agent that can't be rewritten as reset and step keeps its code and changes its base URL. Each
chat completion becomes a step `Transition`: the messages are the state, the reply is the action,
and, where the server gives them (vLLM's ``return_token_ids``), the exact token ids and
log-probabilities. Calls are grouped into episodes by the header ``X-Episode-Id``, else by the API
key; one call at the end brings the reward:

    POST /episodes/ID/end  {"reward": 1.0, "success": true}

A finished episode is one Parquet file. Steps of open episodes are journalled as they happen, so
that a killed proxy goes on where it was.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from agentr1_envs.arguments import number
from agentr1_envs.transitions import Transition, write_transitions

EPISODE_HEADER = "x-episode-id"
#: Headers that belong to one connection and are not passed on (RFC 9110, section 7.6.1).
_HOP = frozenset(
    {
        "connection",
        "host",
        "content-length",
        "content-encoding",
        "transfer-encoding",
        "accept-encoding",
        "keep-alive",
        "proxy-authorization",
        "proxy-authenticate",
        "te",
        "trailer",
        "upgrade",
    }
)


class EpisodeStore:
    """Open episodes in memory and in journals, finished ones as Parquet files.

    Args:
        folder: Created when missing. Open episodes found there are taken up again.
        model: Stored with the files as the environment's id, ``proxy:MODEL``.
    """

    def __init__(self, folder: str | os.PathLike[str], name: str = "proxy") -> None:
        self.folder, self.name = Path(folder), name
        self.journals = self.folder / "open"
        self.journals.mkdir(parents=True, exist_ok=True)
        self.open: dict[str, list[Transition]] = {}
        self._lock = threading.Lock()
        for journal in sorted(self.journals.glob("*.jsonl")):
            self._take_up(journal)

    def _file(self, episode_id: str) -> str:
        # Ids come from clients: only harmless characters reach a path, the digest keeps them apart.
        safe = re.sub(r"[^A-Za-z0-9_.-]", "_", episode_id)[:60].lstrip(".")
        digest = hashlib.blake2b(episode_id.encode("utf-8", "replace"), digest_size=6).hexdigest()
        return f"{safe}-{digest}"

    def _take_up(self, journal: Path) -> None:
        with journal.open(encoding="utf-8") as handle:
            for line in handle:
                try:
                    row = json.loads(line)
                except json.JSONDecodeError:
                    break  # the line that was being written when the proxy was killed
                step = _transition(row)
                self.open.setdefault(step.episode_id, []).append(step)

    def ended(self, episode_id: str) -> bool:
        """Whether the episode's reward has come."""
        return (self.folder / f"{self._file(episode_id)}.parquet").exists()

    def add(self, episode_id: str, row: dict[str, Any]) -> None:
        """Append a step."""
        with self._lock:
            steps = self.open.setdefault(episode_id, [])
            row |= {"episode_id": episode_id, "step": len(steps), "env_id": self.name}
            steps.append(_transition(row))
            journal = self.journals / f"{self._file(episode_id)}.jsonl"
            with journal.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(row) + "\n")

    def end(self, episode_id: str, result: Mapping[str, Any]) -> Path:
        """Write the episode with its reward.

        Raises:
            KeyError: There is no such open episode.
            ValueError: The result has no finite reward, or a score that is none.
        """
        reward = result.get("reward")
        reward = number("'reward'", reward, None)
        score = number("'score'", result["score"], None) if "score" in result else None
        with self._lock:
            steps = self.open[episode_id]
            last = steps[-1]
            last.reward = reward
            last.truncated = bool(result.get("truncated", False))
            last.terminated = not last.truncated
            last.stop_reason = str(result.get("stop_reason", "end"))
            last.success = bool(result["success"]) if "success" in result else None
            last.score = score
            last.metrics = dict(result.get("metrics", {}))
            for step in steps:
                step.task_id = str(result.get("task_id", ""))
                step.group_id = str(result.get("group_id", ""))
            for step, following in itertools.pairwise(steps):
                step.next_observation = following.observation
                step.feedback = str(following.observation[-1].get("content") or "")
            path = self.folder / f"{self._file(episode_id)}.parquet"
            write_transitions(path, steps, {"source": self.name})
            (self.journals / f"{self._file(episode_id)}.jsonl").unlink(missing_ok=True)
            del self.open[episode_id]
            return path


def _transition(row: Mapping[str, Any]) -> Transition:
    return Transition(
        episode_id=row["episode_id"],
        step=row["step"],
        task_id="",
        env_id=row["env_id"],
        observation=tuple(row["messages"]),
        action=row["action"],
        prompt_ids=np.asarray(row["prompt_ids"], np.int32),
        response_ids=np.asarray(row["response_ids"], np.int32),
        response_logprobs=np.asarray(row["logprobs"], np.float32),
        extra=row["extra"],
    )


def read_completion(request: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """The step in a chat completion: what was asked, what was said, ids where there are any."""
    choices = answer.get("choices") or [{}]
    choice = choices[0]
    message = choice.get("message") or {}
    content = (choice.get("logprobs") or {}).get("content") or []
    ids = choice.get("token_ids") or []
    logprobs = [item["logprob"] for item in content]
    if len(logprobs) != len(ids):
        logprobs = [] if ids else logprobs
    extra: dict[str, Any] = {
        "model": answer.get("model"),
        "finish_reason": choice.get("finish_reason"),
        "choices": len(choices),
        "tools": request.get("tools") or [],
    }
    if message.get("tool_calls"):
        extra["tool_calls"] = message["tool_calls"]
    return {
        "messages": request.get("messages") or [],
        "action": message.get("content") or "",
        "prompt_ids": answer.get("prompt_token_ids") or [],
        "response_ids": ids,
        "logprobs": logprobs,
        "extra": extra,
    }


class StreamReader:
    """Builds the whole completion from the chunks of a streamed one."""

    def __init__(self) -> None:
        self._buffer = b""
        self.answer: dict[str, Any] = {}
        self.choice: dict[str, Any] = {"message": {"content": ""}, "token_ids": []}
        self._logprobs: list[Any] = []
        self._calls: dict[int, dict[str, Any]] = {}

    def feed(self, data: bytes) -> None:
        """Take bytes of the event stream, cut anywhere."""
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            body = line.strip().removeprefix(b"data:").strip()
            if not line.strip().startswith(b"data:") or body == b"[DONE]":
                continue
            try:
                self._chunk(json.loads(body))
            except (json.JSONDecodeError, AttributeError, TypeError):
                continue  # passed on as it is; only the record lacks it

    def _chunk(self, chunk: dict[str, Any]) -> None:
        self.answer.setdefault("model", chunk.get("model"))
        if chunk.get("prompt_token_ids"):
            self.answer["prompt_token_ids"] = chunk["prompt_token_ids"]
        for choice in chunk.get("choices") or []:
            if choice.get("index", 0) != 0:
                continue
            delta = choice.get("delta") or {}
            self.choice["message"]["content"] += delta.get("content") or ""
            self.choice["token_ids"] += choice.get("token_ids") or []
            self._logprobs += (choice.get("logprobs") or {}).get("content") or []
            self.choice["finish_reason"] = choice.get("finish_reason") or self.choice.get(
                "finish_reason"
            )
            for call in delta.get("tool_calls") or []:
                known = self._calls.setdefault(
                    call.get("index", 0), {"function": {"name": "", "arguments": ""}}
                )
                known |= {key: call[key] for key in ("id", "type") if call.get(key)}
                for key, value in (call.get("function") or {}).items():
                    known["function"][key] = known["function"].get(key, "") + (value or "")

    def completion(self) -> dict[str, Any]:
        """The completion so far."""
        choice = {**self.choice, "logprobs": {"content": self._logprobs}}
        if self._calls:
            choice["message"]["tool_calls"] = [self._calls[i] for i in sorted(self._calls)]
        return {**self.answer, "choices": [choice]}


class Recorder:
    """The proxy's logic, apart from the web framework.

    Args:
        upstream: Base URL of the server, such as ``http://127.0.0.1:8000/v1``.
        store: Where episodes go.
        token_ids: ``"auto"`` asks for ids and goes on without when the server refuses the request
            for them; ``"on"`` and ``"off"`` say it.
        timeout: Seconds until a silent server counts as down.
        transport: For tests.
    """

    def __init__(
        self,
        upstream: str,
        store: EpisodeStore,
        *,
        token_ids: str = "auto",
        timeout: float = 600.0,
    ) -> None:
        if token_ids not in ("auto", "on", "off"):
            raise ValueError(f"token_ids must be auto, on or off, got {token_ids!r}")
        self.upstream, self.store, self.token_ids = upstream.rstrip("/"), store, token_ids
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self.client = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0)),
            limits=limits,
            # Streams are passed on byte by byte, without the header that would name an encoding.
            headers={"accept-encoding": "identity"},
        )

    @staticmethod
    def episode_id(headers: Mapping[str, str]) -> str | None:
        """The episode a request belongs to: the header, else a name made of the API key."""
        given = headers.get(EPISODE_HEADER)
        if given:
            return given
        key = headers.get("authorization", "").removeprefix("Bearer ").strip()
        # The key itself is a secret and must not reach a file.
        digest = hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).hexdigest()
        return f"key-{digest}" if key else None

    def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> httpx.Request:
        """The request to the server."""
        kept = {
            key: value
            for key, value in headers.items()
            if key.lower() not in _HOP and key.lower() != EPISODE_HEADER
        }
        return self.client.build_request(
            method, f"{self.upstream}/{path}", headers=kept, content=body
        )

    async def complete(self, headers: Mapping[str, str], body: dict[str, Any]) -> httpx.Response:
        """Ask the server for a completion, with ids where it gives them; the body is not read."""
        wanted = dict(body)
        asks = self.token_ids != "off"
        if asks:
            wanted |= {"return_token_ids": True, "logprobs": True}
        content = json.dumps(wanted).encode()
        request = self.request("POST", "chat/completions", headers, content)
        response = await self.client.send(request, stream=True)
        if response.status_code in (400, 422) and asks and self.token_ids == "auto":
            await response.aclose()
            request = self.request("POST", "chat/completions", headers, json.dumps(body).encode())
            response = await self.client.send(request, stream=True)
            if response.status_code < 400:  # the extra fields were the reason: stop asking
                self.token_ids = "off"
        return response


def make_app(recorder: Recorder) -> Any:
    """The Starlette application around a `Recorder`."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

    store = recorder.store

    def problem(status: int, message: str) -> JSONResponse:
        return JSONResponse({"error": {"message": message, "type": "proxy"}}, status)

    def passed_on(response: httpx.Response) -> dict[str, str]:
        return {k: v for k, v in response.headers.items() if k.lower() not in _HOP}

    async def chat(request: Request) -> Response:
        episode_id = recorder.episode_id(request.headers)
        if episode_id is None:
            return problem(400, "which episode? send the header X-Episode-Id or an API key")
        if store.ended(episode_id):
            return problem(409, f"episode {episode_id!r} has ended")
        try:
            body = json.loads(await request.body())
            if not isinstance(body, dict):
                raise ValueError("an object is needed")
        except ValueError as error:
            return problem(400, f"the body is no JSON object: {error}")
        try:
            response = await recorder.complete(request.headers, body)
        except httpx.HTTPError as error:
            return problem(502, f"{recorder.upstream}: {type(error).__name__}: {error}")
        if response.status_code >= 400:  # the agent may try again: no step was taken
            content = await response.aread()
            return Response(content, response.status_code, passed_on(response))
        if body.get("stream"):
            stream = relay(episode_id, body, response)
            return StreamingResponse(stream, response.status_code, passed_on(response))
        try:
            content = await response.aread()
            answer = json.loads(content)
        except (httpx.HTTPError, ValueError) as error:
            return problem(502, f"{recorder.upstream}: cut off or malformed answer: {error}")
        store.add(episode_id, read_completion(body, answer))
        return Response(content, response.status_code, passed_on(response))

    async def relay(
        episode_id: str, body: dict[str, Any], response: httpx.Response
    ) -> AsyncIterator[bytes]:
        reader, whole = StreamReader(), False
        try:
            async for data in response.aiter_raw():
                reader.feed(data)
                yield data
            whole = True
        finally:
            await response.aclose()
            # A stream that broke off is no step: the agent did not get its reply.
            if whole:
                store.add(episode_id, read_completion(body, reader.completion()))

    async def end(request: Request) -> Response:
        episode_id = request.path_params["episode_id"]
        try:
            result = json.loads(await request.body() or b"{}")
            path = store.end(episode_id, result)
        except KeyError:
            ended = store.ended(episode_id)
            return problem(
                409 if ended else 404,
                f"episode {episode_id!r} has {'ended already' if ended else 'no steps'}",
            )
        except (ValueError, AttributeError, TypeError) as error:
            return problem(400, f"{error}")
        return JSONResponse({"episode_id": episode_id, "file": path.name})

    async def episodes(request: Request) -> Response:
        return JSONResponse({"open": {name: len(steps) for name, steps in store.open.items()}})

    async def other(request: Request) -> Response:
        path = request.path_params["path"]
        try:
            response = await recorder.client.send(
                recorder.request(request.method, path, request.headers, await request.body())
            )
        except httpx.HTTPError as error:
            return problem(502, f"{recorder.upstream}: {type(error).__name__}: {error}")
        return Response(response.content, response.status_code, passed_on(response))

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/episodes/{episode_id:path}/end", end, methods=["POST"]),
            Route("/episodes", episodes, methods=["GET"]),
            Route("/v1/{path:path}", other, methods=["GET", "POST"]),
        ]
    )
