"""Sampling: exact log-probabilities, independence of the batch, prefixes, both runners."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agentr1_train.local import tiny
from agentr1_train.local.llama import GenericRunner, LlamaRunner
from agentr1_train.local.sampler import Sampler, SampleRequest


@pytest.fixture(scope="module")
def model_and_tokenizer():
    tokenizer = tiny.train_tokenizer(["hello world 123 <tool_call>"] * 3, 300)
    return tiny.build_model(tokenizer, "micro", seed=1), tokenizer


def make_sampler(model, tokenizer, **kwargs) -> Sampler:
    end = tokenizer.eos_token_id
    return Sampler(model, pad_id=tokenizer.pad_token_id, stop_ids=[end], **kwargs)


def requests(count: int, **kwargs) -> list[SampleRequest]:
    rng = np.random.default_rng(0)
    return [
        SampleRequest(
            rng.integers(8, 250, rng.integers(1, 40)).astype(np.int32), i, key=str(i), **kwargs
        )
        for i in range(count)
    ]


def reference_logprobs(model, prompt, reply) -> np.ndarray:
    ids = torch.from_numpy(np.concatenate([prompt, reply]).astype(np.int64))[None]
    with torch.no_grad():
        logp = model(ids).logits[0].log_softmax(-1)
    n = len(prompt)
    return logp[n - 1 : -1].gather(1, ids[0, n:, None])[:, 0].numpy()


def test_logprobs_are_the_models_own_over_two_turns(model_and_tokenizer):
    model, tokenizer = model_and_tokenizer
    sampler = make_sampler(model, tokenizer)
    first = requests(12, max_tokens=12)
    results = sampler.sample(first)
    second = [
        SampleRequest(
            np.concatenate([r.prompt_ids, s.response_ids, [9, 10, 11]]).astype(np.int32),
            r.seed, key=r.key, max_tokens=12,
        )
        for r, s in zip(first, results, strict=True)
    ]  # fmt: skip
    before = sampler.prefilled
    again = sampler.sample(second)
    assert sampler.prefilled - before < sum(len(r.prompt_ids) for r in second) / 2
    for r, s in [*zip(first, results, strict=True), *zip(second, again, strict=True)]:
        expected = reference_logprobs(model, r.prompt_ids, s.response_ids)
        np.testing.assert_allclose(s.logprobs, expected, atol=2e-5)
        assert s.response_ids.dtype == np.int32


def test_a_request_samples_the_same_alone_and_in_company(model_and_tokenizer):
    model, tokenizer = model_and_tokenizer
    together = make_sampler(model, tokenizer).sample(requests(9, max_tokens=10))
    for request, result in zip(requests(9, max_tokens=10), together, strict=True):
        alone = make_sampler(model, tokenizer).sample([request])[0]
        assert alone.response_ids.tolist() == result.response_ids.tolist()


def test_both_runners_agree(model_and_tokenizer):
    model, tokenizer = model_and_tokenizer
    fast = make_sampler(model, tokenizer)
    slow = make_sampler(model, tokenizer)
    slow.runner, slow._reuse = GenericRunner(model), False
    assert isinstance(fast.runner, LlamaRunner)
    for a, b in zip(
        fast.sample(requests(7, max_tokens=9)), slow.sample(requests(7, max_tokens=9)), strict=True
    ):
        assert a.response_ids.tolist() == b.response_ids.tolist()
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=2e-5)


def test_weights_changed_is_seen(model_and_tokenizer):
    _, tokenizer = model_and_tokenizer
    model = tiny.build_model(tokenizer, "micro", seed=2)
    sampler = make_sampler(model, tokenizer)
    request = requests(1, max_tokens=6)
    sampler.sample(request)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.5)
    sampler.weights_changed()
    result = sampler.sample(request)[0]
    expected = reference_logprobs(model, request[0].prompt_ids, result.response_ids)
    np.testing.assert_allclose(result.logprobs, expected, atol=2e-5)


def test_frequencies_are_the_models_distribution(model_and_tokenizer):
    model, tokenizer = model_and_tokenizer
    prompt = np.array([20, 21, 22], np.int32)
    n = 4000
    sampler = make_sampler(model, tokenizer, max_batch=4000)
    results = sampler.sample([SampleRequest(prompt, i, max_tokens=1) for i in range(n)])
    counts = np.bincount([r.response_ids[0] for r in results], minlength=len(tokenizer))
    with torch.no_grad():
        p = model(torch.tensor([[20, 21, 22]])).logits[0, -1].double().softmax(-1).numpy()
    z = (counts - n * p) / np.sqrt(n * p * (1 - p))
    assert np.abs(z).max() < 5.5


def test_greedy_limits_and_stops(model_and_tokenizer):
    model, tokenizer = model_and_tokenizer
    sampler = make_sampler(model, tokenizer)
    (one,) = sampler.sample([SampleRequest(np.array([9], np.int32), 0, 0.0, 5)])
    with torch.no_grad():
        assert one.response_ids[0] == model(torch.tensor([[9]])).logits[0, -1].argmax()
    assert len(one.response_ids) == 5 or one.finish_reason == "stop"
    stop_all = Sampler(model, pad_id=0, stop_ids=list(range(len(tokenizer))))
    for r in stop_all.sample(requests(4)):
        assert len(r.response_ids) == 1 and r.finish_reason == "stop"
    # Distribution cuts leave the log-probabilities of the whole distribution.
    cut = make_sampler(model, tokenizer, top_k=1)
    (greedy,) = cut.sample([SampleRequest(np.array([9], np.int32), 3, 1.0, 5)])
    assert greedy.response_ids.tolist() == one.response_ids.tolist()
    np.testing.assert_allclose(greedy.logprobs, one.logprobs, atol=1e-6)


def test_bad_prompts_are_refused(model_and_tokenizer):
    model, tokenizer = model_and_tokenizer
    sampler = make_sampler(model, tokenizer)
    for length in (0, model.config.max_position_embeddings):
        with pytest.raises(ValueError, match="request 0: prompt of"):
            sampler.sample([SampleRequest(np.zeros(length, np.int32), 0)])


def test_tokenizer_gives_every_text_back():
    tokenizer = tiny.train_tokenizer(["Ana has 12 apples.", "#### 42"], 320)
    for text in ("Ana has 1234567890 apples", "数学🙂é\n\t ", "  two  spaces ", "<tool_call>{}"):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids) == text
    assert len(tokenizer.encode("1234567", add_special_tokens=False)) == 7
