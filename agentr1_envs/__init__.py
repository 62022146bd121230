"""Gymnasium environments for language-model agents.

Importing this package registers the ids of `agentr1_envs.registration.ENVS`::

    import gymnasium as gym
    import agentr1_envs

    env = gym.make("AgentR1/GSM8KTool-v0")
"""

from agentr1_envs.errors import EnvironmentFault, TaskDataError
from agentr1_envs.registration import ENVS, register_all

__version__ = "0.1.0"
__all__ = ["ENVS", "EnvironmentFault", "TaskDataError", "__version__"]

register_all()
