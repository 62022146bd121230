"""The local trainer: chains, updates, and runs that survive being killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from agentr1_envs.transitions import Transition, read_metadata, read_transitions
from agentr1_train.advantages import AdvantageConfig
from agentr1_train.cli.main import main
from agentr1_train.cli.train import LOCK, _clear
from agentr1_train.config import ConfigError, load_config
from agentr1_train.local import tiny
from agentr1_train.local.checkpoint import checkpoints, save_checkpoint
from agentr1_train.local.forward import ValueModel, build_chains, score_all
from agentr1_train.local.optim import learning_rate, make_optimizer
from agentr1_train.local.progress import Progress
from agentr1_train.local.sampler import Sampler, SampleRequest
from agentr1_train.local.start import written_episodes
from agentr1_train.local.tracking import read_metrics
from agentr1_train.local.update import UpdateConfig, Updater, frozen_copy
from agentr1_train.losses import LossConfig
from agentr1_train.rows import RowBatch

SMALL = [
    "recipe=gsm8k_tool",
    "model=micro",
    "batch=2",
    "n=2",
    "steps=3",
    "trainer.test_freq=2",
    "eval.episodes=4",
    "eval.extra={}",
    "data.max_response_length=6",
    "cold_start.steps=4",
    "cold_start.episodes=20",
    "cold_start.batch_size=4",
    "cold_start.save_freq=2",
    "agentr1.rollout.save_freq=1",
    "agentr1.tiny.vocab_size=320",
    "logger=[console,jsonl]",
    "device=cpu",
    "deterministic=true",
]


@pytest.fixture(scope="module")
def tokenizer():
    return tiny.train_tokenizer(["hello world 123"] * 3, 300)


def test_a_tokenizer_keeps_or_splits_numbers():
    texts = ["go to shelf 12, go to shelf 7"] * 4
    for split_digits in (True, False):
        made = tiny.train_tokenizer(texts, 300, split_digits=split_digits)
        ids = made("go to shelf 12")["input_ids"]
        assert made.decode(ids) == "go to shelf 12"
        pieces = made.convert_ids_to_tokens(ids)
        assert (pieces[-2:] == ["1", "2"]) is split_digits
        assert (pieces[-1] == "Ġ12") is not split_digits
        odd = "99 Bäume\n"
        assert made.decode(made(odd)["input_ids"]) == odd


def test_demonstrations_may_have_arguments_of_their_own():
    words = ["recipe=alfworld", "cold_start.policy=surveyor", "cold_start.episodes=6"]
    quiet = Progress(enabled=False)
    tight = load_config([*words, "env.max_steps=40", "cold_start.kwargs.max_steps=2"])
    with pytest.raises(ValueError, match="solved none of 6"):
        written_episodes(tight, quiet)
    wide = load_config([*words, "env.max_steps=2", "cold_start.kwargs.max_steps=40"])
    free = written_episodes(wide, quiet)
    assert len(free) == 6 and all(len(e.transitions) > 2 for e in free)


def rollout(model, tokenizer, rng, *, groups=4, size=4, truncated=False) -> list[Transition]:
    """Two-step episodes; the reward is the share of low ids in the second reply."""
    end = tokenizer.eos_token_id
    sampler = Sampler(model, pad_id=tokenizer.pad_token_id, stop_ids=[end])
    out = []
    for g in range(groups):
        prompt = rng.integers(8, 250, 9 + g).astype(np.int32)
        for i in range(size):
            one = sampler.sample([SampleRequest(prompt, int(rng.integers(1 << 30)), 1.0, 5)])[0]
            then = np.concatenate([prompt, one.response_ids, [9, 10]]).astype(np.int32)
            two = sampler.sample([SampleRequest(then, int(rng.integers(1 << 30)), 1.0, 5)])[0]
            common = {"episode_id": f"{g}/{i}", "task_id": "t", "env_id": "e", "group_id": f"{g}"}
            out.append(
                Transition(
                    step=0, prompt_ids=prompt, response_ids=one.response_ids,
                    response_logprobs=one.logprobs, **common,
                )
            )  # fmt: skip
            after = np.concatenate([then, two.response_ids, [9]]).astype(np.int32)
            out.append(
                Transition(
                    step=1, prompt_ids=then, response_ids=two.response_ids,
                    response_logprobs=two.logprobs,
                    reward=float(np.mean(two.response_ids < 130)),
                    terminated=not truncated, truncated=truncated,
                    next_prompt_ids=after if truncated else np.empty(0, np.int32), **common,
                )
            )  # fmt: skip
    return out


def test_chains_hold_each_token_once_and_score_as_separate_rows(tokenizer):
    model = tiny.build_model(tokenizer, "micro", seed=1)
    batch = RowBatch.from_transitions(rollout(model, tokenizer, np.random.default_rng(0)))
    shuffled = batch.select(torch.randperm(len(batch), generator=torch.Generator().manual_seed(0)))
    for b in (batch, shuffled, batch.pad_rows(3)):
        chains = build_chains(b)
        assert len(chains) == 16  # two steps of an episode are one sequence
        together = score_all(model, b, chains, 4096, pad_id=0)
        torch.testing.assert_close(together, b.response_logprobs, atol=2e-5, rtol=0)
        small = score_all(model, b, chains, 40, pad_id=0)
        torch.testing.assert_close(small, together, atol=2e-5, rtol=0)


@pytest.mark.parametrize("estimator", ["grpo", "gae", "token_gae", "gigpo"])
@pytest.mark.parametrize("policy_loss", ["ppo", "gspo"])
def test_updates_move_towards_the_reward(tokenizer, estimator, policy_loss):
    model = tiny.build_model(tokenizer, "micro", seed=1)
    optimizer = make_optimizer(model, {"lr": 3e-3})
    config = AdvantageConfig(estimator)
    critic = ValueModel(model) if config.needs_values else None
    updater = Updater(
        model, optimizer, config, LossConfig(policy_loss),
        UpdateConfig(mini_batch_groups=None, max_tokens=256), pad_id=0, critic=critic,
        critic_optimizer=make_optimizer(critic, {"lr": 3e-3}) if critic else None,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    returns = []
    for i in range(6):
        steps = rollout(model, tokenizer, rng, truncated=True)
        batch = RowBatch.from_transitions(steps, bootstrap=critic is not None)
        metrics, result = updater.update(batch, i)
        assert all(np.isfinite(v) for v in metrics.values())
        assert metrics["actor/ratio_max"] == pytest.approx(1.0, abs=1e-3)
        before = batch.response_logprobs
        after = score_all(model, batch, build_chains(batch), 4096, pad_id=0)
        gain = ((after - before) * result.advantages * batch.train_mask).sum()
        assert float(gain) > 0.0
        returns.append(float(batch.rewards.sum()) / 16)
    assert np.mean(returns[3:]) > np.mean(returns[:2]) - 0.05


def test_micro_batches_add_up_to_the_whole_gradient(tokenizer):
    grads = []
    for max_tokens in (10_000, 60):
        model = tiny.build_model(tokenizer, "micro", seed=1)
        steps = rollout(model, tokenizer, np.random.default_rng(1))
        optimizer = make_optimizer(model, {"lr": 0.0})
        reference = frozen_copy(model)
        updater = Updater(
            model, optimizer, AdvantageConfig(), LossConfig(kl_coef=0.1, entropy_coef=0.01),
            UpdateConfig(max_tokens=max_tokens, grad_clip=1e9), pad_id=0, reference=reference,
        )  # fmt: skip
        updater.update(RowBatch.from_transitions(steps), 0)
        grads.append([p.grad.clone() for p in model.parameters()])
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-3)


def test_invalid_episodes_leave_the_gradient(tokenizer):
    grads = []
    for extra in (False, True):
        model = tiny.build_model(tokenizer, "micro", seed=1)
        steps = rollout(model, tokenizer, np.random.default_rng(1))
        if extra:  # the same rows and failed episodes with wild rewards beside them
            bad = rollout(model, tokenizer, np.random.default_rng(2), groups=1)
            for t in bad:
                t.valid, t.reward, t.episode_id = False, 1e6, "bad" + t.episode_id
            steps += bad
        optimizer = make_optimizer(model, {"lr": 0.0})
        updater = Updater(
            model, optimizer, AdvantageConfig(), LossConfig(), UpdateConfig(grad_clip=1e9), pad_id=0
        )
        updater.update(RowBatch.from_transitions(steps), 0)
        grads.append([p.grad.clone() for p in model.parameters()])
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


def test_learning_rate_schedules():
    optim = {"lr": 1.0, "lr_warmup_steps": 4, "lr_scheduler_type": "cosine"}
    assert [learning_rate(optim, i, 10) for i in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert learning_rate(optim, 4, 10) == 1.0 and learning_rate(optim, 9, 10) < 0.1
    with pytest.raises(ValueError, match="expected constant, linear or cosine"):
        learning_rate({"lr": 1.0, "lr_scheduler_type": "step"}, 5, 10)
    with pytest.raises(ValueError, match="expected adamw or muon"):
        make_optimizer(torch.nn.Linear(2, 2), {"lr": 1.0, "optimizer": "sgd"})


def test_half_written_checkpoints_are_not_seen(tmp_path, tokenizer):
    model = tiny.build_model(tokenizer, "micro")
    for n in (1, 2, 3):
        save_checkpoint(tmp_path, n, model=model, tokenizer=tokenizer, tensors={}, state={"n": n})
    assert [p.name for p in checkpoints(tmp_path)] == ["step-000002", "step-000003"]
    (tmp_path / "step-000009").mkdir()  # no state.json: not complete
    assert checkpoints(tmp_path)[-1].name == "step-000003"
    loaded, _ = tiny.load(tmp_path / "step-000003")
    for a, b in zip(loaded.parameters(), model.parameters(), strict=True):
        assert torch.equal(a, b)
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        tiny.load(tmp_path / "step-000009")


def train(directory: Path, *more: str, **kwargs) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentr1_train.cli.main", "train", *SMALL, f"dir={directory}"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *more], capture_output=True, text=True, env=env, timeout=300, **kwargs
    )


def numbers(directory: Path) -> list[dict[str, float]]:
    """The run's metrics, times aside."""
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [{k: v for k, v in r.items() if not k.startswith("time/")} for r in rows]


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "whole"
    done = train(directory)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "after cold start" in done.stdout
    return directory


