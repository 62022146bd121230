"""verl stays as it was installed, and what is built on it stays small."""

from __future__ import annotations

import ast
import base64
import hashlib
import importlib.metadata
from pathlib import Path

import pytest

from tests.conftest import ROOT

OURS = sorted((ROOT / "agentr1_train").rglob("*.py"))


def imports_verl(path: Path) -> bool:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        if {name.partition(".")[0] for name in names} & {"verl", "transfer_queue"}:
            return True
    return False


def test_the_adapter_is_small() -> None:
    files = [path for path in OURS if imports_verl(path)]
    assert {path.name for path in files} >= {"trainer.py", "agent_loop.py", "loss.py", "plugin.py"}
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) <= 1_000
    assert max(map(len, lines)) <= 100


@pytest.mark.verl
def test_no_file_of_verl_is_changed() -> None:
    pytest.importorskip("verl", reason="needs verl: make test-verl")
    checked = 0
    for file in importlib.metadata.files("verl") or []:
        if file.hash is not None and file.suffix in (".py", ".yaml"):
            assert file.hash.mode == "sha256"
            digest = hashlib.sha256(Path(str(file.locate())).read_bytes()).digest()
            assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == file.hash.value, file
            checked += 1
    assert checked > 100


@pytest.mark.verl
def test_no_passage_of_verl_is_copied() -> None:
    """Six lines in a row, white space aside, that stand in one of its files."""
    pytest.importorskip("verl", reason="needs verl: make test-verl")

    def passages(path: Path) -> set[tuple[str, ...]]:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        lines = [line.strip() for line in lines if line.strip()]
        return {tuple(lines[i : i + 6]) for i in range(len(lines) - 5)}

    theirs: set[tuple[str, ...]] = set()
    for file in importlib.metadata.files("verl") or []:
        if file.suffix == ".py":
            theirs |= passages(Path(str(file.locate())))
    assert len(theirs) > 10_000
    for path in OURS:
        assert not passages(path) & theirs, path
