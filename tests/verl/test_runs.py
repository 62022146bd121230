"""Unmodified verl, end to end on the CPU: five runs of two steps that cover every choice once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

pytestmark = [pytest.mark.verl, pytest.mark.slow, pytest.mark.timeout(9_000)]
pytest.importorskip("verl", reason="needs verl: make test-verl")

from agentr1_envs.transitions import read_transitions  # noqa: E402
from agentr1_train.advantages import AdvantageConfig, compute_advantages  # noqa: E402
from agentr1_train.cli.main import main  # noqa: E402
from agentr1_train.local import tiny  # noqa: E402
from agentr1_train.losses import LossConfig, loss_weights, policy_loss  # noqa: E402
from agentr1_train.verl.loss import WEIGHTS  # noqa: E402
from tests.verl import runs  # noqa: E402

PREPARE = {
    "gsm8k_tool": [*(f"--num_{s}=16" for s in ("train", "validation", "test")), "--local_save_dir"],
    "alfworld": ["--size=16", "--output_dir"],
}
ENV_IDS = {"gsm8k_tool": "AgentR1/GSM8KTool-v0", "alfworld": "AgentR1/ALFWorld-v0"}


@dataclass
class Run:
    """What is trained, and how it is started."""

    recipe: str
    cfg: AdvantageConfig
    overrides: list[str]
    way: str = "verl"
    ranks: int = 1
    loss_weight: str = "episode"
    mode: str = "sync"


SEPARATE = [  # rollout by one more process, which gets its weights through a file
    "actor_rollout_ref.rollout.nnodes=1", "actor_rollout_ref.rollout.n_gpus_per_node=1",
    "actor_rollout_ref.rollout.checkpoint_engine.backend=file",
    "trainer.v1.separate_async.parameter_sync_step=1",
]  # fmt: skip
PLUGINS = "'agentr1_train.verl.plugin,tests.verl.columns'"  # and what workers fetch is written down
RUNS = {
    # Two ranks, rows packed as on a GPU; killed hard after the first checkpoint, then resumed.
    "grpo": Run(
        "gsm8k_tool",
        AdvantageConfig("grpo"),
        [
            "algorithm.adv_estimator=grpo", "agentr1.env.kwargs.max_steps=3",
            "actor_rollout_ref.model.use_remove_padding=true",
            "actor_rollout_ref.model.override_config.attn_implementation=packed_sdpa",
        ],
        way="cli",
        ranks=2,
    ),
    "gae": Run(
        "gsm8k_tool",
        AdvantageConfig("gae", gamma=0.99, lam=0.95),
        [
            "algorithm.adv_estimator=gae", "algorithm.gamma=0.99", "algorithm.lam=0.95",
            "agentr1.loss_weight=step", "agentr1.verl.whole_episodes=true",
            "agentr1.env.kwargs.max_steps=2", "algorithm.use_kl_in_reward=true", *SEPARATE,
        ],
        ranks=2,
        loss_weight="step",
        mode="separate_async",
    ),
    "token_gae": Run(
        "alfworld",
        AdvantageConfig("token_gae", gamma=1.0, lam=0.95),
        [
            "algorithm.adv_estimator=token_gae", "algorithm.lam=0.95", "agentr1.loss_weight=token",
            "agentr1.env.kwargs.max_steps=4", "data.max_prompt_length=3000",
            "algorithm.rollout_correction.rollout_is=token",
        ],
        way="script",
        loss_weight="token",
        mode="colocate_async",
    ),
    # The same first batch as grpo has, on one rank, in two updates.
    "gigpo": Run(
        "gsm8k_tool",
        AdvantageConfig("gigpo", gamma=0.95),
        [
            "algorithm.adv_estimator=gigpo", "algorithm.gamma=0.95",
            "actor_rollout_ref.actor.ppo_mini_batch_size=1", "agentr1.env.kwargs.max_steps=3",
            "actor_rollout_ref.actor.use_kl_loss=true",
            f"ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_MODULES={PLUGINS}",
        ],
    ),
    # As on a laptop: model and rows are made, and the test split is played before training.
    "steppo": Run(
        "gsm8k_tool",
        AdvantageConfig("gae", gamma=1.0, lam=1.0),
        [
            "preset=steppo", "actor_rollout_ref.actor.use_kl_loss=true", "context=window:2",
            "agentr1.reward_scale=pspo", "model=micro", "cold_start.steps=3",
            "cold_start.episodes=30", "trainer.val_before_train=true", "data.val_max_samples=8",
        ],
        way="cli",
    ),
}  # fmt: skip
CRITIC = ("gae", "token_gae", "steppo")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """recipe -> (model, rows): a small random model with a tokenizer of the task's own text."""
    import argparse
    import importlib

    from agentr1_wrappers import make_agent_env

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
            run = RUNS[name]
            model, data = inputs[run.recipe]
            root = tmp_path_factory.mktemp(f"run-{name}")
            directory, log = root / "run", root / "log.txt"
            words = [*runs.overrides(directory), *run.overrides]
            words += [f"trainer.n_gpus_per_node={run.ranks}"]
            words += [f"trainer.v1.trainer_mode=agentr1_{run.mode}"]
            if "model=micro" not in words:  # else both are made by the command
                words += runs.inputs(model, data)
            words = runs.command(run.way, run.recipe, words)
            process = runs.start(words, log, data)
            if name == "grpo":
                # Killed hard after its first checkpoint; the same command goes on from there.
                tracker = directory / "latest_checkpointed_iteration.txt"
                # verl opens the file before it writes the number into it.
                runs.wait_until(lambda: tracker.is_file() and tracker.read_text() != "", process)
                runs.kill(process)
                (directory / "killed_after").write_text(tracker.read_text())
                refused = runs.start(words, root / "refused.txt")
                assert refused.wait(runs.PATIENCE) == 2
                assert "give --resume" in (root / "refused.txt").read_text()
                process = runs.start([*words, "--resume"], log)
            runs.finish(process, log)
            done[name] = directory, log
        return done[name]

    return get


