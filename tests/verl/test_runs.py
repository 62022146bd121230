"""Unmodified verl, end to end on the CPU: five runs of two steps that cover every choice once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytestmark = [pytest.mark.verl, pytest.mark.slow, pytest.mark.timeout(1800)]
pytest.importorskip("verl", reason="needs verl: make test-verl")

from agentr1_envs.transitions import read_transitions  # noqa: E402
from agentr1_train.advantages import AdvantageConfig, compute_advantages  # noqa: E402
from tests.verl import runs  # noqa: E402

PREPARE = {
    "gsm8k_tool": [*(f"--num_{s}=16" for s in ("train", "validation", "test")), "--local_save_dir"],
    "alfworld": ["--size=16", "--output_dir"],
}
ENV_IDS = {"gsm8k_tool": "AgentR1/GSM8KTool-v0", "alfworld": "AgentR1/ALFWorld-v0"}
# name -> (recipe, estimator's configuration, overrides)
RUNS: dict[str, tuple[str, AdvantageConfig, list[str]]] = {
    "grpo": (
        "gsm8k_tool",
        AdvantageConfig("grpo"),
        ["algorithm.adv_estimator=grpo", "agentr1.env.kwargs.max_steps=3"],
    ),
    "gae": (
        "gsm8k_tool",
        AdvantageConfig("gae", gamma=0.99, lam=0.95),
        [
            "algorithm.adv_estimator=gae", "algorithm.gamma=0.99", "algorithm.lam=0.95",
            "trainer.n_gpus_per_node=2", "agentr1.loss_weight=step",
            "agentr1.verl.whole_episodes=true", "agentr1.env.kwargs.max_steps=2",
        ],
    ),
    "token_gae": (
        "alfworld",
        AdvantageConfig("token_gae", gamma=1.0, lam=0.95),
        [
            "algorithm.adv_estimator=token_gae", "algorithm.lam=0.95", "agentr1.loss_weight=token",
            "+agentr1.env.kwargs.max_steps=4", "data.max_prompt_length=3000",
        ],
    ),
    "gigpo": (
        "gsm8k_tool",
        AdvantageConfig("gigpo", gamma=0.95),
        [
            "algorithm.adv_estimator=gigpo", "algorithm.gamma=0.95", "trainer.n_gpus_per_node=2",
            "actor_rollout_ref.actor.ppo_mini_batch_size=1", "agentr1.env.kwargs.max_steps=3",
        ],
    ),
    "steppo": (
        "gsm8k_tool",
        AdvantageConfig("gae", gamma=1.0, lam=1.0),
        [
            "algorithm.adv_estimator=gae", "actor_rollout_ref.actor.policy_loss.loss_mode=gspo",
            "actor_rollout_ref.actor.use_kl_loss=true", "agentr1.env.context.name=window",
            "+agentr1.env.context.k=2", "agentr1.reward_scale=pspo",
        ],
    ),
}  # fmt: skip
CRITIC = ("gae", "token_gae", "steppo")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """recipe -> (model, rows): a small random model with a tokenizer of the task's own text."""
    import argparse
    import importlib

    from agentr1_wrappers import make_agent_env

    from agentr1_train.local import tiny

    out = {}
    for recipe, env_id in ENV_IDS.items():
        root = tmp_path_factory.mktemp(recipe)
        env = make_agent_env({"env_id": env_id})
        texts = []
        for seed in range(50):
            texts += [m["content"] for m in env.reset(seed=seed)[0]]
        tokenizer = tiny.train_tokenizer(texts, 600)
        tiny.save(
            tiny.build_model(tokenizer, "micro", max_positions=4096), tokenizer, root / "model"
        )
        prepare = importlib.import_module(f"agentr1_recipes.{recipe}.prepare")
        parser = argparse.ArgumentParser()
        prepare.add_arguments(parser)
        words = PREPARE[recipe] + [str(root / "data")]
        assert prepare.main(parser.parse_args(words)) == 0
        out[recipe] = (root / "model", root / "data")
    return out


