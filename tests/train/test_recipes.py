"""Every recipe from end to end in a short form: the plumbing, not the learning."""

from __future__ import annotations

import json

import pytest

from agentr1_envs.registration import ENVS
from agentr1_envs.transitions import group_episodes, read_transitions
from agentr1_train.cli.main import main
from agentr1_train.config import load_config
from agentr1_train.local.data import env_maker, env_spec

RECIPES = sorted(entry.task for entry in ENVS.values())
SHORT = [
    "model=micro", "batch=2", "n=2", "steps=1", "eval.episodes=2", "eval.extra={}",
    "data.max_response_length=8", "data.max_prompt_length=4000", "cold_start.steps=2",
    "cold_start.episodes=12", "cold_start.batch_size=2", "agentr1.tiny.vocab_size=320",
    "agentr1.tiny.context_length=8192", "env.max_steps=3", "logger=[jsonl]", "device=cpu",
]  # fmt: skip


@pytest.mark.parametrize("recipe", RECIPES)
def test_short_form(recipe, tmp_path):
    words = ["train", f"recipe={recipe}", *SHORT, f"dir={tmp_path / 'run'}", "--quiet"]
    if recipe != "gsm8k_tool":
        words.append("env.max_steps=8")  # enough for a script to solve something
    assert main(words) == 0
    rows = [json.loads(x) for x in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [r["step"] for r in rows] == [0, 1]
    assert all(r["eval/heldout/invalid"] == 0 for r in rows)
    assert rows[1]["train/invalid"] == 0
    steps = read_transitions(tmp_path / "run" / "transitions-00001.parquet")
    groups = {}
    for e in group_episodes(steps):
        groups.setdefault(e.group_id, []).append(e.task_id)
    assert len(groups) == 2 and all(len(set(tasks)) == 1 for tasks in groups.values())


@pytest.mark.parametrize("recipe", RECIPES)
def test_panels_share_no_task_with_training(recipe):
    config = load_config([f"recipe={recipe}"])
    train = env_maker(env_spec(config, split="train"))().unwrapped.tasks
    test = env_maker(env_spec(config, split="test"))().unwrapped.tasks
    size = min(len(test), 200)
    assert size >= 150
    names = {test[i]["task_id"] for i in range(size)}
    assert len(names) == size
    assert not names & {train[i]["task_id"] for i in range(min(len(train), 300))}


@pytest.mark.parametrize(
    "words",
    [
        ["context=window:1", "adv_estimator=gae", "policy_loss=gspo"],
        ["context=summarise", "adv_estimator=gigpo", "agentr1.reward_scale=pspo"],
        ["context=budget:2000", "adv_estimator=reinforce_plus_plus", "loss_weight=token"],
        ["preset=steppo", "algorithm.use_kl_in_reward=true"],
        ["adv_estimator=token_gae", "policy_loss=cispo",
         "actor_rollout_ref.actor.use_kl_loss=true"],
        ["adv_estimator=rloo", "policy_loss=gmpo", "algorithm.filter_groups.enable=true"],
        ["adv_estimator=reinforce", "policy_loss=reinforce", "isolation=thread"],
        ["agentr1.dtype=bfloat16", "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=64"],
        ["adv_estimator=reinforce_plus_plus_baseline", "agentr1.shuffle_rewards=true",
         "actor_rollout_ref.actor.ppo_epochs=2", "actor_rollout_ref.actor.ppo_mini_batch_size=1"],
    ],
    ids=lambda w: w[0],
)  # fmt: skip
def test_every_choice_of_the_command_line_trains(words, tmp_path):
    command = ["train", "recipe=gsm8k_tool", *SHORT, f"dir={tmp_path / 'run'}", "--quiet", *words]
    assert main(command) == 0
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["step"] == 1 and last["train/invalid"] == 0
    assert None not in last.values()
