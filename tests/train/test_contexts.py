"""Context rules: what is never lost, what is cut, and why an episode ends."""

from __future__ import annotations

import pytest
from agentr1_wrappers import ChatPrompt, Summarise, TokenBudget, make_agent_env, make_context
from agentr1_wrappers.augment import notes, scratchpad
from agentr1_wrappers.context import ContextInput, ContextOverflow, Turn

from agentr1_train.prompts import PromptEncoder
from tests.core.toy import ToyEnv, call
from tests.train.odd_tokenizer import odd_tokenizer

TOOLS = ({"type": "function", "function": {"name": "f"}},)


def context(turns: list[Turn], **kwargs) -> ContextInput:
    last = turns[-1].feedback if turns else "start"
    given = {"system": "SYSTEM", "task": "TASK", "observation": last, "info": {}, "tools": TOOLS}
    return ContextInput(turns=tuple(turns), **{**given, **kwargs})


def some_turns(count: int) -> list[Turn]:
    return [Turn(f"action {i} " + "x" * 20, f"feedback {i} 数🙂") for i in range(count)]


def everything(messages) -> str:
    return "\n".join(m["content"] for m in messages)


def test_budget_keeps_what_must_be_kept_and_counts_with_the_real_template():
    encoder = PromptEncoder(odd_tokenizer())
    for n in (200, 300, 500, 5000):
        for count in range(12):
            rule = TokenBudget(n, encoder.count)
            messages = rule.render(context(some_turns(count), tools=()))
            assert len(encoder.encode(messages)) <= n
            text = everything(messages)
            assert "SYSTEM" in text and "TASK" in text
            if count:
                assert f"feedback {count - 1} 数🙂" in text
            kept = sum(m["role"] == "assistant" for m in messages)
            if kept < count:
                assert f"[{count - kept} earlier turn" in text
            if n == 5000:
                assert kept == count


def test_budget_says_why_it_cannot():
    rule = TokenBudget(60)
    huge = [Turn("a", "y" * 1000)]
    with pytest.raises(ContextOverflow, match="budget is 60") as caught:
        rule.render(context(huge))
    assert caught.value.reason == "context_budget"
    env = ChatPrompt(ToyEnv(), context=TokenBudget(150))
    env.reset(seed=0)
    *_, truncated, info = env.step(call("add", a=int("1" * 400)))
    assert truncated and info["stop_reason"] == "context_budget"
    assert info["success"] is False and info["score"] == 0.0
    for wrong in ({"n": 0}, {"n": 5, "reserve": 5}):
        with pytest.raises(ValueError, match="n > reserve"):
            TokenBudget(**wrong)
    with pytest.raises(TypeError, match="callable"):
        TokenBudget(5, count=3)  # type: ignore[arg-type]


def test_summaries_are_made_once_for_each_turn_that_leaves():
    calls = []

    def fn(task, summary, turns):
        calls.append([t.action[:8] for t in turns])
        return summary + "|" + ",".join(t.action[:8] for t in turns)

    rule = Summarise(fn, keep=2)
    rule.reset()
    for count in range(7):
        messages = rule.render(context(some_turns(count)))
        assert sum(m["role"] == "assistant" for m in messages) == min(count, 2)
        assert messages[0]["content"] == "SYSTEM" and "TASK" in messages[1]["content"]
    assert calls == [[f"action {i}"] for i in range(4)]
    assert "|action 0|action 1|action 2|action 3" in messages[1]["content"]
    rule.reset()
    assert "Summary" not in everything(rule.render(context(some_turns(1))))
    short = Summarise(keep=1, max_chars=50)
    assert "[..]" in everything(short.render(context(some_turns(9))))


def test_rules_by_name():
    assert repr(make_context("budget:900")) == "TokenBudget(900)"
    assert repr(make_context({"name": "summarise", "keep": 3})) == "Summarise(keep=3)"
    env = make_agent_env(
        {"env_id": "AgentR1/GSM8KTool-v0", "context": "summarise", "augment": ["notes"]}
    )
    observation, _ = env.reset(seed=0)
    for _ in range(4):
        observation, *_ = env.step("<note>seven</note> hm")
    assert "Summary of earlier turns" in observation[1]["content"]
    assert observation[-1]["content"].endswith("Your notes:\n- seven")


def test_notes_and_scratchpad():
    turns = [
        Turn("<note>a  b</note> x <note>c</note>", "f"),
        Turn("<scratchpad>1</scratchpad>", ""),
    ]
    assert notes(context(turns)) == "Your notes:\n- a b\n- c"
    assert scratchpad(context(turns)) == "Your scratchpad:\n1"
    turns.append(Turn("<scratchpad> 2\n3 </scratchpad><note>c</note>", ""))
    assert scratchpad(context(turns)) == "Your scratchpad:\n2\n3"
    assert notes(context(turns)).count("- c") == 1
    assert notes(context([])) == "" and scratchpad(context([])) == ""
    many = [Turn(f"<note>{i} {'z' * 300}</note>", "") for i in range(50)]
    assert len(notes(context(many))) < 2200 and "- 49 " in notes(context(many))
