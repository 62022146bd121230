"""The proxy between a real client and a real server, both over HTTP on this machine."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import httpx
import pytest

pytest.importorskip("uvicorn")
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agentr1_envs.transitions import read_transitions
from agentr1_train.proxy import EpisodeStore, Recorder, StreamReader, make_app


class Serving:
    def __init__(self, app: Any) -> None:
        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return f"http://127.0.0.1:{self.server.servers[0].sockets[0].getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(20)


def upstream(*, strict: bool = False, seen: list[dict[str, Any]] | None = None) -> Starlette:
    """A server that answers like vLLM; `strict` refuses fields it does not know, like others."""

    async def chat(request: Request) -> Response:
        body = json.loads(await request.body())
        if seen is not None:
            seen.append({"body": body, "headers": dict(request.headers)})
        said = body["messages"][-1]["content"]
        if said == "fail":
            return JSONResponse({"error": {"message": "overloaded"}}, 503)
        if said == "garbage":
            return Response(b"{not json", media_type="application/json")
        asked = body.get("return_token_ids", False)
        if strict and asked:
            return JSONResponse({"error": {"message": "unknown field"}}, 400)
        reply = f"echo 水 {said}"
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
        answer: dict[str, Any] = {"model": "m"}
        if asked:
            answer["prompt_token_ids"] = [1, 2, 3]
            choice["token_ids"] = [4, 5]
            choice["logprobs"] = {"content": [{"logprob": -0.5}, {"logprob": -1.5}]}
        if body.get("stream"):
            return StreamingResponse(stream(answer, choice, reply), media_type="text/event-stream")
        choice["message"] = {"role": "assistant", "content": reply}
        return JSONResponse({**answer, "choices": [choice]})

    async def stream(answer, choice, reply):
        first = {**answer, "choices": [{"index": 0, "delta": {"content": reply[:4]}}]}
        last = {"choices": [{**choice, "delta": {"content": reply[4:]}}]}
        data = b"".join(b"data: " + json.dumps(c).encode() + b"\n\n" for c in (first, last))
        data += b"data: [DONE]\n\n"
        for i in range(0, len(data), 7):  # cut anywhere, inside characters too
            yield data[i : i + 7]

    async def models(request: Request) -> Response:
        return JSONResponse({"data": [{"id": "m"}]})

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/models", models),
        ]
    )


def ask(url: str, text: str, episode: str | None = "e1", **extra: Any) -> httpx.Response:
    headers = {} if episode is None else {"X-Episode-Id": episode}
    headers |= extra.pop("headers", {})
    body = {"model": "m", "messages": [{"role": "user", "content": text}], **extra}
    return httpx.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=30)


def proxied(tmp_path, url: str, **kwargs: Any) -> tuple[EpisodeStore, Serving]:
    store = EpisodeStore(tmp_path / "episodes")
    return store, Serving(make_app(Recorder(f"{url}/v1", store, timeout=5, **kwargs)))


def test_an_episode_with_ids_and_reward(tmp_path) -> None:
    seen: list[dict[str, Any]] = []
    with Serving(upstream(seen=seen)) as url:
        store, serving = proxied(tmp_path, url)
        with serving as proxy:
            assert ask(proxy, "one").json()["choices"][0]["message"]["content"] == "echo 水 one"
            streamed = ask(proxy, "two", stream=True)
            assert streamed.text.endswith("data: [DONE]\n\n")
            assert httpx.get(f"{proxy}/episodes").json() == {"open": {"e1": 2}}
            assert httpx.get(f"{proxy}/v1/models").json()["data"][0]["id"] == "m"
            done = httpx.post(
                f"{proxy}/episodes/e1/end", json={"reward": 1, "success": True, "task_id": "t"}
            )
            assert done.status_code == 200
            assert ask(proxy, "three").status_code == 409
            again = httpx.post(f"{proxy}/episodes/e1/end", json={"reward": 1})
            assert again.status_code == 409
    assert all("x-episode-id" not in item["headers"] for item in seen)
    steps = read_transitions(store.folder / done.json()["file"])
    assert [s.action for s in steps] == ["echo 水 one", "echo 水 two"]
    assert [s.reward for s in steps] == [0.0, 1.0] and steps[1].terminated and steps[1].success
    for step in steps:
        assert step.prompt_ids.tolist() == [1, 2, 3] and step.response_ids.tolist() == [4, 5]
        assert step.response_logprobs.tolist() == [-0.5, -1.5] and step.task_id == "t"
    assert steps[0].next_observation == steps[1].observation
    assert not list((store.folder / "open").iterdir())


def test_servers_that_give_no_ids(tmp_path) -> None:
    with Serving(upstream(strict=True)) as url:
        store, serving = proxied(tmp_path, url)
        with serving as proxy:
            assert ask(proxy, "one").status_code == 200
            assert store.open["e1"][0].response_ids.size == 0
            assert ask(proxy, "two").status_code == 200
        _, serving = proxied(tmp_path / "on", url, token_ids="on")
        with serving as proxy:
            assert ask(proxy, "one").status_code == 400


def test_failures_are_passed_on_and_are_no_steps(tmp_path) -> None:
    with Serving(upstream()) as url:
        store, serving = proxied(tmp_path, url)
        with serving as proxy:
            assert ask(proxy, "fail").status_code == 503
            assert ask(proxy, "garbage").status_code == 502
            assert ask(proxy, "x", episode=None).status_code == 400
            bad = httpx.post(
                f"{proxy}/v1/chat/completions", content=b"[", headers={"X-Episode-Id": "e"}
            )
            assert bad.status_code == 400
            assert store.open == {}
            assert httpx.post(f"{proxy}/episodes/nope/end", json={"reward": 1}).status_code == 404
    _, serving = proxied(tmp_path, "http://127.0.0.1:9")
    with serving as proxy:
        answer = ask(proxy, "one")
        assert answer.status_code == 502 and "127.0.0.1:9" in answer.json()["error"]["message"]


@pytest.mark.parametrize("reward", ["NaN", "Infinity", '"1"', "true", "null", "1" + "0" * 400])
def test_rewards_that_are_no_numbers(tmp_path, reward) -> None:
    with Serving(upstream()) as url:
        _, serving = proxied(tmp_path, url)
        with serving as proxy:
            ask(proxy, "one")
            answer = httpx.post(f"{proxy}/episodes/e1/end", content=f'{{"reward": {reward}}}')
            assert answer.status_code == 400 and "reward" in answer.text
            content = f'{{"reward": 1, "score": {reward}}}'
            answer = httpx.post(f"{proxy}/episodes/e1/end", content=content)
            assert answer.status_code == 400 and "score" in answer.text
            assert httpx.post(f"{proxy}/episodes/e1/end", json={"reward": 0}).status_code == 200


def test_the_api_key_names_the_episode_and_stays_secret(tmp_path) -> None:
    with Serving(upstream()) as url:
        store, serving = proxied(tmp_path, url)
        with serving as proxy:
            for key in ("secret-a", "secret-b"):
                ask(proxy, "x", episode=None, headers={"Authorization": f"Bearer {key}"})
    assert len(store.open) == 2
    for path in store.folder.rglob("*"):
        assert "secret" not in path.name and (path.is_dir() or "secret" not in path.read_text())


def test_open_episodes_survive_a_kill(tmp_path) -> None:
    store = EpisodeStore(tmp_path)
    row = {
        "messages": [{"role": "user", "content": "水"}], "action": "a", "prompt_ids": [1],
        "response_ids": [2], "logprobs": [-0.1], "extra": {},
    }  # fmt: skip
    for name in ("../../etc/passwd", "水", "a" * 500, ".."):
        store.add(name, dict(row))
        store.add(name, dict(row))
    for journal in (tmp_path / "open").iterdir():
        journal.write_bytes(journal.read_bytes() + b'{"episode_id": "cut')
    again = EpisodeStore(tmp_path)
    assert {k: len(v) for k, v in again.open.items()} == {k: 2 for k in store.open}
    path = again.end("../../etc/passwd", {"reward": 0.5})
    assert path.parent == tmp_path and len(read_transitions(path)) == 2


def test_streamed_tool_calls_are_put_together() -> None:
    reader = StreamReader()
    for part in (
        {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a"'}},
        {"index": 0, "function": {"arguments": ": 1}"}},
    ):
        chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [part]}}]}
        reader.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    reader.feed(b": comment\n\ndata: {broken\n\ndata: [DONE]\n\n")
    (call,) = reader.completion()["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": '{"a": 1}'} and call["id"] == "c"
