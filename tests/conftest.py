"""Fixtures and helpers for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples in every run: a change fails because of itself. HYPOTHESIS_PROFILE=default
# searches with new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

ROOT = Path(__file__).resolve().parents[1]


def find_shared() -> Path | None:
    """The folder with real data and recordings, which is no part of the project."""
    named = os.environ.get("AGENTR1_SHARED")
    candidates = [Path(named)] if named else []
    candidates += [parent / "shared" for parent in ROOT.parents[:2]]
    return next((path for path in candidates if (path / "golden").is_dir()), None)


def shared_dir() -> Path:
    """`find_shared`, or a skip that says what to do."""
    found = find_shared()
    if found is None:
        pytest.skip("needs the shared data folder: set AGENTR1_SHARED to it")
    return found


@pytest.fixture(scope="session")
def shared() -> Path:
    return shared_dir()
