"""Estimators: recorded values, hand-derived cases, and the properties every one must have."""

from __future__ import annotations

import json
import math
import pathlib
from typing import Any

import pytest
import torch

from agentr1_train.advantages import (
    ESTIMATORS,
    AdvantageConfig,
    RewardScaler,
    compute_advantages,
    distillation_advantages,
)
from tests.train.batches import golden_rows, make_rows, random_rows

GOLDEN = json.loads(
    (pathlib.Path(__file__).parents[1] / "golden" / "step_advantages.json").read_text()
)
CASES = [(i, key) for i, case in enumerate(GOLDEN["cases"]) for key in case["expected"]]
ALL = sorted(ESTIMATORS)
CONFIGS = [
    *(AdvantageConfig(e, gamma=0.9, lam=0.8) for e in ALL),
    AdvantageConfig("grpo", norm_by_std=False),
    AdvantageConfig("gigpo", gamma=0.95, gigpo_mode="mean_norm"),
]
IDS = [*ALL, "dr_grpo", "gigpo_mean_norm"]
every_config = pytest.mark.parametrize("cfg", CONFIGS, ids=IDS)


def values_for(rows: Any, cfg: AdvantageConfig, seed: int = 0) -> torch.Tensor | None:
    if not cfg.needs_values:
        return None
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows.response_mask.shape, generator=g, dtype=torch.float64).to(
        rows.response_logprobs
    )


def parse(key: str) -> AdvantageConfig:
    name, _, rest = key.partition("(")
    kw: dict[str, Any] = {}
    for part in filter(None, rest.rstrip(")").split(",")):
        k, v = part.split("=")
        if k in ("gamma", "lam"):
            kw[k] = float(v)
        elif k == "norm_by_std":
            kw[k] = v == "True"
        else:
            kw[{"mode": "gigpo_mode", "w": "step_weight"}[k]] = v if k == "mode" else float(v)
    return AdvantageConfig(name, **kw)


@pytest.mark.parametrize(("dtype", "tol"), [(torch.float64, 2e-9), (torch.float32, 2e-6)])
@pytest.mark.parametrize(("case", "key"), CASES)
def test_recorded_values(case: int, key: str, dtype: torch.dtype, tol: float) -> None:
    rows, values = golden_rows(GOLDEN["cases"][case], dtype)
    want = GOLDEN["cases"][case]["expected"][key]
    cfg = parse(key)
    got = compute_advantages(rows, cfg, values if cfg.needs_values else None)
    mask = rows.train_mask
    expected = torch.tensor(want["advantages"], dtype=torch.float64)
    assert got.advantages.dtype == dtype
    assert (got.advantages.double() - expected)[mask].abs().max() < tol
    assert bool((got.advantages[~mask] == 0).all())
    if "returns" in want:
        returns = torch.tensor(want["returns"], dtype=torch.float64)
        assert (got.returns.double() - returns)[mask].abs().max() < tol


# ---------------------------------------------------------------------------- by hand
def two_by_two(**kw: Any) -> Any:
    """Group g: a = (1, 2), b = (0, 1); one token a step."""
    return make_rows(["a", "a", "b", "b"], ["g"] * 4, [0, 1, 0, 1], [1, 2, 0, 1], [[1]] * 4, **kw)


def column(result: Any) -> list[float]:
    return [round(x, 6) for x in result.advantages[:, 0].tolist()]


def test_grpo_by_hand() -> None:
    # returns 3 and 1: mean 2, unbiased std sqrt(2)
    a = compute_advantages(two_by_two(), AdvantageConfig("grpo"))
    z = 1 / (math.sqrt(2) + 1e-6)
    assert column(a) == [round(z, 6)] * 2 + [round(-z, 6)] * 2
    dr = compute_advantages(two_by_two(), AdvantageConfig("grpo", norm_by_std=False))
    assert column(dr) == [1, 1, -1, -1]


