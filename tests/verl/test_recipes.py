"""Every recipe's configuration composes for every size, and its rows are verl's."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.verl
pytest.importorskip("verl", reason="needs verl: make test-verl")

ROOT = Path(__file__).resolve().parents[2]
TASKS = ("gsm8k_tool", "hotpotqa", "alfworld", "webshop", "paperscout")
SIZES = ("cpu", "gpu1", "gpu8", "gpu16")


@pytest.fixture(scope="module", autouse=True)
def model(tmp_path_factory: pytest.TempPathFactory) -> None:
    """verl reads tokenizer and config of the model while it checks a configuration."""
    from agentr1_train.local import tiny

    tokenizer = tiny.train_tokenizer(["a question about 12 apples"], 300)
    path = tmp_path_factory.mktemp("model")
    tiny.save(tiny.build_model(tokenizer, "micro"), tokenizer, path)
    MODEL.append(str(path))


MODEL: list[str] = []


def compose(task: str, *overrides: str) -> Any:
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(ROOT / "recipes" / task), version_base=None):
        config = hydra_compose("verl", [*overrides, f"actor_rollout_ref.model.path={MODEL[-1]}"])
    OmegaConf.resolve(config)
    return config


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("task", TASKS)
def test_configuration_composes_and_verl_accepts_it(task: str, size: str) -> None:
    from verl.utils.config import omega_conf_to_dataclass

    from agentr1_train.verl.settings import make_advantage, make_loss

    config = compose(task, f"size={size}")
    assert config.agentr1.env.env_id.startswith("AgentR1/")
    assert config.trainer.v1.trainer_mode == "agentr1_sync"
    gpus = {"cpu": 1, "gpu1": 1, "gpu8": 8, "gpu16": 16}[size]
    assert config.trainer.n_gpus_per_node * config.trainer.nnodes == gpus
    assert config.data.train_batch_size % config.actor_rollout_ref.actor.ppo_mini_batch_size == 0
    make_advantage(config)
    make_loss(config)
    for part in (
        config.algorithm,
        config.actor_rollout_ref.rollout,
        config.actor_rollout_ref.actor,
    ):
        omega_conf_to_dataclass(part)
    omega_conf_to_dataclass(config.critic)


def test_steppo_as_published() -> None:
    config = compose(
        "hotpotqa", "size=gpu8", "algorithm.adv_estimator=gae",
        "actor_rollout_ref.actor.policy_loss.loss_mode=gspo",
    )  # fmt: skip
    from agentr1_train.verl.settings import make_loss

    assert make_loss(config).clip == (3e-4, 4e-4)
    assert config.data.train_batch_size == 256
    assert config.actor_rollout_ref.actor.optim.lr == 1e-6
    assert config.critic.optim.lr == 1e-5
    assert config.actor_rollout_ref.actor.kl_loss_coef == 0.001


def test_a_missing_row_file_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", str(ROOT / "recipes" / "webshop" / "run_verl.sh"), "size=cpu"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "data/webshop/train.parquet" in done.stderr and "agentr1 prepare webshop" in done.stderr


def test_verls_own_dataset_reads_prepared_rows(tmp_path: Path) -> None:
    import argparse

    from agentr1_recipes.gsm8k_tool import prepare
    from omegaconf import OmegaConf
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    from agentr1_train.local import tiny

    parser = argparse.ArgumentParser()
    prepare.add_arguments(parser)
    words = ["--local_save_dir", str(tmp_path), "--num_train=5", "--num_validation=2"]
    assert prepare.main(parser.parse_args([*words, "--num_test=2"])) == 0
    config = compose("gsm8k_tool", "size=cpu")
    tokenizer = tiny.train_tokenizer(["a question about 12 apples"], 300)
    dataset = RLHFDataset(
        data_files=str(tmp_path / "train.parquet"),
        tokenizer=tokenizer,
        processor=None,
        config=OmegaConf.create(config.data),
    )
    batch = collate_fn([dataset[i] for i in range(len(dataset))])
    assert len(batch["raw_prompt"]) == 5 and set(batch["agent_name"]) == {"agentr1_gym_step"}
    spec = json.loads(batch["env_kwargs"][0])
    assert spec["env_id"] == "AgentR1/GSM8KTool-v0" and spec["options"]["task"]["question"]
    assert [info["split"] for info in batch["extra_info"]] == ["train"] * 5
