"""Pages made from the code when the site is built, so that they can't disagree with it.

An environment's page is its class docstring, its tools and a transcript that the scripted expert
plays while the site is built. The reference pages are the docstrings of the public names, the
command line's page is what the argument parsers say, and what a bridge cannot carry is in its
docstring.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import os
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

HEADINGS = (
    "Description",
    "Action",
    "Observation",
    "Rewards",
    "Termination",
    "Arguments",
    "Tasks",
    "References",
)
#: Title of a reference page, its introduction, and the public names on it.
REFERENCE: dict[str, tuple[str, str, list[str]]] = {
    "wrappers": (
        "Wrappers and context rules",
        "Wrappers turn an environment's text into a model's input and keep its steps. A context "
        "rule decides which part of an episode the model is shown.",
        ["agentr1_wrappers:*"],
    ),
    "tool-formats": (
        "Tool formats",
        "How a model writes a tool call. Each format has a parser, a renderer and instructions.",
        ["agentr1_envs.tool_formats:format_names"],
    ),
    "retrieval": (
        "Retrieval",
        "Search over a corpus: BM25, dense, hybrid, and a client of a search server.",
        [
            "agentr1_envs.retrieval:Passage",
            "agentr1_envs.retrieval:Document",
            "agentr1_envs.retrieval:Retriever",
            "agentr1_envs.retrieval:QueryError",
            "agentr1_envs.retrieval:Bm25Index",
            "agentr1_envs.retrieval:DenseIndex",
            "agentr1_envs.retrieval:Encoder",
            "agentr1_envs.retrieval:load_encoder",
            "agentr1_envs.retrieval:HybridRetriever",
            "agentr1_envs.retrieval:RetrievalClient",
            "agentr1_envs.retrieval:read_corpus",
            "agentr1_envs.retrieval:open_corpus",
            "agentr1_envs.retrieval:open_retriever",
            "agentr1_envs.retrieval:analyze",
        ],
    ),
    "environment-parts": (
        "Parts of an environment",
        "What every environment of the suite is made of, for those who add one.",
        [
            "agentr1_envs.task_env:TextTaskEnv",
            "agentr1_envs.task_env:StepOutcome",
            "agentr1_envs.tool_env:ToolEnv",
            "agentr1_envs.tools:Tool",
            "agentr1_envs.tools:BaseTool",
            "agentr1_envs.tools:ToolError",
            "agentr1_envs.task_set:TaskSet",
            "agentr1_envs.task_set:GeneratedTasks",
            "agentr1_envs.spaces:UnicodeText",
            "agentr1_envs.spaces:ChatMessages",
            "agentr1_envs.vector:TaskVectorEnv",
            "agentr1_envs.transitions:Transition",
            "agentr1_envs.transitions:Episode",
            "agentr1_envs.errors:EnvironmentFault",
            "agentr1_envs.errors:TaskDataError",
        ],
    ),
    "estimators": (
        "Estimators and losses",
        "Advantages of step-level transitions and the losses that use them.",
        ["agentr1_train.advantages:*", "agentr1_train.losses:*"],
    ),
}


#: The bridges: module, the stack's name, and how to install what the tests install.
BRIDGES = (
    ("trl", "TRL"),
    ("verifiers", "verifiers"),
    ("skyrl", "SkyRL-gym"),
    ("gem", "GEM"),
    ("openenv", "OpenEnv"),
)
#: Extra wide help would scroll; argparse reads the width from here.
HELP_COLUMNS = "92"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in what a written page leaves to the code."""
    # A comment, as the formatter of code in Markdown would rewrite an include inside a block.
    markdown = re.sub(r"^<!-- example: (\w+) -->$", _example, markdown, flags=re.MULTILINE)
    return re.sub(r"^<!-- generated: (\w+) -->$", _generated, markdown, flags=re.MULTILINE)


def _generated(match: re.Match[str]) -> str:
    return {"bridges": bridges_table, "bridge_pages": bridge_sections}[match[1]]()


def _example(match: re.Match[str]) -> str:
    path = Path(__file__).parent / "examples" / f"{match[1]}.py"
    return f"```python\n{path.read_text(encoding='utf-8').rstrip()}\n```"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    from agentr1_envs.registration import ENVS

    for entry in ENVS.values():
        name = entry.task.replace("_", "-")
        files.append(_file(config, f"environments/{name}.md", environment_page(entry)))
    files.append(_file(config, "environments/index.md", environment_index(ENVS.values())))
    for name, (title, intro, targets) in REFERENCE.items():
        page = reference_page(title, intro, targets)
        files.append(_file(config, f"reference/{name}.md", page))
    files.append(_file(config, "reference/command-line.md", command_page()))
    return files


