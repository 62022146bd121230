"""`WebShopEnv`: the contract's keys, rewards, arguments and tasks."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

import agentr1_envs  # noqa: F401
from agentr1_envs.errors import TaskDataError
from agentr1_envs.task_set import TaskSet
from agentr1_envs.webshop.catalog import Catalog
from agentr1_envs.webshop.env import GoalTasks, WebShopEnv
from agentr1_envs.webshop.expert import Expert, Observer
from agentr1_envs.webshop.goals import combination, combinations, draw_cap, shuffled
from tests.webshop.conftest import MakeShop, human_goal, product

ID = "AgentR1/WebShop-v0"
BUY = ["search[red chair]", "click[b000000002]", "click[red]", "click[9]", "click[buy now]"]


@pytest.fixture
def shop(make_shop: MakeShop) -> Catalog:
    products = [
        product("B000000001", name="Blue Lamp", query="lamps", product_category="Home › Lamps"),
        product("B000000002", name="Red Chair", query="chairs", product_category="Home › Chairs"),
    ]
    return make_shop(products, humans={"B000000002": [human_goal("B000000002")]})


def play(env: Any, actions: list[str], **reset: Any) -> list[Any]:
    env.reset(options={"task_index": 0}, **reset)
    return [env.step(action) for action in actions]


def test_a_purchase(shop: Catalog) -> None:
    env = gym.make(ID, catalog=str(shop.path), split="test")
    observation, info = env.reset(seed=1)
    assert "i need red shoes" in observation and info["task_id"] == "human/0"
    assert info["admissible_actions"][0].startswith("search[i need red shoes")
    *steps, last = play(env, BUY)
    for _, reward, terminated, truncated, info in steps:
        assert (reward, terminated, truncated) == (0.0, False, False)
        assert "agent_error" not in info and info["metrics"] == {"noun_source": "heuristic"}
        assert "score" not in info and "success" not in info
    assert "click[buy now]" in info["admissible_actions"]
    observation, reward, terminated, truncated, info = last
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert (info["success"], info["score"], info["stop_reason"]) == (True, 1.0, "bought")
    assert info["metrics"]["r_option"] == 1.0 and info["admissible_actions"] == []
    assert "B000000002" in observation
    with pytest.raises(ResetNeeded):
        env.step("search[more]")


@pytest.mark.parametrize(
    ("mode", "full", "part"),
    [("score", 1.0, 0.5), ("success10", 10.0, 0.0), ("sparse", 1.0, 0.0)],
)
def test_reward_modes(mode: str, full: float, part: float, shop: Catalog) -> None:
    env = WebShopEnv(catalog=shop.path, split="test", reward_mode=mode)
    assert play(env, BUY)[-1][1] == full
    without_options = [BUY[0], BUY[1], BUY[-1]]
    *_, info = play(env, without_options)[-1]
    assert play(env, without_options)[-1][1] == part
    assert (info["score"], info["success"]) == (0.5, False)


def test_invalid_actions_are_steps_that_change_nothing(shop: Catalog) -> None:
    env = WebShopEnv(catalog=shop.path, split="test", error_penalty=0.1)
    first, info = env.reset(options={"task_index": 0})
    anchor = info["anchor"]
    for action, kind in (
        ("buy it", "bad_format"),
        ("", "bad_format"),
        ("click[\n]", "bad_format"),
        ("search[ ]", "empty_search"),
        ("click[buy now]", "not_clickable"),
        ("click[search]", "not_clickable"),
        ("click[" + "x" * 5000 + "]", "not_clickable"),
    ):
        observation, reward, terminated, truncated, info = env.step(action)
        assert info["agent_error"]["kind"] == kind, action
        assert reward == -0.1 and not terminated and not truncated
        assert info["anchor"] == anchor
        assert observation == f"{info['agent_error']['message']}\n\n{first}"
        assert len(info["agent_error"]["message"]) < 200
    env.step(BUY[0])
    *_, info = env.step("search[lamp]")
    assert info["agent_error"]["kind"] == "no_search_bar"


def test_limits_end_without_a_score(shop: Catalog) -> None:
    env = gym.make(ID, catalog=str(shop.path), split="test")
    env.reset(seed=0)
    for step in range(1, 16):
        _, reward, terminated, truncated, info = env.step("search[chair]" if step == 1 else "x")
        assert truncated is (step == 15) and not terminated and reward == 0
    assert (info["success"], info["score"], info["stop_reason"]) == (False, 0.0, "max_steps")
    env = WebShopEnv(catalog=shop.path, split="test", max_errors=2)
    *_, info = play(env, ["x", "y"])[-1]
    assert info["stop_reason"] == "max_errors"


def test_observation_modes_show_the_same_page(shop: Catalog) -> None:
    seen = {}
    for mode in ("text", "text_rich", "compact"):
        env = WebShopEnv(catalog=shop.path, split="test", observation=mode)
        steps = play(env, BUY)
        seen[mode] = [step[0] for step in steps]
        assert [step[4]["anchor"] for step in steps] == [
            step[4]["anchor"] for step in play(WebShopEnv(catalog=shop.path, split="test"), BUY)
        ]
    assert "[clicked button] red" in seen["text_rich"][2]
    assert "[*red]" in seen["compact"][2]
    assert " [SEP] red [SEP] " in seen["text"][2] and seen["text"][1] == seen["text"][2]
    small = WebShopEnv(
        catalog=shop.path, split="test", observation="compact", observation_chars=120
    )
    for (long, short), action in zip(
        zip(seen["compact"], [s[0] for s in play(small, BUY)], strict=True), BUY, strict=True
    ):
        assert len(short) <= len(long), action


@pytest.mark.parametrize("observation", ["text_rich", "compact"])
def test_scripts_play_numbered_results(observation: str) -> None:
    kwargs = {"observation": observation, "goals": "synthetic", "split": "test"}
    for script in (Expert, Observer):
        played = []
        for labels in ("asin", "number"):
            env = gym.make(ID, result_labels=labels, **kwargs)
            obs, info = env.reset(options={"task_index": 3})
            player = script(env)
            player.reset(obs, info)
            bought = False
            while not bought:
                obs, reward, bought, truncated, info = env.step(player.act(obs, info))
                assert not truncated and "agent_error" not in info
            played.append((reward, env.unwrapped.session.product.asin))
        assert played[0] == played[1]


def test_think_action_replies(shop: Catalog) -> None:
    env = WebShopEnv(catalog=shop.path, split="test", action_format="think_action")
    assert "<action>" in env.system_prompt and env.tools == []
    replies = [f"<think>\nhm\n</think>\n<action>{action}</action>" for action in BUY]
    assert play(env, replies)[-1][1] == 1.0
    for reply in (BUY[0], f"<action>{BUY[0]}</action>", replies[0] + replies[1]):
        *_, info = play(env, [reply])[-1]
        assert info["agent_error"]["kind"] == "format"
    *_, info = play(env, ["<think></think><action>buy</action>"])[-1]
    assert info["agent_error"]["kind"] == "bad_format"


@pytest.mark.parametrize("tool_format", ["hermes", "qwen3_coder", "action_tag", "llama3_json"])
def test_tool_replies(tool_format: str, shop: Catalog) -> None:
    env = WebShopEnv(catalog=shop.path, split="test", action_format="tool", tool_format=tool_format)
    (tool,) = env.tools
    assert tool["function"]["name"] == "env_step" and "env_step" in env.system_prompt
    steps = play(env, [env.format_action(action) for action in BUY])
    assert steps[-1][1] == 1.0
    (call,) = steps[0][4]["tool_calls"]
    assert call["arguments"] == {"command": BUY[0]} and call["result"] == steps[0][0]
    observation, *_, info = play(env, ["let me think"])[-1]
    assert info["agent_error"]["kind"] == "no_call" and "env_step" in observation
    two = "\n".join(env.format_action(action) for action in BUY[:2])
    if tool_format != "llama3_json":
        *_, info = play(env, [two])[-1]
        assert info["agent_error"]["kind"] == "too_many_calls"
        assert env.session is not None and env.session.page == "results"


def test_compat_keeps_the_page_on_an_invalid_action(shop: Catalog) -> None:
    env = WebShopEnv(catalog=shop.path, split="test", compat="princeton")
    first, _ = env.reset(seed=0)
    observation, *_, info = env.step("nonsense")
    assert observation == first and info["agent_error"]["kind"] == "bad_format"


def test_splits_by_position() -> None:
    tasks = {split: WebShopEnv(split=split).tasks for split in ("test", "validation", "train")}
    assert {split: len(panel) for split, panel in tasks.items()} == {
        "test": 500,
        "validation": 1000,
        "train": 2500,
    }
    assert tasks["validation"][0]["task_id"] == "human/500"
    for split, panel in tasks.items():
        assert panel.index(panel[3]["task_id"]) == 3
        other = tasks["train" if split == "test" else "test"]
        for wrong in (other[0]["task_id"], "human/", "human/007", "synthetic/0", "human/-1", "x"):
            with pytest.raises(KeyError):
                panel.index(wrong)
    assert len({panel.hash for panel in tasks.values()}) == 3
    asins = {split: {panel[i]["asin"] for i in range(len(panel))} for split, panel in tasks.items()}
    assert not asins["test"] & asins["train"] and not asins["test"] & asins["validation"]
    assert not asins["validation"] & asins["train"]


def test_an_empty_split_says_so(shop: Catalog) -> None:
    env = WebShopEnv(catalog=shop.path, split="train")
    with pytest.raises(TaskDataError, match=r"split 'train' \(positions from 1500 of all goals\)"):
        env.reset()


def test_same_seed_same_goals_in_other_processes() -> None:
    script = (
        "from agentr1_envs.webshop.env import WebShopEnv; e = WebShopEnv(); import json;"
        "r = [e.reset(seed=3)[0]] + [e.reset()[0] for _ in range(5)]; print(json.dumps(r))"
    )
    env = WebShopEnv()
    mine = [env.reset(seed=3)[0]] + [env.reset()[0] for _ in range(5)]
    for hash_seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            env={**__import__("os").environ, "PYTHONHASHSEED": hash_seed},
            check=True,
        )
        assert json.loads(done.stdout) == mine


def test_all_goals_are_drawn_about_equally_often(make_shop: MakeShop) -> None:
    asins = [f"B{i}" for i in range(8)]
    shop = make_shop([product(asin) for asin in asins])
    env = WebShopEnv(catalog=shop.path, split="test")
    env.reset(seed=0)
    counts = Counter(env.reset()[1]["task_id"] for _ in range(4000))
    assert set(counts) == {f"human/{i}" for i in range(8)}
    assert max(counts.values()) < 1.25 * min(counts.values())


def test_weighted_draws_follow_the_weights(make_shop: MakeShop) -> None:
    note = {"attributes": ["a"], "instruction": "find a", "instruction_attributes": ["a"]}
    notes = {"B0": note, "B1": {**note, "instruction_attributes": ["rare"]}}
    shop = make_shop([product("B0"), product("B1", customization_options=None)], notes)
    goals = shop.goals("synthetic")
    assert sorted(goals[i]["weight"] for i in range(5)) == [0.25] * 4 + [1.0]
    env = WebShopEnv(catalog=shop.path, split="test", goals="synthetic", weighted=True)
    env.reset(seed=0)
    drawn = Counter(env.reset() and env.task["asin"] for _ in range(2000))
    assert 900 < drawn["B1"] < 1100
    sharded = WebShopEnv(
        catalog=shop.path, split="test", goals="synthetic", weighted=True, shard=(1, 2)
    )
    sharded.reset(seed=0)
    ids = {sharded.reset()[1]["task_id"] for _ in range(200)}
    assert ids == {"synthetic/1", "synthetic/3"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"goals": "x"},
        {"observation": "html"},
        {"reward_mode": "dense"},
        {"compat": "x"},
        {"result_labels": "title"},
        {"result_labels": "number", "compat": "princeton"},
        {"action_format": "x"},
        {"tool_format": "x"},
        {"observation_chars": 0},
        {"weighted": True, "order": "sequential"},
        {"split": "x"},
    ],
)
def test_wrong_arguments_are_told_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        WebShopEnv(**wrong)


def test_a_tasks_file(shop: Catalog, tmp_path: Path) -> None:
    goals = GoalTasks(shop.goals("human"), "test", shop)
    row = {**goals[0], "goal_options": {"color": "red", "size": "9"}, "task_id": "mine"}
    for name in ("tasks.jsonl", "tasks.parquet"):
        TaskSet([row]).save(tmp_path / name)
        env = WebShopEnv(catalog=shop.path, tasks=tmp_path / name)
        steps = play(env, BUY)
        assert steps[-1][1] == 1.0 and steps[-1][4]["task_id"] == "mine"
    for field, value in (
        ("asin", "B999"),
        ("attributes", "red"),
        ("attributes", [1]),
        ("price_upper", "10"),
        ("price_upper", True),
        ("goal_options", None),
        ("instruction_text", 5),
    ):
        with pytest.raises(TaskDataError, match=field):
            env.reset(options={"task": {**row, field: value}})


def test_verl_rows_are_read(shop: Catalog, tmp_path: Path) -> None:
    from agentr1_envs.task_files import verl_row, write_rows

    tasks = GoalTasks(shop.goals("human"), "test", shop)
    row = verl_row(
        tasks[0],
        env_id=ID,
        split="test",
        index=0,
        data_source="webshop",
        prompt=[{"role": "user", "content": "x"}],
        ground_truth="",
    )
    write_rows(tmp_path / "rows.parquet", [row])
    env = WebShopEnv(catalog=shop.path, tasks=tmp_path / "rows.parquet")
    assert play(env, BUY)[-1][1] == 1.0


def test_no_object_is_shared_and_info_is_json(shop: Catalog) -> None:
    env = WebShopEnv(catalog=shop.path, split="test")
    _, first = env.reset(seed=0)
    json.dumps(first)
    first["admissible_actions"].clear()
    first["metrics"]["noun_source"] = "?"
    _, again = env.reset(seed=0)
    assert again["admissible_actions"] and again["metrics"] == {"noun_source": "heuristic"}
    task = env.task
    task["attributes"].clear()
    for action in BUY:
        *_, info = env.step(action)
        json.dumps(info)
    assert info["score"] == 1.0


def test_many_environments_share_one_catalog(shop: Catalog) -> None:
    envs = [WebShopEnv(catalog=str(shop.path), split="test") for _ in range(1000)]
    for number, env in enumerate(envs):
        env.reset(seed=number)
        env.step("search[chair]")
    assert {id(env.catalog) for env in envs} == {id(shop)}
    envs[0].step("click[b000000002]")
    assert envs[1].session.page == "results"


def test_vector_environments() -> None:
    envs = gym.make_vec(ID, num_envs=3, order="sequential")
    _, infos = envs.reset(seed=0)
    assert len(set(infos["task_id"])) == 3
    envs.step(["search[lamp]", "x", "search[shoes]"])
    envs.close()


def test_render_and_prompt(shop: Catalog) -> None:
    env = gym.make(ID, catalog=str(shop.path), split="test", render_mode="ansi")
    play(env, BUY)
    text = env.render()
    assert isinstance(text, str) and "> click[buy now]" in text and "score 1" in text
    base: Any = env.unwrapped
    assert base.system_prompt.endswith("Reply with one command and nothing else.")
    assert "search[keywords]" in base.system_prompt and base.tools == []
    assert base.task_text.startswith("i need red shoes, and price lower than")
    spec = env.spec
    assert spec is not None and json.loads(spec.to_json())
    assert isinstance(pickle.loads(pickle.dumps(spec)), gym.envs.registration.EnvSpec)


def test_caps_and_combinations() -> None:
    import random

    rng = random.Random(0)
    for price, allowed in ((0.0, {20, 30, 40}), (12.0, {30, 40, 50}), (965.0, {980, 990})):
        caps = {draw_cap(price, rng)[0] for _ in range(200)}
        assert caps == allowed
    assert draw_cap(985.0, rng) == (1_000_000.0, "")
    assert draw_cap(10.0, rng)[1].startswith(", and price lower than ")
    options = {"size": ["s", "m"], "color": ["r", "g", "b"]}
    made = [combination(options, number) for number in range(combinations(options))]
    assert made[0] == {"color": "r", "size": "s"} and made[1] == {"color": "r", "size": "m"}
    assert len({tuple(choice.items()) for choice in made}) == 6
    assert list(made[0]) == ["color", "size"]
    assert combinations({}) == 1 and combination({}, 0) == {}
    assert combinations({"a": []}) == 0
    assert sorted(shuffled(1000).tolist()) == list(range(1000)) and shuffled(0).tolist() == []
    assert shuffled(10).dtype == np.uint32
