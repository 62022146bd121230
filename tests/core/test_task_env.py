from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from agentr1_envs.errors import EnvironmentFault, TaskDataError
from agentr1_envs.task_env import StepOutcome
from agentr1_envs.task_set import GeneratedTasks, TaskSet, canonical_split
from tests.core.toy import ToyEnv, call


def test_same_seed_same_tasks_whatever_runs_between() -> None:
    first, second = ToyEnv(), ToyEnv()
    one = [first.reset(seed=7)[1]["task_id"]] + [first.reset()[1]["task_id"] for _ in range(5)]
    np.random.seed(0)
    two = [second.reset(seed=7)[1]["task_id"]]
    for _ in range(5):
        ToyEnv().reset(seed=99)
        np.random.rand()
        two.append(second.reset()[1]["task_id"])
    assert one == two
    assert len(set(one)) > 1


def test_global_random_state_is_untouched() -> None:
    import random

    random.seed(3)
    np.random.seed(3)
    before = random.getstate(), np.random.get_state()[1].tolist()
    env = ToyEnv()
    env.reset(seed=1)
    env.step("x")
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_sequential_order_and_shards_cover_the_panel_once() -> None:
    seen = []
    for i in range(3):
        env = ToyEnv(order="sequential", shard=(i, 3))
        env.reset(seed=0)
        ids = [env.task["answer"]]
        while True:
            env.reset()
            if env.task["answer"] == ids[0]:
                break
            ids.append(env.task["answer"])
        seen += ids
    assert sorted(seen) == list(range(50))


def test_a_seed_restarts_the_sequential_walk() -> None:
    env = ToyEnv(order="sequential")
    first = [env.reset(seed=5)[1]["task_id"], env.reset()[1]["task_id"]]
    assert [env.reset(seed=5)[1]["task_id"], env.reset()[1]["task_id"]] == first


@pytest.mark.parametrize("options", [{"task_index": 3}, {"task_id": "toy-v1/train/3"}])
def test_a_task_can_be_picked(options) -> None:
    env = ToyEnv()
    _, info = env.reset(options=options)
    assert info["task_id"] == "toy-v1/train/3" and env.task["answer"] == 3


def test_a_row_can_be_played() -> None:
    env = ToyEnv()
    row = {"task_id": "mine", "question": "?", "answer": 9}
    env.reset(options={"task": row})
    assert env.step("9")[1] == 1.0
    row["answer"] = 8  # the environment keeps no reference to the caller's row
    assert env.task["answer"] == 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task_index": 50}, "outside 0..49"),
        ({"task_index": -1}, "task_index.*at least 0, got -1"),
        ({"task_index": 1.5}, "task_index.*got 1.5"),
        ({"task_index": True}, "task_index.*got True"),
        ({"task_index": "1"}, "task_index.*got '1'"),
        ({"task_id": 5}, "task_id.*got 5"),
        ({1: 2, "a": 3}, "unknown reset options"),
        (5, "must be a dict or None, got 5"),
        ([], "must be a dict or None"),
        ({"task_id": "toy-v1/train/007"}, "not in"),
        ({"task_id": "nope"}, "not in"),
        ({"task": {"question": "?"}}, "task_id"),
        ({"taskid": 1}, "unknown reset options"),
        ({"task_id": "a", "task_index": 1}, "exclude"),
    ],
)
def test_wrong_options_name_what_is_wrong(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        ToyEnv().reset(options=options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "tain"}, "unknown split"),
        ({"order": "shuffled"}, "order must be"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_steps": 2.5}, "max_steps"),
        ({"shard": (3, 3)}, "shard"),
        ({"render_mode": "rgb_array"}, "render_mode"),
        ({"error_penalty": -1}, "error_penalty"),
        ({"error_penalty": float("nan")}, "error_penalty"),
        ({"max_errors": 0}, "max_errors"),
        ({"tool_format": "xml"}, "xml"),
        ({"max_calls": 0}, "max_calls"),
    ],
)
def test_wrong_arguments_name_what_is_wrong(arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        ToyEnv(**arguments)


def test_step_before_reset_and_after_the_end() -> None:
    env = ToyEnv()
    with pytest.raises(ResetNeeded):
        env.step("1")
    env.reset(seed=0)
    *_, terminated, truncated, info = env.step("x")
    assert terminated and not truncated and info["stop_reason"] == "answered"
    with pytest.raises(ResetNeeded):
        env.step("x")


def test_the_limit_truncates_with_the_final_keys() -> None:
    env = ToyEnv(max_steps=2)
    env.reset(seed=0)
    assert "success" not in env.step(call("add", a=1))[4]
    *_, terminated, truncated, info = env.step(call("add", a=1))
    assert (terminated, truncated) == (False, True)
    assert (info["stop_reason"], info["success"], info["score"]) == ("max_steps", False, 0.0)


def test_terminated_wins_over_the_limit() -> None:
    env = ToyEnv(max_steps=1)
    env.reset(options={"task_index": 4})
    _, reward, terminated, truncated, info = env.step("4")
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)


