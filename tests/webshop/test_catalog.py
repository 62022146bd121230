"""Conversion of public files, and what an opened catalog gives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentr1_envs.errors import EnvironmentFault, TaskDataError
from agentr1_envs.webshop import convert, json_stream
from agentr1_envs.webshop.catalog import Catalog, open_catalog
from agentr1_envs.webshop.embedded import embedded_catalog
from agentr1_envs.webshop.generator import Generator
from agentr1_envs.webshop.official import REASONS, parse_prices
from tests.webshop.conftest import GOLDEN, MakeShop, convert_files, human_goal, product


def test_a_product_comes_back_whole(make_shop: MakeShop) -> None:
    name = "Lampe “Été” \u2028 雪 🛋  double  blanks "
    shop = make_shop([product("B000000009"), product("B000000001", name=name)])
    found = shop.product(shop.row_of("B000000001"))
    assert found.title == name
    assert found.options == {"color": ["red", "blue | white"], "size": ["9", "10"]}
    assert found.bullets == ["rubber sole", "light"]
    assert (found.query, found.price_tag, found.price) == ("men's shoes", "$12.99", 12.99)
    assert [shop.asin(row) for row in shop.rows_in_file_order().tolist()] == [
        "B000000009",
        "B000000001",
    ]
    assert shop.row_of("B00000000") == shop.row_of("") == shop.row_of("é") == -1


ODD = [
    ("not_an_object", 3, False),
    ("not_an_object", None, False),
    ("missing_asin", product("nan"), False),
    ("missing_asin", product("x") | {"asin": float("nan")}, False),
    ("asin_too_long", product("B0000000001"), False),
    ("asin_not_ascii", product("Bé"), False),
    ("duplicate_asin", product("B000000001", name="Again"), False),
    ("missing_name", product("B1", name=None), False),
    ("price_without_mark", product("B2", pricing="12.99"), True),
    ("price_without_mark", product("B3", pricing=7), True),
    ("price_unreadable", product("B4", pricing="call us"), True),
    ("price_unreadable", product("B5", pricing="$1.2.3"), True),
    ("price_unreadable", product("B6", pricing=["$1"]), True),
    ("no_images", product("B7", images=[]), True),
    ("no_images", product("B8", images=None), True),
    ("bullets_as_string", product("B9", small_description="one"), True),
    ("bullets_missing", product("BA", small_description=None), True),
    ("bullets_malformed", product("BB", small_description=[1, "two", None]), True),
    ("bullets_malformed", product("BC", small_description={"a": 1}), True),
    ("description_missing", product("BD", full_description=None), True),
    ("category_missing", product("BE", product_category=None), True),
    ("options_malformed", product("BF", customization_options={"a": "b"}), True),
    ("options_malformed", product("BG", customization_options={"a": [{"v": 1}, 2]}), True),
    ("options_malformed", product("BH", customization_options=[1]), True),
    ("lone_surrogates", product("BI", name="half \ud83d of a pair"), True),
]


def test_each_oddity_is_counted_and_listed_and_none_is_fatal(make_shop: MakeShop) -> None:
    shop = make_shop([product("B000000001"), *(record for _, record, _ in ODD)])
    expected: dict[str, int] = {}
    for reason, _, _ in ODD:
        expected[reason] = expected.get(reason, 0) + 1
    assert shop.meta["problems"] == expected
    assert expected.keys() <= REASONS.keys()
    assert len(shop) == 1 + sum(kept for *_, kept in ODD)
    lines = [json.loads(x) for x in (shop.path / "problems.jsonl").read_text().splitlines()]
    assert [line["reason"] for line in lines] == [reason for reason, *_ in ODD]
    assert lines[0]["where"] == "product 1" and lines[6]["where"] == "product 7 B000000001"
    for _, record, kept in ODD:
        if kept:  # every page of what was kept works
            found = shop.product(shop.row_of(record["asin"]))
            assert found.title.encode() and found.price > 0
    assert shop.product(shop.row_of("B2")).price_tag == "$12.99"
    assert shop.product(shop.row_of("B9")).bullets == ["one"]
    assert shop.product(shop.row_of("BB")).bullets == ["two"]
    assert shop.product(shop.row_of("B000000001")).title != "Again"
    assert shop.search("again") == []


def test_odd_goals_are_skipped_with_a_reason(make_shop: MakeShop) -> None:
    asins = [f"B{i}" for i in range(6)]
    humans = {
        "B0": [human_goal("B0"), human_goal("B0", instruction="second")],
        "B1": [human_goal("B1", instruction_attributes=[])],
        "B2": [human_goal("B2", instruction=None), "text"],
        "B3": human_goal("B3", instruction_options=[1]),
        "unknown": [human_goal("unknown")],
    }
    notes: dict[str, Any] = {
        "B0": {"attributes": ["a"], "instruction": "x", "instruction_attributes": ["a"]},
        "B1": {"attributes": ["a"], "instruction": "x", "instruction_attributes": []},
        "B2": {"attributes": None},
        "B3": "text",
        "far too long to be one": {"attributes": []},
    }
    shop = make_shop([product(asin) for asin in asins], notes, humans)
    assert shop.meta["goals"] == {"human": 2, "synthetic": 4}
    assert shop.meta["problems"] == {"goal_malformed": 3, "goal_without_attributes": 2}


@pytest.mark.parametrize(
    ("text", "tag", "prices"),
    [
        ("$12.99", "$12.99", (12.99,)),
        ("$24.49 - $39.99", "$24.49 to $39.99", (24.49, 39.99)),
        ("$1,299.00", "$1299.0", (1299.0,)),
        ("$5 - $6 - $7", "$5.0 to $6.0", (5.0, 6.0)),
        ("", "$100.0", (100.0,)),
        (None, "$100.0", (100.0,)),
        ("1,250 or 1,300", "$1250.0 to $1300.0", (1250.0, 1300.0)),
    ],
)
def test_prices(text: Any, tag: str, prices: tuple[float, ...], make_shop: MakeShop) -> None:
    assert parse_prices(text, lambda *_: None) == prices
    shop = make_shop([product("B1", pricing=text)])
    found = shop.product(0)
    assert found.price_tag == tag
    assert prices[0] <= found.price <= prices[-1]


@pytest.mark.parametrize(
    ("number", "text", "says"),
    [
        (0, b"", "a JSON array"),
        (0, b"{}", "a JSON array"),
        (0, b"[", "JSON"),
        (0, b'[{"asin": "B1"', "JSON"),
        (0, b'[{"asin": "B1"} {}]', "',' or ']'"),
        (0, b'[{"asin": "B1"}] x', "the end of the file"),
        (0, b'[{"asin": "B1\xff"}]', "UTF-8"),
        (0, b"[]", "at least one product"),
        (0, b'[{"asin": nope}]', "JSON"),
        (0, b"[" * 200_000, "nested"),
        (1, b"[]", "a JSON object"),
        (1, b"{1: 2}", "a key in quotes"),
        (2, b'{"B1" 2}', "':'"),
    ],
)
def test_broken_files_name_themselves_and_leave_nothing(
    number: int, text: bytes, says: str, tmp_path: Path
) -> None:
    contents: list[bytes] = [json.dumps([product("B1")]).encode(), b"{}", b"{}"]
    contents[number] = text
    paths = tuple(tmp_path / name for name in GOLDEN)
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    with pytest.raises(TaskDataError) as error:
        convert_files(paths, tmp_path / "shop")  # type: ignore[arg-type]
    assert says in str(error.value)
    assert paths[number].name in str(error.value)
    assert sorted(os.listdir(tmp_path)) == sorted(GOLDEN)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(st.lists(json_values), st.dictionaries(st.text(), json_values), st.booleans())
@settings(max_examples=60, deadline=None)
def test_streaming_reads_what_json_reads(
    array: list[Any], mapping: dict[str, Any], ascii_only: bool
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "CHUNK_BYTES", 3)
        path = Path(folder) / "x.json"
        for value, read in ((array, json_stream.iter_array), (mapping, json_stream.iter_items)):
            text = json.dumps(value, ensure_ascii=ascii_only, indent=1)
            path.write_bytes(b"\xef\xbb\xbf" + text.encode("utf-8"))
            with json_stream.JsonWindow(path) as window:
                found: Any = list(read(window))  # type: ignore[operator]
            assert (found if isinstance(value, list) else dict(found)) == value


def test_only_a_catalog_is_replaced(make_shop: MakeShop, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(TaskDataError, match="an empty folder"):
        make_shop([product()], out="mine")
    (tmp_path / "file").write_text("x")
    with pytest.raises(TaskDataError, match="a folder"):
        make_shop([product()], out="file")
    first = make_shop([product()])
    second = make_shop([product(), product("B2")])
    assert (len(first), len(second)) == (1, 2)  # the open one goes on with what it had
    assert first.product(0).asin == "B000000001"
    assert sorted(os.listdir(tmp_path)) == ["file", "files", "mine", "shop"]


def test_same_files_give_the_same_bytes(make_shop: MakeShop, tmp_path: Path) -> None:
    products = [product(f"B{i}", pricing=f"${i + 1} - ${2 * i + 3}") for i in range(30)]
    one, two = make_shop(products, out="one"), make_shop(products, out="two")
    assert one.meta == two.meta
    for path in sorted(one.path.rglob("*")):
        if path.is_file() and path.relative_to(one.path).parts[0] != "index":
            assert path.read_bytes() == (two.path / path.relative_to(one.path)).read_bytes(), path
    other = make_shop(products, out="three", seed=1)
    assert other.product(0).price != one.product(0).price
    assert other.meta["key"] != one.meta["key"]


@pytest.mark.parametrize("name", ["text.bin", "prices.npy", "goals_human/order.npy", "meta.json"])
@pytest.mark.parametrize("harm", ["missing", "short"])
def test_a_damaged_catalog_is_refused(name: str, harm: str, make_shop: MakeShop) -> None:
    shop = make_shop([product()])
    path = shop.path / name
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(EnvironmentFault, match=r"damaged|no WebShop catalog|can't be read"):
        Catalog(shop.path)


def test_other_versions_are_refused(make_shop: MakeShop) -> None:
    shop = make_shop([product()])
    meta = json.loads((shop.path / "meta.json").read_text())
    (shop.path / "meta.json").write_text(json.dumps({**meta, "version": 99}))
    with pytest.raises(EnvironmentFault, match="version 99"):
        open_catalog(shop.path)
    (shop.path / "meta.json").write_text(json.dumps({"format": "something"}))
    with pytest.raises(EnvironmentFault, match="no WebShop catalog"):
        open_catalog(shop.path)


def test_catalogs_that_nobody_uses_are_closed(make_shop: MakeShop) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    first = make_shop([product()], out="shop0")
    first.search("shoes")
    for number in range(1, 6):
        make_shop([product()], out=f"shop{number}").search("shoes")
    before = descriptors()
    for number in range(6, 18):
        make_shop([product()], out=f"shop{number}").search("shoes")
    assert descriptors() <= before + 10
    assert open_catalog(first.path) is first
    assert first.goals("human")[0]["asin"] == "B000000001"


def test_an_index_of_another_catalog_is_refused(make_shop: MakeShop) -> None:
    old = make_shop([product(name="Lamp")])
    new = make_shop([product(name="Chair")])
    assert new.search("chair") == [0]
    with pytest.raises(EnvironmentFault, match="index can't be used"):
        old.search("lamp")  # its folder was replaced before its index was opened
    assert old.goals("human")[0]["name"] == "Lamp"


def test_opening_shares_one_catalog_and_sees_a_new_one(make_shop: MakeShop) -> None:
    shop = make_shop([product()])
    assert open_catalog(shop.path) is open_catalog(str(shop.path) + "/") is shop
    make_shop([product(), product("B2")])
    assert len(open_catalog(shop.path)) == 2


SLOW = """
import sys, time
from agentr1_envs.webshop import convert
from agentr1_envs.webshop.generator import Generator
generator = Generator(60)
source = generator.source()
def slow(records):
    for number, record in enumerate(records):
        if number == 30:
            print("halfway", flush=True)
            time.sleep(float(sys.argv[2]))
        yield record
