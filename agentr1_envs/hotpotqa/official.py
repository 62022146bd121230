"""Reads the public files of HotpotQA, MuSiQue and 2WikiMultihopQA.

HotpotQA (distractor and fullwiki) and 2WikiMultihopQA rows: ``{"_id", "question", "answer", "type",
"supporting_facts": [[title, sentence]], "context": [[title, [sentences]]]}``, or the columnar form
of their Parquet copies (``"id"``, ``{"title": [..], "sentences": [..]}``). MuSiQue rows: ``{"id",
"question", "answer", "answer_aliases", "answerable", "paragraphs": [{"title", "paragraph_text",
"is_supporting"}]}``.
"""

from __future__ import annotations

import html
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentr1_envs.errors import TaskDataError
from agentr1_envs.task_files import iter_rows


@dataclass(slots=True)
class Dataset:
    """Tasks of the environment and the paragraphs that come with them.

    paragraphs: rows ``{"id", "title", "text"}``; each distinct paragraph once, ids unique (the
    title, with ``#2`` and so on where a title has several paragraphs).
    skipped: rows that are marked as having no answer (MuSiQue's unanswerable half).
    """

    tasks: list[dict[str, Any]] = field(default_factory=list)
    paragraphs: list[dict[str, Any]] = field(default_factory=list)
    skipped: int = 0
    _ids: dict[tuple[str, str], str] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _task_ids: set[str] = field(default_factory=set)

    def add_paragraph(self, title: str, text: str) -> str:
        """Keep a paragraph unless it is known; returns its id."""
        key = (title, text)
        known = self._ids.get(key)
        if known is not None:
            return known
        name = title
        while name in self._taken:
            number = self._numbers[title] = self._numbers.get(title, 1) + 1
            name = f"{title}#{number}"
        self._taken.add(name)
        self._ids[key] = name
        self.paragraphs.append({"id": name, "title": title, "text": text})
        return name


def is_official(path: str | os.PathLike[str]) -> bool:
    """Whether the first row of a file is of one of the official forms."""
    first = next(iter(iter_rows(path)), None)
    return first is not None and "task_id" not in first and _form(first) is not None


def _form(row: dict[str, Any]) -> str | None:
    if "paragraphs" in row and "question" in row:
        return "musique"
    if "context" in row and "question" in row:
        return "hotpotqa"
    return None


def read(
    *paths: str | os.PathLike[str],
    aliases: str | os.PathLike[str] | None = None,
    into: Dataset | None = None,
    limit: int | None = None,
    tick: Callable[[], None] = lambda: None,
) -> Dataset:
    """Read official files into one data set.

    Args:
        aliases: 2WikiMultihopQA's ``id_aliases.json``: other names of its answers.
        into: add to this data set, so that several files share their paragraphs.
        limit: read at most so many rows of each file.
        tick: called after each row, for a progress bar.

    Raises:
        TaskDataError: a row is not of an official form; names file, row, field and value.
    """
    dataset = into if into is not None else Dataset()
    names = read_aliases(aliases) if aliases is not None else {}
    for path in paths:
        source = str(path)
        number = -1
        for number, row in enumerate(itertools.islice(iter_rows(path), limit)):
            add_row(dataset, row, source, number, names)
            tick()
        if number < 0:
            raise TaskDataError(source, "at least one row", value=[])
    return dataset


