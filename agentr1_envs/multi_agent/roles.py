"""Play between roles on any task: one solver acts, critics comment before it does.

Each step of the task takes three turns: the solver drafts a reply, all critics comment on it at the
same time, the solver gives its final reply, which is the one the task sees. The worked example in
the documentation plays a calculator task with a solver and a critic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from agentr1_envs.errors import shorten
from agentr1_envs.multi_agent.base import Info, TextParallelEnv
from agentr1_envs.task_set import copy_json

SOLVER, CRITIC = "solver", "critic"
_CRITIC_PROMPT = (
    "You are a critic. You see a task, what its environment said, and the reply that a solver "
    "means to give. Say in a few words what is wrong with the reply and how to mend it, or that "
    "it is right. You cannot act yourself."
)
_SOLVER_NOTE = (
    "Your reply is a draft first. You are then shown what critics say of it, and reply again; only "
    "this second reply counts."
)


@dataclass(slots=True)
class StepRecord:
    """One step of the task, as reward functions see it.

    Attributes:
        draft: the solver's first reply; equal to `final` without critics.
        comments: what each critic said, by agent.
        final: the reply that the task was given.
        reward: the task's reward.
        terminated, truncated: whether the task ended.
        info: the task's info.
    """

    draft: str
    comments: dict[str, str]
    final: str
    reward: float
    terminated: bool
    truncated: bool
    info: Info


@dataclass(frozen=True, slots=True)
class Role:
    """What an agent is.

    Attributes:
        name: the agent is called ``name_0`` (``name_1``, .. for further ones of that name).
        kind: ``"solver"`` (exactly one) or ``"critic"``.
        system_prompt: added to the task's for the solver; replaces the usual one for a critic.
        reward: the agent's reward for a step of the task; None gives it the task's own reward.
    """

    name: str
    kind: str = CRITIC
    system_prompt: str = ""
    reward: Callable[[StepRecord], float] | None = field(default=None, compare=False)


DEFAULT_ROLES = (Role("solver", SOLVER), Role("critic", CRITIC))


class RoleParallelEnv(TextParallelEnv):
    """See the module's docstring; made by `as_parallel`.

    Args:
        env: a single-agent environment with text spaces.
        roles: exactly one solver and any number of critics.
        render_mode: ``"ansi"`` or ``"human"``.
    """

    metadata = {**TextParallelEnv.metadata, "name": "agentr1_roles_v0"}

    def __init__(
        self,
        env: gym.Env[str, str],
        roles: Sequence[Role] = DEFAULT_ROLES,
        *,
        render_mode: str | None = None,
    ) -> None:
        for role in roles:
            if role.kind not in (SOLVER, CRITIC):
                raise ValueError(f"role {role.name!r}: kind {role.kind!r}, expected solver, critic")
        solvers = [role for role in roles if role.kind == SOLVER]
        if len(solvers) != 1:
            raise ValueError(f"roles: expected exactly one solver, got {len(solvers)}")
        counts: dict[str, int] = {}
        self.roles: dict[str, Role] = {}
        for role in roles:
            number = counts.setdefault(role.name, 0)
            counts[role.name] += 1
            self.roles[f"{role.name}_{number}"] = role
        self.env = env
        self.solver = next(name for name, role in self.roles.items() if role.kind == SOLVER)
        self.critics = [name for name, role in self.roles.items() if role.kind == CRITIC]
        self._setup(list(self.roles), render_mode)
        self._phase = "final"

    @property
    def unwrapped(self) -> RoleParallelEnv:
        """This environment; the task's is ``env``."""
        return self

    def active_agents(self) -> list[str]:
        """The solver, or all critics."""
        return self.critics if self._phase == "comment" else [self.solver]

    def system_prompt(self, agent: str) -> str:
        """The task's prompt for the solver, the critic's own for a critic."""
        role, task = self.roles[agent], getattr(self.env.unwrapped, "system_prompt", "")
        if role.kind == CRITIC:
            return role.system_prompt or _CRITIC_PROMPT
        note = _SOLVER_NOTE if self.critics else ""
        return "\n\n".join(text for text in (task, note, role.system_prompt) if text)

    def tools(self, agent: str) -> list[dict[str, Any]]:
        """The task's tools for the solver, none for a critic."""
        return list(getattr(self.env.unwrapped, "tools", [])) if agent == self.solver else []

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> None:
        self._said, self._task_info = self.env.reset(seed=seed, options=options)
        self._task_text = getattr(self.env.unwrapped, "task_text", "") or ""
        self._new_step()

    def _new_step(self) -> None:
        self._draft = ""
        self._comments: dict[str, str] = {}
        self._phase = "draft" if self.critics else "final"

    def _advance(self, actions: dict[str, str]) -> tuple[dict[str, float], bool, bool]:
        if self._phase == "draft":
            self._draft, self._phase = actions[self.solver], "comment"
            return {}, False, False
        if self._phase == "comment":
            self._comments, self._phase = actions, "final"
            return {}, False, False
        final = actions[self.solver]
        self._said, reward, terminated, truncated, self._task_info = self.env.step(final)
        record = StepRecord(
            self._draft if self.critics else final,
            self._comments,
            final,
            float(reward),
            terminated,
            truncated,
            self._task_info,
        )
        rewards = {
            agent: record.reward if role.reward is None else float(role.reward(record))
            for agent, role in self.roles.items()
        }
        self._new_step()
        return rewards, terminated, truncated

    def _observe(self, agent: str) -> str:
        task = [self._task_text] if self._task_text and self._task_text not in self._said else []
        parts = [*task, self._said]
        # Nobody's words may crowd out another's: each has a part of the room.
        used = sum(map(len, parts)) + 128 * (1 + len(self.critics))
        room = max(200, (self.max_chars - used) // (1 + len(self.critics)))
        if agent == self.solver:
            if self._phase == "final" and self.critics:
                parts.append(f"Your draft:\n{shorten(self._draft, room)}")
                parts += [
                    f"{name} says:\n{shorten(text, room)}" for name, text in self._comments.items()
                ]
        elif self._phase == "comment":
            parts.append(f"{self.solver} means to reply:\n{shorten(self._draft, room)}")
        return "\n\n".join(parts)

    def _info(self, agent: str) -> Info:
        return {**copy_json(self._task_info), "phase": self._phase}

    def close(self) -> None:
        """Closes the task's environment."""
        self.env.close()


def as_parallel(
    env: gym.Env[str, str],
    roles: Sequence[Role] = DEFAULT_ROLES,
    *,
    render_mode: str | None = None,
) -> RoleParallelEnv:
    """A PettingZoo parallel environment in which roles play a single-agent task together.

    Args:
        env: any environment of the suite, or another with text spaces.
        roles: exactly one solver and any number of critics.
        render_mode: ``"ansi"`` or ``"human"``.

    Raises:
        ValueError: not exactly one solver, or a role of an unknown kind.
    """
    return RoleParallelEnv(env, roles, render_mode=render_mode)
