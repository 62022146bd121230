"""Writes an entity's article: a lead sentence, its facts in varied words and order, asides.

In a template, {n} is the entity's name, {s}/{S} the subject (a pronoun or "the film"; the capital
begins a sentence), {p}/{P} the possessive, {v} the value.
"""

from __future__ import annotations

import random

from agentr1_envs.hotpotqa.world.names import between, pick, shuffled, words
from agentr1_envs.hotpotqa.world.schema import HOUSES, ROLES, WORKS, Entity, Fact

MONTHS = words(
    "January February March April May June July August September October November December"
)

# kind -> (relation stated by the lead or "", template)
LEADS: dict[str, list[tuple[str, str]]] = {
    "country": [
        ("", "{n} is a country on the {sea} coast."),
        ("", "{n} is a mountainous country."),
    ],
    "city": [
        ("country", "{n} is a city in {v}."),
        ("country", "{n} is a market town in {v}."),
        ("country", "{n} is a port in {v}."),
    ],
    "film": [
        ("", "{n} is a {genre} film."),
        ("year", "{n} is a {v} {genre} film."),
        ("director", "{n} is a {genre} film directed by {v}."),
    ],
    "novel": [
        ("", "{n} is a {genre} novel."),
        ("year", "{n} is a {v} {genre} novel."),
        ("author", "{n} is a {genre} novel by {v}."),
    ],
    "album": [
        ("", "{n} is a {genre} album."),
        ("singer", "{n} is a {genre} album by {v}."),
        ("year", "{n} is a {v} {genre} album."),
    ],
    "painting": [
        ("painter", "{n} is an oil painting by {v}."),
        ("", "{n} is an oil painting."),
        ("year", "{n} is an oil painting of {v}."),
    ],
    "university": [("", "{n} is a university."), ("city", "{n} is a university in {v}.")],
    "publisher": [("", "{n} is a publishing house."), ("city", "{n} is a publisher based in {v}.")],
    "studio": [("", "{n} is a film studio."), ("city", "{n} is a film studio based in {v}.")],
    "label": [("", "{n} is a record label."), ("city", "{n} is a record label based in {v}.")],
    "museum": [("", "{n} is an art museum."), ("city", "{n} is an art museum in {v}.")],
    "club": [("", "{n} is a football club."), ("city", "{n} is a football club from {v}.")],
    "expedition": [
        ("", "The {n} was a voyage of discovery."),
        ("year", "The {n} was an expedition of {v}."),
        ("leader", "The {n} was an expedition led by {v}."),
    ],
    "battle": [
        ("", "The {n} was a one-day engagement."),
        ("year", "The {n} was fought in {v}."),
        ("city", "The {n} was fought near {v}."),
    ],
    "festival": [("", "The {n} was a film festival."), ("city", "The {n} was held in {v}.")],
}