def test_rloo_by_hand() -> None:
    # each against the mean of the others: 3 - 1 and 1 - 3
    assert column(compute_advantages(two_by_two(), AdvantageConfig("rloo"))) == [2, 2, -2, -2]


def test_reinforce_by_hand() -> None:
    cfg = AdvantageConfig("reinforce", gamma=0.5, whiten=False)
    assert column(compute_advantages(two_by_two(), cfg)) == [2, 2, 0.5, 1]


def test_gae_by_hand() -> None:
    # gamma = lam = 1/2, V = 1, 2, 3, 4 in order of the rows
    cfg = AdvantageConfig("gae", gamma=0.5, lam=0.5, whiten=False)
    v = torch.tensor([[1.0], [2], [3], [4]], dtype=torch.float64)
    # a1: 2-2 = 0; a0: 1 + 1 - 1 + 0/4 = 1; b1: 1-4 = -3; b0: 0 + 2 - 3 - 3/4 = -1.75
    got = compute_advantages(two_by_two(), cfg, v)
    assert column(got) == [1, 0, -1.75, -3]
    assert got.returns[:, 0].tolist() == [2, 2, 1.25, 1]


def test_token_gae_by_hand() -> None:
    # one episode, two steps of two and one tokens; gamma = lam = 1/2, reward 4 at the very end
    rows = make_rows(["a", "a"], ["g", "g"], [0, 1], [0, 4], [[1, 1], [1, 0]])
    v = torch.tensor([[1.0, 2], [4, 9]], dtype=torch.float64)
    cfg = AdvantageConfig("token_gae", gamma=0.5, lam=0.5, whiten=False)
    # t2: 4-4 = 0; t1: 2-2 = 0; t0: 1-1 = 0
    assert compute_advantages(rows, cfg, v).advantages.tolist() == [[0, 0], [0, 0]]
    v = torch.tensor([[0.0, 0], [0, 9]], dtype=torch.float64)
    got = compute_advantages(rows, cfg, v).advantages.tolist()
    assert got == [[4 / 16, 4 / 4], [4, 0]]


def test_gigpo_by_hand() -> None:
    # returns-to-go: a 3, 2; b 1, 1. Anchor s holds a0 and b0, the others stand alone.
    rows = two_by_two(anchors=["s", "t", "s", "u"])
    cfg = AdvantageConfig("gigpo", gigpo_mode="mean_norm", step_weight=0.5)
    assert column(compute_advantages(rows, cfg)) == [1.5, 1, -1.5, -1]


def test_anchors_of_other_groups_do_not_mix() -> None:
    rows = make_rows(
        ["a", "b", "c", "d"], ["g", "g", "h", "h"], [0] * 4, [1, 0, 5, 3], [[1]] * 4,
        anchors=["s"] * 4,
    )  # fmt: skip
    cfg = AdvantageConfig("gigpo", gigpo_mode="mean_norm")
    assert column(compute_advantages(rows, cfg)) == [1, -1, 2, -2]


def test_reinforce_plus_plus_weights_tokens_not_rows() -> None:
    rows = make_rows(["a", "b"], ["g", "h"], [0, 0], [1, 0], [[1, 1, 1], [1, 0, 0]])
    got = compute_advantages(rows, AdvantageConfig("reinforce_plus_plus"))
    x = torch.tensor([1.0, 1, 1, 0], dtype=torch.float64)
    want = (x - x.mean()) / (x.std() + 1e-8)
    assert torch.allclose(got.advantages[rows.train_mask], want)


def test_reinforce_plus_plus_baseline() -> None:
    rows = make_rows(["a", "b", "c", "d"], ["g", "g", "h", "h"], [0] * 4, [1, 0, 9, 8], [[1]] * 4)
    got = compute_advantages(rows, AdvantageConfig("reinforce_plus_plus_baseline"))
    x = torch.tensor([0.5, -0.5, 0.5, -0.5], dtype=torch.float64)
    assert torch.allclose(got.advantages[:, 0], x / (x.std() + 1e-8))


