from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("trl", reason="make test-bridges installs it")
pytestmark = pytest.mark.bridge

import torch  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

from agentr1_envs.bridges import trl as bridge  # noqa: E402
from agentr1_train.prompts import PromptEncoder  # noqa: E402
from tests.bridges.common import IDS, play_index  # noqa: E402

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """Bytes as tokens: nothing is unknown to it."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    base = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    base.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    base.decoder = decoders.ByteLevel()
    specials = ["<|end|>", "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"]
    base.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=base, eos_token="<|end|>", pad_token="<|pad|>", chat_template=TEMPLATE
    )
    fast.clean_up_tokenization_spaces = False
    return fast


def model(tokenizer: Any) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=60_000,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def config(tmp_path: Any, **changes: Any) -> GRPOConfig:
    values: dict[str, Any] = {
        "output_dir": str(tmp_path), "per_device_train_batch_size": 4, "num_generations": 2,
        "max_completion_length": 50_000, "max_steps": 1, "report_to": [], "use_cpu": True,
        "logging_steps": 1, "save_strategy": "no", "seed": 0, "bf16": False,
    }  # fmt: skip
    return GRPOConfig(**{**values, **changes})


class ExpertTrainer(GRPOTrainer):
    """TRL's trainer, whose model says what the scripted expert would."""

    episodes: list[Any]

    def _generate_single_turn(self, prompt_ids, *rest: Any):
        encoder = PromptEncoder(self.processing_class)
        replies = []
        for ids in prompt_ids:
            text = self.processing_class.decode(ids)
            played = next(e for e in self.episodes if e.observations[0] in text)
            step = text.count("<|assistant|>") - 1
            replies.append(encoder.encode_action(played.actions[step]).tolist())
        return replies, None


@pytest.mark.parametrize("env_id", IDS)
def test_the_expert_gets_the_same_rewards_in_grpo_trainer(env_id, tokenizer, tmp_path) -> None:
    rows = bridge.dataset(env_id, split="validation", limit=2)
    expected = [play_index(env_id, i, split="validation") for i in range(2)]
    seen: list[dict[str, Any]] = []

    def reward(completions, **columns: Any):
        seen.append(columns)
        return bridge.environment_reward(completions, **columns)

    trainer = ExpertTrainer(
        model=model(tokenizer), processing_class=tokenizer, train_dataset=rows,
        args=config(tmp_path), rollout_func=bridge.EnvironmentRollout(tool_prompt=True),
        reward_funcs=reward,
    )  # fmt: skip
    trainer.episodes = expected
    trainer.train()
    assert seen
    for columns in seen:
        for task_id, got in zip(columns["task_id"], columns["agentr1_reward"], strict=True):
            played = next(e for e in expected if e.infos[0]["task_id"] == task_id)
            assert got == pytest.approx(sum(played.rewards))
        assert columns["agentr1_success"] == [1.0] * 4


def test_two_real_training_steps_change_the_model(tokenizer, tmp_path) -> None:
    rows = bridge.dataset(IDS[0], limit=4)
    policy = model(tokenizer)
    before = {k: v.clone() for k, v in policy.state_dict().items()}
    rollout = bridge.EnvironmentRollout(tool_prompt=True)
    outputs: list[dict[str, Any]] = []

    def recorded(prompts, trainer):
        outputs.append(rollout(prompts, trainer))
        return outputs[-1]

    def length_reward(completions, **columns: Any) -> list[float]:
        # An untrained model earns nothing; the length gives it something to learn from.
        earned = bridge.environment_reward(completions, **columns)
        return [
            float(r or 0) + len(json.dumps(c)) for r, c in zip(earned, completions, strict=True)
        ]

    trainer = GRPOTrainer(
        model=policy, processing_class=tokenizer, train_dataset=rows,
        args=config(tmp_path, max_steps=2, max_completion_length=24, learning_rate=1e-2),
        rollout_func=recorded, reward_funcs=length_reward,
    )  # fmt: skip
    trainer.train()
    assert trainer.state.global_step == 2 and outputs
    after = policy.state_dict()
    assert any(not torch.equal(before[k], after[k]) for k in before)
    for out in outputs:
        for ids, mask in zip(out["completion_ids"], out["env_mask"], strict=True):
            assert len(ids) == len(mask) and set(mask) <= {0, 1} and mask[0] == 1


def test_a_dataset_of_another_origin_is_refused(tokenizer) -> None:
    with pytest.raises(ValueError, match=r"bridge\.dataset"):
        rollout = bridge.EnvironmentRollout()
        rollout._encoder = PromptEncoder(tokenizer)
        rollout._open([{"role": "user", "content": "hello"}])
