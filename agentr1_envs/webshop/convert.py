"""Conversion of the public product files (or generated records) into a catalog folder.

One pass over the product file writes the texts; what needs all products (ASIN order, prices, goals,
nouns, index) follows from what was written, so memory does not grow with the texts. The folder is
built beside its place and renamed when complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import random
import shutil
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from agentr1_envs.errors import EnvironmentFault, TaskDataError
from agentr1_envs.webshop import goals as goal_files
from agentr1_envs.webshop.catalog import FIELDS, FILES, FORMAT, VERSION
from agentr1_envs.webshop.folders import check_target, is_usable, remove_stale, replace
from agentr1_envs.webshop.nouns import MODEL_SHA256, NounFinder
from agentr1_envs.webshop.official import RawProduct, Report, parse_product, text_list

DEFAULT_SEED = 12345

Progress = Callable[[str, int, int | None], None]
"""Called with a stage's name, the steps just done and their total where it is known."""


class Annotation(NamedTuple):
    """What the attribute file says of a product."""

    attributes: list[str]
    instruction: str | None
    instruction_attributes: list[str] | None


@dataclass
class Source:
    """Where a catalog's content comes from.

    Attributes:
        records: Product records in the public form, in their order.
        annotation: The attributes and synthetic instruction of an ASIN, or None.
        human: The human goals of an ASIN, in the public form.
        key: What the content depends on, JSON; equal keys mean equal catalogs.
        noun_source: Name of the noun finder.
        nouns: The noun finder.
        order: Order of the goals, see `goals.write_goals`.
        total: Number of records, where known.
    """

    records: Iterable[Any]
    annotation: Callable[[str], Annotation | None]
    human: Callable[[str], Any]
    key: dict[str, Any]
    noun_source: str
    nouns: Callable[[Iterable[str]], Iterator[list[str]]] | NounFinder
    order: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    total: int | None = None


@dataclass
class Problems:
    """Counts and lists the oddities of the sources."""

    path: Path
    counts: Counter[str] = field(default_factory=Counter)
    limit: int = 1_000_000

    def __post_init__(self) -> None:
        self._file = self.path.open("w", encoding="utf-8")

    def add(self, reason: str, where: str, value: Any) -> None:
        """Note one; `where` names the record."""
        self.counts[reason] += 1
        if self.counts[reason] <= self.limit:
            line = {"reason": reason, "where": where, "value": repr(value)[:200]}
            # ASCII: the value may hold what UTF-8 can't.
            self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """Finish the list."""
        self._file.close()


