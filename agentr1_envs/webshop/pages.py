"""The shop's pages as lists of nodes, and the three ways an agent sees them.

A page is a list of ``(kind, text, on)`` nodes in reading order. Kinds: ``TEXT``; ``BUTTON``;
``LINK``, a product's ASIN or number (on: visited before); ``OPTION``, an option's value (on:
chosen). The node lists follow the pages of the published shop node by node, so that both give the
same text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

TEXT, BUTTON, LINK, OPTION = "text", "button", "link", "option"
Node = tuple[str, str, bool]

SEARCH, BACK, PREV, NEXT, BUY = "Search", "Back to Search", "< Prev", "Next >", "Buy Now"
SUB_PAGES = ("Description", "Features", "Reviews", "Attributes")
PRODUCTS_PER_PAGE = 10
SEPARATOR = " [SEP] "
MODES = ("text", "text_rich", "compact")
DEFAULT_COMPACT_CHARS = 2000


def text_node(text: str) -> Node:
    """A node of plain text."""
    return (TEXT, text, False)


def button(label: str) -> Node:
    """A button."""
    return (BUTTON, label, False)


_INSTRUCTION = text_node("Instruction:")
_BACK, _PREV, _NEXT = button(BACK), button(PREV), button(NEXT)
_DETAILS = tuple(button(name) for name in SUB_PAGES[:3])
_RATING = text_node("Rating: N.A.")


def search_page(instruction: str) -> list[Node]:
    """The first page: the instruction and a search bar."""
    return [
        text_node("WebShop"),
        text_node("Instruction: "),
        text_node(instruction),
        button(SEARCH),
    ]


def results_page(
    instruction: str,
    cards: Iterable[tuple[str, str, str]],
    *,
    page: int,
    total: int,
    visited: set[str],
    always_next: bool,
) -> list[Node]:
    """A page of search results.

    Args:
        cards: (ASIN or number, title, price tag) of the page's products.
        page: Number of the page, from 1.
        total: Number of products found.
        visited: Those of the first whose links are shown as clicked.
        always_next: Offer `NEXT` even on the last page.
    """
    nodes = [
        _INSTRUCTION,
        text_node(instruction),
        _BACK,
        text_node(f"Page {page} (Total results: {total})"),
    ]
    if page > 1:
        nodes.append(_PREV)
    if always_next or page * PRODUCTS_PER_PAGE < total:
        nodes.append(_NEXT)
    for asin, title, price in cards:
        nodes += [(LINK, asin, asin in visited), (TEXT, title, False), (TEXT, price, False)]
    return nodes


def item_page(
    instruction: str,
    options: Iterable[tuple[str, Sequence[tuple[str, bool]]]],
    *,
    title: str,
    price_tag: str,
    show_attributes: bool,
) -> list[Node]:
    """A product's page; `options` are (name, [(label, chosen), ..])."""
    nodes = [_INSTRUCTION, text_node(instruction), _BACK, _PREV]
    for name, values in options:
        nodes.append((TEXT, name, False))
        nodes += [(OPTION, label, chosen) for label, chosen in values]
    nodes += [(TEXT, title, False), (TEXT, f"Price: {price_tag}", False), _RATING]
    nodes += _DETAILS
    if show_attributes:
        nodes.append(button(SUB_PAGES[3]))
    nodes.append(button(BUY))
    return nodes


def sub_page(instruction: str, texts: Iterable[str]) -> list[Node]:
    """Description, features, reviews or attributes of a product."""
    return [_INSTRUCTION, text_node(instruction), _BACK, _PREV, *map(text_node, texts)]


def done_page(asin: str, options: dict[str, str], score: float) -> list[Node]:
    """The page after a purchase, in the form of the published shop (with its unfilled places)."""
    chosen = json.dumps(options, sort_keys=True)
    texts: list[Any] = ["Thank you for shopping with us!", "Your code: ", None]
    texts += [" (Paste it in your MTurk interface.)", "Purchased", "asin", asin, "options", chosen]
    texts += ["attrs", None, "category", None, "query", None, "product category", None]
    texts += ["Target", "asin", "options", "attrs", "price upper", "instuction text", "category"]
    texts += ["product category", "query", "Goal ", None, "Reward"]
    texts += ["Your score (min 0.0, max 1.0)", score, "Reward Details ", None]
    return [text_node(str(text)) for text in texts]


