"""Policies served by vLLM in this process, on a CPU build of it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
pytest.importorskip("vllm", reason="make test-bridges installs it")
pytestmark = pytest.mark.bridge

import torch  # noqa: E402
from agentr1_wrappers import make_agent_env  # noqa: E402

from agentr1_train.local import tiny  # noqa: E402
from agentr1_train.policies.vllm import VLLMPolicy  # noqa: E402
from agentr1_train.rollout import EnvLoop, EpisodeJob  # noqa: E402

ENGINE = {
    "enforce_eager": True, "max_model_len": 512, "dtype": "float32", "max_num_seqs": 16,
    "distributed_executor_backend": "uni",
}  # fmt: skip


def make_env() -> Any:
    kwargs = {"difficulty": "easy", "max_steps": 3}
    return make_agent_env({"env_id": "AgentR1/GSM8KTool-v0", "kwargs": kwargs})


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    env = make_env()
    texts = [m["content"] for seed in range(60) for m in env.reset(seed=seed)[0]]
    tokenizer = tiny.train_tokenizer(texts, 400)
    out = tmp_path_factory.mktemp("model")
    tiny.save(tiny.build_model(tokenizer, "tiny", max_positions=512), tokenizer, out)
    return out


@pytest.fixture(scope="module")
def policy(path: Path) -> Any:
    made = VLLMPolicy(str(path), max_tokens=12, engine=ENGINE)
    yield made


def roll_out(policy: Any) -> list[Any]:
    loop = EnvLoop(make_env, policy, concurrency=6)
    jobs = [EpisodeJob(f"e{i}", seed=i) for i in range(6)]

    async def run() -> list[Any]:
        try:
            return await loop.run(jobs)
        finally:
            await loop.close()

    return sorted(asyncio.run(run()), key=lambda e: e.episode_id)


def test_episodes_carry_what_the_engine_sampled(policy: Any, path: Path) -> None:
    model, _ = tiny.load(path)
    episodes = roll_out(policy)
    assert all(e.valid for e in episodes), [e.fault for e in episodes]
    steps = [t for e in episodes for t in e.transitions]
    assert len(steps) > 6  # states after the first continue the ids of those before
    for t in steps:
        assert t.action == policy.encoder.decode(t.response_ids)
        ids = torch.from_numpy(np.concatenate([t.prompt_ids, t.response_ids])).long()
        with torch.no_grad():
            logits = model(input_ids=ids[None]).logits[0, len(t.prompt_ids) - 1 : -1]
        own = logits.log_softmax(-1).gather(1, ids[len(t.prompt_ids) :, None])[:, 0]
        np.testing.assert_allclose(t.response_logprobs, own.numpy(), atol=2e-3)


def test_a_seed_is_a_reply(policy: Any) -> None:
    first, second = roll_out(policy), roll_out(policy)
    for a, b in zip(first, second, strict=True):
        assert [t.action for t in a.transitions] == [t.action for t in b.transitions]
    assert len({t.action for e in first for t in e.transitions}) > 3


def test_greedy_is_the_likeliest_token(policy: Any, path: Path) -> None:
    model, _ = tiny.load(path)
    before, policy.temperature = policy.temperature, 0.0
    try:
        steps = [t for e in roll_out(policy) for t in e.transitions]
    finally:
        policy.temperature = before
    for t in steps[:4]:
        with torch.no_grad():
            logits = model(input_ids=torch.from_numpy(t.prompt_ids).long()[None]).logits[0, -1]
        assert int(t.response_ids[0]) == int(logits.argmax())
