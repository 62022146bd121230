"""The `agentr1` command: one module a subcommand, imported only when it is used."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence

from gymnasium.error import Error as SeedError  # the only one that gets here: a negative seed

from agentr1_envs import __version__
from agentr1_envs.errors import EnvironmentFault, TaskDataError
from agentr1_train.cli.common import UsageError

#: Name -> (module with `add_arguments(parser)` and `main(args) -> int`, help).
COMMANDS: dict[str, tuple[str, str]] = {
    "envs": ("agentr1_train.cli.envs", "list the environments"),
    "play": ("agentr1_train.cli.play", "play an environment in the terminal"),
    "render": ("agentr1_train.cli.render", "draw or print one episode"),
    "prepare": ("agentr1_train.cli.prepare", "turn a task's public files into rows"),
    "rollout": ("agentr1_train.cli.rollout", "play episodes with a policy"),
    "eval": ("agentr1_train.cli.eval", "evaluate a policy on a fixed panel of tasks"),
    "eval-papers": ("agentr1_train.cli.eval_papers", "score a file of found papers"),
    "retrieval": ("agentr1_train.cli.retrieval", "build, search and serve search indexes"),
    "collect": ("agentr1_train.cli.collect", "gather episodes to learn from"),
    "train": ("agentr1_train.cli.train", "train a model on a recipe"),
    "sft": ("agentr1_train.cli.sft", "learn from collected episodes"),
    "distill": ("agentr1_train.cli.distill", "teach a model by another on its own episodes"),
    "view": ("agentr1_train.cli.view", "show stored episodes step by step"),
    "proxy": ("agentr1_train.cli.proxy", "record an agent's calls to an OpenAI-compatible server"),
    "serve": ("agentr1_train.cli.serve", "serve an environment over HTTP and WebSocket (OpenEnv)"),
    "doctor": ("agentr1_train.cli.doctor", "say what is installed, what works, what is missing"),
    "alfworld": ("agentr1_train.cli.alfworld", "compare the ALFWorld engines"),
    "webshop": ("agentr1_train.cli.webshop", "serve the shop as web pages"),
}


def _parser(command: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agentr1",
        description="Environments and training for language-model agents.",
        epilog="agentr1 COMMAND --help tells more about a command.",
    )
    parser.add_argument("--version", action="version", version=f"agentr1 {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module, text) in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=text[:1].upper() + text[1:] + ".")
        if name == command:  # the others' modules are not needed to print their line of help
            importlib.import_module(module).add_arguments(sub)
    return parser


def _is_setting(word: str) -> bool:
    return "=" in word and not word.startswith("-")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code.

    0: done. 1: it ran and something in it failed. 2: the command line or a file given to it is
    wrong. 130: interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        # A task or a model may say what the terminal's encoding cannot: that is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = next((word for word in arguments if not word.startswith("-")), None)
    try:
        parser = _parser(command if command in COMMANDS else None)
        args, rest = parser.parse_known_args(arguments)
        # argparse stops taking words at the first option behind them: `recipe=x --resume lr=1e-5`.
        if rest and hasattr(args, "settings") and all(_is_setting(word) for word in rest):
            args.settings += rest
        elif rest:
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        code = int(importlib.import_module(COMMANDS[args.command][0]).main(args) or 0)
        sys.stdout.flush()  # here, where a closed pipe or a full disk is still told apart
        return code
    except (TaskDataError, UsageError, SeedError, FileNotFoundError, NotADirectoryError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except EnvironmentFault as error:
        print(f"error: the environment failed: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # `agentr1 envs | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        print(f"error: {error}", file=sys.stderr)
        return 1
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # met, and made an exit, by rich
            return 0
        raise
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
