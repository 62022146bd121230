"""One shopper's visit: pages, clicks and searches. No rewards, no limits, no randomness of its own.

Two rule sets. The default one is what a shopper would expect. ``princeton=True`` follows the
published shop wherever the two differ:

- a search works on every page (default: only where there is a search bar);
- an option counts as chosen when its quoted text occurs in the page's address, which fails for
  quoted or non-ASCII values and sees the search words too (default: when it is chosen);
- of two things with the same text, the last can be clicked (default: an option whose text clashes
  is shown and clicked as ``name: value``);
- ``Next >`` is offered on the last page (default: not);
- the magic queries ``<r>``, ``<a>``, ``<c>``, ``<q>`` list products (default: ordinary words);
- names of actions must be lower-case and exact (default: case and outer white space don't matter).
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agentr1_envs.webshop import pages
from agentr1_envs.webshop.catalog import SEARCH_RESULTS, Catalog, Product

BASE_URL = "http://127.0.0.1:3000"
PAGES = ("search", "results", "item", "sub", "done")
_BUTTON_TEXTS = [t.lower() for t in (pages.BACK, pages.PREV, pages.BUY, *pages.SUB_PAGES)]


@dataclass(slots=True, frozen=True)
class Reply:
    """What an action did.

    Attributes:
        error: None, or why nothing happened: ``bad_format``, ``no_search_bar``, ``empty_search`` or
            ``not_clickable``.
        bought: Whether this was the purchase.
    """

    error: str | None = None
    bought: bool = False


_DONE, _BOUGHT = Reply(), Reply(bought=True)


def parse_action(action: str, *, exact: bool = False) -> tuple[str, str] | None:
    """``("search" or "click", argument)`` of ``search[..]`` or ``click[..]``, or None.

    The match starts at the beginning and is greedy; what follows the last bracket is ignored; the
    argument is lower-cased.
    """
    # What the pattern (.+)\[(.+)\] matches, in linear time whatever the action holds.
    line = (action if exact else action.strip()).partition("\n")[0]
    close = line.rfind("]")
    start = line.rfind("[", 1, max(close - exact, 0))
    if start < 0:
        return None
    name, argument = line[:start], line[start + 1 : close].lower()
    if not exact:
        name, argument = name.strip().lower(), argument.strip()
    return (name, argument) if name in ("search", "click") else None


Labels = list[tuple[str, list[tuple[str, str]]]]
"""(option name, [(label, value), ..]) in the order of the page."""


def exact_labels(product: Product) -> Labels:
    """Each value is its own label, as in the published shop."""
    return [(name, [(v, v) for v in values]) for name, values in product.options.items()]


def labels(product: Product) -> Labels:
    """Labels that can be told apart: values that clash with another text get their option's name.

    Empty and repeated values are left out, white space within a label is one blank (an action is
    a single line).
    """
    found = [
        (name, [(" ".join(v.split()), v) for v in dict.fromkeys(values) if v.strip()])
        for name, values in product.options.items()
    ]
    texts = [text for _, pairs in found for text, _ in pairs]
    if len({*texts, *_BUTTON_TEXTS}) == len(texts) + len(_BUTTON_TEXTS):
        return found
    count = Counter(texts + _BUTTON_TEXTS)
    return [
        (
            name,
            [(text if count[text] == 1 else f"{name}: {text}", value) for text, value in pairs],
        )
        for name, pairs in found
    ]


class ShopSession:
    """The state of a visit.

    Args:
        catalog: The shop.
        instruction: Shown on every page.
        princeton: Follow the published shop, see the module's text.
        show_attributes: Offer the sub-page Attributes.
        magic_queries: None: as the rule set says.
        numbered: Results are clicked by their place on the page, "1" to "10", not by ASIN.
        name: Part of page addresses.
        seed: For the magic query ``<r>`` only.
    """

    def __init__(
        self,
        catalog: Catalog,
        instruction: str,
        *,
        princeton: bool = False,
        show_attributes: bool = False,
        magic_queries: bool | None = None,
        numbered: bool = False,
        name: str = "0",
        seed: int = 0,
    ) -> None:
        self.catalog, self.instruction, self.name = catalog, instruction, name
        self.princeton, self.show_attributes = princeton, show_attributes
        self.numbered = numbered
        self.magic_queries = princeton if magic_queries is None else magic_queries
        self.page = "search"
        self.sub_page = ""
        self.query = ""
        self.results: Sequence[int] = ()
        self.number = 0  # page of the results, from 1
        self.product: Product | None = None
        self.options: dict[str, str] = {}
        self.visited: set[str] = set()
        self._seed = seed
        self._nodes: list[pages.Node] | None = None
        self._targets: dict[str, tuple[str, ...]] | None = None
        self._labels_of: Product | None = None
        self._known_labels: Labels = []

    # --- what the shopper sees -------------------------------------------------------------------

    @property
    def nodes(self) -> list[pages.Node]:
        """The current page."""
        if self._nodes is None:
            self._nodes = self._render()
        return self._nodes

    @property
    def url(self) -> str:
        """The page's address in the published shop."""
        words = self.query.replace(" ", "+")
        if self.page == "search":
            return f"{BASE_URL}/{self.name}"
        if self.page == "results":
            return f"{BASE_URL}/search_results/{self.name}/{words}/{self.number}"
        assert self.product is not None
        asin = self.product.asin
        if self.page == "done":
            return f"{BASE_URL}/done/{self.name}/{asin}/{self.options}"
        if self.page == "sub":
            place = f"{self.name}/{asin}/{words}/{self.number}/{self.sub_page}"
            return f"{BASE_URL}/item_sub_page/{place}/{self.options}"
        place = f"{self.name}/{asin}/{words}/{self.number}"
        return f"{BASE_URL}/item_page/{place}/{json.dumps(self.options)}"

    @property
    def has_search_bar(self) -> bool:
        """Whether the current page has a search bar."""
        return self.page == "search"

    def clickables(self) -> list[str]:
        """The texts that `click[..]` understands now, in the published order."""
        return list(self.targets())

    def state(self) -> str:
        """The visit's state as text; equal texts mean equal states."""
        return repr(
            (
                self.page,
                self.sub_page if self.page == "sub" else "",
                self.query,
                self.number,
                self.product.asin if self.product is not None else "",
                sorted(self.options.items()),
                sorted(self.visited),
            )
        )

    # --- what the shopper does -------------------------------------------------------------------

    def act(self, action: str) -> Reply:
        """Do ``search[..]`` or ``click[..]``; anything else changes nothing."""
        parsed = parse_action(action, exact=self.princeton)
        if parsed is None:
            return Reply("bad_format")
        kind, argument = parsed
        if kind == "search":
            if not argument:
                return Reply("empty_search")
            if not self.princeton and not self.has_search_bar:
                return Reply("no_search_bar")
            self._search(argument)
            return _DONE
        target = self.targets().get(argument)
        # The search button does nothing by itself; the published shop bars its text altogether.
        if target is None or target[1] == pages.SEARCH or (self.princeton and argument == "search"):
            return Reply("not_clickable")
        return self._click(*target)

    def _go(self, page: str) -> None:
        self.page = page
        self._nodes = self._targets = None

    def _search(self, query: str) -> None:
        self.query, self.results, self.number = query, self._find(query), 1
        self.product, self.options = None, {}
        self._go("results")

    def _click(self, kind: str, label: str, option: str = "", value: str = "") -> Reply:
        if kind == pages.LINK:
            self.product = self.catalog.product(self._linked()[label])
            self.visited.add(self.product.asin)
            self._go("item")
        elif kind == pages.OPTION:
            self.options[option] = value
            self._go("item")
        elif label == pages.BACK:
            self.query, self.results, self.number = "", (), 0
            self.product, self.options, self.visited = None, {}, set()
            self._go("search")
        elif label == pages.NEXT:
            self.number += 1
            self._go("results")
        elif label == pages.PREV:
            self._previous()
        elif label == pages.BUY:
            self._go("done")
            return _BOUGHT
        else:
            self.sub_page = label
            self._go("sub")
        return _DONE

    def _previous(self) -> None:
        if self.page == "sub":
            self._go("item")
            return
        if self.page == "results":
            self.number -= 1
        self.product, self.options = None, {}
        self._go("results")

    def _linked(self) -> dict[str, int]:
        """The page's links: label -> row of the catalog."""
        return {
            str(place) if self.numbered else self.catalog.card(row)[0]: row
            for place, row in enumerate(self._shown(), 1)
        }

    def link_to(self, row: int) -> str | None:
        """The label of the link to a product, None where the page has none."""
        if self.page != "results":
            return None
        return next((label for label, linked in self._linked().items() if linked == row), None)

    def _shown(self) -> Sequence[int]:
        first = (self.number - 1) * pages.PRODUCTS_PER_PAGE
        return self.results[first : first + pages.PRODUCTS_PER_PAGE]

    # --- searching -------------------------------------------------------------------------------

    def _find(self, query: str) -> Sequence[int]:
        if self.magic_queries and query[:3] in ("<r>", "<a>", "<c>", "<q>"):
            mark, _, rest = query.partition(" ")
            if len(mark) == 3:
                return self._magic(mark, rest.strip())
        return self.catalog.search(query, SEARCH_RESULTS)

    def _magic(self, mark: str, rest: str) -> Sequence[int]:
        rows = self.catalog.rows_in_file_order()
        if mark == "<r>":
            rng = random.Random(f"{self._seed}/{self.state()}")
            picked = rng.sample(range(len(rows)), min(SEARCH_RESULTS, len(rows)))
            return [int(rows[place]) for place in picked]
        field = {"<a>": "attributes", "<c>": "category", "<q>": "query"}[mark]
        if mark == "<c>":
            rest = rest.partition(" ")[0]
        found = []
        for row in rows.tolist():
            text = self.catalog.field(row, field)
            if rest in json.loads(text) if mark == "<a>" else rest == text:
                found.append(row)
        return found

    # --- pages -----------------------------------------------------------------------------------

    def _render(self) -> list[pages.Node]:
        if self.page == "search":
            return pages.search_page(self.instruction)
        if self.page == "results":
            cards = {label: self.catalog.card(row) for label, row in self._linked().items()}
            return pages.results_page(
                self.instruction,
                [(label, *card[1:]) for label, card in cards.items()],
                page=self.number,
                total=len(self.results),
                visited={label for label, card in cards.items() if card[0] in self.visited},
                always_next=self.princeton,
            )
        assert self.product is not None
        if self.page == "item":
            known = self._labels(self.product)
            url, chosen = (self.url, None) if self.princeton else ("", self.options.get)
            marked = [
                (
                    name,
                    [
                        (label, chosen(name) == value if chosen else f'"{value}"' in url)
                        for label, value in values
                    ],
                )
                for name, values in known
            ]
            return pages.item_page(
                self.instruction,
                marked,
                title=self.product.title,
                price_tag=self.product.price_tag,
                show_attributes=self.show_attributes,
            )
        if self.page == "sub":
            return pages.sub_page(self.instruction, self._details(self.product))
        raise AssertionError("the done page is made by the environment, which knows the score")

    def _labels(self, product: Product) -> Labels:
        if self._labels_of is not product:
            self._labels_of = product
            self._known_labels = exact_labels(product) if self.princeton else labels(product)
        return self._known_labels

    def _details(self, product: Product) -> list[str]:
        if self.sub_page == "Description":
            return [product.description]
        if self.sub_page == "Features":
            # The published page has a blank before each feature.
            texts = [f" {bullet}" for bullet in product.bullets]
            return texts if self.princeton else [text for text in texts if text.strip()]
        if self.sub_page == "Attributes":
            return list(product.attributes)
        return []

    def targets(self) -> dict[str, tuple[str, ...]]:
        """Lower-cased text -> arguments of `_click`; buttons, then links, then options."""
        if self._targets is None:
            targets: dict[str, tuple[str, ...]] = {}
            self._targets = targets
            nodes = self.nodes if self.page != "done" else []
            for kind, text, _ in nodes:
                if kind == pages.BUTTON:
                    targets[text.lower()] = (kind, text)
            for kind, text, _ in nodes:
                if kind == pages.LINK:
                    targets[text.lower()] = (kind, text)
            if self.page == "item" and self.product is not None:
                for name, values in self._labels(self.product):
                    for label, value in values:
                        targets[label] = (pages.OPTION, label, name, value)
        return self._targets
