"""Imports tried in a child process, so that one that hangs, prints or crashes is an outcome.

Nothing that is probed is imported into this process.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# One child imports everything in turn and reports line by line on a descriptor of its own, since
# packages print; when it dies or hangs, the parent knows at which one and goes on with the rest.
_CHILD = """
import importlib, json, os, sys, time, warnings
out = os.fdopen(os.dup(1), "w"); os.dup2(2, 1); warnings.simplefilter("ignore")
for name, modules, code in json.loads(sys.stdin.read()):
    print(json.dumps({"begin": name}), file=out, flush=True)
    start, error, names = time.perf_counter(), None, {"result": None}
    try:
        for module in modules:
            importlib.import_module(module)
        exec(code, names)
    except BaseException as e:
        lines = str(e).strip().splitlines() or [""]
        error = f"{type(e).__name__}: {lines[0][:300]}".rstrip(": ")
    seconds = time.perf_counter() - start
    line = {"name": name, "error": error, "seconds": seconds, "result": names.get("result")}
    print(json.dumps(line), file=out, flush=True)
os._exit(0)
"""


def run_probes(
    probes: list[tuple[str, tuple[str, ...], str]],
    timeout: float,
    tick: Callable[[str], None] = lambda name: None,
) -> dict[str, dict[str, Any]]:
    """Import modules and run code in a child process; ``{"error", "seconds", "result"}`` each."""
    outcomes: dict[str, dict[str, Any]] = {}
    waiting = list(probes)
    while waiting:
        current = waiting[0][0]
        for line in _child(waiting, timeout):
            if "begin" in line:
                current = line["begin"]
                tick(current)
            elif "stopped" in line:
                outcomes[current] = {"error": line["stopped"], "seconds": None, "result": None}
            else:
                outcomes[line["name"]] = line
        waiting = [probe for probe in waiting if probe[0] not in outcomes]
    return outcomes


def _child(probes: list[Any], timeout: float) -> Iterator[dict[str, Any]]:
    """The child's lines; the last is ``{"stopped": why}`` when it did not come to its end."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    # The package itself must be found where it is no installed distribution.
    root = str(Path(__file__).resolve().parents[1])
    environment["PYTHONPATH"] = os.pathsep.join(
        dict.fromkeys([root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])
    )
    process = subprocess.Popen(
        [sys.executable, "-c", _CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    assert process.stdin is not None and process.stdout is not None
    lines: queue.Queue[str | None] = queue.Queue()

    def read(stream: Any) -> None:
        for text in stream:
            lines.put(text)
        lines.put(None)

    threading.Thread(target=read, args=(process.stdout,), daemon=True).start()
    process.stdin.write(json.dumps(probes))
    process.stdin.close()
    done = 0
    deadline = time.monotonic() + timeout
    try:
        while True:
            try:
                text = lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                yield {"stopped": f"no end after {timeout:g} s"}
                return
            if text is None:
                break
            line = json.loads(text)
            if "name" in line:
                done += 1
                deadline = time.monotonic() + timeout
            yield line
        if done < len(probes):
            code = process.wait(10)
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            yield {"stopped": f"the import ended the process ({how})"}
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