def test_errors_are_steps_with_a_penalty_and_a_limit() -> None:
    env = ToyEnv(error_penalty=0.25, max_errors=2, max_steps=9)
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(call("nope"))
    assert "add" in observation and reward == -0.25 and not (terminated or truncated)
    assert info["agent_error"]["kind"] == "unknown_tool"
    _, reward, _, truncated, info = env.step("<tool_call>{</tool_call>")
    assert truncated and reward == -0.25 and info["stop_reason"] == "max_errors"


def test_error_texts_do_not_grow() -> None:
    env = ToyEnv(max_steps=60)
    observation, _ = env.reset(seed=0)
    sizes = set()
    for _ in range(50):
        observation, *_ = env.step(f"<tool_call>{observation}</tool_call>")
        sizes.add(len(observation))
    assert max(sizes) < 1000 and len(sizes) < 4


def test_calls_run_in_order_up_to_the_limit() -> None:
    env = ToyEnv(max_calls=2)
    env.reset(seed=0)
    text = call("add", a=1) + call("add", a="x") + call("add", a=5)
    observation, _, _, _, info = env.step(text)
    assert observation.splitlines()[0] == "[1] 3"
    assert "a: input should be a valid integer" in observation.splitlines()[1]
    assert "1 more calls were not run" in observation.splitlines()[2]
    assert [c["result"] for c in info["tool_calls"]] == ["3", None]
    assert info["agent_error"]["kind"] == "arguments"


@pytest.mark.parametrize("number", [666, 667])
def test_a_fault_is_no_reward_and_the_env_can_go_on(number) -> None:
    env = ToyEnv()
    env.reset(seed=0)
    with pytest.raises(EnvironmentFault) as caught:
        env.step(call("add", a=number))
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args
    with pytest.raises(ResetNeeded):
        env.step("x")
    env.reset()
    assert env.step(call("add", a=2))[0] == "4"


def test_nan_rewards_are_faults() -> None:
    class Broken(ToyEnv):
        def _on_answer(self, text):
            return StepOutcome("", float("nan"), True)

    env = Broken()
    env.reset()
    with pytest.raises(EnvironmentFault, match="nan"):
        env.step("x")


def test_huge_replies_and_observations() -> None:
    env = ToyEnv()
    env.reset(seed=0)
    info = env.step("9" * 2_000_000)[4]
    assert info["agent_error"]["kind"] == "too_long"

    class Chatty(ToyEnv):
        def _start(self, task):
            super()._start(task)
            return "水" * 300_000

    chatty = Chatty()
    observation, _ = chatty.reset()
    assert chatty.observation_space.contains(observation) and observation.endswith("[cut]")


def test_anchor_is_equal_for_equal_states_only() -> None:
    env = ToyEnv(max_steps=9)
    _, start = env.reset(options={"task_index": 1})
    one = env.step(call("add", a=1))[4]["anchor"]
    _, again = env.reset(options={"task_index": 1})
    env.step("<tool_call>{")
    same = env.step(call("add", a=1))[4]["anchor"]
    _, other = env.reset(options={"task_index": 2})
    assert start["anchor"] == again["anchor"] != other["anchor"]
    assert one == same != start["anchor"]


def test_render_modes(capsys) -> None:
    env = ToyEnv(render_mode="ansi")
    env.reset(seed=0)
    env.step("x")
    text = env.render()
    assert text is not None and "> x" in text and "answered" in text
    env = ToyEnv(render_mode="human")
    env.reset(seed=0)
    assert env.render() is None and "数" in capsys.readouterr().out


