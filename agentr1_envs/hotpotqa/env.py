"""``AgentR1/HotpotQA-v0``: multi-hop questions answered by searching a collection of passages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar

from agentr1_envs.arguments import flag, whole
from agentr1_envs.hotpotqa.scoring import AnswerScore, best_score
from agentr1_envs.hotpotqa.tasks import check_levels, check_task, embedded_tasks, is_embedded
from agentr1_envs.hotpotqa.tools import bound, lookup_tool, search_tool
from agentr1_envs.retrieval import Passage, QueryError
from agentr1_envs.tags import between
from agentr1_envs.task_env import StepOutcome, agent_error
from agentr1_envs.task_set import TaskSet, TaskSource
from agentr1_envs.tool_env import ToolEnv
from agentr1_envs.tool_formats import ToolCall
from agentr1_envs.tools import Tool, ToolError, cut_words

REWARD_MODES = ("em", "f1", "em_format")
MAX_QUERY_CHARS = 2000
_NOTHING = AnswerScore(False, 0.0, 0.0, 0.0)
_FORMAT_SHARE = 0.1
_PROMPTS = {
    "compact": (
        "Answer the question with the help of searches. To search, write {call} "
        "End with <answer>the answer in as few words as possible</answer>."
    ),
    "full": (
        "Answer the question by searching a collection of encyclopaedia passages. No single "
        "passage holds the answer: find one, read it, then search for what it names.\n"
        "{instructions}\n"
        "A call looks like this: {call}\n"
        "You may make up to {max_calls} calls in one reply and have {max_steps} replies in all, "
        "the answer included. When you know the answer, give it without a call and as short as "
        "possible (a name, a date, a number, yes or no), like this: <answer>Paris</answer>"
    ),
}


class HotpotQAEnv(ToolEnv):
    """Multi-hop questions answered by searching passages.

    Description:
        Each task is a question whose answer stands in no single passage: one must be found to know
        what to search for next (bridge), or two things must be compared (comparison). The agent
        searches with tools and gives a short answer. Without files the environment plays on an
        embedded, generated encyclopaedia of about 6,000 articles on things that do not exist, so
        that nothing can be answered from memory. Official HotpotQA, MuSiQue and 2WikiMultihopQA
        files are prepared with ``agentr1 prepare hotpotqa``, or given as `tasks` as they are.

    Action:
        Text. Tool calls in the wire format `tool_format` names, up to `max_calls` in one reply, run
        in order: ``search(query)`` gives the `top_k` best passages, ``lookup(title)`` (with
        `lookup`) the passage of exactly this title. A reply without calls must hold
        ``<answer>..</answer>``; the last one counts. An answer beside calls is not taken, as it was
        given before their results were seen; the observation says so. A reply with neither is an
        agent error.

    Observation:
        First ``Question: ..``. Then the passages, numbered, each with its title on one line and its
        text on the next, cut to `max_passage_chars` at a word border with the mark ``[cut]``; or
        what was wrong.

    Rewards:
        Paid once, for the answer, by HotpotQA's official normalisation against the answer and its
        aliases; searching earns nothing. ``reward_mode="em"``: 1 for an exact match, else 0.
        ``"f1"``: the F1 of the words, in [0, 1]. ``"em_format"``: 0.9 for an exact match, and 0.1
        if no reply of the episode was malformed and the last one holds exactly one answer, right
        or not, so that the format can be learned first. An answer never counts for merely
        containing the right words.

    Termination:
        Terminated by an answer (stop_reason "answer"). Truncated by max_steps (default 5) or
        max_errors, without a reward. `success` is the exact match and `score` the F1, whatever the
        reward mode.

    Arguments:
        corpus: What is searched: a corpus file (JSONL; its index is built beside it when it is not
            there yet), the folder of an index, the address of a retrieval server (``http://..``),
            or any object with ``search(query, k)``. None: the embedded articles, or the paragraphs
            of an official file given as `tasks`.
        retriever: "bm25", "dense" or "hybrid", for a corpus file.
        encoder: The sentence encoder of the last two, a path or a name.
        top_k: Passages that a search returns.
        max_passage_chars: Longest text of a passage that is shown.
        lookup: Offer the tool ``lookup``.
        require_search: Refuse an answer before the first search, as the original recipe does.
        reward_mode: "em", "f1" or "em_format".
        levels: Levels of generated tasks: one or several of "easy", "medium" and "hard" (see
            Tasks); None takes all.
        system_prompt: "compact" (one line with an example call), "full" (with the tools' schemas
            and all rules) or the text itself.
        tool_format, max_calls: see `ToolEnv`.
        split, tasks, order, shard, max_steps, render_mode, error_penalty, max_errors: see
            `TextTaskEnv`. `tasks` is a file of tasks (prepared Parquet rows, JSONL) or an official
            file.

    Tasks:
        ``question``, ``answer``; optional ``aliases`` (other right answers), ``type`` ("bridge" or
        "comparison"), ``level`` and ``supporting_facts`` (a list of ``title``, ``sentence``,
        ``text``). Generated: 4,000 for training, 1,000 each for validation and test; no entity
        occurs in two splits; 65 % bridge questions of two or three hops, 35 % comparisons; 20 % of
        all are yes/no, balanced within each wording. Level "easy" needs two facts, "medium" a
        comparison or a search without a title, "hard" three articles or more. The metrics are
        ``searches``, ``repeated_searches`` (the same words again), ``support_recall`` (share of the
        supporting facts that were shown), ``support_precision`` (share of the distinct passages
        shown that hold one) and, after the answer, ``em`` and ``f1``.

    References:
        Yang et al., HotpotQA: A Dataset for Diverse, Explainable Multi-hop Question Answering,
            arXiv:1809.09600.
        Trivedi et al., MuSiQue: Multihop Questions via Single-hop Question Composition,
            arXiv:2108.00573.
        Ho et al., Constructing A Multi-hop QA Dataset for Comprehensive Evaluation of Reasoning
            Steps, arXiv:2011.01060 (2WikiMultihopQA).
        Agent-R1, arXiv:2511.14460 (the limits of the default setting).
    """

    default_max_steps: ClassVar[int] = 5

    def __init__(
        self,
        *,
        corpus: Any = None,
        retriever: str = "bm25",
        encoder: str | None = None,
        top_k: int = 5,
        max_passage_chars: int = 1200,
        lookup: bool = False,
        require_search: bool = False,
        reward_mode: str = "em",
        levels: str | Sequence[str] | None = None,
        system_prompt: str = "compact",
        **kwargs: Any,
    ) -> None:
        if reward_mode not in REWARD_MODES:
            raise ValueError(f"reward_mode must be one of {REWARD_MODES}, got {reward_mode!r}")
        if not isinstance(system_prompt, str):
            raise ValueError(f"system_prompt must be a text, got {system_prompt!r}")
        self.levels = check_levels(levels)
        self.reward_mode, self.require_search = reward_mode, flag("require_search", require_search)
        self.top_k, self.lookup = whole("top_k", top_k), flag("lookup", lookup)
        self.max_passage_chars = whole("max_passage_chars", max_passage_chars, 20)
        self._corpus = os.fspath(corpus) if isinstance(corpus, os.PathLike) else corpus
        self._retriever_name, self._encoder = retriever, encoder
        self._retriever: Any = None
        self._own_paragraphs: list[dict[str, Any]] | None = None
        super().__init__(**kwargs)
        from agentr1_envs.hotpotqa.corpus import check_arguments

        check_arguments(self._corpus, retriever, encoder)
        self._system_prompt = self._write_prompt(system_prompt)

    # --- tasks and passages ----------------------------------------------------------------------

    def _make_tasks(self, split: str) -> TaskSource:
        return embedded_tasks(split, self.levels)

    def _load_tasks(self, tasks: Any, split: str) -> TaskSource:
        if not isinstance(tasks, (str, os.PathLike)):
            return super()._load_tasks(tasks, split)
        from agentr1_envs.hotpotqa import official

        if not official.is_official(tasks):
            return super()._load_tasks(tasks, split)
        dataset = official.read(tasks)
        self._own_paragraphs = dataset.paragraphs
        return TaskSet(dataset.tasks, split=split, name=str(tasks))

    def _check_task(self, row: dict[str, Any]) -> None:
        check_task(row)

    @property
    def retriever(self) -> Any:
        """What is searched; opened or built when first needed."""
        if self._retriever is None:
            from agentr1_envs.hotpotqa import corpus

            if self._corpus is not None:
                self._retriever = corpus.open_corpus(
                    self._corpus, self._retriever_name, self._encoder
                )
            elif self._own_paragraphs is not None:
                self._retriever = corpus.in_memory(self._own_paragraphs)
            else:
                self._retriever = corpus.embedded()
        return self._retriever

    @property
    def blocking(self) -> bool:
        """Whether a search waits for a server or an encoder."""
        served = isinstance(self._corpus, str) and self._corpus.startswith(("http://", "https://"))
        return served or self._retriever_name != "bm25"

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if self._retriever is not self._corpus:
            state["_retriever"] = None  # opened again from its source where it is unpickled
        return state

    # --- the episode -----------------------------------------------------------------------------

    def _start(self, task: dict[str, Any]) -> str:
        if self._corpus is None and self._own_paragraphs is None and not is_embedded(task):
            raise ValueError(
                f"task {task['task_id']!r} is not of the embedded world: say what it is to be "
                "searched in with corpus=.. (the corpus file that `agentr1 prepare hotpotqa` wrote)"
            )
        self.retriever  # noqa: B018  opened before the first step, so that no step is slow
        self._question = task["question"]
        self._golds = [task["answer"], *task.get("aliases", ())]
        facts = task.get("supporting_facts") or ()
        self._missing: dict[str, list[str]] = {}
        for fact in facts:
            self._missing.setdefault(fact["title"], []).append(fact.get("text", "").strip())
        self._facts_total, self._facts_seen = len(facts), 0
        self._seen: set[str] = set()
        self._seen_supporting = 0
        self._queries: set[str] = set()
        self._searches = self._repeated = 0
        self._result, self._format_ok = _NOTHING, True
        self._answer: str | None = None
        return f"Question: {self._question}"

    def _act(self, action: str) -> StepOutcome:
        outcome = super()._act(action)
        if outcome.agent_error is not None:
            self._format_ok = False
        if outcome.tool_calls and "</answer>" in action.rpartition("</think>")[2]:
            outcome.observation += (
                "\nNote: the answer in the same reply was not taken. Read the results first."
            )
        return outcome

    def _on_answer(self, text: str) -> StepOutcome:
        answers = between(text, "answer")
        if not answers:
            what = (
                "<answer> is not closed by </answer>"
                if "<answer>" in text
                else "neither a tool call nor <answer>..</answer> was found"
            )
            message = f"Error: {what}. Search, or give the answer as <answer>..</answer>."
            return StepOutcome(message, agent_error=agent_error("no_answer", message))
        if self.require_search and not self._searches:
            message = "Error: search at least once before you answer."
            return StepOutcome(message, agent_error=agent_error("no_search", message))
        answer = self._answer = answers[-1].strip()
        self._result = best_score(answer, self._golds)
        if self.reward_mode == "em":
            reward = float(self._result.em)
        elif self.reward_mode == "f1":
            reward = self._result.f1
        else:
            well_formed = self._format_ok and len(answers) == 1 and bool(answer)
            reward = (1 - _FORMAT_SHARE) * self._result.em + _FORMAT_SHARE * well_formed
        return StepOutcome("Answer received.", reward, True, "answer")

    def _final(self) -> tuple[bool, float]:
        # An exact match of answers that normalise to nothing has F1 0 by the official definition.
        return self._result.em, max(self._result.f1, float(self._result.em))

    def _anchor_state(self) -> str:
        # What decides what the agent can know and earn: the passages seen and the answer given.
        return "\x1f".join((*sorted(self._seen), f"\x1e{self._answer}"))

    def _metrics(self) -> dict[str, float]:
        metrics: dict[str, float] = {
            "searches": self._searches,
            "repeated_searches": self._repeated,
        }
        if self._facts_total:
            metrics["support_recall"] = self._facts_seen / self._facts_total
            shown = len(self._seen)
            metrics["support_precision"] = self._seen_supporting / shown if shown else 0.0
        if self._answer is not None:
            metrics["em"], metrics["f1"] = float(self._result.em), self._result.f1
        return metrics

    # --- tools -----------------------------------------------------------------------------------

    def _make_tools(self) -> list[Tool]:
        room = self.top_k * (self.max_passage_chars + 400)
        tools = [bound(search_tool(), self._search, room)]
        if self.lookup:
            tools.append(bound(lookup_tool(), self._lookup, room))
        return tools

    def _search(self, query: str) -> str:
        words = " ".join(query.lower().split())
        if not words:
            raise ToolError("the query is empty.", "empty_query")
        if len(query) > MAX_QUERY_CHARS:
            raise ToolError(
                f"the query has {len(query)} characters; at most {MAX_QUERY_CHARS} are allowed.",
                "query_too_long",
            )
        self._searches += 1
        if words in self._queries:
            self._repeated += 1
        self._queries.add(words)
        try:
            found = self.retriever.search(query, self.top_k)
        except QueryError as error:
            raise ToolError(f"{error}.", "bad_query") from None
        if not found:
            return "No passage matches this query. Try other words."
        return self._show(found)

    def _lookup(self, title: str) -> str:
        from agentr1_envs.hotpotqa.corpus import find_title

        passage, similar = find_title(self.retriever, title)
        if passage is not None:
            return self._show([passage])
        hint = "; ".join(similar) or "none"
        raise ToolError(f"there is no passage titled {title[:200]!r}. Similar: {hint}", "no_title")

    def _show(self, found: Sequence[Passage]) -> str:
        lines: list[str] = []
        for number, passage in enumerate(found, 1):
            name, title, text, _ = passage
            if len(text) > self.max_passage_chars:
                text = cut_words(text, self.max_passage_chars)
            new = name not in self._seen
            if new:
                self._seen.add(name)
            if title in self._missing:
                self._note_support(passage, text, new)
            if "\n" in text:
                text = " ".join(text.split())
            lines.append(f"{number}. {title}\n{text}")
        return "\n".join(lines)

    def _note_support(self, passage: Passage, shown: str, new: bool) -> None:
        title = passage.title
        missing = self._missing[title]
        # Titles may repeat in a corpus: a passage supports when it holds one of the sentences. A
        # fact that is a whole paragraph (MuSiQue) counts also where its end was cut.
        left = [fact for fact in missing if fact not in shown and fact != passage.text]
        self._facts_seen += len(missing) - len(left)
        if new and len(left) < len(missing):
            self._seen_supporting += 1
        self._missing[title] = left

    # --- texts for models ------------------------------------------------------------------------

    def _write_prompt(self, choice: str) -> str:
        prompt = _PROMPTS.get(choice)
        if prompt is None:
            return choice
        return prompt.format(
            call=self._format.render([ToolCall("search", {"query": "Ada Lovelace"})]),
            instructions=self._format.instructions(self.tools) if choice == "full" else "",
            max_calls=self.max_calls,
            max_steps=self.max_steps,
        )

    @property
    def system_prompt(self) -> str:
        """How to search and how to answer."""
        return self._system_prompt

    @property
    def task_text(self) -> str:
        """The question."""
        return f"Question: {self.task['question']}"
