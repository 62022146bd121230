"""The shop's catalog: products, their search index and goals, memory-mapped from one folder.

A catalog folder (written by `convert`) holds::

    meta.json      format, counts, sources and their hashes, seed, noun source, problems by reason
    text.bin       all texts of all products, UTF-8, field after field
    starts.npy     int64 [N]     where a product's texts start in text.bin
    lengths.npy    uint32 [N, F] the length of each of the F fields, in bytes
    nouns.bin, noun_starts.npy   the nouns of each title
    asins.npy      S10 [N]       ascending: a row is found by bisection, search ties break by ASIN
    prices.npy     float64 [N]   the price of each product; ranges were drawn once
    file_order.npy uint32 [N]    rows in the order of the source file
    index/         BM25 index over the products' documents
    goals_human/, goals_synthetic/   see `goals`
    problems.jsonl each oddity of the sources

Any number of environments and processes open the same folder; the pages are shared by the kernel.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.webshop.goals import GoalFiles, GoalSet

FORMAT = "agentr1-webshop-catalog"
VERSION = 1
SEARCH_RESULTS = 50
GOAL_KINDS = ("human", "synthetic")

#: The fields of text.bin, in order; lists and dicts are JSON.
FIELDS = (
    "title",
    "price_tag",
    "description",
    "bullets",
    "options",
    "attributes",
    "product_category",
    "query",
    "category",
)
#: The files whose sizes meta.json records; the index keeps its own.
FILES = (
    "text.bin",
    "starts.npy",
    "lengths.npy",
    "nouns.bin",
    "noun_starts.npy",
    "asins.npy",
    "prices.npy",
    "file_order.npy",
    *(
        f"goals_{kind}/{name}"
        for kind in GOAL_KINDS
        for name in ("base.bin", "base_starts.npy", "first.npy", "weights.npy", "order.npy")
    ),
)
_META = {"key": str, "products": int, "noun_source": str, "files": dict, "index": str}
_COLUMN = {name: number for number, name in enumerate(FIELDS)}
MAX_QUERY_CHARS = 4096
_PRODUCT_CACHE = 1024
_SEARCH_CACHE = 4096


@dataclass(slots=True, frozen=True)
class Product:
    """One product as the shop sells it. Treat it as read-only: it is shared by all environments."""

    row: int
    asin: str
    title: str
    price_tag: str
    description: str
    bullets: list[str]
    options: dict[str, list[str]]
    attributes: list[str]
    product_category: str
    query: str
    category: str
    price: float
    nouns: list[str]


class Catalog:
    """A catalog folder, opened read-only. Use `open_catalog`, which shares it in the process.

    Raises:
        EnvironmentFault: The folder is no catalog, of another version, or damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.meta = read_meta(self.path)
        self._check_sizes()
        try:
            self._text = map_bytes(self.path / "text.bin")
            self._starts = map_array(self.path / "starts.npy")
            self._lengths = map_array(self.path / "lengths.npy")
            self._nouns = map_bytes(self.path / "nouns.bin")
            self._noun_starts = map_array(self.path / "noun_starts.npy")
            self._asins = map_array(self.path / "asins.npy")
            self._prices = map_array(self.path / "prices.npy")
            self._file_order = map_array(self.path / "file_order.npy")
            # Mapped now: a new catalog in the same folder must not be mixed with this one.
            self._goals = {kind: GoalFiles.open(self.path / f"goals_{kind}") for kind in GOAL_KINDS}
        except (OSError, ValueError) as error:
            raise EnvironmentFault(f"catalog {self.path} is damaged: {error}") from None
        self._products: OrderedDict[int, Product] = OrderedDict()
        self._cards: OrderedDict[int, tuple[str, str, str]] = OrderedDict()
        self._searches: OrderedDict[str, list[int]] = OrderedDict()
        self._index: Any = None
        self.stamp = ""
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy, in whatever process, maps the same files.
        return open_catalog, (str(self.path),)

    def _check_sizes(self) -> None:
        for name, size in self.meta["files"].items():
            try:
                found = (self.path / name).stat().st_size
            except OSError as error:
                raise EnvironmentFault(f"catalog {self.path} is damaged: {error}") from None
            if found != size:
                raise EnvironmentFault(
                    f"catalog {self.path} is damaged: {name} has {found} bytes, expected {size}; "
                    "make it again with `agentr1 prepare webshop --force`"
                )

    def check(self) -> Catalog:
        """This catalog, its index opened too (that is otherwise done at the first search).

        Raises:
            EnvironmentFault: The index is damaged.
        """
        self._search_index()
        return self

    def __len__(self) -> int:
        return len(self._starts)

    def __repr__(self) -> str:
        return f"Catalog({str(self.path)!r}, {len(self)} products)"

    @property
    def noun_source(self) -> str:
        """Where the nouns of the type score come from: spacy, heuristic or generator."""
        return self.meta["noun_source"]

    @property
    def hash(self) -> str:
        """Hexadecimal digest of what the catalog was made from."""
        return self.meta["key"]

    # --- products --------------------------------------------------------------------------------

    def row_of(self, asin: str) -> int:
        """The row of `asin`; -1 when there is no such product."""
        key = asin.encode("utf-8", "replace")
        row = int(np.searchsorted(self._asins, np.bytes_(key)))
        return row if row < len(self) and self._asins[row] == key else -1

    def asin(self, row: int) -> str:
        """The ASIN of a row."""
        return self._asins[row].decode("ascii")

    def field(self, row: int, name: str) -> str:
        """One text of a product, undecoded where it is JSON."""
        column = _COLUMN[name]
        lengths = self._lengths[row]
        start = int(self._starts[row]) + int(lengths[:column].sum())
        return self._text[start : start + int(lengths[column])].decode("utf-8")

    def card(self, row: int) -> tuple[str, str, str]:
        """(ASIN, title, price tag), the first fields: what a result page shows of a product."""
        card = self._cards.get(row)
        if card is None:
            start, (title, price, *_) = int(self._starts[row]), self._lengths[row].tolist()
            text = self._text[start : start + title + price]
            card = (self.asin(row), text[:title].decode("utf-8"), text[title:].decode("utf-8"))
            _remember(self._cards, row, card, 4 * _PRODUCT_CACHE)
        return card

    def nouns(self, row: int) -> list[str]:
        """The nouns of a product's title, lower case."""
        start, end = int(self._noun_starts[row]), int(self._noun_starts[row + 1])
        return self._nouns[start:end].decode("utf-8").split("\n") if end > start else []

    def product(self, row: int) -> Product:
        """All of a product."""
        product = self._products.get(row)
        if product is None:
            product = self._read(row)
            _remember(self._products, row, product, _PRODUCT_CACHE)
        return product

    def _read(self, row: int) -> Product:
        start, lengths = int(self._starts[row]), self._lengths[row].tolist()
        blob = self._text[start : start + sum(lengths)]
        texts, at = [], 0
        for length in lengths:
            texts.append(blob[at : at + length].decode("utf-8"))
            at += length
        title, price_tag, description, bullets, options, attributes, places, query, category = texts
        return Product(
            row=row,
            asin=self.asin(row),
            title=title,
            price_tag=price_tag,
            description=description,
            bullets=json.loads(bullets),
            options=json.loads(options),
            attributes=json.loads(attributes),
            product_category=places,
            query=query,
            category=category,
            price=float(self._prices[row]),
            nouns=self.nouns(row),
        )

    def forget(self) -> None:
        """Drop the products and results that were read; for measurements."""
        self._products.clear()
        self._cards.clear()
        self._searches.clear()

    def rows_in_file_order(self) -> np.ndarray:
        """All rows, uint32 [N], in the order of the source file."""
        return self._file_order

    # --- search and goals ------------------------------------------------------------------------

    def search(self, query: str, k: int = SEARCH_RESULTS) -> list[int]:
        """The rows of the best `k` products, best first; ties by ASIN ascending.

        Only the first `MAX_QUERY_CHARS` characters are searched, so that no query takes long.
        """
        query = query[:MAX_QUERY_CHARS]
        found = self._searches.get(query)
        if found is None:
            found = self._search_index().search(query, k)
            _remember(self._searches, query, found, _SEARCH_CACHE)
        return found

    def _search_index(self) -> Any:
        if self._index is None:
            from agentr1_envs.webshop.search import ProductIndex

            with self._lock:
                if self._index is None:
                    self._index = ProductIndex(self.path / "index", self.meta["index"])
        return self._index

    def goals(self, kind: str) -> GoalSet:
        """The goals of a kind, ``"human"`` or ``"synthetic"``, in their fixed order."""
        if kind not in GOAL_KINDS:
            raise ValueError(f"unknown goals {kind!r}: expected one of {GOAL_KINDS}")
        return GoalSet(kind, self._goals[kind], self)