@pytest.mark.parametrize("name", RUNS)
def test_run(name: str, finished: Any, inputs: Any) -> None:
    directory, _ = finished(name)
    run, critic = RUNS[name], name in CRITIC
    logged, dumps = runs.metrics(directory), runs.dumps(directory)
    assert len(dumps) == 2
    for step, dump in enumerate(dumps, start=1):
        rows, batch = dump["rows"], dump["batch"]
        steps = read_transitions(directory / f"transitions-{step:05d}.parquet")
        check_rewards(dump, steps)
        check_advantages(run.cfg, dump)
        if run.mode == "sync" or step == 1:  # later batches are older than the policy
            check_probabilities(batch, rows)
        assert len(rows) % run.ranks == 0
        cut = int((rows.truncated & rows.live).sum())
        assert int(rows.bootstrap.sum()) == (cut if critic else 0)
        if step in logged:
            assert logged[step]["agentr1/padding_rows"] == int(rows.padding.sum())
            assert logged[step]["agentr1/adv/padding_rows"] == int(rows.padding.sum())
            scores = batch["rm_scores"].sum(-1)[~rows.padding].mean()
            paid = batch["token_level_rewards"].sum(-1)[~rows.padding].mean()
            assert logged[step]["critic/score/mean"] == pytest.approx(float(scores), abs=1e-6)
            assert logged[step]["critic/rewards/mean"] == pytest.approx(float(paid), abs=1e-6)
            assert (float(paid) != float(scores)) == (name == "gae" and step == 2)
    check_learning(directory, critic=critic)
    # The first step's line is lost where the run was killed before it was written.
    assert 2 in logged and (name == "grpo" or 1 in logged)
    for m in logged.values():
        assert m["actor/grad_norm"] > 0 and np.isfinite(m["actor/pg_loss"])
        assert m["agentr1/failed_episodes"] == 0
        assert 0 <= m["agentr1/env_and_adapter_share"] < 1
    if name in ("grpo", "gae"):  # one update a batch, no other loss terms
        steps = read_transitions(directory / "transitions-00002.parquet")
        norm = gradient_norm(inputs[run.recipe][0], directory, run.loss_weight, dumps[1], steps)
        assert logged[2]["actor/grad_norm"] == pytest.approx(norm, rel=1e-3)


