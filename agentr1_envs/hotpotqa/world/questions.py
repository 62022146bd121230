"""Asks about the entities of a split: bridge and comparison questions with their supporting facts.

A question is a relation asked of a noun phrase; a phrase is an entity by name, a relation of a
phrase ("the director of .."), the only work of a person ("the novel by ..") or the extreme of two
("the elder of .. and .."). Answers are never among the entities a question names, so that reading
the question alone does not help; yes/no questions are balanced within each of their forms.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from agentr1_envs.hotpotqa.scoring import normalize_answer
from agentr1_envs.hotpotqa.world.names import pick, shuffled
from agentr1_envs.hotpotqa.world.phrases import BEFORE, EXTREMES, MAKERS, NAMED, OF, QUESTIONS, SAME
from agentr1_envs.hotpotqa.world.schema import RELATIONS, Entity, Fact
from agentr1_envs.hotpotqa.world.wording import mention

Support = list[tuple[Entity, str]]

# Links whose ends are alike often enough for "yes" to be as easy to draw as "no".
_SAME_OF_LINKS = [
    (link, ("person", relation))
    for link in (("film", "director"), ("film", "actor"), ("novel", "author"), ("album", "singer"))
    for relation in ("birthplace", "university")
] + [
    (link, ("city", "country"))
    for link in (("person", "birthplace"), ("novel", "city"), ("album", "city"), ("club", "city"))
]


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase: its words, the entity it denotes and the facts that show it."""

    text: str
    entity: Entity
    support: Support


def _named(entity: Entity) -> Phrase:
    if entity.kind == "person":
        text = f"the {entity.occupation} {entity.name}" if entity.shared_name else entity.name
    else:
        text = NAMED.get(entity.kind, "{n}").format(n=mention(entity))
    return Phrase(text, entity, [])


def _related(rng: random.Random, relation: str, of: Phrase) -> Phrase | None:
    value = of.entity.facts.get(relation)
    if not isinstance(value, Entity):
        return None
    text = pick(rng, OF[of.entity.kind, relation]).format(x=of.text)
    return Phrase(text, value, [*of.support, (of.entity, relation)])


