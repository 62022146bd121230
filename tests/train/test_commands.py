"""`agentr1 rollout | eval | collect | sft | distill | view`, as a user runs them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentr1_envs.transitions import group_episodes, read_metadata, read_transitions
from agentr1_train.cli.episodes import wilson
from agentr1_train.cli.main import main
from agentr1_train.cli.view import render_html
from agentr1_train.local.checkpoint import checkpoints
from tests.train.test_local import SMALL


def test_rollout_writes_what_it_played(tmp_path, capsys):
    out = tmp_path / "x.parquet"
    words = ["rollout", "AgentR1/GSM8KTool-v0", "--episodes", "12", "--env", "difficulty=hard"]
    assert main([*words, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "1.000" in text and "steps/s" in text and "answer 12" in text
    found = group_episodes(read_transitions(out))
    assert [e.episode_id for e in found] == [f"episode-{i:06d}" for i in range(12)]
    assert all(e.success for e in found)
    assert read_metadata(out)["policy"] == "expert"
    again = tmp_path / "y.parquet"
    assert main([*words, "--out", str(again), "--concurrency", "1"]) == 0
    assert read_transitions(again)[5].observation == read_transitions(out)[5].observation


def test_eval_plays_each_task_of_the_panel_once(tmp_path, capsys):
    rows = tmp_path / "rows.jsonl"
    words = ["eval", "--env", "gsm8k_tool", "--episodes", "20", "--json", str(rows)]
    assert main([*words, "--policy", "observer", "--env-arg", "num_tasks=7", "--repeats", "2"]) == 0
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    assert len(lines) == 14 and len({r["task_id"] for r in lines}) == 7
    assert "the panel has 7 tasks" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rollout", "nosuch"], "no environment"),
        (["rollout", "gsm8k_tool", "--policy", "genius"], "expected one of: expert"),
        (["rollout", "gsm8k_tool", "--policy", "openai:nowhere"], "http(s)://HOST"),
        (["rollout", "gsm8k_tool", "--episodes", "0"], "at least 1"),
        (["rollout", "gsm8k_tool", "--env", "difficulty=silly"], "silly"),
        (["rollout", "gsm8k_tool", "--context", "window:x"], "window:x"),
        (["eval", "--env", "gsm8k_tool", "--tasks", "/nowhere.jsonl"], "no such file"),
        (["collect", "gsm8k_tool"], "--out FILE"),
        (["view", "/nowhere"], "no such file"),
        (["train", "recipe=nosuch"], "nosuch"),
        (["distill", "recipe=gsm8k_tool"], "teacher=PATH"),
        (["sft", "recipe=gsm8k_tool", "data=/nowhere"], "no such file"),
    ],
)
def test_mistakes_are_one_line(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and message in error
    assert list(tmp_path.iterdir()) == []


def test_no_torch_is_imported_for_scripts():
    code = (
        "import sys; from agentr1_train.cli.main import main; "
        "assert main(['rollout', 'gsm8k_tool', '--episodes', '2']) == 0; "
        "assert not {'torch', 'transformers', 'omegaconf'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_collect_sft_distill_view(tmp_path, capsys, monkeypatch):
    """The whole way: episodes are collected, learned from, and teach another model."""
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data.parquet"
    assert main(["collect", "gsm8k_tool", "--episodes", "15", "--out", str(data)]) == 0
    assert "kept 15 of 15" in capsys.readouterr().out
    small = [w for w in SMALL if not w.startswith(("steps=", "logger=", "deterministic="))]
    quick = [*small, "logger=[jsonl]", "eval.episodes=2"]
    assert main(["sft", *quick, f"data={data}", "steps=3", "dir=runs/teacher"]) == 0
    teacher = checkpoints(Path("runs/teacher/checkpoints"))[-1]
    words = [f"teacher={teacher}", "student=micro", "cold_start.steps=1", "steps=2"]
    assert main(["distill", *quick, *words, "dir=runs/student"]) == 0
    lines = [json.loads(x) for x in Path("runs/student/metrics.jsonl").read_text().splitlines()]
    assert all("distill/reverse_kl" in r for r in lines if r["step"] > 0)
    other = [
        "distill",
        *quick,
        f"teacher={teacher}",
        "dir=runs/other",
        "agentr1.tiny.vocab_size=400",
    ]
    assert main([*other, "cold_start.steps=0", "steps=1", "task_reward=true", "model=micro"]) == 0
    judged = ["eval", "--env", "gsm8k_tool", "--policy", "transformers:runs/student"]
    assert main([*judged, "--episodes", "2", "--out", "judged.parquet"]) == 0
    seen = read_transitions(Path("judged.parquet"))
    assert seen[0].observation[0]["role"] == "user"  # the run's own setting: no system prompt
    assert max(len(t.response_ids) for t in seen) <= 6
    capsys.readouterr()
    assert main(["view", "runs/student", "--tokens", "--limit", "1"]) == 0
    shown = capsys.readouterr().out
    assert "1 of 4 episodes" in shown and "advantage" in shown
    page = tmp_path / "page.html"
    assert main(["view", "runs/student", "--html", str(page), "--limit", "0"]) == 0
    text = page.read_text()
    assert text.count(", ended by ") == 4 and "<script" not in text
    assert "http" not in text


def test_html_escapes_what_models_say():
    from agentr1_envs.transitions import Episode, Transition

    t = Transition("e", 0, "t", "env", ({"role": "user", "content": "<b>&"},), "<script>x</script>")
    page = render_html([Episode("e", "t", "env", transitions=[t])], {"k": "<i>"}, None, "<n>")
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert "<b>" not in page and "<i>" not in page and "<n>" not in page


def test_wilson_interval():
    assert wilson(0, 0) == (0.0, 1.0)
    low, high = wilson(8, 10)
    assert low == pytest.approx(0.490, abs=1e-3) and high == pytest.approx(0.943, abs=1e-3)
    assert wilson(10, 10)[1] == 1.0 and wilson(0, 10)[0] == 0.0


def test_an_interrupt_keeps_what_was_played(tmp_path):
    out = tmp_path / "x.parquet"
    command = [sys.executable, "-u", "-c", INTERRUPTED, str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "playing\n"
    process.send_signal(signal.SIGINT)
    text = process.communicate(timeout=120)[0]
    assert process.returncode == 130, text
    found = group_episodes(read_transitions(out))
    assert len(found) >= 3 and all(e.success for e in found)


# Prints a line when some episodes have ended, then goes on for ever.
INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
from agentr1_train.cli import main as cli
from agentr1_train.rollout_metrics import RolloutMetrics

add = RolloutMetrics.add
def counted(self, episode):
    add(self, episode)
    if self.episodes == 3:
        print("playing", flush=True)
RolloutMetrics.add = counted
words = ["rollout", "gsm8k_tool", "--episodes", "100000000", "--concurrency", "2"]
sys.exit(cli.main([*words, "--out", sys.argv[1]]))
"""
