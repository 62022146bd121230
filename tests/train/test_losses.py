"""Losses: hand-derived values, weights, masking, micro-batches, and the faults seen elsewhere."""

from __future__ import annotations

import math

import pytest
import torch

from agentr1_train.losses import (
    LOSS_WEIGHTS,
    POLICY_LOSSES,
    LossConfig,
    kl_penalty,
    loss_weights,
    policy_loss,
    value_loss,
)
from tests.train.batches import make_rows, random_rows

ALL = sorted(POLICY_LOSSES)
F64 = torch.float64


def one_row(log_ratio: list[float], adv: list[float], name: str, **kw: object) -> float:
    n = len(log_ratio)
    rows = make_rows(["a"], ["g"], [0], [0], [[1] * n])
    lp = torch.tensor([log_ratio], dtype=F64)
    loss, _ = policy_loss(
        lp, torch.zeros_like(lp), torch.tensor([adv], dtype=F64), rows.train_mask, rows,
        LossConfig(name, **kw),
    )  # fmt: skip
    return float(loss)


def test_ppo_by_hand() -> None:
    up, down = math.log(1.5), math.log(0.5)
    assert one_row([up], [2.0], "ppo") == pytest.approx(-2.0 * 1.2)  # clipped above
    assert one_row([down], [2.0], "ppo") == pytest.approx(-2.0 * 0.5)  # pessimistic: not clipped
    assert one_row([down], [-2.0], "ppo") == pytest.approx(2.0 * 0.8)
    assert one_row([up], [-2.0], "ppo") == pytest.approx(2.0 * 1.5)
    assert one_row([math.log(9)], [-2.0], "ppo") == pytest.approx(2.0 * 3)  # dual clip
    assert one_row([math.log(9)], [-2.0], "ppo", dual_clip=None) == pytest.approx(18)
    assert one_row([up], [2.0], "ppo", clip_high=0.28) == pytest.approx(-2.0 * 1.28)


def test_gspo_by_hand() -> None:
    # mean log ratio 0.1: one ratio for both tokens, clipped at 1 + 4e-4
    assert one_row([0.3, -0.1], [1.0, 1.0], "gspo") == pytest.approx(-(1 + 4e-4))
    assert one_row([0.3, -0.1], [-1.0, -1.0], "gspo") == pytest.approx(math.exp(0.1))
    assert one_row([0.3, -0.1], [1.0, 1.0], "gspo", clip_high=0.5) == pytest.approx(-math.exp(0.1))


def test_gspo_gradient_is_that_of_the_sequence_ratio() -> None:
    rows = make_rows(["a"], ["g"], [0], [0], [[1, 1, 0]])
    lp = torch.tensor([[0.02, -0.01, 5.0]], dtype=F64, requires_grad=True)
    adv = torch.full((1, 3), 1.5, dtype=F64)
    cfg = LossConfig("gspo", clip_low=0.5, clip_high=0.5)
    loss, _ = policy_loss(lp, torch.zeros_like(lp), adv, rows.train_mask, rows, cfg)
    loss.backward()
    direct = torch.tensor([[0.02, -0.01, 5.0]], dtype=F64, requires_grad=True)
    (-1.5 * direct[:, :2].mean().exp()).backward()
    assert torch.allclose(lp.grad, direct.grad)


def test_gmpo_by_hand() -> None:
    # geometric mean of the ratios, each clipped on the side that would harm
    assert one_row([0.6, -0.8], [1.0, 1.0], "gmpo") == pytest.approx(-math.exp((0.4 - 0.8) / 2))
    assert one_row([0.6, -0.8], [-1.0, -1.0], "gmpo") == pytest.approx(math.exp((0.6 - 0.4) / 2))


def test_cispo_by_hand() -> None:
    rows = make_rows(["a"], ["g"], [0], [0], [[1, 1]])
    lp = torch.tensor([[math.log(3.0), math.log(0.25)]], dtype=F64, requires_grad=True)
    loss, m = policy_loss(
        lp, torch.zeros_like(lp), torch.ones(1, 2, dtype=F64), rows.train_mask, rows,
        LossConfig("cispo"),
    )  # fmt: skip
    loss.backward()
    # clipped tokens keep their gradient, weighted by the clipped ratio
    assert torch.allclose(lp.grad, torch.tensor([[-1.2 / 2, -0.25 / 2]], dtype=F64))
    assert m["actor/clip_fraction"] == 0.5


def test_reinforce_by_hand() -> None:
    assert one_row([-1.0, -3.0], [2.0, 1.0], "reinforce") == pytest.approx((2 + 3) / 2)


@pytest.mark.parametrize("name", ALL)
def test_on_policy_gradient_is_the_policy_gradient(name: str) -> None:
    """At ratio 1 every loss has the gradient of -A log p."""
    rows = make_rows(["a", "a"], ["g", "g"], [0, 1], [0, 0], [[1, 1, 1], [1, 1, 0]])
    adv = torch.tensor([[0.7] * 3, [-1.3] * 3], dtype=F64)
    base = torch.tensor([[-1.0, -2, -0.5], [-0.1, -0.2, -9]], dtype=F64)
    lp = base.clone().requires_grad_()
    loss, _ = policy_loss(lp, base, adv, rows.train_mask, rows, LossConfig(name))
    loss.backward()
    want = -adv * loss_weights(rows, "episode")
    assert torch.allclose(lp.grad, want)