source.records = slow(source.records)
convert.build_catalog(source, sys.argv[1])
"""


def test_a_killed_conversion_leaves_the_old_catalog(tmp_path: Path) -> None:
    target = tmp_path / "shop"
    convert.build_catalog(Generator(20).source(), target)
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(target), "60"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "halfway\n"
    assert any(".partial-" in name for name in os.listdir(tmp_path))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(open_catalog(target)) == 20
    convert.build_catalog(Generator(21).source(), target)
    assert len(open_catalog(target)) == 21
    assert os.listdir(tmp_path) == ["shop"]


def test_what_a_killed_replacement_left_is_put_back(tmp_path: Path) -> None:
    target = tmp_path / "shop"
    convert.build_catalog(Generator(20).source(), target)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    target.rename(tmp_path / f".shop.old-{dead.pid}")
    (tmp_path / f".shop.partial-{dead.pid}").mkdir()
    (tmp_path / f".shop.partial-{os.getppid()}").mkdir()  # of a living process
    (tmp_path / ".shop.notes-1").mkdir()
    with pytest.raises(TaskDataError):
        convert.build_catalog(
            convert.Source([], lambda _: None, lambda _: None, {}, "", iter), target
        )
    assert len(open_catalog(target)) == 20
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == sorted(["shop", f".shop.partial-{os.getppid()}", ".shop.notes-1"])


def test_two_conversions_at_once(tmp_path: Path) -> None:
    target = tmp_path / "shop"
    processes = [
        subprocess.Popen([sys.executable, "-c", SLOW, str(target), "0.3"], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert len(Catalog(target)) == 60
    assert os.listdir(tmp_path) == ["shop"]


def test_many_threads_make_the_embedded_catalog_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTR1_CACHE", str(tmp_path))
    found: list[Catalog] = []
    threads = [
        threading.Thread(target=lambda: found.append(embedded_catalog(30, 5))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(catalog) for catalog in found}) == 1
    assert len(os.listdir(tmp_path / "webshop")) == 1


def test_without_a_writable_cache_a_temporary_one_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    monkeypatch.setenv("AGENTR1_CACHE", str(blocker))
    assert len(embedded_catalog(25, 6)) == 25


def test_a_damaged_cache_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTR1_CACHE", str(tmp_path))
    script = "from agentr1_envs.webshop.embedded import embedded_catalog as e; print(len(e(20)))"

    def run() -> str:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert run() == "20"
    (folder,) = (tmp_path / "webshop").iterdir()
    (folder / "text.bin").write_bytes(b"short")
    assert run() == "20"
    assert (folder / "text.bin").stat().st_size > 5


def test_search_orders_ties_by_asin(make_shop: MakeShop) -> None:
    shop = make_shop([product(asin, name="Same Chair") for asin in ("B3", "B1", "B2")])
    assert [shop.asin(row) for row in shop.search("chair")] == ["B1", "B2", "B3"]
    assert shop.search("") == shop.search("的") == []
    start = time.monotonic()
    shop.search("chair " * 100_000)
    assert time.monotonic() - start < 30


def test_a_product_without_any_text_is_sold_too(make_shop: MakeShop) -> None:
    empty = {"asin": "B1", "name": "", "images": ["x"], "small_description": []}
    shop = make_shop([empty, product("B2")])
    assert shop.product(shop.row_of("B1")).title == ""
    assert shop.search("running") == [shop.row_of("B2")]