@pytest.fixture(scope="module")
def finished(inputs: dict[str, tuple[Path, Path]], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """name -> (directory, log) of a run, made when it is first asked for."""
    done: dict[str, tuple[Path, Path]] = {}

    def get(name: str) -> tuple[Path, Path]:
        if name not in done:
            recipe, _, overrides = RUNS[name]
            model, data = inputs[recipe]
            root = tmp_path_factory.mktemp(f"run-{name}")
            directory, log = root / "run", root / "log.txt"
            words = runs.command(recipe, directory, model, data, *overrides)
            process = runs.start(words, log)
            if name == "grpo":
                # Killed hard after its first checkpoint; the same command goes on from there.
                tracker = directory / "latest_checkpointed_iteration.txt"
                # verl opens the file before it writes the number into it.
                runs.wait_until(lambda: tracker.is_file() and tracker.read_text() != "", process)
                runs.kill(process)
                (directory / "killed_after").write_text(tracker.read_text())
                process = runs.start(words, log)
            runs.finish(process, log)
            done[name] = directory, log
        return done[name]

    return get


@pytest.mark.parametrize("name", RUNS)
def test_run(name: str, finished: Any) -> None:
    directory, log = finished(name)
    _, cfg, overrides = RUNS[name]
    dumps = runs.dumps(directory)
    assert len(dumps) == 2
    for step, dump in enumerate(dumps, start=1):
        rows, batch = dump["rows"], dump["batch"]
        steps = read_transitions(directory / f"transitions-{step:05d}.parquet")
        check_rewards(dump, steps)
        check_advantages(cfg, dump)
        check_probabilities(batch, rows)
        ranks = 2 if "trainer.n_gpus_per_node=2" in overrides else 1
        assert len(rows) % ranks == 0
        if name in CRITIC:
            assert int(rows.bootstrap.sum()) == int((rows.truncated & rows.live).sum())
    check_learning(directory, critic=name in CRITIC)
    for m in runs.metrics(log)[-2:]:
        assert m["actor/grad_norm"] > 0 and np.isfinite(m["actor/pg_loss"])
        assert m["agentr1/failed_episodes"] == 0
        assert 0 <= m["agentr1/env_and_adapter_share"] < 1


def check_rewards(dump: dict[str, Any], steps: list[Any]) -> None:
    """Each step's own reward is on its own row, at the last token, and nowhere else."""
    by_row = {(t.episode_id, t.step): t.reward for t in steps}
    rows, scores = dump["rows"], dump["batch"]["rm_scores"]
    seen = 0
    for i, key in enumerate(dump["keys"]):
        episode = key.rsplit("_", 1)[0]
        want = 0.0
        if bool(rows.live[i]):
            want = by_row[episode, int(rows.step[i])]
            seen += 1
        assert float(scores[i].sum()) == pytest.approx(want)
        assert float(rows.rewards[i]) == pytest.approx(want)
    assert seen == len(steps) > 0
    assert any(t.terminated or t.truncated for t in steps)


def check_advantages(cfg: AdvantageConfig, dump: dict[str, Any]) -> None:
    """What went into the update is what advantages.py gives on the dumped batch."""
    rows, batch, result = dump["rows"], dump["batch"], dump["result"]
    again = compute_advantages(rows, cfg, batch.get("values"))
    if float(result.returns.abs().max()) == float(again.returns.abs().max()):  # no reward scaling
        assert torch.allclose(batch["advantages"], again.advantages, atol=1e-5)
        assert torch.allclose(batch["returns"], again.returns, atol=1e-5)
    assert bool((batch["advantages"][~rows.train_mask] == 0).all())


def check_probabilities(batch: dict[str, torch.Tensor], rows: Any) -> None:
    """The trainer's log-probabilities are the rollout's, and a bit of both is there."""
    mask = rows.train_mask
    gap = (batch["old_log_probs"] - batch["rollout_log_probs"])[mask].abs()
    assert len(gap) > 10 and float(gap.max()) < 1e-3


def check_learning(directory: Path, *, critic: bool) -> None:
    for part in ("actor", "critic") if critic else ("actor",):
        first, second = runs.weights(directory, 1, part), runs.weights(directory, 2, part)
        assert first.keys() == second.keys() and first
        assert any(not torch.equal(first[k], second[k]) for k in first), part


def test_a_killed_run_resumed(finished: Any) -> None:
    directory, log = finished("grpo")
    assert (directory / "killed_after").read_text().strip() == "1"
    text = log.read_text(errors="replace")
    assert "Resuming from" in text
    # The second process trained step 2 alone.
    assert [int(m["training/global_step"]) for m in runs.metrics(log)][-1] == 2
