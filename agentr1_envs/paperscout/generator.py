"""A literature of any size made from nothing: papers, citations, questions.

It is written once for each (version, size, seed) below the cache folder and then memory-mapped by
every process; where the folder cannot be written a temporary one serves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentr1_envs.paperscout.papers import Paper
from agentr1_envs.paperscout.questions import topic_questions
from agentr1_envs.paperscout.texts import write
from agentr1_envs.paperscout.world import SPLITS, make_world
from agentr1_envs.seeding import derive_random

# Part of each generated library's name: raise it when anything that is generated changes.
VERSION = 2
DEFAULT_SIZE = 10_000


@dataclass(slots=True)
class Literature:
    """Papers in the order of their dates, what each cites, and the questions of each split."""

    papers: list[Paper]
    references: list[list[int]]
    questions: dict[str, list[dict[str, Any]]]


def library_name(size: int, seed: int) -> str:
    """The name that stands for one generated literature in task rows and folders."""
    return f"generated-v{VERSION}-{size}-{seed}"


def generate(size: int = DEFAULT_SIZE, seed: int = 0) -> Literature:
    """Makes a literature; equal arguments give equal text on every machine.

    Args:
        size: papers in all, at least 1500.
        seed: another seed gives other topics, names and links.
    """
    topics = make_world(size, seed)
    order = sorted(
        ((fact, topic, i) for topic in topics for i, fact in enumerate(topic.facts)),
        key=lambda entry: entry[0].identifier,
    )
    row_of = {(topic.index, i): row for row, (_, topic, i) in enumerate(order)}
    papers, references = [], []
    for row, (fact, topic, i) in enumerate(order):
        rng = derive_random("paperscout", "text", seed, topic.index, i)
        title, abstract, authors = write(topic, fact, rng)
        papers.append(Paper(fact.identifier, title, abstract, authors, fact.date, row))
        references.append([row_of[topic.index, r] for r in fact.references])
    questions: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    for topic in topics:
        questions[topic.split].extend(topic_questions(topic, seed))
    name = library_name(size, seed)
    for split, rows in questions.items():
        derive_random("paperscout", "order", seed, split).shuffle(rows)
        for number, question in enumerate(rows):
            question["task_id"] = f"paperscout-{split}-{number:05d}"
            question["library"] = name
    return Literature(papers, references, questions)
