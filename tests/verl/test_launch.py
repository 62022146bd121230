"""`agentr1 train backend=verl`: what it composes and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentr1_train.cli.common import UsageError
from agentr1_train.cli.main import main
from agentr1_train.config import ConfigError
from agentr1_train.verl import launch


def test_without_verl_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = launch.importlib.util.find_spec
    monkeypatch.setattr(
        launch.importlib.util, "find_spec", lambda n, *a: None if n == "verl" else find(n, *a)
    )
    assert main(["train", "recipe=gsm8k_tool", "backend=verl"]) == 2
    assert "pip install 'agentr1[verl]'" in capsys.readouterr().err


def test_the_environment_names_the_plugin_and_no_more() -> None:
    cpu, gpu = launch.environment(True), launch.environment(False)
    assert cpu["VERL_USE_EXTERNAL_MODULES"] == gpu["VERL_USE_EXTERNAL_MODULES"] == launch.PLUGIN
    assert cpu["VERL_PLATFORM"] == "cpu"


@pytest.mark.verl
def test_short_keys_and_device() -> None:
    pytest.importorskip("verl", reason="needs verl: make test-verl")
    config, cpu = launch.compose(
        ["recipe=gsm8k_tool", "backend=verl", "device=cpu", "model=tiny", "estimator=gigpo",
         "n=3", "+agentr1.env.kwargs.error_penalty=0.5", "name=here"]
    )  # fmt: skip
    assert cpu and config.actor_rollout_ref.rollout.name == "hf_cpu"
    assert config.algorithm.adv_estimator == "gigpo" and config.actor_rollout_ref.rollout.n == 3
    assert config.agentr1.env.kwargs.error_penalty == 0.5
    assert config.trainer.default_local_dir == "runs/here"
    assert launch._embedded(config)
    _, cpu = launch.compose(["recipe=gsm8k_tool", "model=/m"])
    assert not cpu


@pytest.mark.verl
def test_wrong_words_are_named(tmp_path: Path) -> None:
    pytest.importorskip("verl", reason="needs verl: make test-verl")
    for words, text in (
        (["recipe=gsm8k_tool", "actor_rollout_ref.rollot.n=3"], "rollot"),
        (["recipe=nothing"], "recipe='nothing'"),
        (["n=3"], "no recipe"),
        (["recipe=gsm8k_tool", "n"], "override 'n'"),
    ):
        with pytest.raises(ConfigError, match=text):
            launch.compose(words)
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="holds a run"):
        launch.run(
            ["recipe=gsm8k_tool", "device=cpu", f"dir={tmp_path}"],
            resume=False, overwrite=False, print_only=False,
        )  # fmt: skip
