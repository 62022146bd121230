"""The score of a purchase (rules of WebShop, Yao et al. 2022, section 3 and its public code).

score = (attribute hits + option hits + [price <= cap]) / (attributes + options + 1) * type

Attribute and option texts are compared with a token-set ratio above 85 (rapidfuzz; texts in lower
case and stripped of punctuation first), attributes also as substrings of the product's texts. The
type factor compares query, category and the nouns of the titles (`nouns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

# The colour words that options are reduced to, in the order in which they are tried.
_COLOR_WORDS = """
    alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown
    burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee
    cognac copper coral cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold
    granite grape graphite grass gray green grey heather indigo ivory ivy khaki lavender lemon
    leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom
    mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust
    sand sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger
    turquoise violet walnut wheat white wine yellow
"""
COLORS = tuple(_COLOR_WORDS.split())
_COLOR_SET = frozenset(COLORS)
_LATIN1 = {code: None for code in range(128, 256)}
MATCH_ABOVE = 85


@dataclass(slots=True)
class Target:
    """What a goal asks for, as the reward sees it."""

    name: str
    query: str
    product_category: str
    attributes: Sequence[str]
    options: Sequence[str] | Mapping[str, str]
    price_upper: float
    nouns: Sequence[str]


@dataclass(slots=True)
class Purchase:
    """What was bought, as the reward sees it: texts of the product, its price, chosen options."""

    name: str
    query: str
    product_category: str
    attributes: Sequence[str]
    bullets: Sequence[str]
    description: str
    price: float
    options: Mapping[str, str]
    nouns: Sequence[str]


@lru_cache(maxsize=65536)
def matches(left: str, right: str) -> bool:
    """Whether the token-set ratio of two texts, rounded to a whole number, is above 85."""
    from rapidfuzz import fuzz, utils

    ratio = fuzz.token_set_ratio(
        utils.default_process(left.translate(_LATIN1)),
        utils.default_process(right.translate(_LATIN1)),
    )
    return round(ratio) > MATCH_ABOVE


@lru_cache(maxsize=65536)
def normalize_color(value: str) -> str:
    """The first colour word that occurs anywhere in `value`, else `value`."""
    return next((color for color in COLORS if color in value), value)


def _option_text(option: str | tuple[str, str]) -> str:
    """A wanted option as the reward compares it.

    A synthetic goal's options are (name, value) pairs. For a pair the published rule looks for an
    element that equals a colour word, and otherwise compares the pair's own text.
    """
    if isinstance(option, str):
        return normalize_color(option)
    colors = [color for color in option if color in _COLOR_SET]
    return min(colors) if colors else str(option)  # COLORS is sorted: min is the first tried


def type_score(bought: Purchase, wanted: Target) -> dict[str, Any]:
    """The type factor in [0, 1] and what it was made from."""
    query_match = bought.query == wanted.query
    parts = {part.strip() for part in bought.product_category.split("›")}
    shared = parts & {part.strip() for part in wanted.product_category.split("›")}
    category_match = len(shared) >= 2
    if not wanted.nouns:
        title_score = 0.2
    else:
        title_score = len(set(bought.nouns) & set(wanted.nouns)) / len(wanted.nouns)
    factor = 1.0 if query_match or category_match or title_score > 0.2 else 0.5
    if title_score < 0.1:
        factor = 0.1
    if title_score == 0.0:
        factor = 0.0
    return {
        "r_type": factor,
        "query_match": query_match,
        "category_match": category_match,
        "title_score": title_score,
    }


def attribute_hits(bought: Purchase, wanted: Target) -> int:
    """How many wanted attributes the product has: fuzzy among its own, or in its texts."""
    hits = 0
    texts: tuple[str, str, str] | None = None
    for attribute in wanted.attributes:
        if any(matches(own, attribute) for own in bought.attributes):
            hits += 1
            continue
        if texts is None:
            texts = (
                bought.name.lower(),
                " ".join(bought.bullets).lower(),
                bought.description.lower(),
            )
        hits += any(attribute in text for text in texts)
    return hits


def option_hits(chosen: Iterable[str], wanted: Sequence[str] | Mapping[str, str]) -> int:
    """How many wanted options are matched by one of the chosen values."""
    values = [normalize_color(value) for value in chosen]
    goals = list(wanted.items()) if isinstance(wanted, Mapping) else list(wanted)
    return sum(any(matches(value, _option_text(goal)) for value in values) for goal in goals)


def score_purchase(bought: Purchase, wanted: Target) -> tuple[float, dict[str, Any]]:
    """Score in [0, 1] and its parts.

    The parts: ``r_type``, ``r_att``, ``r_option`` (absent without wanted options), ``r_price``, the
    weights ``w_att``, ``w_option``, ``w_price`` they have in the sum, ``query_match``,
    ``category_match``, ``title_score``.
    """
    kind = type_score(bought, wanted)
    attributes = attribute_hits(bought, wanted)
    options = option_hits(bought.options.values(), wanted.options)
    price_fits = bought.price <= wanted.price_upper
    n_attributes, n_options = len(wanted.attributes), len(wanted.options)
    total = n_attributes + n_options + 1
    score = (attributes + options + price_fits) / total * kind["r_type"]
    detail: dict[str, Any] = {
        "r_type": kind["r_type"],
        "r_att": attributes / n_attributes if n_attributes else 1.0,
        "w_att": n_attributes / total,
        "query_match": kind["query_match"],
        "category_match": kind["category_match"],
        "title_score": kind["title_score"],
    }
    if n_options:
        detail["r_option"] = options / n_options
        detail["w_option"] = n_options / total
    detail["r_price"] = price_fits
    detail["w_price"] = 1 / total
    return score, detail
