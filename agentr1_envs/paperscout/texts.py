"""Titles and abstracts of the generated literature, written from each paper's own facts."""

from __future__ import annotations

import random

from agentr1_envs.paperscout.vocabulary import GIVEN_NAMES, METHODS, SETTINGS, SYLLABLES
from agentr1_envs.paperscout.world import Fact, Topic

_BACKGROUND = (
    "{Problem} of {domain} has drawn much attention.",
    "Progress in {problem} of {domain} has been uneven.",
    "{Problem} of {domain} remains costly in practice.",
    "Many applications depend on {problem} of {domain}.",
    "We revisit {problem} of {domain}.",
)
_CONTRIBUTION = (
    "We propose {name}, which is based on {method}.",
    "This paper introduces {name}, an approach that uses {method}.",
    "Our answer, {name}, rests on {method}.",
    "{Name} combines {method} with a simple training recipe.",
)
_NAMELESS = ("our method", "the proposed approach", "a new model", "a plain baseline")
_SOURCE_OPEN = (
    "It extends {source}.",
    "We build on {source} and remove its main weakness.",
    "Starting from {source}, we change how examples are weighed.",
)
_SOURCE_HIDDEN = (
    "It takes an earlier system further.",
    "A known architecture is the starting point.",
)
_RESULT = (
    "On {dataset} the score rises from {low} to {high}.",
    "Experiments on {dataset} show {high} against {low} for the best earlier system.",
    "It reaches {high} on {dataset}, where prior work stands at {low}.",
    "Results on {dataset} improve by {gain} points to {high}.",
)
_CLOSING = (
    "An ablation over {runs} runs shows where the gain comes from.",
    "Code and all {runs} training logs are released.",
    "The gain holds over {runs} random seeds.",
    "We close with an error analysis of {runs} cases.",
)
_TITLES = (
    "{Method} for {problem} of {domain}",
    "{Problem} of {domain} by {method}",
    "Towards better {problem} of {domain}: {method} revisited",
    "A study of {method} in {problem} of {domain}",
)
_TITLES_SETTING = (
    "{Problem} of {domain} and {setting}",
    "{Method} for {problem} of {domain}: {setting}",
    "{Setting} in {problem} of {domain}",
)
_FOUNDATION_TITLES = (
    "On the {name}",
    "The {name}",
    "A note on the {name}",
    "Properties of the {name}",
)
_FOUNDATION = (
    "We introduce the {name} and prove that it exists under mild conditions. The error decays as "
    "the inverse of the count to the power {power}. Two instances of order {order} close "
    "the paper.",
    "The {name} is defined and its main properties are derived. A constructive proof gives a "
    "procedure whose cost grows with exponent {power}. Numerical checks up to order {order} agree "
    "with the derivation.",
)
_SURVEY = (
    "This survey reviews {problem} of {domain}. We sort {count} works by the difficulties they "
    "address: {settings}. For each we compare methods, benchmarks and reported results, and name "
    "open questions.",
    "We give an overview of {problem} of {domain} over {count} works. The survey is arranged by "
    "theme: {settings}. We list benchmarks and discuss where reported figures disagree.",
)


def write(topic: Topic, fact: Fact, rng: random.Random) -> tuple[str, str, tuple[str, ...]]:
    """Title, abstract and authors of a paper."""
    authors = tuple(_author(rng) for _ in range(rng.randrange(1, 6)))
    if fact.kind == "foundation":
        title = rng.choice(_FOUNDATION_TITLES).format(name=fact.name)
        abstract = rng.choice(_FOUNDATION).format(
            name=fact.name, power=round(rng.uniform(0.3, 2.0), 2), order=rng.randrange(3, 40)
        )
        return title, abstract, authors
    if fact.kind == "survey":
        names = [SETTINGS[i][0] for i in topic.settings]
        rng.shuffle(names)
        title = f"{_upper(topic.name)}: a survey"
        abstract = rng.choice(_SURVEY).format(
            problem=topic.problem[0],
            domain=topic.domain[0],
            count=len(fact.references),
            settings=", ".join(names),
        )
        return title, abstract, authors
    return (*_work(topic, fact, rng), authors)


def _work(topic: Topic, fact: Fact, rng: random.Random) -> tuple[str, str]:
    setting, open_text, hidden_text = SETTINGS[fact.setting]
    method = METHODS[fact.method][0 if fact.open_method else 1]
    # A paper whose setting is hidden may avoid the usual name of its problem, too.
    problem = topic.problem[0 if fact.open_setting or rng.random() < 0.7 else 1]
    name = fact.name or rng.choice(_NAMELESS)
    low = round(rng.uniform(40, 85), 1)
    gain = round(rng.uniform(0.4, 9.0), 1)
    words = {
        "problem": problem,
        "Problem": _upper(problem),
        "domain": topic.domain[0],
        "method": method,
        "Method": _upper(method),
        "setting": setting,
        "Setting": _upper(setting),
        "name": name,
        "Name": _upper(name),
        "dataset": topic.datasets[fact.dataset],
        "low": low,
        "gain": gain,
        "high": round(low + gain, 1),
        "runs": rng.randrange(3, 60),
    }
    sentences = [
        rng.choice(_BACKGROUND).format(**words),
        open_text if fact.open_setting else hidden_text,
        rng.choice(_CONTRIBUTION).format(**words),
    ]
    if fact.extends >= 0:
        forms = _SOURCE_OPEN if fact.open_source else _SOURCE_HIDDEN
        sentences.append(rng.choice(forms).format(source=topic.facts[fact.extends].name))
    sentences.append(rng.choice(_RESULT).format(**words))
    sentences.append(rng.choice(_CLOSING).format(**words))
    titles = _TITLES_SETTING if fact.open_setting and rng.random() < 0.4 else _TITLES
    title = rng.choice(titles).format(**words)
    return (f"{fact.name}: {title}" if fact.name else title), " ".join(sentences)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _author(rng: random.Random) -> str:
    family = "".join(rng.choice(SYLLABLES) for _ in range(rng.randrange(2, 4))).capitalize()
    return f"{rng.choice(GIVEN_NAMES)} {family}"
