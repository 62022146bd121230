"""The drawn search tree, and the commands that write it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from agentr1_envs.paperscout.papers import Paper
from agentr1_envs.paperscout.pool import CallRecord
from agentr1_envs.paperscout.search_tree import FORMS, build, draw
from agentr1_envs.transitions import Transition, write_transitions
from agentr1_train.cli.main import main


def episode() -> list[CallRecord]:
    papers = [Paper(f"2001.{i:05d}", f"Title {i}", "Abstract <b>") for i in range(9)]
    return [
        CallRecord(1, "search", "graphs\nand <nets>", [(p, 0.5) for p in papers[:7]], 10, 1.4),
        CallRecord(1, "search", "graphs", [], 0, -0.5, "this query was made before"),
        CallRecord(2, "expand", "2001.00006", [(papers[7], 1.0), (papers[8], 0.2)], 2, 1.15),
        CallRecord(2, "expand", "9999.00001", [], 0, -0.5, "not in the pool"),
    ]


def test_text() -> None:
    root = build("Which?", episode(), frozenset({"2001.00007"}), summary="(recall 1.00)", shown=3)
    assert draw(root) == (
        "Which?  (recall 1.00)\n"
        "├─ step 1 [Search] graphs and <nets>  +1.40\n"
        "│  ├─ 2001.00000 Title 0 (0.50)\n"
        "│  ├─ 2001.00001 Title 1 (0.50)\n"
        "│  ├─ 2001.00002 Title 2 (0.50)\n"
        "│  ├─ 2001.00006 Title 6 (0.50)\n"
        "│  │  └─ step 2 [Expand] 2001.00006  +1.15\n"
        "│  │     ├─ * 2001.00007 Title 7 (1.00)\n"
        "│  │     └─ 2001.00008 Title 8 (0.20)\n"
        "│  └─ 3 more\n"
        "├─ step 1 [Search] graphs  -0.50  this query was made before\n"
        "└─ step 2 [Expand] 9999.00001  -0.50  not in the pool"
    )


def test_empty() -> None:
    assert draw(build("Which?", [])) == "Which?"


@pytest.mark.parametrize(
    "question", ['a <script>alert(1)</script> & "b"', "水 🙂 \ud800 \x00 \x1b[2J"]
)
def test_svg_and_html_are_well_formed(question: str) -> None:
    root = build(question, episode(), frozenset({"2001.00007"}))
    svg = ElementTree.fromstring(draw(root, "svg"))
    texts = [e.text for e in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert len(texts) == 14 and "step 1 [Search] graphs and <nets>  +1.40" in texts
    page = draw(root, "html")
    assert "<script" not in page and "://" not in page.replace("http://www.w3.org/2000/svg", "")
    page.encode()
    assert set(FORMS) == {"text", "svg", "html"}
    with pytest.raises(ValueError, match="form"):
        draw(root, "pdf")


def words(options: dict[str, Any]) -> list[str]:
    return ["--env", f"library_options={json.dumps(options)}", "--env", "split=test"]


def test_render_command(
    library_options: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["render", "paperscout", "--seed", "3", *words(library_options)]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "└─ step" in printed and "* " in printed
    for ending in ("svg", "html", "txt"):
        assert main([*command, "--out", str(tmp_path / f"tree.{ending}")]) == 0
    assert (tmp_path / "tree.txt").read_text() == printed
    ElementTree.parse(tmp_path / "tree.svg")
    assert main(["render", "paperscout", "--policy", "nobody", *words(library_options)]) == 2
    assert main(["render", "gsm8k_tool", "--out", str(tmp_path / "x.svg")]) == 2
    assert main(["render", "gsm8k_tool", "--out", str(tmp_path / "x.txt")]) == 0
    assert (tmp_path / "x.txt").stat().st_size > 50


def test_replay(make: Any, library_options: dict[str, Any], tmp_path: Path) -> None:
    env = make(split="test")
    _, info = env.reset(seed=3)
    call = json.dumps({"name": "search", "arguments": {"query": env.unwrapped.question}})
    actions = [f"<tool_call>{call}</tool_call>", "done"]
    rows = [
        Transition("e1", step, info["task_id"], "AgentR1/PaperScout-v0", action=action)
        for step, action in enumerate(actions)
    ]
    for action in actions:
        env.step(action)
    write_transitions(tmp_path / "t.parquet", rows)
    command = ["render", "paperscout", "--transitions", str(tmp_path / "t.parquet")]
    out = tmp_path / "tree.txt"
    assert main([*command, *words(library_options), "--out", str(out)]) == 0
    assert out.read_text() == env.unwrapped.draw() + "\n"
    assert main([*command, *words(library_options), "--episode", "e9"]) == 2
    assert main(["render", "paperscout", "--transitions", str(tmp_path / "none.parquet")]) == 2
