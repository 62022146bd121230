"""Parses the embedded world's questions into what they ask of what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from agentr1_envs.hotpotqa.reading import Mention


@dataclass(frozen=True, slots=True)
class Named:
    """A thing by its name."""

    mention: Mention


@dataclass(frozen=True, slots=True)
class Of:
    """What a relation of a phrase leads to."""

    relation: str
    phrase: Phrase


@dataclass(frozen=True, slots=True)
class Only:
    """The one work (or expedition, or battle) of a person."""

    kind: str
    relation: str
    person: Mention


@dataclass(frozen=True, slots=True)
class Extreme:
    """Of two phrases the one whose relation is least (or greatest)."""

    relation: str
    least: bool
    one: Phrase
    two: Phrase


Phrase = Named | Of | Only | Extreme


@dataclass(frozen=True, slots=True)
class Question:
    """form: "value" (of ``one``), "same" or "less" (of ``one`` and ``two``: yes or no)."""

    form: str
    relation: str
    one: Phrase
    two: Phrase | None = None


def _forms(*pairs: tuple[str, str]) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(form), relation) for form, relation in pairs]


_OF = _forms(
    (r"the capital of (.+)", "capital"),
    (r"the country in which (.+) lies", "country"),
    (r"the twin town of (.+)|the town twinned with (.+)", "twin"),
    (r"the birthplace of (.+)|the town where (.+) was born", "birthplace"),
    (r"the university attended by (.+)|the university where (.+) studied", "university"),
    (r"the spouse of (.+)|the person married to (.+)", "spouse"),
    (r"the teacher of (.+)|the person who taught (.+)", "teacher"),
    (r"the football club of (.+)|the club that (.+) played for", "club"),
    (r"the director of (.+)|the person who directed (.+)", "director"),
    (r"the star of (.+)|the actor who plays the lead in (.+)", "actor"),
    (r"the composer of (.+)|the person who wrote the music of (.+)", "composer"),
    (r"the studio that made (.+)|the studio behind (.+)", "studio"),
    (r"the novel adapted as (.+)|the novel on which (.+) is based", "novel"),
    (r"the author of (.+)|the writer of (.+)", "author"),
    (r"the publisher of (.+)|the house that published (.+)", "publisher"),
    (r"the setting of (.+)|the town in which (.+) is set", "city"),
    (r"the singer of (.+)|the performer of (.+)", "singer"),
    (r"the label that issued (.+)|the record label behind (.+)", "label"),
    (r"the town where (.+) was recorded|the town where (.+) (?:is based|stands)", "city"),
    (r"the painter of (.+)|the artist behind (.+)", "painter"),
    (r"the museum that owns (.+)|the museum where (.+) hangs", "museum"),
    (r"the architect of (.+)|the designer of (.+)", "architect"),
    (r"the leader of (.+)|the person who led (.+)", "leader"),
    (r"the town from which (.+) set out|the town nearest to (.+)", "city"),
    (r"the home town of (.+)|the host city of (.+)", "city"),
    (r"the victor of (.+)|the winning commander at (.+)", "commander"),
    (r"the winning film of (.+)|the film that won (.+)", "winner"),
    (r"the head of the jury of (.+)|the person who chaired the jury of (.+)", "president"),
    (r"the founder of (.+)|the person who founded (.+)", "founder"),
)
_ONLY = [
    (re.compile(form), kind, relation)
    for form, kind, relation in (
        (r"the film directed by (.+)|the film that (.+) directed", "film", "director"),
        (r"the novel by (.+)|the novel that (.+) wrote", "novel", "author"),
        (r"the album by (.+)|the album that (.+) recorded", "album", "singer"),
        (r"the painting by (.+)|the painting that (.+) made", "painting", "painter"),
        (r"the expedition led by (.+)|the expedition that (.+) led", "expedition", "leader"),
        (r"the battle won by (.+)|the battle that (.+) won", "battle", "commander"),
    )
]
_EXTREMES = [
    (re.compile(form), relation)
    for form, relation in (
        (r"the (?:(elder)|younger) of (.+)", "born"),
        (r"the (?:(smaller)|larger) of (.+)", "population"),
        (r"the (?:(shorter)|longer) of (.+)", "length"),
        (r"the (?:(older)|newer) of (.+)", "year"),
        (r"the (?:(earlier)|later)(?: released| published| finished| opened)? of (.+)", "year"),
    )
]
_VALUE = _forms(
    (r"What is the capital of (.+)|Which city is the capital of (.+)", "capital"),
    (r"What is the official language of (.+)", "language"),
    (r"What is the currency of (.+)|Which currency is used in (.+)", "currency"),
    (r"In what year did (.+) (?:become independent|come out|open|take place)", "year"),
    (r"In what year was (.+) (?:founded|released|finished)", "year"),
    (r"In which country is (.+)|In which country does (.+) lie", "country"),
    (r"On which river does (.+) lie|Which river flows through (.+)", "river"),
    (r"What is the population of (.+)|How many people live in (.+)", "population"),
    (r"Which town is twinned with (.+)|What is the twin town of (.+)", "twin"),
    (r"In what year was (.+) born", "born"),
    (r"Where was (.+) born|In which town was (.+) born", "birthplace"),
    (r"At which university did (.+) study|Where was (.+) educated", "university"),
    (r"Who was married to (.+)|Whom did (.+) marry", "spouse"),
    (r"Who taught (.+)|Who was the teacher of (.+)", "teacher"),
    (r"In what year did (.+) die", "died"),
    (r"Which football club did (.+) play for", "club"),
    (r"Who directed (.+)|Who was the director of (.+)", "director"),
    (r"Who plays the lead in (.+)|Who is the star of (.+)", "actor"),
    (r"Who wrote the music of (.+)|Who composed the score of (.+)", "composer"),
    (r"Which studio made (.+)", "studio"),
    (r"On which novel is (.+) based", "novel"),
    (r"How long is (.+)|What is the running time of (.+)", "runtime"),
    (r"Who wrote (.+)|Who is the author of (.+)", "author"),
    (r"Which house published (.+)|Who published (.+)", "publisher"),
    (r"In which town is (.+) set|Where does (.+) take place", "city"),
    (r"How many pages does (.+) have", "pages"),
    (r"Who recorded (.+)|Which singer made (.+)", "singer"),
    (r"Which label issued (.+)", "label"),
    (r"Where was (.+) recorded|From which town did (.+) set out", "city"),
    (r"Who painted (.+)", "painter"),
    (r"In which museum does (.+) hang|Which museum owns (.+)", "museum"),
    (r"Who designed the building of (.+)", "architect"),
    (r"In which town does (.+) stand|In which town is (.+) based", "city"),
    (r"Where is (.+) based|Near which town did (.+) take place|Which city hosted (.+)", "city"),
    (r"What is the home ground of (.+)|At which ground does (.+) play", "ground"),
    (r"Who led (.+)", "leader"),
    (r"What was the goal of (.+)", "destination"),
    (r"Who won (.+)", "commander"),
    (r"Which film won (.+)", "winner"),
    (r"Who chaired the jury of (.+)", "president"),
    (r"Who founded (.+)|Who was the founder of (.+)", "founder"),
)
_SAME = _forms(
    (r"Were (.+) born in the same town", "birthplace"),
    (r"Did (.+) study at the same university", "university"),
    (r"Are (.+) in the same country", "country"),
    (r"Were (.+) directed by the same person", "director"),
    (r"Were (.+) made by the same studio", "studio"),
    (r"Were (.+) written by the same person", "author"),
    (r"Were (.+) published by the same house", "publisher"),
    (r"Were (.+) issued by the same label", "label"),
    (r"Do (.+) hang in the same museum", "museum"),
    (r"(?:Are|Do) (.+) (?:based|stand) in the same town", "city"),
)
_LESS = _forms(
    (r"Was (.+) born before (.+)|Is (.+) older than (.+)", "born"),
    (r"Does (.+) have fewer inhabitants than (.+)", "population"),
    (r"Is (.+) shorter than (.+)|Does (.+) have fewer pages than (.+)", "length"),
    (r"Was (.+) (?:released|finished|founded) before (.+)", "year"),
    (r"Did (.+) (?:come out|take place|open) before (.+)", "year"),
)
MAX_CHARS = 1000  # the longest question of the world has some 200
_JOBS = (
    "film director|actor|composer|novelist|singer|painter|architect|explorer|general|footballer"
    "|industrialist"
)
_WORK = re.compile(r'the (film|novel|album|painting) "([^"]+)"')
_EVENT = re.compile(r"the (\w+ Expedition|Battle of \w+|\d{4} \w+ Film Festival)")
_HOUSE = re.compile(r"(?:the )?((?:University|Museum) of [A-Z]\w+)")
_PERSON = re.compile(rf"the ({_JOBS}) ([A-Z]\w+ [A-Z]\w+)")
_NAME = re.compile(r"[A-Z]\w+(?: [A-Z]\w+)?(?:, [A-Z]\w+)?")


def _groups(match: re.Match[str]) -> list[str]:
    return [group for group in match.groups() if group is not None]


def _name(text: str) -> Mention | None:
    if match := _WORK.fullmatch(text):
        return Mention(match[2], match[1])
    if match := _EVENT.fullmatch(text) or _HOUSE.fullmatch(text):
        return Mention(match[1])
    if match := _PERSON.fullmatch(text):
        return Mention(match[2], job=match[1])
    return Mention(text) if _NAME.fullmatch(text) else None


def _pair(text: str) -> tuple[Phrase, Phrase] | None:
    """Both sides of an "and"; titles may hold an "and" of their own."""
    for match in re.finditer(" and ", text):
        one, two = phrase(text[: match.start()]), phrase(text[match.end() :])
        if one is not None and two is not None:
            return one, two
    return None


@lru_cache(maxsize=16384)
def phrase(text: str) -> Phrase | None:
    """Parse a noun phrase; None when it is not of the world's language.

    Cached because nested pairs would try the same words many times over.
    """
    mention = _name(text)
    if mention is not None:
        return Named(mention)
    for form, relation in _EXTREMES:
        if match := form.fullmatch(text):
            pair = _pair(match[2])
            return Extreme(relation, match[1] is not None, *pair) if pair else None
    for form, kind, relation in _ONLY:
        if match := form.fullmatch(text):
            person = _name(_groups(match)[0])
            if person is not None:
                return Only(kind, relation, person)
    for form, relation in _OF:
        if match := form.fullmatch(text):
            inner = phrase(_groups(match)[0])
            if inner is not None:
                return Of(relation, inner)
    return None


def parse(question: str) -> Question | None:
    """Parse a question of the embedded world; None when it is not one of its forms."""
    text = question.strip().removesuffix("?")
    if len(text) > MAX_CHARS:
        return None
    for form, relation in _SAME:
        if match := form.fullmatch(text):
            pair = _pair(match[1])
            if pair is not None:
                return Question("same", relation, *pair)
    for form, relation in _LESS:
        if match := form.fullmatch(text):
            sides = [phrase(side) for side in _groups(match)]
            if sides[0] is not None and sides[1] is not None:
                return Question("less", relation, sides[0], sides[1])
    for form, relation in _VALUE:
        if match := form.fullmatch(text):
            inner = phrase(_groups(match)[0])
            if inner is not None:
                return Question("value", relation, inner)
    return None