def read_aliases(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """2WikiMultihopQA's aliases, one JSON object a line: Wikidata id -> names."""
    names: dict[str, list[str]] = {}
    with Path(path).open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                key, values = row["Q_id"], [*row.get("aliases", ()), *row.get("demonyms", ())]
            except (ValueError, KeyError, TypeError):
                raise TaskDataError(
                    str(path), 'an object {"Q_id", "aliases", "demonyms"}', number, value=line[:80]
                ) from None
            names[key] = [value for value in values if isinstance(value, str)]
    return names


def add_row(
    dataset: Dataset,
    row: dict[str, Any],
    source: str,
    number: int,
    names: dict[str, list[str]] | None = None,
) -> None:
    """Add one official row: its task and its paragraphs."""
    form = _form(row)
    if form is None:
        raise TaskDataError(
            source,
            'a HotpotQA, 2WikiMultihopQA ("context") or MuSiQue ("paragraphs") row',
            number,
            value=sorted(row),
        )
    row_id = row.get("_id", row.get("id"))
    if not isinstance(row_id, str) or not row_id:
        raise TaskDataError(source, "a non-empty str", number, "_id", row_id)
    if row_id in dataset._task_ids:
        raise TaskDataError(source, "an id that no row before it has", number, "_id", row_id)
    if form == "musique" and row.get("answerable") is False:
        dataset.skipped += 1
        return
    question = _text(row, "question", source, number)
    if "answer" not in row:
        raise TaskDataError(
            source, "an answer (the official test files have none)", number, "answer", None
        )
    answer = _text(row, "answer", source, number)
    other = [name for name in row.get("answer_aliases") or () if isinstance(name, str)]
    other += (names or {}).get(str(row.get("answer_id")), [])
    parse = _musique if form == "musique" else _hotpotqa
    facts = parse(dataset, row, source, number)
    dataset._task_ids.add(row_id)
    dataset.tasks.append(
        {
            "task_id": row_id,
            "question": question,
            "answer": answer,
            "aliases": [name for name in dict.fromkeys(other) if name.strip() and name != answer],
            "type": str(row.get("type") or ""),
            "level": str(row.get("level") or ""),
            "supporting_facts": facts,
        }
    )


def _text(row: dict[str, Any], name: str, source: str, number: int) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise TaskDataError(source, "a non-empty str", number, name, value)
    return value.strip()


def _musique(
    dataset: Dataset, row: dict[str, Any], source: str, number: int
) -> list[dict[str, Any]]:
    paragraphs = row["paragraphs"]
    if not isinstance(paragraphs, list) or not paragraphs:
        raise TaskDataError(source, "a non-empty list", number, "paragraphs", paragraphs)
    facts = []
    for i, paragraph in enumerate(paragraphs):
        where = f"paragraphs[{i}]"
        if not isinstance(paragraph, dict):
            raise TaskDataError(source, "an object", number, where, paragraph)
        title, text = paragraph.get("title"), paragraph.get("paragraph_text")
        if not isinstance(title, str) or not isinstance(text, str) or not text.strip():
            raise TaskDataError(
                source, 'str "title" and "paragraph_text"', number, where, paragraph
            )
        title, text = clean(title), clean(text)
        dataset.add_paragraph(title, text)
        if paragraph.get("is_supporting"):
            facts.append({"title": title, "sentence": 0, "text": text})
    return facts


def _hotpotqa(
    dataset: Dataset, row: dict[str, Any], source: str, number: int
) -> list[dict[str, Any]]:
    sentences: dict[str, list[str]] = {}
    for i, (title, lines) in enumerate(_context(row["context"], source, number)):
        if not isinstance(title, str) or not isinstance(lines, (list, tuple)):
            raise TaskDataError(
                source, "[title, [sentences]]", number, f"context[{i}]", [title, lines]
            )
        if not all(isinstance(line, str) for line in lines):
            raise TaskDataError(source, "a list of str", number, f"context[{i}]", lines)
        kept = [clean(line) for line in lines]
        title = clean(title)
        sentences[title] = kept
        text = " ".join(line for line in kept if line)
        if text:
            dataset.add_paragraph(title, text)
    facts = []
    for i, (title, index) in enumerate(_facts(row.get("supporting_facts"), source, number)):
        if not isinstance(title, str) or isinstance(index, bool) or not isinstance(index, int):
            raise TaskDataError(
                source, "[title, sentence index]", number, f"supporting_facts[{i}]", [title, index]
            )
        title = clean(title)
        lines = sentences.get(title, [])
        # Some official facts point past their paragraph's end, and fullwiki contexts, which a
        # retriever chose, often lack the paragraph: the fact is kept with what is known of it.
        text = lines[index] if 0 <= index < len(lines) else ""
        facts.append({"title": title, "sentence": index, "text": text})
    return facts


def _context(value: Any, source: str, number: int) -> Iterator[tuple[Any, Any]]:
    """Pairs of title and sentences, from the list form, the columnar form or JSON text of one."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise TaskDataError(source, f"JSON ({error})", number, "context", value) from None
    if isinstance(value, dict):
        titles = value.get("title")
        lines = value.get("sentences", value.get("content"))
        if isinstance(titles, list) and isinstance(lines, list) and len(titles) == len(lines):
            return iter(zip(titles, lines, strict=True))
    elif isinstance(value, list) and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in value
    ):
        return iter((pair[0], pair[1]) for pair in value)
    raise TaskDataError(source, "a list of [title, [sentences]]", number, "context", value)


def _facts(value: Any, source: str, number: int) -> Iterable[tuple[Any, Any]]:
    if value is None:
        return ()
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise TaskDataError(
                source, f"JSON ({error})", number, "supporting_facts", value
            ) from None
    if isinstance(value, dict):
        titles = value.get("title")
        indices = value.get("sent_id", value.get("sent_idx"))
        if isinstance(titles, list) and isinstance(indices, list) and len(titles) == len(indices):
            return zip(titles, indices, strict=True)
    elif isinstance(value, list) and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in value
    ):
        return [(pair[0], pair[1]) for pair in value]
    raise TaskDataError(
        source, "a list of [title, sentence index]", number, "supporting_facts", value
    )


def clean(text: str) -> str:
    """Without the HTML entities that the official files kept, and without outer white space."""
    return html.unescape(text).strip() if "&" in text else text.strip()
