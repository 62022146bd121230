"""Goals: what a shopper was told to buy. Drawn once when a catalog is made, then fixed.

A goal folder holds *base* goals (one per instruction) and an order over all goals::

    base.bin, base_starts.npy  JSON {"row", "instruction", "cap_text", "attributes",
                 "price_upper", "options"}; options is null for a synthetic goal
    first.npy    int64 [B + 1]  number of the first goal of each base goal, before shuffling
    weights.npy  float64 [B]    sampling weight of each goal of a base goal
    order.npy    uint32 [G]     the goal (before shuffling) at each position

A human goal names its option values. A synthetic base goal stands for one goal per combination of
its product's options, made when asked for: the full catalog has millions.

Prices, caps and order follow the published procedure for one seeded generator: a price per ranged
product, a cap per instruction, then a shuffle of its own (seed 233).
"""

from __future__ import annotations

import json
import math
import random
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from agentr1_envs.seeding import derive

if TYPE_CHECKING:
    from agentr1_envs.webshop.catalog import Catalog

SHUFFLE_SEED = 233
NO_CAP = 1_000_000.0
CAPS = tuple(10.0 * step for step in range(1, 100))
#: split -> [first, last) position among the goals, as published (eval is called validation here)
SPLITS: dict[str, tuple[int, int | None]] = {
    "test": (0, 500),
    "validation": (500, 1500),
    "train": (1500, None),
}


def split_range(split: str, total: int) -> range:
    """The positions of a split among `total` goals; may be empty."""
    first, last = SPLITS[split]
    return range(min(first, total), total if last is None else min(last, total))


def draw_cap(price: float, rng: random.Random) -> tuple[float, str]:
    """A price cap above `price` and the words that ask for it.

    Two of the next four multiples of ten are drawn and the larger is kept; where there are fewer
    than two below 1000, there is no cap.
    """
    above = [cap for cap in CAPS if cap > price][:4]
    if len(above) < 2:
        return NO_CAP, ""
    cap = max(rng.sample(above, 2))
    return cap, f", and price lower than {cap:.2f} dollars"


def combinations(options: Mapping[str, Sequence[str]]) -> int:
    """How many ways there are to choose a value for each option; 1 without options."""
    return math.prod(len(values) for values in options.values())


def combination(options: Mapping[str, Sequence[str]], number: int) -> dict[str, str]:
    """Choice `number`: names sorted, the last name's value varies fastest."""
    chosen: dict[str, str] = {}
    for name in sorted(options, reverse=True):
        number, place = divmod(number, len(options[name]))
        chosen[name] = options[name][place]
    return dict(reversed(chosen.items()))


def shuffled(count: int) -> np.ndarray:
    """The fixed order of `count` goals, uint32 [count]."""
    if count >= 2**32:
        raise ValueError(f"{count} goals: at most {2**32 - 1} fit the order file")
    order = array("I", range(count))
    random.Random(SHUFFLE_SEED).shuffle(order)
    return np.frombuffer(order, dtype=np.uint32) if count else np.zeros(0, np.uint32)


def disjoint_order(products: np.ndarray, counts: np.ndarray, seed: int) -> np.ndarray:
    """An order of goals whose held-out splits share no product with each other or with training.

    Args:
        products: int64 [B], the product of each base goal; equal values are neighbours.
        counts: int64 [B], how many goals each base goal stands for.
        seed: Names the draw.

    Products are taken in random order as long as all their goals fit into what is left of the
    split; a split is exactly full where small enough products exist.
    """
    rng = derive("webshop-goal-order", seed)
    first = np.concatenate(([0], np.cumsum(counts)))
    heads = np.flatnonzero(np.diff(products, prepend=-1))
    ends = np.append(heads[1:], len(products))
    spans = np.stack((first[heads], first[ends]), axis=1)
    queue = rng.permutation(len(spans))
    used = np.zeros(len(spans), dtype=bool)
    order = []
    for split in ("test", "validation"):
        positions = split_range(split, int(first[-1]))
        left, picked = len(positions), []
        for product in queue[~used[queue]]:
            size = int(spans[product, 1] - spans[product, 0])
            if size <= left:
                left -= size
                used[product] = True
                picked.append(np.arange(*spans[product]))
            if left == 0:
                break
        if left:  # no product is small enough: fall back to the published way
            return shuffled(int(first[-1]))
        order.append(rng.permutation(np.concatenate(picked)) if picked else np.zeros(0, int))
    free = np.ones(int(first[-1]), dtype=bool)
    for part in order:
        free[part] = False
    order.append(rng.permutation(np.flatnonzero(free)))
    return np.concatenate(order).astype(np.uint32)


