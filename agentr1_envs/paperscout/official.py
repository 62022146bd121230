"""Files that people have: query sets (AutoScholarQuery, RealScholarQuery) and paper dumps."""

from __future__ import annotations

import email.utils
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentr1_envs.errors import TaskDataError
from agentr1_envs.paperscout.metrics import unique_ids
from agentr1_envs.paperscout.papers import (
    Paper,
    base_id,
    cut_words,
    date_from_id,
    is_identifier,
    parse_date,
)
from agentr1_envs.task_files import iter_rows


def query_task(row: Mapping[str, Any], number: int, source: str) -> dict[str, Any]:
    """A task from a row of AutoScholarQuery or RealScholarQuery.

    Args:
        row: ``question``, ``answer_arxiv_id`` (list of identifiers), and where known ``answer``
            (titles), ``qid`` and ``source_meta.published_time`` (the date of the paper that the
            question was written from: only earlier papers may be found).
        number: 0-based row, for errors.
        source: file, for errors.

    Returns:
        ``task_id``, ``question``, ``gold`` (identifiers without version, duplicates removed),
        ``gold_titles`` and, where the row has a date, ``cutoff`` (YYYYMMDD).

    Raises:
        TaskDataError: a field is missing or has the wrong form.
    """
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        raise TaskDataError(source, "a non-empty str", number, "question", question)
    answers = row.get("answer_arxiv_id")
    if not isinstance(answers, list) or not answers:
        raise TaskDataError(source, "a list of identifiers", number, "answer_arxiv_id", answers)
    for place, name in enumerate(answers):
        # More lenient than for papers, since published rows may name what no library has.
        if not isinstance(name, str) or not base_id(name) or not base_id(name).isprintable():
            field = f"answer_arxiv_id[{place}]"
            raise TaskDataError(source, "an arXiv identifier", number, field, name)
    titles = row.get("answer", [])
    if not isinstance(titles, list) or not all(isinstance(title, str) for title in titles):
        raise TaskDataError(source, "a list of titles", number, "answer", titles)
    task_id = row.get("qid", row.get("task_id", f"query-{number}"))
    if not isinstance(task_id, str | int) or isinstance(task_id, bool) or task_id == "":
        raise TaskDataError(source, "a non-empty str", number, "qid", task_id)
    task: dict[str, Any] = {
        "task_id": str(task_id),
        "question": " ".join(question.split()),
        "gold": unique_ids(answers),
        "gold_titles": [" ".join(title.split()) for title in titles],
    }
    meta = row.get("source_meta")
    stated = meta.get("published_time") if isinstance(meta, Mapping) else None
    if stated is not None:
        cutoff = parse_date(stated)
        if cutoff is None:
            field = "source_meta.published_time"
            raise TaskDataError(source, "a date such as 20230325", number, field, stated)
        task["cutoff"] = cutoff
    return task


def to_task(row: dict[str, Any], number: int, source: str) -> dict[str, Any]:
    """The task in a row: an official query row is converted, any other is the task itself."""
    return query_task(row, number, source) if "answer_arxiv_id" in row else row


@dataclass(slots=True)
class Dump:
    """What was read from paper files: the two inputs of `store.write_papers`, and counts."""

    papers: list[Paper]
    references: list[list[int]]
    unknown_references: int = 0
    replaced_versions: int = 0


def read_dump(
    paths: Iterable[str | os.PathLike[str]],
    citations: Iterable[str | os.PathLike[str]] = (),
    progress: Callable[[int], None] | None = None,
) -> Dump:
    """Papers of arXiv metadata files (JSONL, JSON or Parquet), in the order of their dates.

    Args:
        paths: files with rows that have ``id`` (or ``arxiv_id``) and ``title``, and may have
            ``abstract``, ``authors`` (a list, or text with commas and "and"), a date (``date``,
            ``published``, ``published_time``, ``versions[0].created``, ``update_date``, else the
            month in the identifier) and ``references`` (identifiers).
        citations: files with rows ``{"citing", "cited"}`` or ``{"id", "references"}``.
        progress: told the number of rows read so far.

    Raises:
        TaskDataError: a row without identifier or title, a repeated identifier (two versions of
            one paper are no repetition: the later stays), a date that is none; no paper at all.
    """
    found: dict[str, tuple[int, Paper, list[str]]] = {}
    replaced = total = 0
    names = [str(path) for path in paths]
    for name in names:
        for number, line in enumerate(iter_rows(name)):
            stated = _identifier(line, number, name)
            paper, cited = _paper(line, stated, number, name)
            version = _version(stated)
            if paper.id in found:
                known = found[paper.id][0]
                if known == version:
                    raise TaskDataError(name, "unique identifiers", number, "id", stated)
                replaced += 1
            if paper.id not in found or found[paper.id][0] < version:
                found[paper.id] = (version, paper, cited)
            total += 1
            if progress is not None and total % 1000 == 0:
                progress(total)
    if not found:
        raise TaskDataError(", ".join(names) or "paper dump", "at least one paper", value=[])
    ordered = sorted(found.values(), key=lambda entry: (entry[1].date, entry[1].id))
    rows = {paper.id: row for row, (_, paper, _) in enumerate(ordered)}
    links: list[dict[int, None]] = [{} for _ in ordered]
    unknown = 0
    for row, (_, _, cited) in enumerate(ordered):
        unknown += _link(links, rows, row, cited)
    for citing, names_cited in _citation_rows(citations):
        if citing in rows:
            unknown += _link(links, rows, rows[citing], names_cited)
        else:
            unknown += len(names_cited)
    return Dump(
        [paper for _, paper, _ in ordered], [list(link) for link in links], unknown, replaced
    )


