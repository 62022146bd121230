"""Shared fixtures of the retrieval tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared facts, data and golden files."""
    root = Path(__file__).resolve().parents[2]
    named = os.environ.get("AGENTR1_SHARED")
    for path in [Path(named)] if named else [root.parent / "shared", root.parent.parent / "shared"]:
        if path.is_dir():
            return path
    pytest.skip("no shared data: set AGENTR1_SHARED")