SENTENCES: dict[tuple[str, str], list[str]] = {
    ("country", "capital"): ["Its capital is {v}.", "The seat of government is {v}."],
    ("country", "language"): ["The official language is {v}.", "Its official language is {v}."],
    ("country", "currency"): ["The currency is the {v}.", "Prices are given in the {v}."],
    ("country", "year"): ["It became independent in {v}.", "Independence came in {v}."],
    ("city", "river"): ["It lies on the {v}.", "The {v} flows through it."],
    ("city", "year"): ["It was founded in {v}.", "Its foundation dates from {v}."],
    ("city", "population"): [
        "It has {v} inhabitants.",
        "It has a population of {v}.",
        "Some {v} people live there.",
    ],
    ("city", "twin"): ["It is twinned with {v}.", "Its twin town is {v}."],
    ("person", "birthplace"): [
        "{S} was born in {v}.",
        "{P} birthplace is {v}.",
        "{S} was a native of {v}.",
    ],
    ("person", "university"): [
        "{S} studied at {v}.",
        "{S} was educated at {v}.",
        "{S} graduated from {v}.",
    ],
    ("person", "spouse"): ["{S} was married to {v}.", "{S} married {v}.", "{P} spouse was {v}."],
    ("person", "teacher"): [
        "{S} was a pupil of {v}.",
        "{S} was taught by {v}.",
        "{P} teacher was {v}.",
    ],
    ("person", "died"): ["{S} died in {v}.", "{P} death came in {v}."],
    ("person", "club"): ["{S} played for {v}.", "{S} spent {p} whole career at {v}."],
    ("film", "director"): ["It was directed by {v}.", "{v} directed it.", "Its director was {v}."],
    ("film", "actor"): [
        "It stars {v}.",
        "The leading role is played by {v}.",
        "{v} plays the lead.",
    ],
    ("film", "composer"): [
        "The score was composed by {v}.",
        "{v} wrote the music.",
        "Its music is by {v}.",
    ],
    ("film", "studio"): ["It was produced by {v}.", "It was made at {v}.", "{v} produced it."],
    ("film", "novel"): ["It is based on the novel {v}.", "It adapts the novel {v}."],
    ("film", "year"): ["It was released in {v}.", "It opened in {v}.", "Its release came in {v}."],
    ("film", "runtime"): ["It runs for {v} minutes.", "Its running time is {v} minutes."],
    ("novel", "author"): ["It was written by {v}.", "Its author is {v}.", "{v} wrote it."],
    ("novel", "publisher"): [
        "It was published by {v}.",
        "{v} published it.",
        "{v} brought it out.",
    ],
    ("novel", "city"): [
        "It is set in {v}.",
        "The story takes place in {v}.",
        "Its setting is {v}.",
    ],
    ("novel", "year"): [
        "It appeared in {v}.",
        "It came out in {v}.",
        "It was first printed in {v}.",
    ],
    ("novel", "pages"): ["It runs to {v} pages.", "The first edition has {v} pages."],
    ("album", "singer"): ["It was recorded by {v}.", "The singer is {v}.", "{v} recorded it."],
    ("album", "label"): ["It was issued by {v}.", "{v} issued it.", "It came out on {v}."],
    ("album", "city"): ["It was recorded in {v}.", "The sessions took place in {v}."],
    ("album", "year"): ["It was released in {v}.", "Its release came in {v}."],
    ("painting", "painter"): ["It was painted by {v}.", "{v} painted it.", "It is a work of {v}."],
    ("painting", "museum"): ["It hangs in {v}.", "It belongs to {v}.", "{v} owns it."],
    ("painting", "year"): ["It was finished in {v}.", "It dates from {v}."],
    ("museum", "architect"): [
        "Its building was designed by {v}.",
        "{v} designed the building.",
        "The architect was {v}.",
    ],
    ("museum", "year"): ["It opened in {v}.", "Its doors opened in {v}."],
    ("club", "ground"): ["It plays at {v}.", "Its home ground is {v}.", "Home games are at {v}."],
    ("expedition", "leader"): ["It was led by {v}.", "{v} led it.", "Its leader was {v}."],
    ("expedition", "destination"): [
        "It reached {v}.",
        "Its goal was {v}.",
        "It was bound for {v}.",
    ],
    ("expedition", "city"): ["It set out from {v}.", "It departed from {v}."],
    ("expedition", "year"): ["It took place in {v}.", "It sailed in {v}."],
    ("battle", "commander"): ["The victor was {v}.", "{v} commanded the winning side."],
    ("battle", "city"): ["The field lies near {v}.", "It took place outside {v}."],
    ("battle", "year"): ["It took place in {v}.", "It was fought in {v}."],
    ("festival", "winner"): ["The top prize went to the film {v}.", "The winning film was {v}."],
    ("festival", "president"): ["The jury was chaired by {v}.", "{v} headed the jury."],
    ("festival", "city"): ["It took place in {v}.", "{v} was the host city."],
}
for _kind in ("university", "publisher", "studio", "label", "club"):
    SENTENCES[_kind, "year"] = ["It was founded in {v}.", "It was established in {v}."]
    SENTENCES[_kind, "city"] = ["It is based in {v}.", "Its seat is in {v}."]
    SENTENCES[_kind, "founder"] = ["It was founded by {v}.", "Its founder was {v}."]
SENTENCES["museum", "city"] = ["It stands in {v}.", "It is located in {v}."]

