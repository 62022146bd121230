"""`PaperScoutEnv`: find the papers that answer a scholarly query."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any, ClassVar

from agentr1_envs.arguments import mapping, share, whole
from agentr1_envs.errors import TaskDataError
from agentr1_envs.paperscout.libraries import SELECTORS, open_library, open_selector
from agentr1_envs.paperscout.library import MAX_REFERENCES, PaperLibrary
from agentr1_envs.paperscout.metrics import Scores, count_scores
from agentr1_envs.paperscout.official import to_task
from agentr1_envs.paperscout.papers import ABSTRACT_WORDS, base_id, parse_date
from agentr1_envs.paperscout.pool import CallRecord, Pool
from agentr1_envs.paperscout.reward import RewardRule
from agentr1_envs.task_env import StepOutcome, agent_error
from agentr1_envs.task_set import TaskSet, TaskSource
from agentr1_envs.tool_env import ToolEnv
from agentr1_envs.tool_formats import ToolCall
from agentr1_envs.tools import Tool, ToolError

MAX_QUERY_CHARS = 1000

_score = itemgetter(1)  # of a paper with its score

_PROMPT = """You search the scientific literature. For a query you build a pool of the papers that \
answer it, with two tools:
- search(query): the best {k} papers of an index for the words of your query.
- expand(arxiv_id): the papers that a paper of the pool cites, at most {references}.
You are shown the query, the papers of the pool with a relevance score from 0 to 1 and what was \
done so far. In each reply make one to {calls} calls. Search with different words, expand papers \
that look central, and do not repeat a query or expand a paper twice. There are {steps} steps; a \
reply without a call ends the search. A call looks like this:
{call}"""


class PaperScoutEnv(ToolEnv):
    """Scholarly search: find the papers that answer a query.

    Description:
        A query asks for papers ("Which studies use contrastive learning for retrieval of legal
        contracts?"). The agent builds a pool of papers by searching an index and by following
        citations. Some answers do not use the query's words: they are reached only by expanding a
        paper that cites them. Offline by default, over a generated literature of 10,000 papers;
        also over an index made by ``agentr1 prepare paperscout`` and over live services.

    Action:
        Text. Up to `max_calls` tool calls in the wire format `tool_format` names, run in order:
        ``search(query)`` finds the best `k` papers that are older than the query's date;
        ``expand(arxiv_id)`` finds at most `max_references` papers cited by a paper of the pool. A
        reply without a call ends the search.

    Observation:
        Rebuilt at each step, so that a context which keeps only the last one loses nothing: the
        query, the pool as two lists (not expanded, expanded; the best `shown` of each, with
        identifier, title, score and an abstract cut to `abstract_words`), the history of calls,
        and what was wrong with the last reply.

    Rewards:
        The sum over the calls of a step. A call is worth the relevances of the best `top` papers
        that it added to the pool, minus `search_cost` or `expand_cost`. Papers with a relevance
        below `keep` are not added; a call that adds nothing is worth 0. A repeated query, an
        identifier that is not in the pool, or one that was expanded before is worth `invalid`.
        With `discrete`, each of the best `top` papers counts 1 if its relevance is at least
        `discrete_threshold`, else nothing. Identifiers are compared without their version.

    Termination:
        Terminated by a reply without a call (stop_reason "answered"). Truncated by max_steps
        (default 5) or max_errors. `score` is the F1 of the selected papers (those in the pool with
        a relevance of at least `select_threshold`) against the gold set; `success` means a recall
        of at least `success_recall`.

    Arguments:
        library: "generated", a folder made by ``agentr1 prepare paperscout``, "arxiv" or
            "semantic_scholar" (the live services).
        library_options: Further arguments of the library, JSON values: ``size`` and ``seed`` of
            the generated one; ``cache_path``, ``offline``, ``timeout``, ``tries`` and others of
            the live ones.
        selector: What judges relevance: "gold", "lexical", "encoder" or "llm".
        selector_options: Further arguments of the selector, JSON values.
        top, keep, search_cost, expand_cost, invalid, discrete, discrete_threshold: The constants
            of the reward.
        k: Papers found by one search.
        max_references: Papers found by one expansion.
        select_threshold: Relevance from which a paper counts as selected.
        success_recall: Recall from which an episode is a success.
        shown: Papers of each list in the observation.
        abstract_words: Words of each abstract in the observation.
        max_calls: Most calls run from one reply.
        others: See `ToolEnv` and `TextTaskEnv`. `tasks` may be a query file as it is published
            (AutoScholarQuery, RealScholarQuery).

    Tasks:
        Rows with ``task_id``, ``question``, ``gold`` (identifiers) and ``cutoff`` (YYYYMMDD; only
        earlier papers are found). ``gold`` may be empty unless the selector is "gold"; the score
        is 0 then. The embedded panel has seven kinds of question; no topic and no domain is in two
        splits.

    References:
        PaperScout, for the task, the observation and the process reward; PaSa (He et al. 2025,
        "PaSa: An LLM Agent for Comprehensive Academic Paper Search"), for the query sets and the
        metrics.
    """

    default_max_steps: ClassVar[int] = 5
    max_observation_chars: ClassVar[int] = 131_072

    def __init__(
        self,
        *,
        library: str = "generated",
        library_options: Mapping[str, Any] | None = None,
        selector: str = "gold",
        selector_options: Mapping[str, Any] | None = None,
        top: int = 3,
        keep: float = 0.01,
        search_cost: float = 0.1,
        expand_cost: float = 0.05,
        invalid: float = -0.5,
        discrete: bool = False,
        discrete_threshold: float = 0.4,
        k: int = 10,
        max_references: int = MAX_REFERENCES,
        select_threshold: float = 0.5,
        success_recall: float = 0.8,
        shown: int = 10,
        abstract_words: int = ABSTRACT_WORDS,
        max_calls: int = 5,
        **kwargs: Any,
    ) -> None:
        self.k, self.max_references = whole("k", k), whole("max_references", max_references)
        self.shown = whole("shown", shown)
        self.abstract_words = whole("abstract_words", abstract_words, 0)
        self.select_threshold = share("select_threshold", select_threshold)
        self.success_recall = share("success_recall", success_recall)
        if selector not in SELECTORS:
            raise ValueError(f"selector: expected one of {', '.join(SELECTORS)}, got {selector!r}")
        self.reward_rule = RewardRule(
            top, keep, search_cost, expand_cost, invalid, discrete, discrete_threshold
        )
        self.library_name, self.selector_name = library, selector
        self._library_options = mapping("library_options", library_options)
        self._selector_options = mapping("selector_options", selector_options)
        self._library: PaperLibrary | None = None
        self._selector: Any = None
        self._notes: list[str] = []
        super().__init__(max_calls=max_calls, **kwargs)

    # --- parts that are shared by all environments of the process ---------------------------------

    @property
    def library(self) -> PaperLibrary:
        """The library that is searched; opened when first needed, shared in the process."""
        if self._library is None:
            self._library = open_library(self.library_name, self._library_options)
        return self._library

    @property
    def selector(self) -> Any:
        """The selector in use; shared in the process."""
        if self._selector is None:
            self._selector = open_selector(self.selector_name, self._selector_options, self.library)
        return self._selector

    def __getstate__(self) -> dict[str, Any]:
        # A copy in another process opens its own memory maps and connections.
        state = {**self.__dict__, "_library": None, "_selector": None}
        state.pop("_tools")
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._tools = {tool.name: tool for tool in self._make_tools()}

    # --- tasks -----------------------------------------------------------------------------------

    def _make_tasks(self, split: str) -> TaskSource:
        tasks = self.library.tasks(split)
        if tasks is None:
            splits = ("train", "validation", "test")
            have = " or ".join(f"split={s!r}" for s in splits if self.library.tasks(s) is not None)
            if have:
                raise ValueError(
                    f"library {self.library_name!r} has no tasks of the split {split!r}: use {have}"
                )
            raise ValueError(
                f"library {self.library_name!r} has no tasks of its own: name a query file with "
                "tasks=, or give one with reset(options={'task': row})"
            )
        return tasks

    def _load_tasks(self, tasks: Any, split: str) -> TaskSource:
        if isinstance(tasks, TaskSource):
            return tasks
        source = str(tasks)
        return TaskSet.from_file(
            tasks, split=split, convert=lambda row, number: to_task(row, number, source)
        )

    def _check_task(self, row: dict[str, Any]) -> None:
        source = f"task {row.get('task_id')!r}"
        question, gold, cutoff = row.get("question"), row.get("gold", []), row.get("cutoff")
        if not isinstance(question, str) or not question.strip():
            raise TaskDataError(source, "a non-empty str", field="question", value=question)
        if not isinstance(gold, list) or not all(isinstance(name, str) for name in gold):
            raise TaskDataError(source, "a list of identifiers", field="gold", value=gold)
        if not gold and self.selector_name == "gold":
            raise TaskDataError(
                source, "at least one identifier (or another selector)", field="gold", value=gold
            )
        if cutoff is not None and (not isinstance(cutoff, int) or parse_date(cutoff) is None):
            raise TaskDataError(source, "a number YYYYMMDD", field="cutoff", value=cutoff)
        wanted = row.get("library")
        if wanted is not None and wanted != self.library.hash:
            raise TaskDataError(
                source, f"the hash of this library, {self.library.hash}", field="library",
                value=wanted,
            )  # fmt: skip

    # --- the episode -----------------------------------------------------------------------------

    @property
    def system_prompt(self) -> str:
        return _PROMPT.format(
            k=self.k,
            references=self.max_references,
            calls=self.max_calls,
            steps=self.max_steps,
            call=self.render_calls([ToolCall("search", {"query": "graph neural networks"})]),
        )

    @property
    def task_text(self) -> str:
        return f"Query: {self._task['question']}" if self._task else ""

    @property
    def pool(self) -> Pool:
        """The papers kept so far and the calls that found them."""
        return self._pool

    @property
    def gold(self) -> frozenset[str]:
        """Identifiers of the right papers of this task. Not for the agent."""
        return self._gold

    @property
    def cutoff(self) -> int | None:
        """Only papers dated before this (YYYYMMDD) are found."""
        return self._cutoff

    def render_calls(self, calls: list[ToolCall]) -> str:
        """A reply with these calls in this environment's tool format."""
        return self._format.render(calls)

    def _start(self, task: dict[str, Any]) -> str:
        self._gold = frozenset(base_id(name) for name in task.get("gold", ()))
        self._cutoff: int | None = task.get("cutoff")
        self._question: str = task["question"]
        self._opening = f"Query: {self._question}"
        if (date := self._cutoff) is not None:
            day = f"{date // 10000:04d}-{date // 100 % 100:02d}-{date % 100:02d}"
            self._opening += f"\nOnly papers from before {day} are found."
        self._pool = Pool(self.shown, self.abstract_words)
        self._pending: list[CallRecord] = []
        self._counts = {"search": 0, "expand": 0, "repeats": 0}
        self._hits = self._selected = 0
        self._unseen_gold = set(self._gold)
        # What cannot be opened is a fault of reset, not of the first call that needs it.
        self.library, self.selector  # noqa: B018
        self._notes = []
        return self._pool.text(self.head())

    @property
    def question(self) -> str:
        """The query of this task."""
        return self._question

    @property
    def notes(self) -> list[str]:
        """What was wrong with the last reply."""
        return list(self._notes)

    def head(self) -> str:
        """The first lines of an observation: query, date, steps left."""
        return f"{self._opening}\nSteps left: {self.max_steps - self._step_index}"

    def _make_tools(self) -> list[Tool]:
        # Building a schema costs milliseconds; the functions are all that differs between objects.
        tools = [copy.copy(template) for template in _tool_templates(self.k)]
        for tool, function in zip(tools, (self._search, self._expand), strict=True):
            tool.function = function
        return tools

    def _search(self, query: str) -> str:
        record = self._begin("search", query)
        text = " ".join(query.split())
        if not text or len(text) > MAX_QUERY_CHARS:
            raise self._refuse(
                record,
                "arguments",
                f"search: query must have 1 to {MAX_QUERY_CHARS} characters, got {len(text)}.",
            )
        key = text.casefold()
        if key in self._pool.queries:
            self._counts["repeats"] += 1
            raise self._refuse(record, "repeated_query", "search: this query was made before.")
        papers = self.library.search(text, self.k, self._cutoff)
        self._pool.queries.add(key)
        return self._finish(record, papers)

    def _expand(self, arxiv_id: str) -> str:
        record = self._begin("expand", arxiv_id[:64])
        name = base_id(arxiv_id)
        if name not in self._pool:
            raise self._refuse(
                record, "unknown_paper", f"expand: {name[:64]!r} is not in the pool."
            )
        record.argument = name
        if self._pool.is_expanded(name):
            self._counts["repeats"] += 1
            raise self._refuse(record, "expanded_twice", f"expand: {name} was expanded before.")
        papers = self.library.references(name, self.max_references, self._cutoff)
        self._pool.mark_expanded(name)
        return self._finish(record, papers)

    def _begin(self, kind: str, argument: str) -> CallRecord:
        record = CallRecord(self._step_index, kind, argument)
        self._counts[kind] += 1
        self._pending.append(record)
        return record

    def _refuse(self, record: CallRecord, kind: str, message: str) -> ToolError:
        record.error, record.reward = message, self.reward_rule.invalid
        return ToolError(message, kind)

    def _finish(self, record: CallRecord, papers: Any) -> str:
        pool, rule = self._pool, self.reward_rule
        record.found = len(papers)
        fresh = pool.unknown(papers)
        if fresh:
            self._unseen_gold.difference_update(fresh)
            new = list(fresh.values())
            scores = self.selector.score(self._question, new, self._gold)
            kept = [pair for pair in zip(new, scores, strict=True) if pair[1] >= rule.keep]
            kept.sort(key=_score, reverse=True)
            record.new = kept
            pool.add(kept)
            for paper, score in kept:
                if score < self.select_threshold:
                    break
                self._selected += 1
                self._hits += paper.id in self._gold
        record.reward = rule.gain(record.kind, [score for _, score in record.new[: rule.top]])
        return f"{len(record.new)} new papers"

    def _on_calls(self, calls: list[dict[str, Any]], outcome: StepOutcome) -> None:
        for record in self._pending:
            self._pool.record(record)
            outcome.reward += record.reward
        self._pending = []
        notes = [call["error"] for call in calls if call["error"]]
        if outcome.agent_error is not None:
            message = outcome.agent_error["message"]
            if message not in notes:
                notes.append(message if message.startswith("Error") else f"Error: {message}")
        self._notes = notes
        outcome.observation = self._pool.text(self.head(), notes)

    def _too_long(self, message: str) -> StepOutcome:
        self._notes = [f"Error: {message}"]
        return StepOutcome(
            self._pool.text(self.head(), self._notes), agent_error=agent_error("too_long", message)
        )

    def _on_answer(self, text: str) -> StepOutcome:
        self._notes = []
        observation = self._pool.text(self.head(), ["The search has ended."])
        return StepOutcome(observation, terminated=True, stop_reason="answered")

    # --- results ---------------------------------------------------------------------------------

    def scores(self) -> Scores:
        """Precision, recall and F1 of the selected papers."""
        return count_scores(self._hits, self._selected, len(self._gold))

    def predictions(self) -> dict[str, float]:
        """The pool as a ranking: identifier to relevance, best first (for `eval-papers`)."""
        return {entry.paper.id: entry.score for entry in self._pool.ranked()}

    def draw(self, form: str = "text") -> str:
        """The search tree so far: ``"text"``, ``"svg"`` or ``"html"``."""
        from agentr1_envs.paperscout import search_tree

        scores, pool = self.scores(), self._pool
        total = sum(record.reward for record in pool.records)
        summary = f"(recall {scores.recall:.2f}, F1 {scores.f1:.2f}, return {total:+.2f})"
        root = search_tree.build(self._question, pool.records, self._gold, summary=summary)
        return search_tree.draw(root, form)

    def _final(self) -> tuple[bool, float]:
        scores = self.scores()
        return scores.recall >= self.success_recall, scores.f1

    def _anchor_state(self) -> str:
        return self._pool.state_key()

    def _metrics(self) -> dict[str, float]:
        scores, gold = self.scores(), len(self._gold)
        return {
            "recall": scores.recall,
            "precision": scores.precision,
            "f1": scores.f1,
            "crawler_recall": (gold - len(self._unseen_gold)) / gold if gold else 0.0,
            "calls": self._counts["search"] + self._counts["expand"],
            "searches": self._counts["search"],
            "expansions": self._counts["expand"],
            "repeats": self._counts["repeats"],
            "pool": len(self._pool),
        }

    def _info(self) -> dict[str, Any]:
        info = super()._info()
        info["selector"] = self.selector_name
        return info


@lru_cache(maxsize=64)
def _tool_templates(k: int) -> tuple[Tool, Tool]:
    def search(query: str) -> str:
        """Search the index.

        Args:
            query: What to look for, in words.
        """
        raise NotImplementedError

    def expand(arxiv_id: str) -> str:
        """Returns the papers that a paper of the pool cites.

        Args:
            arxiv_id: Identifier of a paper in the pool.
        """
        raise NotImplementedError

    found = f"Searches the index; returns the best {k} papers for a query."
    return Tool(search, description=found), Tool(expand)