def _file(config: MkDocsConfig, path: str, text: str) -> File:
    return File.generated(config, path, content=text)


def environment_index(entries: Iterable[Any]) -> str:
    """The table of environments."""
    lines = ["# Environments", "", "| id | what it is | scripted policies |", "| --- | --- | --- |"]
    for entry in entries:
        page = f"{entry.task.replace('_', '-')}.md"
        experts = ", ".join(entry.experts)
        lines.append(f"| [{entry.id}]({page}) | {entry.summary} | {experts} |")
    return "\n".join(lines) + "\n"


def environment_page(entry: Any) -> str:
    """One environment: docstring, tools, a played transcript, and what its notes add."""
    import gymnasium as gym

    from agentr1_envs.registration import load

    cls = load(entry.entry_point)
    doc = inspect.getdoc(cls) or ""
    first, _, rest = doc.partition("\n")
    parts = [f"# {entry.id}", "", first, "", f'```python\ngym.make("{entry.id}")\n```', ""]
    parts.append(sections(rest))
    env = gym.make(entry.id, render_mode="ansi", split="validation")
    observation, info = env.reset(seed=0)
    base: Any = env.unwrapped
    if base.tools:
        parts += ["## Tools", ""]
        for tool in base.tools:
            function = tool["function"]
            fields = function["parameters"]["properties"]
            signature = ", ".join(f"{k}: {v.get('type', 'any')}" for k, v in fields.items())
            parts.append(f"- `{function['name']}({signature})`: {function['description']}")
        parts.append("")
    parts += ["## System prompt", "", fence(base.system_prompt), ""]
    expert = load(entry.experts["expert"])(env)
    expert.reset(observation, info)
    over = False
    while not over:
        observation, _, terminated, truncated, info = env.step(expert.act(observation, info))
        over = terminated or truncated
    transcript = str(env.render())
    if len(transcript) > 6000:
        transcript = transcript[:6000].rsplit("\n", 1)[0] + "\n[the page shows the beginning]"
    parts += [
        "## A played episode",
        "",
        f'The scripted expert on the first task of `env.reset(seed=0)`, split "validation"; '
        f"score {info['score']:g}.",
        "",
        fence(transcript),
        "",
    ]
    env.close()
    return "\n".join(parts)


def sections(text: str) -> str:
    """A docstring's ``Heading:`` blocks as Markdown sections."""
    out: list[str] = []
    pattern = rf"^({'|'.join(HEADINGS)}):[ \t]*$"
    pieces = re.split(pattern, textwrap.dedent(text), flags=re.MULTILINE)
    out.append(pieces[0].strip())
    for heading, body in zip(pieces[1::2], pieces[2::2], strict=True):
        body = textwrap.dedent(body.strip("\n")).strip()
        if heading in ("Arguments",):
            body = definitions(body)
        elif heading == "References":
            body = "\n".join(f"- {line}" for line in joined(body))
        out.append(f"## {heading}\n\n{body}\n")
    return "\n\n".join(piece for piece in out if piece) + "\n"


def joined(text: str) -> list[str]:
    """Lines, with indented continuation lines joined to the line before."""
    lines: list[str] = []
    for line in text.splitlines():
        if line[:1].isspace() and lines:
            lines[-1] += " " + line.strip()
        elif line.strip():
            lines.append(line.strip())
    return lines


def definitions(text: str) -> str:
    """``name: text`` lines as a list."""
    rows = []
    for line in joined(text):
        name, colon, rest = line.partition(": ")
        rows.append(f"- `{name}`: {rest}" if colon else f"- {line}")
    return "\n".join(rows)


def fence(text: str) -> str:
    """A code block that no content can close."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}text\n{text}\n{ticks}"


def reference_page(title: str, intro: str, targets: list[str]) -> str:
    """The docstrings of public names."""
    parts = [f"# {title}", "", intro, ""]
    for target in targets:
        module_name, _, name = target.partition(":")
        module = importlib.import_module(module_name)
        if name == "format_names":
            parts += [inspect.getdoc(importlib.import_module(f"{module_name}.base")) or "", ""]
            for key in module.format_names():
                doc = inspect.getdoc(inspect.getmodule(type(module.get_format(key)))) or ""
                parts += [f"## {key}", "", doc, ""]
            continue
        names = public_names(module) if name == "*" else [name]
        for item in names:
            parts += [public_name(module_name, item, getattr(module, item)), ""]
    return "\n".join(parts) + "\n"


def public_names(module: Any) -> list[str]:
    """A module's ``__all__``, or the public names it defines itself."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return list(getattr(module, "__all__", own))


