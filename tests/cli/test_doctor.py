from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata

import pytest

from agentr1_train import installation
from agentr1_train.cli.main import main
from agentr1_train.tested_versions import TESTED, TESTED_BRIDGES, TESTED_VERL
from tests.conftest import ROOT


def pins(path: str) -> dict[str, str]:
    found = {}
    for line in (ROOT / path).read_text().splitlines():
        name, equals, version = line.partition("==")
        if equals:
            found[re.sub(r"[-_.]+", "-", name.strip()).lower()] = version.strip()
    return found


def test_the_table_of_tested_versions_is_what_the_tests_install() -> None:
    have = pins("requirements/constraints.txt")
    assert {name: have.get(name) for name in TESTED} == TESTED
    have = pins("requirements/verl-constraints.txt")
    assert {name: have.get(name) for name in TESTED_VERL} == TESTED_VERL
    have = {}
    for path in (ROOT / "requirements/bridges").glob("*.txt"):
        have |= pins(f"requirements/bridges/{path.name}")
    assert {name: have.get(name) for name in TESTED_BRIDGES} == TESTED_BRIDGES


def test_every_extra_is_known_and_every_requirement_has_a_tested_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == set(installation.EXTRAS)
    base, extras = installation.requirements()
    assert [p.name for p in base] == [re.split(r"\W", t)[0] for t in project["dependencies"]]
    untested = {p.name for ps in extras.values() for p in ps if not p.tested}
    assert untested == {"vllm"}  # it needs a GPU


def test_json_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--quick", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["versions"]["agentr1"] and report["machine"]["cores"] > 0
    assert {e["name"] for e in report["extras"]} == set(installation.EXTRAS)
    assert {c["name"] for c in report["gpu"]} >= {"NVIDIA driver", "flash-attn"}
    assert main(["doctor", "--quick", "--require", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err


def test_a_required_extra_that_is_missing_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    have = installation.version_of
    monkeypatch.setattr(installation, "version_of", lambda n: None if n == "vllm" else have(n))
    assert main(["doctor", "--quick", "--require", "vllm"]) == 1
    assert "problem: extra vllm: missing vllm" in " ".join(capsys.readouterr().out.split())
    monkeypatch.setattr(installation, "version_of", lambda n: "0.1" if n == "numpy" else have(n))
    assert main(["doctor", "--quick"]) == 1
    assert "problem: numpy 0.1, >=" in " ".join(capsys.readouterr().out.split())


def test_it_imports_nothing_optional_into_its_own_process() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['pyarrow'] = None\n"
        "from agentr1_train.cli.main import main\n"
        "assert main(['doctor', '--quick']) == 0\n"
        "assert not {'transformers', 'verl', 'spacy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "a GPU run" in done.stdout


def test_probes_that_fail_print_hang_or_crash_are_lines_of_the_report() -> None:
    begun: list[str] = []
    probes = [
        ("good", ("json",), "print('noise'); result = {'a': 1}"),
        ("absent", ("no_such_module_here",), ""),
        ("broken", (), "raise OSError('libx.so.1: cannot open\\nsecond line')"),
        ("exits", (), "import os; os._exit(3)"),
        ("crashes", (), "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"),
        ("hangs", (), "import time; time.sleep(60)"),
        ("last", ("math",), ""),
    ]
    found = installation.run_probes(probes, timeout=6.0, tick=begun.append)
    assert list(begun) == [name for name, *_ in probes]
    assert found["good"]["error"] is None and found["good"]["result"] == {"a": 1}
    assert found["absent"]["error"].startswith("ModuleNotFoundError: No module named")
    assert found["broken"]["error"] == "OSError: libx.so.1: cannot open"
    assert "exit code 3" in found["exits"]["error"] and "signal 11" in found["crashes"]["error"]
    assert found["hangs"]["error"] == "no end after 6 s"
    assert found["last"]["error"] is None


@pytest.mark.parametrize(
    ("wanted", "version", "fits"),
    [
        ("", "1.0", True),
        (">=2.4", "2.13.0+cpu", True),
        (">=2.4", "2.3.9", False),
        (">=3.8,<3.9", "3.8.18", True),
        (">=3.8,<3.9", "3.9", False),
        ("==3.8.0", "3.8", True),
        (">=0.1.10", "0.1.9", False),
        ("!=5.6.0", "5.6", False),
        (">=5.0", "5.0.0rc1", True),
        ("~=1.0", "1.0", False),
    ],
)
def test_ranges(wanted: str, version: str, fits: bool) -> None:
    assert installation.allows(wanted, version) is fits


def test_an_installed_distribution_is_read_from_its_metadata(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setattr(installation, "__file__", str(tmp_path / "x" / "installation.py"))
    lines = [
        "numpy>=1.26",
        'torch>=2.4; extra == "train"',
        "textworld[pddl]<1.8,>=1.7; extra == 'alfworld'",
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: lines)
    base, extras = installation.requirements()
    assert [(p.name, p.wanted) for p in base] == [("numpy", ">=1.26")]
    assert [(p.name, p.wanted) for p in extras["train"]] == [("torch", ">=2.4")]
    assert [(p.name, p.wanted) for p in extras["alfworld"]] == [("textworld", "<1.8,>=1.7")]
