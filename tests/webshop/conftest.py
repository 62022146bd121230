"""Catalogs for the shop's tests: the recorded one, and small ones made here."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentr1_envs.webshop import convert, files, nouns
from agentr1_envs.webshop.catalog import Catalog, open_catalog

GOLDEN = ("items_shuffle_1000.json", "items_ins_v2_1000.json", "items_human_ins.json")


@pytest.fixture(scope="session", autouse=True)
def shop_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The generated catalog is made here, not in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("cache")
        patch.setenv("AGENTR1_CACHE", str(path))
        yield path


@pytest.fixture(scope="session")
def golden(shared: Path) -> Path:
    return shared / "golden" / "webshop"


@pytest.fixture(scope="session")
def transcripts(golden: Path) -> dict[str, Any]:
    return json.loads((golden / "transcripts.json").read_text(encoding="utf-8"))


def convert_files(
    paths: tuple[Path, Path, Path], out: Path, noun_source: str = "heuristic", **kwargs: Any
) -> Catalog:
    """The published way from three files to an open catalog."""
    with tempfile.TemporaryFile() as spool:
        source = files.source_of_files(
            paths,
            spool,
            nouns=nouns.noun_finder(noun_source),
            noun_source=noun_source,
            key=files.files_key(paths, noun_source, None),
        )
        convert.build_catalog(source, out, **kwargs)
    return open_catalog(out)


@pytest.fixture(scope="session")
def recorded(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """The catalog of the recorded episodes, with the tagger's nouns."""
    if missing := nouns.spacy_missing():
        pytest.skip(missing)
    paths = tuple(golden / name for name in GOLDEN)
    return convert_files(paths, tmp_path_factory.mktemp("recorded") / "shop", "spacy")  # type: ignore[arg-type]


def product(asin: str = "B000000001", **changes: Any) -> dict[str, Any]:
    """A product record in the public form."""
    record = {
        "asin": asin,
        "name": f"Acme Running Shoes {asin}",
        "full_description": "Shoes for running.",
        "small_description": ["rubber sole", "light"],
        "pricing": "$12.99",
        "images": ["https://images.invalid/1.jpg"],
        "product_category": "Clothing › Men › Shoes",
        "category": "fashion",
        "query": "Men's Shoes ",
        "customization_options": {
            "Color": [{"value": "Red"}, {"value": "Blue/White"}],
            "Size": [{"value": "9"}, {"value": "10"}],
        },
    }
    record.update(changes)
    return record


def human_goal(asin: str, **changes: Any) -> dict[str, Any]:
    """A human goal in the public form."""
    goal = {
        "asin": asin,
        "instruction": "i need red shoes.",
        "instruction_attributes": ["rubber sole"],
        "instruction_options": ["red", "9"],
    }
    goal.update(changes)
    return goal


MakeShop = Callable[..., Catalog]


@pytest.fixture
def make_shop(tmp_path: Path) -> MakeShop:
    """Write the three public files with the given content and convert them."""

    def make(
        products: list[Any],
        annotations: dict[str, Any] | None = None,
        humans: dict[str, Any] | None = None,
        out: str = "shop",
        **kwargs: Any,
    ) -> Catalog:
        if annotations is None:
            annotations = {
                p["asin"]: {
                    "attributes": ["rubber sole"],
                    "instruction": "Find me rubber sole shoes",
                    "instruction_attributes": ["rubber sole"],
                }
                for p in products
                if isinstance(p, dict) and isinstance(p.get("asin"), str)
            }
        if humans is None:
            humans = {asin: [human_goal(asin)] for asin in annotations}
        folder = tmp_path / "files"
        folder.mkdir(exist_ok=True)
        for name, content in zip(GOLDEN, (products, annotations, humans), strict=True):
            (folder / name).write_text(json.dumps(content), encoding="utf-8")
        paths = tuple(folder / name for name in GOLDEN)
        return convert_files(paths, tmp_path / out, **kwargs)  # type: ignore[arg-type]

    return make
