"""The shop for a person: pages over HTTP, and in a real browser."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.webshop.catalog import Catalog
from tests.webshop.browser import Browser, find_chromium
from tests.webshop.conftest import MakeShop, human_goal, product

fastapi = pytest.importorskip("fastapi")
from fastapi.testclient import TestClient  # noqa: E402

from agentr1_envs.webshop.server import COOKIE, Shop, create_app, free_socket  # noqa: E402

EVIL = """<script>document.title='owned'</script>"'><img src=x onerror="document.title='owned'">"""
EVIL_OPTION = EVIL.replace("/", " | ").lower()  # as the shop shows option values


@pytest.fixture
def shop(make_shop: MakeShop) -> Catalog:
    evil = product(
        "B00000EV1L",
        name=f"Lamp {EVIL}",
        full_description=EVIL,
        small_description=[EVIL, "{{ 7 * 7 }}"],
        pricing=f"${EVIL}5",
        customization_options={EVIL: [{"value": EVIL}, {"value": "{% raw %}"}]},
    )
    nice = product("B000000002", name="Red Chair", pricing="$12.99")
    goals = [human_goal("B000000002", instruction=f"red chair {EVIL}")]
    return make_shop([evil, nice], humans={"B000000002": goals})


@pytest.fixture
def client(shop: Catalog) -> Iterator[TestClient]:
    app = create_app(Shop(catalog=shop.path, split="test", seed=1, show_attributes=True))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        yield client


def buttons(html: str) -> list[str]:
    return [unescape(value) for value in re.findall(r'name="click" value="(.*?)" class', html)]


def test_a_visit_to_the_score(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200 and "search_input" in page.text
    page = client.post("/", data={"search": "red chair"})
    assert "Page 1 (Total results:" in page.text and "B000000002" in buttons(page.text)
    page = client.post("/", data={"click": "B000000002"})
    assert {"red", "9", "Buy Now", "Attributes"} <= set(buttons(page.text))
    for value in ("red", "9"):
        page = client.post("/", data={"click": value})
        assert re.search(rf'value="{value}" class="on"', page.text)
    page = client.post("/", data={"click": "Features"})
    assert "rubber sole" in page.text
    client.post("/", data={"click": "< Prev"})
    page = client.post("/", data={"click": "Buy Now"})
    assert '<strong id="score">1.0</strong>' in page.text
    again = client.post("/", data={"click": "Buy Now"})
    assert again.text == page.text  # nothing happens after the end
    page = client.post("/", data={"new": "1"})
    assert "search_input" in page.text


def test_mistakes_are_told(client: TestClient) -> None:
    assert "no keywords" in client.post("/", data={"search": "  "}).text
    assert "can be clicked" in client.post("/", data={"click": "nonsense"}).text
    client.post("/", data={"search": "chair"})
    assert "no search bar" in client.post("/", data={"search": "lamp"}).text
    assert client.post("/", content=b"\xff=\xff&click").status_code == 200
    assert client.post("/", data={"search": "x" * 20_000}).status_code == 413
    assert client.get("/nothing").status_code == 404


def test_everything_is_escaped(client: TestClient) -> None:
    pages = [client.get("/").text]
    pages.append(client.post("/", data={"search": f"lamp {EVIL}"}).text)
    pages.append(client.post("/", data={"click": "B00000EV1L"}).text)
    pages.append(client.post("/", data={"click": EVIL_OPTION}).text)
    assert 'class="on"' in pages[-1]
    for sub in ("Description", "Features", "Attributes"):
        pages.append(client.post("/", data={"click": sub}).text)
        pages.append(client.post("/", data={"click": "< Prev"}).text)
    pages.append(client.post("/", data={"click": EVIL + "x"}).text)
    pages.append(client.post("/", data={"click": "Buy Now"}).text)
    assert 'id="score"' in pages[-1]
    for page in pages:
        assert "<script" not in page.lower() and "<img" not in page.lower()
        assert "{{ 7 * 7 }}" in page or "49" not in page
    assert any("{{ 7 * 7 }}" in page for page in pages)


def test_visitors_do_not_see_each_other(shop: Catalog) -> None:
    app = create_app(Shop(catalog=shop.path, split="test"))
    with TestClient(app, base_url="http://127.0.0.1") as one:
        one.get("/")
        one.post("/", data={"search": "chair"})
        with TestClient(app, base_url="http://127.0.0.1") as two:
            assert "search_input" in two.get("/").text
            assert two.cookies[COOKIE] != one.cookies[COOKIE]
        assert "Page 1" in one.get("/").text
        forged = TestClient(app, base_url="http://127.0.0.1", cookies={COOKIE: "x"})
        assert "search_input" in forged.get("/").text


def test_only_this_machine_and_no_foreign_content(client: TestClient) -> None:
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    cookie = client.get("/", headers={"cookie": ""}).headers["set-cookie"]
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400
    listener = free_socket(0)
    assert listener.getsockname()[0] == "127.0.0.1"
    listener.listen()
    with pytest.raises(EnvironmentFault, match="can't be used"):
        free_socket(listener.getsockname()[1])
    listener.close()


@pytest.fixture
def served(shop: Catalog) -> Iterator[str]:
    """The address of a server that the command line started."""
    command = [sys.executable, "-m", "agentr1_train.cli.main", "webshop", "serve", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--catalog", str(shop.path), "--seed", "3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("http://127.0.0.1:"), line + process.stdout.read()
        yield line.split()[0]
    finally:
        process.terminate()
        assert process.wait(20) in (0, -15)


def test_a_person_shops_in_a_browser(served: str, tmp_path: Path) -> None:
    if find_chromium() is None:
        pytest.skip("needs chromium: apt-get install chromium")
    import httpx

    for _ in range(100):  # the address is printed before the server accepts
        try:
            httpx.get(served)
            break
        except httpx.TransportError:
            time.sleep(0.1)
    with Browser(tmp_path / "profile") as browser:
        browser.open(served)
        assert f"red chair {EVIL}" in browser.text()  # shown as text, character by character
        browser.search("lamp")
        assert "Page 1 (Total results: 1)" in browser.text()
        browser.click("B00000EV1L")
        assert EVIL in browser.text()
        browser.click(EVIL_OPTION)
        on = "[...document.querySelectorAll('button.on')].map(b => b.value)"
        assert browser.evaluate(on) == [EVIL_OPTION]
        browser.click("Description")
        browser.click("< Prev")
        assert browser.evaluate("document.title") == "WebShop"
        assert browser.evaluate("document.images.length + document.scripts.length") == 0
        browser.click("Back to Search")
        browser.search("red chair")
        browser.click("B000000002")
        browser.click("red")
        browser.click("9")
        assert browser.evaluate(on) == ["red", "9"]
        browser.click("Buy Now")
        assert browser.evaluate("document.getElementById('score').textContent") == "1.0"
        browser.click("Another task")
        assert browser.evaluate("document.getElementById('search_input') !== null") is True


def test_serve_says_what_is_wrong(tmp_path: Path, capsys: Any) -> None:
    from agentr1_train.cli.main import main

    assert main(["webshop", "serve", "--catalog", str(tmp_path)]) == 1
    assert "no WebShop catalog" in capsys.readouterr().err
    assert main(["webshop", "serve", "--split", "nothing"]) == 2
    assert "unknown split" in capsys.readouterr().err
