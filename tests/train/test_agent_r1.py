"""Agent-R1's layers: a row's environment, and flows that are no environment."""

from __future__ import annotations

import asyncio
import json

import pytest

from agentr1_train.agent_r1 import AgentEnvLoop, AgentFlowBase, agent_env
from agentr1_train.policies import ScriptedPolicy
from agentr1_train.policies.base import Generation, Policy
from tests.train.test_prompts import OddPolicy

OLD = {"env_type": "tool", "tools": ["calculator"], "tool_format": "hermes", "tools_kwargs": {}}


@pytest.mark.parametrize("row", [json.dumps(OLD), {"env_id": "AgentR1/GSM8KTool-v0"}])
def test_a_row_is_played(row):
    loop = AgentEnvLoop(ScriptedPolicy("expert", "AgentR1/GSM8KTool-v0"))
    episode = asyncio.run(loop.run(row, seed=4, group_id="g"))
    assert episode.success and episode.group_id == "g"
    again = asyncio.run(loop.run(row, seed=4))
    assert again.task_id == episode.task_id


def test_a_row_can_name_its_task():
    env = agent_env(OLD)
    task = env.unwrapped.tasks[17]
    row = {**OLD, "options": {"task": task}}
    loop = AgentEnvLoop(ScriptedPolicy("expert", "AgentR1/GSM8KTool-v0"))
    assert asyncio.run(loop.run(row)).task_id == task["task_id"]


class Refine(AgentFlowBase):
    async def flow(self, row):
        draft = await self.ask([{"role": "user", "content": row["question"]}])
        if row.get("broken"):
            raise RuntimeError("tool server down")
        better = await self.ask(draft.then("Improve it."))
        better.reward = 1.0 if row["answer"] in better.text else 0.0


def test_a_flow_gives_steps_with_spliced_ids():
    policy = OddPolicy()
    flow = Refine(policy, name="refine")
    episode = asyncio.run(flow.run({"question": "q", "answer": "ab", "task_id": "t"}))
    assert episode.valid and episode.ret == 1.0 and episode.success
    first, second = episode.transitions
    start = [*first.prompt_ids.tolist(), *first.response_ids.tolist()]
    assert second.prompt_ids[: len(start)].tolist() == start
    assert (first.terminated, second.terminated) == (False, True)
    assert second.env_id == "refine" and second.task_id == "t"


def test_a_flow_that_fails_is_no_reward_and_runs_are_apart():
    class Echo(Policy):
        async def generate(self, request):
            await asyncio.sleep(0)
            return Generation(str(request.messages[0]["content"]))

    flow = Refine(Echo())

    async def many():
        rows = [{"question": f"q{i}", "answer": f"q{i}", "broken": i == 2} for i in range(5)]
        return await asyncio.gather(*(flow.run(r, episode_id=r["question"]) for r in rows))

    episodes = asyncio.run(many())
    assert [e.valid for e in episodes] == [True, True, False, True, True]
    assert "tool server down" in episodes[2].fault
    assert all(e.ret == 1.0 for i, e in enumerate(episodes) if i != 2)
    with pytest.raises(RuntimeError, match="inside flow"):
        asyncio.run(flow.ask([]))
