"""Reads the embedded world's language: what a question asks and what an article states.

Written against the sentences, not the tables they were made from, so that it serves both the
scripted observer (which sees only text) and the test that every question is answerable from exactly
its supporting facts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from agentr1_envs.hotpotqa.world.schema import ROLES

_PERSON = r"(?:[Tt]he (?P<job>[a-z][a-z ]*) )?(?P<v>[A-Z]\w+ [A-Z]\w+)"
_PLACE = r"(?P<v>[A-Z]\w+(?:, [A-Z]\w+)?)"
_HOUSE = r"(?:[Tt]he )?(?P<v>(?:University|Museum) of [A-Z]\w+|[A-Z]\w+ [A-Z]\w+)"
_WORK = r"\"(?P<v>[^\"]+)\""
_WORD = r"(?P<v>\w+)"
_YEAR = r"(?P<v>\d{3,4})"
_NUMBER = r"(?P<v>[\d,]+)"

# kind -> relation -> the ways to state it; each must match from some point of one sentence.
_STATEMENTS: dict[str, dict[str, list[str]]] = {
    "country": {
        "capital": [rf"capital is {_PLACE}", rf"seat of government is {_PLACE}"],
        "language": [rf"official language is {_WORD}"],
        "currency": [rf"currency is the {_WORD}", rf"Prices are given in the {_WORD}"],
        "year": [rf"became independent in {_YEAR}", rf"Independence came in {_YEAR}"],
    },
    "city": {
        "country": [rf"is a (?:city|market town|port) in {_WORD}"],
        "river": [r"(?:lies on the|The) (?P<v>River \w+)"],
        "year": [rf"It was founded in {_YEAR}", rf"foundation dates from {_YEAR}"],
        "population": [rf"(?:It has|population of) {_NUMBER}", rf"Some {_NUMBER} people live"],
        "twin": [rf"(?:twinned with|twin town is) {_PLACE}"],
    },
    "person": {
        "born": [
            rf"(?:born on|\(born|date of birth is) \d+ \w+ {_YEAR}",
        ],
        "birthplace": [rf"(?:was born in|birthplace is|was a native of) {_PLACE}"],
        "university": [rf"(?:studied at|was educated at|graduated from) {_HOUSE}"],
        "spouse": [rf"(?:was married to|e married|spouse was) {_PERSON}"],
        "teacher": [rf"(?:was a pupil of|was taught by|teacher was) {_PERSON}"],
        "died": [rf"(?:died|death came) in {_YEAR}"],
        "club": [rf"(?:played for|career at) {_HOUSE}"],
    },
    "film": {
        "director": [
            rf"directed by {_PERSON}",
            rf"director was {_PERSON}",
            rf"{_PERSON} directed it",
        ],
        "actor": [rf"(?:It stars|role is played by) {_PERSON}", rf"{_PERSON} plays the lead"],
        "composer": [
            rf"(?:score was composed by|music is by) {_PERSON}",
            rf"{_PERSON} wrote the music",
        ],
        "studio": [rf"(?:produced by|made at) {_HOUSE}", rf"^{_HOUSE} produced it"],
        "novel": [rf"(?:based on|It adapts) the novel {_WORK}"],
        "year": [
            rf" is a {_YEAR} [a-z-]+ film",
            rf"(?:was released|It opened|release came) in {_YEAR}",
        ],
        "runtime": [rf"(?:runs for|running time is) {_NUMBER} minutes"],
    },
    "novel": {
        "author": [
            rf"(?:written by|author is) {_PERSON}",
            rf"novel by {_PERSON}",
            rf"{_PERSON} wrote it",
        ],
        "publisher": [rf"published by {_HOUSE}", rf"^{_HOUSE} (?:published it|brought it out)"],
        "city": [rf"(?:is set in|takes place in|setting is) {_PLACE}"],
        "year": [
            rf" is a {_YEAR} [a-z-]+ novel",
            rf"(?:appeared|came out|first printed) in {_YEAR}",
        ],
        "pages": [rf"(?:runs to|edition has) {_NUMBER} pages"],
    },
    "album": {
        "singer": [
            rf"(?:recorded by|singer is|album by) {_PERSON}",
            rf"{_PERSON} recorded it",
        ],
        "label": [rf"(?:issued by|came out on) {_HOUSE}", rf"^{_HOUSE} issued it"],
        "city": [rf"(?:was recorded|sessions took place) in {_PLACE}"],
        "year": [rf" is a {_YEAR} [a-z-]+ album", rf"(?:was released|release came) in {_YEAR}"],
    },
    "painting": {
        "painter": [
            rf"(?:painting by|was painted by|a work of) {_PERSON}",
            rf"{_PERSON} painted it",
        ],
        "museum": [rf"(?:hangs in|belongs to) {_HOUSE}", rf"^{_HOUSE} owns it"],
        "year": [rf"(?:oil painting of|finished in|dates from) {_YEAR}"],
    },
    "museum": {
        "architect": [
            rf"(?:building was designed by|architect was) {_PERSON}",
            rf"{_PERSON} designed the building",
        ],
        "city": [rf"(?:art museum in|stands in|located in) {_PLACE}"],
        "year": [rf"opened in {_YEAR}"],
    },
    "club": {
        "city": [rf"(?:football club from|based in|seat is in) {_PLACE}"],
        "ground": [rf"(?:It plays at|home ground is|games are at) {_HOUSE}"],
        "year": [rf"(?:founded|established) in {_YEAR}"],
    },
    "expedition": {
        "leader": [rf"(?:led by|leader was) {_PERSON}", rf"{_PERSON} led it"],
        "city": [rf"(?:set out|departed) from {_PLACE}"],
        "destination": [r"(?:reached|goal was|bound for) (?P<v>[A-Z]\w+ [A-Z]\w+)"],
        "year": [rf"(?:expedition of|took place in|sailed in) {_YEAR}"],
    },
    "battle": {
        "commander": [rf"victor was {_PERSON}", rf"{_PERSON} commanded the winning side"],
        "city": [rf"(?:fought|lies) near {_PLACE}", rf"took place outside {_PLACE}"],
        "year": [rf"(?:fought|took place) in {_YEAR}"],
    },
    "festival": {
        "winner": [rf"(?:prize went to|winning film was)(?: the film)? {_WORK}"],
        "president": [rf"jury was chaired by {_PERSON}", rf"{_PERSON} headed the jury"],
        "city": [rf"(?:was held|took place) in {_PLACE}", rf"^{_PLACE} was the host city"],
    },
}
for _kind, _noun in (
    ("university", "university"),
    ("publisher", "publisher"),
    ("studio", "film studio"),
    ("label", "record label"),
):
    _STATEMENTS[_kind] = {
        "founder": [rf"(?:founded by|founder was) {_PERSON}"],
        "city": [rf"{_noun} (?:based )?in {_PLACE}", rf"(?:is based|seat is) in {_PLACE}"],
        "year": [rf"(?:founded|established) in {_YEAR}"],
    }
_COMPILED = {
    kind: {relation: [re.compile(form) for form in forms] for relation, forms in relations.items()}
    for kind, relations in _STATEMENTS.items()
}

# What the lead sentence calls its subject.
_KINDS = [
    (re.compile(form), kind)
    for form, kind in (
        (r" is a (?:mountainous )?country(?: on|\.)", "country"),
        (r" is a (?:city|market town|port) in ", "city"),
        (r" (?:is|was) a (?:\d+ )?[a-z-]+ film(?: directed|\.)", "film"),
        (r" is a (?:\d+ )?[a-z-]+ novel", "novel"),
        (r" is a (?:\d+ )?[a-z-]+ album", "album"),
        (r" is an oil painting", "painting"),
        (r" is a university", "university"),
        (r" is a (?:publishing house|publisher)", "publisher"),
        (r" is a film studio", "studio"),
        (r" is a record label", "label"),
        (r" is an art museum", "museum"),
        (r" is a football club", "club"),
        (r" Expedition was ", "expedition"),
        (r"^The Battle of ", "battle"),
        (r" Film Festival was ", "festival"),
    )
]
_JOB = re.compile(
    r" (?:is|was) an? (film director|actor|composer|novelist|singer|painter|architect|explorer"
    r"|general|footballer|industrialist)\."
)


@dataclass(frozen=True, slots=True)
class Mention:
    """A thing as a sentence or a question names it; kind and job are "" where it does not say."""

    name: str
    kind: str = ""
    job: str = ""

    def fits(self, title: str) -> bool:
        """Whether an article of this title is the one meant."""
        if title == self.name:
            return True
        return bool(self.job or self.kind) and title == f"{self.name} ({self.job or self.kind})"

    @property
    def query(self) -> str:
        """Words to search for."""
        return f"{self.name} {self.job or self.kind}".strip()


def kind_of(text: str) -> str:
    """The kind of an article's subject by its lead sentence; "" when it is none of the world's."""
    lead = text.split(". ", 1)[0] + "."
    for form, kind in _KINDS:
        if form.search(lead):
            return kind
    return "person" if _JOB.search(lead) else ""


def sentences_of(text: str) -> list[str]:
    """An article's sentences; names hold no full stops."""
    return re.split(r"(?<=\.) ", text)


@lru_cache(maxsize=8192)
def statements(sentence: str, relation: str, kind: str = "") -> Mention | None:
    """What one sentence states for a relation of its article's subject, if anything.

    Args:
        kind: the subject's kind; "" tries every kind that has the relation.
    """
    for one, relations in _COMPILED.items():
        if kind and one != kind:
            continue
        for form in relations.get(relation, ()):
            match = form.search(sentence)
            if match:
                # A bare name means who is of the trade that the relation implies.
                job = match.groupdict().get("job") or ROLES.get((one, relation), "")
                return Mention(match["v"], _TARGETS.get(relation, ""), job)
    return None


_TARGETS = {"novel": "novel", "winner": "film"}
