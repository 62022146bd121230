"""The schemas of the environment's tools, made once a process and bound to each environment."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

from agentr1_envs.tools import Tool


def bound(template: Tool, function: Any, max_output: int) -> Tool:
    """The template with a method of one environment: building a schema costs a millisecond."""
    tool = copy.copy(template)
    tool.function, tool.max_output = function, max_output
    return tool


@lru_cache(maxsize=1)
def search_tool() -> Tool:
    """The schema of ``search``."""

    def search(query: str) -> str:
        """Search the collection and return the passages that match the query best.

        Args:
            query: What to look for: names and key words work best.
        """
        raise NotImplementedError

    return Tool(search)


@lru_cache(maxsize=1)
def lookup_tool() -> Tool:
    """The schema of ``lookup``."""

    def lookup(title: str) -> str:
        """Return the passage with exactly this title.

        Args:
            title: The title as a search result shows it.
        """
        raise NotImplementedError

    return Tool(lookup)
