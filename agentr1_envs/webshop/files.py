"""The public WebShop files as a `Source` for `convert.build_catalog`."""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from agentr1_envs.errors import TaskDataError
from agentr1_envs.webshop.convert import Annotation, Source
from agentr1_envs.webshop.json_stream import JsonWindow, iter_array, iter_items
from agentr1_envs.webshop.nouns import NounFinder
from agentr1_envs.webshop.official import MAX_ASIN, text_list

#: dataset_mode -> names of (products, attributes, human goals) as they are published
FILES = {
    "small": ("items_shuffle_1000.json", "items_ins_v2_1000.json", "items_human_ins.json"),
    "full": ("items_shuffle.json", "items_ins_v2.json", "items_human_ins.json"),
}
OnBytes = Callable[[int], None]


def find_files(input_dir: str | os.PathLike[str], mode: str) -> tuple[Path, Path, Path]:
    """The three files of a dataset mode.

    Raises:
        TaskDataError: One is missing; the message lists what was looked for.
    """
    folder = Path(input_dir)
    paths = tuple(folder / name for name in FILES[mode])
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise TaskDataError(
            str(folder),
            f"the files {', '.join(FILES[mode])} (--dataset_mode {mode})",
            value=missing,
        )
    return paths  # type: ignore[return-value]


def file_hash(path: Path, on_bytes: OnBytes | None = None) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(4 << 20):
            digest.update(chunk)
            if on_bytes is not None:
                on_bytes(len(chunk))
    return digest.hexdigest()


class Spool:
    """A JSON object of objects by ASIN, copied to an unnamed file: little of it stays in memory.

    Args:
        path: The JSON file.
        file: An open binary file for reading and writing, at its end.
        pick: What to keep of a value; None drops it.
    """

    def __init__(
        self,
        path: Path,
        file: IO[bytes],
        pick: Callable[[Any], Any],
        on_bytes: OnBytes | None = None,
    ) -> None:
        self._file = file
        keys, starts = bytearray(), array("q", [file.seek(0, os.SEEK_END)])
        with JsonWindow(path, on_bytes) as window:
            for asin, value in iter_items(window):
                kept = pick(value)
                # A product with such an ASIN is skipped itself.
                if kept is None or len(asin) > MAX_ASIN or not asin.isascii():
                    continue
                packed = json.dumps(kept, separators=(",", ":")).encode("ascii")
                keys += asin.encode("ascii").ljust(MAX_ASIN, b"\0")
                starts.append(starts[-1] + file.write(packed))
        file.flush()
        names = np.frombuffer(bytes(keys), dtype=f"S{MAX_ASIN}")
        self._order = np.argsort(names, kind="stable")
        self._names = names[self._order]
        self._starts = np.frombuffer(starts, dtype=np.int64)

    def get(self, asin: str) -> Any:
        """What was kept of an ASIN's value, or None."""
        key = asin.encode("ascii")
        # The last one counts where a key occurs twice, as in any JSON reader.
        place = int(np.searchsorted(self._names, np.bytes_(key), side="right")) - 1
        if place < 0 or self._names[place] != key:
            return None
        entry = int(self._order[place])
        start, end = int(self._starts[entry]), int(self._starts[entry + 1])
        return json.loads(os.pread(self._file.fileno(), end - start, start))


def _pick_annotation(value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    attributes, instruction = value.get("attributes"), value.get("instruction")
    return [
        [a for a in attributes if isinstance(a, str)] if isinstance(attributes, list) else [],
        instruction if isinstance(instruction, str) else None,
        text_list(value.get("instruction_attributes")),
    ]


def read_products(path: Path, on_bytes: OnBytes | None = None) -> Iterator[Any]:
    """The records of ``items_shuffle*.json``, one at a time."""
    with JsonWindow(path, on_bytes) as window:
        yield from iter_array(window)


def source_of_files(
    paths: tuple[Path, Path, Path],
    spool: IO[bytes],
    *,
    nouns: Callable[[Iterable[str]], Iterator[list[str]]] | NounFinder,
    noun_source: str,
    key: dict[str, Any],
    on_bytes: OnBytes | None = None,
) -> Source:
    """A `Source` over the three public files."""
    products, attributes, human = paths
    notes = Spool(attributes, spool, _pick_annotation, on_bytes)
    goals = Spool(human, spool, lambda value: value, on_bytes)

    def annotation(asin: str) -> Annotation | None:
        entry = notes.get(asin)
        return None if entry is None else Annotation(*entry)

    return Source(
        records=read_products(products, on_bytes),
        annotation=annotation,
        human=goals.get,
        key=key,
        noun_source=noun_source,
        nouns=nouns,
    )


def files_key(paths: Iterable[Path], noun_source: str, on_bytes: OnBytes | None) -> dict[str, Any]:
    """What a catalog of these files depends on, its seed aside."""
    files = {
        path.name: {"sha256": file_hash(path, on_bytes), "bytes": path.stat().st_size}
        for path in paths
    }
    return {"files": files, "nouns": noun_source}
