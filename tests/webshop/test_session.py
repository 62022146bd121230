"""Pages, clicks and searches under both rule sets."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentr1_envs.webshop import pages
from agentr1_envs.webshop.catalog import Catalog
from agentr1_envs.webshop.session import ShopSession, parse_action
from tests.webshop.conftest import MakeShop, product


def words(session: ShopSession) -> str:
    return pages.as_rich(session.nodes)


@pytest.fixture
def shop(make_shop: MakeShop) -> Catalog:
    odd = {
        "Color": [{"value": "crème"}, {"value": 'a "b"'}, {"value": "reviews"}, {"value": "small"}],
        "Size": [{"value": "small"}, {"value": "two\nlines"}, {"value": " "}, {"value": "9"}],
    }
    return make_shop(
        [
            product("B000000001", name="Odd Lamp", customization_options=odd),
            product("B000000002", name="Red Lamp", small_description=["", "bright"]),
            *(product(f"C{i:09d}", name=f"Common Chair {i}") for i in range(70)),
        ]
    )


def at_item(shop: Catalog, query: str, asin: str, **kwargs: Any) -> ShopSession:
    session = ShopSession(shop, "buy it", **kwargs)
    assert session.act(f"search[{query}]").error is None
    assert session.act(f"click[{asin}]").error is None
    return session


@pytest.mark.parametrize(
    ("text", "loose", "exact"),
    [
        ("search[Red Shoes]", ("search", "red shoes"), ("search", "red shoes")),
        ("click[Buy Now] now", ("click", "buy now"), ("click", "buy now")),
        ("  Search[ x ]  ", ("search", "x"), None),
        ("search[a[b]]", None, None),
        ("search[]", ("search", ""), None),
        ("search[a] or search[b]", None, None),
        ("think\nclick[x]", None, None),
        ("click[two\nlines]", None, None),
        ("buy[x]", None, None),
        ("", None, None),
        ("[x]", None, None),
    ],
)
def test_parse_action(text: str, loose: Any, exact: Any) -> None:
    assert parse_action(text) == loose
    assert parse_action(text, exact=True) == exact


@given(st.sampled_from(["search", "click", "a", " ", ""]), st.text("ab[] \n\rA", max_size=12))
@settings(max_examples=400)
def test_the_published_pattern(name: str, rest: str) -> None:
    action = name + rest
    match = re.match(r"(.+)\[(.+)\]", action)
    wanted = None
    if match and match.group(1) in ("search", "click"):
        wanted = (match.group(1), match.group(2).lower())
    assert parse_action(action, exact=True) == wanted


def test_long_replies_are_read_in_linear_time() -> None:
    for text in (
        "[" * 1_000_000,
        "]" * 1_000_000,
        "search[" * 150_000,
        "[]" * 500_000,
        "x" * 10**6,
    ):
        assert parse_action(text) is None and parse_action(text, exact=True) is None


def test_search_only_where_there_is_a_bar(shop: Catalog) -> None:
    for princeton in (False, True):
        session = ShopSession(shop, "x", princeton=princeton)
        session.act("search[lamp]")
        reply = session.act("search[chair]")
        assert (reply.error is None) is princeton
        assert session.query == ("chair" if princeton else "lamp")


def test_pages_of_results(shop: Catalog) -> None:
    session = ShopSession(shop, "x")
    session.act("search[chair]")
    assert "Page 1 (Total results: 50)" in words(session)
    seen = []
    for page in range(1, 6):
        assert session.number == page
        assert ("< prev" in session.clickables()) == (page > 1)
        assert ("next >" in session.clickables()) == (page < 5)
        seen += [c for c in session.clickables() if c.startswith("c0")]
        session.act("click[next >]")
    assert len(seen) == len(set(seen)) == 50
    assert session.act("click[next >]").error == "not_clickable"
    session.act("click[< prev]")
    assert session.number == 4
    published = ShopSession(shop, "x", princeton=True)
    published.act("search[chair]")
    for _ in range(6):
        assert published.act("click[next >]").error is None
    assert published.clickables() == ["back to search", "< prev", "next >"]


def test_numbered_results_are_the_same_products(shop: Catalog) -> None:
    plain, numbered = ShopSession(shop, "x"), ShopSession(shop, "x", numbered=True)
    for session in (plain, numbered):
        session.act("search[chair]")
        session.act("click[next >]")
    codes = [c for c in plain.clickables() if c.startswith("c0")]
    assert [c for c in numbered.clickables() if c.isdigit()] == [str(n) for n in range(1, 11)]
    assert numbered.act(f"click[{codes[2]}]").error == "not_clickable"
    for code, number in ((codes[2], "3"), (codes[9], "10")):
        assert plain.act(f"click[{code}]").error is numbered.act(f"click[{number}]").error is None
        assert numbered.product == plain.product
        for session in (plain, numbered):
            session.act("click[< prev]")
    # What was visited is marked where it stands, here and not on the page before.
    assert "[clicked button] 3 [clicked button_]" in words(numbered)
    assert "[button] 4 [button_]" in words(numbered)
    row = shop.row_of(codes[2].upper())
    assert numbered.link_to(row) == "3" and plain.link_to(row) == codes[2].upper()
    numbered.act("click[< prev]")
    assert "[clicked button]" not in words(numbered) and numbered.link_to(row) is None


def test_nothing_found(shop: Catalog) -> None:
    session = ShopSession(shop, "x")
    assert session.act("search[the of]").error is None
    assert "Page 1 (Total results: 0)" in words(session)
    assert session.clickables() == ["back to search"]


def test_options_are_marked_when_chosen(shop: Catalog) -> None:
    session = at_item(shop, "odd lamp", "B000000001")
    for label in ("crème", 'a "b"'):
        assert session.act(f"click[{label}]").error is None
        assert f"  [clicked button] {label} [clicked button_]" in words(session)
        assert words(session).startswith(f"You have clicked {label}.\n")
    published = at_item(shop, "odd lamp", "B000000001", princeton=True)
    published.act("click[crème]")
    assert published.options == {"color": "crème"}
    assert "[clicked button] crème" not in words(published)  # the published shop's fault


def test_search_words_do_not_mark_options(shop: Catalog) -> None:
    session = at_item(shop, 'odd lamp "9"', "B000000001")
    assert "clicked" not in words(session)
    published = at_item(shop, 'odd lamp "9"', "B000000001", princeton=True)
    assert "[clicked button] 9 [clicked button_]" in words(published)


def test_clashing_texts_can_all_be_clicked(shop: Catalog) -> None:
    session = at_item(shop, "odd lamp", "B000000001")
    labels = session.clickables()
    assert len(labels) == len(set(labels))
    for label, option, value in (
        ("color: small", "color", "small"),
        ("size: small", "size", "small"),
        ("color: reviews", "color", "reviews"),
        ("two lines", "size", "two\nlines"),
    ):
        assert f"[button] {label} [button_]" in words(session)
        assert session.act(f"click[{label}]").error is None
        assert session.options[option] == value
    session.act("click[reviews]")
    assert session.page == "sub"
    published = at_item(shop, "odd lamp", "B000000001", princeton=True)
    published.act("click[small]")
    published.act("click[reviews]")
    assert published.options == {"size": "small", "color": "reviews"}


def test_what_is_cleared_when(shop: Catalog) -> None:
    session = at_item(shop, "red lamp", "B000000002")
    session.act("click[red]")
    session.act("click[description]")
    assert session.clickables() == ["back to search", "< prev"]
    session.act("click[< prev]")
    assert session.options == {"color": "red"}
    session.act("click[< prev]")
    assert (session.page, session.options) == ("results", {})
    assert "[clicked button] B000000002" in words(session)
    session.act("click[back to search]")
    session.act("search[red lamp]")
    assert "clicked" not in words(session)


def test_sub_pages(shop: Catalog) -> None:
    session = at_item(shop, "red lamp", "B000000002", show_attributes=True)
    texts = {}
    for name in pages.SUB_PAGES:
        session.act(f"click[{name}]")
        texts[name] = pages.as_text(session.nodes).split(" [SEP] ")[4:]
        session.act("click[< prev]")
    assert texts == {
        "Description": ["Shoes for running."],
        "Features": ["bright"],
        "Reviews": [],
        "Attributes": ["rubber sole"],
    }


def test_magic_queries(shop: Catalog) -> None:
    plain = ShopSession(shop, "x")
    plain.act("search[<q> men's shoes]")
    assert len(plain.results) == 50
    for query, count in (("<q> men's shoes", 72), ("<c> fashion", 72), ("<r>", 50)):
        session = ShopSession(shop, "x", princeton=True)
        session.act(f"search[{query}]")
        assert len(session.results) == count, query
    session = ShopSession(shop, "x", magic_queries=True)
    session.act("search[<a> rubber sole]")
    assert len(session.results) == 72
    assert ShopSession(shop, "x", magic_queries=True, seed=1).act("search[<r>]").error is None


def test_state_text_is_equal_exactly_for_equal_states(shop: Catalog) -> None:
    one, two = (at_item(shop, "odd lamp", "B000000001") for _ in range(2))
    one.act("click[9]"), one.act("click[crème]")
    two.act("click[crème]"), two.act("click[9]")
    assert one.state() == two.state()
    two.act("click[features]")
    assert one.state() != two.state()
    two.act("click[< prev]")
    assert one.state() == two.state()


def test_after_the_purchase_nothing_can_be_clicked(shop: Catalog) -> None:
    session = at_item(shop, "red lamp", "B000000002")
    assert session.act("click[buy now]").bought
    assert session.clickables() == []
    assert session.act("click[back to search]").error == "not_clickable"
    assert session.act("search[x]").error == "no_search_bar"


def test_compact_view_keeps_actions_and_instruction(shop: Catalog) -> None:
    session = ShopSession(shop, "buy it " + "very " * 30)
    session.act("search[lamp chair]")
    full = pages.as_compact(session.nodes, 10_000)
    for limit in (10_000, 700, 450, 1):
        text = pages.as_compact(session.nodes, limit)
        assert len(text) <= max(limit, len(pages.as_compact(session.nodes, 1)))
        assert session.instruction.split() == text.splitlines()[1].split()
        for node_kind, label, _ in session.nodes:
            if node_kind in (pages.BUTTON, pages.LINK):
                assert f"[{label}]" in text
    assert "Common Chair" in full
    item = at_item(shop, "red lamp", "B000000002")
    item.act("click[red]")
    assert "[*red] [blue | white]" in pages.as_compact(item.nodes, 1)
