"""Every command and every example in the documentation runs, page by page, in an empty folder.

A block that can't run here says why in its title (shown on the page):

    ```bash title="needs a GPU"

`REASONS` holds all titles there are; any other title, a block without a language, or a command
that nothing runs fails. A block whose title is `SERVES` is started, has to listen on its port, and
runs until the end of its page.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentr1_train.cli.main import COMMANDS
from tests.conftest import ROOT

#: Why a block is shown and not run here.
REASONS = {
    "needs a GPU": "run.sh and run_verl.sh are run by tests/verl on the CPU",
    "needs a cluster": "several nodes",
    "needs the network": "packages and public services",
    "needs a model server": "tests/proxy and tests/train have one of their own",
    "needs published files": "they are not part of this project; tests read them where they lie",
    "needs the extra alfworld": "tests/alfworld run it where it is installed",
    "needs another stack": "make test-bridges runs it",
    "needs a sentence encoder": "tests/retrieval run one where it is installed",
    "needs verl": "make test-verl runs it",
    "runs for minutes": "tests/train run smaller ones of the kind",
    "for a terminal": "a person types",
    "builds the project": "tests/packaging and the CI run it",
}
SERVES = "serves until Ctrl-C"
#: Languages of blocks that are no commands.
SHOWN = {"text", "json", "yaml", "toml"}
PRELUDE = "import gymnasium as gym\nimport agentr1_envs\n"
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("recipes/*/README.md"), ROOT / "README.md"])


@dataclass
class Block:
    """A fenced block."""

    language: str
    title: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    found: list[Block] = []
    fence: re.Match[str] | None = None
    start, lines = 0, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if fence is None:
            fence = re.match(r"( *)(`{3,})(.*)", line)
            start, lines = number, []
        elif line.strip() == fence[2]:
            language, _, rest = fence[3].strip().partition(" ")
            title = re.search(r'title="([^"]*)"', rest)
            text = "\n".join(text.removeprefix(fence[1]) for text in lines)
            found.append(Block(language, title[1] if title else "", text, start))
            fence = None
        else:
            lines.append(line)
    assert fence is None, f"{page}: block at line {start} is not closed"
    return found


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_block_is_left_out_silently(page: Path) -> None:
    for block in blocks(page):
        where = f"{name(page)}:{block.line}"
        assert block.language in {"bash", "python", *SHOWN}, f"{where}: language {block.language!r}"
        assert block.title in {"", SERVES, *REASONS}, f"{where}: unknown reason {block.title!r}"
        if block.language == "python":
            ast.parse(block.text)  # also what is not run
        if block.language == "bash":
            command = ["bash", "-n", "-c", block.text]
            assert subprocess.run(command).returncode == 0, where


def test_every_reason_is_used() -> None:
    used = {block.title for page in PAGES for block in blocks(page)}
    assert set(REASONS) <= used


def test_commands_named_in_the_text_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, re.M))
    bridges = re.search(r"^BRIDGES := (.+)$", makefile, re.M)
    assert bridges is not None
    targets |= {f"test-bridge-{name}" for name in bridges[1].split()}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for command in re.findall(r"\bagentr1 ([a-z][a-z-]+)\b(?= |`|$)", code_of(text)):
            assert command in COMMANDS, f"{name(page)}: agentr1 {command}"
        for target in re.findall(r"(?:^|`)make ([a-z][a-z-]+)", text, re.M):
            assert target in targets, f"{name(page)}: make {target}"
        for module in re.findall(r"python -m (benchmarks\.[\w.]+)", text):
            path = ROOT / module.replace(".", "/")
            assert path.with_suffix(".py").is_file() or path.is_dir(), f"{name(page)}: {module}"
        for path in re.findall(
            r"`((?:tests|benchmarks|requirements|docs|recipes)/[\w./-]+)`", text
        ):
            assert (ROOT / path).exists(), f"{name(page)}: {path}"


def code_of(text: str) -> str:
    """Code spans and blocks, where a command is meant as one."""
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))


def runs(block: Block) -> bool:
    return block.language in ("bash", "python") and block.title in ("", SERVES)


@pytest.mark.parametrize("page", [p for p in PAGES if any(map(runs, blocks(p)))], ids=name)
def test_the_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "docs/examples"))
    names: dict[str, Any] = {"__name__": "page"}
    exec(PRELUDE, names)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "100",
    }
    with contextlib.ExitStack() as stack:
        for block in filter(runs, blocks(page)):
            where = f"{name(page)}:{block.line}"
            if block.language == "python":
                with contextlib.redirect_stdout(io.StringIO()):
                    # Line numbers of errors are those of the page.
                    exec(compile("\n" * block.line + block.text, name(page), "exec"), names)
            elif block.title == SERVES:
                stack.enter_context(served(block.text, environment, where))
            else:
                done = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", block.text],
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=240,
                )
                said = f"{where}\n{block.text}\n{done.stdout}\n{done.stderr}"
                assert done.returncode == 0, said
                assert "Traceback" not in done.stderr, said


@contextlib.contextmanager
def served(command: str, environment: dict[str, str], where: str) -> Iterator[None]:
    """Run a server beside what follows, once it listens."""
    port = re.search(r"--port (\d+)", command)
    assert port is not None, f"{where}: the test needs to know the port"
    process = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", command],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 120
        while True:
            if process.poll() is not None:
                assert process.stderr is not None
                pytest.fail(f"{where}: ended by itself: {process.stderr.read()}")
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", int(port[1])), timeout=1).close()
                break
            assert time.monotonic() < deadline, f"{where}: nothing listens on {port[1]}"
            time.sleep(0.1)
        yield
    finally:
        # As Ctrl-C does: to the whole group, since bash does not pass it on.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.stderr is not None
        process.stderr.close()
