"""Prompts: templates, splicing, ids that are never made again of text."""

from __future__ import annotations

import asyncio
import itertools

import numpy as np
import pytest
from agentr1_wrappers import ChatPrompt, make_agent_env

from agentr1_envs.transitions import Episode
from agentr1_train.policies.base import Generation, Policy
from agentr1_train.prompts import ConversationIds, PromptEncoder, tokenize_episode
from agentr1_train.rollout import run_episode
from tests.core.toy import ToyEnv, call
from tests.train.odd_tokenizer import odd_tokenizer

# The shapes of common templates: markers with a newline after the end token, feedback inside the
# user's turn, tools only in the system turn.
QWEN_LIKE = r"""
{%- if tools -%}
{{ '<|system|>\n' + messages[0].content + '\n# Tools' }}
{%- for t in tools %}{{ '\n' + (t | tojson) }}{%- endfor %}{{ '<|end|>\n' }}
{%- elif messages[0].role == 'system' -%}
{{ '<|system|>\n' + messages[0].content + '<|end|>\n' }}
{%- endif -%}
{%- for m in messages -%}
{%- if m.role == 'tool' -%}
{{ '<|user|>\n<tool_response>\n' + m.content + '\n</tool_response><|end|>\n' }}
{%- elif m.role != 'system' -%}
{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|assistant|>\n' }}{%- endif -%}"""
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"x": {}}}}}]


@pytest.fixture(params=["plain", "qwen"])
def encoder(request):
    tokenizer = odd_tokenizer()
    if request.param == "qwen":
        tokenizer.chat_template = QWEN_LIKE
    return PromptEncoder(tokenizer)


def ids_of(encoder: PromptEncoder, text: str) -> list[int]:
    return encoder.tokenizer.encode(text, add_special_tokens=False)


def test_splice_equals_rendering_anew_when_the_reply_is_canonical(encoder):
    head = [{"role": "system", "content": "s"}, {"role": "user", "content": "数🙂"}]
    prompt = encoder.encode(head, TOOLS)
    reply = encoder.encode_action("hello ab")
    feedback = {"role": "tool", "content": "ok é"}
    spliced = encoder.extend(prompt, reply, [feedback], TOOLS, system=head[0])
    whole = encoder.encode([*head, {"role": "assistant", "content": "hello ab"}, feedback], TOOLS)
    assert spliced.tolist() == whole.tolist()
    assert spliced.dtype == np.int32


def test_splice_keeps_odd_ids_and_closes_an_open_turn(encoder):
    prompt = encoder.encode([{"role": "user", "content": "q"}])
    a, b = ids_of(encoder, "a") + ids_of(encoder, "b")
    new = [{"role": "tool", "content": "ok"}]
    for reply in ([a, b, encoder.end_id], [a, b]):  # ended by the model, cut by the limit
        reply = np.array(reply, np.int32)
        spliced = encoder.extend(prompt, reply, new)
        assert spliced[: len(prompt)].tolist() == prompt.tolist()
        assert spliced[len(prompt) : len(prompt) + len(reply)].tolist() == reply.tolist()
        # Exactly one end token closes the reply, whoever wrote it.
        rest = spliced[len(prompt) :].tolist()
        assert rest[:3] == [a, b, encoder.end_id]
        assert rest[3] != encoder.end_id
        assert spliced[-1] == encoder.encode([{"role": "user", "content": "q"}])[-1]


def test_decode_keeps_special_tokens_and_drops_the_end(encoder):
    ids = [*ids_of(encoder, "x"), encoder.tokenizer.pad_token_id, *ids_of(encoder, "y")]
    assert encoder.decode(np.array([*ids, encoder.end_id])) == "x<|pad|>y"
    assert encoder.decode(np.array(ids)) == "x<|pad|>y"
    assert encoder.decode(np.array([], np.int32)) == ""


def test_no_template_is_an_error():
    tokenizer = odd_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(ValueError, match="no chat template"):
        PromptEncoder(tokenizer)


class OddPolicy(Policy):
    """Samples "ab" as two tokens, which encoding would make one."""

    def __init__(self) -> None:
        self.encoder = PromptEncoder(odd_tokenizer())
        self.a, self.b = self.encoder.tokenizer.convert_tokens_to_ids(["a", "b"])
        self.fed: list[list[int]] = []

    async def generate(self, request):
        assert request.prompt_ids is not None
        self.fed.append(request.prompt_ids.tolist())
        text = call("add", a=1) if request.step < 2 else "ab"
        ids = [self.a, self.b, *ids_of(self.encoder, text), self.encoder.end_id]
        return Generation(
            "ab" + text, request.prompt_ids, np.array(ids, np.int32), np.zeros(len(ids), np.float32)
        )


def test_rollout_stores_the_ids_fed_and_sampled_and_append_splices_them():
    policy = OddPolicy()
    episode = asyncio.run(run_episode(ChatPrompt(ToyEnv()), policy, seed=1))
    assert episode.valid, episode.fault
    steps = episode.transitions
    assert len(steps) == 3
    for t, fed in zip(steps, policy.fed, strict=True):
        assert t.prompt_ids.tolist() == fed
        assert t.response_ids[:2].tolist() == [policy.a, policy.b]
    for now, then in itertools.pairwise(steps):
        start = np.concatenate([now.prompt_ids, now.response_ids])
        assert then.prompt_ids[: len(start)].tolist() == start.tolist()
        again = policy.encoder.encode(then.observation, ())
        assert again.tolist() != then.prompt_ids.tolist()  # encoding anew would have moved borders


def test_window_renders_anew():
    tokenizer = odd_tokenizer()
    ids = ConversationIds(PromptEncoder(tokenizer), None, splice=False)
    first = ({"role": "user", "content": "q"},)
    prompt = ids.next(first)
    ids.record(first, prompt, np.array(tokenizer.convert_tokens_to_ids(["a", "b"]), np.int32))
    following = (*first, {"role": "assistant", "content": "ab"}, {"role": "user", "content": "r"})
    assert ids.next(following).tolist() == ids.encoder.encode(following).tolist()


def test_written_episodes_get_the_ids_a_model_would_have_seen():
    env = make_agent_env({"env_id": "AgentR1/GSM8KTool-v0"})
    from agentr1_train.policies.scripted import ScriptedPolicy

    policy = ScriptedPolicy("expert", "AgentR1/GSM8KTool-v0")
    episode: Episode = asyncio.run(run_episode(env, policy, seed=3))
    encoder = PromptEncoder(odd_tokenizer())
    tokenize_episode(encoder, episode, env.unwrapped.tools)
    for t in episode.transitions:
        assert t.prompt_ids.tolist() == encoder.encode(t.observation, env.unwrapped.tools).tolist()
        assert encoder.decode(t.response_ids) == t.action
