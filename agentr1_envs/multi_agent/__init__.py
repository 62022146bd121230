"""Several agents on one task: PettingZoo environments over the suite's tasks.

`as_parallel` turns any single-agent environment into play between roles (a solver and its critics);
`agentr1_envs.paperscout.paperscout_v0` is a task made for two agents. Needs the extra ``multi``.
"""

from agentr1_envs.multi_agent.aec import as_aec
from agentr1_envs.multi_agent.base import TextParallelEnv
from agentr1_envs.multi_agent.roles import Role, RoleParallelEnv, StepRecord, as_parallel

__all__ = ["Role", "RoleParallelEnv", "StepRecord", "TextParallelEnv", "as_aec", "as_parallel"]
