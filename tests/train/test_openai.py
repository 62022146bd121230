"""The HTTP policy against a small server of the tests' own."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from agentr1_wrappers import ChatPrompt

from agentr1_train.policies import PolicyFault, make_policy
from agentr1_train.policies.base import GenerateRequest
from agentr1_train.policies.openai import OpenAIPolicy
from agentr1_train.rollout import run_episode
from tests.core.toy import ToyEnv, call


class Server:
    """Answers from a list of replies; a number in it is an HTTP error."""

    def __init__(self, replies) -> None:
        self.replies, self.seen, self.headers = list(replies), [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _send(self, code: int, body: object) -> None:
                data = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                if code == 429:
                    self.send_header("Retry-After", "0")
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                self._send(200, {"data": [{"id": "first-model"}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.seen.append(body)
                outer.headers.append(dict(self.headers))
                reply = outer.replies.pop(0)
                if isinstance(reply, int):
                    self._send(reply, {"error": "no"})
                else:
                    self._send(200, reply)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def serve():
    servers = []

    def start(*replies):
        servers.append(Server(replies))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def said(text=None, calls=(), **more):
    tool_calls = [
        {"id": f"c{i}", "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
        for i, (n, a) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": text}
    if tool_calls:
        message["tool_calls"] = tool_calls
    return {"choices": [{"message": message, "finish_reason": "stop", **more}]}


def run(policy, env=None, **kwargs):
    async def go():
        try:
            return await run_episode(env or ChatPrompt(ToyEnv()), policy, seed=0, **kwargs)
        finally:
            await policy.close()

    return asyncio.run(go())


def test_an_episode_with_tool_calls(serve, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    server = serve(said("thinking", [("add", {"a": 1, "b": 2}), ("add", {"a": 5})]), said("7"))
    episode = run(OpenAIPolicy(server.url, temperature=0.5))
    assert episode.valid, episode.fault
    first, second = episode.transitions
    assert first.action.startswith("thinking\n") and first.action.count("<tool_call>") == 2
    assert "[1] 3" in first.feedback and "[2] 7" in first.feedback
    assert second.action == "7" and second.terminated
    one, two = server.seen
    assert one["model"] == "first-model" and one["temperature"] == 0.5
    assert one["tools"][0]["function"]["name"] == "add"
    roles = [m["role"] for m in two["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool"]
    ids = [c["id"] for c in two["messages"][2]["tool_calls"]]
    assert [m["tool_call_id"] for m in two["messages"][3:]] == ids
    assert json.loads(two["messages"][2]["tool_calls"][0]["function"]["arguments"])["b"] == 2
    assert server.headers[0]["Authorization"] == "Bearer secret-key"
    assert "secret-key" not in json.dumps(server.seen)


def test_plain_text_mode_sends_no_tool_roles(serve):
    server = serve(said(call("add", a=1)), said("7"))
    episode = run(OpenAIPolicy(server.url, "m", tools="text"))
    assert episode.valid and len(episode.transitions) == 2
    assert [m["role"] for m in server.seen[1]["messages"]] == [
        "system", "user", "assistant", "user",
    ]  # fmt: skip
    assert "tools" not in server.seen[0]


def test_broken_arguments_reach_the_environment_as_the_models_slip(serve):
    reply = said(None, [("add", {})])
    reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = '{"a": '
    episode = run(OpenAIPolicy(serve(reply, said("7")).url, "m"))
    assert episode.valid and episode.transitions[0].agent_error is not None


def test_retries_and_gives_up_with_the_reason(serve, monkeypatch):
    server = serve(429, 503, said("7"))
    policy = OpenAIPolicy(server.url, "m", max_retries=3)
    assert run(policy).valid and policy.retries == 2 and len(server.seen) == 3
    down = serve(500, 500)
    episode = run(OpenAIPolicy(down.url, "m", max_retries=1))
    assert not episode.valid and "HTTP 500" in episode.fault and not episode.success
    refused = serve(401)
    assert "HTTP 401" in run(OpenAIPolicy(refused.url, "m")).fault
    assert len(refused.seen) == 1  # an error that will not pass is not asked again
    nowhere = OpenAIPolicy("http://127.0.0.1:9/v1", "m")  # with its five retries
    fault = run(nowhere).fault
    assert "ConnectError" in fault and "no server has answered" in fault and nowhere.retries == 0
    # One that has answered is waited for when it goes away.
    server = serve(said("a"), said("b"))
    policy = OpenAIPolicy(server.url, "m", max_retries=2)
    state = GenerateRequest([{"role": "user", "content": "x"}])

    async def lose() -> None:
        await policy.generate(state)
        server.close()
        await policy.close()  # and with it the connections that are still open
        with pytest.raises(PolicyFault, match="ConnectError") as lost:
            await policy.generate(state)
        assert policy.retries == 2 and "no server" not in str(lost.value)
        await policy.close()

    asyncio.run(lose())
    assert "without choices" in run(OpenAIPolicy(serve({"choices": []}).url, "m")).fault


def test_training_needs_token_ids(serve):
    logprobs = {"content": [{"token": "7", "logprob": -0.25}, {"token": "", "logprob": -0.5}]}
    full = said("7", token_ids=[11, 12], logprobs=logprobs) | {"prompt_token_ids": [1, 2, 3]}
    server = serve(full)
    episode = run(OpenAIPolicy(server.url, "m", require_ids=True))
    (t,) = episode.transitions
    assert t.prompt_ids.tolist() == [1, 2, 3] and t.response_ids.tolist() == [11, 12]
    assert t.response_logprobs.tolist() == [-0.25, -0.5]
    assert server.seen[0]["return_token_ids"] is True
    policy = OpenAIPolicy(serve(said("7")).url, "m", require_ids=True)

    async def go():
        with pytest.raises(PolicyFault, match="returns no token ids"):
            await policy.generate(GenerateRequest([{"role": "user", "content": "q"}]))
        await policy.close()

    asyncio.run(go())


def test_names_of_policies(serve):
    server = serve()
    policy = make_policy(f"openai:{server.url}#some/model", temperature=0.0, max_tokens=5)
    assert isinstance(policy, OpenAIPolicy) and policy.model == "some/model"
    assert policy.sampling == {"temperature": 0.0, "max_tokens": 5}
    with pytest.raises(ValueError, match="expected expert, observer"):
        make_policy("gpt:x")
