"""Vocabulary and name making. Names of one kind never repeat, within a split or between splits."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def words(text: str) -> list[str]:
    """The words of a blank-separated list."""
    return text.split()


FEMALE = words(
    "Ada Agnes Alma Amara Anneke Astrid Beatriz Bridget Carmen Cecilia Clara Dalia Delphine Edith "
    "Elena Elif Emilia Esther Fatima Flora Freya Greta Hana Hedda Helena Ines Ingrid Irena Isabel "
    "Ivana Johanna Judith Kaia Katarina Lea Leila Lena Lucia Magda Maja Marta Matilda Mina Miriam "
    "Nadia Naomi Nora Odile Olga Paloma Petra Rosa Runa Sabine Selma Silvia Sofia Tamar Tessa Una "
    "Vera Wanda Yara Zelda"
)
MALE = words(
    "Adrian Albin Amir Anders Anton Arno Bela Bruno Casper Cyril Dario David Dmitri Edgar Elias "
    "Emil Enzo Erik Felix Ferenc Gideon Gustav Hakon Hamid Hugo Igor Ivo Jakob Jonas Josef Julian "
    "Karim Klaus Lars Leon Linus Lorenz Luka Magnus Marek Milan Mateo Nils Oskar Otto Pavel Pietro "
    "Rafael Rainer Roman Ruben Samir Simon Stefan Sven Tariq Theo Tomas Ulrich Valentin Viktor "
    "Walter Yusuf Zoltan"
)
_ONSETS = words(
    "B Br C Ch D Dr F Fl G Gr H J K Kr L M N P Pr Qu R S Sch St T Tr V W Y Z Sk Th Gl Bl"
)
_INNER = words("b br c d dr f g h k l ll m mm n nn p r rr s ss st t tt v z nd rd lt mb rk sk nt")
_VOWELS = words("a e i o u a e i o ae ei au ia")
_SURNAME_ENDS = words("n r s l t ck ssen berg mann ova inger ard olt ick and esz ou ari enko well")
# Syllables that chance would join into words nobody wants to read.
_UNFIT = words(
    "schei arsch fick fot kack nazi hit puta merd nig dick cock cun kunt slu tit pis rap anal pus "
    "cum fag twa whor hor puss penn wan gook kik spic coon jap neg dam ass sex poo pen vag rape"
)
_CITY_ENDS = words(
    "ford by stad haven mouth grad burg wick ton dorf minster port vik ham ingen mere"
)
_COUNTRY_ENDS = words("ria nia land stan dor via mark thia ova lund zia mur")
_PLACE_ENDS = words("n r l a is um eth or ath ell ine os")
_ADJECTIVES = words(
    "Silent Amber Distant Crooked Golden Hollow Patient Scarlet Winter Broken Gentle Hidden Iron "
    "Lonely Northern Painted Restless Second Slow Stolen Sunken Velvet Wandering White Burning "
    "Copper Empty Final Glass Hungry Little Lost Quiet Secret Seventh Southern Tender Unwritten "
    "Violet Yellow Ancient Bitter Blue Borrowed Careless Eastern Faithful Forgotten Frozen Paper"
)
_NOUNS = words(
    "Orchard Lantern River Clock Garden Harbor Letter Mirror Mountain Orchestra Passenger Bridge "
    "Captain Carnival Cathedral Compass Daughter Desert Door Dream Echo Engine Falcon Ferry Fire "
    "Forest Ghost Guest Heron House Island Journey Kingdom Ladder Lighthouse Machine Map Market "
    "Meadow Messenger Midnight Monsoon Morning Ocean Palace Parade Pilgrim Prophet Rain Road "
    "Sailor Salt Season Shadow Shepherd Signal Sister Snow Song Sparrow Station Stranger Summer "
    "Table Theatre Tide Tower Train Valley Violin Voyage Wall Watchman Wheel Widow Window "
    "Wolf Thorn"
)


def pick(rng: random.Random, items: Sequence[T]) -> T:
    """One item. Only ``random()`` is drawn on: Python guarantees its sequence across versions."""
    return items[int(rng.random() * len(items))]


def between(rng: random.Random, low: int, high: int) -> int:
    """An integer from low to high, both included."""
    return low + int(rng.random() * (high - low + 1))


def shuffled(rng: random.Random, items: Sequence[T]) -> list[T]:
    """A shuffled copy (Fisher-Yates over ``random()``)."""
    out = list(items)
    for i in range(len(out) - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        out[i], out[j] = out[j], out[i]
    return out


class NameMaker:
    """Makes names that were never given before, whatever split asks."""

    def __init__(self, rng: random.Random) -> None:
        self._used: set[str] = set()
        self._surnames = self._pool(rng, 620, _SURNAME_ENDS)
        # Institutions and families share these words on purpose: they are what distractors share.
        self.house_words = self._pool(rng, 420, _PLACE_ENDS)

    def _pool(self, rng: random.Random, size: int, ends: Sequence[str]) -> list[str]:
        pool: list[str] = []
        while len(pool) < size:
            word = self._word(rng, ends)
            if word not in self._used:
                self._used.add(word)
                pool.append(word)
        return pool

    def _word(self, rng: random.Random, ends: Sequence[str]) -> str:
        while True:
            word = self._letters(rng, ends)
            if not any(part in word.lower() for part in _UNFIT):
                return word

    @staticmethod
    def _letters(rng: random.Random, ends: Sequence[str]) -> str:
        word = pick(rng, _ONSETS) + pick(rng, _VOWELS)
        if rng.random() < 0.75:
            word += pick(rng, _INNER) + pick(rng, _VOWELS)
        end = pick(rng, ends)
        return word + (pick(rng, _INNER) if end[0] in "aeiou" else "") + end

    def fresh(self, make: Callable[[], str]) -> str:
        """The first result of ``make()`` that was not used before."""
        while True:
            name = make()
            if name not in self._used:
                self._used.add(name)
                return name

    def person(self, rng: random.Random, female: bool) -> str:
        first = FEMALE if female else MALE
        return self.fresh(lambda: f"{pick(rng, first)} {pick(rng, self._surnames)}")

    def city(self, rng: random.Random) -> str:
        return self.fresh(lambda: self._word(rng, _CITY_ENDS))

    def country(self, rng: random.Random) -> str:
        return self.fresh(lambda: self._word(rng, _COUNTRY_ENDS))

    def word(self, rng: random.Random) -> str:
        """A made-up proper noun: a river, a language, a battlefield."""
        return self.fresh(lambda: self._word(rng, _PLACE_ENDS))

    def house(self, rng: random.Random, pattern: str) -> str:
        """An institution's name, such as ``pattern="{} Press"`` filled with a shared word."""
        words = self.house_words
        return self.fresh(
            lambda: pattern.format(
                pick(rng, words) if rng.random() < 0.7 else pick(rng, self._surnames)
            )
        )

    def work(self, rng: random.Random) -> str:
        """The title of a film, novel, album or painting."""

        def make() -> str:
            form = rng.random()
            if form < 0.45:
                return f"The {pick(rng, _ADJECTIVES)} {pick(rng, _NOUNS)}"
            if form < 0.65:
                return f"{pick(rng, _ADJECTIVES)} {pick(rng, _NOUNS)}"
            if form < 0.8:
                return (
                    f"The {pick(rng, _NOUNS)} of the {pick(rng, _ADJECTIVES)} {pick(rng, _NOUNS)}"
                )
            return f"The {pick(rng, _NOUNS)} and the {pick(rng, _NOUNS)}"

        while True:
            title = make()
            # "The Silent Orchard" and "Silent Orchard" are one answer after normalising.
            key = title.removeprefix("The ").lower()
            if key not in self._used:
                self._used.add(key)
                return title
