"""Building on disk: bad input, interruption, two builders, damaged files."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from agentr1_envs.errors import EnvironmentFault, TaskDataError
from agentr1_envs.retrieval import Bm25Index, open_corpus, open_retriever, read_corpus
from agentr1_envs.retrieval.documents import Chunk
from agentr1_train.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def rows(count, seed=0):
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, 500, (count, 12)).tolist()
    return [
        (f"d{i:05d}", f"T{i}", " ".join(f"w{n}x" for n in words)) for i, words in enumerate(drawn)
    ]


def write(path, documents):
    lines = (json.dumps(dict(zip(("id", "title", "text"), row, strict=True))) for row in documents)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(Chunk, "DOCUMENTS", 100)


def contents(folder):
    return {f.name: f.read_bytes() for f in Path(folder).iterdir()}


def test_workers_and_runs_change_nothing(tmp_path, small_chunks):
    documents = rows(1050)
    one = Bm25Index.build(documents, tmp_path / "one", workers=1, progress=False)
    two = Bm25Index.build(iter(documents), tmp_path / "two", workers=2, progress=True)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    memory = Bm25Index.in_memory(documents)
    for query in ("w1x w2x w3x", "w499x t77"):
        assert one.search(query, 30) == two.search(query, 30) == memory.search(query, 30)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "two"]


def test_unsorted_ids_are_kept_in_order(tmp_path, small_chunks):
    documents = rows(300)[::-1]
    index = Bm25Index.build(documents, tmp_path / "index", workers=1, progress=False)
    assert [index.id(i) for i in range(300)] == [row[0] for row in documents]
    assert [index.number(row[0]) for row in documents] == list(range(300))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (("d1", "T", ""), r"row 3, field 'text': expected text that is not empty"),
        (("d1", "T", " \n"), r"row 3, field 'text'"),
        (("d1", "T", None), r"row 3, field 'text': expected a string, got None"),
        (("d1", 7, "x"), r"row 3, field 'title': expected a string, got 7"),
        ((5, "T", "x"), r"row 3, field 'id': expected a string, got 5"),
        (("", "T", "x"), r"row 3, field 'id'"),
        (("d00001", "T", "x"), r"row 3, field 'id': .*row 1 has the same, got 'd00001'"),
        (("d1", "T"), r"row 3: expected \(id, title, text"),
        ("text", r"row 3: expected"),
        ({"title": "T", "text": "x"}, r"row 3, field 'id'"),
        ({"id": "x", "title": "T"}, r"row 3, field 'text'"),
        (("d1", "T", "x", 3), r"row 3, field 'contents'"),
    ],
)
def test_bad_rows_are_named_and_nothing_is_left(tmp_path, bad, message):
    documents = [*rows(3), bad]
    with pytest.raises(TaskDataError, match=message):
        Bm25Index.in_memory(documents)
    with pytest.raises(TaskDataError, match="mine.*" + message):
        Bm25Index.build(documents, tmp_path / "index", progress=False, source="mine")
    assert not (tmp_path / "index").exists()


def test_a_failed_rebuild_leaves_the_old_index(tmp_path):
    Bm25Index.build(rows(50), tmp_path / "index", progress=False)
    before = contents(tmp_path / "index")
    with pytest.raises(TaskDataError):
        Bm25Index.build([*rows(50), ("x", "", "")], tmp_path / "index", progress=False)
    assert contents(tmp_path / "index") == before
    index = Bm25Index.build(rows(60), tmp_path / "index", progress=False)
    assert index.documents == 60


def test_empty_corpus(tmp_path):
    for build in (
        lambda: Bm25Index.in_memory([]),
        lambda: Bm25Index.build([], tmp_path / "index", progress=False),
    ):
        with pytest.raises(TaskDataError, match="at least one document"):
            build()
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(TaskDataError, match=r"empty\.jsonl: expected at least one document"):
        open_corpus(tmp_path / "empty.jsonl", progress=False)


def test_an_index_of_another_corpus(tmp_path):
    first = Bm25Index.build(rows(50), tmp_path / "index", progress=False)
    other = Bm25Index.in_memory(rows(50, seed=1)).source
    with pytest.raises(TaskDataError, match=f"an index of the corpus with hash {other}"):
        Bm25Index.open(tmp_path / "index", source=other)
    with pytest.raises(TaskDataError, match="index of the corpus"):
        Bm25Index.open_shared(tmp_path / "index", source=other)
    assert Bm25Index.open(tmp_path / "index", source=first.source).documents == 50


def test_damaged_and_foreign_files(tmp_path):
    folder = tmp_path / "index"
    Bm25Index.build(rows(80), folder, progress=False)
    for name in sorted(os.listdir(folder)):
        if name == "meta.json":
            continue
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[:-1])
        with pytest.raises(TaskDataError, match=rf"{name}: expected [\d,]+ bytes .*damaged"):
            Bm25Index.open(folder)
        (folder / name).unlink()
        with pytest.raises(TaskDataError, match=rf"{name}: expected a file of the index"):
            Bm25Index.open(folder)
        (folder / name).write_bytes(data)
    good = (folder / "meta.json").read_text()
    for text, message in (
        (good[:50], "expected JSON"),
        ("[]", "format"),
        (good.replace("agentr1-bm25", "other"), "format"),
        (good.replace('"version": 1', '"version": 99'), "'version'.*got 99"),
        (good.replace("english-", "klingon-"), "'analyzer'"),
    ):
        (folder / "meta.json").write_text(text)
        with pytest.raises(TaskDataError, match=message):
            Bm25Index.open(folder)
    (folder / "meta.json").unlink()
    with pytest.raises(TaskDataError, match=r"meta\.json can't be read"):
        Bm25Index.open(folder)
    with pytest.raises(TaskDataError, match="no such file or folder"):
        Bm25Index.open(tmp_path / "nothing")


def test_damage_that_sizes_do_not_show_is_a_fault(tmp_path):
    folder = tmp_path / "index"
    Bm25Index.build(rows(80), folder, progress=False)
    size = (folder / "docs.bin").stat().st_size
    (folder / "docs.bin").write_bytes(b"\xff" * size)
    with pytest.raises(EnvironmentFault, match="damaged"):
        Bm25Index.open(folder).search("w1x w2x w3x w4x w5x")
    Bm25Index.build(rows(80), folder, progress=False)
    size = (folder / "documents.bin").stat().st_size
    (folder / "documents.bin").write_bytes(b"\xff" * size)
    with pytest.raises(EnvironmentFault, match="damaged"):
        Bm25Index.open(folder).search("w1x w2x w3x w4x w5x")


def test_leftovers_of_a_killed_build_are_removed(tmp_path):
    folder = tmp_path / "index"
    Bm25Index.build(rows(20), folder, progress=False)
    folder.rename(tmp_path / "index.old-123")
    (tmp_path / "index.old-notes").mkdir()
    Bm25Index.build(rows(20), folder, progress=False)
    assert not (tmp_path / "index.old-123").exists()
    assert (tmp_path / "index.old-notes").is_dir()


class Bomb:
    def __reduce__(self):
        return (Path.touch, (Path(os.environ["BOMB"]),))


def test_a_pickle_is_never_loaded(tmp_path, monkeypatch):
    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))
    bomb = pickle.dumps(Bomb())
    (tmp_path / "index").write_bytes(bomb)
    with pytest.raises(TaskDataError, match="folder of a search index, not a file"):
        Bm25Index.open(tmp_path / "index")
    folder = tmp_path / "folder"
    Bm25Index.build(rows(80), folder, progress=False)
    for name in os.listdir(folder):
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(bomb)
        with pytest.raises(TaskDataError):
            Bm25Index.open(folder)
        (folder / name).write_bytes(data)
    np.save(tmp_path / "x.npy", np.array([Bomb()], object), allow_pickle=True)
    with pytest.raises(TaskDataError):
        open_retriever(tmp_path / "x.npy")
    assert not (tmp_path / "exploded").exists()


def test_what_is_no_index_is_not_overwritten(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("more work")
    for name in ("notes", "file"):
        with pytest.raises(TaskDataError, match="remove it or build elsewhere"):
            Bm25Index.build(rows(5), tmp_path / name, progress=False)
    assert (tmp_path / "notes" / "thesis.txt").read_text() == "years of work"
    assert (tmp_path / "file").read_text() == "more work"


def test_an_interrupted_build_goes_on(tmp_path, small_chunks):
    documents = rows(1000)

    def failing():
        for i, row in enumerate(documents):
            if i == 750:
                raise ConnectionError("the source broke off")
            yield row

    with pytest.raises(ConnectionError):
        Bm25Index.build(failing(), tmp_path / "index", workers=1, progress=False)
    assert not (tmp_path / "index").exists()
    segments = tmp_path / "index.building" / "segments"
    done = {p.name: p.stat().st_mtime_ns for p in segments.iterdir()}
    assert len(done) == 7

    class Spy:
        kept: dict | None = None

        def __iter__(self):
            yield from documents
            Spy.kept = {p.name: p.stat().st_mtime_ns for p in segments.iterdir()}

    index = Bm25Index.build(Spy(), tmp_path / "index", workers=1, progress=False)
    assert Spy.kept is not None and done.items() <= Spy.kept.items()
    Bm25Index.build(documents, tmp_path / "whole", workers=1, progress=False)
    assert contents(tmp_path / "whole") == contents(tmp_path / "index")
    assert index.documents == 1000


def test_a_bad_row_leaves_only_what_the_next_build_can_use(tmp_path, small_chunks):
    for good, left in ((30, []), (250, ["index.building"])):
        documents = [*rows(good), {"id": "x", "title": "no text"}]
        with pytest.raises(TaskDataError, match="text"):
            Bm25Index.build(documents, tmp_path / "index", workers=1, progress=False)
        assert sorted(p.name for p in tmp_path.iterdir()) == left
    assert len(list((tmp_path / "index.building" / "segments").iterdir())) == 2
    assert Bm25Index.build(rows(250), tmp_path / "index", workers=1, progress=False)
    assert [p.name for p in tmp_path.iterdir()] == ["index"]


KILLED = """
import sys
from agentr1_envs.retrieval import Bm25Index
from agentr1_envs.retrieval.documents import Chunk, read_corpus
Chunk.DOCUMENTS = 100
Bm25Index.build(read_corpus(sys.argv[1]), sys.argv[2], workers=2, progress=False)
"""


def start(code, *arguments):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
    }
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], env=environment, stderr=subprocess.PIPE
    )


def test_a_build_killed_at_any_time_can_be_repeated(tmp_path, small_chunks):
    corpus = write(tmp_path / "corpus.jsonl", rows(6000))
    whole = tmp_path / "whole"
    Bm25Index.build(read_corpus(corpus), whole, workers=1, progress=False)
    building = tmp_path / "index.building"
    for wanted in (2, 20):
        child = start(KILLED, corpus, tmp_path / "index")
        while child.poll() is None and len(list(building.glob("segments/*.npz"))) < wanted:
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        if not (tmp_path / "index").exists():
            with pytest.raises(TaskDataError, match="no such file or folder"):
                Bm25Index.open(tmp_path / "index")
    index = Bm25Index.build(read_corpus(corpus), tmp_path / "index", workers=1, progress=False)
    assert index.documents == 6000
    assert contents(tmp_path / "index") == contents(whole)


def test_two_processes_build_one_index(tmp_path):
    corpus = write(tmp_path / "corpus.jsonl", rows(3000))
    code = (
        "import sys; from agentr1_envs.retrieval import open_corpus\n"
        "print(open_corpus(sys.argv[1], progress=False).search('w1x w2x', 5)[0].id)"
    )
    children = [start(code, corpus) for _ in range(3)]
    for child in children:
        _, error = child.communicate(timeout=300)
        assert child.returncode == 0, error.decode()
    assert open_corpus(corpus, progress=False).documents == 3000


def test_a_worker_that_dies_is_a_fault(tmp_path, small_chunks, monkeypatch):
    from agentr1_envs.retrieval import workers

    def doomed():
        return subprocess.Popen(
            [sys.executable, "-c", "import os; os._exit(7)"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    monkeypatch.setattr(workers, "_start", doomed)
    with pytest.raises(EnvironmentFault, match="ended with code 7"):
        Bm25Index.build(rows(500), tmp_path / "index", workers=2, progress=False)
    assert not (tmp_path / "index").exists()


def test_corpus_files(tmp_path):
    corpus = write(tmp_path / "corpus.jsonl", rows(40))
    index = open_corpus(corpus, progress=False)
    assert (tmp_path / "corpus.jsonl.bm25").is_dir()
    assert open_corpus(corpus, progress=False) is index
    assert open_retriever(corpus) is index
    # A copy with another time of change is the same corpus; another text is not.
    os.utime(corpus, (1, 1))
    assert open_corpus(corpus, progress=False) is index
    write(corpus, rows(40, seed=3))
    changed = open_corpus(corpus, progress=False)
    assert changed is not index and changed.source != index.source
    assert changed.search("t7")[0][:3] == rows(40, seed=3)[7]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"corpus\.jsonl, row 2: expected a line of JSON"),
        ("", r"row 2: expected a line of JSON"),
        ("[1]", r"row 2: expected a JSON object, got \[1\]"),
        ('{"id": "x", "text": ""}', r"row 2, field 'text'"),
        ('{"id": "d00000", "text": "y"}', r"row 2, field 'id'.*row 0 has the same"),
        ("[" * 100_000, r"row 2: expected a line of JSON"),
        ("\x80abc", r"row 2"),
    ],
)
def test_bad_corpus_files(tmp_path, line, message, capsys):
    corpus = write(tmp_path / "corpus.jsonl", rows(2))
    with corpus.open("ab") as file:
        file.write(line.encode("latin-1") + b"\n")
    with pytest.raises(TaskDataError, match=message):
        open_corpus(corpus, progress=False)
    assert main(["retrieval", "build", "--corpus", str(corpus), "--quiet"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {corpus}, row 2")
    assert not (tmp_path / "corpus.jsonl.bm25").exists()


def test_command_line(tmp_path, capsys):
    corpus = write(tmp_path / "corpus.jsonl", rows(40))
    index = tmp_path / "index"
    assert main(["retrieval", "build", "--corpus", str(corpus), "--index", str(index)]) == 0
    assert "40 documents" in capsys.readouterr().out
    assert main(["retrieval", "search", "--index", str(index), "t7", "-k", "1"]) == 0
    assert "T7" in capsys.readouterr().out
    assert main(["retrieval", "search", "--index", str(index), "t7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "d00007"
    assert main(["retrieval", "search", "--index", str(index), "!?"]) == 0
    assert "nothing found" in capsys.readouterr().err
    assert main(["retrieval", "search", "--index", str(tmp_path / "none"), "x"]) == 2
    assert "no such file or folder" in capsys.readouterr().err
    assert main(["retrieval", "search", "--index", str(index), "x" * 40_000]) == 2
    assert "at most 32,768" in capsys.readouterr().err
