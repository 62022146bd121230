"""`agentr1 prepare webshop` and the noun sources."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.webshop import nouns
from agentr1_envs.webshop.catalog import Catalog
from agentr1_envs.webshop.env import WebShopEnv
from agentr1_train.cli.main import main
from tests.webshop.conftest import GOLDEN, human_goal, product

needs_spacy = pytest.mark.skipif(nouns.spacy_missing() is not None, reason="needs extra spacy")


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "webshop_data"
    folder.mkdir()
    asins = [f"B{i:09d}" for i in range(40)]
    note = {"attributes": ["light"], "instruction": "find light", "instruction_attributes": ["l"]}
    contents: list[Any] = [
        [*(product(asin) for asin in asins), {"asin": "nan"}],
        {asin: note for asin in asins},
        {asin: [human_goal(asin)] for asin in asins},
    ]
    for name, content in zip(GOLDEN, contents, strict=True):
        (folder / name).write_text(json.dumps(content))
    return folder


def prepare(*words: object) -> int:
    return main(["prepare", "webshop", *map(str, words)])


def test_generated(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "shop"
    assert prepare("--output_dir", out, "--size", 500) == 0
    said = capsys.readouterr().out
    assert "500 products, nouns: generator, made in" in said
    assert "no product, no instruction" in said
    assert prepare("--output_dir", out, "--size", 500) == 0
    assert "up to date" in capsys.readouterr().out
    assert prepare("--output_dir", out, "--size", 500, "--world", 1) == 0
    assert "made in" in capsys.readouterr().out
    env = WebShopEnv(catalog=out, split="test", tasks=out / "test.parquet")
    env.reset(seed=0)
    assert len(env.tasks) == 500
    row = json.loads(env.tasks[0]["task_id"].partition("/")[2])
    assert 0 <= row < 500


def test_published_files(inputs: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "deep" / "shop"
    words = ["--dataset_mode", "small", "--input_dir", inputs, "--output_dir", out]
    words += ["--noun_source", "heuristic"]
    assert prepare(*words) == 0
    said = capsys.readouterr().out
    assert "40 products, nouns: heuristic" in said
    assert "missing_asin: 1 (skipped)" in said
    assert "validation: no human goals, no rows" in said
    assert sorted(p.name for p in out.glob("*.parquet")) == ["test.parquet"]
    assert sorted(p.name for p in out.parent.iterdir()) == ["shop"]
    before = (out / "meta.json").stat().st_mtime_ns
    assert prepare(*words) == 0
    assert "up to date" in capsys.readouterr().out
    assert (out / "meta.json").stat().st_mtime_ns == before
    (inputs / GOLDEN[0]).write_text(json.dumps([product("B1")]))
    assert prepare(*words, "--max_rows", 0) == 0
    assert "1 products" in capsys.readouterr().out


def test_force_repairs(inputs: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "shop"
    words = ["--dataset_mode", "small", "--input_dir", inputs, "--output_dir", out]
    words += ["--noun_source", "heuristic", "--max_rows", 0]
    assert prepare(*words) == 0
    (out / "text.bin").write_bytes(b"")
    assert prepare(*words) == 0  # damage is noticed by itself
    assert "made in" in capsys.readouterr().out
    (out / "extra").write_text("x")
    assert prepare(*words, "--force") == 0
    assert not (out / "extra").exists()


def test_what_is_wrong_is_told_in_one_line(inputs: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "shop"
    (inputs / GOLDEN[2]).unlink()
    for words, text in (
        (["--dataset_mode", "small", "--input_dir", inputs], "items_human_ins.json"),
        (["--dataset_mode", "full", "--input_dir", tmp_path / "no"], "items_shuffle.json"),
        (["--size", 0], "--size"),
        (["--max_rows", -1], "--max_rows"),
    ):
        assert prepare("--output_dir", out, *words) == 2
        said = capsys.readouterr().err
        assert said.startswith("error: ") and text in said and said.count("\n") == 1
    assert prepare("--output_dir", inputs) == 2
    assert "an empty folder" in capsys.readouterr().err
    assert not out.exists()


def test_spacy_is_named_when_it_is_missing(
    inputs: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nouns, "MODEL_PACKAGE", "no_such_model")
    out = tmp_path / "shop"
    words = ["--dataset_mode", "small", "--input_dir", inputs, "--output_dir", out]
    assert prepare(*words) == 2
    said = capsys.readouterr().err
    assert "agentr1[spacy]" in said and "heuristic" in said


@needs_spacy
def test_the_models_version_and_files_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = importlib.import_module(nouns.MODEL_PACKAGE)
    copy = tmp_path / nouns.MODEL_PACKAGE
    shutil.copytree(Path(package.__file__ or "").parent, copy)
    monkeypatch.setattr(package, "__file__", str(copy / "__init__.py"))
    nouns.check_model()
    tagger = copy / f"{nouns.MODEL_PACKAGE}-{nouns.MODEL_VERSION}" / "tagger" / "model"
    tagger.write_bytes(tagger.read_bytes()[:-1] + b"x")
    with pytest.raises(EnvironmentFault, match="digest"):
        nouns.SpacyNouns()
    monkeypatch.setattr(package, "__version__", "999.9.9")
    with pytest.raises(EnvironmentFault, match=r"version 999\.9\.9"):
        nouns.SpacyNouns()


@needs_spacy
def test_workers_give_the_same_nouns(recorded: Catalog) -> None:
    titles = [recorded.card(row)[1] for row in range(60)] + ["", " ", "…", "a\nb"]
    one = list(nouns.SpacyNouns()(titles))
    assert one[:60] == [recorded.nouns(row) for row in range(60)]
    finder = nouns.SpacyNouns(workers=2, batch_size=1)
    assert list(finder(titles)) == one
    assert list(finder([])) == []


@needs_spacy
def test_the_heuristic_mostly_agrees_with_the_tagger(recorded: Catalog) -> None:
    titles = [recorded.card(row)[1] for row in range(400)]
    found = list(nouns.heuristic_nouns(titles))
    agree = total = 0
    for row, mine in enumerate(found):
        other = (row * 7 + 1) % len(found)
        scores = []
        for source in (lambda r: recorded.nouns(r), lambda r: found[r]):
            wanted, got = source(other), source(row)
            shared = len(set(got) & set(wanted)) / len(wanted) if wanted else 0.2
            scores.append((shared > 0.2, shared < 0.1, shared == 0))
        agree += scores[0] == scores[1]
        total += 1
        assert all(word == word.lower() for word in mine)
    assert agree / total > 0.7


def test_unknown_noun_source() -> None:
    with pytest.raises(ValueError, match="heuristic"):
        nouns.noun_finder("x")


def test_preparing_needs_neither_torch_nor_spacy(tmp_path: Path) -> None:
    words = ["prepare", "webshop", "--size", "30", "--output_dir", str(tmp_path / "s")]
    script = (
        "import sys\n"
        "from agentr1_train.cli.main import main\n"
        f"assert main({words!r}) == 0\n"
        "assert not {'torch', 'transformers', 'spacy', 'fastapi'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
