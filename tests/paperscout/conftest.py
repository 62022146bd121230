"""Fixtures of the PaperScout tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import agentr1_envs  # noqa: F401 - registers the ids
from tests.paperscout.local_server import ScriptedServer, scripted_server

SIZE = 3000


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as running:
        yield running


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the generated literature of this test session lies."""
    return tmp_path_factory.mktemp("paperscout")


@pytest.fixture(scope="session")
def library_options(cache_dir: Path) -> dict[str, Any]:
    return {"size": SIZE, "seed": 0, "cache_dir": os.fspath(cache_dir)}


@pytest.fixture
def make(library_options: dict[str, Any]) -> Any:
    """Makes an environment over the small generated literature."""

    def build(**kwargs: Any) -> Any:
        options = {**library_options, **kwargs.pop("library_options", {})}
        return gym.make("AgentR1/PaperScout-v0", library_options=options, **kwargs)

    return build
