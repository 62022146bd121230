"""Makes the entities of one split, consistent with one another.

People are born before they act, works appear within their makers' lives, institutions exist
before anyone joins them, marriages and twin towns hold from both sides.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right

from agentr1_envs.hotpotqa.world.names import NameMaker, between, pick
from agentr1_envs.hotpotqa.world.schema import COMPANIES, OCCUPATIONS, WORKS, Entity

TRAIN_COUNTS = {
    "country": 40,
    "city": 240,
    "person": 1250,
    "film": 380,
    "novel": 340,
    "album": 230,
    "painting": 230,
    "university": 70,
    "publisher": 44,
    "studio": 44,
    "label": 44,
    "museum": 70,
    "club": 60,
    "expedition": 90,
    "battle": 90,
    "festival": 80,
}
HELD_OUT_COUNTS = {
    "country": 30,
    "city": 110,
    "person": 480,
    "film": 130,
    "novel": 120,
    "album": 80,
    "painting": 80,
    "university": 40,
    "publisher": 32,
    "studio": 32,
    "label": 32,
    "museum": 40,
    "club": 36,
    "expedition": 40,
    "battle": 40,
    "festival": 36,
}

# Birth years, and the ages at which a person does what makes them known.
_BIRTHS = {
    "film director": (1885, 1975),
    "actor": (1890, 1985),
    "composer": (1885, 1980),
    "novelist": (1860, 1975),
    "singer": (1920, 1985),
    "painter": (1820, 1970),
    "architect": (1840, 1965),
    "explorer": (1830, 1960),
    "general": (1780, 1900),
    "footballer": (1885, 1985),
    "industrialist": (1820, 1940),
}
_SHARES = {
    "film director": 12,
    "actor": 12,
    "composer": 8,
    "novelist": 14,
    "singer": 10,
    "painter": 9,
    "architect": 6,
    "explorer": 6,
    "general": 6,
    "footballer": 6,
    "industrialist": 11,
}
NOW = 2015
_PATTERNS = {
    "university": ("{} University", "University of {}", "{} College"),
    "publisher": ("{} Press", "{} Books", "{} Publishing"),
    "studio": ("{} Pictures", "{} Films", "{} Studios"),
    "label": ("{} Records", "{} Music"),
    "museum": ("{} Museum", "{} Gallery", "Museum of {}"),
    "club": ("{} United", "{} Rovers", "{} Athletic", "{} Wanderers"),
}
_GROUNDS = ("{} Park", "{} Road", "{} Lane", "{} Field")


class SplitFacts:
    """The entities of one split, by kind. Names come from a maker shared by all splits."""

    def __init__(self, rng: random.Random, names: NameMaker, counts: dict[str, int]) -> None:
        self.rng = rng
        self.names = names
        self.by_kind: dict[str, list[Entity]] = {kind: [] for kind in counts}
        self._counts = counts
        self._places()
        self._people()
        self._institutions()
        self._works()
        self._events()
        self._lives()

    @property
    def entities(self) -> list[Entity]:
        return [entity for group in self.by_kind.values() for entity in group]

    def _add(self, kind: str, name: str, title: str | None = None) -> Entity:
        entity = Entity(kind, name, title or name)
        self.by_kind[kind].append(entity)
        return entity

    def _someone(self, group: list[Entity], low: int, high: int) -> Entity | None:
        """One of ``group`` (sorted by birth) born between two years, or None."""
        first = bisect_left(group, low, key=lambda person: person.year("born"))
        last = bisect_right(group, high, key=lambda person: person.year("born"))
        return group[first + int(self.rng.random() * (last - first))] if first < last else None

    def _places(self) -> None:
        rng, names = self.rng, self.names
        for _ in range(self._counts["country"]):
            country = self._add("country", names.country(rng))
            country.facts["language"] = names.word(rng)
            country.facts["currency"] = names.word(rng).lower()
            country.facts["year"] = between(rng, 1780, 1975)
        countries = self.by_kind["country"]
        cities = self.by_kind["city"]
        for i in range(self._counts["city"]):
            # Every country gets cities in turn, so that its capital exists.
            first = i < 2 * len(countries)
            country = countries[i % len(countries)] if first else pick(rng, countries)
            city = self._add("city", names.city(rng))
            city.facts["country"] = country
            city.facts["river"] = f"River {names.word(rng)}"
            city.facts["year"] = between(rng, 820, 1720)
            city.facts["population"] = between(rng, 4, 900) * 1000 + 10 * between(rng, 1, 99)
            country.facts.setdefault("capital", city)
        for city in cities:  # a namesake abroad: both are titled by their countries
            if rng.random() < 0.08 and not city.shared_name:
                other = pick(rng, cities)
                if not other.shared_name and other.facts["country"] is not city.facts["country"]:
                    other.name = city.name
                    city.shared_name = other.shared_name = True
        for city in cities:
            if city.shared_name:
                city.title = f"{city.name}, {city.facts['country'].name}"  # type: ignore[union-attr]
            other = pick(rng, cities)
            free = "twin" not in city.facts and "twin" not in other.facts
            if free and other.name != city.name:
                city.facts["twin"], other.facts["twin"] = other, city

    def _people(self) -> None:
        rng = self.rng
        people = self.by_kind["person"]
        occupations = [job for job in OCCUPATIONS for _ in range(_SHARES[job])]
        for i in range(self._counts["person"]):
            person = self._add("person", "")
            person.occupation = occupations[i % len(occupations)]
            person.female = rng.random() < 0.45
            low, high = _BIRTHS[person.occupation]
            person.facts["born"] = between(rng, low, high)
        namesakes: list[Entity] = []
        for person in people:
            if namesakes and rng.random() < 0.2:
                other = namesakes.pop()
                if other.occupation != person.occupation:
                    person.name, person.female = other.name, other.female
                    for one in (person, other):
                        one.shared_name = True
                        one.title = f"{one.name} ({one.occupation})"
                    continue
            person.name = self.names.person(rng, person.female)
            person.title = person.name
            namesakes.append(person)
        people.sort(key=lambda person: person.year("born"))
        self.by_job = {job: [p for p in people if p.occupation == job] for job in OCCUPATIONS}

    def _institutions(self) -> None:
        rng = self.rng
        cities = self.by_kind["city"]
        for kind in ("university", *COMPANIES, "museum", "club"):
            for _ in range(self._counts[kind]):
                entity = self._add(kind, self.names.house(rng, pick(rng, _PATTERNS[kind])))
                entity.facts["city"] = pick(rng, cities)
                if kind == "club":
                    entity.facts["year"] = between(rng, 1870, 1935)
                    ground = self.names.house(rng, pick(rng, _GROUNDS))
                    entity.facts["ground"] = ground
                    continue
                # Old schools, young labels; the founder is grown up in the founding year.
                job = "architect" if kind == "museum" else "industrialist"
                low, high = {
                    "university": (1820, 1880),
                    "publisher": (1820, 1865),
                    "studio": (1870, 1925),
                    "label": (1890, 1940),
                    "museum": (1840, 1965),
                }[kind]
                person = self._someone(self.by_job[job], low, high) or self.by_job[job][0]
                entity.facts["founder" if kind != "museum" else "architect"] = person
                born = person.year("born")
                entity.facts["year"] = between(rng, born + 26, min(born + 58, NOW - 2))

    def _makers(self, job: str, kind: str, low: int, high: int) -> list[tuple[Entity, int]]:
        """A maker and a year for each work of a kind; most makers have one work, some several."""
        out: list[tuple[Entity, int]] = []
        group = self.by_job[job]
        for _ in range(self._counts[kind]):
            person = pick(self.rng, group)
            born = person.year("born")
            out.append((person, between(self.rng, born + low, min(born + high, NOW - 2))))
        return out

    def _maybe_shared_title(self, sources: list[Entity]) -> str:
        """A new title, or now and then that of an older work of another kind."""
        if sources and self.rng.random() < 0.14:
            source = pick(self.rng, sources)
            if not source.shared_name:
                source.shared_name = True
                return source.name
        return self.names.work(self.rng)

    def _work(self, kind: str, name: str, year: int) -> Entity:
        work = self._add(kind, name)
        work.facts["year"] = year
        return work

    def _works(self) -> None:
        rng = self.rng
        novels = self.by_kind["novel"]
        for author, year in self._makers("novelist", "novel", 24, 70):
            novel = self._work("novel", self.names.work(rng), year)
            novel.facts["author"] = author
            novel.facts["publisher"] = self._existing(self.by_kind["publisher"], novel)
            novel.facts["city"] = pick(rng, self.by_kind["city"])
            novel.facts["pages"] = between(rng, 96, 880)
        for singer, year in self._makers("singer", "album", 19, 60):
            album = self._work("album", self._maybe_shared_title(novels), year)
            album.facts["singer"] = singer
            album.facts["label"] = self._existing(self.by_kind["label"], album)
            album.facts["city"] = pick(rng, self.by_kind["city"])
        for painter, year in self._makers("painter", "painting", 20, 78):
            painting = self._work("painting", self._maybe_shared_title(novels), year)
            painting.facts["painter"] = painter
            painting.facts["museum"] = pick(rng, self.by_kind["museum"])
        for director, year in self._makers("film director", "film", 27, 68):
            older = [n for n in (pick(rng, novels) for _ in range(4)) if n.year() < year]
            source = older[0] if older and rng.random() < 0.4 else None
            if source and not source.shared_name and rng.random() < 0.5:
                name, source.shared_name = source.name, True
            else:
                name = self._maybe_shared_title(self.by_kind["album"])
            film = self._work("film", name, year)
            film.facts["director"] = director
            for relation, job in (("actor", "actor"), ("composer", "composer")):
                person = self._someone(self.by_job[job], year - 66, year - 20)
                if person:
                    film.facts[relation] = person
            film.facts["studio"] = self._existing(self.by_kind["studio"], film)
            film.facts["runtime"] = between(rng, 61, 214)
            if source:
                film.facts["novel"] = source
        self._title_works()

    def _title_works(self) -> None:
        bearers: dict[str, list[Entity]] = {}
        for kind in WORKS:
            for work in self.by_kind[kind]:
                bearers.setdefault(work.name, []).append(work)
        for group in bearers.values():
            for work in group:
                work.shared_name = len(group) > 1
                work.title = f"{work.name} ({work.kind})" if work.shared_name else work.name

    def _existing(self, group: list[Entity], work: Entity) -> Entity:
        """An institution founded no later than the work, tried at random, else the oldest."""
        for _ in range(12):
            candidate = pick(self.rng, group)
            if candidate.year() <= work.year():
                return candidate
        return min(group, key=Entity.year)

    def _events(self) -> None:
        rng, names, cities = self.rng, self.names, self.by_kind["city"]
        for leader, year in self._makers("explorer", "expedition", 25, 58):
            event = self._add("expedition", names.house(rng, "{} Expedition"))
            event.facts.update(leader=leader, year=year, city=pick(rng, cities))
            event.facts["destination"] = f"{pick(rng, _FEATURES)} {names.word(rng)}"
        for commander, year in self._makers("general", "battle", 28, 62):
            event = self._add("battle", f"Battle of {names.word(rng)}")
            event.facts.update(commander=commander, year=year, city=pick(rng, cities))
        directors = self.by_job["film director"]
        for film in self._sample(self.by_kind["film"], self._counts["festival"]):
            year = film.year() + between(rng, 0, 1)
            jury = self._someone(directors, year - 75, year - 30)
            if jury is None or jury in film.facts.values():
                continue
            event = self._add("festival", names.house(rng, f"{year} {{}} Film Festival"))
            event.facts.update(winner=film, president=jury, city=pick(rng, cities))

    def _sample(self, group: list[Entity], size: int) -> list[Entity]:
        chosen: dict[str, Entity] = {}
        while len(chosen) < min(size, len(group)):
            entity = pick(self.rng, group)
            chosen[entity.title] = entity
        return list(chosen.values())

    def _lives(self) -> None:
        rng = self.rng
        people = self.by_kind["person"]
        last_act: dict[str, int] = {}
        for group in self.by_kind.values():
            for entity in group:
                year = entity.facts.get("year")
                if entity.kind == "festival":
                    year = int(entity.name[:4])
                for value in entity.facts.values():
                    if isinstance(value, Entity) and value.kind == "person":
                        assert isinstance(year, int)
                        last_act[value.title] = max(last_act.get(value.title, 0), year)
        for person in people:
            born = person.year("born")
            person.facts["birthplace"] = pick(rng, self.by_kind["city"])
            school = pick(rng, self.by_kind["university"])
            if school.year() <= born + 18 and school.facts["founder"] is not person:
                person.facts["university"] = school
            if person.occupation == "footballer":
                club = pick(rng, self.by_kind["club"])
                if club.year() <= born + 18:
                    person.facts["club"] = club
            if rng.random() < 0.55 and person.occupation not in ("footballer", "industrialist"):
                # The list is sorted by birth, so teachers are older by construction.
                teacher = self._someone(self.by_job[person.occupation], born - 45, born - 15)
                if teacher and teacher.name != person.name:
                    person.facts["teacher"] = teacher
            if rng.random() < 0.5 and "spouse" not in person.facts:
                partner = self._someone(people, born - 10, born + 10)
                if (
                    partner
                    and partner is not person
                    and partner.female != person.female
                    and "spouse" not in partner.facts
                    and partner.name != person.name
                ):
                    person.facts["spouse"], partner.facts["spouse"] = partner, person
        pupils: dict[str, int] = {}
        for person in people:
            master = person.facts.get("teacher")
            if isinstance(master, Entity):
                # Lessons are over by the age of 24; the teacher must live till then.
                pupils[master.title] = max(pupils.get(master.title, 0), person.year("born") + 24)
        for person in people:
            born = person.year("born")
            earliest = max(
                born + 45, last_act.get(person.title, 0) + 1, pupils.get(person.title, 0)
            )
            died = max(earliest, born + between(rng, 50, 93))
            if died < NOW:
                person.facts["died"] = died


_FEATURES = ("Mount", "Cape", "Lake", "Glacier", "Isle")
