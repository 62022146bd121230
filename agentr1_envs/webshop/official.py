"""One record of the public product file, made into a `RawProduct`.

Nothing about a record is fatal. Whatever differs from the form that the public files promise is
either repaired or the record is skipped, and each case is reported with a reason from `REASONS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

MAX_ASIN = 10
NO_PRICE = 100.0

#: reason -> what was done about it
REASONS = {
    "not_an_object": "skipped",
    "missing_asin": "skipped",
    "asin_too_long": "skipped",
    "asin_not_ascii": "skipped",
    "duplicate_asin": "skipped, the first one is kept",
    "missing_name": "skipped",
    "price_without_mark": "kept, the bare numbers are taken as dollars",
    "price_unreadable": f"kept at ${NO_PRICE}",
    "no_images": "kept",
    "bullets_as_string": "kept as one bullet",
    "bullets_missing": "kept without bullets",
    "bullets_malformed": "kept, values that are no text dropped",
    "description_missing": "kept without description",
    "category_missing": "kept, empty texts",
    "options_malformed": "kept, the malformed options dropped",
    "attributes_malformed": "kept, values that are no text dropped",
    "lone_surrogates": "kept, replaced by '?'",
    "goal_malformed": "goal skipped",
    "goal_without_attributes": "goal skipped",
}

Report = Callable[[str, Any], None]
"""Called with a reason and the offending value."""

_NOT_PRICE = re.compile(r"[^\d.]")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@dataclass(slots=True)
class RawProduct:
    """A product as the public files describe it, in the form the shop uses.

    ``options`` maps a lower-cased name to its values in order; ``prices`` holds one price or the
    two ends of a range, in dollars.
    """

    asin: str
    title: str
    description: str
    bullets: list[str]
    options: dict[str, list[str]]
    product_category: str
    query: str
    category: str
    prices: tuple[float, ...]
    attributes: list[str] = field(default_factory=list)

    @property
    def price_tag(self) -> str:
        """The price as pages show it: ``$12.99`` or ``$24.49 to $39.99``."""
        if len(self.prices) == 1:
            return f"${self.prices[0]}"
        return f"${self.prices[0]} to ${self.prices[1]}"


def parse_prices(value: Any, report: Report) -> tuple[float, ...]:
    """One price or (low, high) from ``"$12.99"`` or ``"$24.49 - $39.99"``; empty is 100.0."""
    if value is None or value == "" or value == []:
        return (NO_PRICE,)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        report("price_without_mark", value)
        value = f"${value}"
    if not isinstance(value, str):
        report("price_unreadable", value)
        return (NO_PRICE,)
    if "$" in value:
        parts = [_NOT_PRICE.sub("", part) for part in value.split("$")[1:3]]
    else:
        parts = [number.replace(",", "") for number in _NUMBER.findall(value)[:2]]
        report("price_without_mark" if parts else "price_unreadable", value)
        if not parts:
            return (NO_PRICE,)
    try:
        return tuple(float(Decimal(part)) for part in parts)
    except InvalidOperation:
        report("price_unreadable", value)
        return (NO_PRICE,)


def _texts(values: list[Any], reason: str, report: Report) -> list[str]:
    kept = [value for value in values if isinstance(value, str)]
    if len(kept) < len(values):
        report(reason, values)
    return kept


def parse_bullets(value: Any, report: Report) -> list[str]:
    """The feature list: a list of texts, or one text."""
    if isinstance(value, str):
        report("bullets_as_string", value)
        return [value]
    if not value:
        report("bullets_missing", value)
        return []
    if not isinstance(value, list):
        report("bullets_malformed", value)
        return []
    return _texts(value, "bullets_malformed", report)


def parse_options(value: Any, report: Report) -> dict[str, list[str]]:
    """``{name: [{"value": ..}]}`` to lower-cased names and values; ``/`` becomes `` | ``."""
    if not value:
        return {}
    if not isinstance(value, dict):
        report("options_malformed", value)
        return {}
    options: dict[str, list[str]] = {}
    for name, contents in value.items():
        if contents is None:
            continue
        if not isinstance(contents, list):
            report("options_malformed", {name: contents})
            continue
        values = []
        for content in contents:
            text = content.get("value") if isinstance(content, dict) else None
            if isinstance(text, str):
                values.append(text.strip().replace("/", " | ").lower())
            else:
                report("options_malformed", {name: content})
        options[name.lower()] = values
    return options


def parse_product(record: Any, report: Report) -> RawProduct | None:
    """The product of a record, or None where it can't be sold; `report` hears of every oddity."""
    if not isinstance(record, dict):
        report("not_an_object", record)
        return None
    asin = record.get("asin")
    if not isinstance(asin, str) or not asin or asin == "nan":
        report("missing_asin", asin)
        return None
    if len(asin) > MAX_ASIN:
        report("asin_too_long", asin)
        return None
    if not asin.isascii():
        report("asin_not_ascii", asin)
        return None
    title = record.get("name")
    if not isinstance(title, str):
        report("missing_name", title)
        return None
    description = record.get("full_description")
    if not isinstance(description, str):
        report("description_missing", description)
        description = ""
    if not record.get("images"):
        report("no_images", record.get("images"))
    places = [record.get(key) for key in ("product_category", "query", "category")]
    if not all(isinstance(place, str) for place in places):
        report("category_missing", places)
    product_category, query, category = (p if isinstance(p, str) else "" for p in places)
    return RawProduct(
        asin=asin,
        title=title,
        description=description,
        bullets=parse_bullets(record.get("small_description"), report),
        options=parse_options(record.get("customization_options"), report),
        product_category=product_category,
        query=query.lower().strip(),
        category=category,
        prices=parse_prices(record.get("pricing"), report),
    )


def text_list(value: Any) -> list[str] | None:
    """`value` when it is a list of texts, else None."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    return None