def source_key(key: dict[str, Any]) -> str:
    """Hexadecimal digest of a source's key."""
    text = json.dumps({"version": VERSION, **key}, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def build_catalog(
    source: Source,
    out: str | os.PathLike[str],
    *,
    seed: int = DEFAULT_SEED,
    workers: int = 1,
    keep_equal: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the catalog folder `out` from `source`; an older catalog there is replaced at the end.

    Args:
        source: The content.
        out: The folder.
        seed: Draws prices and caps.
        workers: Processes that index texts.
        keep_equal: Leave a catalog alone that another process made of the same source meanwhile.
        progress: Hears of the work done.

    Returns:
        The new meta.json.

    Raises:
        TaskDataError: A source can't be used at all, or `out` is a folder of something else.
    """
    target = Path(out)
    check_target(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_stale(target)
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    partial.mkdir()
    try:
        meta = _Build(partial, source, seed, workers, progress or (lambda *_: None)).run()
        if not (keep_equal and is_usable(target, meta["key"])):
            replace(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return meta


class _Build:
    def __init__(
        self, folder: Path, source: Source, seed: int, workers: int, progress: Progress
    ) -> None:
        self.folder, self.source, self.seed = folder, source, seed
        self.workers, self.progress = workers, progress
        self.problems = Problems(folder / "problems.jsonl")
        # In file order, one entry a product:
        self.asins = bytearray()
        self.starts, self.lengths = array("q"), array("I")
        self.low, self.high = array("d"), array("d")
        self.combinations = array("q")

    def run(self) -> dict[str, Any]:
        self.write_texts()
        count = len(self.starts)
        if count == 0:
            raise TaskDataError(str(self.source.key), "at least one product that can be sold")
        names = np.frombuffer(bytes(self.asins), dtype="S10")
        by_asin = np.argsort(names, kind="stable")
        row_of = np.empty(count, dtype=np.uint32)
        row_of[by_asin] = np.arange(count, dtype=np.uint32)
        np.save(self.folder / "asins.npy", names[by_asin])
        np.save(self.folder / "file_order.npy", row_of)
        np.save(self.folder / "starts.npy", np.frombuffer(self.starts, np.int64)[by_asin])
        lengths = np.frombuffer(self.lengths, np.uint32).reshape(count, len(FIELDS))
        np.save(self.folder / "lengths.npy", lengths[by_asin])
        totals = self.draw(names, row_of, by_asin)
        with contextlib.closing(TextReader(self.folder)) as reader:
            self.write_nouns(reader)
            index = self.write_index(reader)
        self.problems.close()
        return self.write_meta(count, totals, index)

    # --- texts -----------------------------------------------------------------------------------

    def write_texts(self) -> None:
        seen: set[str] = set()
        where = ""
        told: set[str] = set()

        def report(reason: str, value: Any) -> None:
            if reason not in told:  # a product counts once for each reason
                told.add(reason)
                self.problems.add(reason, where, value)

        with (self.folder / "text.bin").open("wb", buffering=1 << 20) as file:
            at = 0
            for number, record in enumerate(self.source.records):
                self.progress("products", 1, self.source.total)
                name = record.get("asin") if isinstance(record, dict) else None
                where = f"product {number}" + (f" {name}" if isinstance(name, str) else "")
                told.clear()
                product = parse_product(record, report)
                if product is None:
                    continue
                if product.asin in seen:
                    report("duplicate_asin", product.asin)
                    continue
                seen.add(product.asin)
                note = self.source.annotation(product.asin)
                if note is not None:
                    product.attributes = note.attributes
                at += self.write_product(file, at, product, report)

    def write_product(self, file: Any, at: int, product: RawProduct, report: Report) -> int:
        data, lone = encode_product(product)
        if lone:
            report("lone_surrogates", product.title)
        self.asins += product.asin.encode("ascii").ljust(10, b"\0")
        self.starts.append(at)
        self.lengths.extend(len(part) for part in data)
        self.low.append(product.prices[0])
        self.high.append(product.prices[1] if len(product.prices) > 1 else math.nan)
        self.combinations.append(goal_files.combinations(product.options))
        return file.write(b"".join(data))

    # --- prices and goals ------------------------------------------------------------------------

    def draw(self, names: np.ndarray, row_of: np.ndarray, by_asin: np.ndarray) -> dict[str, int]:
        rng = random.Random(self.seed)
        prices = np.frombuffer(self.low, dtype=np.float64).copy()
        high = np.frombuffer(self.high, dtype=np.float64)
        for position in np.flatnonzero(~np.isnan(high)).tolist():
            prices[position] = rng.uniform(float(prices[position]), float(high[position]))
        np.save(self.folder / "prices.npy", prices[by_asin])
        state = rng.getstate()
        totals = {}
        for kind, bases in (("human", self.human_bases), ("synthetic", self.synthetic_bases)):
            rng.setstate(state)
            totals[kind] = goal_files.write_goals(
                self.folder / f"goals_{kind}",
                bases(names, prices, row_of, rng),
                rarity_weights=kind == "synthetic",
                order=self.source.order,
            )
        return totals

    def human_bases(
        self, names: np.ndarray, prices: np.ndarray, row_of: np.ndarray, rng: random.Random
    ) -> Iterator[tuple[dict[str, Any], int]]:
        for position, name in enumerate(names):
            asin = name.decode("ascii")
            entries = self.source.human(asin)
            if entries is None:
                continue
            for number, entry in enumerate(entries if isinstance(entries, list) else [entries]):
                goal = parse_human_goal(entry)
                if isinstance(goal, str):
                    self.problems.add(goal, f"human goal {number} of {asin}", entry)
                    continue
                instruction, attributes, options = goal
                cap, words = goal_files.draw_cap(float(prices[position]), rng)
                base = {
                    "row": int(row_of[position]),
                    "instruction": instruction.strip("."),
                    "cap_text": words,
                    "attributes": attributes,
                    "price_upper": cap,
                    "options": options,
                }
                yield base, 1

    def synthetic_bases(
        self, names: np.ndarray, prices: np.ndarray, row_of: np.ndarray, rng: random.Random
    ) -> Iterator[tuple[dict[str, Any], int]]:
        for position, name in enumerate(names):
            asin = name.decode("ascii")
            self.progress("goals", 1, len(names))
            note = self.source.annotation(asin)
            if note is None or note.instruction is None:
                continue
            if not note.instruction_attributes:
                self.problems.add("goal_without_attributes", f"synthetic goal of {asin}", note)
                continue
            cap, words = goal_files.draw_cap(float(prices[position]), rng)
            base = {
                "row": int(row_of[position]),
                "instruction": note.instruction,
                "cap_text": words,
                "attributes": note.instruction_attributes,
                "price_upper": cap,
                "options": None,
            }
            yield base, self.combinations[position]

    # --- what is made from the written texts -----------------------------------------------------

    def write_nouns(self, reader: TextReader) -> None:
        starts = array("q", [0])

        def titles() -> Iterator[str]:
            for row in range(len(reader)):
                self.progress("nouns", 1, len(reader))
                yield reader.texts(row, 1)[0]

        with (self.folder / "nouns.bin").open("wb", buffering=1 << 20) as file:
            for nouns in self.source.nouns(titles()):
                starts.append(starts[-1] + file.write("\n".join(nouns).encode("utf-8")))
        if len(starts) != len(reader) + 1:
            raise EnvironmentFault(
                f"noun source {self.source.noun_source!r} gave {len(starts) - 1} answers "
                f"for {len(reader)} titles"
            )
        np.save(self.folder / "noun_starts.npy", np.frombuffer(starts, dtype=np.int64))

    def write_index(self, reader: TextReader) -> str:
        from agentr1_envs.webshop.search import ProductIndex

        def documents() -> Iterator[tuple[str, str]]:
            for row, name in enumerate(np.load(self.folder / "asins.npy", mmap_mode="r")):
                self.progress("index", 1, len(reader))
                yield name.decode("ascii"), document(*reader.texts(row, 5))

        return ProductIndex.build(
            documents(), self.folder / "index", total=len(reader), workers=self.workers
        )

    def write_meta(self, count: int, totals: dict[str, int], index: str) -> dict[str, Any]:
        meta = {
            "format": FORMAT,
            "version": VERSION,
            "key": source_key({**self.source.key, "seed": self.seed}),
            "source": self.source.key,
            "products": count,
            "goals": totals,
            "seed": self.seed,
            "noun_source": self.source.noun_source,
            "noun_model": MODEL_SHA256 if self.source.noun_source == "spacy" else None,
            "index": index,
            "problems": dict(sorted(self.problems.counts.items())),
            "files": {name: (self.folder / name).stat().st_size for name in FILES},
        }
        text = json.dumps(meta, indent=2, ensure_ascii=False) + "\n"
        (self.folder / "meta.json").write_text(text, encoding="utf-8")
        return meta


class TextReader:
    """The first fields of each product while the catalog is being built, in row order.

    Read, not mapped: a mapping would keep every page that was touched in this process's memory.
    """

    def __init__(self, folder: Path) -> None:
        self._file = (folder / "text.bin").open("rb", buffering=0)
        self._starts = np.load(folder / "starts.npy")
        self._lengths = np.load(folder / "lengths.npy")

    def __len__(self) -> int:
        return len(self._starts)

    def texts(self, row: int, count: int) -> list[str]:
        """The first `count` fields of `row`, see `catalog.FIELDS`."""
        lengths = self._lengths[row, :count].tolist()
        self._file.seek(int(self._starts[row]))
        data, at, texts = self._file.read(sum(lengths)), 0, []
        for length in lengths:
            texts.append(data[at : at + length].decode("utf-8"))
            at += length
        return texts

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def encode_product(product: RawProduct) -> tuple[list[bytes], bool]:
    """The fields of a product as UTF-8, in `FIELDS` order; True when lone surrogates were lost."""

    def pack(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    texts = [
        product.title,
        product.price_tag,
        product.description,
        pack(product.bullets),
        pack(product.options),
        pack(product.attributes),
        product.product_category,
        product.query,
        product.category,
    ]
    try:
        return [text.encode("utf-8") for text in texts], False
    except UnicodeEncodeError:
        return [text.encode("utf-8", "replace") for text in texts], True


def document(title: str, _price: str, description: str, bullets: str, options: str) -> str:
    """The text that search sees of a product: title, description, first bullet, options."""
    feature: list[str] = json.loads(bullets)
    choices: dict[str, list[str]] = json.loads(options)
    listed = ", and ".join(f"{name}: {', '.join(values)}" for name, values in choices.items())
    return " ".join((title, description, feature[0] if feature else "", listed)).lower()


def parse_human_goal(entry: Any) -> tuple[str, list[str], list[str]] | str:
    """(instruction, attributes, option values) of a human goal, or why it can't be used."""
    if not isinstance(entry, dict) or not isinstance(entry.get("instruction"), str):
        return "goal_malformed"
    attributes = text_list(entry.get("instruction_attributes"))
    options = text_list(entry.get("instruction_options"))
    if attributes is None or options is None:
        return "goal_malformed"
    if not attributes:
        return "goal_without_attributes"
    return entry["instruction"], attributes, options