def test_weights_by_hand() -> None:
    # a: rows of 1 and 3 tokens; b: one row of 2
    rows = make_rows(
        ["a", "a", "b"], ["g"] * 3, [0, 1, 0], [0] * 3, [[1, 0, 0], [1, 1, 1], [1, 1, 0]]
    )
    ep, st = 1 / 2, 1 / 3
    assert torch.allclose(
        loss_weights(rows, "episode"),
        torch.tensor(
            [[ep / 2, 0, 0], [ep / 6] * 3, [ep / 2, ep / 2, 0]], dtype=F64
        ),
    )  # fmt: skip
    assert torch.allclose(
        loss_weights(rows, "step"),
        torch.tensor([[st, 0, 0], [st / 3] * 3, [st / 2, st / 2, 0]], dtype=F64),
    )
    assert torch.allclose(loss_weights(rows, "token"), rows.train_mask.double() / 6)
    with pytest.raises(ValueError, match="loss_weight: 'rows'"):
        loss_weights(rows, "rows")


@pytest.mark.parametrize("weight", LOSS_WEIGHTS)
def test_weights_sum_to_one_or_zero(weight: str) -> None:
    for seed in range(200):
        rows = random_rows(seed)
        w = loss_weights(rows, weight)
        total = float(w.sum())
        assert total == pytest.approx(1.0 if bool(rows.train_mask.any()) else 0.0)
        assert bool((w[~rows.train_mask] == 0).all())


@pytest.mark.parametrize("weight", LOSS_WEIGHTS)
@pytest.mark.parametrize("name", ALL)
def test_padding_and_micro_batches_give_the_same_gradient(name: str, weight: str) -> None:
    cfg = LossConfig(name, loss_weight=weight, kl_coef=0.1, entropy_coef=0.01)
    for seed in range(30):
        rows = random_rows(seed, size=10)
        g = torch.Generator().manual_seed(seed)
        shape = rows.response_mask.shape

        def rand(shape=shape, g=g) -> torch.Tensor:
            return torch.randn(shape, generator=g, dtype=F64)

        theta, adv, ref, old = rand(), rand(), rand(), rows.response_logprobs
        grads = []
        more = rows.pad_rows(7)
        extra = len(more) - len(rows)

        def widen(x: torch.Tensor, extra=extra) -> torch.Tensor:
            return torch.cat([x, torch.full((extra, x.shape[1]), torch.nan, dtype=F64)])

        lp = (old + 0.3 * theta).requires_grad_()
        whole, _ = policy_loss(
            lp, old, adv, rows.train_mask, rows, cfg, ref_logprobs=ref, entropy=-lp
        )
        whole.backward()
        grads.append(lp.grad)
        lp2 = (old + 0.3 * theta).requires_grad_()
        x = torch.cat([lp2, torch.zeros(extra, shape[1], dtype=F64)])
        padded, _ = policy_loss(
            x, widen(old), widen(adv), more.train_mask, more, cfg,
            ref_logprobs=widen(ref), entropy=-x,
        )  # fmt: skip
        padded.backward()
        lp3 = (old + 0.3 * theta).requires_grad_()
        w = loss_weights(rows, weight)
        for i in range(0, len(rows), 3):
            s = slice(i, i + 3)
            part, _ = policy_loss(
                lp3[s], old[s], adv[s], rows.train_mask[s], None, cfg,
                weights=w[s], ref_logprobs=ref[s], entropy=-lp3[s],
            )  # fmt: skip
            part.backward()
        for other in (lp2.grad, lp3.grad):
            if other is not None:
                assert torch.allclose(grads[0], other, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ALL)
def test_extreme_ratios_and_masked_nan_stay_finite(name: str, dtype: torch.dtype) -> None:
    rows = make_rows(["a", "b"], ["g", "g"], [0, 0], [0, 0], [[1, 1, 0], [1, 0, 0]], dtype=dtype)
    lp = torch.tensor([[-500.0, 0, math.nan], [0, -math.inf, math.nan]], dtype=dtype)
    lp.requires_grad_()
    old = torch.tensor([[0.0, -500, math.nan], [-1e30, 0, math.inf]], dtype=dtype)
    adv = torch.tensor([[-3.0, 3, math.nan], [-1, math.inf, 0]], dtype=dtype)
    loss, m = policy_loss(lp, old, adv, rows.train_mask, rows, LossConfig(name))
    loss.backward()
    assert bool(loss.isfinite()) and bool(lp.grad.isfinite().all())
    assert all(math.isfinite(v) for v in m.values())


