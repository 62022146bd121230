"""Every format: round trips, outcomes on odd replies, robustness and linear time."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentr1_envs.tool_formats import (
    MAX_ERRORS,
    REASONS,
    ParsedReply,
    ToolCall,
    ToolFormat,
    format_names,
    get_format,
)

FORMATS = format_names()
SCHEMA = {
    "type": "function",
    "function": {
        "name": "calculator",
        "description": "Evaluates arithmetic.",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string"}},
            "required": ["expression"],
        },
    },
}
CALL = ToolCall("calculator", {"expression": "3*4"})

text = st.text(st.characters(codec="utf-8"), max_size=30)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
    | st.sampled_from(["3", "true", '"x"', "<tool_call>", "</parameter>", "\nObservation: x", "</"])
    | st.sampled_from(
        ["[TOOL_CALLS]", "<|call|>", "</action>", "</think>", "f(x=1)", " a ", "```"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,10}", fullmatch=True)
calls = st.lists(
    st.builds(ToolCall, names, st.dictionaries(names, values, max_size=3)), min_size=1, max_size=3
)


@pytest.mark.parametrize("name", FORMATS)
def test_round_trip(name: str) -> None:
    fmt = get_format(name)

    @settings(max_examples=100, deadline=None)
    @given(calls)
    def check(given_calls: list[ToolCall]) -> None:
        rendered = fmt.render(given_calls)
        reply = fmt.parse(rendered)
        assert reply.errors == []
        assert reply.calls == given_calls
        # Equality of Python values hides types: 1 == True == 1.0.
        assert repr([c.arguments for c in reply.calls]) == repr([c.arguments for c in given_calls])
        assert [call.id for call in reply.calls] == [f"call_{i}" for i in range(len(given_calls))]
        assert fmt.render(reply.calls) == rendered

    check()


@pytest.mark.parametrize("name", FORMATS)
def test_round_trip_with_the_schema_of_a_text_argument(name: str) -> None:
    fmt = get_format(name)

    @settings(max_examples=100, deadline=None)
    @given(text | st.sampled_from(["42", "true", "null", '"q"', "[1]", '{"a": 1}', "  x ", "'a'"]))
    def check(expression: str) -> None:
        given_calls = [ToolCall("calculator", {"expression": expression})]
        reply = fmt.parse(fmt.render(given_calls), [SCHEMA])
        assert (reply.calls, reply.errors) == (given_calls, [])

    check()


@pytest.mark.parametrize("name", FORMATS)
def test_text_around_calls(name: str) -> None:
    reply = get_format(name).parse(f"Let me see.\n{get_format(name).render([CALL])}\nDone.")
    assert reply.calls == [CALL] and reply.errors == []
    assert "Let me see." in reply.text or name == "harmony"
    assert "calculator" not in reply.text


@pytest.mark.parametrize("name", FORMATS)
def test_text_without_a_call_is_text(name: str) -> None:
    for words in ("#### 42", "", "  a { b } < c > [d] 'e'\n", "数学 🙂"):
        assert get_format(name).parse(words) == ParsedReply(words.strip())


@pytest.mark.parametrize("name", [n for n in FORMATS if n != "harmony"])
def test_reasoning_is_not_read(name: str) -> None:
    fmt = get_format(name)
    rendered = fmt.render([CALL])
    assert fmt.parse(f"<think>{rendered} #### 1</think>\n#### 2") == ParsedReply("#### 2")
    assert fmt.parse(f"maybe 1 </think>{rendered}").calls == [CALL]
    assert [e.reason for e in fmt.parse("<think> " + rendered).errors] == ["unclosed_reasoning"]


@pytest.mark.parametrize("name", FORMATS)
def test_instructions_name_the_tool(name: str) -> None:
    written = get_format(name).instructions([SCHEMA])
    assert "calculator" in written and "expression" in written


def reasons(name: str, reply: str, tools: Any = ()) -> list[str]:
    return [error.reason for error in get_format(name).parse(reply, tools).errors]


HERMES = [
    ('<tool_call>{"name": "c", "arguments": {"e": "3*4"', "truncated", 49),
    ('<tool_call>{"name": "c", "arguments": {"e": "3*', "truncated", 44),
    ('<tool_call>{"name": "c", "arguments": {"e": 1}</tool_call>', "truncated", 46),
    ("<tool_call>{'name': 'c'}</tool_call>", "single_quotes", 12),
    ('<tool_call>{"name": "c", "arguments": {"e": 1,}}</tool_call>', "trailing_comma", 45),
    ('<tool_call>{"name": "c", "arguments": {"e": [1, ]}}</tool_call>', "trailing_comma", 46),
    ("<tool_call>calculator</tool_call>", "invalid_json", 11),
    ("<tool_call>[1]</tool_call>", "not_an_object", 11),
    ('<tool_call>{"arguments": {}}</tool_call>', "missing_name", 11),
    ('<tool_call>{"name": 3}</tool_call>', "invalid_name", 11),
    ('<tool_call>{"name": " "}</tool_call>', "invalid_name", 11),
    ('<tool_call>{"name": "c", "arguments": [1]}</tool_call>', "invalid_arguments", 11),
    ('<tool_call>{"name": "c", "expression": "1"}</tool_call>', "unexpected_field", 11),
    ('<tool_call>{"name": "c"} so</tool_call>', "trailing_text", 25),
    ('<tool_call>{"name": "c"}</tool_cal', "unclosed_tag", 24),
    ('{"name": "c"}</tool_call>', "unopened_tag", 13),
    ('<tool_call>{"name": "c", "arguments": {"e": NaN}}</tool_call>', "invalid_number", 11),
    ('<tool_call>{"name": "c", "arguments": {"e": 1e999}}</tool_call>', "invalid_number", 11),
    ('<tool_call>{"name": "c", "arguments": {"e": "\\ud83d"}}</tool_call>', "invalid_unicode", 11),
    ("<tool_call></tool_call>", "truncated", 11),
]


@pytest.mark.parametrize(("reply", "reason", "position"), HERMES)
def test_hermes_errors(reply: str, reason: str, position: int) -> None:
    parsed = get_format("hermes").parse(reply)
    assert parsed.calls == []
    assert [(e.reason, e.position) for e in parsed.errors] == [(reason, position)]
    assert parsed.errors[0].message.endswith(".")


def test_nested_json_is_kept_and_bounded() -> None:
    def nested(depth: int) -> str:
        inner = "[" * depth + "]" * depth
        return '<tool_call>{"name": "c", "arguments": {"e": ' + inner + "}}</tool_call>"

    parse = get_format("hermes").parse
    assert parse(nested(60)).calls[0].arguments["e"] is not None
    for depth in (70, 900, 1_100, 100_000):
        assert [e.reason for e in parse(nested(depth)).errors] == ["too_deep"]
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    for name in FORMATS:
        with pytest.raises(ValueError):
            get_format(name).render([ToolCall("c", {"e": deep})])


HERMES_ACCEPTED = [
    '<tool_call>{"name": "calculator", "arguments": {"expression": "3*4"}}',
    '<tool_call>\n```json\n{"name": "calculator", "arguments": {"expression": "3*4"}}\n```\n'
    "</tool_call>",
    '```\n<tool_call>{"name": "calculator", "arguments": {"expression": "3*4"}}</tool_call>\n```',
    '<tool_call>{"name": "calculator", "arguments": "{\\"expression\\": \\"3*4\\"}"}</tool_call>',
    '<tool_call> {"arguments": {"expression": "3*4"},\n "name": "calculator"} </tool_call>',
]


@pytest.mark.parametrize("reply", HERMES_ACCEPTED)
def test_hermes_accepted(reply: str) -> None:
    parsed = get_format("hermes").parse(reply)
    assert (parsed.calls, parsed.errors) == ([CALL], [])


def test_a_call_after_a_broken_one_is_a_call() -> None:
    good = '<tool_call>{"name": "calculator", "arguments": {"expression": "3*4"}}</tool_call>'
    for bad in (
        "<tool_call>{'a'</tool_call>",
        '<tool_call>{"name": "c"}',
        "<tool_call>{",
        "</tool_call>",
    ):
        parsed = get_format("hermes").parse(bad + good)
        assert parsed.calls == [CALL] and len(parsed.errors) == 1, bad


def test_bare_calls_are_read_as_those_in_free_text() -> None:
    # A reply of calls alone takes a short way; a word in front of it forces the general one.
    parse = get_format("hermes").parse
    bodies = ['{"name": "a"}', '{"name": "b", "arguments": {"e": "</tool_call>"}}', "{'c'}", "[1]"]
    for order in itertools.permutations(bodies, 3):
        for between in ("\n", "", "\n\n", " and "):
            reply = between.join(f"<tool_call>{body}</tool_call>" for body in order)
            alone, inside = parse(reply), parse(f"So:{reply}")
            assert alone.calls == inside.calls and len(alone.calls) <= 2
            assert [c.id for c in alone.calls] == [c.id for c in inside.calls]
            assert [(e.reason, e.position + 3, e.message) for e in alone.errors] == [
                (e.reason, e.position, e.message) for e in inside.errors
            ]


def test_a_closing_mark_inside_a_string_is_text() -> None:
    reply = '<tool_call>{"name": "c", "arguments": {"e": "</tool_call>"}}</tool_call>'
    assert get_format("hermes").parse(reply).calls == [ToolCall("c", {"e": "</tool_call>"})]


OTHER = [
    ("llama3_json", '{"name": "c", "parameters": {"e": 1}}', []),
    ("llama3_json", '<|python_tag|>{"name": "c", "arguments": {}}', []),
    ("llama3_json", '{"type": "function", "name": "c", "parameters": {}}', []),
    ("llama3_json", 'So:\n```json\n{"name": "c", "parameters": {}}\n```', []),
    ("llama3_json", '{"name": "c"} ; {"name": "d"}', []),
    ("llama3_json", '{"name": "c", "parameters": {"e": "1', ["truncated"]),
    ("llama3_json", "{'name': 'c'}", ["single_quotes"]),
    ("llama3_json", '{"name": "c",}', ["trailing_comma"]),
    ("llama3_json", '{"name": "c", "parameters": {}, "arguments": {}}', ["unexpected_field"]),
    ("llama3_json", '{"other": 1}', ["missing_name"]),
    ("mistral", '[TOOL_CALLS][{"name": "c", "arguments": {}}]', []),
    ("mistral", '[TOOL_CALLS]calculator[ARGS]{"expression": "3"}', []),
    ("mistral", '[TOOL_CALLS]calculator{"expression": "3"}', []),
    ("mistral", '[TOOL_CALLS] {"name": "c", "arguments": {}}', []),
    ("mistral", '[TOOL_CALLS] ```json\n[{"name": "c", "arguments": {}}]\n```', []),
    ("mistral", '[TOOL_CALLS] [{"name": "c"}, {"nam": 1}]', ["missing_name"]),
    ("mistral", '[TOOL_CALLS] [{"name": "c"}', ["truncated"]),
    ("mistral", '[TOOL_CALLS] [{"name": "c"},]', ["trailing_comma"]),
    ("mistral", "[TOOL_CALLS] [{'name': 'c'}]", ["single_quotes"]),
    ("mistral", "[TOOL_CALLS]", ["truncated"]),
    ("qwen3_coder", "<function=c><parameter=e>1</parameter></function>", []),
    ("qwen3_coder", "<tool_call><function=c></function>", []),
    ("qwen3_coder", "<tool_call>\n```xml\n<function=c></function>\n```\n</tool_call>", []),
    ("qwen3_coder", "<tool_call><function=c></function><function=d></function></tool_call>", []),
    ("qwen3_coder", "<tool_call><function=c><parameter=e>1", ["truncated"]),
    ("qwen3_coder", "<tool_call><function=c><para", ["truncated"]),
    ("qwen3_coder", "<tool_call><function=c", ["truncated"]),
    ("qwen3_coder", '<tool_call>{"name": "c"}</tool_call>', ["missing_name"]),
    ("qwen3_coder", "<function=c><parameter=e>1</function>", ["unclosed_tag"]),
    (
        "qwen3_coder",
        "<function=c><parameter=e>1</parameter><parameter=e>2</parameter></function>",
        ["duplicate_argument"],
    ),
    ("qwen3_coder", "<function=c></function></tool_call>", ["unopened_tag"]),
    ("react", 'Thought: x\nAction: c\nAction Input: {"e": 1}\nObservation: 5\nAction: d', []),
    ("react", 'Action: c\n\nAction Input: ```json\n{"e": 1}\n```', []),
    ("react", "Action: c", ["missing_input"]),
    ("react", "Action:\nAction Input: {}", ["missing_name"]),
    ("react", "Action: c\nAction Input: 3*4", ["invalid_arguments"]),
    ("react", "Action: c\nAction Input: [1]", ["invalid_arguments"]),
    ("react", 'Action: c\nAction Input: {"e": 1', ["truncated"]),
    ("react", "Action: c\nAction Input: {'e': 1}", ["single_quotes"]),
    ("react", 'Action: c\nAction Input: {"e": 1,}', ["trailing_comma"]),
    ("action_tag", "<think>hm</think><action>go to desk 1</action>", []),
    ("action_tag", '<action>calculator(expression="3*4")</action>', []),
    ("action_tag", '<action>```\ncalculator(expression="3*4")\n```</action>', []),
    ("action_tag", '<action>calculator(expression="3*4")', []),
    ("action_tag", "<action>go to", ["truncated"]),
    ("action_tag", "<action> </action>", ["missing_name"]),
    ("action_tag", "<action>calculator(expression='3*4')</action>", ["single_quotes"]),
    ("action_tag", '<action>calculator(expression="3*4",)</action>', ["trailing_comma"]),
    ("action_tag", '<action>calculator(expression="3*4"</action>', ["truncated"]),
    ("action_tag", "<action>c(a=1 b=2)</action>", ["invalid_arguments"]),
    ("action_tag", "<action>c(a=1, a=2)</action>", ["duplicate_argument"]),
    ("action_tag", "go</action>", ["unopened_tag"]),
    ("harmony", "<|channel|>analysis<|message|>#### 1<|end|>", []),
    ("harmony", "<|channel|>commentary to=functions.c<|message|>{}", []),
    ("harmony", " to=functions.c<|channel|>commentary json<|message|>{}<|call|>", []),
    ("harmony", "<|channel|>commentary to=functions.c<|message|>```json\n{}\n```<|call|>", []),
    ("harmony", '<|channel|>commentary to=functions.c<|message|>{"e"<|call|>', ["truncated"]),
    (
        "harmony",
        "<|channel|>commentary to=functions.c<|message|>{'e': 1}<|call|>",
        ["single_quotes"],
    ),
    ("harmony", '<|channel|>commentary to=functions.c<|message|>{"e": 1,}', ["trailing_comma"]),
    ("harmony", "<|channel|>commentary to=functions.c", ["truncated"]),
    ("harmony", "<|channel|>commentary to=functions.c<|message|>{} so<|call|>", ["trailing_text"]),
    ("harmony", "<|channel|>commentary to=functions.c<|message|>3<|call|>", ["invalid_arguments"]),
]


@pytest.mark.parametrize(("name", "reply", "expected"), OTHER)
def test_outcomes(name: str, reply: str, expected: list[str]) -> None:
    assert reasons(name, reply) == expected
    if not expected and "analysis" not in reply:
        assert get_format(name).parse(reply).calls


def test_values_without_quotes_follow_the_schema() -> None:
    reply = "<function=calculator>\n<parameter=expression>\n42\n</parameter>\n</function>"
    parse = get_format("qwen3_coder").parse
    assert parse(reply).calls[0].arguments == {"expression": 42}
    assert parse(reply, [SCHEMA]).calls[0].arguments == {"expression": "42"}
    for bare in ("3*4", "`3*4`", "'3*4'", '"3*4"'):
        found = get_format("react").parse(f"Action: calculator\nAction Input: {bare}", [SCHEMA])
        assert found.calls == [CALL], bare
    assert get_format("action_tag").parse("<action>3*4</action>", [SCHEMA]).calls == [CALL]
    assert get_format("action_tag").parse("<action>look</action>").calls == [
        ToolCall("env_step", {"command": "look"})
    ]


def test_text_of_channels_and_invented_observations() -> None:
    reply = "<|channel|>analysis<|message|>a<|end|>"
    reply += "<|start|>assistant<|channel|>final<|message|>b<|return|>"
    assert get_format("harmony").parse(reply) == ParsedReply("b")
    assert get_format("react").parse("Final Answer: #### 3\nObservation: 4").text.endswith("#### 3")


def test_what_the_harmony_library_writes() -> None:
    """Texts that openai-harmony 0.0.8 rendered; it read `render`'s output back to equal calls."""
    parse = get_format("harmony").parse
    call = (
        "<|start|>assistant to=functions.calculator<|channel|>commentary <|constrain|>json"
        '<|message|>{"expression": "3*4"}<|call|>'
    )
    assert parse(call).calls == [CALL] and parse(call).text == ""
    assert parse(call.removeprefix("<|start|>assistant")).calls == [CALL]
    nested = (
        " to=functions.a_b<|channel|>commentary <|constrain|>json<|message|>"
        '{"x": [1, {"k": "\\u6570 \\ud83d\\ude42 <|call|> \\n\\"q\\""}], "y": null}<|call|>'
    )
    assert parse(nested).calls == [
        ToolCall("a_b", {"x": [1, {"k": '数 🙂 <|call|> \n"q"'}], "y": None})
    ]
    final = "<|start|>assistant<|channel|>final<|message|>#### 42<|end|>"
    assert parse(final) == ParsedReply("#### 42")


