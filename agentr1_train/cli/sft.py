"""`agentr1 sft recipe=NAME data=FILE model=PATH_OR_tiny steps=N`: supervised learning alone."""

from __future__ import annotations

import argparse
from pathlib import Path

from agentr1_train.cli import train
from agentr1_train.cli.common import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `agentr1 train`; ``steps`` counts supervised steps here."""
    train.add_arguments(parser)
    parser.epilog = (
        "data=FILE: transitions written by `agentr1 collect` (solved episodes are learned from); "
        "without it the recipe's scripted policies are played. steps=N: supervised steps."
    )


def main(args: argparse.Namespace) -> int:
    """Train on the episodes and evaluate on the recipe's panels."""
    words = []
    for word in args.settings:
        key, _, value = word.partition("=")
        if key == "steps":
            word = f"agentr1.cold_start.steps={value}"
        elif key == "lr":
            word = f"agentr1.cold_start.lr={value}"
        elif key == "data" and not Path(value).is_file():
            raise UsageError(f"data={value}: no such file")
        words.append(word)
    config = train.resolve([*words, "trainer.total_training_steps=0"])
    return train.start(args, config)
