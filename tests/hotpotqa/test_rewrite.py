"""The Rewrite context: the state of a search task, written anew at every step."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agentr1_wrappers import (
    ContextInput,
    ContextOverflow,
    Rewrite,
    SearchState,
    Turn,
    make_agent_env,
)


def turn(*calls: dict[str, Any], feedback: str = "", error: str | None = None) -> Turn:
    info: dict[str, Any] = {"tool_calls": list(calls)} if calls else {}
    if error:
        info["agent_error"] = {"kind": "x", "message": error}
    return Turn("reply", feedback, info)


def search(query: str, *passages: tuple[str, str], error: str | None = None) -> dict[str, Any]:
    result = "\n".join(f"{i}. {title}\n{text}" for i, (title, text) in enumerate(passages, 1))
    return {
        "name": "search",
        "arguments": {"query": query},
        "result": None if error else result or "No passage.",
        "error": error,
    }


def state(*turns: Turn) -> ContextInput:
    last = turns[-1].feedback if turns else ""
    return ContextInput("Sys", "Question: q?", list(turns), last, {}, ())


def text(*turns: Turn, **options: Any) -> str:
    messages = Rewrite(**options).render(state(*turns))
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[0]["content"] == "Sys"
    return messages[1]["content"]


def test_the_first_state_is_the_task() -> None:
    assert text() == "Question: q?"


def test_queries_passages_and_errors() -> None:
    shown = text(
        turn(search("one", ("A", "a text"), ("B", "b text"))),
        turn(search("bad", error="Error: no.")),
        turn(search("one", ("B", "b text"), ("C", "c text")), search("two", ("A", "a text"))),
    )
    assert shown == (
        "Question: q?\n\nPast calls:\n- search: one (2 times)\n- search: two\n\n"
        "Found so far:\nB\nb text\nC\nc text\nA\na text\n\nRecent errors:\n- Error: no."
    )


def test_old_passages_are_left_out_first_and_new_ones_never() -> None:
    turns = [turn(search(f"q{i}", (f"T{i}", "x" * 40))) for i in range(4)]
    shown = text(*turns, max_chars=100)
    assert "T3" in shown and "T2" in shown and "T1\n" not in shown and "2 older left out" in shown
    with pytest.raises(ContextOverflow):
        text(*turns, max_chars=10)


def test_the_last_words_of_the_environment_are_never_lost() -> None:
    assert text(turn(feedback="Error: odd.", error="Error: odd.")).endswith("- Error: odd.")
    assert text(turn(feedback="Something else")).endswith("Something else")
    shown = text(*[turn(feedback=f"E{i}", error=f"E{i}") for i in range(5)])
    assert "E4" in shown and "E3" in shown and "E2" not in shown


def test_results_of_other_forms_stand_as_they_came() -> None:
    odd = {"name": "calc", "arguments": {"a": 1, "b": 2}, "result": "1. x", "error": None}
    shown = text(turn(odd))
    assert '- calc {"a": 1, "b": 2}' in shown and "Found so far:\n1. x" in shown


def test_in_an_environment() -> None:
    env = make_agent_env(
        {"env_id": "AgentR1/HotpotQA-v0", "context": "rewrite", "kwargs": {"split": "test"}}
    )
    first, _ = env.reset(seed=1)
    query = json.dumps({"name": "search", "arguments": {"query": "river"}})
    second, _, _, _, _ = env.step(f"<tool_call>{query}</tool_call>")
    assert len(second) == len(first) == 2
    assert second[1]["content"].startswith(first[1]["content"])
    assert "Past calls:\n- search: river" in second[1]["content"]
    assert "<tool_call>" not in second[1]["content"]
    third = env.step("nothing")[0]
    assert "Recent errors:\n- Error: neither" in third[1]["content"]


def test_a_function_of_ones_own() -> None:
    rule = Rewrite(lambda context: f"{len(context.turns)} turns")
    assert rule.render(state(turn(feedback="x")))[1]["content"] == "1 turns"
    assert isinstance(Rewrite("agentr1_wrappers.rewrite:SearchState").fn, type)
    with pytest.raises(TypeError):
        Rewrite(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="default writer"):
        Rewrite(len, max_chars=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_chars"):
        SearchState(max_chars=0)
