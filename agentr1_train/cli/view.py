"""`agentr1 view RUN_OR_PARQUET`: what the model saw, said, did and got, step by step."""

from __future__ import annotations

import argparse
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentr1_envs.task_files import atomic_write
from agentr1_envs.transitions import (
    Episode,
    Transition,
    group_episodes,
    read_metadata,
    read_transitions,
)
from agentr1_train.cli.common import UsageError, check_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("path", type=Path, help="a Parquet file of transitions, or a run's folder")
    parser.add_argument("--file", help="which file of the run (default: the newest transitions)")
    parser.add_argument("--episode", action="append", help="only this episode id; may be repeated")
    parser.add_argument(
        "--only", choices=["solved", "failed", "invalid"], help="only episodes of this kind"
    )
    parser.add_argument("--limit", type=int, default=5, help="most episodes (default: 5; 0: all)")
    parser.add_argument("--tokens", action="store_true", help="token by token, with log-probs")
    parser.add_argument("--full", action="store_true", help="the whole state at every step")
    parser.add_argument("--html", type=Path, help="write one self-contained page instead")


def main(args: argparse.Namespace) -> int:
    """Show; 1 when nothing matches."""
    if args.limit < 0:
        raise UsageError(f"--limit {args.limit}: expected 0 (all) or more")
    check_output(args.html, "--html")
    path = _file(args.path, args.file)
    found = group_episodes(read_transitions(path))
    if args.episode:
        wanted = set(args.episode)
        missing = wanted - {e.episode_id for e in found}
        if missing:
            raise UsageError(f"{path}: no episode {sorted(missing)[0]!r}")
        found = [e for e in found if e.episode_id in wanted]
    kinds = {"solved": lambda e: e.success, "invalid": lambda e: not e.valid}
    kinds["failed"] = lambda e: e.valid and not e.success
    if args.only:
        found = [e for e in found if kinds[args.only](e)]
    total = len(found)
    if args.limit > 0:
        found = found[: args.limit]
    tokenizer = _tokenizer(args.path) if args.tokens or args.html else None
    if args.html:
        page = render_html(found, read_metadata(path), tokenizer, str(path.name))
        with atomic_write(args.html, "w") as handle:
            handle.write(page)
        print(f"{len(found)} of {total} episodes in {args.html}")
    else:
        _show(found, total, args, tokenizer)
    return 0 if found else 1


def _file(path: Path, name: str | None) -> Path:
    if path.is_dir():
        if name and (path / name).is_file():
            return path / name
        try:
            files = sorted(path.glob(name or "transitions-*.parquet"))
        except (NotImplementedError, ValueError):  # an absolute pattern, or "a**b"
            files = []
        if not files:
            raise UsageError(f"{path}: no {name or 'transitions-*.parquet'} in this folder")
        return files[-1]
    if not path.is_file():
        raise UsageError(f"{path}: no such file or folder")
    return path


def _tokenizer(path: Path) -> Any:
    """The run's own tokenizer, where transformers and a checkpoint are there; else None."""
    root = path if path.is_dir() else path.parent
    saved = sorted((root / "checkpoints").glob("step-*"))
    saved = saved or list(root.glob("global_step_*/actor/huggingface"))  # verl's; all are alike
    if not saved:
        return None
    try:
        from transformers import AutoTokenizer
    except ImportError:
        return None
    return AutoTokenizer.from_pretrained(saved[-1], local_files_only=True)


def pieces(t: Transition, tokenizer: Any) -> list[tuple[str, float | None]]:
    """Each sampled token as text (its id without a tokenizer) with its log-probability."""
    known = len(t.response_logprobs) == len(t.response_ids)
    texts = [
        str(i) if tokenizer is None else tokenizer.decode([i], skip_special_tokens=False)
        for i in t.response_ids.tolist()
    ]
    return [
        (text, float(t.response_logprobs[k]) if known else None) for k, text in enumerate(texts)
    ]


def facts(t: Transition) -> str:
    """One line about a step."""
    parts = [f"reward {t.reward:g}"]
    if t.advantage is not None:
        parts.append(f"advantage {t.advantage:+.3f}")
    if len(t.response_ids):
        parts.append(f"{len(t.prompt_ids)} + {len(t.response_ids)} tokens")
    if len(t.response_logprobs):
        parts.append(f"mean log-prob {float(np.mean(t.response_logprobs)):.3f}")
    if t.agent_error:
        parts.append(f"error {t.agent_error.get('kind')}")
    if t.terminated or t.truncated:
        parts.append(f"{'terminated' if t.terminated else 'truncated'}: {t.stop_reason}")
    return ", ".join(parts)


