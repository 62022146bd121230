"""The search tree of an episode: queries, papers found, expansions, rewards; as text, SVG, HTML.

A search hangs under the query of the task; a paper under the call that found it; an expansion under
the paper that was expanded.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agentr1_envs.paperscout.pool import CallRecord

FORMS = ("text", "svg", "html")
_ROW, _INDENT, _MARGIN = 22, 22, 14
_CHARS = 110  # of a line


@dataclass(slots=True)
class Node:
    """A node of the tree.

    Attributes:
        kind: ``"query"``, ``"search"``, ``"expand"``, ``"paper"`` or ``"more"``.
        label: its line, without the reward.
        hint: longer text, shown on hover.
        reward: of a call.
        score: of a paper.
        gold: whether a paper is an answer.
        error: what was wrong with a call.
    """

    kind: str
    label: str
    hint: str = ""
    reward: float | None = None
    score: float | None = None
    gold: bool = False
    error: str | None = None
    children: list[Node] = field(default_factory=list)


def build(
    question: str,
    records: Sequence[CallRecord],
    gold: frozenset[str] = frozenset(),
    *,
    summary: str = "",
    shown: int = 5,
) -> Node:
    """The tree of an episode.

    Args:
        question: the task's query.
        records: its calls in order.
        gold: identifiers of the answers; they are marked.
        summary: added to the first line.
        shown: papers shown under a call beside answers and expanded papers; the others are
            counted.
    """
    question = _clean(question)
    root = Node("query", f"{question}  {summary}".rstrip(), question)
    expanded = {r.argument for r in records if r.kind == "expand" and r.error is None}
    places: dict[str, Node] = {}
    for record in records:
        title = "Search" if record.kind == "search" else "Expand"
        argument = _clean(record.argument)
        node = Node(
            record.kind,
            f"step {record.step} [{title}] {argument}",
            f"{record.found} papers found, {len(record.new)} new",
            reward=record.reward,
            error=record.error and _clean(record.error),
        )
        parent = root if record.kind == "search" else places.get(record.argument, root)
        parent.children.append(node)
        hidden = 0
        for rank, (paper, score) in enumerate(record.new):
            if rank >= shown and paper.id not in expanded and paper.id not in gold:
                hidden += 1
                continue
            child = Node(
                "paper",
                _clean(f"{paper.id} {paper.title}"),
                _clean(paper.abstract),
                score=score,
                gold=paper.id in gold,
            )
            places[paper.id] = child
            node.children.append(child)
        if hidden:
            node.children.append(Node("more", f"{hidden} more"))
    return root


def _clean(text: str) -> str:
    """On one line, without what a terminal or XML would take for a command."""
    kept = "".join(c if c.isprintable() and not 0xD800 <= ord(c) <= 0xDFFF else " " for c in text)
    return " ".join(kept.split())


def _line(node: Node) -> str:
    """A node's text on one line."""
    if node.kind == "query":
        return node.label
    label = node.label if len(node.label) <= _CHARS else node.label[:_CHARS] + "..."
    if node.kind == "paper":
        return f"{'* ' if node.gold else ''}{label} ({node.score:.2f})"
    if node.error is not None:
        return f"{label}  {node.reward:+.2f}  {node.error}"
    if node.reward is not None:
        return f"{label}  {node.reward:+.2f}"
    return label


def as_text(root: Node) -> str:
    """The tree in box-drawing characters; an asterisk marks an answer."""
    lines = [root.label]

    def walk(node: Node, prefix: str) -> None:
        for i, child in enumerate(node.children):
            last = i == len(node.children) - 1
            lines.append(f"{prefix}{'└─' if last else '├─'} {_line(child)}")
            walk(child, prefix + ("   " if last else "│  "))

    walk(root, "")
    return "\n".join(lines)


def _rows(node: Node, depth: int = 0) -> Iterator[tuple[Node, int]]:
    yield node, depth
    for child in node.children:
        yield from _rows(child, depth + 1)


def _colour(node: Node) -> str:
    if node.error is not None:
        return "#b3261e"
    if node.kind == "paper":
        return "#1b7f3b" if node.gold else "#5f6b7a"
    return {"query": "#1f2933", "search": "#1d5fbf", "expand": "#8a4bbf"}.get(node.kind, "#9aa5b1")


def as_svg(root: Node) -> str:
    """The tree as an SVG document; hints are shown on hover."""
    rows = list(_rows(root))
    number = {id(node): i for i, (node, _) in enumerate(rows)}
    width = _MARGIN * 2 + max(d * _INDENT + 24 + 7 * (len(_line(n)) + 2) for n, d in rows)
    height = _MARGIN * 2 + _ROW * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="ui-monospace, monospace" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for i, (node, depth) in enumerate(rows):
        x, y = _MARGIN + depth * _INDENT, _MARGIN + i * _ROW + _ROW // 2
        if node.children:
            bottom = _MARGIN + number[id(node.children[-1])] * _ROW + _ROW // 2
            parts.append(f'<path d="M{x + 5} {y + 6}V{bottom}" stroke="#cbd2d9" fill="none"/>')
        if depth:
            parts.append(f'<path d="M{x - _INDENT + 5} {y}H{x}" stroke="#cbd2d9" fill="none"/>')
        colour = _colour(node)
        shape = (
            f'<circle cx="{x + 5}" cy="{y}" r="4" fill="{colour if node.gold else "#ffffff"}" '
            f'stroke="{colour}"/>'
            if node.kind == "paper"
            else f'<rect x="{x + 1}" y="{y - 4}" width="8" height="8" fill="{colour}"/>'
        )
        weight = ' font-weight="bold"' if node.kind in ("query",) or node.gold else ""
        parts.append(
            f'<g>{shape}<text x="{x + 15}" y="{y + 4}" fill="{colour}"{weight}>'
            f"{html.escape(_line(node))}</text>"
            + (f"<title>{html.escape(node.hint)}</title>" if node.hint else "")
            + "</g>"
        )
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def as_html(root: Node) -> str:
    """One self-contained page with the tree; it loads nothing."""
    title = html.escape(root.hint or root.label)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>body{{margin:1rem;font-family:sans-serif}}"
        "div{overflow-x:auto}</style></head><body>"
        f'<h1 style="font-size:1.1rem">{title}</h1>'
        "<p>Blue: searches. Violet: expansions. Green: answers. Red: calls refused. "
        "Rest the pointer on a line to read more.</p>"
        f"<div>{as_svg(root)}</div></body></html>\n"
    )


def draw(root: Node, form: str = "text") -> str:
    """The tree in one of `FORMS`.

    Raises:
        ValueError: another form.
    """
    if form not in FORMS:
        raise ValueError(f"form: expected one of {', '.join(FORMS)}, got {form!r}")
    return {"text": as_text, "svg": as_svg, "html": as_html}[form](root)
