"""The kinds of entities and their relations: what a fact's value is and how a fact compares."""

from __future__ import annotations

from dataclasses import dataclass, field

WORKS = ("film", "novel", "album", "painting")
COMPANIES = ("publisher", "studio", "label")
HOUSES = (*COMPANIES, "university", "museum")

# kind -> relation -> kind of its value: another entity's kind, or "year", "number", "text".
RELATIONS: dict[str, dict[str, str]] = {
    "country": {"capital": "city", "language": "text", "currency": "text", "year": "year"},
    "city": {
        "country": "country",
        "river": "text",
        "year": "year",
        "population": "number",
        "twin": "city",
    },
    "person": {
        "born": "year",
        "birthplace": "city",
        "university": "university",
        "spouse": "person",
        "teacher": "person",
        "died": "year",
        "club": "club",
    },
    "film": {
        "director": "person",
        "actor": "person",
        "composer": "person",
        "studio": "studio",
        "novel": "novel",
        "year": "year",
        "runtime": "number",
    },
    "novel": {
        "author": "person",
        "publisher": "publisher",
        "city": "city",
        "year": "year",
        "pages": "number",
    },
    "album": {"singer": "person", "label": "label", "city": "city", "year": "year"},
    "painting": {"painter": "person", "museum": "museum", "year": "year"},
    "university": {"founder": "person", "city": "city", "year": "year"},
    "publisher": {"founder": "person", "city": "city", "year": "year"},
    "studio": {"founder": "person", "city": "city", "year": "year"},
    "label": {"founder": "person", "city": "city", "year": "year"},
    "museum": {"architect": "person", "city": "city", "year": "year"},
    "club": {"city": "city", "ground": "text", "year": "year"},
    "expedition": {"leader": "person", "city": "city", "destination": "text", "year": "year"},
    "battle": {"commander": "person", "city": "city", "year": "year"},
    "festival": {"winner": "film", "president": "person", "city": "city"},
}
KINDS = tuple(RELATIONS)

# Who may stand in a relation: the occupation that a bare name implies there. A name that several
# people bear is therefore never ambiguous in a sentence.
ROLES: dict[tuple[str, str], str] = {
    ("film", "director"): "film director",
    ("film", "actor"): "actor",
    ("film", "composer"): "composer",
    ("novel", "author"): "novelist",
    ("album", "singer"): "singer",
    ("painting", "painter"): "painter",
    ("museum", "architect"): "architect",
    ("expedition", "leader"): "explorer",
    ("battle", "commander"): "general",
}
OCCUPATIONS = (*dict.fromkeys(ROLES.values()), "footballer", "industrialist")


@dataclass(slots=True, eq=False)
class Entity:
    """One article's subject.

    title: the article's title, unique in the corpus. name: what sentences call it; several
    entities may share one. facts: relation -> another Entity, an int or a str. sentences: the
    article. where: relation -> index of the one sentence that states it.
    """

    kind: str
    name: str
    title: str
    facts: dict[str, Fact] = field(default_factory=dict)
    occupation: str = ""
    female: bool = False
    shared_name: bool = False
    sentences: list[str] = field(default_factory=list)
    where: dict[str, int] = field(default_factory=dict)

    def year(self, relation: str = "year") -> int:
        """The value of a relation that holds a year or a number."""
        value = self.facts[relation]
        assert isinstance(value, int)
        return value

    def __repr__(self) -> str:
        return f"<{self.kind} {self.title}>"


Fact = Entity | int | str
