"""Row files: JSONL, JSON and Parquet in, JSONL and Parquet out, and rows in verl's form."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from agentr1_envs.errors import TaskDataError

_CHUNK = 1 << 20
_BLANK = re.compile(r"[ \t\r\n]*")


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """A file handle whose content appears under `path` only when the block ends without an error.

    Written beside the target, synced, then renamed: a killed process or a full disk leaves the old
    file as it was. What a killed process left beside it is removed by the next that writes it.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(target)
    prefix = f".{target.name}.{os.getpid()}-"
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=prefix, suffix=".tmp")
    try:
        _try_lock(descriptor)
        os.fchmod(descriptor, 0o666 & ~_umask())  # mkstemp makes it private
        # Half of a surrogate pair has no UTF-8 form; as \ud800 it is at least good JSON.
        text = {} if "b" in mode else {"encoding": "utf-8", "errors": "backslashreplace"}
        with os.fdopen(descriptor, mode, **text) as handle:  # type: ignore[call-overload]
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(name, target)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        if isinstance(error, OSError) and error.errno and error.filename is None:
            error.filename = str(target)  # a full disk does not say which file it cut
        raise


def _remove_stale(target: Path) -> None:
    """Removes the unfinished files of processes that were killed while they wrote ``target``.

    A process of another machine or container may have a number that is free here; its file is
    locked, though.
    """
    for file in target.parent.glob(f".{glob.escape(target.name)}.*-*.tmp"):
        number = file.name[len(target.name) + 2 :].partition("-")[0]
        if not number.isdecimal() or process_lives(int(number)):
            continue
        with contextlib.suppress(OSError), file.open("rb") as handle:
            if _try_lock(handle.fileno()):
                file.unlink()


def _try_lock(descriptor: int) -> bool:
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):  # no such locks here, or another process has it
        return False
    return True


def process_lives(number: int) -> bool:
    """Whether this machine runs a process of this number."""
    try:
        os.kill(number, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # it lives, as another user's
    return True


def _umask() -> int:
    # There is no way to read it without setting it; /proc avoids the race between threads.
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022


def iter_rows(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The rows of a ``.jsonl``, ``.json`` (a list of objects) or ``.parquet`` file.

    Raises:
        FileNotFoundError: There is no such file.
        TaskDataError: The file's form is not what its ending says.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file")
    ending = file.suffix.lower()
    if ending == ".jsonl":
        yield from _iter_jsonl(file)
    elif ending == ".json":
        yield from _iter_json(file)
    elif ending == ".parquet":
        yield from _iter_parquet(file)
    else:
        raise TaskDataError(str(file), "a .jsonl, .json or .parquet file", value=file.name)


def _iter_jsonl(file: Path) -> Iterator[dict[str, Any]]:
    with file.open("rb") as handle:
        for number, raw in enumerate(handle):
            if not raw.strip():
                continue
            try:
                row = json.loads(raw.decode("utf-8-sig" if number == 0 else "utf-8"))
            except (ValueError, RecursionError) as error:  # also a number of 5,000 digits
                raise TaskDataError(
                    str(file), f"one JSON object a line ({error})", number, value=raw[:80]
                ) from None
            if not isinstance(row, dict):
                raise TaskDataError(str(file), "one JSON object a line", number, value=row)
            yield row


def _iter_json(file: Path) -> Iterator[dict[str, Any]]:
    """Objects of a JSON list, one at a time: a file may be larger than memory has room for."""
    expected = "a JSON list of objects"
    decode = json.JSONDecoder().raw_decode
    text, position, number = "", 0, 0

    def peek() -> str:
        """The next character that is no white space; "" at the end of the file."""
        nonlocal text, position
        while True:
            match = _BLANK.match(text, position)
            position = match.end() if match else position
            if position < len(text):
                return text[position]
            text, position = handle.read(_CHUNK), 0
            if not text:
                return ""

    try:
        with file.open(encoding="utf-8-sig") as handle:
            if peek() != "[":
                raise TaskDataError(str(file), expected, value=text[:80])
            position += 1
            while peek() != "]":
                if number:
                    if peek() != ",":
                        where = text[position : position + 80]
                        raise TaskDataError(
                            str(file), "',' or ']' after it", number - 1, value=where
                        )
                    position += 1
                if peek() not in ("{", ""):
                    value = text[position : position + 80]
                    raise TaskDataError(str(file), "an object", number, value=value)
                size = _CHUNK
                while True:
                    try:
                        row, position = decode(text, position)
                        break
                    except json.JSONDecodeError as error:
                        more = handle.read(size)
                        if not more:
                            value = text[error.pos : error.pos + 80]
                            raise TaskDataError(
                                str(file), f"{expected} ({error.msg})", number, value=value
                            ) from None
                        # Doubling keeps the work linear however long a row is.
                        text, position, size = text[position:] + more, 0, size * 2
                number += 1
                yield row
            position += 1
            if peek():
                value = text[position : position + 80]
                raise TaskDataError(str(file), "nothing after the list", value=value)
    except TaskDataError:
        raise
    except (ValueError, RecursionError) as error:  # no UTF-8, a number of 5,000 digits, nesting
        raise TaskDataError(str(file), f"{expected} ({error})") from None


def _iter_parquet(file: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        parquet = pq.ParquetFile(file)
        for batch in parquet.iter_batches(batch_size=1024):
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow calls a damaged page an OSError.
        message = str(error).partition("\n")[0]
        raise TaskDataError(str(file), f"a readable Parquet file ({message})") from None


def save_rows(path: str | os.PathLike[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as JSONL or Parquet, by the file's ending; atomic."""
    ending = Path(path).suffix.lower()
    if ending == ".jsonl":
        with atomic_write(path, "w") as handle:
            for row in rows:
                handle.write(json.dumps(row, ensure_ascii=False) + "\n")
    elif ending == ".parquet":
        write_rows(path, rows)
    else:
        raise ValueError(f"{path}: expected a name that ends in .jsonl or .parquet")


def write_rows(path: str | os.PathLike[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as one Parquet file (zstd); atomic."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pa.Table.from_pylist([dict(row) for row in rows])
    except UnicodeEncodeError:  # half of a surrogate pair, which Parquet has no form for
        table = pa.Table.from_pylist([_encodable(dict(row)) for row in rows])
    with atomic_write(path) as handle:
        pq.write_table(table, handle, compression="zstd")


def encodable(text: str) -> str:
    """`text` with ``?`` for each half of a surrogate pair (JSON can hold one, a model emit one)."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, Mapping):
        return {_encodable(k): _encodable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encodable(v) for v in value]
    return value


def verl_row(
    task: Mapping[str, Any],
    *,
    env_id: str,
    split: str,
    index: int,
    data_source: str,
    prompt: Sequence[Mapping[str, str]],
    ground_truth: str,
    kwargs: Mapping[str, Any] | None = None,
    ability: str = "agent",
    agent_name: str = "agentr1_gym_step",
) -> dict[str, Any]:
    """A task as a row of verl's data schema; ``env_kwargs`` is JSON for `make_agent_env`."""
    env_kwargs = {
        "env_id": env_id,
        "kwargs": {"split": split, **(kwargs or {})},
        "options": {"task": dict(task)},
    }
    return {
        "data_source": data_source,
        "agent_name": agent_name,
        "prompt": [dict(message) for message in prompt],
        "ability": ability,
        "reward_model": {"style": "rule", "ground_truth": ground_truth},
        "extra_info": {"index": index, "split": split, "task_id": str(task["task_id"])},
        "env_kwargs": json.dumps(env_kwargs, ensure_ascii=False),
    }
