"""A headless Chromium driven through its DevTools pipe: no driver, no further packages."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any


def find_chromium() -> str | None:
    """The browser's path, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


class Browser:
    """One tab. Commands and answers are JSON messages that end in a zero byte."""

    def __init__(self, profile: Path, timeout: float = 60.0) -> None:
        program = find_chromium()
        assert program is not None
        self.timeout, self._next, self._buffer = timeout, 0, b""
        their_in, self._out = os.pipe()
        self._in, their_out = os.pipe()

        # The browser reads commands from descriptor 3 and answers on 4; a shell puts them there.
        wiring = f'exec "$@" 3<&{their_in} 4>&{their_out}'
        self._process = subprocess.Popen(
            [
                *("bash", "-c", wiring, "browser", program),
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
                *("--no-first-run", "--disable-background-networking", "--disable-sync"),
                *(f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"),
            ],
            pass_fds=(their_in, their_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_in)
        os.close(their_out)
        self._poll = select.poll()  # select() itself refuses descriptors above 1023
        self._poll.register(self._in, select.POLLIN)
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.call("Page.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A DevTools command in the tab."""
        return self._call(method, self._session, **params)

    def _call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.timeout
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._next:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if not self._poll.poll(max(left, 0) * 1000):
                raise TimeoutError("the browser does not answer")
            data = os.read(self._in, 1 << 16)
            if not data:
                raise RuntimeError(f"the browser ended ({self._process.poll()})")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def _load(self, action: str) -> None:
        """Run `action`, which leaves the page, and wait until the next one is complete."""
        self.evaluate(f"window.old = true; {action}")
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                if self.evaluate("!window.old && document.readyState === 'complete'"):
                    return
            except RuntimeError:
                pass  # the page is being replaced
            if time.monotonic() > deadline:
                raise TimeoutError(f"no new page after {action!r}")
            time.sleep(0.02)

    def open(self, url: str) -> None:
        """Go to `url`."""
        self._load(f"location.href = {json.dumps(url)}")

    def click(self, text: str) -> None:
        """Press the button with this text or value."""
        self._load(
            "[...document.querySelectorAll('button')].find("
            f"b => b.textContent === {json.dumps(text)} || b.value === {json.dumps(text)}).click()"
        )

    def search(self, words: str) -> None:
        """Type `words` into the search bar and send them."""
        self._load(
            f"document.getElementById('search_input').value = {json.dumps(words)};"
            "document.querySelector('form').requestSubmit()"
        )

    def text(self) -> str:
        """The page's visible text."""
        return self.evaluate("document.body.innerText")
