"""The wording of an ALFWorld game, taken from the TextWorld grammar that the game file embeds.

A grammar is reduced to its *skeleton* (rule names, conditions and the order of the slots, with all
plain text left out) and the skeleton is recognised by its hash. What the slots mean is then known,
and the plain text is taken from the game as it stands, so ``put X in/on Y`` of older releases and
``move X to Y`` of newer ones are both spoken exactly. An unknown skeleton raises
:class:`UnsupportedGame`.

The rules of how text is read (white space at the start of a rule is lost, tabs are dropped, ...)
are those of ``textworld.envs.pddl.textgen`` (TextWorld 1.7.0).
"""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from agentr1_envs.alfworld.pddl import UnsupportedGame

GOAL_PLACEHOLDER = "UNKNOWN GOAL"

_DOCUMENT = re.compile(
    r'\s*(?:grammar\s*::\s*"""(?P<grammar>(?:.|\n)*?)"""\s*;'
    r"|action\s+(?P<action>[\w/-]+)\s*\{"
    r"|(?P<close>\})"
    r'|(?P<field>template|feedback)\s*::\s*"(?P<text>[^"]*)"\s*;'
    r'|(?P<block>pddl|grammar)\s*::\s*"""(?P<code>(?:.|\n)*?)"""\s*;)'
)
TASK_RULE = re.compile(r'("task"\s*:\s*\[\s*\{\s*"rhs"\s*:\s*)"((?:[^"\\]|\\.)*)"')
_TOKEN = re.compile(
    r"\[\{(?P<list>[^\[\]{}\n|]+)(?:\|(?P<given>[^;|{}\n\[\]#]+))?\}\]"
    r"|\[\{#(?P<lrule>[^#]+)#\s*\|(?P<lgiven>[^;|{}\n\[\]#]+)\}\]"
    r"|\{(?P<eval>[^|\[\]{}\n<>#]+)\}"
    r"|#(?P<rule>[\w()/!<>\-\s,.]+)#"
    r"|(?P<text>[^;|\"<>\[\]#{}]+)"
)


@dataclass(frozen=True, slots=True)
class Wording:
    """%-format strings of every sentence and command; the slots' order is the skeleton's.

    Attributes:
        commands: action name (lower case) -> command.
        say: rule -> its alternatives, in order.
        arrive_names_location: "You arrive at loc 7" (releases before 0.4), not at a receptacle.
        has_help: the game has the command ``help``.
    """

    commands: dict[str, str]
    say: dict[str, tuple[str, ...]]
    arrive_names_location: bool
    has_help: bool

    def without_help(self) -> Wording:
        """The same wording for a domain that lacks the action ``help``."""
        return replace(self, has_help=False)


def split_goal(grammar: str) -> tuple[str, str]:
    """Cut the goal's sentence out of a grammar.

    Returns:
        (grammar with ``UNKNOWN GOAL`` in the place of the sentence, the sentence as it is shown).

    Raises:
        UnsupportedGame: there is no ``task`` rule, or its text is not plain.
    """
    match = TASK_RULE.search(grammar)
    if match is None:
        raise UnsupportedGame("the grammar has no rule 'task'")
    try:
        text = json.loads(f'"{match.group(2)}"')
    except ValueError as error:
        raise UnsupportedGame(f"the grammar's task text is not JSON: {error}") from None
    bare = grammar[: match.start()] + match.group(1) + f'"{GOAL_PLACEHOLDER}"'
    return bare + grammar[match.end() :], plain_text(text)


def plain_text(text: str) -> str:
    """A rule's text without slots, as the engine prints it; raises UnsupportedGame for any slot."""
    tokens = _tokens(text)
    if any(kind == "slot" for kind, _ in tokens):
        raise UnsupportedGame(f"{text!r} is not plain text")
    return "".join(value for _, value in tokens)


def _tokens(text: str) -> list[tuple[str, str]]:
    """Split a rule's text into ("text", literal) and slots, as TextWorld's parser would."""
    if "\t" in text or "//" in text or '"' in text:
        raise UnsupportedGame(f"a tab, '//' or quotation mark in the grammar text {text!r}")
    if not text:
        return []
    text = text.lstrip()  # the parser skips white space at the start of a line
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            # The engine's parser stops here without a word: the rest is never printed.
            tokens.append(("stop", ""))
            break
        position = match.end()
        if match.lastgroup == "text":
            tokens.append(("text", match.group().replace("\\n", "\n")))
        else:
            tokens.append(("slot", re.sub(r"\s*([|&,:])\s*", r"\1", match.group().strip())))
    return tokens