MARKS = [
    "<tool_call>", "</tool_call>", "<function=", "</function>", "<parameter=e>", "</parameter>",
    "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>", "Action:", "Action Input:", "Observation:", "\n",
    "<action>", "</action>", "<|channel|>", "<|message|>", "<|call|>", "<|start|>",
    "to=functions.c", "<think>", "</think>", "{", "}", "[", "]", '"', "'", ",", ":", '"name"',
    '"arguments"', "{}", '"parameters"', "\\", "\\ud800", " ", "```", "json", "c", "1", "(", ")",
    "=", ";", ">", "é", "🙂",
]  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_any_text_gives_a_reply(name: str) -> None:
    fmt = get_format(name)

    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.sampled_from(MARKS), max_size=25).map("".join) | st.text(max_size=60))
    def check(reply: str) -> None:
        parsed = fmt.parse(reply, [SCHEMA])
        for error in parsed.errors:
            assert error.reason in REASONS and 0 <= error.position <= len(reply)
        assert len(parsed.errors) <= MAX_ERRORS + 1
        for call in parsed.calls:
            assert call.name and isinstance(call.arguments, dict)
        assert len({call.id for call in parsed.calls}) == len(parsed.calls)

    check()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", FORMATS)
def test_hostile_replies_take_linear_time(name: str) -> None:
    """Quadratic work on any of these would take hours: the time-out is the assertion."""
    fmt = get_format(name)
    good = fmt.render([CALL])
    pieces = [*MARKS, good, good[: len(good) // 2], "{\n", '{"name":', '<tool_call>{"', "\n{"]
    pieces += ["Action: c\n", "<function=c>", "<function=c><parameter=e>", "\nAction: "]
    pieces += ["<|channel|>commentary to=functions.c<|message|>{", "\nAction Input: {", "a=1,"]
    pieces += ["<action>c(", " \n"]
    openers = ["<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "Action: c", "<action>c(a="]
    openers += ["<|channel|>", '<tool_call>{"name": "', "<function=c><parameter=e>"]
    for piece in pieces:
        fmt.parse(piece * (1_000_000 // len(piece)), [SCHEMA])
        for opener in openers:
            fmt.parse(opener + piece * (100_000 // len(piece)), [SCHEMA])


def test_unknown_formats_and_calls_that_can_not_be_written() -> None:
    with pytest.raises(ValueError, match=r"xml.*expected one of.*hermes"):
        get_format("xml")
    assert get_format(get_format("hermes")) is get_format("hermes")
    for name in FORMATS:
        fmt = get_format(name)
        assert isinstance(fmt, ToolFormat) and fmt.name == name
        assert fmt.render([]) == "" and fmt.parse("").calls == []
        for bad in (
            ToolCall("", {}),
            ToolCall("c", {"e": float("nan")}),
            ToolCall("c", {"e": "\ud800"}),
            ToolCall("c", {"e": {1, 2}}),
            ToolCall("c", {1: 2}),  # type: ignore[dict-item]
        ):
            with pytest.raises(ValueError):
                fmt.render([bad])
