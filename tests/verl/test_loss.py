"""verl's loss functions with our losses in them: padding and splits change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.verl
pytest.importorskip("verl", reason="needs verl: make test-verl")

from tensordict import TensorDict  # noqa: E402

from agentr1_train.losses import LossConfig, loss_weights, policy_loss  # noqa: E402
from agentr1_train.verl.loss import VALUE_WEIGHTS, WEIGHTS, actor_loss, critic_loss  # noqa: E402
from tests.train.batches import random_rows  # noqa: E402


def nested(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def make(seed: int, padding: int) -> tuple[TensorDict, torch.Tensor, dict[str, torch.Tensor]]:
    """A micro-batch as verl's engine hands it over, its model output, and the padded parts."""
    rows = random_rows(seed, size=12, dtype=torch.float32)
    rows = rows.select(~rows.padding & ~rows.bootstrap & rows.valid)
    g = torch.Generator().manual_seed(seed)
    n, t = rows.response_mask.shape
    parts = {
        "response_mask": rows.train_mask.long(),
        "old_log_probs": rows.response_logprobs,
        "advantages": torch.randn(n, t, generator=g) * rows.train_mask,
        "ref_log_prob": torch.randn(n, t, generator=g),
        WEIGHTS: loss_weights(rows, "episode"),
        "values": torch.randn(n, t, generator=g),
        "returns": torch.randn(n, t, generator=g),
    }
    first = torch.zeros(n, t)
    first[:, 0] = 1.0 / max(n, 1)
    parts[VALUE_WEIGHTS] = first
    current = torch.randn(n, t, generator=g)
    full = {k: torch.cat([v, v.new_zeros(padding, t)]) for k, v in parts.items()}
    current = torch.cat([current, torch.randn(padding, t, generator=g)])
    total = n + padding
    prompts = [torch.ones(2 + i % 3, dtype=torch.int64) for i in range(total)]
    data = TensorDict({k: nested(list(v)) for k, v in full.items()}, batch_size=total)
    data["prompts"] = nested(prompts)
    data["responses"] = nested([torch.ones(t, dtype=torch.int64)] * total)
    return data, current, parts | {"prompt_lengths": torch.tensor([len(p) for p in prompts])}


def output(current: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Per-token model output over whole sequences: response values one place to the left."""
    leaf = current.clone().requires_grad_()
    t = current.shape[1]
    parts = []
    for i, p in enumerate(lengths.tolist()):
        filler = torch.zeros(p - 1), torch.zeros(1)
        parts.append(torch.cat([filler[0], leaf[i], filler[1]]))
        assert len(parts[-1]) == p + t
    return leaf, torch.nested.nested_tensor_from_jagged(
        torch.cat(parts), torch.cat([torch.zeros(1).long(), (lengths + t).cumsum(0)])
    )


def with_sizes(data: TensorDict, dp: int) -> TensorDict:
    from verl.utils import tensordict_utils as tu

    tu.assign_non_tensor(data, dp_size=dp, batch_num_tokens=1, global_batch_size=None)
    return data


@pytest.mark.parametrize("loss", ["ppo", "gspo", "gmpo", "cispo", "reinforce"])
@pytest.mark.parametrize("dp", [1, 4])
def test_actor_loss_equals_ours_whatever_is_padded(loss: str, dp: int) -> None:
    cfg = LossConfig(loss, kl_coef=0.1)
    for seed in (1, 2, 5):
        grads = []
        for padding in (0, 3, 11):
            data, current, parts = make(seed, padding)
            leaf, out = output(current, parts["prompt_lengths"])
            value, m = actor_loss(cfg, {"log_probs": out}, with_sizes(data, dp))
            value.backward()
            n = len(parts["response_mask"])
            grads.append(leaf.grad[:n] / dp)
            assert bool((leaf.grad[n:] == 0).all())
            assert all(torch.isfinite(torch.tensor(x.aggregate())) for x in m.values())
        n = len(grads[0])
        plain = current[:n].clone().requires_grad_()
        want, _ = policy_loss(
            plain, parts["old_log_probs"], parts["advantages"], parts["response_mask"].bool(), None,
            cfg, weights=parts[WEIGHTS], ref_logprobs=parts["ref_log_prob"],
        )  # fmt: skip
        want.backward()
        # padding draws further numbers, so the first n rows agree among all three
        assert torch.allclose(grads[0], grads[1]) and torch.allclose(grads[0], grads[2])
        assert torch.allclose(grads[0], plain.grad, atol=1e-6)


def test_critic_is_trained_where_the_weights_are() -> None:
    for padding in (0, 5):
        data, current, parts = make(3, padding)
        leaf, out = output(current, parts["prompt_lengths"])
        value, _ = critic_loss(1e9, {"values": out}, with_sizes(data, 2))
        value.backward()
        n = len(parts["returns"])
        want = (current[:n, 0] - parts["returns"][:, 0]) / n * 2
        assert torch.allclose(leaf.grad[:n, 0], want, atol=1e-6)
        assert bool((leaf.grad[:, 1:] == 0).all()) and bool((leaf.grad[n:] == 0).all())


def test_fast_logprobs_equal_verls() -> None:
    from verl.utils import torch_functional as verl_F

    from agentr1_train.verl import plugin

    assert plugin  # imported: verl's function is replaced
    logits = torch.randn(3, 7, 50)
    labels = torch.randint(0, 50, (3, 7))
    want = logits.log_softmax(-1).gather(-1, labels[..., None])[..., 0]
    assert torch.allclose(verl_F.logprobs_from_logits_v2(logits, labels), want, atol=1e-6)
    naive = verl_F.logprobs_from_logits_naive(logits, labels)
    assert torch.allclose(verl_F.logprobs_from_logits(logits, labels), naive, atol=1e-6)


def test_a_verl_that_was_not_tested_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from agentr1_train.verl import check_version

    check_version("0.9.1")
    monkeypatch.delenv("AGENTR1_ANY_VERL", raising=False)
    with pytest.raises(RuntimeError, match=r"verl 1\.0 is installed.*0\.9\.1"):
        check_version("1.0")
    monkeypatch.setenv("AGENTR1_ANY_VERL", "1")
    check_version("1.0")


def test_a_value_model_loads_without_flash_attn(tmp_path: Path) -> None:
    """As verl's engine calls it, with keywords."""
    from transformers import AutoConfig
    from verl.utils.model import load_valuehead_model

    from agentr1_train.local import tiny

    tokenizer = tiny.train_tokenizer(["12 apples"], 300)
    tiny.save(tiny.build_model(tokenizer, "micro"), tokenizer, tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    config.num_labels = 1
    model = load_valuehead_model(
        local_path=str(tmp_path), torch_dtype=torch.float32, model_config=config,
        trust_remote_code=False,
    )  # fmt: skip
    values = model(input_ids=torch.ones(2, 3, dtype=torch.int64)).logits
    assert values.shape == (2, 3, 1)