def _format_of(tokens: list[tuple[str, str]]) -> str:
    return "".join("%s" if k == "slot" else v.replace("%", "%%") for k, v in tokens)


def _skeleton_of(tokens: list[tuple[str, str]]) -> list[str]:
    return [v if k == "slot" else k if k == "stop" else "" for k, v in tokens]


def _read_document(text: str) -> tuple[dict[str, dict[str, str]], dict[str, Any]]:
    """Actions {name: {template, feedback}} and grammar rules {name: [rule, ..]} of a .twl2 text."""
    actions: dict[str, dict[str, str]] = {}
    rules: dict[str, Any] = {}
    current: dict[str, str] | None = None
    position = 0

    def add_rules(code: str) -> None:
        code = textwrap.dedent(code)
        lines = (line for line in code.split("\n") if not line.lstrip().startswith("#"))
        try:
            rules.update(json.loads("\n".join(lines)))
        except (ValueError, TypeError) as error:
            raise UnsupportedGame(f"the grammar's JSON cannot be read: {error}") from None

    while text[position:].strip():
        match = _DOCUMENT.match(text, position)
        if match is None:
            raise UnsupportedGame(f"cannot read the grammar at {text[position:].strip()[:60]!r}")
        position = match.end()
        if match["action"]:
            current = actions[match["action"].lower()] = {}
        elif match["close"]:
            current = None
        elif match["field"] and current is not None:
            current[match["field"]] = match["text"]
        elif match["block"] == "grammar" or match["grammar"] is not None:
            add_rules(match["code"] if match["grammar"] is None else match["grammar"])
    return actions, rules


@lru_cache(maxsize=64)
def parse_grammar(bare: str) -> tuple[str, Wording]:
    """Read a grammar whose goal was cut out by :func:`split_goal`.

    Returns:
        (skeleton hash, wording). The hash is not checked here.
    """
    actions, rules = _read_document(bare)
    skeleton: dict[str, Any] = {}
    commands: dict[str, str] = {}
    say: dict[str, tuple[str, ...]] = {}
    for name, fields in sorted(actions.items()):
        template = _tokens(fields.get("template", ""))
        commands[name] = _format_of(template)
        feedback = _tokens(fields.get("feedback", ""))
        shape = [_skeleton_of(template), _skeleton_of(feedback)]
        if name == "help":
            # Spelled as a rule or in place, depending on the release: either is one fixed text.
            if _skeleton_of(feedback) == [""]:
                say["help.feedback"] = (_format_of(feedback),)
                shape[1] = ["#help.feedback#"]
            rules.setdefault("help.feedback", [{"rhs": ""}])
        skeleton[f"action {name}"] = shape
    for name, alternatives in sorted(rules.items()):
        if not isinstance(alternatives, list):
            raise UnsupportedGame(f"the grammar rule {name!r} is not a list")
        shapes, formats = [], []
        for rule in alternatives:
            if not isinstance(rule, dict) or not isinstance(rule.get("rhs"), str):
                raise UnsupportedGame(f"the grammar rule {name!r} has an alternative without rhs")
            tokens = _tokens(rule["rhs"])
            condition = re.sub(r"\s+", "", rule.get("condition", ""))
            shapes.append([condition, _skeleton_of(tokens)])
            formats.append(_format_of(tokens))
        if name == "help.feedback":
            shapes = [["", [""]]]
            say.setdefault(name, tuple(formats))
        else:
            say[name] = tuple(formats)
        skeleton[f"rule {name}"] = shapes
    arrive = json.dumps(skeleton.get("rule GotoLocation.feedback"))
    digest = hashlib.sha256(json.dumps(skeleton, sort_keys=True).encode()).hexdigest()
    wording = Wording(
        commands=commands,
        say=say,
        arrive_names_location="lend.name" in arrive,
        has_help="help" in actions,
    )
    return digest, wording
