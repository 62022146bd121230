"""The server and its client, over real sockets."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")

from agentr1_envs.errors import EnvironmentFault  # noqa: E402
from agentr1_envs.retrieval import (  # noqa: E402
    Bm25Index,
    HybridRetriever,
    QueryError,
    RetrievalClient,
    Retriever,
    open_retriever,
)
from agentr1_envs.retrieval.server import Limits, create_app  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    ("ada", "Ada Lovelace", "wrote the first programme"),
    ("alan", "Alan Turing", "broke ciphers"),
    ("grace", "Grace Hopper", "wrote a compiler — «für alle» 東京"),
]


@contextmanager
def served(retriever, **options):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        config = uvicorn.Config(create_app(retriever, **options), log_level="critical")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


@pytest.fixture(scope="module")
def index():
    return Bm25Index.in_memory(ROWS)


@pytest.fixture(scope="module")
def url(index):
    with served(index, limits=Limits(queries=8, k=100, body_bytes=100_000)) as where:
        yield where


def test_the_client_is_the_retriever(index, url):
    client = open_retriever(url)
    assert isinstance(client, RetrievalClient)
    queries = ["who wrote the compiler?", "ciphers", "nothing of this", "東京", "", "?!", "\ud800"]
    assert client.search_batch(queries, 3) == index.search_batch(queries, 3)
    assert client.search("programme", 1) == index.search("programme", 1)
    assert client.search_batch([], 3) == []
    assert client.health()["documents"] == 3
    again = pickle.loads(pickle.dumps(client))
    assert again.search("ciphers") == index.search("ciphers")
    client.close()
    assert client.search("ciphers") == index.search("ciphers")


def test_more_queries_than_a_request_takes(index, url):
    client = RetrievalClient(url, batch=8)
    queries = ["wrote", "ciphers", "compiler"] * 9
    assert client.search_batch(queries, 2) == index.search_batch(queries, 2)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 422, "JSON"),
        (b"[]", 422, "object"),
        (b"{}", 422, "queries"),
        (b'{"queries": "x"}', 422, "queries"),
        (b'{"queries": [1]}', 422, "queries.0"),
        (b'{"queries": ["x"], "k": 0}', 422, "k"),
        (b'{"queries": ["x"], "k": "5"}', 422, "k"),
        (b'{"queries": ["x"], "top": 5}', 422, "top"),
        (b'{"queries": ["x"], "k": 101}', 413, "k is at most 100"),
        (json.dumps({"queries": ["x"] * 9}).encode(), 413, "at most 8 queries"),
        (json.dumps({"queries": ["x" * 40_000]}).encode(), 413, "characters"),
        (b" " * 100_001, 413, "100,000 bytes"),
        (b"\xff\xfe", 422, "JSON"),
    ],
)
def test_bad_requests_name_their_fault(url, body, status, message):
    answer = httpx.post(f"{url}/search", content=body)
    assert answer.status_code == status
    assert message in answer.json()["error"]


def test_unknown_routes(url):
    assert httpx.get(f"{url}/nothing").status_code == 404
    assert httpx.get(f"{url}/search").status_code == 405
    assert "error" in httpx.get(f"{url}/nothing").json()


def test_the_askers_errors_are_query_errors(url):
    client = RetrievalClient(url, batch=64)
    with pytest.raises(QueryError, match="at most 8 queries"):
        client.search_batch(["x"] * 9)
    with pytest.raises(QueryError, match="k is at most 100"):
        client.search("x", 101)
    with pytest.raises(QueryError, match="at most 32,768"):
        client.search("x" * 1_000_000)


def test_token(index, monkeypatch):
    with served(index, token="sésame") as where:
        assert RetrievalClient(where, token="sésame").search("ciphers")[0].id == "alan"
        for wrong in ("", "other"):
            with pytest.raises(EnvironmentFault, match="401.*token"):
                RetrievalClient(where, token=wrong).search("ciphers")
        assert httpx.get(f"{where}/health").status_code == 401
        monkeypatch.setenv("AGENTR1_RETRIEVAL_TOKEN", "sésame")
        client = RetrievalClient(where)
        assert client.search("ciphers")[0].id == "alan"
        assert b"same" not in pickle.dumps(client)


def took(call, error):
    start = time.monotonic()
    with pytest.raises(error) as caught:
        call()
    return time.monotonic() - start, str(caught.value)


def test_a_dead_server_is_a_fault_within_the_time_out():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        where = f"http://127.0.0.1:{unused.getsockname()[1]}"
    client = RetrievalClient(where, timeout=1.5)
    seconds, message = took(lambda: client.search("x"), EnvironmentFault)
    assert seconds < 5 and where in message
    hybrid = HybridRetriever([Bm25Index.in_memory(ROWS), client])
    with pytest.raises(EnvironmentFault):
        hybrid.search("ciphers")


def test_a_server_that_never_answers_is_a_fault_within_the_time_out():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        client = RetrievalClient(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=1.0)
        seconds, message = took(lambda: client.search("x"), EnvironmentFault)
        assert 0.9 < seconds < 6 and "time-out 1 s" in message


@contextmanager
def answering(*answers):
    """A server that gives these bytes, one answer a connection, slowly where a list is given."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()

    def run():
        for answer in answers:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                try:
                    for part in answer if isinstance(answer, list) else [answer]:
                        connection.sendall(part)
                        if isinstance(answer, list):
                            time.sleep(0.2)
                except OSError:
                    pass

    threading.Thread(target=run, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


def reply(body, status="200 OK"):
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


GOOD = reply(b'{"results": [[{"id": "a", "title": "", "text": "t", "score": 1.5}]]}')


@pytest.mark.parametrize(
    "answer",
    [
        reply(b"<html>proxy</html>"),
        reply(b"{}"),
        reply(b'{"results": []}'),
        reply(b'{"results": [[{"id": "a"}]]}'),
        reply(b"null"),
        reply(b"broken", "500 Internal Server Error"),
        reply(b"no", "404 Not Found"),
    ],
)
def test_answers_that_are_none_are_faults(answer):
    with answering(answer) as where, pytest.raises(EnvironmentFault, match=re.escape(where)):
        RetrievalClient(where, timeout=5).search("x")


def test_retries_of_what_passes():
    busy = reply(b'{"error": "the queue is full"}', "503 Service Unavailable")
    with answering(busy, b"", GOOD) as where:
        assert RetrievalClient(where, timeout=20).search("x")[0].id == "a"
    with answering(busy, GOOD) as where:
        with pytest.raises(EnvironmentFault, match="the queue is full"):
            RetrievalClient(where, timeout=20, retries=0).search("x")


def test_an_answer_in_drops_ends_at_the_time_out():
    drops = [GOOD[:70], *[b"x"] * 100]
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n"
    with answering([head, *drops]) as where:
        client = RetrievalClient(where, timeout=1.0, retries=0)
        seconds, _ = took(lambda: client.search("x"), EnvironmentFault)
        assert seconds < 6


class Stuck(Retriever):
    """A search that waits until it is let go."""

    def __init__(self):
        self.go = threading.Event()

    def search(self, query, k=5):
        if query == "fail":
            raise EnvironmentFault("the disk is gone")
        self.go.wait(60)
        return []


def test_time_limit_full_queue_and_failure():
    stuck = Stuck()
    limits = Limits(seconds=0.5, threads=1, waiting=1)
    with served(stuck, limits=limits) as where:
        failed = httpx.post(f"{where}/search", json={"queries": ["fail"]})
        assert failed.status_code == 500 and "the disk is gone" in failed.json()["error"]
        with pytest.raises(EnvironmentFault, match="the disk is gone"):
            RetrievalClient(where).search("fail")
        slow = httpx.post(f"{where}/search", json={"queries": ["x"]}, timeout=30)
        assert slow.status_code == 504
        # The stuck search holds the thread; one request waits and gives its place up.
        assert httpx.post(f"{where}/search", json={"queries": ["x"]}, timeout=30).status_code == 504
        codes = []

        def ask():
            codes.append(
                httpx.post(f"{where}/search", json={"queries": ["x"]}, timeout=30).status_code
            )

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(codes)[0] == 503 and set(codes) <= {503, 504}
        stuck.go.set()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            answer = httpx.post(f"{where}/search", json={"queries": ["x"]}, timeout=30)
            if answer.status_code == 200:
                break
        assert answer.json() == {"results": [[]]}


def test_many_threads_through_one_client(index, url):
    client = RetrievalClient(url, timeout=60)
    queries = ["wrote", "ciphers", "compiler", "none"]
    results: list[list] = []

    def work():
        results.extend(client.search_batch(queries, 3) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 80
    assert all(found == index.search_batch(queries, 3) for found in results)


def test_the_command_serves_and_stops(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(
        "".join(json.dumps({"id": i, "title": t, "text": x}) + "\n" for i, t, x in ROWS)
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
        "AGENTR1_RETRIEVAL_TOKEN": "s3cret",
    }
    command = [sys.executable, "-m", "agentr1_train.cli.main", "retrieval", "serve"]
    child = subprocess.Popen(
        [*command, "--index", str(corpus), "--port", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
        where = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert where, line
        assert "s3cret" not in line
        client = RetrievalClient(where.group(), token="s3cret", timeout=30)
        assert client.search("ciphers")[0].id == "alan"
        busy = subprocess.run(
            [*command, "--index", str(corpus), "--port", where.group().rpartition(":")[2]],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert busy.returncode != 0 and "in use" in busy.stderr
        assert "Traceback" not in busy.stderr
        child.send_signal(signal.SIGINT)
        assert child.wait(30) in (0, 130)
        with pytest.raises(EnvironmentFault):
            RetrievalClient(where.group(), timeout=1.0).search("ciphers")
    finally:
        child.kill()
        child.wait()
