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


# Why a test may be skipped where everything can be installed. Anything else that is skipped in CI
# is a test that was meant to run and did not.
ALLOWED_SKIPS = ("make test-bridges", "make test-verl", "needs a GPU")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI a skipped test fails the run, unless its reason is known."""
    if os.environ.get("CI") != "true" or exitstatus != pytest.ExitCode.OK:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(allowed in reason for allowed in ALLOWED_SKIPS):
            reporter.write_line(f"skipped in CI: {report.nodeid}: {reason}", red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
