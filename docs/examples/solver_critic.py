"""A solver and a critic on calculator problems: the critic checks the sums, the solver mends them.

Run it: python docs/examples/solver_critic.py
"""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym

import agentr1_envs  # noqa: F401 - registers the ids
from agentr1_envs.multi_agent import Role, StepRecord, as_parallel
from agentr1_envs.registration import ENVS, load

ENV_ID = "AgentR1/GSM8KTool-v0"


def improvement(step: StepRecord) -> float:
    """The critic is paid when the solver was wrong first and right in the end."""
    return step.reward if step.draft != step.final else 0.0


def make_env() -> Any:
    """The task between two roles."""
    roles = (Role("solver", "solver"), Role("critic", reward=improvement))
    return as_parallel(gym.make(ENV_ID, split="test"), roles)


class HastySolver:
    """Knows the way, but slips in its first answer; follows a critic that names a number."""

    def __init__(self, env: Any) -> None:
        self.expert = load(ENVS[ENV_ID].experts["expert"])(env.env)

    def act(self, observation: str, info: dict[str, Any]) -> str:
        if info["phase"] == "draft":
            self.draft = re.sub(r"#### .*", "#### 0", self.expert.act(observation, info))
            return self.draft
        advice = re.search(r"The last result was (\S+)", observation)
        return f"#### {advice[1]}" if advice else self.draft


class Critic:
    """Says what the calculator gave last when an answer does not agree with it."""

    def act(self, observation: str, info: dict[str, Any]) -> str:
        task, _, draft = observation.partition("solver_0 means to reply:")
        result = task.strip().splitlines()[-1]
        if "####" not in draft or draft.rpartition("#### ")[2].strip() == result:
            return "Fine."
        return f"The last result was {result} and your answer differs."


def main(episodes: int = 20) -> dict[str, float]:
    """Plays; returns the mean reward of each agent."""
    env = make_env()
    totals = {"solver_0": 0.0, "critic_0": 0.0}
    for episode in range(episodes):
        observations, infos = env.reset(seed=episode)
        players: dict[str, Any] = {"solver_0": HastySolver(env), "critic_0": Critic()}
        players["solver_0"].expert.reset(observations["solver_0"], infos["solver_0"])
        while env.agents:
            actions = {
                agent: players[agent].act(observations[agent], infos[agent])
                for agent in env.active_agents()
            }
            observations, rewards, _, _, infos = env.step(actions)
            for agent, reward in rewards.items():
                totals[agent] += reward / episodes
    return totals


if __name__ == "__main__":
    print(main())
