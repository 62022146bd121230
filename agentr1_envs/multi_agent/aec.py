"""The turn-by-turn (AEC) form of a text parallel environment."""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Dict
from pettingzoo import AECEnv
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from agentr1_envs.multi_agent.base import Info, TextParallelEnv


class TextAECEnv(AECEnv[str, dict[str, str], str]):
    """Asks the active agents one after the other; the last one's action steps the environment.

    Observations are ``{"text": str}``: PettingZoo's own tools expect an array or a dict.
    """

    def __init__(self, env: TextParallelEnv) -> None:
        super().__init__()
        self._env = env
        self.metadata = dict(env.metadata)
        self.render_mode = env.render_mode
        self.possible_agents = list(env.possible_agents)
        self._spaces = {
            agent: Dict({"text": env.observation_space(agent)}) for agent in self.possible_agents
        }
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Dict:
        """``Dict({"text": UnicodeText})``."""
        return self._spaces[agent]

    def action_space(self, agent: str) -> Any:
        """The parallel environment's."""
        return self._env.action_space(agent)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode."""
        texts, self.infos = self._env.reset(seed=seed, options=options)
        self.agents = list(self._env.agents)
        self._texts = texts
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._start_turns()

    def _start_turns(self) -> None:
        self._actions: dict[str, str] = {}
        self._queue = [agent for agent in self.agents if self.infos[agent]["active"]]
        self.agent_selection = self._queue[0]

    def observe(self, agent: str) -> dict[str, str]:
        """What an agent was told last."""
        return {"text": self._texts[agent]}

    def step(self, action: str | None) -> None:
        """The selected agent's action; None for an agent whose episode has ended."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if not isinstance(action, str):
            raise TypeError(f"an action is a str, got {type(action).__name__}")
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        self._actions[agent] = action
        self._queue.pop(0)
        if self._queue:
            self.agent_selection = self._queue[0]
        else:
            infos: dict[str, Info]
            result = self._env.step(self._actions)
            self._texts, self.rewards, self.terminations, self.truncations, infos = result
            self.infos = infos
            if self._env.agents:
                self._start_turns()
            else:
                self.agent_selection = self.agents[0]
                self._deads_step_first()
            self._accumulate_rewards()

    def render(self) -> Any:
        """The parallel environment's transcript."""
        return self._env.render()

    def close(self) -> None:
        """Closes the parallel environment."""
        self._env.close()


def as_aec(env: TextParallelEnv) -> Any:
    """The AEC form of a parallel environment, with PettingZoo's check of the order of calls."""
    return OrderEnforcingWrapper(TextAECEnv(env))