def public_name(module: str, name: str, value: Any) -> str:
    """One public name with its signature and docstring."""
    try:
        signature = str(inspect.signature(value))
    except (TypeError, ValueError):
        signature = ""
    signature = re.sub(r"<[^>]*>", "...", signature)
    doc = inspect.getdoc(value) or ""
    body = re.sub(
        r"^(Args|Returns|Raises|Attributes|Yields|Example|Source):[ \t]*$\n((?:[ \t]+.*\n?|\n)*)",
        _field_block,
        doc,
        flags=re.MULTILINE,
    )
    code = f"{module}.{name}{signature}"
    return f"## {name}\n\n```python\n{code}\n```\n\n{body}\n"


def _field_block(match: re.Match[str]) -> str:
    body = textwrap.dedent(match[2].strip("\n"))
    if match[1] in ("Args", "Attributes", "Raises"):
        body = definitions(body)
    return f"**{match[1]}**\n\n{body}\n"


# --- the command line -----------------------------------------------------------------------------


def command_page() -> str:
    """What ``agentr1 COMMAND --help`` prints, for every command."""
    from agentr1_envs.registration import ENVS
    from agentr1_train.cli.main import COMMANDS

    parts = [
        "# Command line",
        "",
        "Exit codes: 0 done, 1 it ran and something in it failed, 2 the command line or a file "
        "given to it is wrong, 130 interrupted. Errors are one line on standard error.",
        "",
        "| command | what it does |",
        "| --- | --- |",
    ]
    parts += [f"| [`agentr1 {n}`](#agentr1-{n}) | {text} |" for n, (_, text) in COMMANDS.items()]
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = HELP_COLUMNS
    try:
        for name, (module, text) in COMMANDS.items():
            parser = _parser(f"agentr1 {name}", f"{text[:1].upper()}{text[1:]}.", module)
            parts += ["", f"## agentr1 {name}", "", fence(parser.format_help().rstrip())]
            parts += [fence(sub.format_help().rstrip()) for sub in subparsers(parser)]
            if name == "prepare":
                for entry in ENVS.values():
                    if entry.prepare is None:
                        continue
                    doc = inspect.getdoc(importlib.import_module(entry.prepare)) or ""
                    parser = _parser(f"agentr1 prepare {entry.task}", doc, entry.prepare)
                    title = f"### agentr1 prepare {entry.task}"
                    parts += ["", title, "", fence(parser.format_help().rstrip())]
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return "\n".join(parts) + "\n"


def _parser(prog: str, description: str, module: str) -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=prog, description=description, formatter_class=raw)
    importlib.import_module(module).add_arguments(parser)
    return parser


def subparsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of a command's own subcommands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


# --- bridges --------------------------------------------------------------------------------------


def bridge_doc(module: str) -> str:
    """A bridge's docstring, read without importing its stack."""
    import agentr1_envs.bridges

    path = Path(agentr1_envs.bridges.__path__[0]) / f"{module}.py"
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert doc is not None, path
    return doc


def bridges_table() -> str:
    """Stack, version that is tested, and what it cannot carry (from the docstrings)."""
    from agentr1_train.installation import BRIDGES as MODULES
    from agentr1_train.tested_versions import TESTED_BRIDGES

    lines = ["| stack | tested with | what cannot be carried over |", "| --- | --- | --- |"]
    names = {package.partition("-")[0]: package for package in MODULES}
    for module, title in BRIDGES:
        package = names[module]
        found = re.search(r"cannot\s+carry:\s+(.*?)(?:\n\n|\Z)", bridge_doc(module), re.DOTALL)
        assert found is not None, f"the docstring of bridges/{module}.py says what is lost"
        lost = " ".join(found[1].split())
        pin = f"`{package}=={TESTED_BRIDGES[package]}`"
        lines.append(f"| [{title}](#{title.lower()}) | {pin} | {lost[0].upper()}{lost[1:]} |")
    return "\n".join(lines)


def bridge_sections() -> str:
    """Each bridge's docstring, its indented code as code blocks."""
    parts = []
    for module, title in BRIDGES:
        body = re.sub(r"^(?:    .*\n|\n(?=    ))+", _code_block, bridge_doc(module), flags=re.M)
        parts.append(f"## {title}\n\n{body}\n")
    return "\n".join(parts)


def _code_block(match: re.Match[str]) -> str:
    code = textwrap.dedent(match[0]).strip("\n")
    shell = code.startswith(("agentr1 ", "vf-eval "))
    lines = code.splitlines()
    python = next((i for i, line in enumerate(lines) if line.startswith("from ")), len(lines))
    if not shell or python == len(lines):
        return f"\n```{'bash' if shell else 'python'}\n{code}\n```\n"
    first, rest = "\n".join(lines[:python]).strip(), "\n".join(lines[python:])
    return f"\n```bash\n{first}\n```\n\n```python\n{rest}\n```\n"
