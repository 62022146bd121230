from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import gymnasium as gym
import pytest
from agentr1_wrappers import make_agent_env
from gymnasium.utils.env_checker import check_env

from tests.conftest import ROOT


def load_example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/examples/{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_task_is_short_and_works() -> None:
    lines = (ROOT / "docs/examples/coins.py").read_text().splitlines()
    assert len(lines) < 100
    coins = load_example("coins")
    check_env(coins.CoinsEnv(), skip_render_check=True)
    env = gym.make("Coins-v0", split="validation", order="sequential")
    expert = coins.Expert(env)
    for episode in range(20):
        observation, info = env.reset(seed=0 if episode == 0 else None)
        expert.reset(observation, info)
        over = False
        while not over:
            observation, _, terminated, truncated, info = env.step(expert.act(observation, info))
            over = terminated or truncated
        assert info["success"]
    state, info = make_agent_env({"env_id": "Coins-v0"}).reset(seed=1)
    assert info["tools"][0]["function"]["name"] == "open_box" and state[0]["role"] == "system"


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # the theme's notice about its own future
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    assert (tmp_path / "site/environments/gsm8k-tool/index.html").is_file()
    links, broken = broken_links(tmp_path / "site")
    assert links > 500 and not broken


class Anchors(HTMLParser):
    """The ids and the links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("id", "name") and value:
                self.ids.add(value)
            if key in ("href", "src") and value and tag in ("a", "img", "script", "link"):
                self.links.append(value)


def broken_links(site: Path) -> tuple[int, list[str]]:
    """How many links within the site there are, and those that lead nowhere."""
    pages = {path: Anchors(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    count, broken = 0, []
    for path, page in pages.items():
        for link in page.links:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            count += 1
            start = site if url.path.startswith("/") else path.parent
            target = (start / unquote(url.path).lstrip("/")).resolve() if url.path else path
            target = target / "index.html" if target.is_dir() else target
            known = pages[target].ids if target in pages else set()
            if not target.exists() or (url.fragment and unquote(url.fragment) not in known):
                broken.append(f"{path.relative_to(site)}: {link}")
    return count, broken


def test_links_between_files_of_the_repository_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *ROOT.glob("recipes/*/README.md")]:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page}: {link}"


def test_every_environment_class_has_the_headings() -> None:
    from agentr1_envs.registration import ENVS, env_class

    for env_id in ENVS:
        doc = env_class(env_id).__doc__ or ""
        found = re.findall(r"^    (\w+):[ ]*$", doc, re.MULTILINE)
        expected = [
            "Description",
            "Action",
            "Observation",
            "Rewards",
            "Termination",
            "Arguments",
            "Tasks",
            "References",
        ]
        assert [name for name in found if name in expected] == expected, env_id
