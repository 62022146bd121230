"""`agentr1 train backend=verl`: what it composes and refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentr1_train.cli.common import UsageError
from agentr1_train.cli.main import main
from agentr1_train.config import ConfigError
from agentr1_train.verl import launch
from agentr1_train.verl.watch import watch


def test_without_verl_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = launch.importlib.util.find_spec
    monkeypatch.setattr(
        launch.importlib.util, "find_spec", lambda n, *a: None if n == "verl" else find(n, *a)
    )
    assert main(["train", "recipe=gsm8k_tool", "backend=verl"]) == 2
    assert "pip install 'agentr1[verl]'" in capsys.readouterr().err


def test_what_verl_prints_is_kept_and_steps_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "agentr1/episode/return": 9}\n')
    script = (
        "import json; print('much output'); file = open('metrics.jsonl', 'a')\n"
        "row = {'step': 2, 'agentr1/episode/return': 0.5, 'agentr1/gsm8k/success': 0.25,"
        " 'agentr1/failed_episodes': 0, 'timing_s/step': 3.25}\n"
        "file.write(json.dumps(row) + '\\n')"
    )
    for code in (0, 3):
        words = [sys.executable, "-c", f"import os; os.chdir({str(tmp_path)!r})\n{script}"]
        words[-1] += f"\nfile.close(); raise SystemExit({code})"
        assert watch(words, os.environ, tmp_path, 5) == code
        shown, errors = capsys.readouterr()
        assert (tmp_path / "verl.log").read_text() == "much output\n" * (2 if code else 1)
        if code:
            assert "much output" in errors and "verl ended with 3" in errors
            assert "run: " not in shown
        else:
            # The step that was there before is not shown again.
            assert "step 2/5  return 0.500  success 0.25  3.2 s" in shown and "step 1" not in shown
            assert f"run: {tmp_path}" in shown and not errors


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
def test_presets_and_open_keys_are_those_of_the_local_back_end() -> None:
    pytest.importorskip("verl", reason="needs verl: make test-verl")
    config, _ = launch.compose(
        ["recipe=gsm8k_tool", "device=cpu", "preset=steppo", "context=window:2", "env.max_steps=9",
         "cold_start.lr=0.5"]
    )  # fmt: skip
    assert config.algorithm.adv_estimator == "gae"
    assert config.actor_rollout_ref.actor.policy_loss.loss_mode == "gspo"
    assert config.agentr1.env.context == "window:2" and config.agentr1.env.kwargs.max_steps == 9
    assert config.agentr1.cold_start.lr == 0.5


@pytest.mark.verl
@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("model=nowhere", "model=nowhere: expected a saved model's folder or"),
        ("estimator=foo", "algorithm.adv_estimator: 'foo', expected one of"),
        ("preset=foo", "preset=foo: expected one of"),
        ("policy_loss=foo", "policy_loss: 'foo', expected one of"),
        ("estimatr=gae", "estimatr"),
        ("env.foo=1", "foo"),
        ("env.difficulty=absurd", "difficulty: got 'absurd'"),
        ("data.train_files=/nope", "data.train_files: /nope: no such file"),
        ("actor_rollout_ref.actor.ppo_mini_batch_size=3", "expected a divisor of the 4 prompts"),
        ("trainer.v1.trainer_mode=sync", "trainer.v1.trainer_mode: 'sync', expected one of"),
        ("trainer.v1.trainer_mode=agentr1_separate_async", "rollout.nnodes"),
    ],
)
def test_bad_settings_end_at_once(
    word: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before a model is made or verl is started, in one line."""
    pytest.importorskip("verl", reason="needs verl: make test-verl")
    directory = tmp_path / "run"
    words = ["recipe=gsm8k_tool", "backend=verl", "device=cpu", f"dir={directory}", word]
    assert main(["train", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and text in error and error.count("\n") == 1
    assert not directory.exists()


@pytest.mark.verl
def test_another_verl_and_a_missing_gpu_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("verl", reason="needs verl: make test-verl")
    import torch

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    words = ["train", "recipe=gsm8k_tool", "backend=verl"]
    assert main(words) == 2
    assert "no GPU here; give device=cpu" in capsys.readouterr().err
    monkeypatch.delenv("AGENTR1_ANY_VERL", raising=False)
    monkeypatch.setattr(launch.importlib.metadata, "version", lambda name: "0.8.0")
    assert main([*words, "device=cpu"]) == 2
    assert "verl 0.8.0 is installed" in capsys.readouterr().err


@pytest.mark.verl
def test_verls_own_entry_refuses_another_verl_at_once(tmp_path: Path) -> None:
    pytest.importorskip("verl", reason="needs verl: make test-verl")
    script = (
        "import agentr1_train.verl as adapter; adapter.TESTED_VERSIONS = ('0.1',)\n"
        "import runpy; runpy.run_module('verl.trainer.main_ppo', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=launch.environment(True), cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "is installed; this adapter" in done.stderr.splitlines()[-1]


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


def test_a_terminated_run_takes_its_command_with_it(tmp_path: Path) -> None:
    """What Slurm and Kubernetes send is SIGTERM."""
    command = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    code = (
        "import os, sys; from pathlib import Path; from agentr1_train.verl.watch import watch;"
        f"watch([sys.executable, '-c', {command!r}], os.environ, Path('.'), None)"
    )
    outer = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text():
            assert outer.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        inner = int((tmp_path / "pid").read_text())
        outer.send_signal(signal.SIGTERM)
        assert outer.wait(60) == 128 + signal.SIGTERM
    finally:
        outer.kill()
    # Whoever inherits an orphan may take a moment to bury it.
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline + 60:
            os.kill(inner, 0)
            time.sleep(0.05)
