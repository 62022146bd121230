"""The templates of the level "hard": two to four steps, money, fractions, per cent and units."""

from __future__ import annotations

from .templates import Template, derived, ranges

HARD = (
    Template(
        "discount",
        "hard",
        ranges(n=(2, 12), p=(5, 60, 5), q=(10, 60, 10)),
        (
            (
                "{name} buys {n} {item} at ${p} each. There is {q}% off.",
                "How many dollars does {name} pay?",
            ),
            (
                "{n} {item} usually cost ${p} each, but today the price is {q}% lower.",
                "What do they cost today, in dollars?",
            ),
        ),
        (
            ("full price", "{n}*{p}"),
            ("discount", "{s1}*{q}/100"),
            ("to pay", "{s1}-{s2}"),
        ),
    ),
    Template(
        "cents",
        "hard",
        ranges(n=(2, 12), p=(25, 475, 25), m=(2, 9), q=(1, 9)),
        (
            (
                "{n} {item} cost {p} cents each and {m} bags cost ${q} each.",
                "How many dollars is that in all?",
            ),
            (
                "{name} takes {m} bags at ${q} and {n} {item} at {p} cents.",
                "What does {name} pay in dollars?",
            ),
        ),
        (
            ("cents", "{n}*{p}"),
            ("dollars", "{s1}/100"),
            ("bags", "{m}*{q}"),
            ("in all", "{s2}+{s3}"),
        ),
    ),
    Template(
        "fraction_of_class",
        "hard",
        derived(
            ranges(b=(3, 8), _a=(1, 7), _q=(2, 12), c=(1, 9)),
            n=lambda v: v["b"] * v["_q"] * 2,
            a=lambda v: 1 + v["_a"] % (v["b"] - 1),
        ),
        (
            (
                "{a}/{b} of {n} pupils walk to school. Half of the others come by bus, and {c} "
                "teachers too.",
                "How many people come by bus?",
            ),
            (
                "{name} sells {a}/{b} of {n} {item}, gives half of the rest away and then finds "
                "{c} in a drawer. They are put with those given away.",
                "How many are given away?",
            ),
        ),
        (
            ("that part", "{n}*{a}/{b}"),
            ("the others", "{n}-{s1}"),
            ("half", "{s2}/2"),
            ("in all", "{s3}+{c}"),
        ),
    ),
    Template(
        "minutes",
        "hard",
        ranges(m=(10, 55, 5), d=(3, 14), h=(1, 5)),
        (
            (
                "{name} practises {m} minutes a day for {d} days, and then {h} hours more.",
                "How many minutes is that?",
            ),
            (
                "A film of {h} hours is followed by {d} clips of {m} minutes.",
                "How long is it all, in minutes?",
            ),
        ),
        (("by day", "{m}*{d}"), ("more", "{h}*60"), ("in all", "{s1}+{s2}")),
    ),
    Template(
        "two_legs",
        "hard",
        ranges(v=(20, 90, 5), t=(2, 6), w=(20, 90, 5), u=(2, 6)),
        (
            (
                "{name} drives {t} hours at {v} km/h and {u} hours at {w} km/h.",
                "How many km is that?",
            ),
            (
                "A train does {v} km an hour for {t} hours, then {w} km an hour for {u} hours.",
                "How far does it go?",
            ),
        ),
        (("first", "{v}*{t}"), ("second", "{w}*{u}"), ("in all", "{s1}+{s2}")),
    ),
    Template(
        "profit",
        "hard",
        derived(
            ranges(n=(5, 30), c=(2, 20), _m=(2, 15), f=(1, 9)),
            s=lambda v: v["c"] + v["_m"],
        ),
        (
            (
                "{name} buys {n} {item} at ${c} and sells them at ${s} each. The stall costs ${f}.",
                "What is the profit in dollars?",
            ),
            (
                "Each of {n} {item} costs ${c} to make and sells for ${s}. {name} pays ${f} for "
                "the stand.",
                "How many dollars does {name} make?",
            ),
        ),
        (("gain on one", "{s}-{c}"), ("gain", "{s1}*{n}"), ("profit", "{s2}-{f}")),
    ),
    Template(
        "average",
        "hard",
        derived(
            ranges(a=(5, 60), b=(5, 60), _m=(25, 60)),
            c=lambda v: 3 * (v["_m"] + (v["a"] + v["b"]) // 3) - v["a"] - v["b"],
        ),
        (
            (
                "{name} scores {a}, {b} and {c} points in three games.",
                "What is the average?",
            ),
            ("Three bags hold {a}, {b} and {c} {item}.", "How many is that a bag, on average?"),
        ),
        (("first two", "{a}+{b}"), ("all", "{s1}+{c}"), ("average", "{s2}/3")),
    ),
    Template(
        "saving",
        "hard",
        derived(
            ranges(i=(15, 60), _k=(3, 20), _w=(3, 30), a=(5, 40)),
            o=lambda v: max(1, v["i"] - v["_k"]),
            p=lambda v: v["a"] + v["_w"] * (v["i"] - max(1, v["i"] - v["_k"])),
        ),
        (
            (
                "{name} has ${a}, earns ${i} a week and spends ${o} of it.",
                "After how many weeks can {name} buy a bike for ${p}?",
            ),
            (
                "A bike costs ${p}. {name} owns ${a}, gets ${i} a week and uses ${o} a week.",
                "How many weeks must {name} save?",
            ),
        ),
        (("saved a week", "{i}-{o}"), ("needed", "{p}-{a}"), ("weeks", "{s2}/{s1}")),
    ),
    Template(
        "recipe",
        "hard",
        derived(
            ranges(_u=(20, 250, 10), s=(2, 8), t=(9, 40), k=(1, 5)),
            g=lambda v: v["_u"] * v["s"],
        ),
        (
            (
                "Soup for {s} people needs {g} g of rice. {name} cooks for {t} people and keeps "
                "{k} kg in reserve.",
                "How many kg of rice is that?",
            ),
            (
                "{g} g of flour make {s} cakes. {name} bakes {t} cakes and has {k} kg left over.",
                "How many kg did {name} have?",
            ),
        ),
        (
            ("for one", "{g}/{s}"),
            ("grams", "{s1}*{t}"),
            ("kilograms", "{s2}/1000"),
            ("in all", "{s3}+{k}"),
        ),
    ),
    Template(
        "rise",
        "hard",
        ranges(w=(200, 900, 50), q=(2, 20, 2), m=(2, 11)),
        (
            (
                "{name} earned ${w} a month and now gets {q}% more.",
                "How many dollars does {name} earn in {m} months?",
            ),
            ("A rent of ${w} goes up by {q}%.", "How much is paid for {m} months?"),
        ),
        (("rise", "{w}*{q}/100"), ("new", "{w}+{s1}"), ("in all", "{s2}*{m}")),
    ),
    Template(
        "tickets",
        "hard",
        derived(ranges(a=(2, 9), c=(2, 20), _h=(2, 15)), p=lambda v: 2 * v["_h"]),
        (
            (
                "A ticket is ${p}; children pay half. {a} adults and {c} children go in.",
                "What do they pay in dollars?",
            ),
            (
                "{name} buys {a} full tickets at ${p} and {c} at half price.",
                "How many dollars is that?",
            ),
        ),
        (
            ("adults", "{a}*{p}"),
            ("child's ticket", "{p}/2"),
            ("children", "{s2}*{c}"),
            ("in all", "{s1}+{s3}"),
        ),
    ),
    Template(
        "tank",
        "hard",
        derived(ranges(_d=(2, 20), l=(2, 15), h=(2, 12), b=(5, 90)), f=lambda v: v["l"] + v["_d"]),
        (
            (
                "A tank holds {b} litres. {f} litres an hour flow in and {l} leak out.",
                "How many litres are in it after {h} hours?",
            ),
            (
                "{name} has {b} {item}, gets {f} a day and gives {l} a day away.",
                "How many are there after {h} days?",
            ),
        ),
        (("net", "{f}-{l}"), ("change", "{s1}*{h}"), ("in all", "{s2}+{b}")),
    ),
    Template(
        "fence",
        "hard",
        ranges(a=(5, 60), b=(5, 60), p=(2, 15), f=(5, 95, 5)),
        (
            (
                "{name} fences a garden of {a} m by {b} m. A metre costs ${p} and the gate ${f}.",
                "What does it cost in dollars?",
            ),
        ),
        (
            ("two sides", "{a}+{b}"),
            ("fence", "{s1}*2"),
            ("metres", "{s2}*{p}"),
            ("in all", "{s3}+{f}"),
        ),
        held_out=True,
    ),
    Template(
        "battery",
        "hard",
        ranges(w=(100, 900, 50), q=(10, 80, 10), c=(2, 20)),
        (
            (
                "A battery of {w} units loses {q}% and then {c} units.",
                "How many units are left?",
            ),
        ),
        (("loss", "{w}*{q}/100"), ("after it", "{w}-{s1}"), ("left", "{s2}-{c}")),
        held_out=True,
    ),
    Template(
        "two_jobs",
        "hard",
        ranges(h=(2, 12), w=(5, 20), k=(2, 12), u=(5, 20), z=(2, 8)),
        (
            (
                "{name} works {h} hours at ${w} and {k} hours at ${u} and pays {z}% tax.",
                "How many dollars are left?",
            ),
        ),
        (
            ("first job", "{h}*{w}"),
            ("both", "{s1}+{k}*{u}"),
            ("tax", "{s2}*{z}/100"),
            ("left", "{s2}-{s3}"),
        ),
        held_out=True,
    ),
)
