"""GEM: the tasks as `gem.Env`, registered under their own ids.

    import gem
    import agentr1_envs.bridges.gem
    env = gem.make("AgentR1/HotpotQA-v0", split="train")
    env = gem.make_vec(["AgentR1/HotpotQA-v0"] * 16)

GEM has no place for a system prompt and tools, so the first observation is the whole opening: the
system prompt with the tools described, then the task. Rewards, `terminated`, `truncated` and info
are the environment's own. What GEM cannot carry: `reset` takes no task; give `order="sequential"`
and `shard` to walk a panel. GEM's own environments reseed the global random state on reset; this
one leaves it alone.
"""

from __future__ import annotations

from typing import Any

import gem
from gem.envs.registration import ENV_REGISTRY

from agentr1_envs.bridges.common import open_chat
from agentr1_envs.registration import ENVS


class GymnasiumEnv(gem.Env):
    """An environment of the suite.

    Args:
        agentr1_id: Its Gymnasium id.
        seed: Seed of the first `reset` that is given none (GEM's `make_vec` sets it).
        **kwargs: Arguments of `gymnasium.make`.
    """

    def __init__(self, agentr1_id: str, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__()
        self.agentr1_id, self.kwargs, self._seed = agentr1_id, kwargs, seed
        spec = {"env_id": agentr1_id, "kwargs": kwargs}
        self.env, _ = open_chat(spec, tool_prompt=True, feedback_role="user")

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode; the observation is the opening as one text."""
        if seed is None:
            seed, self._seed = self._seed, None
        messages, info = self.env.reset(seed=seed)
        return "\n\n".join(message["content"] for message in messages), info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Do `action`; the observation is the environment's answer."""
        _, reward, terminated, truncated, info = self.env.step(action)
        return info["feedback"], float(reward), terminated, truncated, info

    def sample_random_action(self) -> str:
        """A text drawn from the action space."""
        return self.env.action_space.sample()

    def spawn(self, same_state: bool = False, **kwargs: Any) -> GymnasiumEnv:
        """A new environment with the same arguments, `kwargs` aside."""
        if same_state:
            raise NotImplementedError("an episode in progress can't be copied")
        return type(self)(self.agentr1_id, **{**self.kwargs, **kwargs})


for _entry in ENVS.values():
    if _entry.id not in ENV_REGISTRY:
        gem.register(_entry.id, "agentr1_envs.bridges.gem:GymnasiumEnv", agentr1_id=_entry.id)
