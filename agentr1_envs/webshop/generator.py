"""Generated catalogs of any size: product `i` depends on the seed and `i` alone.

Records, annotations and human goals have the form of the public files, so a generated catalog goes
through the same conversion as the official one, and can be written as files for other programs.
Each product has `GOALS_PER_PRODUCT` human goals; the goal order keeps the products of the splits
apart. A goal asks only for what its product has, so buying that product with the named options
scores 1.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from agentr1_envs.seeding import derive_random
from agentr1_envs.webshop.convert import Annotation, Source
from agentr1_envs.webshop.goals import disjoint_order

GENERATOR_VERSION = 1
DEFAULT_SIZE = 1000
GOALS_PER_PRODUCT = 4
MAX_SIZE = 36**8

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_STRIDE = 1_618_033_988_749 % MAX_SIZE | 1  # odd and no multiple of 3: coprime to 36**8
_STRIDE += 2 if _STRIDE % 3 == 0 else 0
_INVERSE = pow(_STRIDE, -1, MAX_SIZE)
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")

T = TypeVar("T")


@dataclass(frozen=True)
class Family:
    """A family of products: where it is listed, what it is called, what it comes in."""

    category: str
    path: str
    query: str
    nouns: list[str]
    uses: list[str]
    options: list[str]
    price: tuple[float, float]
    kind: str


@lru_cache(maxsize=1)
def vocabulary() -> dict[str, Any]:
    """The words of generated catalogs (words.json), with ``families`` as `Family` objects."""
    path = Path(__file__).with_name("words.json")
    words = json.loads(path.read_text(encoding="utf-8"))
    words["families"] = [Family(**family) for family in words["families"]]
    return words


def asin_of(index: int) -> str:
    """The ASIN of product `index`: ``B0`` and eight base-36 digits, scattered and unique."""
    number, digits = index * _STRIDE % MAX_SIZE, []
    for _ in range(8):
        number, digit = divmod(number, 36)
        digits.append(_DIGITS[digit])
    return "B0" + "".join(reversed(digits))


def index_of(asin: str) -> int:
    """The inverse of `asin_of`."""
    return int(asin[2:], 36) * _INVERSE % MAX_SIZE


def _pick(rng: random.Random, values: Sequence[T]) -> T:
    return values[int(rng.random() * len(values))]


def _some(rng: random.Random, values: Sequence[T], count: int) -> list[T]:
    pool = list(values)
    for place in range(min(count, len(pool))):
        other = place + int(rng.random() * (len(pool) - place))
        pool[place], pool[other] = pool[other], pool[place]
    return pool[:count]


class Generator:
    """Products, annotations and goals of one generated world.

    Args:
        size: Number of products.
        seed: Names the world.
    """

    def __init__(self, size: int = DEFAULT_SIZE, seed: int = 0) -> None:
        if not 1 <= size <= MAX_SIZE:
            raise ValueError(f"size must be from 1 to {MAX_SIZE}, got {size}")
        self.size, self.seed = size, seed
        self.words = vocabulary()
        self.make = lru_cache(maxsize=64)(self._make)

    def record(self, index: int) -> dict[str, Any]:
        """Product `index` in the form of the public product file."""
        return self.make(index)[0]

    def _make(self, index: int) -> tuple[dict[str, Any], Annotation, list[dict[str, Any]]]:
        rng = derive_random("webshop-product", GENERATOR_VERSION, self.seed, index)
        words = self.words
        family = _pick(rng, words["families"])
        noun, use, use2 = _pick(rng, family.nouns), *_some(rng, family.uses, 2)
        brand = (_pick(rng, words["syllables"]) + _pick(rng, words["syllables"])).capitalize()
        brand += _pick(rng, words["endings"])
        model = "".join(_pick(rng, _DIGITS[10:]) for _ in range(2)) + str(
            100 + int(rng.random() * 9900)
        )
        attributes = _some(rng, words["attributes"][family.kind], 3 + int(rng.random() * 3))
        options = self._options(rng, family)
        titled = attributes[: int(rng.random() * 3)]
        title = " ".join(
            [brand, model, *(a.title() for a in titled), noun.title(), "for", use.title()]
        )
        fill = {
            "brand": brand,
            "model": model,
            "noun": noun,
            "use": use,
            "use2": use2,
            "material": _pick(rng, words["materials"]),
            "count": sum(map(len, options.values())),
        }
        lines = [
            _pick(rng, words["promises"]).format(attr=attribute, **fill) for attribute in attributes
        ]
        lines += [line.format(**fill) for line in _some(rng, words["bullets"], 2)]
        bullets = _some(rng, lines, len(lines))
        described = _some(rng, words["descriptions"], 4)
        description = " ".join(s.format(attr=attributes[-1], **fill) for s in described)
        record = {
            "asin": asin_of(index),
            "name": title,
            "brand": brand,
            "full_description": description,
            "small_description": bullets,
            "pricing": self._pricing(rng, family),
            "images": [f"https://images.invalid/{asin_of(index)}.jpg"],
            "product_category": family.path,
            "category": family.category,
            "query": family.query,
            "customization_options": {
                name: [{"value": value, "image": None} for value in values]
                for name, values in options.items()
            },
        }
        asked = attributes[: 1 + int(rng.random() * 2)]
        annotation = Annotation(
            attributes, f"Find me {', '.join(asked)} {family.query} for {use}", asked
        )
        goals = [
            self._goal(rng, record, family, attributes, options, noun, use)
            for _ in range(GOALS_PER_PRODUCT)
        ]
        return record, annotation, goals

    def _options(self, rng: random.Random, family: Family) -> dict[str, list[str]]:
        draw = rng.random()
        names = family.options if draw < 0.75 else family.options[: 1 if draw < 0.97 else 0]
        options = {}
        for name in names:
            values = self.words["options"][name]["values"]
            count = min(len(values), 2 + int(rng.random() * 5))
            chosen = set(_some(rng, values, count))
            options[name] = [value for value in values if value in chosen]
        return options

    def _pricing(self, rng: random.Random, family: Family) -> str:
        low, high = family.price
        price = low + (high - low) * rng.random() ** 2
        draw = rng.random()
        if draw < 0.05:
            return ""
        if draw < 0.2:
            return f"${price:.2f} - ${price * (1.1 + rng.random() / 2):.2f}"
        return f"${price:.2f}"

    def _goal(
        self,
        rng: random.Random,
        record: dict[str, Any],
        family: Family,
        attributes: list[str],
        options: dict[str, list[str]],
        noun: str,
        use: str,
    ) -> dict[str, Any]:
        asked = _some(rng, attributes, 1 + int(rng.random() * 2))
        # One goal in eight leaves an option open, as people do.
        named = [name for name in options if len(options) == 1 or rng.random() < 0.875]
        values = [_pick(rng, options[name]) for name in named]
        phrases = [
            self.words["options"][name]["phrase"].format(value)
            for name, value in zip(named, values, strict=True)
        ]
        kind = noun if rng.random() < 0.6 else family.query
        text = _pick(rng, self.words["requests"]).format(
            attr=" and ".join(asked),
            noun=kind,
            use=use,
            options="".join(f" {phrase}" for phrase in phrases),
        )
        return {
            "asin": record["asin"],
            "instruction": text + ".",
            "attributes": attributes,
            "options": [f"{n}: {v}" for n, v in zip(named, values, strict=True)],
            "instruction_attributes": asked,
            "instruction_options": values,
            "assignment_id": "generated",
            "worker_id": "generated",
        }

    # --- as a source -----------------------------------------------------------------------------

    def source(self) -> Source:
        """This world as a source of `convert.build_catalog`."""
        return Source(
            records=map(self.record, range(self.size)),
            annotation=lambda asin: self.make(index_of(asin))[1],
            human=lambda asin: self.make(index_of(asin))[2],
            key=self.key,
            noun_source="generator",
            nouns=generator_nouns,
            order=partial(disjoint_order, seed=self.seed),
            total=self.size,
        )

    @property
    def key(self) -> dict[str, Any]:
        """What a catalog of this world depends on."""
        return {"generator": GENERATOR_VERSION, "size": self.size, "world": self.seed}

    def write_files(
        self, folder: str | os.PathLike[str], *, human: int | None = None
    ) -> tuple[Path, Path, Path]:
        """Write the world in the form of the three public files; each is replaced when complete.

        Args:
            folder: Where they go.
            human: Only so many products have human goals; None: all.
        """
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        worlds = map(self.make, range(self.size))
        names = ("items_shuffle.json", "items_ins_v2.json", "items_human_ins.json")
        paths = tuple(target / name for name in names)
        parts = [path.with_name(f".{path.name}.partial-{os.getpid()}") for path in paths]
        products, notes, humans = (part.open("w", encoding="utf-8") for part in parts)
        with products, notes, humans:
            for file, mark in ((products, "["), (notes, "{"), (humans, "{")):
                file.write(mark)
            for number, (record, note, goals) in enumerate(worlds):
                comma = ",\n" if number else "\n"
                key = json.dumps(record["asin"])
                entry = {
                    "attributes": note.attributes,
                    "instruction": note.instruction,
                    "instruction_attributes": note.instruction_attributes,
                }
                products.write(comma + json.dumps(record, ensure_ascii=False))
                notes.write(f"{comma}{key}: {json.dumps(entry, ensure_ascii=False)}")
                if human is None or number < human:
                    humans.write(f"{comma}{key}: {json.dumps(goals, ensure_ascii=False)}")
            for file, mark in ((products, "]"), (notes, "}"), (humans, "}")):
                file.write(f"\n{mark}\n")
        for part, path in zip(parts, paths, strict=True):
            os.replace(part, path)
        return paths  # type: ignore[return-value]


def _known_nouns() -> frozenset[str]:
    words = vocabulary()
    texts = [text for family in words["families"] for text in (*family.nouns, *family.uses)]
    return frozenset(word for text in texts for word in _WORD.findall(text)) - set(
        words["not_nouns"]
    )


def generator_nouns(titles: Iterable[str]) -> Iterator[list[str]]:
    """The nouns of generated titles: brand, model, kinds of products and uses."""
    known = _known_nouns()
    for title in titles:
        found = _WORD.findall(title.lower())
        yield found[:2] + [word for word in found[2:] if word in known]
