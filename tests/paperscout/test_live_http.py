"""The HTTP client against a real server: every way in which a public service fails."""

from __future__ import annotations

import email.utils
import json
import multiprocessing
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.paperscout.live.cache import ResponseCache
from agentr1_envs.paperscout.live.http import (
    HostLimiter,
    LiveClient,
    MalformedAnswer,
    retry_after,
)
from tests.paperscout.local_server import Answer, ScriptedServer

GOOD = Answer(b'{"value": "\xe6\xb0\xb4"}')


def parse(body: bytes) -> Any:
    try:
        return json.loads(body)["value"]
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedAnswer(str(error)) from error


def client(server: ScriptedServer, **kwargs: Any) -> LiveClient:
    defaults: dict[str, Any] = {"interval": 0.0, "backoff": 0.01, "timeout": 0.5, "tries": 3}
    return LiveClient(server.url, **{**defaults, **kwargs})


def test_good_answer(server: ScriptedServer) -> None:
    server.script = [GOOD]
    assert client(server).get("a/b", {"q": "x y", "k": 3}, parse) == "水"
    assert server.requests[0].path == "/a/b?k=3&q=x+y"
    assert server.requests[0].headers["User-Agent"].startswith("agentr1")


@pytest.mark.parametrize(
    "bad",
    [
        Answer(status=500, body=b"oops"),
        Answer(status=503),
        Answer(status=429),
        Answer(b"not json"),
        Answer(b'{"value": '),
        Answer(b""),
        Answer(b'{"value": "long enough"}', cut=True),
        Answer(drop=True),
        Answer(b'{"value": 1}', delay=0.8),
        Answer(b'{"value": 1}', trickle=0.8),
    ],
    ids=["500", "503", "429", "text", "half", "empty", "cut", "drop", "slow", "trickle"],
)
def test_one_failure_is_retried_and_lasting_failure_is_a_fault(
    server: ScriptedServer, bad: Answer
) -> None:
    server.script = [bad, GOOD]
    assert client(server).get("p", {}, parse) == "水"
    assert len(server.requests) == 2
    server.script, server.requests = [bad], []
    with pytest.raises(EnvironmentFault, match="gave up after 2 tries"):
        client(server, tries=2).get("p", {}, parse)
    assert len(server.requests) == 2


def test_trickle_that_never_pauses_long_is_bounded(server: ScriptedServer) -> None:
    """Each read is quick, the whole is not: the deadline is for the whole."""
    server.script = [Answer(b"x" * 20, trickle=0.1)]
    start = time.monotonic()
    with pytest.raises(EnvironmentFault, match=r"answer took more than 0\.3 s"):
        client(server, timeout=0.3, tries=1).get("p", {}, parse)
    assert time.monotonic() - start < 2


def test_retry_after_is_kept_by_the_whole_process(server: ScriptedServer) -> None:
    server.script = [Answer(status=429, headers={"Retry-After": "1"}), GOOD]
    first, second = client(server), client(server)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(first.get("a", {}, parse)))
    thread.start()
    while not server.requests:
        time.sleep(0.005)
    time.sleep(0.1)
    results.append(second.get("b", {}, parse))
    thread.join()
    assert results == ["水", "水"]
    stamps = [request.at for request in server.requests]
    assert len(stamps) == 3
    assert all(stamp - stamps[0] >= 0.99 for stamp in stamps[1:])


def test_retry_after_beyond_the_limit_is_a_fault_at_once(server: ScriptedServer) -> None:
    server.script = [Answer(status=503, headers={"Retry-After": "3600"})]
    with pytest.raises(EnvironmentFault, match="asked to wait 3600 s"):
        client(server, max_wait=5).get("p", {}, parse)
    assert len(server.requests) == 1


def test_retry_after_forms() -> None:
    assert retry_after("7", 0.0) == 7.0
    assert retry_after(None, 0.0) is None
    assert retry_after("soon", 0.0) is None
    assert retry_after("-3", 0.0) is None
    date = email.utils.formatdate(1_000_060, usegmt=True)
    assert retry_after(date, 1_000_000.0) == 60.0
    assert retry_after(date, 2_000_000.0) == 0.0


def test_refusals_are_not_retried(server: ScriptedServer) -> None:
    for status in (400, 401, 403, 301):
        server.script, server.requests = [Answer(status=status, headers={"Location": "/x"})], []
        with pytest.raises(EnvironmentFault, match=f"status {status}"):
            client(server).get("p", {}, parse)
        assert len(server.requests) == 1


def test_404_is_a_fault_unless_expected(server: ScriptedServer, tmp_path: Path) -> None:
    server.script = [Answer(status=404)]
    with pytest.raises(EnvironmentFault, match="status 404"):
        client(server).get("p", {}, parse)
    stored = client(server, cache=ResponseCache(tmp_path / "c.sqlite"))
    assert stored.get("p", {}, parse, missing_ok=True) is None
    count = len(server.requests)
    assert stored.get("p", {}, parse, missing_ok=True) is None
    assert len(server.requests) == count