def receipt_page(asin: str, options: dict[str, str], score: float) -> list[Node]:
    """The page after a purchase: what was bought and its score."""
    return [
        text_node("Thank you for shopping with us!"),
        text_node(f"Purchased: {asin}"),
        text_node(f"Options: {json.dumps(options, sort_keys=True, ensure_ascii=False)}"),
        text_node(f"Your score (min 0.0, max 1.0): {score}"),
    ]


# --- views ---------------------------------------------------------------------------------------


def as_text(nodes: Sequence[Node]) -> str:
    """Texts joined with `` [SEP] ``; shows no sign of what is chosen or visited."""
    return SEPARATOR.join([text.strip() for _, text, _ in nodes if text and text != "\n"])


def as_rich(nodes: Sequence[Node]) -> str:
    """One node a line; buttons, links and options are marked, and what was clicked says so."""
    lines = []
    chosen = ""
    for kind, text, on in nodes:
        if not text or text == "\n":
            continue
        if kind == TEXT:
            lines.append(text)
        elif kind == BUTTON:
            lines.append(f"[button] {text} [button_]")
        elif kind == OPTION:
            if on:
                chosen = f"You have clicked {text}.\n{chosen}"
                lines.append(f"  [clicked button] {text} [clicked button_]")
            else:
                lines.append(f"  [button] {text} [button_]")
        elif on:
            lines.append(f"\n[clicked button] {text} [clicked button_]")
        else:
            lines.append(f"\n[button] {text} [button_]")
    lines.append("")
    return chosen + "\n".join(lines)


def as_compact(nodes: Sequence[Node], limit: int = DEFAULT_COMPACT_CHARS) -> str:
    """A short view of at most about `limit` characters.

    Buttons and options stand in brackets on shared lines (``[*x]``: chosen or visited). Only plain
    text is shortened, the longest first; the text of an action and the instruction never are, so
    the result is longer than `limit` where these alone are.
    """
    parts: list[list[str]] = []  # lines as lists of pieces that are joined
    flexible: list[tuple[int, int]] = []  # pieces that may be shortened
    previous = ""
    for position, (kind, text, on) in enumerate(nodes):
        text = " ".join(text.split()) if kind == TEXT else text
        if not text:
            continue
        mark = "*" if on else ""
        if kind in (BUTTON, OPTION) and previous in (BUTTON, OPTION):
            parts[-1].append(f" [{mark}{text}]")
        elif kind != TEXT:
            parts.append([f"[{mark}{text}]"])
        elif previous == LINK or (previous == "title" and text.startswith("$")):
            parts[-1] += [" ", text]
        else:
            parts.append([text])
        if kind == TEXT:
            if position > 2:  # the first three nodes hold the instruction
                flexible.append((len(parts) - 1, len(parts[-1]) - 1))
            previous = "title" if previous == LINK else TEXT
        else:
            previous = kind
    _shorten(parts, flexible, limit)
    return "\n".join("".join(line) for line in parts)


def _shorten(parts: list[list[str]], flexible: list[tuple[int, int]], limit: int) -> None:
    """Cut the flexible pieces to one common length, so that everything fits into `limit`."""
    total = sum(len(piece) for line in parts for piece in line) + len(parts) - 1
    lengths = sorted(len(parts[line][piece]) for line, piece in flexible)
    room = limit - (total - sum(lengths))
    if total <= limit or not lengths:
        return
    longest = 0  # the largest common length that fits
    for number, length in enumerate(lengths):
        share = room // (len(lengths) - number)
        if share <= length:
            longest = max(share, 0)
            break
        room -= length
    for line, piece in flexible:
        text = parts[line][piece]
        if len(text) > longest:
            parts[line][piece] = text[: longest - 1] + "…" if longest > 1 else "…"[:longest]


def view(nodes: Sequence[Node], mode: str, limit: int) -> str:
    """The page as `mode` (see `MODES`) shows it; `limit` is used by ``compact`` only."""
    if mode == "text_rich":
        return as_rich(nodes)
    if mode == "text":
        return as_text(nodes)
    return as_compact(nodes, limit)