@pytest.mark.parametrize("name", ALL)
def test_all_masked_batch_is_zero(name: str) -> None:
    rows = make_rows(["a"], ["g"], [0], [1], [[0, 0]])
    lp = torch.zeros(1, 2, dtype=F64, requires_grad=True)
    loss, _ = policy_loss(
        lp, torch.zeros(1, 2, dtype=F64), torch.ones(1, 2, dtype=F64), rows.train_mask, rows,
        LossConfig(name),
    )  # fmt: skip
    loss.backward()
    assert float(loss) == 0 and bool((lp.grad == 0).all())


def test_fuzz() -> None:
    for seed in range(1000):
        rows = random_rows(seed, dtype=torch.float32)
        g = torch.Generator().manual_seed(seed)
        scale = 10.0 ** float(torch.randint(-3, 4, (1,), generator=g))
        shape = rows.response_mask.shape
        lp = (torch.randn(shape, generator=g) * scale).requires_grad_()
        adv = torch.randn(shape, generator=g) * scale
        cfg = LossConfig(
            ALL[seed % len(ALL)],
            loss_weight=LOSS_WEIGHTS[seed % 3],
            kl_coef=0.1,
            kl_estimator=("k1", "k2", "k3")[seed % 3],
        )
        loss, m = policy_loss(
            lp, rows.response_logprobs, adv, rows.train_mask, rows, cfg,
            ref_logprobs=torch.randn(shape, generator=g),
        )  # fmt: skip
        loss.backward()
        assert bool(loss.isfinite()) and bool(lp.grad.isfinite().all()), seed
        assert all(math.isfinite(v) for v in m.values()), seed


def test_kl_kinds() -> None:
    p, q = torch.tensor([-1.0], dtype=F64), torch.tensor([-1.5], dtype=F64)
    assert float(kl_penalty(p, q, "k1")) == pytest.approx(0.5)
    assert float(kl_penalty(p, q, "k2")) == pytest.approx(0.125)
    assert float(kl_penalty(p, q, "k3")) == pytest.approx(math.exp(-0.5) - 0.5)
    assert float(kl_penalty(p, q, "low_var_kl")) == float(kl_penalty(p, q, "k3"))
    # in expectation over the policy each estimates the same KL (k2 to second order)
    logits = torch.tensor([0.3, -0.2, 0.1], dtype=F64)
    ref = torch.tensor([0.25, -0.1, 0.1], dtype=F64)
    lp, lq = logits.log_softmax(-1), ref.log_softmax(-1)
    exact = float((lp.exp() * (lp - lq)).sum())
    for kind, tol in (("k1", 1e-12), ("k3", 1e-12), ("k2", 1e-4)):
        assert float((lp.exp() * kl_penalty(lp, lq, kind)).sum()) == pytest.approx(exact, abs=tol)


def test_kl_and_entropy_enter_the_loss() -> None:
    rows = make_rows(["a"], ["g"], [0], [0], [[1]])
    z = torch.zeros(1, 1, dtype=F64)
    cfg = LossConfig(kl_coef=2.0, kl_estimator="k1", entropy_coef=0.5)
    loss, m = policy_loss(z, z, z, rows.train_mask, rows, cfg, ref_logprobs=z - 1, entropy=z + 3)
    assert float(loss) == pytest.approx(2 * 1 - 0.5 * 3)
    assert m["actor/kl"] == pytest.approx(1) and m["actor/entropy"] == pytest.approx(3)
    with pytest.raises(ValueError, match=r"kl_coef=2\.0 needs kl"):
        policy_loss(z, z, z, rows.train_mask, rows, cfg)


def test_value_loss() -> None:
    v = torch.tensor([[1.0, math.nan], [3, 5]], dtype=F64, requires_grad=True)
    mask = torch.tensor([[True, False], [True, True]])
    r = torch.tensor([[0.0, math.nan], [3, 1]], dtype=F64)
    loss, _ = value_loss(v, r, mask)
    loss.backward()
    assert float(loss) == pytest.approx(0.5 * (1 + 0 + 16) / 3)
    assert bool(v.grad.isfinite().all())
    old = torch.tensor([[0.0, 0], [3, 0]], dtype=F64)
    clipped, m = value_loss(v, r, mask, old_values=old, clip=0.5)
    # 5 may move from 0 to 0.5 at most: |0.5 - 1| < |5 - 1|, the larger error stands
    assert float(clipped) == pytest.approx(0.5 * (1 + 0 + 16) / 3)
    halves = sum(float(value_loss(v[i : i + 1], r[i : i + 1], mask[i : i + 1], count=3)[0])
                 for i in range(2))  # fmt: skip
    assert halves == pytest.approx(float(loss.detach()))
    empty, _ = value_loss(v, r, torch.zeros_like(mask))
    assert float(empty) == 0 and m["critic/clip_fraction"] == 0


def test_bad_config_is_named() -> None:
    with pytest.raises(ValueError, match="policy_loss: 'trpo'"):
        LossConfig("trpo")
    with pytest.raises(ValueError, match="dual_clip"):
        LossConfig(dual_clip=0.5)
