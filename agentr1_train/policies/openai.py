"""Any OpenAI-compatible chat server as a policy.

Tool calls travel in the server's own fields (``tools="native"``): earlier replies are split into
text and calls by the environment's tool format, and the calls of a new reply are written back into
text, which is what an environment reads. ``tools="text"`` sends plain messages only, for servers
without a tool parser; the prompt then has to describe the tools (``tool_prompt`` of the
environment's spec).

A server that returns token ids (vLLM with ``return_token_ids``) can be trained on. Others serve for
evaluation: their text cannot be turned back into the ids that were sampled.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentr1_envs.tool_formats import ToolCall, get_format

from .base import GenerateRequest, Generation, Policy, PolicyFault

_RETRY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class OpenAIPolicy(Policy):
    """Chat completions over HTTP, with retries.

    The key is read from the environment variable OPENAI_API_KEY and goes nowhere but into the
    request's header.

    Args:
        base_url: up to and including ``/v1``.
        model: name on the server; None asks the server for its first.
        temperature, max_tokens, top_p: sampling; None leaves it to the server.
        tools: "native" or "text", see the module.
        tool_format: how environments read calls; a name of `agentr1_envs.tool_formats`.
        require_ids: ask for token ids and log-probabilities, and fault without them: for training.
        timeout: seconds for one request.
        max_retries: of a request, after connection errors and the statuses that ask for it. A
            server that nobody reached yet is not waited for: its address is wrong, or it is down.
        extra_body: further fields of every request.
    """

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        top_p: float | None = None,
        tools: str = "native",
        tool_format: str = "hermes",
        require_ids: bool = False,
        timeout: float = 120.0,
        max_retries: int = 5,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(f"openai policy: expected http(s)://HOST/v1#MODEL, got {base_url!r}")
        if tools not in ("native", "text"):
            raise ValueError(f"tools must be native or text, got {tools!r}")
        self.base_url, self.model = base_url.rstrip("/"), model
        self.sampling = {
            k: v
            for k, v in (
                ("temperature", temperature), ("max_tokens", max_tokens), ("top_p", top_p),
            )
            if v is not None
        }  # fmt: skip
        self.tools, self.format = tools, get_format(tool_format)
        self.require_ids, self.timeout, self.max_retries = require_ids, timeout, max_retries
        self.extra_body = dict(extra_body or {})
        self.retries = 0
        self._reached = False
        self._client: Any = None
        self._naming: asyncio.Lock | None = None

    async def generate(self, request: GenerateRequest) -> Generation:
        client = self._http()
        model = self.model or await self._first_model()
        body: dict[str, Any] = {"model": model, "messages": self._messages(request.messages)}
        if request.tools and self.tools == "native":
            body["tools"] = list(request.tools)
        body["seed"] = request.seed & 0x7FFFFFFF
        body |= self.sampling | self.extra_body
        if self.require_ids:
            body |= {"logprobs": True, "return_token_ids": True}
        answer = await self._post(client, "/chat/completions", body)
        try:
            choice = answer["choices"][0]
            message = choice["message"]
        except (KeyError, IndexError, TypeError):
            raise PolicyFault(f"{self.base_url}: reply without choices: {_cut(answer)}") from None
        ids = _ids(choice.get("token_ids"))
        prompt = _ids(answer.get("prompt_token_ids"))
        logprobs = _logprobs(choice)
        if self.require_ids and not (len(ids) and len(prompt) and len(logprobs) == len(ids)):
            raise PolicyFault(
                f"{self.base_url} returns no token ids with log-probabilities, which training "
                "needs (vLLM does with return_token_ids); it can be evaluated only"
            )
        return Generation(
            self._text(message), prompt, ids, logprobs, choice.get("finish_reason") or "stop"
        )

    # ------------------------------------------------------------------------- messages

    def _messages(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        if self.tools == "text":
            return [
                {"role": "user" if m["role"] == "tool" else m["role"], "content": m["content"]}
                for m in messages
            ]
        out: list[dict[str, Any]] = []
        open_ids: list[str] = []
        for number, m in enumerate(messages):
            if m["role"] == "assistant":
                message, open_ids = self._assistant(m["content"], number)
                out.append(message)
            elif m["role"] == "tool" and open_ids:
                # One text answers all the calls of a reply.
                out.append({"role": "tool", "tool_call_id": open_ids[0], "content": m["content"]})
                out += [
                    {"role": "tool", "tool_call_id": i, "content": "(see the first result)"}
                    for i in open_ids[1:]
                ]
                open_ids = []
            elif m["role"] == "tool":
                out.append({"role": "user", "content": m["content"]})
            else:
                out.append({"role": m["role"], "content": m["content"]})
        return out

    def _assistant(self, text: str, number: int) -> tuple[dict[str, Any], list[str]]:
        parsed = self.format.parse(text)
        if not parsed.calls or parsed.errors:
            return {"role": "assistant", "content": text}, []
        ids = [f"call_{number}_{i}" for i in range(len(parsed.calls))]
        calls = [
            {
                "id": i,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": json.dumps(call.arguments, ensure_ascii=False),
                },
            }
            for i, call in zip(ids, parsed.calls, strict=True)
        ]
        return {"role": "assistant", "content": parsed.text or "", "tool_calls": calls}, ids

    def _text(self, message: Mapping[str, Any]) -> str:
        text = message.get("content") or ""
        calls = []
        for item in message.get("tool_calls") or []:
            function = item.get("function") or {}
            arguments = function.get("arguments") or "{}"
            try:
                parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
            except ValueError:
                parsed = None
            if not isinstance(parsed, dict):
                # The model's own slip: passed on, so that the environment says what is wrong.
                return f'{text}<tool_call>{{"name": "{function.get("name")}", {arguments}'
            calls.append(ToolCall(str(function.get("name")), parsed))
        if not calls:
            return text
        rendered = self.format.render(calls)
        return f"{text}\n{rendered}" if text else rendered

    # ----------------------------------------------------------------------------- HTTP

    def _http(self) -> Any:
        if self._client is None:
            import httpx

            key = os.environ.get("OPENAI_API_KEY")
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
            self._client = httpx.AsyncClient(
                headers=headers, timeout=httpx.Timeout(self.timeout), limits=limits
            )
        return self._client

    async def _first_model(self) -> str:
        if self._naming is None:
            self._naming = asyncio.Lock()
        async with self._naming:
            if self.model is None:
                answer = await self._post(self._http(), "/models", None)
                try:
                    self.model = str(answer["data"][0]["id"])
                except (KeyError, IndexError, TypeError):
                    raise PolicyFault(f"{self.base_url}/models names no model") from None
        return self.model

    async def _post(self, client: Any, path: str, body: dict[str, Any] | None) -> Any:
        import httpx

        url = self.base_url + path
        problem = ""
        for attempt in range(self.max_retries + 1):
            if attempt:
                self.retries += 1
            wait = min(2.0**attempt * 0.5, 30.0) * random.Random(attempt).uniform(0.5, 1.0)
            try:
                if body is None:
                    response = await client.get(url)
                else:
                    response = await client.post(url, json=body)
            except httpx.HTTPError as error:
                problem = f"{type(error).__name__}: {error}"
                if isinstance(error, httpx.ConnectError) and not self._reached:
                    raise PolicyFault(
                        f"{url}: {problem}; no server has answered at this address"
                    ) from None
            else:
                self._reached = True
                if response.status_code < 400:
                    try:
                        return response.json()
                    except ValueError:
                        raise PolicyFault(
                            f"{url}: expected JSON, got {response.text[:200]!r}"
                        ) from None
                problem = f"HTTP {response.status_code}: {response.text[:300]}"
                if response.status_code not in _RETRY:
                    break
                after = response.headers.get("retry-after", "")
                if after.isascii() and after.isdigit():
                    wait = min(float(after), 60.0)
            if attempt < self.max_retries:
                await asyncio.sleep(wait)
        raise PolicyFault(f"{url}: {problem}")

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def _ids(values: Any) -> np.ndarray:
    return np.asarray(values or [], np.int32)


def _logprobs(choice: Mapping[str, Any]) -> np.ndarray:
    content = (choice.get("logprobs") or {}).get("content") or []
    return np.asarray([item["logprob"] for item in content], np.float32)


def _cut(value: Any) -> str:
    return json.dumps(value)[:200]