def titles_dump(tasks: Iterable[Mapping[str, Any]]) -> Dump:
    """The papers that queries name, with nothing but their titles, dated by their identifiers."""
    found: dict[str, Paper] = {}
    for task in tasks:
        names = task["gold"]
        titles = task.get("gold_titles") or []
        for place, name in enumerate(names):
            title = titles[place] if len(titles) == len(names) else ""
            if name not in found or (title and found[name].title == name):
                found[name] = Paper(name, title or name, date=date_from_id(name) or 0)
    papers = sorted(found.values(), key=lambda paper: (paper.date, paper.id))
    return Dump(papers, [[] for _ in papers])


def _link(links: list[dict[int, None]], rows: dict[str, int], row: int, cited: list[str]) -> int:
    unknown = 0
    for name in cited:
        target = rows.get(name)
        if target is None:
            unknown += 1
        elif target != row:
            links[row][target] = None
    return unknown


def _identifier(row: Mapping[str, Any], number: int, source: str) -> str:
    value = row.get("id", row.get("arxiv_id"))
    if not isinstance(value, str) or not base_id(value):
        raise TaskDataError(source, "a non-empty str", number, "id", value)
    if not is_identifier(value):
        expected = "an identifier of at most 200 printable characters without white space"
        raise TaskDataError(source, expected, number, "id", value)
    return value


def _version(identifier: str) -> int:
    tail = identifier.strip()[len(identifier.strip().rstrip("0123456789")) - 1 :]
    return int(tail[1:]) if tail[:1] in ("v", "V") and tail[1:].isdigit() else 0


def _paper(
    row: Mapping[str, Any], stated: str, number: int, source: str
) -> tuple[Paper, list[str]]:
    title = row.get("title")
    if not isinstance(title, str) or not title.strip():
        raise TaskDataError(source, "a non-empty str", number, "title", title)
    abstract = row.get("abstract", row.get("summary")) or ""
    if not isinstance(abstract, str):
        raise TaskDataError(source, "a str", number, "abstract", abstract)
    paper = Paper(
        id=base_id(stated),
        title=cut_words(title, 200),
        abstract=" ".join(abstract.split()),
        authors=_authors(row.get("authors"), number, source),
        date=_date(row, stated, number, source),
    )
    return paper, _reference_ids(row.get("references"), number, source)


def _authors(value: Any, number: int, source: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        parts = value.replace(" and ", ", ").split(",")
        return tuple(" ".join(part.split()) for part in parts if part.strip())
    if isinstance(value, list):
        names = [a.get("name") if isinstance(a, Mapping) else a for a in value]
        if all(isinstance(name, str) for name in names):
            return tuple(str(name) for name in names)
    raise TaskDataError(source, "text or a list of names", number, "authors", value)


def _date(row: Mapping[str, Any], stated: str, number: int, source: str) -> int:
    for field in ("date", "published", "published_time"):
        if row.get(field) not in (None, ""):
            date = parse_date(row[field])
            if date is None:
                raise TaskDataError(source, "a date such as 2023-03-25", number, field, row[field])
            return date
    versions = row.get("versions")
    if isinstance(versions, list) and versions and isinstance(versions[0], Mapping):
        created = versions[0].get("created")
        try:
            date = parse_date(email.utils.parsedate_to_datetime(str(created)))
        except (TypeError, ValueError):
            date = parse_date(created)
        if date is None:
            field = "versions[0].created"
            raise TaskDataError(source, "a date", number, field, created)
        return date
    # The month in the identifier is the month of the first version; update_date is that of the
    # last one and would hide a paper from questions asked in between.
    date = date_from_id(stated) or parse_date(row.get("update_date"))
    if date is None:
        raise TaskDataError(
            source, "a date, published, versions or update_date field", number, "date",
            row.get("update_date"),
        )  # fmt: skip
    return date


def _reference_ids(value: Any, number: int, source: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise TaskDataError(source, "a list of identifiers", number, "references", value)
    names = []
    for entry in value:
        name = entry.get("arxiv_id", entry.get("id")) if isinstance(entry, Mapping) else entry
        if name is None:
            continue  # a cited work without arXiv identifier
        if not isinstance(name, str):
            raise TaskDataError(source, "identifiers", number, "references", entry)
        names.append(base_id(name))
    return names


def _citation_rows(
    paths: Iterable[str | os.PathLike[str]],
) -> Iterator[tuple[str, list[str]]]:
    for path in paths:
        for number, row in enumerate(iter_rows(path)):
            citing, cited = row.get("id", row.get("arxiv_id")), row.get("references")
            if "citing" in row:
                citing, cited = row["citing"], [row.get("cited")]
            if not isinstance(citing, str) or cited in (None, [None]):
                expected = '{"citing", "cited"} or {"id", "references"}'
                raise TaskDataError(str(path), expected, number, value=row)
            yield base_id(citing), _reference_ids(cited, number, str(path))
