"""The generated catalog, and what scripted shoppers reach in it and in the recorded one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentr1_envs.webshop import reward
from agentr1_envs.webshop.catalog import Catalog
from agentr1_envs.webshop.embedded import embedded_catalog
from agentr1_envs.webshop.env import WebShopEnv
from agentr1_envs.webshop.expert import Expert, Observer, Reader
from agentr1_envs.webshop.generator import (
    Generator,
    asin_of,
    generator_nouns,
    index_of,
    vocabulary,
)
from agentr1_envs.webshop.goals import disjoint_order, leaks
from tests.webshop.conftest import convert_files


def run(env: WebShopEnv, policy: Any, count: int) -> list[float]:
    scores = []
    for index in range(min(count, len(env.tasks))):
        observation, info = env.reset(options={"task_index": index})
        policy.reset(observation, info)
        over = False
        while not over:
            action = policy.act(observation, info)
            observation, _, terminated, truncated, info = env.step(action)
            assert "agent_error" not in info, (action, info["agent_error"])
            over = terminated or truncated
        scores.append(info["score"])
    return scores


@pytest.mark.parametrize("goals", ["human", "synthetic"])
@pytest.mark.parametrize("split", ["test", "train"])
def test_the_expert_always_scores_one(goals: str, split: str) -> None:
    env = WebShopEnv(split=split, goals=goals)
    assert set(run(env, Expert(env), 150)) == {1.0}


@pytest.mark.parametrize("action_format", ["think_action", "tool"])
def test_scripted_shoppers_reply_in_any_format(action_format: str) -> None:
    env = WebShopEnv(split="test", action_format=action_format)
    assert set(run(env, Expert(env), 10)) == {1.0}
    assert np.mean(run(env, Observer(env), 10)) > 0.3


def test_the_observer_is_good_but_not_perfect() -> None:
    env = WebShopEnv(split="test")
    scores = run(env, Observer(env), 200)
    assert 0.3 < np.mean(np.equal(scores, 1.0)) < 0.9
    with pytest.raises(ValueError, match="text_rich"):
        Observer(WebShopEnv(observation="text"))


def test_the_observer_reads_the_compact_view_as_well() -> None:
    rich = WebShopEnv(split="test")
    roomy = WebShopEnv(split="test", observation="compact", observation_chars=10_000)
    assert run(roomy, Observer(roomy), 80) == run(rich, Observer(rich), 80)
    tight = WebShopEnv(split="test", observation="compact", observation_chars=700)
    assert np.mean(run(tight, Observer(tight), 80)) > 0.4


def test_the_reader_buys_the_same_two_steps_later() -> None:
    ends = {}
    for policy in (Observer, Reader):
        env = WebShopEnv(split="test", goals="synthetic", observation="compact")
        scores = run(env, policy(env), 40)
        hurried = WebShopEnv(split="test", goals="synthetic", observation="compact", max_steps=5)
        ends[policy] = scores, run(hurried, policy(hurried), 40)
    assert ends[Observer][0] == ends[Reader][0]
    assert np.mean(ends[Observer][1]) > 0.5 > np.mean(ends[Reader][1]) + 0.2


class Careless:
    """Buys the first result as it is."""

    def __init__(self, query: str) -> None:
        self.query = query

    def reset(self, observation: str, info: dict[str, Any]) -> None:
        self.text = observation.splitlines()[2]

    def act(self, observation: str, info: dict[str, Any]) -> str:
        actions = info["admissible_actions"]
        if actions[0].startswith("search["):
            return f"search[{self.query or self.text}]"
        links = [a for a in actions if a.startswith("click[b0")]
        return links[0] if links else "click[buy now]"


def test_careless_shoppers_fail() -> None:
    env = WebShopEnv(split="test")
    for query in ("", "shoes"):
        success = np.mean(np.equal(run(env, Careless(query), 300), 1.0))
        assert success <= 0.05, query


@pytest.mark.parametrize("kind", ["human", "synthetic"])
def test_experts_on_the_recorded_catalog(kind: str, recorded: Catalog) -> None:
    env = WebShopEnv(catalog=recorded.path, goals=kind, split="test")
    expert = run(env, Expert(env), 100)
    assert np.mean(expert) > 0.97
    assert 0.2 < np.mean(run(env, Observer(env), 100)) < np.mean(expert)


def test_the_expert_recovers_from_anywhere() -> None:
    env = WebShopEnv(split="test", max_steps=40)
    for index, start in enumerate(
        (["search[lamp]"], ["search[lamp]", None], ["search[lamp]", None, "click[reviews]"])
    ):
        observation, info = env.reset(options={"task_index": index})
        policy = Expert(env)
        policy.reset(observation, info)
        for action in start:
            links = [a for a in info["admissible_actions"] if a.startswith("click[b0")]
            *_, info = env.step(action or links[0])
        over = False
        while not over:
            *_, terminated, truncated, info = env.step(policy.act("", info))
            over = terminated or truncated
        assert info["score"] == 1.0


def test_products_depend_on_seed_and_index_alone() -> None:
    small, large = Generator(10), Generator(1_000_000)
    assert small.make(7) == large.make(7) == Generator(10).make(7)
    assert small.make(7) != Generator(10, seed=1).make(7)
    titles = {large.record(i)["name"] for i in range(3000)}
    assert len(titles) > 2990
    for bad in (0, -1, 36**8 + 1):
        with pytest.raises(ValueError):
            Generator(bad)


def test_asins_are_unique_and_reversible() -> None:
    indices = [*range(2000), 10**6, 36**8 - 1]
    asins = [asin_of(index) for index in indices]
    assert len(set(asins)) == len(indices)
    assert {len(asin) for asin in asins} == {10}
    assert [index_of(asin) for asin in asins] == indices


def test_option_values_survive_the_color_rule() -> None:
    """A value that hides a color word ("rosemary") could not be asked for by a synthetic goal."""
    for option, entry in vocabulary()["options"].items():
        for value in entry["values"]:
            assert reward.option_hits([value], {option: value}) == 1, value
            assert reward.option_hits([value], [value]) == 1, value


def test_nouns_are_words_of_the_title() -> None:
    titles = [Generator(50).record(i)["name"] for i in range(50)]
    for title, nouns in zip(titles, generator_nouns(titles), strict=True):
        assert len(nouns) >= 3 and set(nouns) <= set(title.lower().replace("'s", "").split()) | {
            word for word in nouns if "-" in word or "'" in word
        }
    assert list(generator_nouns([])) == []


def test_splits_share_nothing() -> None:
    catalog = embedded_catalog()
    for kind in ("human", "synthetic"):
        assert set(leaks(catalog.goals(kind)).values()) == {0}


def test_leaks_are_found(recorded: Catalog) -> None:
    goals = recorded.goals("synthetic")
    found = leaks(goals)
    rows = [recorded.row_of(goals[i]["asin"]) for i in range(len(goals))]
    texts = [goals[i]["instruction_text"] for i in range(len(goals))]
    assert found["validation_test_products"] == sum(r in set(rows[:500]) for r in rows[500:1500])
    assert found["train_test_products"] == sum(r in set(rows[:500]) for r in rows[1500:])
    assert found["train_validation_instructions"] == sum(
        t in set(texts[500:1500]) for t in texts[1500:]
    )


@pytest.mark.parametrize("sizes", [[4] * 1000, [1, 7, 3] * 400, [1] * 40, [600, 2000, 5]])
def test_disjoint_order(sizes: list[int]) -> None:
    products = np.arange(len(sizes))
    counts = np.array(sizes)
    order = disjoint_order(products, counts, 0)
    assert sorted(order.tolist()) == list(range(sum(sizes)))
    assert (order == disjoint_order(products, counts, 0)).all()
    if max(sizes) < 600:
        owner = np.repeat(products, counts)[order]
        test, validation, train = (set(part) for part in np.split(owner, [500, 1500]))
        assert not test & validation and not test & train and not validation & train


def test_written_files_make_the_same_shop(tmp_path: Path) -> None:
    generator = Generator(40)
    paths = generator.write_files(tmp_path / "files")
    assert [path.name for path in paths] == [
        "items_shuffle.json",
        "items_ins_v2.json",
        "items_human_ins.json",
    ]
    assert json.loads(paths[0].read_text())[3] == generator.record(3)
    shop = convert_files(paths, tmp_path / "shop")
    assert shop.meta["problems"] == {} and len(shop) == 40
    assert shop.meta["goals"]["human"] == 160
