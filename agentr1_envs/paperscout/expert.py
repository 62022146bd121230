"""Scripted policies: one that knows the answers, and one that sees what a model sees."""

from __future__ import annotations

import re
from typing import Any

from agentr1_envs.paperscout.env import PaperScoutEnv
from agentr1_envs.paperscout.papers import Paper
from agentr1_envs.paperscout.selector import QUESTION_WORDS
from agentr1_envs.retrieval.analyzer import analyze
from agentr1_envs.tool_formats import ToolCall

_DONE = "The pool holds what I could find."
_PAPER = re.compile(r"^\[([^\]\s]+)\] (.*) \(score ([01]\.\d\d)\)$", re.MULTILINE)
_WORD = re.compile(r"[^\W_]+(?:[-'][^\W_]+)*")


def content_words(question: str) -> str:
    """The question without the words by which it asks."""
    kept = []
    for word in _WORD.findall(question):
        terms = analyze(word)
        if terms and not all(term in QUESTION_WORDS for term in terms):
            kept.append(word)
    return " ".join(kept)


class _Scripted:
    """What both policies share: the environment's tool format, and the calls made so far."""

    def __init__(self, env: Any) -> None:
        self._env: PaperScoutEnv = env.unwrapped

    def reset(self, obs: str, info: dict[str, Any]) -> None:
        """Start of an episode."""
        self._made: set[tuple[str, str]] = set()

    def _reply(self, thought: str, calls: list[tuple[str, str]]) -> str:
        if not calls:
            return _DONE
        self._made.update(calls)
        names = {"search": "query", "expand": "arxiv_id"}
        text = self._env.render_calls(
            [
                ToolCall(kind, {names[kind]: argument}, f"call_{number}")
                for number, (kind, argument) in enumerate(calls)
            ]
        )
        return f"{thought}\n{text}"


class Expert(_Scripted):
    """Knows the gold set and the library: picks the calls that add most of what is missing.

    It prefers calls that an agent could think of: the question, its parts, its words with the
    title words of papers in the pool, and expansions. Only what none of them reaches is searched by
    its title.
    """

    def act(self, obs: str, info: dict[str, Any]) -> str:
        """The next reply."""
        env = self._env
        task, pool = env.task, env.pool
        missing = {name for name in env.gold if name not in pool}
        leads = [entry.paper for entry in pool.best(expanded=False)]
        chosen: list[tuple[str, str]] = []
        room = env.max_calls
        while missing and len(chosen) < room:
            best, gain = None, 0.0
            for call in self._candidates(task, missing):
                if call in self._made or call in chosen:
                    continue
                value = self._value(call, missing, leads)
                if value > gain:
                    best, gain = call, value
            if best is None:
                break
            chosen.append(best)
            results = self._results(best)
            missing -= {paper.id for paper in results}
            leads += results
        if not chosen and missing:
            for name in sorted(missing)[:room]:
                paper = env.library.paper(name)
                if paper is not None and (call := ("search", paper.title)) not in self._made:
                    chosen.append(call)
        return self._reply("I look for papers that are still missing.", chosen)

    def _candidates(self, task: dict[str, Any], missing: set[str]) -> list[tuple[str, str]]:
        """Calls in the order of preference among equals."""
        words = content_words(task["question"])
        facts = task.get("facts") or {}
        queries = [task["question"], words]
        topic = facts.get("topic")
        if topic:
            parts = [
                str(facts[k]) for k in ("setting", "method", "dataset", "source") if k in facts
            ]
            queries += [topic, *parts, *(f"{part} {topic}" for part in parts)]
        open_papers = self._env.pool.best(expanded=False, count=20)
        queries += [f"{words} {content_words(entry.paper.title)}" for entry in open_papers[:5]]
        calls = [("search", query) for query in dict.fromkeys(q for q in queries if q)]
        return calls + [("expand", entry.paper.id) for entry in open_papers]

    def _results(self, call: tuple[str, str]) -> list[Paper]:
        kind, argument = call
        library, cutoff = self._env.library, self._env.cutoff
        if kind == "search":
            return list(library.search(argument, self._env.k, cutoff))
        return list(library.references(argument, self._env.max_references, cutoff))

    def _value(self, call: tuple[str, str], missing: set[str], leads: list[Paper]) -> float:
        """Missing answers that a call adds, and a part of those one expansion further.

        Args:
            leads: papers that can be expanded next without this call.
        """
        papers = self._results(call)
        found = {paper.id for paper in papers} & missing
        value = float(len(found))
        rest = missing - found
        if rest and call[0] == "search":
            value += 0.3 * max(0, self._ahead(papers, rest) - self._ahead(leads, rest))
        return value

    def _ahead(self, papers: list[Paper], missing: set[str]) -> int:
        """Most missing answers that one of the papers cites."""
        env = self._env
        cited = (
            env.library.references(paper.id, env.max_references, env.cutoff) for paper in papers
        )
        return max((sum(p.id in missing for p in row) for row in cited), default=0)


class Observer(_Scripted):
    """Reads only the observation: searches the question, then follows the best-scored papers."""

    def reset(self, obs: str, info: dict[str, Any]) -> None:
        """Start of an episode."""
        super().reset(obs, info)
        self._known = 0

    def act(self, obs: str, info: dict[str, Any]) -> str:
        """The next reply."""
        question = obs.partition("\n")[0].removeprefix("Query: ")
        words = content_words(question)
        open_part = obs.partition("\nExpanded papers")[0]
        open_papers = [(m[1], m[2], float(m[3])) for m in _PAPER.finditer(open_part)]
        good = [paper for paper in open_papers if paper[2] >= 0.5]
        calls: list[tuple[str, str]] = []
        if not self._made:
            calls = [("search", question), ("search", words)]
        else:
            # Without a paper that fits, the best leads are followed instead.
            leads = (good or open_papers)[:3]
            calls += [("expand", name) for name, _, _ in leads]
            calls += [("search", f"{words} {content_words(title)}") for _, title, _ in good[:2]]
        calls = [c for c in dict.fromkeys(calls) if c not in self._made][: self._env.max_calls]
        return self._reply("I search and follow the papers that fit.", calls)


class SelectorExpert:
    """Plays ``selector_0`` of the two-agent form: names exactly the papers of the gold set."""

    def __init__(self, env: Any) -> None:
        self._env: PaperScoutEnv = env.unwrapped

    def act(self, obs: str, info: dict[str, Any]) -> str:
        """The next reply."""
        shown = re.findall(r"^\[([^\]\s]+)\] ", obs, re.MULTILINE)
        named = [name for name in shown if name in self._env.gold]
        if not named:
            return "None of these meets the query."
        return self._env.render_calls([ToolCall("select", {"arxiv_ids": named})])
