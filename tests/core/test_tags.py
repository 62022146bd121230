from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from agentr1_envs.tags import between


@given(st.lists(st.sampled_from(["<a>", "</a>", "x", "<a", " "]), max_size=20).map("".join))
def test_as_the_regular_expression_says(text: str) -> None:
    assert between(text, "a") == re.findall("<a>(.*?)</a>", text, re.DOTALL)


def test_a_reply_of_opening_tags_only_costs_nothing() -> None:
    assert between("<answer>" * 100_000, "answer") == []  # took minutes
