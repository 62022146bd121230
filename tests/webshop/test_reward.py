"""Hand-derived scores."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from agentr1_envs.webshop import reward
from agentr1_envs.webshop.reward import Purchase, Target, score_purchase

BOUGHT = Purchase(
    name="Acme Trail Shoes",
    query="men's shoes",
    product_category="Clothing › Men › Shoes",
    attributes=["rubber sole", "non slip"],
    bullets=["Breathable Mesh upper"],
    description="Arch support all day.",
    price=49.99,
    options={"color": "navy blue", "size": "10.5 wide"},
    nouns=["acme", "trail", "shoes"],
)
WANTED = Target(
    name="Acme Trail Shoes",
    query="men's shoes",
    product_category="Clothing › Men › Shoes",
    attributes=["rubber sole"],
    options=["navy blue", "10.5 wide"],
    price_upper=50.0,
    nouns=["acme", "trail", "shoes"],
)


def score(bought: dict[str, Any] | None = None, wanted: dict[str, Any] | None = None) -> Any:
    return score_purchase(
        dataclasses.replace(BOUGHT, **(bought or {})), dataclasses.replace(WANTED, **(wanted or {}))
    )


def test_everything_fits() -> None:
    value, detail = score()
    assert value == 1.0
    assert detail == {
        "r_type": 1.0,
        "r_att": 1.0,
        "w_att": 0.25,
        "query_match": True,
        "category_match": True,
        "title_score": 1.0,
        "r_option": 1.0,
        "w_option": 0.5,
        "r_price": True,
        "w_price": 0.25,
    }


def test_each_part_counts_once() -> None:
    assert score({"price": 50.01})[0] == 3 / 4
    assert score({"price": 50.0})[0] == 1
    assert score({"options": {"color": "navy blue"}})[0] == 3 / 4
    assert score({"options": {}})[0] == 2 / 4
    assert score(wanted={"attributes": ["waterproof", "non slip"]})[0] == 4 / 5
    assert "r_option" not in score(wanted={"options": []})[1]
    assert score(wanted={"options": []})[0] == 1.0


def test_attributes_are_found_in_the_texts_too() -> None:
    for text in ("breathable mesh", "arch support", "trail"):
        assert score(wanted={"attributes": [text]})[1]["r_att"] == 1.0
    # Fuzzy only among the product's own attributes: word order does not matter there.
    assert score(wanted={"attributes": ["sole rubber"]})[1]["r_att"] == 1.0
    assert score(wanted={"attributes": ["mesh breathable"]})[1]["r_att"] == 0.0


def test_colors_are_reduced_to_the_first_color_word() -> None:
    assert reward.normalize_color("navy blue") == "blue"
    assert reward.normalize_color("plaid") == "plaid"
    assert score({"options": {"color": "sky blue", "size": "10.5 wide"}})[0] == 1.0
    assert list(reward.COLORS) == sorted(reward.COLORS)  # _option_text relies on it


def test_options_of_synthetic_goals_are_pairs() -> None:
    pairs = {"color": "navy blue", "size": "10.5 wide"}
    assert score(wanted={"options": pairs})[0] == 1.0
    assert score({"options": {"color": "red", "size": "10.5 wide"}}, {"options": pairs})[0] == 3 / 4
    # A pair's value is reduced only where it is a color word as a whole ...
    assert reward.option_hits(["red"], {"color": "red"}) == 1
    # ... so a value that merely contains one can't be matched: the published rule's own gap.
    assert reward.option_hits(["rosemary"], {"scent": "rosemary"}) == 0
    assert reward.option_hits(["rosemary"], ["rosemary"]) == 1


@pytest.mark.parametrize(
    ("bought", "wanted_nouns", "factor"),
    [
        ({"query": "x", "product_category": "A › B"}, ["acme", "trail", "shoes"], 1.0),
        ({"query": "x", "product_category": "A › B"}, ["acme", "b", "c", "d", "e"], 0.5),
        ({"query": "x", "product_category": "A › B"}, ["acme", *"bcdefghijklm"], 0.1),
        ({"query": "x", "product_category": "A › B"}, ["other"], 0.0),
        ({"query": "x", "product_category": "A › B"}, [], 0.5),
        ({}, ["other"], 0.0),  # a title without a shared noun counts nothing, whatever matches
        ({}, ["acme", "b", "c", "d", "e"], 1.0),
        ({"query": "x"}, ["acme", "b", "c", "d", "e"], 1.0),  # category alone
        ({"product_category": "Clothing"}, ["acme", "b", "c", "d", "e"], 1.0),  # query alone
        ({"query": "x", "product_category": "Clothing › Women"}, ["acme", *"bcde"], 0.5),
    ],
)
def test_type_factor(bought: dict[str, Any], wanted_nouns: list[str], factor: float) -> None:
    value, detail = score(bought, {"nouns": wanted_nouns})
    assert detail["r_type"] == factor
    assert value == pytest.approx(factor)


def test_repeated_nouns_of_the_goal_weigh_down() -> None:
    _, detail = score({"nouns": ["tea"]}, {"nouns": ["tea", "tea", "box", "box"]})
    assert detail["title_score"] == 1 / 4


def test_matching_ignores_case_punctuation_and_latin_accents() -> None:
    assert reward.matches("Café-Crème!", "CAF CRME")
    assert not reward.matches("", "")
    assert not reward.matches("!!!", "!!!")
    assert reward.matches("x-large", "large")  # a subset of words is a full match
