"""Packed rows give the numbers of their sequences."""

from __future__ import annotations

import pytest
import torch

from agentr1_train import attention

transformers = pytest.importorskip("transformers")
LENGTHS = [5, 1, 33, 8, 17, 2, 64, 7]


def small(kind: str, implementation: str):
    name = {"llama": "LlamaConfig", "qwen3": "Qwen3Config", "mistral": "MistralConfig"}[kind]
    config = getattr(transformers, name)(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=128,
        sliding_window=None if kind != "mistral" else 16,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation=implementation
    ).eval()


@pytest.fixture(scope="module", autouse=True)
def registered():
    attention.register()


def packed():
    ids = torch.randint(0, 97, (sum(LENGTHS),), generator=torch.Generator().manual_seed(1))
    return ids, torch.cat([torch.arange(n) for n in LENGTHS])


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_a_packed_row_is_its_sequences(kind):
    model, plain = small(kind, attention.NAME), small(kind, "sdpa")
    ids, positions = packed()
    whole = model(input_ids=ids[None], position_ids=positions[None], use_cache=False).logits[0]
    alone = [plain(input_ids=x[None], use_cache=False).logits[0] for x in ids.split(LENGTHS)]
    torch.testing.assert_close(whole, torch.cat(alone), rtol=1e-4, atol=1e-5)
    one = whole.log_softmax(-1).gather(1, ids[:, None]).sum()
    two = torch.cat(alone).log_softmax(-1).gather(1, ids[:, None]).sum()
    one.backward(), two.backward()
    for a, b in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4)


def test_rows_of_a_batch_are_sequences_too():
    model, plain = small("llama", attention.NAME), small("llama", "sdpa")
    ids = packed()[0][:120].view(3, 40)
    positions = torch.cat([torch.arange(25), torch.arange(15)]).expand(3, -1)
    a = model(input_ids=ids, position_ids=positions, use_cache=False).logits
    b = plain(input_ids=ids, position_ids=positions, use_cache=False).logits
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_padding_and_caches_are_left_to_sdpa():
    model, plain = small("llama", attention.NAME), small("llama", "sdpa")
    ids = packed()[0][:24].view(2, 12)
    mask = torch.ones_like(ids)
    mask[0, :5] = 0
    a = model(input_ids=ids, attention_mask=mask).logits[mask.bool()]
    b = plain(input_ids=ids, attention_mask=mask).logits[mask.bool()]
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    made = [
        m.generate(ids, attention_mask=mask, max_new_tokens=6, do_sample=False, pad_token_id=0)
        for m in (model, plain)
    ]
    assert torch.equal(*made)


def test_a_prompt_in_two_pieces_is_left_to_sdpa():
    model = small("llama", attention.NAME)
    ids = packed()[0][:30].view(1, 30)
    whole = model(input_ids=ids).logits[:, 12:]
    first = model(input_ids=ids[:, :12], use_cache=True)
    rest = model(input_ids=ids[:, 12:], past_key_values=first.past_key_values).logits
    torch.testing.assert_close(rest, whole, rtol=1e-4, atol=1e-5)


def test_positions_with_several_axes_are_refused():
    q = torch.randn(1, 4, 6, 8)
    positions = torch.arange(6).expand(3, 1, 6)
    with pytest.raises(ValueError, match=r"shape \(3, 1, 6\)"):
        attention.packed_attention(None, q, q, q, None, position_ids=positions)


def test_a_sliding_window_is_refused_not_ignored():
    ids, positions = packed()
    with pytest.raises(ValueError, match="sequence of 17 tokens.*window of 16"):
        small("mistral", attention.NAME)(
            input_ids=ids[None], position_ids=positions[None], use_cache=False
        )


def test_sequences_are_padded_to_less_than_twice_their_tokens():
    _, positions = packed()
    parts = attention.buckets(positions[None])
    assert sorted(torch.cat([p.tokens for p in parts]).tolist()) == list(range(len(positions)))
    assert sum(p.sequences for p in parts) == len(LENGTHS)
    assert sum(p.sequences * p.length for p in parts) < 2 * len(positions)
    for p in parts:
        assert torch.equal(p.slots % p.length, positions[p.tokens])
