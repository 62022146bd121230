"""Official files: found, judged, read, prepared; and generated games written as such."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import gymnasium as gym
import pytest

import agentr1_envs  # noqa: F401
from agentr1_envs.alfworld import official
from agentr1_envs.alfworld.expert import Expert
from agentr1_envs.errors import TaskDataError
from agentr1_envs.task_files import iter_rows
from agentr1_envs.task_set import TaskSet
from agentr1_train.cli.main import main

from .common import package_texts, row

ID = "AgentR1/ALFWorld-v0"


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """A small json_2.1.1: 8 / 4 / 3 games, made by the generator."""
    package_texts()
    root = tmp_path_factory.mktemp("data") / "json_2.1.1"
    for split, number in (("train", 8), ("validation", 4), ("test", 3)):
        games = [row(split, i) for i in range(number)]
        list(official.write_games(games, root / official.SPLIT_FOLDERS[split]))
    return root


@pytest.fixture
def copied(release, tmp_path):
    shutil.copytree(release, tmp_path / "copy")
    return tmp_path / "copy"


def change(path, **fields):
    game = json.loads(path.read_text())
    game.update(fields)
    game = {k: v for k, v in game.items() if v != "drop"}
    path.write_text(json.dumps(game))


def test_official_games_are_played(release):
    env = gym.make(ID, data=release, split="valid_unseen", order="sequential")
    assert len(env.unwrapped.tasks) == 3 and env.unwrapped.split == "test"
    seen = []
    for _ in range(3):
        obs, info = env.reset()
        seen.append(info["task_id"])
        policy = Expert(env)
        policy.reset(obs, info)
        done = False
        while not done:
            _, _, done, _, info = env.step(policy.act("", {}))
        assert info["success"]
    assert seen == sorted(seen) and all(name.startswith("valid_unseen/") for name in seen)
    panel = env.unwrapped.tasks
    assert panel[panel.index(seen[1])]["task_id"] == seen[1]
    assert panel.hash == official.OfficialTasks(release.parent, "test").hash


def test_games_without_a_verdict_are_judged(copied):
    files = official.game_files(copied / "train")
    change(files[0], solvable="drop")
    change(files[1], solvable=None)
    change(files[2], solvable=False)
    change(files[3], solvable="drop", pddl_domain="(define (domain other))")
    broken = json.loads(files[4].read_text())["pddl_problem"].replace("(pickupable ", "(moveable ")
    change(files[4], solvable="drop", pddl_problem=broken)
    found = official.scan(copied / "train")
    assert found.checked == 2 and found.undecided == [files[3]]
    assert found.skipped == {
        "marked unsolvable": 1,
        "does not say whether it is solvable, and the expert does not win it": 1,
    }
    assert found.games == [files[i] for i in (0, 1, 3, 5, 6, 7)]


def test_unreadable_files_are_named_and_left_out(copied):
    files = official.game_files(copied / "train")
    files[0].write_text("{")
    files[1].write_bytes(b"\xff\xfe\x00")
    change(files[2], pddl_problem="drop")
    files[3].with_name("traj_data.json").write_text("[]")
    found = official.scan(copied / "train")
    assert [path for path, _ in found.unreadable] == files[:4]
    assert all(str(path.parent) in error for path, error in found.unreadable)
    with pytest.warns(UserWarning, match="4 ALFWorld game files cannot be read"):
        assert len(official.OfficialTasks(copied, "train")) == 4


def test_a_folder_of_nothing_but_broken_files(tmp_path):
    place = tmp_path / "pick_and_place_simple-X" / "trial"
    place.mkdir(parents=True)
    (place / "game.tw-pddl").write_text("{")
    with pytest.raises(TaskDataError, match="1 unreadable"):
        official.OfficialTasks(tmp_path, "train")
    assert main(["prepare", "alfworld", "--input_dir", str(tmp_path), "--output_dir", "x"]) == 2


def test_paths_that_alfworld_leaves_out(copied):
    train = copied / "train"
    first = official.game_files(train)[0].parent.parent
    first.rename(first.with_name("pick_two_obj_and_place-Apple-Sliced"))
    second = official.game_files(train)[0].parent
    trajectory = json.loads((second / "traj_data.json").read_text())
    trajectory["task_type"] = "pick_and_place_with_movable_recep"
    (second / "traj_data.json").write_text(json.dumps(trajectory))
    found = official.scan(train)
    assert found.skipped["other task type"] == 1
    assert found.skipped["movable receptacle or sliced object"] >= 1


def test_missing_folders(release, tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        official.OfficialTasks(tmp_path / "nowhere", "train")
    (tmp_path / "train").mkdir()
    with pytest.raises(FileNotFoundError, match="valid_unseen"):
        official.OfficialTasks(tmp_path, "test")
    with pytest.raises(TaskDataError, match="playable"):
        official.OfficialTasks(tmp_path, "train")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(official.OfficialTasks(release / "train", "test")) == 8


def test_prepare_official_games(release, tmp_path, capsys):
    target = tmp_path / "rows"
    assert (
        main(["prepare", "alfworld", "--input_dir", str(release), "--output_dir", str(target)]) == 0
    )
    said = " ".join(capsys.readouterr().out.split())
    for expected in ("3,553", "140", "134", "pick_two_obj_and_place"):
        assert expected in said
    rows = list(iter_rows(target / "train.parquet"))
    assert len(rows) == 8 and rows[0]["extra_info"]["task_id"].startswith("train/")
    panel = TaskSet.from_file(target / "train.parquet")
    source = official.OfficialTasks(release, "train")
    fast = gym.make(ID, tasks=panel, order="sequential")
    plain = gym.make(ID, data=release, order="sequential")
    for i in range(len(source)):
        assert panel[i]["task_id"] == source[i]["task_id"]
        one, other = fast.reset(), plain.reset()
        assert one == other
        assert fast.step(one[1]["admissible_actions"][0]) == plain.step(
            one[1]["admissible_actions"][0]
        )


def test_prepare_generated_games(tmp_path, capsys):
    arguments = ["prepare", "alfworld", "--output_dir", str(tmp_path), "--size", "12"]
    assert main(arguments) == 0
    assert "not ALFWorld scores" in capsys.readouterr().out
    assert {p.name for p in tmp_path.iterdir()} == {
        "train.parquet",
        "validation.parquet",
        "test.parquet",
    }
    first = (tmp_path / "train.parquet").read_bytes()
    assert main(arguments) == 0
    assert (tmp_path / "train.parquet").read_bytes() == first
    env = gym.make(ID, tasks=tmp_path / "test.parquet", split="test", action_format="tool")
    assert env.reset(seed=0)[1]["task_id"].startswith("alfworld-gen1/test/")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--size", "0"], "--size"),
        (["--input_dir", "nowhere"], "nowhere"),
        (["--input_dir", ".", "--size", "3"], "--input_dir"),
    ],
)
def test_prepare_says_what_is_wrong(arguments, message, tmp_path, capsys):
    assert main(["prepare", "alfworld", "--output_dir", str(tmp_path / "out"), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.textworld
def test_alfworld_itself_plays_what_is_written(release):
    pytest.importorskip("textworld")
    from alfworld.agents.environment.alfred_tw_env import AlfredTWEnv

    config = {
        "env": {
            "goal_desc_human_anns_prob": 0,
            "task_types": [1, 2, 3, 4, 5, 6],
            "domain_randomization": False,
            "expert_type": "handcoded",
        },
        "dataset": {
            "data_path": str(release / "train"),
            "eval_id_data_path": str(release / "valid_seen"),
            "eval_ood_data_path": str(release / "valid_unseen"),
            "num_train_games": -1,
            "num_eval_games": -1,
        },
        "general": {"training_method": "dqn"},
        "rl": {"training": {"max_nb_steps_per_episode": 50}},
    }
    games = AlfredTWEnv(config, train_eval="eval_out_of_distribution")
    assert sorted(games.game_files) == [
        str(path) for path in official.game_files(release / "valid_unseen")
    ]
    env = games.init_env(batch_size=1)
    (first,), infos = env.reset()
    assert "Your task is to" in first
    file = infos["extra.gamefile"][0]
    won = False
    for command in json.loads(Path(file).read_text())["walkthrough"]:
        assert not won and command in infos["admissible_commands"][0]
        _, _, _, infos = env.step([command])
        won = infos["won"][0]
    env.close()
    assert won


@pytest.mark.textworld
def test_the_parity_command(release, tmp_path, capsys):
    pytest.importorskip("textworld")
    report = tmp_path / "report.json"
    arguments = ["alfworld", "parity", "--games", "2", "--steps", "12", "--seed", "4"]
    assert main([*arguments, "--json", str(report)]) == 0
    assert json.loads(report.read_text())["steps"] == 24
    assert "differences" in capsys.readouterr().out
    assert main([*arguments, "--input_dir", str(release), "--split", "train"]) == 0
    assert main([*arguments[:2], "--games", "0"]) == 2
