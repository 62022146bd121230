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
MIN_SIZE = 1500
_TOPIC_SIZE = 250
_FIRST_YEAR, _YEARS = 2012, 13
_PER_TOPIC = {"settings": 10, "methods": 10, "datasets": 6, "foundations": 3, "surveys": 3}
# How often a text uses the words that questions use.
_OPEN = {"setting": 0.5, "method": 0.55, "source": 0.55}


@dataclass(slots=True)
class Fact:
    """What one paper is about. References are positions in the list of the same topic.

    `open_setting`, `open_method` and `open_source` say whether the text uses the words that
    questions use for its setting, for its method and for the work it extends.
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
    open_method: bool = True
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
        size: papers in all, at least 1500.
        seed: another seed gives another literature.
    """
    if size < MIN_SIZE:
        raise ValueError(
            f"size of a generated literature: expected at least {MIN_SIZE}, got {size}"
        )
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
        facts.append(
            Fact(
                topic.index,
                "work",
                _date(rng, start + 1, _YEARS, growing=True),
                setting=rng.choice(topic.settings),
                method=rng.choice(topic.methods),
                dataset=rng.randrange(len(topic.datasets)),
                name=_coin(rng, taken) if rng.random() < 0.4 else "",
                open_setting=rng.random() < _OPEN["setting"],
                open_method=rng.random() < _OPEN["method"],
            )
        )
    del facts[size:]
    facts.sort(key=lambda fact: fact.date)
    topic.facts = facts
    known = _Known()
    for position, fact in enumerate(facts):
        known.advance(facts, fact.date)
        _cite(facts, position, known, rng)


def _date(rng: random.Random, first: int, last: int, growing: bool = False) -> int:
    """A day between the start of year ``first`` and the end of ``last - 1``."""
    place = rng.random()
    if growing:
        place = place**0.7  # later years have more papers
    months = first * 12 + int(place * (last - first) * 12)
    year, month = divmod(months, 12)
    return (_FIRST_YEAR + year) * 10000 + (month + 1) * 100 + rng.randrange(1, 29)


class _Known:
    """The papers of a topic that are dated before a day, by what they are about."""

    def __init__(self) -> None:
        self.end = 0
        self.works: list[int] = []
        self.named: list[int] = []
        self.roots: list[int] = []
        self.roots_of: dict[int, list[int]] = {}
        self.setting: dict[int, list[int]] = {}
        self.method: dict[int, list[int]] = {}
        self.extends: dict[int, list[int]] = {}

    def advance(self, facts: list[Fact], date: int) -> None:
        """Takes in all papers dated before ``date``."""
        while facts[self.end].date < date:
            i, fact = self.end, facts[self.end]
            self.end += 1
            if fact.kind == "foundation":
                self.roots.append(i)
                self.roots_of.setdefault(fact.setting, []).append(i)
            elif fact.kind == "work":
                self.works.append(i)
                self.setting.setdefault(fact.setting, []).append(i)
                self.method.setdefault(fact.method, []).append(i)
                if fact.name:
                    self.named.append(i)
                if fact.extends >= 0:
                    self.extends.setdefault(fact.extends, []).append(i)


def _cite(facts: list[Fact], position: int, known: _Known, rng: random.Random) -> None:
    """Gives a paper what it extends and what it cites, all of it dated earlier."""
    fact = facts[position]
    works, roots = known.works, known.roots
    if fact.kind == "foundation":
        fact.references = rng.sample(roots, min(len(roots), rng.randrange(2)))
        return
    if fact.kind == "survey":
        fact.references = sorted(rng.sample(works, min(len(works), 28)), reverse=True)
        return
    if known.named and rng.random() < 0.5:
        # Half of the extensions follow the newest works, half the classics.
        pool = known.named[-8:] if rng.random() < 0.5 else known.named[:6]
        fact.extends = rng.choice(pool)
        fact.open_source = rng.random() < _OPEN["source"]
    own = known.roots_of.get(fact.setting, [])
    cited = rng.sample(own, min(len(own), rng.randrange(1, 3)))
    if fact.extends >= 0:
        cited.append(fact.extends)
        cited += _some(known.extends.get(fact.extends, []), rng, 3)
    cited += _some(known.setting.get(fact.setting, []), rng, 3)
    cited += _some(known.method.get(fact.method, []), rng, 2)
    cited += _some(works, rng, 6)
    fact.references = list(dict.fromkeys(cited))[:30]


def _some(near: list[int], rng: random.Random, most: int) -> list[int]:
    """One to ``most`` of some papers, rather the newer ones."""
    recent = near[-12:]
    return rng.sample(recent, min(len(recent), rng.randrange(1, most + 1)))


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