def test_too_large_answer(server: ScriptedServer) -> None:
    server.script = [Answer(b"x" * 5000)]
    with pytest.raises(EnvironmentFault, match="more than 1000 bytes"):
        client(server, max_bytes=1000).get("p", {}, parse)


def test_no_server() -> None:
    dead = LiveClient("http://127.0.0.1:9", interval=0, backoff=0.01, tries=2, timeout=1)
    with pytest.raises(EnvironmentFault, match="gave up after 2 tries: ConnectError"):
        dead.get("p", {}, parse)


def test_rate_limit_is_shared_by_threads_and_clients(server: ScriptedServer) -> None:
    server.script = [GOOD]
    threads = [
        threading.Thread(target=client(server, interval=0.05).get, args=(f"p{i}", {}, parse))
        for i in range(8)
    ]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Eight requests over one limiter take at least seven intervals, whatever the threads do; a busy
    # server notes the first of them late, so the time counts from before it.
    assert max(request.at for request in server.requests) - began >= 7 * 0.05


def test_limiter_places() -> None:
    limiter = HostLimiter()
    waits = [limiter.reserve(10.0) for _ in range(3)]
    assert waits[0] <= 0 and 9 < waits[1] <= 10 and 19 < waits[2] <= 20
    assert HostLimiter.of("a.example") is HostLimiter.of("a.example")


def test_cache_expiry_and_offline(server: ScriptedServer, tmp_path: Path) -> None:
    now = [1000.0]
    cache = ResponseCache(tmp_path / "deep" / "c.sqlite", max_age=60, clock=lambda: now[0])
    server.script = [GOOD]
    online = client(server, cache=cache)
    assert [online.get("p", {"a": 1}, parse) for _ in range(3)] == ["水"] * 3
    assert len(server.requests) == 1
    now[0] += 61
    online.get("p", {"a": 1}, parse)
    assert len(server.requests) == 2
    now[0] += 1e6
    offline = client(server, cache=cache, offline=True)
    assert offline.get("p", {"a": 1}, parse) == "水"
    with pytest.raises(EnvironmentFault, match="not in the cache"):
        offline.get("p", {"a": 2}, parse)
    assert len(server.requests) == 2
    assert cache.purge() == 1
    with pytest.raises(ValueError, match="needs a cache"):
        client(server, offline=True)


def test_failures_are_not_cached(server: ScriptedServer, tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "c.sqlite")
    server.script = [Answer(b"bad")]
    with pytest.raises(EnvironmentFault):
        client(server, cache=cache, tries=1).get("p", {}, parse)
    server.script = [GOOD]
    assert client(server, cache=cache).get("p", {}, parse) == "水"


def test_keys_stay_out_of_cache_and_errors(server: ScriptedServer, tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "c.sqlite")
    server.script = [GOOD]
    keyed = client(server, cache=cache, headers={"x-api-key": "s3cret"})
    keyed.get("p", {}, parse)
    assert server.requests[0].headers["x-api-key"] == "s3cret"
    assert all(b"s3cret" not in f.read_bytes() for f in tmp_path.iterdir())
    server.script = [Answer(status=403)]
    with pytest.raises(EnvironmentFault) as caught:
        keyed.get("q", {}, parse)
    assert "s3cret" not in str(caught.value)


def test_cache_file_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "c.sqlite"
    file.write_bytes(b"this is no database" * 100)
    with pytest.raises(EnvironmentFault, match=r"c\.sqlite.*expected a SQLite file"):
        ResponseCache(file)
    folder = tmp_path / "plain"
    folder.write_text("")
    with pytest.raises(EnvironmentFault, match="expected a SQLite file"):
        ResponseCache(folder / "c.sqlite")


def test_cache_that_cannot_be_written_still_answers(tmp_path: Path) -> None:
    file = tmp_path / "c #1?.sqlite"
    first = ResponseCache(file)
    first.put("key", b"stored")
    first._connection().close()
    # What a read-only disk does to SQLite, also for a user who may write everywhere.
    for ending in ("-wal", "-shm"):
        (tmp_path / f"{file.name}{ending}").mkdir()
    cache = ResponseCache(file)
    assert cache.get("key") == b"stored" and cache.get("other") is None
    with pytest.raises(EnvironmentFault, match="can write"):
        cache.put("other", b"x")


def _write_many(path: str, worker: int) -> None:
    cache = ResponseCache(path)
    for i in range(100):
        cache.put(f"{worker}-{i}", b"x" * 100)
        assert cache.get(f"{worker}-{i}") == b"x" * 100


def test_cache_of_many_processes_and_after_fork(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sqlite")
    cache = ResponseCache(path)
    cache.put("before", b"1")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_write_many, args=(path, n)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert cache.get("2-99") == b"x" * 100 and cache.get("before") == b"1"


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="base_url"):
        LiveClient("ftp://x")
    with pytest.raises(ValueError, match="tries"):
        LiveClient("http://x", tries=0)
