"""`agentr1 distill teacher=PATH student=PATH_OR_SIZE recipe=NAME`: on-policy distillation."""

from __future__ import annotations

import argparse

from agentr1_train.cli import train
from agentr1_train.cli.common import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `agentr1 train`, and teacher=, student=, task_reward=."""
    train.add_arguments(parser)
    parser.epilog = (
        "The student plays the recipe's episodes; each token it samples is paid "
        "log p_teacher - log p_student, clamped, with task_reward=true beside the task's own "
        "advantage. Teacher and student share a tokenizer; a student made from nothing "
        "(student=tiny) takes the teacher's and the recipe's cold start (cold_start.steps=0: none)."
    )


def main(args: argparse.Namespace) -> int:
    """Distil and evaluate on the recipe's panels."""
    config = train.resolve(args.settings)
    if not config.agentr1.distill.teacher:
        raise UsageError("distill: expected teacher=PATH (a saved model)")
    return train.start(args, config)
