"""Word problems made offline, with their exact answers.

The set a problem belongs to is a function of its template and its numbers alone: a hash puts every
(template, numbers) pair into train (80 %), validation (10 %) or test (10 %), and a split only keeps
pairs of its own. So no pair is ever in two splits, whatever the seeds, sizes or levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from agentr1_envs.seeding import derive_int, derive_random
from agentr1_envs.task_set import GeneratedTasks, canonical_split

from .calculator import evaluate, format_number
from .templates import DISTRACTORS, EASY, ITEMS, NAMES, Numbers, Template
from .templates_hard import HARD

VERSION = "gsm8k-gen1"
"""Names the generator in task ids; changes whenever a task would."""

TEMPLATES: dict[str, Template] = {template.name: template for template in (*EASY, *HARD)}
LEVELS = ("easy", "hard", "mixed")
FAMILIES = ("core", "held_out", "all")
SIZES = {"train": 100_000, "validation": 2_000, "test": 2_000}
_TRIES = 10_000


def split_of(template: str, numbers: Numbers) -> str:
    """The one split that may hold this problem."""
    pair = ",".join(f"{key}={numbers[key]}" for key in sorted(numbers))
    bucket = derive_int(VERSION, "split", template, pair) % 10
    return "train" if bucket < 8 else ("validation" if bucket == 8 else "test")


@lru_cache
def select(level: str = "easy", family: str = "core") -> tuple[Template, ...]:
    """The templates of a level ("easy", "hard", "mixed") and family ("core", "held_out", "all").

    Raises:
        ValueError: no such level or family.
    """
    if level not in LEVELS:
        raise ValueError(f"difficulty: got {level!r}, expected one of {LEVELS}")
    if family not in FAMILIES:
        raise ValueError(f"templates: got {family!r}, expected one of {FAMILIES}")
    return tuple(
        template
        for template in TEMPLATES.values()
        if level in ("mixed", template.level)
        and (family == "all" or template.held_out == (family == "held_out"))
    )


def make_task(level: str, family: str, split: str, index: int) -> dict[str, Any]:
    """Task `index` of a split: a row without its task_id; see `select` for level and family.

    Returns:
        ``question``, ``answer`` (a number as text), ``solution`` (worked, in the form of the
        official rows), ``calls`` (the expressions an expert evaluates), ``template``, ``numbers``,
        ``level``.
    """
    rng = derive_random(VERSION, level, family, split, index)
    templates = select(level, family)
    template = templates[int(rng.random() * len(templates))]
    for _ in range(_TRIES):
        numbers = template.draw(rng)
        if split_of(template.name, numbers) == split:
            break
    else:
        raise RuntimeError(f"template {template.name} has no numbers for the split {split}")
    return _write(template, numbers, rng)


def _write(template: Template, numbers: Numbers, rng: Any) -> dict[str, Any]:
    def pick(values: Sequence[Any]) -> Any:
        return values[int(rng.random() * len(values))]

    facts, question = pick(template.texts)
    first = int(rng.random() * len(NAMES))
    second = first + 1 + int(rng.random() * (len(NAMES) - 1))
    other = NAMES[second % len(NAMES)]
    words = {"name": NAMES[first], "item": pick(ITEMS), "other": other}
    if template.level == "hard" and rng.random() < 0.5:
        extra = pick(DISTRACTORS).format(x=5 + int(rng.random() * 90), **words)
        facts = f"{facts} {extra}"
    text = f"{facts} {question}".format(**numbers, **words)
    values: dict[str, Any] = dict(numbers)
    calls, trace = [], []
    result = ""
    for number, (label, step) in enumerate(template.steps, 1):
        expression = step.format(**values)
        result = format_number(evaluate(expression))
        values[f"s{number}"] = result
        calls.append(expression)
        trace.append(
            f"{label[0].upper()}{label[1:]}: {expression} = <<{expression}={result}>>{result}"
        )
    return {
        "question": text,
        "answer": result,
        "solution": "\n".join([*trace, f"#### {result}"]),
        "calls": calls,
        "template": template.name,
        "numbers": numbers,
        "level": template.level,
    }


def generated_tasks(
    split: str, *, difficulty: str = "easy", templates: str = "core", size: int | None = None
) -> GeneratedTasks:
    """A panel of generated tasks, made when they are asked for.

    Args:
        split: "train", "validation", "test" or an alias.
        difficulty: "easy", "hard" or "mixed".
        templates: "core", "held_out" (templates that "core" never uses) or "all".
        size: Number of tasks; None takes 100,000 (train) or 2,000.
    """
    split = canonical_split(split)
    select(difficulty, templates)
    return GeneratedTasks(
        partial(make_task, difficulty, templates, split),
        size=SIZES[split] if size is None else size,
        split=split,
        key=f"{VERSION}-{difficulty}-{templates}",
    )