class QuestionMaker:
    """Draws questions about one split's entities."""

    def __init__(self, rng: random.Random, by_kind: dict[str, list[Entity]]) -> None:
        self.rng = rng
        self.by_kind = by_kind
        self._links = [
            (kind, relation)
            for kind, relations in RELATIONS.items()
            for relation, target in relations.items()
            if target in RELATIONS
        ]
        self._works: dict[tuple[str, str], dict[Entity, list[Entity]]] = {}
        for kind, relation in MAKERS:
            index: dict[Entity, list[Entity]] = {}
            for entity in by_kind[kind]:
                maker = entity.facts[relation]
                assert isinstance(maker, Entity)
                index.setdefault(maker, []).append(entity)
            self._works[kind, relation] = index
        self._groups = {key: self._same_groups(*key) for key in SAME}
        self._answers: Counter[tuple[str, str]] = Counter()
        self._asked: Counter[str] = Counter()
        self._seen: set[str] = set()
        self._next: dict[tuple[str, ...], bool] = {}
        self._balance = 0

    def _same_groups(self, kind: str, relation: str) -> list[list[Entity]]:
        groups: dict[int, list[Entity]] = {}
        for entity in self.by_kind[kind]:
            value = entity.facts.get(relation)
            # A town titled "Name, Country" would give its country away.
            if isinstance(value, Entity) and not (relation == "country" and entity.shared_name):
                groups.setdefault(id(value), []).append(entity)
        return list(groups.values())

    def make(self, size: int, split: str, prefix: str) -> list[dict[str, Any]]:
        """``size`` task rows, kinds mixed in fixed shares, in shuffled order; ids begin so."""
        forms: tuple[str, ...]
        forms = ("two", "two", "same", "two", "extreme", "two", "work", "before", "two", "three")
        forms += (
            "two",
            "two",
            "same2",
            "two",
            "extreme",
            "three",
            "work",
            "same",
            "two",
            "extreme2",
        )
        rows: list[dict[str, Any]] = []
        while len(rows) < size:
            row = self._attempt(forms[len(rows) % len(forms)])
            if row is not None:
                rows.append(row)
        rows = shuffled(self.rng, rows)
        for i, row in enumerate(rows):
            row["task_id"] = f"{prefix}{split}-{i:05d}"
        return [{"task_id": row.pop("task_id"), **row} for row in rows]

    def _attempt(self, form: str) -> dict[str, Any] | None:
        if form in ("same", "same2", "before"):
            return getattr(self, f"_{form}")()
        phrase: Phrase | None = getattr(self, f"_{form}")()
        return self._ask(phrase, form) if phrase else None

    # Phrases of open questions.

    def _any(self, kind: str) -> Phrase:
        return _named(pick(self.rng, self.by_kind[kind]))

    def _two(self) -> Phrase | None:
        kind, relation = pick(self.rng, self._links)
        return _related(self.rng, relation, self._any(kind))

    def _three(self) -> Phrase | None:
        middle = self._two()
        if middle is None:
            return None
        links = [r for r, target in RELATIONS[middle.entity.kind].items() if target in RELATIONS]
        end = _related(self.rng, pick(self.rng, links), middle) if links else None
        return end if end and end.entity is not middle.support[0][0] else None

    def _work(self) -> Phrase | None:
        key = pick(self.rng, tuple(self._works))
        person, works = pick(self.rng, tuple(self._works[key].items()))
        if len(works) > 1:
            return None
        text = pick(self.rng, MAKERS[key]).format(x=_named(person).text)
        work = Phrase(text, works[0], [(works[0], key[1])])
        links = [
            r for r, target in RELATIONS[key[0]].items() if target in RELATIONS and r != key[1]
        ]
        return _related(self.rng, pick(self.rng, links), work)

    def _pair(self, kind: str, relation: str, a: Phrase, b: Phrase) -> Phrase | None:
        x, y = a.entity.facts.get(relation), b.entity.facts.get(relation)
        if not isinstance(x, int) or not isinstance(y, int) or x == y:
            return None
        least = self.rng.random() < 0.5
        text = EXTREMES[kind, relation][0 if least else 1].format(a=a.text, b=b.text)
        winner = a.entity if (x < y) == least else b.entity
        support = [*a.support, (a.entity, relation), *b.support, (b.entity, relation)]
        return Phrase(text, winner, support)

    def _extreme(self) -> Phrase | None:
        kind, relation = pick(self.rng, tuple(EXTREMES))
        return self._pair(kind, relation, self._any(kind), self._any(kind))

    def _extreme2(self) -> Phrase | None:
        pair = self._two_alike(*pick(self.rng, self._links))
        if pair is None or (kind := pair[0].entity.kind) not in ("person", "city"):
            return None
        return self._pair(kind, "born" if kind == "person" else "population", *pair)

    def _two_alike(self, kind: str, relation: str) -> tuple[Phrase, Phrase] | None:
        """The same relation of two entities of one kind: two phrases with different values."""
        a, b = self._any(kind), self._any(kind)
        if a.entity.facts.get(relation) is b.entity.facts.get(relation):
            return None
        one, two = _related(self.rng, relation, a), _related(self.rng, relation, b)
        return (one, two) if one and two else None

    # Closed questions. What a wording asks for alternates between yes and no (a pair that does not
    # fit is dropped, not asked the other way), so that no wording tells its answer.

    def _wanted(self, *key: str) -> bool:
        if key not in self._next:
            # What the split has fewer of, so that rare wordings do not add up to a majority.
            balance = self._balance or self.rng.random() - 0.5
            self._next[key] = balance < 0
        return self._next[key]

    def _closed(
        self, key: tuple[str, ...], text: str, yes: bool, support: Support
    ) -> dict[str, Any] | None:
        if yes != self._wanted(*key):
            return None
        row = self._row(text, "yes" if yes else "no", support, key[0])
        if row is not None:
            self._next[key] = not yes
            self._balance += 1 if yes else -1
        return row

    def _same(self) -> dict[str, Any] | None:
        key = pick(self.rng, tuple(SAME))
        relation = key[1]
        group = pick(self.rng, self._groups[key])
        a = pick(self.rng, group)
        wanted = self._wanted("same", *key)
        b = pick(self.rng, group if wanted else pick(self.rng, self._groups[key]))
        if a is b:
            return None
        text = pick(self.rng, SAME[key]).format(a=_named(a).text, b=_named(b).text)
        yes = a.facts[relation] is b.facts[relation]
        return self._closed(("same", *key), text, yes, [(a, relation), (b, relation)])

    def _same2(self) -> dict[str, Any] | None:
        """Whether what two entities lead to shares a value: four facts."""
        link, key = pick(self.rng, _SAME_OF_LINKS)
        pair = self._two_alike(*link)
        if pair is None:
            return None
        a, b = pair
        values = [phrase.entity.facts.get(key[1]) for phrase in pair]
        if None in values:
            return None
        text = pick(self.rng, SAME[key]).format(a=a.text, b=b.text)
        support = [*a.support, (a.entity, key[1]), *b.support, (b.entity, key[1])]
        if key[1] == "country" and (a.entity.shared_name or b.entity.shared_name):
            return None
        return self._closed(("same2", *link, *key), text, values[0] is values[1], support)

    def _before(self) -> dict[str, Any] | None:
        kind, relation = key = pick(self.rng, tuple(BEFORE))
        a, b = pick(self.rng, self.by_kind[kind]), pick(self.rng, self.by_kind[kind])
        x, y = a.facts.get(relation), b.facts.get(relation)
        if not isinstance(x, int) or not isinstance(y, int) or x == y:
            return None
        text = pick(self.rng, BEFORE[key]).format(a=_named(a).text, b=_named(b).text)
        return self._closed(("before", *key), text, x < y, [(a, relation), (b, relation)])

    # Rows.

    def _ask(self, phrase: Phrase, form: str) -> dict[str, Any] | None:
        entity = phrase.entity
        relation = pick(self.rng, tuple(RELATIONS[entity.kind]))
        if relation not in entity.facts or (entity, relation) in phrase.support:
            return None
        value = entity.facts[relation]
        answer = answer_text(value, entity.kind, relation)
        text = pick(self.rng, QUESTIONS[entity.kind, relation]).format(x=phrase.text)
        bare = normalize_answer(answer)
        # Neither the question nor an earlier fact may show the answer.
        if bare in normalize_answer(text):
            return None
        for source, stated in phrase.support:
            if bare in normalize_answer(source.sentences[source.where[stated]]):
                return None
        # No answer may be worth guessing: each keeps to 2 % of its relation's questions.
        key = (relation, bare)
        if self._answers[key] >= 1 + self._asked[relation] // 60:
            return None
        row = self._row(text, answer, [*phrase.support, (entity, relation)], form)
        if row is not None:
            self._answers[key] += 1
            self._asked[relation] += 1
            if isinstance(value, Entity) and value.title != answer and value.kind == "city":
                row["aliases"] = [value.title]
            elif relation == "runtime" or relation == "pages":
                row["aliases"] = [str(value)]
            elif relation == "river":
                row["aliases"] = [str(value).removeprefix("River ")]
        return row

    def _row(self, text: str, answer: str, support: Support, form: str) -> dict[str, Any] | None:
        question = text[0].upper() + text[1:]
        if question in self._seen:
            return None
        self._seen.add(question)
        facts = list(
            dict.fromkeys((entity, entity.where[relation]) for entity, relation in support)
        )
        comparison = form in ("same", "same2", "before", "extreme", "extreme2")
        return {
            "question": question,
            "answer": answer,
            "aliases": [],
            "type": "comparison" if comparison else "bridge",
            "level": {"two": "easy", "three": "hard", "same2": "hard", "extreme2": "hard"}.get(
                form, "medium"
            ),
            "supporting_facts": [
                {"title": entity.title, "sentence": i, "text": entity.sentences[i]}
                for entity, i in facts
            ],
        }


def answer_text(value: Fact, kind: str, relation: str) -> str:
    """The gold answer for a fact's value."""
    if isinstance(value, Entity):
        return value.name
    if relation == "population":
        return f"{value:,}"
    unit = {"runtime": " minutes", "pages": " pages"}.get(relation, "")
    return f"{value}{unit}"
