"""Small problems whose optimum is known by enumeration are learned to it.

Policies are tables of logits, critics tables of values; one set of hyperparameters for every
estimator, task and seed. An action is two tokens, so that token-level estimators have a choice.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from torch import Tensor

from agentr1_train.advantages import ESTIMATORS, AdvantageConfig, compute_advantages
from agentr1_train.losses import LossConfig, policy_loss, value_loss
from agentr1_train.rows import RowBatch

pytestmark = pytest.mark.slow

SEEDS = range(5)
TOKENS = 2  # an action is two tokens of a vocabulary of two: four actions
ACTIONS = list(itertools.product(range(2), repeat=TOKENS))
# The one set of hyperparameters.
GROUPS, N, UPDATES = 4, 16, 160
LR, CRITIC_LR, GAMMA, LAM = 0.1, 0.2, 1.0, 0.9
CONFIGS = {
    **{name: AdvantageConfig(name, gamma=GAMMA, lam=LAM) for name in ESTIMATORS},
    "dr_grpo": AdvantageConfig("grpo", norm_by_std=False),
    "gigpo_mean_norm": AdvantageConfig("gigpo", gamma=GAMMA, gigpo_mode="mean_norm"),
}


@dataclass(frozen=True)
class Problem:
    """A finite decision process: start in state 0, state -1 is the end.

    Each of the B next states of an action is equally likely.
    """

    name: str
    states: int
    horizon: int
    next_state: Tensor  # [states, 4, B]
    reward: Tensor  # [states, 4]

    def value(self, policy: Tensor) -> float:
        """Exact expected return of a policy [states, 4]."""
        v = torch.zeros(self.states + 1, dtype=torch.float64)
        for _ in range(self.horizon):
            q = self.reward + v[self.next_state].mean(-1)
            v = torch.cat([(policy * q).sum(-1), torch.zeros(1, dtype=torch.float64)])
        return float(v[0])

    def best(self) -> float:
        """The optimum by backward enumeration."""
        v = torch.zeros(self.states + 1, dtype=torch.float64)
        for _ in range(self.horizon):
            q = self.reward + v[self.next_state].mean(-1)
            v = torch.cat([q.max(-1).values, torch.zeros(1, dtype=torch.float64)])
        return float(v[0])

    def share(self, policy: Tensor) -> float:
        """0 for the uniform policy, 1 for the best: luck that no policy can change is taken out."""
        uniform, best = self.bounds()
        return (self.value(policy) - uniform) / (best - uniform)

    def bounds(self) -> tuple[float, float]:
        """The value of the uniform policy and the optimum; asked for after every update."""
        if self.name not in _BOUNDS:
            uniform = torch.full((self.states, 4), 0.25, dtype=torch.float64)
            _BOUNDS[self.name] = self.value(uniform), self.best()
        return _BOUNDS[self.name]


_BOUNDS: dict[str, tuple[float, float]] = {}


def delayed_bandit() -> Problem:
    """Two arms pulled one after another, one reward at the very end.

    The right first pull is worth 0.2, the right second one (which it is depends on the state) 0.3.
    Between them a coin is thrown that is worth 1. All is paid at the end: an estimator that gives
    every step the episode's return blames and praises the second pull for the coin.
    """
    nxt = torch.full((5, 4, 2), -1)
    reward = torch.zeros(5, 4, dtype=torch.float64)
    for first in range(4):
        right = int(first == 2)
        nxt[0, first] = torch.tensor([1 + 2 * right, 2 + 2 * right])
    for right, coin in itertools.product(range(2), repeat=2):
        state = 1 + 2 * right + coin
        reward[state] = 0.2 * right + 1.0 * coin
        reward[state, state % 4] += 0.3
    return Problem("delayed bandit", 5, 2, nxt, reward)


def corridor() -> Problem:
    """Five cells; one action goes on, one goes back, two stay. Paid at the far end only."""
    cells, horizon = 5, 6
    states = cells * horizon
    nxt = torch.full((states, 4), -1)
    reward = torch.zeros(states, 4, dtype=torch.float64)
    for t in range(horizon):
        for cell in range(cells):
            for action in range(4):
                to = min(cell + 1, cells - 1) if action == 3 else cell
                to = max(cell - 1, 0) if action == 0 else to
                s = t * cells + cell
                if to == cells - 1:
                    reward[s, action] = 1.0
                elif t + 1 < horizon:
                    nxt[s, action] = (t + 1) * cells + to
    return Problem("corridor", states, horizon, nxt[:, :, None], reward)


def tool_choice() -> Problem:
    """Look one of three things up (small cost), then answer; only one look-up shows the answer."""
    nxt = torch.full((4, 4), -1)
    reward = torch.zeros(4, 4, dtype=torch.float64)
    nxt[0, :3] = torch.tensor([1, 2, 3])
    reward[0, :3] = -0.05
    reward[0, 3] = 0.25  # answering at once: a guess
    reward[1:3] = 0.25
    reward[3] = torch.tensor([0.0, 1.0, 0.0, 0.0])
    return Problem("tool choice", 4, 2, nxt[:, :, None], reward)


PROBLEMS = {p.name: p for p in (delayed_bandit(), corridor(), tool_choice())}


class Table(torch.nn.Module):
    """Token logits by state and the tokens before; uniform at the start."""

    def __init__(self, states: int) -> None:
        super().__init__()
        self.first = torch.nn.Parameter(torch.zeros(states, 2, dtype=torch.float64))
        self.second = torch.nn.Parameter(torch.zeros(states, 2, 2, dtype=torch.float64))

    def logprobs(self, state: Tensor, tokens: Tensor) -> Tensor:
        a = self.first[state].log_softmax(-1).gather(1, tokens[:, :1])
        b = self.second[state, tokens[:, 0]].log_softmax(-1).gather(1, tokens[:, 1:])
        return torch.cat([a, b], 1)

    def policy(self) -> Tensor:
        with torch.no_grad():
            first, second = self.first.softmax(-1), self.second.softmax(-1)
            return (first[:, :, None] * second).flatten(1)


def rollout(problem: Problem, table: Table, g: torch.Generator) -> tuple[RowBatch, Tensor]:
    """Rows of GROUPS x N episodes, and the state of each row."""
    episodes = torch.arange(GROUPS * N)
    state = torch.zeros_like(episodes)
    policy = table.policy()
    columns: list[tuple[Tensor, ...]] = []
    for t in range(problem.horizon):
        alive = state >= 0
        if not bool(alive.any()):
            break
        s, who = state[alive], episodes[alive]
        action = torch.multinomial(policy[s], 1, generator=g)[:, 0]
        branch = torch.randint(problem.next_state.shape[-1], (len(s),), generator=g)
        to = problem.next_state[s, action, branch]
        columns.append((who, torch.full_like(who, t), s, action, problem.reward[s, action], to < 0))
        state = state.clone()
        state[alive] = to
    who, step, s, action, reward, end = (torch.cat(c) for c in zip(*columns, strict=True))
    tokens = torch.stack([action // 2, action % 2], 1)
    with torch.no_grad():
        old = table.logprobs(s, tokens)
    n = len(who)
    no = torch.zeros(n, dtype=torch.bool)
    rows = RowBatch(
        prompt_ids=torch.zeros(n, 1, dtype=torch.int64),
        prompt_mask=torch.ones(n, 1, dtype=torch.bool),
        response_ids=tokens,
        response_mask=torch.ones(n, 2, dtype=torch.bool),
        response_logprobs=old,
        rewards=reward,
        terminated=end,
        truncated=no,
        episode=who,
        group=who // N,
        anchor=s,
        step=step,
        valid=~no,
        padding=no,
        bootstrap=no,
    )
    return rows, s


@cache
def learn(problem_name: str, estimator: str, seed: int) -> tuple[float, ...]:
    """How much of the way from the uniform to the best policy, after each update."""
    problem, cfg = PROBLEMS[problem_name], CONFIGS[estimator]
    g = torch.Generator().manual_seed(seed)
    table = Table(problem.states)
    # V of a state, and of a state after the first token (for token_gae).
    critic = torch.nn.Parameter(torch.zeros(problem.states, 3, dtype=torch.float64))
    optimizer = torch.optim.Adam(table.parameters(), lr=LR)
    critic_optimizer = torch.optim.Adam([critic], lr=CRITIC_LR)
    curve = []
    for _ in range(UPDATES):
        rows, s = rollout(problem, table, g)
        tokens = rows.response_ids

        def values(s: Tensor = s, tokens: Tensor = tokens) -> Tensor:
            return torch.stack([critic[s, 0], critic[s, 1 + tokens[:, 0]]], 1)

        result = compute_advantages(rows, cfg, values().detach() if cfg.needs_values else None)
        lp = table.logprobs(s, tokens)
        loss, _ = policy_loss(
            lp, rows.response_logprobs, result.advantages, rows.train_mask, rows, LossConfig()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if cfg.needs_values:
            v_loss, _ = value_loss(values(), result.returns, result.value_mask)
            critic_optimizer.zero_grad()
            v_loss.backward()
            critic_optimizer.step()
        curve.append(problem.share(table.policy()))
        if len(curve) >= 20 and curve[-1] >= 0.99:  # reached; what follows costs only time
            break
    return tuple(curve)


@pytest.fixture(autouse=True)
def one_thread():
    """Tensors of a hundred numbers: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_optima_are_what_enumeration_says() -> None:
    assert PROBLEMS["delayed bandit"].best() == pytest.approx(0.2 + 0.3 + 0.5)
    assert PROBLEMS["corridor"].best() == pytest.approx(1.0)
    assert PROBLEMS["tool choice"].best() == pytest.approx(0.95)
    uniform = Table(5).policy()
    assert PROBLEMS["delayed bandit"].value(uniform) == pytest.approx(0.5 / 4 + 0.5)


@pytest.mark.parametrize("estimator", CONFIGS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_estimator_reaches_the_optimum(problem: str, estimator: str) -> None:
    for seed in SEEDS:
        assert learn(problem, estimator, seed)[-1] >= 0.99, f"seed {seed}"


def test_credit_assignment_shows_on_the_delayed_reward() -> None:
    """After 20 updates, mean of five seeds: grpo is 0.05 behind gae and 0.1 behind gigpo."""

    def early(estimator: str) -> float:
        return sum(learn("delayed bandit", estimator, seed)[19] for seed in SEEDS) / len(SEEDS)

    assert early("gae") >= early("grpo") + 0.05
    assert early("gigpo") >= early("grpo") + 0.10
