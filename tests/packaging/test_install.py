"""The wheel and the editable install, used from outside the checkout, without torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SCRIPT = """
import importlib.util, sys
import gymnasium as gym
assert importlib.util.find_spec("torch") is None
env = gym.make("agentr1_envs:AgentR1/GSM8KTool-v0")
import agentr1_envs, agentr1_wrappers, agentr1_recipes
from agentr1_envs.registration import ENVS, load
for entry in ENVS.values():
    env = gym.make(entry.id)
    observation, info = env.reset(seed=1)
    expert = load(entry.experts["expert"])(env)
    expert.reset(observation, info)
    over = False
    while not over:
        observation, reward, terminated, truncated, info = env.step(expert.act(observation, info))
        over = terminated or truncated
    assert info["success"], (entry.id, info)
    agentr1_wrappers.make_agent_env(entry.id).reset(seed=1)
assert "torch" not in sys.modules
print("played", len(ENVS), agentr1_envs.__file__)
"""


def run(*command: object, cwd: Path, **kwargs: object) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        **kwargs,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources: building must not write into the working tree."""
    target = tmp_path_factory.mktemp("checkout") / "agentr1"
    ignore = shutil.ignore_patterns(
        ".git", ".venv*", ".cache", "*cache*", "runs", "build", "*.egg-info", "site", "outputs"
    )
    shutil.copytree(ROOT, target, ignore=ignore)
    return target


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Path:
    """A new environment with the wheel and what it requires, nothing else."""
    folder = tmp_path_factory.mktemp("base")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    python = folder / "venv/bin/python"
    run(sys.executable, "-m", "build", "--wheel", "-o", folder / "dist", checkout, cwd=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    constraints = checkout / "requirements/constraints.txt"
    run(python, "-m", "pip", "install", "-q", "-c", constraints, wheel, cwd=folder)
    return folder


def test_wheel_holds_every_package_and_its_data(base: Path, checkout: Path) -> None:
    (wheel,) = (base / "dist").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, package in [
        ("agentr1_envs", "agentr1_envs"),
        ("agentr1_train", "agentr1_train"),
        ("wrappers", "agentr1_wrappers"),
        ("recipes", "agentr1_recipes"),
    ]:
        for path in (checkout / folder).rglob("*"):
            if path.suffix in (".py", ".yaml", ".sh", ".typed", ".html") and path.is_file():
                assert f"{package}/{path.relative_to(checkout / folder)}" in names, path
    assert not any(name.startswith(("tests/", "benchmarks/", "docs/")) for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_base_install_has_no_torch_and_plays(base: Path) -> None:
    out = run(base / "venv/bin/python", "-c", SCRIPT, cwd=base)
    assert "played" in out and "site-packages" in out


def test_commands_work_without_torch(base: Path) -> None:
    command = base / "venv/bin/agentr1"
    assert "AgentR1/GSM8KTool-v0" in run(command, "envs", cwd=base)
    for sub in ("play", "prepare", "rollout", "eval"):
        assert "usage" in run(command, sub, "--help", cwd=base).lower()
    typed = ":hint\n#### 1\n:quit\n"
    out = run(command, "play", "gsm8k_tool", "--seed", "1", cwd=base, input=typed)
    assert "[over: " in out
    out = run(
        command, "rollout", "AgentR1/GSM8KTool-v0", "--policy", "expert", "--episodes", 20,
        "--out", "x.parquet", cwd=base,
    )  # fmt: skip
    assert (base / "x.parquet").stat().st_size > 0
    run(command, "prepare", "gsm8k_tool", "--local_save_dir", "rows", cwd=base)
    assert list((base / "rows").glob("*.parquet"))


def test_editable_install(base: Path, checkout: Path) -> None:
    python = base / "venv/bin/python"
    run(python, "-m", "pip", "install", "-q", "--no-deps", "-e", checkout, cwd=base)
    out = run(python, "-c", SCRIPT, cwd=base)
    assert str(checkout) in out


def test_no_extra_pins_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not any("torch" in requirement for requirement in project["dependencies"])
    for extra, requirements in project["optional-dependencies"].items():
        for requirement in requirements:
            if requirement.replace(" ", "").startswith(("torch=", "torch<", "torch~")):
                raise AssertionError(f"extra {extra} pins {requirement}")