def test_a_run_leaves_its_files(whole_run):
    names = {p.name for p in whole_run.iterdir()}
    assert {"config.yaml", "metrics.jsonl", "curve.png", "checkpoints"} <= names
    assert {"transitions-00001.parquet", "panel-heldout-00000.parquet"} <= names
    rows = numbers(whole_run)
    assert [r["step"] for r in rows] == [0, 1, 2, 3]
    assert {r["step"] for r in rows if "eval/heldout/success" in r} == {0, 2, 3}
    steps = read_transitions(whole_run / "transitions-00002.parquet")
    assert len({t.group_id for t in steps}) == 2 and len({t.episode_id for t in steps}) == 4
    assert all(len(t.response_ids) and len(t.response_logprobs) for t in steps)
    assert all(t.advantage is not None for t in steps)
    assert read_metadata(whole_run / "transitions-00002.parquet")["seed"] == "0"
    model, tokenizer = tiny.load(checkpoints(whole_run / "checkpoints")[-1])
    assert len(tokenizer) == model.config.vocab_size
    again = train(whole_run)
    assert again.returncode == 2 and "holds a run" in again.stderr


@pytest.mark.slow
@pytest.mark.parametrize("lines", [0, 1, 2, 3])
def test_killed_and_resumed_gives_the_same_numbers(whole_run, tmp_path, lines):
    """kill -9 when so many metric lines are there (0: in the cold start), then --resume."""
    directory = tmp_path / "run"
    command = [sys.executable, "-m", "agentr1_train.cli.main", "train", *SMALL, f"dir={directory}"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env
    )
    marker = directory / "metrics.jsonl"
    deadline = time.monotonic() + 240
    while process.poll() is None and time.monotonic() < deadline:
        if lines == 0:
            if list((directory / "checkpoints").glob("step-*")):
                break
        elif marker.is_file() and marker.read_bytes().count(b"\n") >= lines:
            break
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = train(directory, "--resume")
    assert done.returncode == 0, done.stdout + done.stderr
    assert numbers(directory) == numbers(whole_run)
    a, _ = tiny.load(checkpoints(whole_run / "checkpoints")[-1])
    b, _ = tiny.load(checkpoints(directory / "checkpoints")[-1])
    for x, y in zip(a.parameters(), b.parameters(), strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("name", ["training.pt", "state.json", "model.safetensors"])
def test_a_damaged_checkpoint_is_named(whole_run, tmp_path, capsys, name):
    directory = tmp_path / "run"
    shutil.copytree(whole_run, directory)
    (directory / "checkpoints" / "step-old").mkdir()  # a person's copy is no checkpoint
    (directory / "checkpoints" / "step-old" / "state.json").write_text("{}")
    last = checkpoints(directory / "checkpoints")[-1]
    content = (last / name).read_bytes()
    settings = (directory / "config.yaml").read_text()
    for bad in (b"", content[: len(content) // 2]):
        (last / name).write_bytes(bad)
        words = [*SMALL, f"dir={directory}", "--resume", "lr=0.5", "--quiet"]
        assert main(["train", *words]) == 2
        err = capsys.readouterr().err.strip().splitlines()[-1]
        assert err.startswith("error: ") and str(last) in err and "whole checkpoint" in err
    assert (directory / "config.yaml").read_text() == settings


def test_an_impossible_setting_leaves_no_run(tmp_path, capsys):
    directory = tmp_path / "run"
    for words in (["model=nosuch"], ["device=tpu"], ["logger=[jsonl,nosuch]"]):
        assert main(["train", *SMALL, "--quiet", f"dir={directory}", *words]) == 2
        assert capsys.readouterr().err.startswith("error: ")
        assert not directory.exists()
    directory.write_text("")
    assert main(["train", *SMALL, "--quiet", f"dir={directory}"]) == 2
    assert "this is a file" in capsys.readouterr().err


def test_two_processes_do_not_train_in_one_folder(tmp_path, capsys):
    directory = tmp_path / "run"
    directory.mkdir()
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(directory / LOCK)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert other.stdout.readline() == "held\n"
    words = ["train", *SMALL, "--quiet", f"dir={directory}", "device=tpu"]
    for flags in ([], ["--resume"], ["--overwrite"]):
        assert main([*words, *flags]) == 2
        assert "another process is training there" in capsys.readouterr().err
    other.kill()
    other.communicate()
    assert main(words) == 2 and "trainer.device" in capsys.readouterr().err


def test_overwriting_spares_files_that_no_run_writes(tmp_path):
    for name in ("mine.parquet", "transitions-00001.parquet", "panel-heldout-00000.parquet"):
        (tmp_path / name).write_text("")
    _clear(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.parquet"]


def test_metrics_with_a_cut_line_are_read(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 0, "a": 1}\n3\n[]\n{"b": 1}\n\0\0\xff\n{"step": 1}\n{"step": 2, "a')
    assert [r["step"] for r in read_metrics(path)] == [0, 1]


def test_config_layers_aliases_and_errors(tmp_path):
    config = load_config(
        ["recipe=gsm8k_tool", "lr=2e-5", "context={name: window, k: 2}", "policy_loss=vanilla",
         "env.difficulty=hard", "adv_estimator=gae", "n=4"]
    )  # fmt: skip
    assert config.actor_rollout_ref.actor.optim.lr == 2e-5
    assert config.agentr1.env.context == {"name": "window", "k": 2}
    assert config.actor_rollout_ref.actor.policy_loss.loss_mode == "ppo"
    assert (
        config.agentr1.env.kwargs.difficulty == "hard" and config.actor_rollout_ref.rollout.n == 4
    )
    steppo = load_config(["recipe=gsm8k_tool", "preset=steppo"])
    assert steppo.algorithm.adv_estimator == "gae"
    assert steppo.actor_rollout_ref.actor.clip_ratio_high == 4e-4
    for words, message in (
        (["recipe=nosuch"], "nosuch"),
        (["recipe=gsm8k_tool", "algorithm.adv_estimatr=grpo"], "close: algorithm.adv_estimator"),
        (["recipe=gsm8k_tool", "lr"], "expected key=value"),
        ([], "no recipe"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_config(words)
    (tmp_path / "base.yaml").write_text("agentr1: !!python/object/apply:os.system ['false']\n")
    with pytest.raises(ConfigError, match=r"base\.yaml"):
        load_config([f"recipe={tmp_path}"])


def test_a_run_whose_environment_is_down_stops_with_the_reason(tmp_path, capsys, monkeypatch):
    from agentr1_envs.gsm8k_tool.env import GSM8KToolEnv
    from agentr1_train.cli.main import main

    act = GSM8KToolEnv._act

    def down(self, action):
        if self.split == "test":
            raise RuntimeError("back end down")
        return act(self, action)

    monkeypatch.setattr(GSM8KToolEnv, "_act", down)
    words = [w for w in SMALL if not w.startswith("deterministic")]
    assert main(["train", *words, f"dir={tmp_path / 'run'}", "--quiet"]) == 1
    error = capsys.readouterr().err
    assert "panel heldout: all 4 episodes failed" in error and "back end down" in error