def read_meta(path: Path) -> dict[str, Any]:
    """The meta.json of a catalog folder.

    Raises:
        EnvironmentFault: There is none, or it is not this format and version.
    """
    how = "make one with `agentr1 prepare webshop`"
    try:
        meta = json.loads((path / "meta.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EnvironmentFault(f"{path} is no WebShop catalog (no meta.json): {how}") from None
    except (OSError, ValueError) as error:
        raise EnvironmentFault(f"{path / 'meta.json'} can't be read ({error}): {how}") from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise EnvironmentFault(f"{path} is no WebShop catalog: {how}")
    if meta.get("version") != VERSION:
        found = meta.get("version")
        raise EnvironmentFault(f"catalog {path} has version {found}, expected {VERSION}: {how}")
    for name, kind in _META.items():
        if not isinstance(meta.get(name), kind):
            raise EnvironmentFault(
                f"{path / 'meta.json'} is damaged: {name} is {meta.get(name)!r}: {how}"
            )
    return meta


# A process may pass through many catalogs, and each holds some thirty file descriptors: those that
# nobody uses are closed, but for the last few, so that environments made one after another share.
_open: WeakValueDictionary[str, Catalog] = WeakValueDictionary()
_recent: deque[Catalog] = deque(maxlen=4)
_open_lock = threading.Lock()


def open_catalog(path: str | os.PathLike[str]) -> Catalog:
    """The catalog in `path`, opened once per process and shared by all environments in it."""
    real = os.path.realpath(path)
    with _open_lock:
        stamp = ""
        try:
            status = os.stat(os.path.join(real, "meta.json"))
            stamp = f"{status.st_mtime_ns}-{status.st_ino}"
        except OSError:
            pass  # Catalog() says what is wrong
        catalog = _open.get(real)
        if catalog is None or catalog.stamp != stamp:
            catalog = _open[real] = Catalog(real)
            catalog.stamp = stamp
        if catalog not in _recent:
            _recent.append(catalog)
        return catalog


def map_bytes(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""  # an empty file can't be mapped
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def map_array(path: Path) -> np.ndarray:
    # A plain ndarray over the mapping: items of np.memmap cost several times as much.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False)).view(np.ndarray)


def _remember(cache: OrderedDict[Any, Any], key: Any, value: Any, limit: int) -> None:
    cache[key] = value
    if len(cache) > limit:
        with contextlib.suppress(KeyError):  # another thread emptied it first
            cache.popitem(last=False)
