"""verifiers finds a taskset by a top-level module's name; this is that name, installed as such."""

from agentr1_envs.bridges.verifiers import AgentR1Env, AgentR1Taskset

__all__ = ["AgentR1Env", "AgentR1Taskset"]
