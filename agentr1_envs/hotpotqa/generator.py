"""The embedded world: a generated encyclopaedia and questions about it, the same everywhere.

About 6,000 articles on people, places, works, organisations and events that do not exist, so that
no model knows them. Each split has entities of its own; the corpus holds the articles of all three.
Built on first use and kept for the process.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from agentr1_envs.hotpotqa.once import once
from agentr1_envs.hotpotqa.world.facts import HELD_OUT_COUNTS, TRAIN_COUNTS, SplitFacts
from agentr1_envs.hotpotqa.world.names import NameMaker, shuffled
from agentr1_envs.hotpotqa.world.questions import QuestionMaker
from agentr1_envs.hotpotqa.world.wording import write_article
from agentr1_envs.seeding import derive_int

# Changes with anything that changes the world, so that stored results name what they ran on.
VERSION = 1
ID_PREFIX = f"world{VERSION}-"
SIZES = {"train": 4000, "validation": 1000, "test": 1000}


@dataclass(frozen=True, slots=True)
class World:
    """The facts of every split and the corpus written from them.

    articles: rows ``{"id", "title", "text", "sentences"}``, in one fixed shuffled order.
    """

    splits: dict[str, SplitFacts]
    articles: list[dict[str, Any]]


def _rng(*parts: str) -> random.Random:
    return random.Random(derive_int("hotpotqa-world", VERSION, *parts))


@once
def world() -> World:
    """The embedded world, built once a process (a fifth of a second)."""
    names = NameMaker(_rng("names"))
    splits: dict[str, SplitFacts] = {}
    articles: list[dict[str, Any]] = []
    for split in SIZES:
        counts = TRAIN_COUNTS if split == "train" else HELD_OUT_COUNTS
        facts = SplitFacts(_rng("facts", split), names, counts)
        rng = _rng("wording", split)
        for kind, group in facts.by_kind.items():
            for entity in group:
                write_article(entity, rng, facts.by_kind[kind])
        splits[split] = facts
        for entity in facts.entities:
            articles.append(
                {
                    "id": entity.title,
                    "title": entity.title,
                    "text": " ".join(entity.sentences),
                    "sentences": entity.sentences,
                }
            )
    return World(splits, shuffled(_rng("order"), articles))


@once
def questions(split: str) -> list[dict[str, Any]]:
    """The task rows of a split: ``train`` (4,000), ``validation`` (1,000) or ``test`` (1,000)."""
    maker = QuestionMaker(_rng("questions", split), world().splits[split].by_kind)
    return maker.make(SIZES[split], split, ID_PREFIX)
