"""The published shop's recorded episodes, prices and goals are reproduced exactly."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from agentr1_envs.webshop.catalog import Catalog
from agentr1_envs.webshop.env import WebShopEnv

KINDS = ("human", "synthetic")


@pytest.mark.parametrize("kind", KINDS)
def test_goals_and_prices(kind: str, recorded: Catalog, transcripts: dict[str, Any]) -> None:
    record, goals = transcripts[kind], recorded.goals(kind)
    assert len(goals) == record["n_goals"]
    assert [goals[i] for i in range(20)] == record["first_goals"]
    all_goals = [goals[i] for i in range(len(goals))]
    names = [[g["asin"], g["instruction_text"], g["price_upper"]] for g in all_goals]
    assert hashlib.sha256(json.dumps(names).encode()).hexdigest() == record["goals_sha"]
    assert sum(g["weight"] for g in all_goals) == pytest.approx(record["weights_sum"], rel=1e-12)
    for asin, price in record["prices_head"]:
        assert recorded.product(recorded.row_of(asin)).price == price


@pytest.mark.parametrize("mode", ["text", "text_rich"])
@pytest.mark.parametrize("kind", KINDS)
def test_episodes(kind: str, mode: str, recorded: Catalog, transcripts: dict[str, Any]) -> None:
    env = WebShopEnv(
        catalog=recorded.path, goals=kind, split="test", observation=mode, compat="princeton"
    )
    assert len(transcripts[kind]["episodes"]) == 15
    for episode in transcripts[kind]["episodes"]:
        observation, _ = env.reset(options={"task_index": episode["goal_idx"]})
        assert {k: env.task[k] for k in episode["goal"]} == episode["goal"]
        first, *steps = episode["steps"]
        if mode == "text":
            assert observation == first["text"]
        for step in steps:
            observation, reward, terminated, truncated, info = env.step(step["action"])
            assert observation == step[mode], step["action"]
            assert (reward, terminated, truncated) == (step["reward"], step["done"], False)
            session = env.session
            assert session is not None
            assert session.url == step["url"]
            assert session.clickables() == step["avail"]["clickables"]
            assert session.has_search_bar == step["avail"]["has_search_bar"]
            if "info" in step:
                assert info["metrics"] == {"noun_source": "spacy", **step["info"]}
                assert info["score"] == step["reward"]
                assert info["success"] == (step["reward"] == 1)


def test_default_rules_give_the_same_scores(recorded: Catalog, transcripts: dict[str, Any]) -> None:
    """The corrected rules change what is shown, not what a purchase is worth."""
    for kind in KINDS:
        env = WebShopEnv(catalog=recorded.path, goals=kind, split="test")
        for episode in transcripts[kind]["episodes"]:
            env.reset(options={"task_index": episode["goal_idx"]})
            for step in episode["steps"][1:]:
                if step["action"].startswith("search[") and not env.session.has_search_bar:
                    *_, info = env.step(step["action"])
                    assert info["agent_error"]["kind"] == "no_search_bar"
                    env.max_steps += 2
                    env.step("click[back to search]")
                _, reward, terminated, _, _ = env.step(step["action"])
            assert terminated and reward == episode["steps"][-1]["reward"]
