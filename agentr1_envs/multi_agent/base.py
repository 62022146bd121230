"""What the suite's multi-agent environments share: text spaces, turns, the end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from gymnasium.error import ResetNeeded

from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.spaces import UnicodeText
from agentr1_envs.task_env import TextTaskEnv

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise ImportError(
        "multi-agent environments need PettingZoo: pip install 'agentr1[multi]'"
    ) from error

Info = dict[str, Any]
StepResult = tuple[
    dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Info]
]


class TextParallelEnv(ParallelEnv[str, str, str]):
    """A PettingZoo parallel environment whose observations and actions are texts.

    All agents live until the episode ends. In one step only some of them are asked to speak:
    ``infos[agent]["active"]`` says who; actions of the others are ignored and may be left out.

    Subclasses define `possible_agents`, `_begin`, `_advance`, `_observe`, `_ask`, and the prompts.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "human"], "is_parallelizable": True}
    max_chars = 262_144
    #: For an agent its scripted players by name, ``"module:Class"`` each, made of ``env.env``.
    scripts: ClassVar[dict[str, dict[str, str]]] = {}

    #: The task's own environment, which the agents play together.
    env: Any
    possible_agents: list[str]
    agents: list[str]
    render_mode: str | None = None

    def _setup(self, agents: list[str], render_mode: str | None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(
                f"render_mode: expected None or one of {self.metadata['render_modes']}, "
                f"got {render_mode!r}"
            )
        self.possible_agents = list(agents)
        self.agents = []
        self.render_mode = render_mode
        self._transcript: list[str] = []
        self._observation_spaces = {agent: UnicodeText(self.max_chars) for agent in agents}
        self._action_spaces = {agent: UnicodeText(1_000_000) for agent in agents}

    @property
    def tasks(self) -> Any:
        """The panel of tasks of the environment that is played; None where it has none."""
        return getattr(self.env.unwrapped, "tasks", None)

    # --- what an environment defines -------------------------------------------------------------

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Start an episode."""
        raise NotImplementedError

    def _advance(self, actions: dict[str, str]) -> tuple[dict[str, float], bool, bool]:
        """Take the actions of the active agents; rewards, terminated, truncated."""
        raise NotImplementedError

    def _observe(self, agent: str) -> str:
        """What an agent is told now."""
        raise NotImplementedError

    def _info(self, agent: str) -> Info:
        """An agent's info, `active` aside."""
        raise NotImplementedError

    def active_agents(self) -> list[str]:
        """Whose actions the next step takes."""
        raise NotImplementedError

    def system_prompt(self, agent: str) -> str:
        """What a model that plays an agent must know."""
        raise NotImplementedError

    def tools(self, agent: str) -> list[dict[str, Any]]:
        """The tools of an agent, in OpenAI's function schema."""
        return []

    # --- PettingZoo's interface ------------------------------------------------------------------

    def observation_space(self, agent: str) -> UnicodeText:
        """The same object for an agent at every call."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> UnicodeText:
        """The same object for an agent at every call."""
        return self._action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, Info]]:
        """Start an episode.

        Args:
            seed: as for Gymnasium.
            options: ``task_id``, ``task_index`` or ``task`` picks the task; others are ignored,
                as PettingZoo's API test wants it.
        """
        known = {k: v for k, v in (options or {}).items() if k in TextTaskEnv.reset_options}
        self.agents = []
        self._begin(seed, known or None)
        self.agents = list(self.possible_agents)
        self._transcript = []
        observations, infos = self._views()
        for agent in self.active_agents():
            self._note(f"[to {agent}]\n{observations[agent]}")
        return observations, infos

    def step(self, actions: Mapping[str, str]) -> StepResult:
        """Take the active agents' actions.

        Raises:
            ResetNeeded: the episode has ended or none was started.
            KeyError: an active agent's action is missing.
            TypeError: an action is no str.
            EnvironmentFault: the machinery failed; the episode is void.
        """
        if not self.agents:
            raise ResetNeeded("the episode has ended or none was started: call reset() first")
        taken = {}
        for agent in self.active_agents():
            if agent not in actions:
                raise KeyError(f"no action of {agent}, which is active; got {sorted(actions)}")
            if not isinstance(actions[agent], str):
                raise TypeError(f"an action is a str, got {type(actions[agent]).__name__}")
            taken[agent] = actions[agent]
            self._note(f"[{agent}]\n{actions[agent]}")
        agents = self.agents
        self.agents = []  # whatever raises below leaves the episode void
        rewards, terminated, truncated = self._advance(taken)
        for agent, reward in rewards.items():
            if not math.isfinite(reward):
                raise EnvironmentFault(f"{type(self).__name__} gave {agent} the reward {reward}")
        self.agents = agents
        observations, infos = self._views()
        result = (
            observations,
            {agent: float(rewards.get(agent, 0.0)) for agent in agents},
            dict.fromkeys(agents, terminated),
            dict.fromkeys(agents, truncated and not terminated),
            infos,
        )
        for agent in agents:
            if terminated or truncated:
                infos[agent]["active"] = False
            elif infos[agent]["active"]:
                self._note(f"[to {agent}]\n{observations[agent]}")
        if terminated or truncated:
            self.agents = []
            self._note(f"[end] rewards of the last step: {result[1]}")
        return result

    def _views(self) -> tuple[dict[str, str], dict[str, Info]]:
        active = self.active_agents()
        observations = {agent: self._cut(self._observe(agent)) for agent in self.agents}
        infos = {agent: {**self._info(agent), "active": agent in active} for agent in self.agents}
        return observations, infos

    def _cut(self, text: str) -> str:
        return text if len(text) <= self.max_chars else text[: self.max_chars - 6] + "\n[cut]"

    def _note(self, text: str) -> None:
        if self.render_mode is not None:
            self._transcript.append(text)
            if self.render_mode == "human":
                print(text, flush=True)

    def render(self) -> str | None:
        """The transcript so far (``"ansi"``); ``"human"`` has printed it already."""
        return "\n".join(self._transcript) if self.render_mode == "ansi" else None

    def state(self) -> str:
        """All agents' observations as one text."""
        return "\n\n".join(f"[{agent}]\n{self._observe(agent)}" for agent in self.possible_agents)

    def close(self) -> None:
        """Nothing to release."""
