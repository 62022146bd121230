"""Step-level advantage estimators, in plain torch.

An action is a whole reply of the model, so the recursion runs over the steps of an episode; a row's
tokens share the row's advantage (`token_gae` alone recurses over tokens). Everything that has one
number a row is computed in float64 on the CPU with segment operations, so results do not depend on
the order of the rows beyond rounding, nor on padding rows, which never enter a sum or a count.

| estimator | advantage of a row | source |
|---|---|---|
| gae | recursion over steps with V at the last prompt token, whitened over rows | Schulman 2016 |
| token_gae | recursion over the sampled tokens of all steps, whitened over tokens | Schulman 2016 |
| grpo | (R - mean) / (std + 1e-6) among the group's episodes | Shao 2024; Dr. GRPO: Liu 2025 |
| rloo | (R - mean) n / (n - 1) among the group's episodes | Ahmadian 2024 |
| reinforce | discounted return from the step on, whitened over rows | Williams 1992 |
| reinforce_plus_plus | the same, whitened over the batch's tokens | Hu 2025 |
| reinforce_plus_plus_baseline | R - mean of the group, whitened over tokens | Hu 2025 |
| gigpo | grpo + w x (return among rows of the group with the same anchor) | Feng 2025 |

R is the sum of an episode's rewards. A group of one episode, an anchor seen once, equal rewards and
a batch of one row have no signal: their advantage is 0, never NaN and never the raw reward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from agentr1_train.rows import RowBatch
from agentr1_train.steps import Steps, group_norm, whiten
from agentr1_train.token_sums import Packing, deltas, discounted_sums, precise, whiten_tokens

GROUP_EPS = 1e-6
WHITEN_EPS = 1e-8
VALUE_ESTIMATORS = ("gae", "token_gae")


@dataclass(frozen=True, slots=True)
class AdvantageConfig:
    """What to compute.

    Attributes:
        estimator: a key of `ESTIMATORS`.
        gamma: discount per step (per token for token_gae).
        lam: lambda of gae and token_gae.
        norm_by_std: grpo and gigpo's episode part divide by the group's std; False is Dr. GRPO.
        whiten: gae, token_gae and the reinforce family whiten over the batch.
        gigpo_mode: "mean_std_norm", or "mean_norm" which divides by no std in either part.
        step_weight: w of gigpo.
        kl_in_reward: coefficient of the penalty -beta x KL(policy, reference) added to the reward.
        kl_estimator: "k1", "k2" or "k3" (Schulman's approximations) for that penalty.
        clip: advantages are clipped to [-clip, clip] at the end; None leaves them.
    """

    estimator: str = "grpo"
    gamma: float = 1.0
    lam: float = 1.0
    norm_by_std: bool = True
    whiten: bool = True
    gigpo_mode: str = "mean_std_norm"
    step_weight: float = 1.0
    kl_in_reward: float = 0.0
    kl_estimator: str = "k1"
    clip: float | None = None

    def __post_init__(self) -> None:
        if self.estimator not in ESTIMATORS:
            raise ValueError(
                f"algorithm.adv_estimator: {self.estimator!r}, expected one of {sorted(ESTIMATORS)}"
            )
        if self.gigpo_mode not in ("mean_std_norm", "mean_norm"):
            raise ValueError(
                f"gigpo_mode: {self.gigpo_mode!r}, expected mean_std_norm or mean_norm"
            )
        for name in ("gamma", "lam"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name}: {getattr(self, name)!r}, expected a number in [0, 1]")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"advantage clip: {self.clip!r}, expected a number > 0 or None")

    @property
    def needs_values(self) -> bool:
        """True where `compute_advantages` must be given a critic's values."""
        return self.estimator in VALUE_ESTIMATORS


@dataclass(slots=True)
class AdvantageResult:
    """What an estimator gives.

    Attributes:
        advantages: [N, T], 0 outside `RowBatch.train_mask`.
        returns: [N, T], the critic's targets where `value_mask` is True (and, for information, the
            row's return on its trained tokens); 0 elsewhere.
        value_mask: bool [N, T], the positions a critic is trained on: column 0 of each row that
            counts (gae), the trained tokens (token_gae).
        metrics: plain numbers for the log.
    """

    advantages: Tensor
    returns: Tensor
    value_mask: Tensor
    metrics: dict[str, float]


@dataclass(slots=True)
class _Inputs:
    cfg: AdvantageConfig
    rows: RowBatch
    steps: Steps
    mask: Tensor  # bool [N, T]
    rewards: Tensor  # float64 [M], penalty included
    penalty: Tensor | None  # [N, T], paid per token beside the rewards
    values: Tensor | None  # [N, T]
    boot: Tensor  # float64 [M], V after the row where an episode ended by a limit, else 0


def compute_advantages(
    rows: RowBatch,
    cfg: AdvantageConfig,
    values: Tensor | None = None,
    ref_logprobs: Tensor | None = None,
    *,
    old_logprobs: Tensor | None = None,
    bootstrap_values: Tensor | None = None,
    rewards: Tensor | None = None,
    token_rewards: Tensor | None = None,
) -> AdvantageResult:
    """Advantages and returns of a batch of step rows.

    Args:
        rows: N rows with T response tokens, in any order.
        cfg: estimator and constants.
        values: [N, T] (or [N] for gae), a critic's values; column t is V of the state before
            response token t, so column 0 is the value at the last prompt token. Needed by gae and
            token_gae.
        ref_logprobs: [N, T] of the reference policy, needed where cfg.kl_in_reward is not 0.
        old_logprobs: [N, T] for that penalty; rows.response_logprobs where None.
        bootstrap_values: [N], V of the state after each row, used at the last step of an episode
            that did not terminate. Without it, bootstrap rows in the batch give it; with neither
            it is 0 and counted in metrics["adv/truncated_without_bootstrap"].
        rewards: [N], in place of rows.rewards (scaled or shuffled ones).
        token_rewards: [N, T], paid beside the rewards at the tokens themselves (a KL penalty that
            was computed elsewhere).

    Returns:
        AdvantageResult, in the dtype and on the device of values, else of rows.response_logprobs.

    Raises:
        ValueError: missing or mis-shaped inputs, or two rows with the same episode and step.
    """
    shape = rows.response_mask.shape
    if cfg.needs_values and values is None:
        raise ValueError(f"{cfg.estimator} needs values [N, T] of a critic, got None")
    if values is not None and values.dim() == 1 and cfg.estimator == "gae":
        values = values[:, None].expand(shape)
    for name, t in (
        ("values", values),
        ("ref_logprobs", ref_logprobs),
        ("token_rewards", token_rewards),
    ):
        if t is not None and t.shape != shape:
            raise ValueError(f"{name}: shape {tuple(t.shape)}, expected {tuple(shape)}")
    like = rows.response_logprobs if values is None else values
    mask = rows.train_mask.to(like.device)
    steps = Steps.of(rows, mask)

    penalty = None
    kl_mean = 0.0
    if token_rewards is not None:
        penalty = token_rewards.to(like).masked_fill(~mask, 0)
    if cfg.kl_in_reward:
        if ref_logprobs is None:
            raise ValueError("kl_in_reward needs ref_logprobs [N, T], got None")
        from agentr1_train.losses import kl_penalty

        old = rows.response_logprobs if old_logprobs is None else old_logprobs
        kl = kl_penalty(old.to(like), ref_logprobs.to(like), cfg.kl_estimator)
        kl = torch.where(mask, kl, torch.zeros((), dtype=kl.dtype, device=kl.device))
        paid = -cfg.kl_in_reward * kl
        penalty = paid if penalty is None else penalty + paid
        kl_mean = float(kl.sum()) / steps.n_tokens
    r = steps.take(rows.rewards if rewards is None else rewards)
    task_rewards = r
    if penalty is not None:
        r = r + steps.take(penalty.sum(-1))
    boot, missing = _bootstrap(rows, steps, values, bootstrap_values)
    given = _Inputs(cfg, rows, steps, mask, r, penalty, values, boot)
    adv, ret, value_mask = ESTIMATORS[cfg.estimator](given, like)
    clipped = 0.0
    if cfg.clip is not None:
        clipped = float(((adv.abs() > cfg.clip) & mask).sum()) / steps.n_tokens
        adv = adv.clamp(-cfg.clip, cfg.clip)
    metrics = _metrics(rows, steps, task_rewards, adv)
    metrics["adv/truncated_without_bootstrap"] = float(missing)
    metrics["adv/clipped_fraction"] = clipped
    if cfg.kl_in_reward:
        metrics["adv/kl_in_reward"] = kl_mean
    return AdvantageResult(adv, ret, value_mask, metrics)


def _bootstrap(
    rows: RowBatch, steps: Steps, values: Tensor | None, given: Tensor | None
) -> tuple[Tensor, int]:
    """V after each row for ends by a limit (0 elsewhere), and how many such ends had none."""
    boot = torch.zeros(len(steps), dtype=torch.float64)
    open_end = ~steps.has_next & ~rows.terminated.cpu()[steps.index]
    if given is not None:
        return torch.where(open_end, steps.take(given), boot), 0
    if values is None:
        return boot, 0
    have = torch.zeros(steps.n_episodes, dtype=torch.bool)
    v = torch.zeros(steps.n_episodes, dtype=torch.float64)
    where = torch.nonzero((rows.bootstrap & rows.valid & ~rows.padding).cpu()).flatten()
    if len(where):
        episode, known = steps.find_episodes(rows.episode.cpu()[where])
        have[episode[known]] = True
        column0 = values[where.to(values.device), 0].detach().to("cpu", torch.float64)
        v[episode[known]] = column0[known]
    ok = open_end & have[steps.episode]
    return torch.where(ok, v[steps.episode], boot), int((open_end & ~ok).sum())


def _metrics(rows: RowBatch, steps: Steps, r: Tensor, adv: Tensor) -> dict[str, float]:
    total = steps.episode_sum(r)
    lengths = torch.bincount(steps.episode, minlength=steps.n_episodes).double()
    mean = float(adv.sum(-1).double().sum()) / steps.n_tokens
    smallest, largest = torch.aminmax(adv) if adv.numel() else (0.0, 0.0)
    groups = steps.n_groups
    low, high = torch.full((groups,), torch.inf), torch.full((groups,), -torch.inf)
    low = low.double().scatter_reduce(0, steps.episode_group, total, "amin")
    high = high.double().scatter_reduce(0, steps.episode_group, total, "amax")
    real = ~rows.padding & ~rows.bootstrap

    def avg(x: Tensor) -> float:
        return float(x.double().mean()) if x.numel() else 0.0

    return {
        "adv/mean": mean,
        "adv/max": float(largest),
        "adv/min": float(smallest),
        "adv/rows": float(len(steps)),
        "adv/episodes": float(steps.n_episodes),
        "adv/groups": float(groups),
        "adv/groups_without_signal": float((low == high).sum()),
        "adv/invalid_rows": float((real & ~rows.valid).sum()),
        "adv/padding_rows": float(rows.padding.sum()),
        "episode/return": avg(total),
        "episode/steps": avg(lengths),
    }


# ------------------------------------------------------------------------------ the estimators
Result = tuple[Tensor, Tensor, Tensor]


def _spread(x: _Inputs, like: Tensor, adv: Tensor, ret: Tensor) -> Result:
    """One number a row -> the row's trained tokens."""
    zero = torch.zeros((), dtype=like.dtype, device=like.device)
    a = torch.where(x.mask, x.steps.put(adv, like)[:, None], zero)
    r = torch.where(x.mask, x.steps.put(ret, like)[:, None], zero)
    return a, r, x.mask


def _gae(x: _Inputs, like: Tensor) -> Result:
    assert x.values is not None
    v = x.steps.take(x.values[:, 0].detach())
    ahead = torch.where(x.steps.has_next, v[x.steps.next], x.boot)
    delta = x.rewards + x.cfg.gamma * ahead - v
    decay = torch.full_like(delta, x.cfg.gamma * x.cfg.lam)
    raw = x.steps.scan(delta, decay)
    adv = whiten(raw, x.steps.trained, WHITEN_EPS) if x.cfg.whiten else raw
    a, r, _ = _spread(x, like, adv, raw + v)
    # The critic is trained at column 0 alone, also where a row's first token is not trained.
    value_mask = torch.zeros_like(x.mask)
    index = x.steps.index.to(like.device)
    value_mask[index, 0] = True
    r[index, 0] = (raw + v).to(like)
    return a, r, value_mask


def _token_gae(x: _Inputs, like: Tensor) -> Result:
    assert x.values is not None
    cfg, steps = x.cfg, x.steps
    count, decay = steps.tokens, cfg.gamma * cfg.lam
    task = x.rewards if x.penalty is None else x.rewards - steps.take(x.penalty.sum(-1))
    # A step without a sampled token has no token to carry its reward: the token before it does.
    task = steps.push_back(task, count > 0)
    filled = steps.skip(count > 0)
    # Values outside the mask may be anything, NaN included, so they are taken out first.
    packing = Packing(x.mask, steps.put(count, x.mask.new_zeros(len(x.rows), dtype=torch.int64)))
    values = torch.where(x.mask, x.values.detach(), torch.zeros_like(x.values[:1, :1]))
    v = packing.pack(precise(values))
    penalty = None if x.penalty is None else packing.pack(x.penalty.to(v))
    v_first = steps.take(v[:, 0])
    ahead = torch.where(filled.has_next, v_first[filled.next], steps.episode_last(x.boot))
    ahead = torch.where(count > 0, task + cfg.gamma * ahead, torch.zeros_like(task))
    # A row's first advantage if nothing followed the row is a weighted sum of its values; a scan
    # over the steps gives from it what does follow each row, which its last token then carries.
    powers = torch.pow(
        torch.tensor(decay, dtype=torch.float64), torch.arange(v.shape[1], dtype=torch.float64)
    )
    weights = -powers
    weights[1:] += cfg.gamma * powers[:-1]
    local = steps.take(v.mv(weights.to(v)))
    if penalty is not None:
        local += steps.take(penalty.mv(powers.to(v)))
    local += powers[(count - 1).clamp(min=0).long()] * ahead
    whole = filled.scan(local, torch.pow(torch.tensor(decay, dtype=torch.float64), count))
    follows = torch.where(
        filled.has_next & (count > 0), whole[filled.next], torch.zeros_like(whole)
    )
    carried = steps.put(ahead + decay * follows, v, len(x.rows))
    change = deltas(v, penalty, carried, packing.lengths, cfg.gamma)
    adv = packing.unpack(discounted_sums(change, decay)).to(values)
    ret = adv + values
    if cfg.whiten:
        whiten_tokens(adv, x.mask, int(count.sum()), WHITEN_EPS)
    return adv, ret, x.mask


def _reinforce(x: _Inputs, like: Tensor) -> Result:
    g = _returns(x)
    adv = whiten(g, x.steps.trained, WHITEN_EPS) if x.cfg.whiten else g
    return _spread(x, like, adv, g)


def _returns(x: _Inputs) -> Tensor:
    return x.steps.scan(x.rewards, torch.full_like(x.rewards, x.cfg.gamma))


def _reinforce_plus_plus(x: _Inputs, like: Tensor) -> Result:
    g = _returns(x)
    adv = whiten(g, x.steps.tokens, WHITEN_EPS) if x.cfg.whiten else g
    return _spread(x, like, adv, g)


def _reinforce_plus_plus_baseline(x: _Inputs, like: Tensor) -> Result:
    total = x.steps.episode_sum(x.rewards)
    centred = group_norm(total, x.steps.episode_group, x.steps.n_groups, None)[x.steps.episode]
    adv = whiten(centred, x.steps.tokens, WHITEN_EPS) if x.cfg.whiten else centred
    return _spread(x, like, adv, total[x.steps.episode])


def _grpo(x: _Inputs, like: Tensor) -> Result:
    total = x.steps.episode_sum(x.rewards)
    eps = GROUP_EPS if x.cfg.norm_by_std else None
    adv = group_norm(total, x.steps.episode_group, x.steps.n_groups, eps)
    return _spread(x, like, adv[x.steps.episode], total[x.steps.episode])


def _rloo(x: _Inputs, like: Tensor) -> Result:
    total = x.steps.episode_sum(x.rewards)
    group, n_groups = x.steps.episode_group, x.steps.n_groups
    n = torch.bincount(group, minlength=n_groups).double()[group]
    adv = group_norm(total, group, n_groups, None) * n / (n - 1).clamp(min=1)
    return _spread(x, like, adv[x.steps.episode], total[x.steps.episode])


def _gigpo(x: _Inputs, like: Tensor) -> Result:
    steps = x.steps
    eps = GROUP_EPS if x.cfg.gigpo_mode == "mean_std_norm" and x.cfg.norm_by_std else None
    total = steps.episode_sum(x.rewards)
    episode_adv = group_norm(total, steps.episode_group, steps.n_groups, eps)[steps.episode]
    anchor = x.rows.anchor.cpu()[steps.index]
    pairs = torch.stack([steps.episode_group[steps.episode], anchor], 1)
    unique, same_state = torch.unique(pairs, dim=0, return_inverse=True)
    g = _returns(x)
    step_adv = group_norm(g, same_state, len(unique), eps)
    return _spread(x, like, episode_adv + x.cfg.step_weight * step_adv, g)


ESTIMATORS: dict[str, Callable[[_Inputs, Tensor], Result]] = {
    "gae": _gae,
    "token_gae": _token_gae,
    "grpo": _grpo,
    "rloo": _rloo,
    "reinforce": _reinforce,
    "reinforce_plus_plus": _reinforce_plus_plus,
    "reinforce_plus_plus_baseline": _reinforce_plus_plus_baseline,
    "gigpo": _gigpo,
}


# ------------------------------------------------------------------- rewards before estimation
class RewardScaler:
    """PSPO's optional reward scaling: rewards over the running std of the discounted return.

    As in the trick of Engstrom et al. 2020: along each trajectory R_t = gamma R_{t-1} + r_t, R
    starting at 0 with it; every R_t feeds one running variance (Welford, merged per batch), and a
    reward is divided by its square root. Nothing is subtracted, so signs stay. State is three
    numbers, saved with a checkpoint.
    """

    def __init__(self, gamma: float = 1.0, eps: float = 1e-8) -> None:
        self.gamma, self.eps = gamma, eps
        self.count, self.mean, self.m2 = 0.0, 0.0, 0.0

    def __call__(self, rows: RowBatch, *, update: bool = True) -> Tensor:
        """float64 [N]: scaled rewards, for `compute_advantages(rewards=...)`.

        Rows that do not count neither feed the variance nor are scaled.
        """
        steps = Steps.of(rows, rows.train_mask)
        r = steps.take(rows.rewards)
        if update and len(r):
            # The scan runs against time, so it is given the rows in reverse.
            flipped = steps.reversed()
            x = flipped.scan(r, torch.full_like(r, self.gamma))
            n, mean = float(len(x)), float(x.mean())
            delta, total = mean - self.mean, self.count + n
            self.m2 += float((x - mean).square().sum()) + delta * delta * self.count * n / total
            self.mean += delta * n / total
            self.count = total
        return steps.put(r / self.scale, rows.rewards.double())

    @property
    def scale(self) -> float:
        """What rewards are divided by; 1 until two returns that differ were seen."""
        if self.count < 2 or self.m2 <= 0:
            return 1.0
        return (self.m2 / self.count) ** 0.5 + self.eps

    def state_dict(self) -> dict[str, float]:
        return {"count": self.count, "mean": self.mean, "m2": self.m2}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.count, self.mean, self.m2 = state["count"], state["mean"], state["m2"]


def distillation_advantages(
    rows: RowBatch,
    teacher_logprobs: Tensor,
    student_logprobs: Tensor | None = None,
    *,
    coef: float = 1.0,
    clamp: float = 10.0,
) -> Tensor:
    """On-policy distillation: -(log p_student - log p_teacher) per sampled token, clamped.

    Args:
        teacher_logprobs: [N, T] of the sampled tokens under the teacher.
        student_logprobs: [N, T]; rows.response_logprobs where None.
        coef: weight; add the result to an estimator's advantages to keep the task reward.

    Returns:
        [N, T], 0 outside the train mask. No discount: each token is judged by itself.
    """
    student = rows.response_logprobs if student_logprobs is None else student_logprobs
    gap = (teacher_logprobs.to(student) - student).detach().clamp(-clamp, clamp)
    return coef * gap.masked_fill(~rows.train_mask.to(gap.device), 0)