_GENRES = {
    "film": words("drama comedy crime war science-fiction horror romance musical"),
    "novel": words("historical detective gothic satirical adventure fantasy coming-of-age"),
    "album": words("folk jazz soul rock pop blues swing"),
}
_SEAS = words("northern southern eastern western")
_ASIDES: dict[str, list[str]] = {
    "person": [
        "{S} kept bees in later years.",
        "{S} spoke four languages.",
        "Many of {p} letters survive.",
        "{P} papers were lost in a fire.",
        "A street bears {p} name.",
    ],
    "country": ["Most of its exports are farm goods.", "Much of the land is forest."],
    "city": [
        "Its old walls still stand.",
        "It is known for its glass.",
        "A weekly market is held there.",
        "It has two railway stations.",
    ],
    "film": ["Reviews were mixed.", "It was shot in black and white.", "A sequel was never made."],
    "novel": ["Critics admired its dialogue.", "It has been translated widely."],
    "album": ["It sold slowly at first.", "Its cover shows an empty street."],
    "painting": ["It was restored twice.", "It shows a crowded harbor.", "It measures two metres."],
    "expedition": ["Two of its ships were lost.", "Its journals were printed later."],
    "battle": ["Heavy rain delayed the attack.", "A small chapel marks the site."],
    "festival": ["Some forty films were shown.", "Tickets sold out within a day."],
}
_HOUSE_ASIDES = ["Its archive is open to visitors.", "It survived two bankruptcies."]


def mention(value: Fact, kind: str = "", relation: str = "") -> str:
    """How a sentence names a value; unambiguous where the name alone is not."""
    if not isinstance(value, Entity):
        return f"{value:,}" if relation == "population" else str(value)
    if value.kind in WORKS:
        return f'"{value.name}"'
    if value.kind == "city":
        return value.title
    if value.kind == "person" and value.shared_name and (kind, relation) not in ROLES:
        return f"the {value.occupation} {value.name}"
    article = "the " if value.kind in HOUSES and " of " in value.name else ""
    return article + value.name


def _subject(entity: Entity) -> tuple[str, str]:
    if entity.kind != "person":
        return "it", "its"
    return ("she", "her") if entity.female else ("he", "his")


def _lead(entity: Entity, rng: random.Random) -> tuple[str, str]:
    """(relation stated or "", lead sentence)."""
    if entity.kind == "person":
        was = "was" if "died" in entity.facts else "is"
        job = entity.occupation
        article = "an" if job[0] in "aei" else "a"
        if rng.random() < 0.5:
            date = f"{between(rng, 1, 28)} {pick(rng, MONTHS)} {entity.facts['born']}"
            return "born", f"{entity.name} (born {date}) {was} {article} {job}."
        return "", f"{entity.name} {was} {article} {job}."
    options = [pair for pair in LEADS[entity.kind] if not pair[0] or pair[0] in entity.facts]
    relation, template = pick(rng, options)
    value = mention(entity.facts[relation], entity.kind, relation) if relation else ""
    genre = pick(rng, _GENRES.get(entity.kind, [""]))
    article = "The " if entity.kind in HOUSES and " of " in entity.name else ""
    return relation, template.format(
        n=article + entity.name, v=value, genre=genre, sea=pick(rng, _SEAS)
    )


def write_article(entity: Entity, rng: random.Random, others: list[Entity]) -> None:
    """Fill ``entity.sentences`` and ``entity.where``.

    Args:
        others: entities of the same kind, named in an aside now and then as a distraction.
    """
    subject, possessive = _subject(entity)
    slots = {"s": subject, "S": subject.title(), "p": possessive, "P": possessive.title()}
    stated, lead = _lead(entity, rng)
    body: list[tuple[str, str]] = []
    for relation, value in entity.facts.items():
        if relation == stated:
            continue
        if relation == "born":
            date = f"{between(rng, 1, 28)} {pick(rng, MONTHS)} {value}"
            text = pick(rng, ("{S} was born on {v}.", "{P} date of birth is {v}."))
        else:
            date = mention(value, entity.kind, relation)
            text = pick(rng, SENTENCES[entity.kind, relation])
        text = text.format(v=date, **slots)
        body.append((relation, text[0].upper() + text[1:]))
    for _ in range(1 if rng.random() < 0.7 else 2):
        aside = pick(rng, _ASIDES.get(entity.kind, _HOUSE_ASIDES)).format(**slots)
        body.append(("", aside))
    if rng.random() < 0.25:
        other = pick(rng, others)
        if other is not entity and other.name != entity.name:
            pronoun = "it" if entity.kind != "person" else "her" if entity.female else "him"
            body.append(("", f"Guides often mention {mention(other)} alongside {pronoun}."))
    lines = [(stated, lead), *shuffled(rng, body)]
    lines = list({text: (relation, text) for relation, text in lines}.values())
    entity.sentences = [text for _, text in lines]
    entity.where = {relation: i for i, (relation, _) in enumerate(lines) if relation}
