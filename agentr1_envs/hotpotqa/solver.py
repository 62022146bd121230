"""Answers a parsed question from articles found along the way.

A plan is a generator: it yields the searches it needs next (independent ones together) and is
resumed when their results stand in the library; what it returns is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TypeVar

from agentr1_envs.hotpotqa.grammar import Extreme, Named, Of, Only, Phrase, Question
from agentr1_envs.hotpotqa.reading import Mention, kind_of, sentences_of, statements

T = TypeVar("T")
Plan = Generator[list[str], None, T]
# A length is a film's running time or a novel's pages, whichever the article states.
_RELATIONS = {"length": ("runtime", "pages")}


class Unanswerable(Exception):
    """What was found does not say."""


@dataclass(slots=True)
class Library:
    """The articles seen so far, by title."""

    articles: dict[str, str] = field(default_factory=dict)

    def add(self, title: str, text: str) -> None:
        """Keep an article; a longer reading of a known one replaces it."""
        if len(text) > len(self.articles.get(title, "")):
            self.articles[title] = text

    def meant(self, mention: Mention) -> str | None:
        """The title of the article that a mention means, when it is here."""
        return next((title for title in self.articles if mention.fits(title)), None)

    def value(self, title: str, relation: str, kind: str = "") -> Mention | None:
        """What an article states for a relation of its subject."""
        text = self.articles[title]
        kind = kind or kind_of(text)
        for name in _RELATIONS.get(relation, (relation,)):
            for sentence in sentences_of(text):
                found = statements(sentence, name, kind)
                if found is not None:
                    return found
        return None

    def stated(self, title: str, relation: str) -> Mention:
        """As :meth:`value`; raises Unanswerable when the article does not say."""
        found = self.value(title, relation)
        if found is None:
            raise Unanswerable(f"{title} does not state {relation}")
        return found

    def work_of(self, only: Only) -> str | None:
        """The title of the one work of a person, when it is here."""
        for title, text in self.articles.items():
            kind = kind_of(text)
            if kind and kind != only.kind:
                continue
            maker = self.value(title, only.relation, only.kind)
            if maker is not None and maker.name == only.person.name:
                return title
        return None


def _seek(find: Callable[[], str | None], queries: list[str]) -> Plan[str]:
    for query in ["", *queries]:
        if query:
            yield [query]
        title = find()
        if title is not None:
            return title
    raise Unanswerable(f"no article found for {queries[0]!r}")


def _article(library: Library, phrase: Phrase) -> Plan[str]:
    """The title of the article on what a phrase denotes."""
    if isinstance(phrase, Named):
        mention = phrase.mention
        queries = list(dict.fromkeys((mention.query, mention.name)))
        return (yield from _seek(lambda: library.meant(mention), queries))
    if isinstance(phrase, Only):
        query = f"{phrase.kind} {phrase.relation} {phrase.person.name}"
        queries = [query, f"{phrase.person.name} {phrase.kind}"]
        return (yield from _seek(lambda: library.work_of(phrase), queries))
    if isinstance(phrase, Of):
        source = yield from _article(library, phrase.phrase)
        mention = library.stated(source, phrase.relation)
        return (yield from _article(library, Named(mention)))
    assert isinstance(phrase, Extreme)
    one, two = yield from _both(_article(library, phrase.one), _article(library, phrase.two))
    x, y = (_number(library.stated(title, phrase.relation)) for title in (one, two))
    return one if (x < y) == phrase.least else two


def _both(one: Plan[T], two: Plan[T]) -> Plan[tuple[T, T]]:
    """Run two plans side by side, their searches in the same steps."""
    results: dict[int, T] = {}
    plans = {0: one, 1: two}
    while plans:
        wanted: list[str] = []
        for i, plan in list(plans.items()):
            try:
                wanted += next(plan)
            except StopIteration as end:
                results[i] = end.value
                del plans[i]
        if wanted:
            yield wanted
    return results[0], results[1]


def _number(mention: Mention) -> int:
    return int(mention.name.replace(",", ""))


def answer(question: Question, library: Library) -> Plan[str]:
    """The answer's text. Raises Unanswerable from within the plan."""
    if question.two is None:
        title = yield from _article(library, question.one)
        relation = question.relation
        return library.stated(title, relation).name
    one, two = yield from _both(_article(library, question.one), _article(library, question.two))
    first, second = (library.stated(title, question.relation) for title in (one, two))
    if question.form == "same":
        return "yes" if first == second else "no"
    return "yes" if _number(first) < _number(second) else "no"
