"""The word problems that the generator can make.

A template is data: how to draw its numbers, its texts, and the steps that lead from the numbers to
the answer. Each step is one calculator expression over the numbers and the results of the steps
before it (``{s1}``, ``{s2}``, ..). Texts have a part with the facts and a question, so that a
sentence that does not matter can be put between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

Numbers = dict[str, int]


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of word problem.

    Attributes:
        name: Unique; with the numbers it identifies a problem.
        level: "easy" (one or two steps, whole numbers) or "hard" (two to four).
        draw: Draws the numbers that stand in the text.
        texts: (facts, question) pairs over the numbers, ``{name}``, ``{other}`` and ``{item}``.
        steps: (what it is, expression) pairs; the last one's value is the answer.
        held_out: Never used unless held-out templates are asked for.
    """

    name: str
    level: str
    draw: Callable[[Random], Numbers]
    texts: tuple[tuple[str, str], ...]
    steps: tuple[tuple[str, str], ...]
    held_out: bool = False


_NAMES = """Ana Ben Chloe Dan Ema Finn Gia Hugo Ida Jon Kim Leo Mia Noah Ola Pia Quinn Rosa Sam Tom
Uma Vera Will Yara Zoe Li Omar Priya"""
_ITEMS = """apples books pens cards marbles stamps shells cups plums toys stickers beads coins balls
pears candles badges"""
NAMES = tuple(_NAMES.split())
ITEMS = tuple(_ITEMS.split())
DISTRACTORS = (
    "{name} is {x} years old.",
    "The shop is {x} km away.",
    "It is {x} degrees outside.",
    "{other} has {x} cousins.",
    "The walk home takes {x} minutes.",
    "{name} lives at number {x}.",
)


