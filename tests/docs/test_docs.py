from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from typing import Any

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