def test_kl_in_the_reward_lowers_the_return() -> None:
    rows = two_by_two(logprobs=[[-1.0], [-1], [-1], [-1]])
    ref = torch.full((4, 1), -1.5, dtype=torch.float64)  # k1 = 0.5 a token
    cfg = AdvantageConfig("reinforce", gamma=1.0, whiten=False, kl_in_reward=0.2)
    got = compute_advantages(rows, cfg, ref_logprobs=ref)
    assert column(got) == [2.8, 1.9, 0.8, 0.9]
    assert got.metrics["adv/kl_in_reward"] == pytest.approx(0.5)
    with pytest.raises(ValueError, match="ref_logprobs"):
        compute_advantages(rows, cfg)


def test_kl_in_the_reward_is_paid_where_the_token_is() -> None:
    rows = make_rows(["a"], ["g"], [0], [0], [[1, 1]], logprobs=[[0.0, 0.0]])
    ref = torch.tensor([[0.0, -1.0]], dtype=torch.float64)
    cfg = AdvantageConfig("token_gae", gamma=0.5, lam=1.0, whiten=False, kl_in_reward=1.0)
    got = compute_advantages(rows, cfg, torch.zeros(1, 2, dtype=torch.float64), ref)
    assert got.advantages.tolist() == [[-0.5, -1.0]]
    # the same penalty computed elsewhere
    cfg = AdvantageConfig("token_gae", gamma=0.5, lam=1.0, whiten=False)
    zero = torch.zeros(1, 2, dtype=torch.float64)
    paid = torch.tensor([[0.0, -1.0]], dtype=torch.float64)
    assert compute_advantages(rows, cfg, zero, token_rewards=paid).advantages.tolist() == [
        [-0.5, -1.0]
    ]


# ------------------------------------------------------------------- faults seen elsewhere
@every_config
@pytest.mark.parametrize("reward", [0.0, 0.1, 1.0, -3.7e8])
def test_one_row_has_no_signal(cfg: AdvantageConfig, reward: float) -> None:
    for mask in ([[1]], [[1, 1, 1]], [[0, 1, 0]]):
        rows = make_rows(["a"], ["g"], [0], [reward], mask)
        got = compute_advantages(rows, cfg, values_for(rows, cfg))
        assert bool(got.advantages.isfinite().all())
        if cfg.estimator != "token_gae":
            assert bool((got.advantages == 0).all())


def test_one_action_token_in_token_gae() -> None:
    rows = make_rows(["a", "b"], ["g", "g"], [0, 0], [1, 0], [[1, 0], [0, 0]])
    cfg = AdvantageConfig("token_gae")
    got = compute_advantages(rows, cfg, torch.ones(2, 2, dtype=torch.float64))
    assert bool((got.advantages == 0).all())


@pytest.mark.parametrize("name", ["grpo", "rloo", "reinforce_plus_plus_baseline", "gigpo"])
def test_group_of_one_is_zero_not_the_raw_reward(name: str) -> None:
    rows = make_rows(["a", "b"], ["g", "h"], [0, 0], [5, 1], [[1]] * 2)
    got = compute_advantages(rows, AdvantageConfig(name))
    assert column(got) == [0, 0]
    assert got.metrics["adv/groups_without_signal"] == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@every_config
@pytest.mark.parametrize("reward", [0.1, 1 / 3, 1e7 + 0.1])
def test_equal_rewards_give_zero(cfg: AdvantageConfig, reward: float, dtype: torch.dtype) -> None:
    rows = make_rows(
        [f"e{i}" for i in range(7)], ["g"] * 7, [0] * 7, [reward] * 7, [[1]] * 7,
        anchors=["s"] * 7, dtype=dtype,
    )  # fmt: skip
    values = torch.zeros(7, 1, dtype=dtype) if cfg.needs_values else None
    assert bool((compute_advantages(rows, cfg, values).advantages == 0).all())


