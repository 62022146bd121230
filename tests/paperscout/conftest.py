"""Fixtures of the PaperScout tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.paperscout.local_server import ScriptedServer, scripted_server


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as running:
        yield running