def test_workers_fetch_tensors_alone(finished: Any) -> None:
    """Not the rows' games and texts, which are objects; and all that an update reads."""
    _, log = finished("gigpo")
    lines = log.with_name("columns.jsonl").read_text().splitlines()
    fetched = [json.loads(line) for line in lines]
    assert len(fetched) == 2 * 3  # log-probabilities, the reference's, update; twice
    for columns in fetched:
        assert {name for name, is_tensor in columns.items() if not is_tensor} == set()
        assert {"input_ids", "position_ids", "response_mask", "rollout_log_probs"} <= set(columns)
    wanted = {"old_log_probs", "ref_log_prob", "advantages", "returns", "rm_scores", WEIGHTS}
    assert wanted <= set(fetched[2])


def backward(policy: Any, loss_weight: str, dump: dict[str, Any], steps: list[Any]) -> None:
    """An update's gradient, in one process, row by row, without padding rows."""
    rows, batch = dump["rows"], dump["batch"]
    by_row = {(t.episode_id, t.step): t for t in steps}
    old = batch["old_log_probs"].float()
    live, logprobs = torch.nonzero(rows.live & ~rows.bootstrap)[:, 0].tolist(), []
    assert live
    for i in live:
        t = by_row[dump["keys"][i].rsplit("_", 1)[0], int(rows.step[i])]
        prompt, response = (
            torch.as_tensor(x.astype(np.int64)) for x in (t.prompt_ids, t.response_ids)
        )
        logits = policy(torch.cat([prompt, response])[None]).logits[0, len(prompt) - 1 : -1]
        own = logits.log_softmax(-1).gather(-1, response[:, None])[:, 0]
        logprobs.append(torch.nn.functional.pad(own, (0, old.shape[1] - len(own))))
        assert torch.allclose(own, old[i, : len(own)], atol=1e-3)
    weights = loss_weights(rows, loss_weight)
    loss, _ = policy_loss(
        torch.stack(logprobs), old[live], batch["advantages"][live].float(),
        rows.train_mask[live], None, LossConfig(), weights=weights[live],
    )  # fmt: skip
    loss.backward()


def gradient_norm(
    model: Path, directory: Path, loss_weight: str, dump: dict[str, Any], steps: list[Any]
) -> float:
    """Of the second update's loss.

    What verl reports must be the same: sharding, packing, padding and the split over ranks change
    nothing.
    """
    policy, _ = tiny.load(model, dtype=torch.float32)
    missing, unexpected = policy.load_state_dict(runs.weights(directory, 1), strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}
    policy.tie_weights()
    backward(policy, loss_weight, dump, steps)
    return (
        float(sum(p.grad.square().sum() for p in policy.parameters() if p.grad is not None)) ** 0.5
    )


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
    paid = batch["token_level_rewards"] - batch["token_level_scores"]  # against the KL divergence
    assert torch.equal(batch["token_level_scores"], batch["rm_scores"])
    again = compute_advantages(rows, cfg, batch.get("values"), token_rewards=paid)
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