def test_task_set_errors_name_file_row_field_and_value(tmp_path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"task_id": "a"}\n{"task_id": 5}\n')
    with pytest.raises(TaskDataError, match=r"tasks.jsonl, row 1, field 'task_id'.*got 5"):
        TaskSet.from_file(path)
    path.write_text('{"task_id": "a"}\n{"task_id": "a"}\n')
    with pytest.raises(TaskDataError, match="row 1.*unique.*row 0"):
        TaskSet.from_file(path)
    path.write_text('{"task_id": "a"}\n[1]\n')
    with pytest.raises(TaskDataError, match=r"row 1.*got \[1\]"):
        TaskSet.from_file(path)
    path.write_bytes(b'{"task_id": "a"}\n\xff\xfe\n')
    with pytest.raises(TaskDataError, match="row 1"):
        TaskSet.from_file(path)
    path.write_text("")
    with pytest.raises(TaskDataError, match="at least one task"):
        TaskSet.from_file(path)
    with pytest.raises(FileNotFoundError):
        TaskSet.from_file(tmp_path / "none.jsonl")
    bad = tmp_path / "x.parquet"
    bad.write_bytes(b"PAR1 nothing")
    with pytest.raises(TaskDataError, match="Parquet"):
        TaskSet.from_file(bad)
    with pytest.raises(TaskDataError, match="jsonl, .json or .parquet"):
        odd = tmp_path / "x.csv"
        odd.write_text("a")
        TaskSet.from_file(odd)


def test_task_errors_survive_pickling() -> None:
    error = TaskDataError("f.jsonl", "a number", 3, "x", "水")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.row == 3


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_task_set_round_trip(tmp_path, ending) -> None:
    rows = [{"task_id": f"t{i}", "text": "水🙂", "list": [1, {"a": None}]} for i in range(5)]
    first = TaskSet(rows, split="dev")
    first.save(tmp_path / f"x{ending}")
    second = TaskSet.from_file(tmp_path / f"x{ending}", split="validation")
    assert [second[i] for i in range(5)] == rows and second.hash == first.hash
    second[0]["list"].append(1)
    assert second[0] == rows[0]
    assert second.index("t3") == 3
    assert second.subset([2, 0])[0]["task_id"] == "t2"


def test_rows_in_verls_form_carry_their_task(tmp_path) -> None:
    from agentr1_envs.task_files import verl_row, write_rows

    task = {"task_id": "t", "question": "?", "answer": 1}
    row = verl_row(
        task, env_id="X-v0", split="train", index=0, data_source="toy",
        prompt=[{"role": "user", "content": "?"}], ground_truth="1",
    )  # fmt: skip
    write_rows(tmp_path / "r.parquet", [row])
    env = ToyEnv(tasks=str(tmp_path / "r.parquet"))
    env.reset()
    assert env.task == task
    row["env_kwargs"] = json.dumps({"env_id": "X-v0"})
    write_rows(tmp_path / "r.parquet", [row])
    with pytest.raises(TaskDataError, match=r"env_kwargs.options.task"):
        ToyEnv(tasks=str(tmp_path / "r.parquet")).reset()


def test_generated_tasks_ids() -> None:
    panel = GeneratedTasks(lambda i: {"n": i}, size=12, split="train", key="k")
    assert panel[11]["task_id"] == "k/train/11" and panel.index("k/train/11") == 11
    for wrong in ("k/train/12", "k/train/-1", "k/train/011", "k/train/²", "x/train/1", ""):
        with pytest.raises(KeyError):
            panel.index(wrong)
    with pytest.raises(IndexError):
        panel[12]
    other = GeneratedTasks(lambda i: {"n": i}, size=12, split="test", key="k")
    assert other.hash != panel.hash


def test_split_names() -> None:
    assert canonical_split("valid_seen") == "validation"
    assert canonical_split("valid_unseen") == "test"
    with pytest.raises(ValueError, match="unknown split"):
        canonical_split("Test")


def test_atomic_write_keeps_the_old_file(tmp_path) -> None:
    from agentr1_envs.task_files import atomic_write

    path = tmp_path / "x"
    path.write_text("old")
    with pytest.raises(RuntimeError):
        with atomic_write(path, "w") as handle:
            handle.write("new")
            raise RuntimeError
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["x"]
