"""Transcripts that the unmodified TextWorld 1.7 gave are reproduced to the character."""

from __future__ import annotations

import json

import pytest

from agentr1_envs.alfworld.compiler import compile_game
from agentr1_envs.alfworld.engine import StateEngine


@pytest.fixture(scope="module")
def games(shared):
    return json.loads((shared / "golden" / "alfworld_transcripts.json").read_text())["games"]


def test_recorded_transcripts(games):
    steps = 0
    for game in games:
        engine = StateEngine(compile_game(game["pddl_problem"], goal=game["goal"]))
        assert engine.reset() == game["reset"]["observation"]
        assert engine.admissible() == game["reset"]["admissible"]
        for step in game["steps"]:
            said = engine.step(step["command"])
            mine = (said, engine.admissible(), engine.score, engine.done, engine.won)
            names = ("observation", "admissible", "score", "done", "won")
            assert mine == tuple(step[name] for name in names), (game["seed"], step["command"])
            steps += 1
    assert (len(games), steps) == (36, 582)


def test_replaying_after_reset_gives_the_same(games):
    game = games[3]
    engine = StateEngine(compile_game(game["pddl_problem"], goal=game["goal"]))
    said = []
    for _ in range(2):
        run = [engine.reset()]
        run += [engine.step(step["command"]) for step in game["steps"]]
        said.append((run, engine.admissible(), engine.state_key()))
    assert said[0] == said[1]


def test_the_expert_wins_the_recorded_games(games):
    from agentr1_envs.alfworld.expert import solve

    for game in games:
        plan = solve(StateEngine(compile_game(game["pddl_problem"], goal=game["goal"])))
        assert plan is not None and len(plan) <= 30