def test_a_killed_run_resumed(finished: Any, inputs: Any) -> None:
    """Weights, and what Adam remembers, are those of one process that was not killed."""
    directory, _ = finished("grpo")
    assert (directory / "killed_after").read_text().strip() == "1"
    text = (directory / "verl.log").read_text(errors="replace")
    assert "Resuming from" in text and "setting global step to 1" in text
    # The second process trained step 2 alone; its policy is the first checkpoint (`gradient_norm`).
    assert max(runs.metrics(directory)) == 2
    config = OmegaConf.load(directory / "verl_config.yaml").actor_rollout_ref.actor.optim
    policy, _ = tiny.load(inputs["gsm8k_tool"][0], dtype=torch.float32)
    dumps = runs.dumps(directory)
    adam = torch.optim.AdamW(
        policy.parameters(), config.lr, tuple(config.betas), weight_decay=config.weight_decay
    )
    for step in (1, 2):
        before = {k: v.clone() for k, v in policy.state_dict().items()}
        steps = read_transitions(directory / f"transitions-{step:05d}.parquet")
        backward(policy, "episode", dumps[step - 1], steps)
        torch.nn.utils.clip_grad_norm_(policy.parameters(), config.clip_grad)
        adam.step(), adam.zero_grad()
        now, got = policy.state_dict(), runs.weights(directory, step)
        moved = sum(float((now[k] - before[k]).abs().sum()) for k in got)
        gap = sum(float((now[k] - got[k]).abs().sum()) for k in got)
        assert moved > 0 and gap < 0.01 * moved, step


def test_two_ranks_get_what_one_gets(finished: Any) -> None:
    """The first batch of two runs with one seed: rewards and advantages of every step."""
    found = []
    for name in ("gigpo", "grpo"):
        directory, _ = finished(name)
        dump = runs.dumps(directory)[0]
        steps = read_transitions(directory / "transitions-00001.parquet")
        by_row = {(t.episode_id, t.step): t for t in steps}
        rows = dump["rows"]
        grpo = compute_advantages(rows, RUNS["grpo"].cfg)
        own = {}
        for i in torch.nonzero(rows.live)[:, 0].tolist():
            episode = dump["keys"][i].rsplit("_", 1)[0]
            t = by_row[episode, int(rows.step[i])]
            session = episode.rpartition("_")[2]
            own[t.task_id, session, t.step] = (t, float(rows.rewards[i]), grpo.advantages[i])
        found.append((own, dump))
    (one, first), (two, second) = found
    # A number of rows that no number of ranks divides.
    n = len(two)
    assert n > 2 and all(n % k for k in range(2, n))
    assert int(first["rows"].padding.sum()) == 1 and len(first["rows"]) == n + 1  # two updates
    assert int(second["rows"].padding.sum()) == 1 and len(second["rows"]) == n + 1  # two ranks
    assert second["result"].metrics["adv/padding_rows"] == 1
    assert one.keys() == two.keys()
    for key, (t, reward, advantage) in two.items():
        other, other_reward, other_advantage = one[key]
        assert np.array_equal(t.response_ids, other.response_ids)
        assert np.allclose(t.response_logprobs, other.response_logprobs, atol=1e-4)
        assert reward == other_reward
        k = len(t.response_ids)
        assert torch.allclose(advantage[:k], other_advantage[:k], atol=1e-6)
    # What the two ranks trained on is that, not only what can be computed of it.
    rows = second["rows"]
    assert torch.allclose(
        second["batch"]["advantages"],
        compute_advantages(rows, RUNS["grpo"].cfg).advantages,
        atol=1e-5,
    )


def test_a_run_as_on_a_laptop(finished: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`agentr1 train backend=verl device=cpu model=micro`: what it shows and what it leaves."""
    directory, log = finished("steppo")
    shown = log.read_text()
    assert "step 0/2  validation success" in shown
    assert "step 1/2  return" in shown and "step 2/2  return" in shown and "run: " in shown
    assert "Traceback" not in shown
    assert (directory / "global_step_2").is_dir()
    assert (directory / "cold_start" / "checkpoints").is_dir()
    assert main(["view", str(directory / "transitions-00002.parquet")]) == 0
    assert "reward" in capsys.readouterr().out