def _new_messages(before: Transition | None, t: Transition) -> Sequence[dict[str, Any]]:
    """What the state has beyond the last state and its reply; all of it if it was rewritten."""
    if before is None:
        return t.observation
    n = len(before.observation)
    if t.observation[:n] == before.observation and len(t.observation) > n:
        return t.observation[n + 1 :]
    return t.observation


def _title(e: Episode) -> str:
    outcome = "invalid" if not e.valid else ("solved" if e.success else "not solved")
    return (
        f"{e.episode_id}  task {e.task_id}  {outcome}, return {e.ret:g}, score {e.score:g}, "
        f"{len(e.transitions)} steps, ended by {e.stop_reason}"
    )


def _show(found: list[Episode], total: int, args: argparse.Namespace, tokenizer: Any) -> None:
    from rich.console import Console
    from rich.rule import Rule
    from rich.text import Text

    console = Console()
    for e in found:
        console.print(Rule(Text(_title(e), style="bold"), align="left"))
        if e.fault:
            console.print(Text(f"fault: {e.fault}", style="red"))
        before = None
        for t in e.transitions:
            shown = t.observation if args.full else _new_messages(before, t)
            for m in shown:
                console.print(Text.assemble((f"{m['role']}: ", "cyan"), str(m.get("content"))))
            if args.tokens and len(t.response_ids):
                line = Text.assemble((f"step {t.step} > ", "bold green"))
                for text, logprob in pieces(t, tokenizer):
                    line.append(text.replace("\n", "\\n"))
                    line.append("" if logprob is None else f"({logprob:.2f}) ", style="dim")
                console.print(line)
            else:
                console.print(Text.assemble((f"step {t.step} > ", "bold green"), t.action))
            console.print(Text(f"  [{facts(t)}]", style="dim"))
            before = t
        if e.transitions and e.transitions[-1].feedback:
            console.print(Text.assemble(("end: ", "cyan"), e.transitions[-1].feedback))
    console.print(f"{len(found)} of {total} episodes")


_STYLE = """
body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color:#222}
summary{cursor:pointer;padding:.3em 0}pre{white-space:pre-wrap;margin:.2em 0;background:#f6f6f6;
padding:.5em;border-radius:4px}.say{background:#eaf4ea}.facts{color:#666;font-size:12px}
.role{color:#069;font-weight:600}.solved{color:#080}.failed{color:#a40}.invalid{color:#a00}
.tok{border-radius:2px}details details{margin-left:1em}
"""


def render_html(
    found: Sequence[Episode], metadata: dict[str, str], tokenizer: Any, name: str
) -> str:
    """One page without scripts and without anything from elsewhere."""
    esc = html.escape
    out = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>{esc(name)}</title><style>{_STYLE}</style></head><body><h1>{esc(name)}</h1>",
        "<details><summary>run</summary>",
        f"<pre>{esc(json.dumps(metadata, indent=1))}</pre></details>",
    ]
    for e in found:
        kind = "invalid" if not e.valid else ("solved" if e.success else "failed")
        out.append(f"<details><summary class='{kind}'>{esc(_title(e))}</summary>")
        if e.fault:
            out.append(f"<pre class='invalid'>{esc(e.fault)}</pre>")
        before = None
        for t in e.transitions:
            for m in _new_messages(before, t):
                content = esc(str(m.get("content")))
                out.append(f"<div class='role'>{esc(str(m['role']))}</div><pre>{content}</pre>")
            out.append(f"<div class='role'>step {t.step}</div><pre class='say'>")
            out.append(_tokens_html(t, tokenizer) or esc(t.action))
            out.append(f"</pre><div class='facts'>{esc(facts(t))}</div>")
            whole = "\n".join(f"[{m['role']}]\n{m.get('content')}" for m in t.observation)
            out.append(
                f"<details><summary class='facts'>whole state</summary><pre>{esc(whole)}</pre>"
                "</details>"
            )
            before = t
        if e.transitions:
            out.append(f"<div class='role'>end</div><pre>{esc(e.transitions[-1].feedback)}</pre>")
        out.append("</details>")
    out.append("</body></html>")
    return "\n".join(out)


def _tokens_html(t: Transition, tokenizer: Any) -> str:
    """Tokens shaded by how unlikely they were; empty without a tokenizer or log-probabilities."""
    if tokenizer is None or len(t.response_logprobs) != len(t.response_ids):
        return ""
    spans = []
    for text, logprob in pieces(t, tokenizer):
        surprise = min(-(logprob or 0.0) / 5.0, 1.0)
        style = f"background:rgba(255,120,0,{surprise:.2f})"
        label = "" if logprob is None else f"{logprob:.3f}"
        spans.append(
            f"<span class='tok' style='{style}' title='{label}'>{html.escape(text)}</span>"
        )
    return "".join(spans)
