"""Questions over the generated literature, each with the papers that answer it.

A question is kept only when it can be answered: it has two to sixteen answers before its date, and
each is either written in the question's words or cited by a paper that is.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from agentr1_envs.paperscout.vocabulary import METHODS, SETTINGS
from agentr1_envs.paperscout.world import Fact, Topic
from agentr1_envs.seeding import derive_random

MIN_GOLD, MAX_GOLD = 2, 16
SHAPES = ("setting", "method", "since", "setting_method", "benchmark", "follow_up", "foundations")

_WORDING: dict[str, tuple[str, ...]] = {
    "setting": (
        "Which papers on {topic} deal with {setting}?",
        "Could you list studies of {topic} that treat {setting}?",
        "What work has been done on {setting} in {topic}?",
    ),
    "method": (
        "Which studies use {method} for {topic}?",
        "Could you give me papers that apply {method} to {topic}?",
        "What works approach {topic} with {method}?",
    ),
    "since": (
        "Which studies published in {year} or later use {method} for {topic}?",
        "From {year} on, what papers apply {method} to {topic}?",
    ),
    "setting_method": (
        "Which papers use {method} for {topic} and treat {setting}?",
        "Are there studies of {topic} that address {setting} by {method}?",
        "Find works on {topic} that combine {method} and {setting}.",
    ),
    "benchmark": (
        "Which papers that use {method} report results on {dataset}?",
        "What {method} approaches were evaluated on {dataset}?",
    ),
    "follow_up": (
        "Which works extend {source}?",
        "What papers build on {source} for {topic}?",
        "Could you name follow-up studies of {source}?",
    ),
    "foundations": (
        "Which earlier theoretical results do the papers on {setting} in {topic} build on?",
        "What foundations do studies of {topic} with {setting} rest on?",
        "Name the theory papers that work on {setting} in {topic} relies on.",
    ),
}


def topic_questions(topic: Topic, seed: int) -> Iterator[dict[str, Any]]:
    """The questions about one topic, as task rows without identifier and library.

    Yields:
        ``question``, ``gold`` (identifiers, earliest first), ``cutoff`` (YYYYMMDD; answers and
        searches are earlier), ``shape``, ``topic`` and ``facts`` (the parts of the question).
    """
    rng = derive_random("paperscout", "questions", seed, topic.index)
    for shape in SHAPES:
        for parts in _candidates(topic, shape, rng):
            row = _question(topic, shape, parts, rng)
            if row is not None:
                yield row


def _candidates(topic: Topic, shape: str, rng: random.Random) -> Iterator[dict[str, int]]:
    """The parts of each question of a shape, as indices."""
    if shape in ("setting", "foundations"):
        yield from ({"setting": s} for s in topic.settings)
    elif shape == "method":
        yield from ({"method": m} for m in topic.methods)
    elif shape == "since":
        yield from ({"method": m, "year": rng.randrange(2017, 2023)} for m in topic.methods[:3])
    elif shape == "setting_method":
        yield from ({"setting": s, "method": rng.choice(topic.methods)} for s in topic.settings)
    elif shape == "benchmark":
        for dataset in range(len(topic.datasets)):
            yield {"dataset": dataset, "method": rng.choice(topic.methods)}
    else:
        sources = sorted({f.extends for f in topic.facts if f.extends >= 0})
        for source in rng.sample(sources, min(len(sources), 8)):
            yield {"source": source}


def _answers(fact: Fact, shape: str, parts: dict[str, int]) -> bool:
    """Whether a paper is an answer, dates of the search aside."""
    return (
        fact.kind == ("foundation" if shape == "foundations" else "work")
        and fact.setting == parts.get("setting", fact.setting)
        and fact.method == parts.get("method", fact.method)
        and fact.dataset == parts.get("dataset", fact.dataset)
        and fact.extends == parts.get("source", fact.extends)
        and fact.date >= parts.get("year", 0) * 10000
    )


def _question(
    topic: Topic,
    shape: str,
    parts: dict[str, int],
    rng: random.Random,
) -> dict[str, Any] | None:
    answers = [i for i, fact in enumerate(topic.facts) if _answers(fact, shape, parts)]
    # The date is drawn among the later years, then moved back until the answers are few enough.
    for year in sorted(rng.sample(range(2016, 2026), 4), reverse=True):
        cutoff = year * 10000 + 101
        gold = [i for i in answers if topic.facts[i].date < cutoff]
        if not MIN_GOLD <= len(gold) <= MAX_GOLD or not _reachable(
            topic, shape, parts, gold, cutoff
        ):
            continue
        facts = {
            "topic": topic.name,
            "domain": topic.domain[0],
            "problem": topic.problem[0],
            **_named(topic, parts),
        }
        return {
            "question": rng.choice(_WORDING[shape]).format(**facts),
            "gold": [topic.facts[i].identifier for i in gold],
            "cutoff": cutoff,
            "shape": shape,
            "topic": topic.name,
            "facts": facts,
        }
    return None


def _named(topic: Topic, parts: dict[str, int]) -> dict[str, Any]:
    """The parts of a question in words."""
    words: dict[str, Any] = dict(parts)
    if "setting" in parts:
        words["setting"] = SETTINGS[parts["setting"]][0]
    if "method" in parts:
        words["method"] = METHODS[parts["method"]][0]
    if "dataset" in parts:
        words["dataset"] = topic.datasets[parts["dataset"]]
    if "source" in parts:
        words["source"] = topic.facts[parts["source"]].name
    return words


def _reachable(
    topic: Topic, shape: str, parts: dict[str, int], gold: list[int], cutoff: int
) -> bool:
    """Whether every answer is open to search, or cited along answers that are (three hops at most).

    For foundations, which no question word finds, the first hop starts from the works that they
    are the foundations of.
    """
    facts = topic.facts
    if shape == "foundations":
        reached = {
            i
            for i, fact in enumerate(facts)
            if fact.kind == "work"
            and fact.setting == parts["setting"]
            and fact.open_setting
            and fact.date < cutoff
        }
        hops = 1
    else:
        reached = {i for i in gold if _open(facts[i], shape)}
        hops = 3
    wanted = set(gold)
    for _ in range(hops):
        reached |= {r for i in reached for r in facts[i].references if r in wanted}
    return wanted <= reached


def _open(fact: Fact, shape: str) -> bool:
    """Whether a paper is written in the words of the questions of a shape."""
    if shape == "follow_up":
        return fact.open_source
    if shape == "setting":
        return fact.open_setting
    if shape == "setting_method":
        return fact.open_setting and fact.open_method
    return fact.open_method
