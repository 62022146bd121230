"""Scripted policies.

`Expert` knows the supporting facts, `Observer` sees only what a player sees, `Guesser` reads the
question alone: what it scores is what a policy can score without searching.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import Any

from agentr1_envs.hotpotqa import grammar, solver
from agentr1_envs.tool_formats import ToolCall, get_format

CUT_MARK = " [cut]"
_PASSAGE = re.compile(r"^\d+\. (.+)\n(.*)$", re.MULTILINE)


def read_passages(observation: str) -> list[tuple[str, str]]:
    """The (title, text) pairs of an observation of the environment."""
    # Several calls in one reply are numbered, "[1] ", before their results.
    plain = re.sub(r"^\[\d+\] ", "", observation, flags=re.MULTILINE)
    return [(match[1], match[2]) for match in _PASSAGE.finditer(plain)]


def _said(obs: Any, info: dict[str, Any]) -> str:
    """What the environment said, also through a wrapper that builds chat messages."""
    return obs if isinstance(obs, str) else str(info["feedback"])


def _shows(said: str, fact: str) -> bool:
    """Whether a passage as it was shown holds a fact, or begins the paragraph that is the fact."""
    fact = " ".join(fact.split())
    head = said.removesuffix(CUT_MARK)
    return fact in " ".join(said.split()) or (head != said and fact.startswith(head.rstrip()))


def _plain_title(title: str) -> str:
    return re.sub(r"[()]", "", title)


class _Policy:
    """What both policies share: the form of their replies."""

    def __init__(self, env: Any) -> None:
        self._env = env.unwrapped
        self._format = get_format(self._env.tool_format)

    def _search(self, queries: list[str]) -> str:
        """A reply with as many of the searches as it can carry; they are taken off the list."""
        size = min(len(queries), self._env.max_calls)
        try:
            text = self._render(queries[:size])
        except ValueError:  # the format carries one call a reply
            size = 1
            text = self._render(queries[:size])
        del queries[:size]
        return text

    def _render(self, queries: list[str]) -> str:
        calls = [
            ToolCall("search", {"query": query}, f"call_{i}") for i, query in enumerate(queries)
        ]
        return f"I need to read about {' and '.join(queries)}.\n{self._format.render(calls)}"

    @staticmethod
    def _answer(text: str) -> str:
        return f"<answer>{text}</answer>"

    def _steps_left(self, info: dict[str, Any]) -> int:
        return self._env.max_steps - info["step"]


class Expert(_Policy):
    """Searches for each supporting article in turn, then gives the right answer.

    It sees the task's row. Where the row names no supporting facts, it searches the question.
    """

    def reset(self, obs: Any, info: dict[str, Any]) -> None:
        """Begin an episode."""
        task = self._env.task
        self._gold: str = task["answer"]
        facts = task.get("supporting_facts") or ()
        self._facts = [(fact["title"], fact.get("text", "")) for fact in facts]
        self._titles = list(dict.fromkeys(title for title, _ in self._facts))
        self._queries = [_plain_title(title) for title in self._titles] or [task["question"]]
        self._retried = not self._facts

    def act(self, obs: Any, info: dict[str, Any]) -> str:
        """The reply to an observation."""
        if info["step"]:
            self._read(_said(obs, info))
        if not self._queries and not self._retried:
            # What the title did not find is searched once more, with words of the fact itself.
            self._queries = [f"{_plain_title(t)} {text}"[:300] for t, text in self._facts]
            self._retried = True
        left = self._steps_left(info)
        if not self._queries or left <= 1:
            return self._answer(self._gold)
        # As few a reply as the steps allow: a search usually needs the one before it.
        size = -(-len(self._queries) // (left - 1))
        now = self._queries[:size]
        reply = self._search(now)
        self._queries = now + self._queries[size:]  # those the reply could not carry wait
        return reply

    def _read(self, observation: str) -> None:
        """Cross off the facts that an observation shows, and searches that they were wanted for."""
        shown = read_passages(observation)
        self._facts = [
            (title, text)
            for title, text in self._facts
            if not any(title == name and _shows(said, text) for name, said in shown)
        ]
        found = {_plain_title(title) for title in self._titles} - {
            _plain_title(title) for title, _ in self._facts
        }
        self._queries = [query for query in self._queries if query not in found]


class Observer(_Policy):
    """Reads the question and the passages, nothing else.

    It understands the embedded world's language. On other questions it searches the question and
    the names in it and answers with the name that the passages repeat most: a weak baseline.
    """

    def reset(self, obs: Any, info: dict[str, Any]) -> None:
        """Begin an episode."""
        self._question = _said(obs, info).removeprefix("Question: ").strip()
        self._library = solver.Library()
        parsed = grammar.parse(self._question)
        self._plan = solver.answer(parsed, self._library) if parsed else self._guess()
        self._waiting: list[str] = []

    def act(self, obs: Any, info: dict[str, Any]) -> str:
        """The reply to an observation."""
        for title, text in read_passages(_said(obs, info)) if info["step"] else ():
            self._library.add(title, text)
        try:
            # The plan goes on when all it asked for was searched.
            queries = self._waiting or list(dict.fromkeys(next(self._plan)))
        except StopIteration as end:
            return self._answer(end.value)
        except solver.Unanswerable:
            return self._answer("unknown")
        if self._steps_left(info) <= 1:
            return self._answer("unknown")
        self._waiting = queries
        return self._search(queries)

    def _guess(self) -> solver.Plan[str]:
        """Two rounds of searching for names, then the most frequent name not in the question."""
        yield [self._question]
        asked = set(re.findall(r"[A-Z]\w+(?: [A-Z]\w+)*", self._question))
        names = [title for title in self._library.articles if title not in asked]
        if names:
            yield names[:2]
        counts: dict[str, int] = {}
        for title, text in self._library.articles.items():
            for name in {title, *re.findall(r"[A-Z]\w+(?: [A-Z]\w+)*", text)}:
                if name not in self._question:
                    counts[name] = counts.get(name, 0) + 1
        if re.match(r"(?:Are|Is|Was|Were|Do|Does|Did|Has|Have) ", self._question):
            return "yes"
        return max(counts, key=lambda name: (counts[name], name), default="unknown")


class Guesser(_Policy):
    """Answers at once with the training split's most frequent answer to questions of that form."""

    def reset(self, obs: Any, info: dict[str, Any]) -> None:
        """Begin an episode."""
        self._question = _said(obs, info).removeprefix("Question: ").strip()

    def act(self, obs: Any, info: dict[str, Any]) -> str:
        """The reply to an observation."""
        return self._answer(_common_answers().get(_form(self._question), "yes"))


def _form(question: str) -> tuple[str, str]:
    parsed = grammar.parse(question)
    return (parsed.form, parsed.relation) if parsed else ("", "")


@lru_cache(maxsize=1)
def _common_answers() -> dict[tuple[str, str], str]:
    from agentr1_envs.hotpotqa.generator import questions

    counts: dict[tuple[str, str], Counter[str]] = {}
    for task in questions("train"):
        counts.setdefault(_form(task["question"]), Counter())[task["answer"]] += 1
    return {form: answers.most_common(1)[0][0] for form, answers in counts.items()}
