"""`agentr1 doctor`: what is installed, which extras work, what a GPU run would lack."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from agentr1_train.cli.common import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from agentr1_train.installation import Package, Report

_STYLES = {
    "works": "green", "ok": "green", "installed": "green", "missing": "dim", "optional": "dim",
    "unknown": "dim", "incomplete": "yellow", "broken": "red",
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    from agentr1_train.installation import EXTRAS

    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "Each installed extra is imported in a process of its own; nothing is downloaded.\n"
        "Exit code 1: the base install or an extra named by --require does not work."
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="look at versions, import nothing")
    parser.add_argument(
        "--require",
        metavar="EXTRA",
        action="append",
        default=[],
        help=f"fail unless this extra works; may be repeated: {', '.join(EXTRAS)}",
    )
    parser.add_argument(
        "--timeout", type=float, default=180.0, help="seconds an extra's import may take (180)"
    )


def main(args: argparse.Namespace) -> int:
    """Examine and print; 1 where something needed does not work."""
    from rich.console import Console

    from agentr1_train.installation import EXTRAS, examine

    for name in args.require:
        if name not in EXTRAS:
            raise UsageError(f"--require {name}: there is no such extra; {', '.join(EXTRAS)}")
    if args.timeout <= 0:
        raise UsageError(f"--timeout is over 0, got {args.timeout:g}")
    with Console(stderr=True).status("looking") as status:
        report = examine(
            do_import=not args.quick,
            timeout=args.timeout,
            tick=lambda name: status.update(f"importing what {name} needs"),
        )
    problems = report.problems(args.require)
    if args.json:
        print(json.dumps({**report.as_dict(), "problems": problems}, indent=2, ensure_ascii=False))
    else:
        _print(report, problems, Console())
    return 1 if problems else 0


def _print(report: Report, problems: list[str], console: Console) -> None:
    from rich.markup import escape

    words = report.versions
    console.print(
        f"[bold]agentr1 {words['agentr1']}[/], Python {words['python']}, {escape(words['system'])}",
        highlight=False,
    )
    console.print(f"  {words['where']}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"  {_machine(report.machine)}\n", highlight=False, markup=False, soft_wrap=True)
    rows = [(p.name, p.wanted, *_versions(p)) for p in report.base]
    _table(console, "base install", ("package", "needs", "installed", "tested"), rows)
    rows = []
    for extra in report.extras:
        took = "" if extra.seconds is None else f" ({extra.seconds:.1f} s)"
        rows.append((extra.name, _state(extra.state) + took, extra.purpose, escape(extra.reason)))
    _table(console, "extras", ("extra", "state", "what it is for", "what is wrong"), rows)
    others = [p for e in report.extras for p in e.packages if p.installed and e.name != "dev"]
    seen = {p.name.lower(): (p.name, *_versions(p)) for p in others if p.tested}
    seen |= {p.name: (p.name, *_versions(p)) for p in report.bridges if p.installed}
    if seen:
        _table(console, "versions", ("package", "installed", "tested"), sorted(seen.values()))
    absent = [f"{p.name} {p.tested}" for p in report.bridges if not p.installed]
    if absent:
        text = f"stacks not installed (bridges tested with): {', '.join(absent)}\n"
        console.print(text, highlight=False, style="dim")
    rows = [
        (c.name, _state(c.state), escape(c.found), escape(c.advice if c.state != "ok" else ""))
        for c in report.gpu
    ]
    _table(console, "a GPU run", ("needs", "state", "found", "what to do"), rows)
    for problem in problems:
        console.print(f"[red]problem:[/] {escape(problem)}", highlight=False)
    if not problems:
        console.print("[green]what is needed works[/]")


def _state(state: str) -> str:
    return f"[{_STYLES[state]}]{state}[/]"


def _versions(package: Package) -> tuple[str, str]:
    """Installed, marked where it does not fit; and tested, marked where it is another."""
    have, tested = package.installed or "[red]missing[/]", package.tested or ""
    if package.installed and not package.fits:
        have = f"[red]{have}[/]"
    same = package.installed is None or package.installed.partition("+")[0] == tested
    return have, tested if same or not tested else f"[yellow]{tested}[/]"


def _machine(facts: dict[str, Any]) -> str:
    def size(value: int | None) -> str:
        return "?" if value is None else f"{value / 2**30:.1f} GiB"

    disk = ", ".join(f"{size(d['free'])} free {name}" for name, d in facts["disk"].items())
    compilers = " ".join(facts["compilers"]) or "no compiler"
    memory = f"{size(facts['memory'])} memory ({size(facts['memory_available'])} available)"
    return f"{facts['cores']:g} cores, {memory}; disk: {disk}; {compilers}"


def _table(console: Console, title: str, columns: tuple[str, ...], rows: list[Any]) -> None:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)