def ranges(**bounds: tuple[int, ...]) -> Callable[[Random], Numbers]:
    """Draws every number on its own: (low, high) or (low, high, step), ends included."""

    def draw(rng: Random) -> Numbers:
        numbers = {}
        for key, (low, high, *step) in bounds.items():
            stride = step[0] if step else 1
            numbers[key] = low + stride * int(rng.random() * ((high - low) // stride + 1))
        return numbers

    return draw


def derived(
    base: Callable[[Random], Numbers], **more: Callable[[Numbers], int]
) -> Callable[[Random], Numbers]:
    """Adds numbers computed of the drawn ones (to divide without rest, to stay positive); drops
    those whose name begins with ``_``, which the text does not say."""

    def draw(rng: Random) -> Numbers:
        numbers = base(rng)
        for key, make in more.items():
            numbers[key] = make(numbers)
        return {key: value for key, value in numbers.items() if key[0] != "_"}

    return draw


EASY = (
    Template(
        "cost",
        "easy",
        ranges(n=(2, 19), p=(2, 19)),
        (
            ("{name} buys {n} {item} for ${p} each.", "How much does {name} pay?"),
            ("One of the {item} costs ${p}. {name} takes {n}.", "What is the price in dollars?"),
        ),
        (("cost", "{n}*{p}"),),
    ),
    Template(
        "share",
        "easy",
        derived(ranges(k=(2, 12), _q=(3, 25)), n=lambda v: v["k"] * v["_q"]),
        (
            ("{name} shares {n} {item} equally among {k} friends.", "How many does each get?"),
            ("{n} {item} are put into {k} equal bags.", "How many are in one bag?"),
        ),
        (("each", "{n}/{k}"),),
    ),
    Template(
        "give_away",
        "easy",
        derived(ranges(_r=(2, 50), b=(3, 30), c=(3, 30)), a=lambda v: v["_r"] + v["b"] + v["c"]),
        (
            (
                "{name} has {a} {item}, gives {b} to {other} and loses {c}.",
                "How many are left?",
            ),
            ("Of {a} {item}, {b} are sold and {c} break.", "How many remain?"),
        ),
        (("after the first", "{a}-{b}"), ("left", "{s1}-{c}")),
    ),
    Template(
        "collect",
        "easy",
        ranges(a=(5, 60), b=(5, 60)),
        (
            ("{name} finds {a} {item} and {other} finds {b}.", "How many do they have together?"),
            ("{name} had {a} {item} and got {b} more.", "How many does {name} have now?"),
        ),
        (("together", "{a}+{b}"),),
    ),
    Template(
        "change",
        "easy",
        derived(ranges(n=(2, 12), p=(2, 12), _r=(1, 40)), a=lambda v: v["n"] * v["p"] + v["_r"]),
        (
            (
                "{name} has ${a} and buys {n} {item} at ${p} each.",
                "How many dollars are left?",
            ),
            ("{n} {item} cost ${p} each. {name} pays with ${a}.", "How much is the change?"),
        ),
        (("cost", "{n}*{p}"), ("left", "{a}-{s1}")),
    ),
    Template(
        "boxes_and_loose",
        "easy",
        ranges(n=(2, 12), p=(3, 15), m=(2, 30)),
        (
            (
                "{name} has {n} boxes of {p} {item} and {m} loose ones.",
                "How many {item} is that?",
            ),
            ("There are {n} bags with {p} {item} each, and {m} more.", "How many in all?"),
        ),
        (("in boxes", "{n}*{p}"), ("in all", "{s1}+{m}")),
    ),
    Template(
        "times_as_many",
        "easy",
        ranges(a=(3, 40), k=(2, 9)),
        (
            (
                "{name} has {a} {item}. {other} has {k} times as many.",
                "How many do they have together?",
            ),
            (
                "{other} owns {k} times as many {item} as {name}, who owns {a}.",
                "How many do both own?",
            ),
        ),
        (("the other's", "{a}*{k}"), ("together", "{s1}+{a}")),
    ),
    Template(
        "wage",
        "easy",
        ranges(h=(2, 12), w=(5, 20), b=(3, 30)),
        (
            ("{name} works {h} hours for ${w} an hour and gets a ${b} tip.", "How much is earned?"),
            ("A job pays ${w} an hour plus ${b}. {name} works {h} hours.", "What is the pay?"),
        ),
        (("wage", "{h}*{w}"), ("pay", "{s1}+{b}")),
    ),
    Template(
        "pages",
        "easy",
        derived(ranges(r=(3, 20), d=(2, 9), _l=(2, 60)), p=lambda v: v["r"] * v["d"] + v["_l"]),
        (
            (
                "A book has {p} pages. {name} reads {r} pages a day for {d} days.",
                "How many pages are left?",
            ),
            ("{name} reads {r} of {p} pages daily.", "How many are unread after {d} days?"),
        ),
        (("read", "{r}*{d}"), ("left", "{p}-{s1}")),
    ),
    Template(
        "teams",
        "easy",
        derived(
            ranges(a=(5, 40), k=(2, 9), _q=(8, 14)),
            b=lambda v: v["k"] * (v["a"] // v["k"] + v["_q"]) - v["a"],
        ),
        (
            ("{a} girls and {b} boys form teams of {k}.", "How many teams are there?"),
            ("{name} packs {a} red and {b} blue {item}, {k} to a box.", "How many boxes?"),
        ),
        (("all", "{a}+{b}"), ("groups", "{s1}/{k}")),
    ),
    Template(
        "distance",
        "easy",
        ranges(v=(4, 60), h=(2, 9)),
        (
            ("{name} rides {v} km an hour for {h} hours.", "How many km is that?"),
            ("A boat does {v} km in one hour.", "How far does it go in {h} hours?"),
        ),
        (("distance", "{v}*{h}"),),
    ),
    Template(
        "half",
        "easy",
        derived(ranges(_h=(4, 50), b=(2, 30)), a=lambda v: 2 * v["_h"]),
        (
            (
                "{name} has {a} {item}, sells half and then finds {b}.",
                "How many does {name} have now?",
            ),
            ("Half of {a} {item} and {b} more are red.", "How many are red?"),
        ),
        (("half", "{a}/2"), ("now", "{s1}+{b}")),
    ),
    Template(
        "rows",
        "easy",
        ranges(n=(3, 20), m=(3, 20)),
        (
            ("A hall has {n} rows of {m} seats.", "How many seats is that?"),
            ("{name} plants {n} rows with {m} trees each.", "How many trees are there?"),
        ),
        (("all", "{n}*{m}"),),
        held_out=True,
    ),
    Template(
        "bus",
        "easy",
        derived(ranges(_r=(2, 40), b=(2, 25), c=(2, 25)), a=lambda v: v["_r"] + v["b"]),
        (
            ("{a} people ride a bus. {b} get off and {c} get on.", "How many ride it now?"),
            ("{name} had {a} {item}, lost {b} and won {c}.", "How many now?"),
        ),
        (("after the first", "{a}-{b}"), ("now", "{s1}+{c}")),
        held_out=True,
    ),
    Template(
        "boxes_sold",
        "easy",
        derived(ranges(k=(2, 9), _q=(3, 15), p=(2, 12)), n=lambda v: v["k"] * v["_q"]),
        (
            (
                "{name} fills {n} {item} into boxes of {k} and sells each box for ${p}.",
                "How many dollars come in?",
            ),
        ),
        (("boxes", "{n}/{k}"), ("income", "{s1}*{p}")),
        held_out=True,
    ),
)
