"""What a run leaves beside verl's checkpoints, also when it is killed at a bad moment."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace as Names

import pytest

from agentr1_train.verl.files import RunFiles


def files(folder: Path) -> RunFiles:
    trainer = Names(default_local_dir=str(folder))
    return RunFiles(Names(trainer=trainer, agentr1=Names(seed=0, verl=Names(debug_dir=None))), "0")


@pytest.mark.parametrize(
    ("found", "folders", "want"),
    [
        ("", ["global_step_9", "global_step_10", "global_step_10.tmp"], "10"),
        ("", ["global_step_20", "global_step_15"], "15"),  # gone on from an earlier one
        ("9", ["global_step_9", "global_step_10"], "9"),  # what verl wrote stays
        ("", [], None),  # nothing to go on from: a fresh start
        (None, ["global_step_3"], None),  # its first checkpoint was not finished
    ],
)
def test_a_checkpoint_is_found_after_a_kill_while_it_was_named(
    tmp_path: Path, found: str | None, folders: list[str], want: str | None
) -> None:
    tracker = tmp_path / "latest_checkpointed_iteration.txt"
    if found is not None:
        tracker.write_text(found)
    for second, name in enumerate(folders):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (second, second))
    files(tmp_path).mend_tracker()
    assert (tracker.read_text() if tracker.exists() else None) == want
    assert {p.name for p in tmp_path.iterdir()} - {tracker.name} == set(folders)
