"""`python -m benchmarks.environments` runs and measures what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_benchmark_of_environments(tmp_path: Path) -> None:
    target = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.environments", "AgentR1/GSM8KTool-v0"]
    command += ["--episodes", "20", "--repeats", "1", "--json", str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "AgentR1/GSM8KTool-v0" in done.stdout
    (figures,) = json.loads(target.read_text())
    assert figures["success"] == 1.0 and figures["steps"] >= 40
    rates = [value for key, value in figures.items() if "second" in key]
    assert len(rates) == 5 and all(value >= 0 for value in rates)
