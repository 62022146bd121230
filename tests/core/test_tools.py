from __future__ import annotations

import pickle
from typing import Literal

import pytest

from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.tools import BaseTool, Tool, ToolError, cut_words, tool


@tool
def search(query: str, k: int = 5, mode: Literal["fast", "exact"] = "fast") -> str:
    """Search the index.

    More words that are no part of the description.

    Args:
        query: What to look for,
            in words.
        k (int): How many.
        mode: How.
    """
    return f"{query} {k} {mode}"


def test_schema_from_types_and_docstring() -> None:
    function = search.schema["function"]
    assert function["name"] == "search" and function["description"] == "Search the index."
    parameters = function["parameters"]
    assert parameters["type"] == "object" and parameters["required"] == ["query"]
    fields = parameters["properties"]
    assert fields["query"] == {"type": "string", "description": "What to look for, in words."}
    assert fields["k"]["description"] == "How many." and fields["k"]["default"] == 5
    assert fields["mode"]["enum"] == ["fast", "exact"]
    search.schema["function"]["name"] = "changed"
    assert search.schema["function"]["name"] == "search"


def test_a_field_named_title_stays() -> None:
    def lookup(title: str, properties: int = 1) -> str:
        return title

    fields = Tool(lookup).schema["function"]["parameters"]["properties"]
    assert set(fields) == {"title", "properties"} and fields["title"] == {"type": "string"}


def test_arguments_are_converted_and_checked() -> None:
    assert search({"query": "水", "k": "3"}) == "水 3 fast"
    for arguments, words in [
        ({}, ["query", "required"]),
        ({"query": 5}, ["query", "string"]),
        ({"query": "x", "k": "many"}, ["k", "integer"]),
        ({"query": "x", "limit": 3}, ["limit", "not permitted"]),
        ({"query": "x", "mode": "slow"}, ["mode", "fast"]),
        ([1], ["object"]),
        (None, ["object"]),
        ("query", ["object"]),
    ]:
        with pytest.raises(ToolError) as caught:
            search(arguments)
        assert caught.value.kind == "arguments"
        assert all(word in caught.value.message for word in words), caught.value.message
        assert "search(query: string" in caught.value.message and len(str(caught.value)) < 500


def test_huge_arguments_give_short_errors() -> None:
    with pytest.raises(ToolError) as caught:
        search({"query": ["x" * 1_000_000], **{f"k{i}": i for i in range(1000)}})
    assert len(caught.value.message) < 600
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ToolError):
        search({"query": deep})


def test_unexpected_exceptions_are_faults() -> None:
    def broken(x: int) -> int:
        return 1 // x

    with pytest.raises(EnvironmentFault, match="broken failed: ZeroDivisionError"):
        Tool(broken)({"x": 0})


def test_functions_that_can_be_no_tool() -> None:
    with pytest.raises(TypeError, match="no annotation"):
        Tool(lambda x: x, name="f")
    with pytest.raises(TypeError, match="plain"):

        def many(*values: int) -> int:
            return 0

        Tool(many)
    with pytest.raises(ValueError, match="no tool name"):
        Tool(lambda: 1)


def test_class_form() -> None:
    class Counter(BaseTool):
        name = "count"
        description = "Count up."

        def __init__(self) -> None:
            self.total = 0

        def execute(self, by: int = 1) -> int:  # type: ignore[override]
            self.total += by
            return self.total

    counted = Counter().as_tool()
    assert counted({}) == "1" and counted({"by": 4}) == "5"
    assert counted.schema["function"]["description"] == "Count up."


def test_results_are_cut_at_a_word() -> None:
    def words() -> str:
        return "水 " * 1000

    assert len(Tool(words, max_output=50)({})) <= 50
    assert cut_words("one two three", 12, " …") == "one two …"
    assert cut_words("onetwothree four", 12, " …") == "onetwothre …"
    assert cut_words("short", 12) == "short"
    for limit in range(5, 60):
        assert len(cut_words("alpha beta gamma delta " * 4, limit)) <= max(limit, 6)


def test_tool_error_survives_pickling() -> None:
    again = pickle.loads(pickle.dumps(ToolError("m", "k")))
    assert (again.message, again.kind) == ("m", "k")
