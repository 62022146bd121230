"""The facts behind the generated literature: topics, papers and what each cites.

A topic is a problem on a domain. Its papers have a setting, a method, a benchmark, perhaps an
earlier work that they extend; they cite the foundations of their setting, what they extend, and
earlier papers near to them. Foundations have a vocabulary of their own: they are found only through
the papers that cite them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from agentr1_envs.paperscout.vocabulary import (
    CONCEPT_KINDS,
    DOMAINS,
    METHODS,
    PROBLEMS,
    SETTINGS,
    SYLLABLES,
)
from agentr1_envs.seeding import derive_random

SPLITS = ("train", "validation", "test")
_DOMAINS_OF = {"train": 32, "validation": 8, "test": 10}
_TOPIC_SIZE = 100
_FIRST_YEAR, _YEARS = 2012, 13
_PER_TOPIC = {"settings": 5, "methods": 6, "datasets": 3, "foundations": 2, "surveys": 2}


@dataclass(slots=True)
class Fact:
    """What one paper is about. References are positions in the list of the same topic.

    `open_setting` and `open_source` say whether the text uses the words that questions use for its
    setting and for the work it extends.
    """

    topic: int
    kind: str
    date: int
    setting: int
    method: int = -1
    dataset: int = -1
    name: str = ""
    extends: int = -1
    open_setting: bool = True
    open_source: bool = True
    references: list[int] = field(default_factory=list)
    identifier: str = ""


@dataclass(slots=True)
class Topic:
    """One problem on one domain, with the names that only it uses."""

    index: int
    split: str
    domain: tuple[str, str]
    problem: tuple[str, str]
    settings: list[int]
    methods: list[int]
    datasets: list[str]
    facts: list[Fact] = field(default_factory=list)

    @property
    def name(self) -> str:
        """``"segmentation of satellite imagery"``."""
        return f"{self.problem[0]} of {self.domain[0]}"


def make_world(size: int, seed: int) -> list[Topic]:
    """The topics of a literature of ``size`` papers, dated, named and linked.

    Args:
        size: papers in all, at least 600.
        seed: another seed gives another literature.
    """
    if size < 600:
        raise ValueError(f"size of a generated literature: expected at least 600, got {size}")
    topics = _topics(max(6, min(size // _TOPIC_SIZE, len(DOMAINS) * len(PROBLEMS))), seed)
    share, extra = divmod(size, len(topics))
    taken: set[str] = set()
    for topic in topics:
        rng = derive_random("paperscout", "topic", seed, topic.index)
        _fill(topic, share + (topic.index < extra), rng, taken)
    _number(topics)
    return topics


def _topics(count: int, seed: int) -> list[Topic]:
    rng = derive_random("paperscout", "topics", seed)
    domains = rng.sample(DOMAINS, len(DOMAINS))
    pairs: dict[str, list[tuple[tuple[str, str], tuple[str, str]]]] = {}
    for split in SPLITS:
        own, domains = domains[: _DOMAINS_OF[split]], domains[_DOMAINS_OF[split] :]
        pairs[split] = [(domain, problem) for domain in own for problem in PROBLEMS]
        rng.shuffle(pairs[split])
    # Fifths: three of training, one and one held out, as long as a split has pairs left.
    wheel = ("train", "test", "train", "validation", "train")
    topics: list[Topic] = []
    turn = 0
    while len(topics) < count:
        split, turn = wheel[turn % len(wheel)], turn + 1
        if not pairs[split]:
            continue
        domain, problem = pairs[split].pop()
        topics.append(
            Topic(
                index=len(topics),
                split=split,
                domain=domain,
                problem=problem,
                settings=rng.sample(range(len(SETTINGS)), _PER_TOPIC["settings"]),
                methods=rng.sample(range(len(METHODS)), _PER_TOPIC["methods"]),
                datasets=[],
            )
        )
    return topics


def _coin(rng: random.Random, taken: set[str]) -> str:
    """A new name of three or four syllables."""
    length = 3
    while True:
        name = "".join(rng.choice(SYLLABLES) for _ in range(length)).capitalize()
        if name not in taken:
            taken.add(name)
            return name
        length = 4


def _fill(topic: Topic, size: int, rng: random.Random, taken: set[str]) -> None:
    topic.datasets = [
        _coin(rng, taken) + rng.choice(("Bench", "Set", "Eval"))
        for _ in range(_PER_TOPIC["datasets"])
    ]
    start = rng.randrange(4)
    facts = [
        Fact(
            topic.index,
            "foundation",
            _date(rng, start, start + 2),
            setting,
            name=f"{_coin(rng, taken)} {rng.choice(CONCEPT_KINDS)}",
        )
        for setting in topic.settings
        for _ in range(_PER_TOPIC["foundations"])
    ]
    facts += [
        Fact(topic.index, "survey", _date(rng, _YEARS - 4, _YEARS), setting=-1)
        for _ in range(_PER_TOPIC["surveys"])
    ]
    while len(facts) < size:
        hidden = rng.random() < 0.2
        facts.append(
            Fact(
                topic.index,
                "work",
                _date(rng, start + 1, _YEARS, growing=True),
                setting=rng.choice(topic.settings),
                method=rng.choice(topic.methods),
                dataset=rng.randrange(len(topic.datasets)),
                name=_coin(rng, taken) if not hidden and rng.random() < 0.4 else "",
                open_setting=not hidden,
            )
        )
    del facts[size:]
    facts.sort(key=lambda fact: fact.date)
    topic.facts = facts
    for position in range(len(facts)):
        _cite(facts, position, rng)


def _date(rng: random.Random, first: int, last: int, growing: bool = False) -> int:
    """A day between the start of year ``first`` and the end of ``last - 1``."""
    place = rng.random()
    if growing:
        place = place**0.7  # later years have more papers
    months = first * 12 + int(place * (last - first) * 12)
    year, month = divmod(months, 12)
    return (_FIRST_YEAR + year) * 10000 + (month + 1) * 100 + rng.randrange(1, 29)


def _cite(facts: list[Fact], position: int, rng: random.Random) -> None:
    """Gives a paper what it extends and what it cites, all of it dated earlier."""
    fact = facts[position]
    earlier = [i for i in range(position) if facts[i].date < fact.date]
    works = [i for i in earlier if facts[i].kind == "work"]
    if fact.kind == "foundation":
        roots = [i for i in earlier if facts[i].kind == "foundation"]
        fact.references = rng.sample(roots, min(len(roots), rng.randrange(2)))
        return
    if fact.kind == "survey":
        fact.references = sorted(rng.sample(works, min(len(works), 28)), reverse=True)
        return
    named = [i for i in works if facts[i].name]
    if named and rng.random() < 0.5:
        # Half of the extensions follow the newest works, half the classics.
        pool = named[-8:] if rng.random() < 0.5 else named[:6]
        fact.extends = rng.choice(pool)
        fact.open_source = fact.open_setting and rng.random() < 0.75
    same = [i for i in earlier if facts[i].setting == fact.setting]
    cited = [i for i in same if facts[i].kind == "foundation"]
    if fact.extends >= 0:
        cited.append(fact.extends)
    near = [i for i in same if facts[i].kind == "work"]
    if fact.open_setting:
        # What words do not find must be found along citations: open papers cite the hidden ones.
        cited += [i for i in near if not facts[i].open_setting][-4:]
        if fact.extends >= 0 and fact.open_source:
            siblings = (i for i in works if facts[i].extends == fact.extends)
            cited += [i for i in siblings if not facts[i].open_source][-4:]
    cited += rng.sample(near, min(len(near), rng.randrange(1, 5)))
    cited += rng.sample(works, min(len(works), rng.randrange(1, 6)))
    fact.references = list(dict.fromkeys(cited))[:30]


def _number(topics: list[Topic]) -> None:
    """Gives each paper an identifier in arXiv's form, in the order of dates."""
    every = [fact for topic in topics for fact in topic.facts]
    every.sort(key=lambda fact: (fact.date, fact.topic))
    month, serial = 0, 0
    for fact in every:
        if fact.date // 100 != month:
            month, serial = fact.date // 100, 0
        serial += 1
        fact.identifier = f"{month % 10000:04d}.{serial:05d}"
