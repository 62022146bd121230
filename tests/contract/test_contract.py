"""What every registered environment promises."""

from __future__ import annotations

import os
import pickle
import random
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from agentr1_envs.registration import ENVS
from agentr1_envs.task_env import TextTaskEnv

from .helpers import (
    FINAL_KEYS,
    IDS,
    JUNK,
    OPTIONAL_KEYS,
    Mixed,
    containers,
    digest,
    empty,
    expert,
    make,
    play,
)

ROOT = Path(__file__).resolve().parents[2]
each_id = pytest.mark.parametrize("env_id", IDS)


def bare(env: gym.Env[Any, Any]) -> TextTaskEnv:
    assert isinstance(env.unwrapped, TextTaskEnv)
    return env.unwrapped


@each_id
def test_gymnasiums_own_check(env_id: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # check_env says itself that the check of render modes makes further environments.
        check_env(make(env_id, render_mode="ansi").unwrapped, skip_render_check=False)


@each_id
def test_made_without_an_import(env_id: str) -> None:
    code = (
        "import sys, gymnasium as gym\n"
        f"env = gym.make('agentr1_envs:{env_id}')\n"
        "heavy = [m for m in ('torch', 'transformers', 'verl', 'ray') if m in sys.modules]\n"
        "assert not heavy, heavy\n"
        "obs, info = env.reset(seed=0)\n"
        "env.step('x')\n"
        "heavy = [m for m in ('torch', 'transformers', 'verl', 'ray') if m in sys.modules]\n"
        "assert not heavy, heavy\n"
        "print(env.spec.to_json()[:1], len(env.spec.pprint(disable_print=True)) > 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert done.stdout.split() == ["{", "True"], done.stderr


@each_id
def test_the_same_in_every_process_and_beside_others(env_id: str) -> None:
    """The trajectory of a seed depends on nothing else: process, hash seed, other instances."""
    state = repr((random.getstate(), np.random.get_state()))
    env = make(env_id)
    alone = digest(play(env, Mixed(env, 11), 11, 60))
    # Again in the same object, after other episodes.
    play(env, Mixed(env, 5), 5, 20)
    assert digest(play(env, Mixed(env, 11), 11, 60)) == alone
    assert state == repr((random.getstate(), np.random.get_state()))
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "tests.contract.helpers", env_id, "11"],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            timeout=120,
        )
        assert done.stdout.strip() == alone, done.stderr


@each_id
def test_interleaved_instances_do_not_touch_each_other(env_id: str) -> None:
    def steps(env: gym.Env[Any, Any], seed: int) -> Any:
        policy = Mixed(env, seed)
        obs, info = env.reset(seed=seed)
        policy.reset(obs, info)
        yield obs, info
        for _ in range(40):
            obs, reward, terminated, truncated, info = env.step(policy.act(obs, info))
            yield obs, float(reward), terminated, truncated, info
            if terminated or truncated:
                obs, info = env.reset()
                policy.reset(obs, info)
                yield obs, info

    alone = [repr(item) for item in steps(make(env_id), 3)]
    one, other = steps(make(env_id), 3), steps(make(env_id, split="test"), 4)
    together = []
    for item in one:
        together.append(repr(item))
        next(other, None)
        random.seed(1)
        np.random.seed(1)
    assert together == alone


@each_id
def test_seeds_and_options(env_id: str) -> None:
    env = make(env_id)
    first = env.reset(seed=1)
    assert env.reset(seed=1) == first
    ids = {env.reset(seed=seed)[1]["task_id"] for seed in range(12)}
    assert len(ids) > 3
    task = bare(env).task
    obs, info = env.reset(options={"task_id": task["task_id"]})
    assert info["task_id"] == task["task_id"] == bare(env).task["task_id"]
    index = bare(env).tasks.index(task["task_id"])
    assert env.reset(options={"task_index": index}) == (obs, info)
    assert env.reset(options={"task": task}) == (obs, info)
    for options in ({"task_id": "none"}, {"task_index": 10**9}, {"tsak": 1}, {"task": 5}):
        with pytest.raises(ValueError):
            env.reset(options=options)
    with pytest.raises(ValueError):
        env.reset(options={"task_id": task["task_id"], "task_index": index})
    env.reset(seed=2)  # still usable


@each_id
def test_splits_differ_and_shards_share_out(env_id: str) -> None:
    def some(split: str, **kwargs: Any) -> list[str]:
        env = make(env_id, split=split, order="sequential", **kwargs)
        return [env.reset()[1]["task_id"] for _ in range(6)]

    train, test = some("train"), some("test")
    assert not set(train) & set(test)
    assert some("eval") == some("validation")
    assert len(set(train)) == 6 and some("train") == train
    shards = [some("train", shard=(i, 2)) for i in range(2)]
    assert [shards[k % 2][k // 2] for k in range(6)] == train
    with pytest.raises(ValueError):
        make(env_id, split="no such split")


def check_info(info: dict[str, Any], ended: bool, step: int) -> None:
    assert isinstance(info["task_id"], str) and info["task_id"]
    assert info["step"] == step and type(info["step"]) is int
    assert isinstance(info["anchor"], str) and 8 <= len(info["anchor"]) <= 64
    if "agent_error" in info:
        error = info["agent_error"]
        assert set(error) == {"kind", "message"} and error["kind"] and error["message"]
        assert len(error["message"]) <= 1_000
    for name in info.get("admissible_actions", []):
        assert isinstance(name, str) and name
    for call in info.get("tool_calls", []):
        assert {"name", "arguments", "result", "error"} <= set(call)
    for name, value in info.get("metrics", {}).items():
        assert isinstance(name, str) and type(value) in (int, float, bool, str)
    assert (set(info) & FINAL_KEYS) == (FINAL_KEYS if ended else set())
    if ended:
        assert type(info["success"]) is bool and type(info["score"]) is float
        assert 0.0 <= info["score"] <= 1.0
        assert isinstance(info["stop_reason"], str) and info["stop_reason"]


@each_id
def test_info_and_spaces(env_id: str) -> None:
    env = make(env_id)
    known = {"task_id", "step", "anchor"} | OPTIONAL_KEYS | FINAL_KEYS
    extra: set[str] = set()
    for seed in range(4):
        count = 0
        for step in play(env, Mixed(env, seed), seed, 50):
            ended = step.get("terminated", False) or step.get("truncated", False)
            count = count + 1 if "action" in step else 0
            check_info(step["info"], ended, count)
            extra |= set(step["info"]) - known
            assert env.observation_space.contains(step["obs"])
            assert type(step.get("reward", 0.0)) is float
            assert type(step.get("terminated", False)) is type(step.get("truncated", False)) is bool
            assert not (step.get("terminated") and step.get("truncated"))
    assert len(extra) <= 3, f"undocumented keys: {sorted(extra)}"


@each_id
def test_anchors_are_states(env_id: str) -> None:
    """Equal after the same actions; untouched by a step that was an agent error."""
    env = make(env_id)
    records = [play(env, Mixed(env, 8), 8, 40) for _ in range(2)]
    anchors = [[step["info"]["anchor"] for step in record] for record in records]
    assert anchors[0] == anchors[1]
    starts = {
        env.reset(seed=seed)[1]["anchor"]: env.reset(seed=seed)[1]["task_id"] for seed in range(9)
    }
    assert len(starts) == len(set(starts.values())), "two tasks share an anchor"
    _, info = env.reset(seed=3)
    for reply in JUNK:
        before = info["anchor"]
        *_, terminated, truncated, info = env.step(reply)
        if terminated or truncated:
            _, info = env.reset(seed=3)
        elif "agent_error" in info and not info.get("tool_calls"):
            assert info["anchor"] == before, reply


@each_id
def test_step_before_reset_and_after_the_end(env_id: str) -> None:
    env = make(env_id, max_steps=2)
    with pytest.raises(gym.error.ResetNeeded):
        env.step("x")
    for _ in range(2):
        env.reset(seed=0)
        for count in (1, 2):
            _, _, terminated, truncated, info = env.step("")
            check_info(info, terminated or truncated, count)
            if terminated or truncated:
                break
        assert terminated != truncated and (terminated or info["stop_reason"] == "max_steps")
        for _ in range(2):
            with pytest.raises(gym.error.ResetNeeded):
                env.step("x")
    env.reset()
    with pytest.raises(TypeError):
        env.step(5)
    env.reset()
    assert env.step("x")[4]["step"] == 1


@each_id
def test_a_limit_given_to_make(env_id: str) -> None:
    env = gym.make(env_id, max_episode_steps=1)
    env.reset(seed=0)
    _, _, terminated, truncated, info = env.step("🙂")
    assert truncated or terminated
    check_info(info, True, 1)
    with pytest.raises(gym.error.ResetNeeded):
        env.step("x")


@each_id
def test_nothing_is_shared_between_calls(env_id: str) -> None:
    env = make(env_id)
    policy = Mixed(env, 6)
    seen: dict[int, Any] = {}  # holds what it saw, so that no id is used again
    obs, info = env.reset(seed=6)
    policy.reset(obs, info)
    for _ in range(40):
        for item in containers((obs, info)):
            assert id(item) not in seen, item
            seen[id(item)] = item
        obs, _, terminated, truncated, info = env.step(policy.act(obs, info))
        if terminated or truncated:
            obs, info = env.reset()
            policy.reset(obs, info)
    kept = play(env, Mixed(env, 7), 7, 40)
    spoiled = make(env_id)
    assert digest(play(spoiled, _Replay(kept), 7, 40, spoil=True)) == digest(kept)
    for name in ("tools", "task"):
        value = getattr(bare(env), name)
        before = repr(value)
        empty(value)
        assert repr(getattr(bare(env), name)) == before


class _Replay:
    """Replies as recorded, whatever the environment says."""

    def __init__(self, record: list[dict[str, Any]]) -> None:
        self._actions = iter([step["action"] for step in record if "action" in step])

    def reset(self, obs: Any, info: dict[str, Any]) -> None:
        """Nothing to do."""

    def act(self, obs: Any, info: dict[str, Any]) -> str:
        """The next recorded reply."""
        return next(self._actions)


@each_id
def test_pickling_in_the_middle_of_an_episode(env_id: str) -> None:
    env = make(env_id)
    policy = expert(env)
    obs, info = env.reset(seed=4)
    policy.reset(obs, info)
    obs, *_, info = env.step(policy.act(obs, info))
    copy = pickle.loads(pickle.dumps(env))
    for reply in ["🙂", policy.act(obs, info), "x", ""]:
        results = []
        for one in (env, copy):
            try:
                results.append(one.step(reply))
            except gym.error.ResetNeeded:
                results.append(None)
        assert results[0] == results[1]
    assert env.reset() == copy.reset(), "the generators go on alike"
    assert pickle.loads(pickle.dumps(make(env_id))).reset(seed=4)[1] == env.reset(seed=4)[1]


@each_id
def test_odd_replies_are_steps(env_id: str) -> None:
    env = make(env_id, error_penalty=0.5)
    env.reset(seed=0)
    for reply in [*JUNK, "\ud800", "x" * 1_000_000, "x" * 1_100_000, "<tool_call>" * 90_000]:
        obs, reward, terminated, truncated, info = env.step(reply)
        assert env.observation_space.contains(obs)
        assert len(obs) <= 131_072 and np.isfinite(float(reward))
        if "agent_error" in info:
            assert float(reward) <= -0.5 + 1e-9
        if terminated or truncated:
            env.reset()
    env = make(env_id, max_errors=2)
    env.reset(seed=0)
    for _ in range(bare(env).max_steps):
        *_, terminated, truncated, info = env.step("数学 🙂")
        if terminated or truncated:
            break
    if "agent_error" in info:
        assert info["stop_reason"] == "max_errors"


@each_id
def test_what_a_language_model_needs(env_id: str) -> None:
    env = make(env_id, render_mode="ansi")
    obs, _ = env.reset(seed=0)
    assert bare(env).system_prompt.strip() and bare(env).task_text.strip()
    for schema in bare(env).tools:
        assert schema["type"] == "function"
        function = schema["function"]
        assert re.fullmatch(r"[a-zA-Z_][\w-]{0,63}", function["name"]) and function["description"]
        assert function["parameters"]["type"] == "object"
        assert set(function["parameters"]["required"]) <= set(function["parameters"]["properties"])
    text = bare(env).task_text
    reply, *_ = env.step("数学 🙂")
    assert bare(env).task_text == text
    transcript = env.render()
    assert isinstance(transcript, str)
    assert obs in transcript and reply in transcript and "数学 🙂" in transcript


@each_id
def test_experts(env_id: str) -> None:
    for name in ENVS[env_id].experts:
        for split in ("train", "test"):
            env = make(env_id, split=split)
            policy, won, count = expert(env, name), 0, 15
            for episode in range(count):
                obs, info = env.reset(seed=0) if episode == 0 else env.reset()
                policy.reset(obs, info)
                ended, total = False, 0.0
                while not ended:
                    obs, reward, terminated, truncated, info = env.step(policy.act(obs, info))
                    ended, total = terminated or truncated, total + float(reward)
                won += info["success"]
                assert np.isfinite(total)
            least = {"expert": 0.9 * count, "observer": 1}.get(name, 0)
            assert won >= least, (name, split, won)


@pytest.mark.slow
@each_id
def test_a_thousand_instances(env_id: str) -> None:
    import resource

    def megabytes() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    first = make(env_id)
    first.reset(seed=0)
    before = megabytes()
    envs = [make(env_id) for _ in range(1_000)]
    starts = [env.reset(seed=seed) for seed, env in enumerate(envs)]
    for env in envs:
        env.step("🙂")
    assert megabytes() - before < 1_000, "an instance may cost at most a megabyte"
    for seed in (0, 499, 999):
        assert first.reset(seed=seed) == starts[seed]
    for env in envs:
        env.close()