@every_config
def test_all_masked_and_empty_batches(cfg: AdvantageConfig) -> None:
    rows = make_rows(["a", "b"], ["g", "g"], [0, 0], [1, 0], [[0, 0], [0, 0]])
    got = compute_advantages(rows, cfg, values_for(rows, cfg))
    assert bool((got.advantages == 0).all())
    none = rows.select([])
    assert compute_advantages(none, cfg, values_for(none, cfg)).advantages.shape == (0, 2)
    only_padding = none.pad_rows(3)
    got = compute_advantages(only_padding, cfg, values_for(only_padding, cfg))
    assert bool((got.advantages == 0).all()) and got.metrics["adv/padding_rows"] == 3


@pytest.mark.parametrize("name", ["gae", "token_gae"])
def test_truncated_end_bootstraps(name: str) -> None:
    rows = make_rows(
        ["a", "a", "a"], ["g"] * 3, [0, 1, 2], [1, 1, 0], [[1], [1], [0]],
        terminated=[False] * 3, truncated=[False, True, False], bootstrap=[False, False, True],
    )  # fmt: skip
    v = torch.tensor([[0.0], [0.0], [10.0]], dtype=torch.float64)
    cfg = AdvantageConfig(name, gamma=0.5, lam=1.0, whiten=False)
    got = compute_advantages(rows, cfg, v)
    assert got.advantages[:, 0].tolist() == [1 + 0.5 * 6, 1 + 0.5 * 10, 0]
    assert got.metrics["adv/truncated_without_bootstrap"] == 0
    assert not bool(got.value_mask[2].any())
    # the same number given as an argument instead of a row
    two = rows.select([0, 1])
    boot = torch.tensor([0.0, 10.0])
    same = compute_advantages(two, cfg, v[:2], bootstrap_values=boot)
    assert torch.equal(same.advantages, got.advantages[:2])
    # without either it is 0, and it is said
    alone = compute_advantages(two, cfg, v[:2])
    assert alone.advantages[:, 0].tolist() == [1.5, 1.0]
    assert alone.metrics["adv/truncated_without_bootstrap"] == 1
    # a terminated end never bootstraps
    rows.terminated[1] = True
    assert compute_advantages(rows, cfg, v).advantages[:, 0].tolist() == [1.5, 1.0, 0]


@every_config
def test_an_empty_reply_keeps_the_final_reward(cfg: AdvantageConfig) -> None:
    """The last reply of a is empty and carries the reward: its first step must see it."""
    rows = make_rows(
        ["a", "a", "b", "b"], ["g"] * 4, [0, 1, 0, 1], [0, 1, 0, 0],
        [[1, 1], [0, 0], [1, 1], [0, 0]],
        anchors=["s", "t", "s", "u"],
    )  # fmt: skip
    values = torch.zeros(4, 2, dtype=torch.float64) if cfg.needs_values else None
    got = compute_advantages(rows, cfg, values).advantages
    assert float(got[0].min()) > 0 > float(got[2].max())


