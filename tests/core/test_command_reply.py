"""Commands in replies of every form."""

from __future__ import annotations

import pytest

from agentr1_envs.command_reply import ACTION_FORMATS, BadReply, CommandReader


def reader(action_format: str, tool_format: str = "hermes") -> CommandReader:
    return CommandReader(action_format, tool_format, purpose="Acts.", example="look")


@pytest.mark.parametrize("action_format", ACTION_FORMATS)
@pytest.mark.parametrize(
    "tool_format", ["hermes", "llama3_json", "mistral", "qwen3_coder", "react"]
)
@pytest.mark.parametrize("command", ["go to desk 1", 'search["é" <b> {}]', "x"])
def test_what_is_written_is_read(action_format: str, tool_format: str, command: str) -> None:
    made = reader(action_format, tool_format)
    found = made.read(made.write(command))
    assert found.text == command and found.error is None
    assert (found.tool_calls is None) == (action_format != "tool")
    assert bool(made.tools) == (action_format == "tool")
    assert made.instructions


@pytest.mark.parametrize(
    ("action_format", "reply", "kind"),
    [
        ("think_action", "look", "format"),
        ("think_action", "<action>look</action>", "format"),
        ("think_action", "<action>look</action></think>", "format"),
        ("think_action", "</think><action>look", "format"),
        ("think_action", "</think><action>a</action><action>b</action>", "format"),
        ("tool", "look", "no_call"),
        ("tool", '<tool_call>{"name": "env_step", "argum', "parse_"),
        ("tool", '<tool_call>{"name": "go", "arguments": {}}</tool_call>', "unknown_tool"),
        ("tool", '<tool_call>{"name": "env_step", "arguments": {}}</tool_call>', "arguments"),
        (
            "tool",
            '<tool_call>{"name": "env_step", "arguments": {"command": 1}}</tool_call>',
            "arguments",
        ),
    ],
)
def test_bad_replies_say_why(action_format: str, reply: str, kind: str) -> None:
    with pytest.raises(BadReply) as error:
        reader(action_format).read(reply)
    assert error.value.kind.startswith(kind) and error.value.message


def test_a_thought_may_begin_in_the_prompt() -> None:
    assert reader("think_action").read("so\n</think> <action> look </action>.").text == " look "


def test_only_the_first_call_counts() -> None:
    made = reader("tool")
    found = made.read(made.write("a") + made.write("b"))
    assert found.text == "a"
    assert found.error is not None and found.error["kind"] == "too_many_calls"


def test_tools_are_not_shared() -> None:
    made = reader("tool")
    made.tools[0]["function"].clear()
    assert made.tools[0]["function"]["name"] == "env_step"


def test_unknown_formats() -> None:
    with pytest.raises(ValueError, match="action_format"):
        reader("x")
    with pytest.raises(ValueError):
        reader("tool", "x")