def write_goals(
    folder: Path,
    bases: Iterable[tuple[dict[str, Any], int]],
    *,
    rarity_weights: bool,
    order: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> int:
    """Write a goal folder.

    Args:
        folder: Made here.
        bases: (base goal, number of goals it stands for), in the order of the product file.
        rarity_weights: Weight goals by mean(1 / number of goals with the attribute); else 1.
        order: ``order(products, counts)`` gives the goal at each position, from the row and the
            number of goals of each base goal; None shuffles as published.

    Returns:
        The number of goals.
    """
    folder.mkdir(parents=True)
    starts, first, attributes = array("q", [0]), array("q", [0]), []
    rows, counts = array("q"), Counter[str]()
    with (folder / "base.bin").open("wb") as file:
        for base, goals in bases:
            data = json.dumps(base, ensure_ascii=False, separators=(",", ":"))
            starts.append(starts[-1] + file.write(data.encode("utf-8", "replace")))
            first.append(first[-1] + goals)
            rows.append(base["row"])
            if rarity_weights:
                attributes.append(tuple(base["attributes"]))
                for attribute in base["attributes"]:
                    counts[attribute] += goals
    if rarity_weights:
        weights = [sum(1.0 / counts[name] for name in names) / len(names) for names in attributes]
    else:
        weights = [1.0] * (len(first) - 1)
    total = first[-1]
    np.save(folder / "base_starts.npy", np.frombuffer(starts, dtype=np.int64))
    np.save(folder / "first.npy", np.frombuffer(first, dtype=np.int64))
    np.save(folder / "weights.npy", np.asarray(weights, dtype=np.float64))
    sizes = np.diff(np.frombuffer(first, dtype=np.int64))
    places = shuffled(total) if order is None else order(np.asarray(rows, dtype=np.int64), sizes)
    np.save(folder / "order.npy", places)
    return total


class GoalFiles(NamedTuple):
    """The mapped files of a goal folder."""

    base: Any
    starts: np.ndarray
    first: np.ndarray
    weights: np.ndarray
    order: np.ndarray

    @classmethod
    def open(cls, folder: Path) -> GoalFiles:
        """Map them."""
        from agentr1_envs.webshop.catalog import map_array, map_bytes

        names = ("base_starts.npy", "first.npy", "weights.npy", "order.npy")
        return cls(map_bytes(folder / "base.bin"), *(map_array(folder / name) for name in names))


class GoalSet:
    """The goals of one kind; position i is the same goal everywhere."""

    def __init__(self, kind: str, files: GoalFiles, catalog: Catalog) -> None:
        self.kind, self._catalog = kind, catalog
        self._base, self._starts, self._first, self._weights, self._order = files

    def __len__(self) -> int:
        return len(self._order)

    @property
    def bases(self) -> int:
        """Number of base goals."""
        return len(self._first) - 1

    def base_of(self, position: int) -> tuple[int, int]:
        """(base goal, choice of options within it) of the goal at a position."""
        goal = int(self._order[position])
        base = int(np.searchsorted(self._first, goal, side="right")) - 1
        return base, goal - int(self._first[base])

    def base(self, number: int) -> dict[str, Any]:
        """A base goal; see the module's text."""
        start, end = int(self._starts[number]), int(self._starts[number + 1])
        return json.loads(self._base[start:end])

    def __getitem__(self, position: int) -> dict[str, Any]:
        """The goal at a position, with the keys of the published environment."""
        if not 0 <= position < len(self):
            raise IndexError(f"goal {position} is outside 0..{len(self) - 1}")
        number, choice = self.base_of(position)
        base = self.base(number)
        product = self._catalog.product(base["row"])
        text, options = base["instruction"], base["options"]
        if options is None:
            options = combination(product.options, choice)
            if options:
                text += " with " + ", and ".join(f"{k}: {v}" for k, v in options.items())
        return {
            "asin": product.asin,
            "category": product.category,
            "query": product.query,
            "name": product.title,
            "product_category": product.product_category,
            "instruction_text": text + base["cap_text"],
            "attributes": base["attributes"],
            "price_upper": base["price_upper"],
            "goal_options": options,
            "weight": float(self._weights[number]),
        }

    def weights(self, positions: range) -> np.ndarray:
        """Sampling weights, float64 [len(positions)]."""
        goals = self._order[positions.start : positions.stop].astype(np.int64)
        return self._weights[np.searchsorted(self._first, goals, side="right") - 1]

    def bases_of(self, positions: range) -> np.ndarray:
        """The base goals of the goals at `positions`, int64 [len(positions)]."""
        goals = self._order[positions.start : positions.stop].astype(np.int64)
        return np.searchsorted(self._first, goals, side="right") - 1


def leaks(goals: GoalSet, chunk: int = 1 << 20) -> dict[str, int]:
    """What the splits share: goals whose product, or whose instruction, occurs in another split.

    Args:
        goals: The goals.
        chunk: How many goals are looked at together; memory does not grow with their number.

    Returns:
        ``{"validation_test_products": n, "validation_test_instructions": n, ...}``: for each pair
        (split, earlier split) the number of goals of the split that have a twin in the earlier one.
    """
    ranges = {split: split_range(split, len(goals)) for split in SPLITS}
    held_out = ("test", "validation")
    texts = {s: {goals[p]["instruction_text"] for p in ranges[s]} for s in held_out}
    bases = {s: [goals.base(n) for n in set(goals.bases_of(ranges[s]).tolist())] for s in held_out}
    rows = {s: {base["row"] for base in bases[s]} for s in held_out}
    stems = {s: {base["instruction"] for base in bases[s]} for s in held_out}
    same_row = {s: np.zeros(goals.bases, dtype=bool) for s in held_out}
    same_stem = {s: np.zeros(goals.bases, dtype=bool) for s in held_out}
    for number in range(goals.bases):
        base = goals.base(number)
        for split in held_out:
            same_row[split][number] = base["row"] in rows[split]
            same_stem[split][number] = base["instruction"] in stems[split]
    found: dict[str, int] = {}
    for split, earlier in (("validation", "test"), ("train", "test"), ("train", "validation")):
        products = instructions = 0
        whole = ranges[split]
        for start in range(whole.start, whole.stop, chunk):
            positions = range(start, min(start + chunk, whole.stop))
            numbers = goals.bases_of(positions)
            products += int(same_row[earlier][numbers].sum())
            # Only goals with an equal stem can have an equal text: texts are made for few goals.
            for place in np.flatnonzero(same_stem[earlier][numbers]).tolist():
                text = goals[positions[place]]["instruction_text"]
                instructions += text in texts[earlier]
        found[f"{split}_{earlier}_products"] = products
        found[f"{split}_{earlier}_instructions"] = instructions
    return found