@every_config
def test_invalid_episodes_and_padding_change_nothing(cfg: AdvantageConfig) -> None:
    clean = random_rows(11, size=12)
    clean = clean.select(clean.valid & ~clean.padding)
    v = values_for(clean, cfg)
    want = compute_advantages(clean, cfg, v).advantages
    bad = random_rows(12, size=4)
    bad = bad.select(torch.arange(3))
    from dataclasses import fields

    wide = clean.response_mask.shape[1]
    joined = {}
    for f in fields(clean):
        a, b = getattr(clean, f.name), getattr(bad, f.name)
        if a.dim() == 2:
            b = b[:, :1].expand(-1, a.shape[1])
        joined[f.name] = torch.cat([a, b])
    joined["valid"][-3:] = False
    joined["rewards"][-3:] = 1e9
    joined["episode"][-3:] = 10_000
    joined["group"][-3:] = clean.group[0]
    joined["response_mask"][-3:] = True
    both = type(clean)(**joined).pad_rows(5)
    if v is not None:
        v = torch.cat([v, torch.full((8, wide), torch.nan, dtype=v.dtype)])
    got = compute_advantages(both, cfg, v)
    n = len(clean)
    assert torch.allclose(got.advantages[:n], want, atol=1e-12)
    assert bool((got.advantages[n:] == 0).all()) and not bool(got.value_mask[n:].any())
    assert got.metrics["adv/invalid_rows"] == 3


@every_config
def test_permuted_rows_give_permuted_results(cfg: AdvantageConfig) -> None:
    for seed in range(20):
        rows = random_rows(seed, size=10)
        v = values_for(rows, cfg, seed)
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
        a = compute_advantages(rows, cfg, v)
        b = compute_advantages(rows.select(order), cfg, None if v is None else v[order])
        # group_norm divides by std + 1e-6: rounding of tiny spreads is all that may differ
        assert torch.allclose(a.advantages[order], b.advantages, atol=1e-7, rtol=1e-7)
        assert torch.equal(a.value_mask[order], b.value_mask)


@every_config
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fuzz(cfg: AdvantageConfig, dtype: torch.dtype) -> None:
    """10,000 batches over the configurations of this module, all finite."""
    per = 10_000 // (len(CONFIGS) * 2)
    for seed in range(per):
        rows = random_rows(seed * 31 + 7, dtype=dtype, size=6)
        v = values_for(rows, cfg, seed)
        got = compute_advantages(rows, cfg, v)
        assert bool(got.advantages.isfinite().all()), seed
        assert bool(got.returns.isfinite().all()), seed
        assert bool((got.advantages[~rows.train_mask] == 0).all()), seed
        assert all(math.isfinite(x) for x in got.metrics.values()), seed


def test_clip() -> None:
    rows = two_by_two()
    got = compute_advantages(rows, AdvantageConfig("rloo", clip=0.5))
    assert column(got) == [0.5, 0.5, -0.5, -0.5]
    assert got.metrics["adv/clipped_fraction"] == 1.0


def test_uneven_lengths_match_the_plain_recursion() -> None:
    """Pointer jumping equals a loop, for one long episode among short ones."""
    lengths = [1, 257, 2, 3, 64]
    eps = [f"e{i}" for i, n in enumerate(lengths) for _ in range(n)]
    steps = [s for n in lengths for s in range(n)]
    g = torch.Generator().manual_seed(1)
    r = torch.randn(len(eps), generator=g, dtype=torch.float64)
    rows = make_rows(eps, eps, steps, r.tolist(), [[1]] * len(eps))
    cfg = AdvantageConfig("reinforce", gamma=0.97, whiten=False)
    got = compute_advantages(rows, cfg).advantages[:, 0]
    want, run = torch.empty_like(r), 0.0
    for i in range(len(eps) - 1, -1, -1):
        run = float(r[i]) + (0.97 * run if i + 1 < len(eps) and eps[i + 1] == eps[i] else 0.0)
        want[i] = run
    assert torch.allclose(got, want, atol=1e-12)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(("gamma", "lam"), [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0), (0.0, 1.0)])
def test_long_rows_match_the_plain_recursion_over_tokens(
    gaps: bool, gamma: float, lam: float
) -> None:
    """Blocks of columns equal a loop over every trained token of an episode, gaps or not."""
    lengths = [150, 1, 64, 65, 129, 3]  # of the rows: two episodes of three steps
    mask = [[1] * n + [0] * (150 - n) for n in lengths]
    reward = [0.5, -1.0, 2.0, 0.0, 0.25, 1.0]
    rows = make_rows(["a"] * 3 + ["b"] * 3, ["g"] * 6, [0, 1, 2] * 2, reward, mask)
    g = torch.Generator().manual_seed(2)
    if gaps:
        rows.response_mask &= torch.rand(rows.response_mask.shape, generator=g) < 0.7
        rows.response_mask[1] = False  # a step without a token: its reward is the token's before
    values = torch.randn(rows.response_mask.shape, generator=g, dtype=torch.float64)
    values[~rows.response_mask] = math.nan
    cfg = AdvantageConfig("token_gae", gamma=gamma, lam=lam, whiten=False)
    got = compute_advantages(rows, cfg, values)
    want = torch.zeros_like(values)
    for episode in (range(3), range(3, 6)):
        places = [(i, t) for i in episode for t in range(150) if rows.response_mask[i, t]]
        paid = {places[-1]: 0.0}
        for i in episode:
            last = max(place for place in places if place[0] <= i)
            paid[last] = paid.get(last, 0.0) + reward[i]
        behind = following = 0.0
        for place in reversed(places):
            value = float(values[place])
            behind = paid.get(place, 0.0) + gamma * following - value + gamma * lam * behind
            want[place], following = behind, value
    assert torch.allclose(got.advantages, want, atol=1e-12)
    expected = torch.where(rows.response_mask, want + values, torch.zeros_like(want))
    assert torch.allclose(got.returns, expected, atol=1e-12)


def test_wrong_input_is_named() -> None:
    rows = two_by_two()
    with pytest.raises(ValueError, match="values"):
        compute_advantages(rows, AdvantageConfig("gae"))
    with pytest.raises(ValueError, match=r"shape \(4, 2\), expected \(4, 1\)"):
        compute_advantages(rows, AdvantageConfig("gae"), torch.zeros(4, 2))
    rows.step[1] = 0
    with pytest.raises(ValueError, match="rows 0 and 1 are both step 0"):
        compute_advantages(rows, AdvantageConfig("grpo"))
    with pytest.raises(ValueError, match=r"algorithm\.adv_estimator: 'ppo'"):
        AdvantageConfig("ppo")
    with pytest.raises(ValueError, match=r"gamma: 1\.5"):
        AdvantageConfig("gae", gamma=1.5)


# ----------------------------------------------------------------------- scaler, distillation
def test_reward_scaler() -> None:
    scaler = RewardScaler(gamma=0.5)
    # running discounted returns: a 1, 2.5; b 0, 1
    scaled = scaler(two_by_two())
    std = torch.tensor([1, 2.5, 0, 1], dtype=torch.float64).std(correction=0)
    assert torch.allclose(scaled, torch.tensor([1, 2, 0, 1], dtype=torch.float64) / (std + 1e-8))
    other = RewardScaler(gamma=0.5)
    other.load_state_dict(scaler.state_dict())
    assert torch.equal(other(two_by_two()), scaler(two_by_two()))
    twice = torch.tensor([1, 2.5, 0, 1] * 2, dtype=torch.float64).std(correction=0)
    assert scaler.scale == pytest.approx(float(twice), abs=1e-7)
    same = RewardScaler()
    one = make_rows(["a"], ["g"], [0], [3], [[1]])
    assert same(one).tolist() == [3.0]  # one return has no spread: nothing is scaled
    padded = one.pad_rows(2)
    assert RewardScaler()(padded).tolist() == [3.0, 0, 0]


def test_distillation() -> None:
    rows = make_rows(
        ["a", "b"], ["g", "g"], [0, 0], [0, 0], [[1, 1], [1, 0]], logprobs=[[-1, -2], [-30, -1]]
    )
    teacher = torch.tensor([[-2.0, -1], [-1, -9]], dtype=torch.float64)
    got = distillation_advantages(rows, teacher, coef=2.0)
    assert got.tolist() == [[-2, 2], [20, 0]]
