"""PaperScout for two agents: a crawler that searches and a selector that judges (PettingZoo).

``crawler_0`` calls ``search`` and ``expand`` as in the single-agent task. ``selector_0`` reads the
papers that the calls found and names those that meet the query with ``select(arxiv_ids)``. The two
take turns: calls, then judgement; a step without new papers needs no judgement. The division of
labour is PaSa's (He et al. 2025).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentr1_envs.arguments import number, whole
from agentr1_envs.multi_agent.aec import as_aec
from agentr1_envs.multi_agent.base import Info, TextParallelEnv
from agentr1_envs.paperscout.env import PaperScoutEnv
from agentr1_envs.paperscout.metrics import Scores, count_scores
from agentr1_envs.paperscout.papers import Paper, base_id
from agentr1_envs.paperscout.pool import Pool
from agentr1_envs.seeding import short_hash
from agentr1_envs.task_env import agent_error
from agentr1_envs.task_set import copy_json
from agentr1_envs.tool_formats import ToolCall, get_format
from agentr1_envs.tools import Tool, ToolError

CRAWLER, SELECTOR = "crawler_0", "selector_0"

_SELECTOR_PROMPT = """You judge papers for a scholarly query. You are shown papers that a search \
found. Name those that meet the query, all in one call, by their identifiers; a reply without a \
call selects none. A call looks like this:
{call}"""


def select(arxiv_ids: list[str]) -> str:
    """Names the papers that meet the query.

    Args:
        arxiv_ids: Identifiers of papers among the candidates.
    """
    return ", ".join(arxiv_ids)


class PaperScoutParallelEnv(TextParallelEnv):
    """Two agents answer a scholarly query; see the module's docstring.

    Rewards: the crawler's own is the process reward of `PaperScoutEnv`; the selector's own is
    ``hit`` for each right paper it names, ``false`` for each wrong one and ``miss`` for each right
    candidate it leaves out (a paper is right when the judge, `selector` of `PaperScoutEnv`, gives
    it at least `select_threshold`; with the judge "gold" that is the gold set). Shared by both is
    the change of the selection's F1, paid at each judgement, which sums to the final F1.

    Args:
        individual: weight of the agents' own rewards.
        shared: weight of the shared reward.
        hit, miss, false: the selector's own reward, see above.
        max_candidates: papers that the selector is shown in one turn; further ones are not
            selected.
        selector_words: words of each abstract that the selector is shown.
        render_mode: ``"ansi"`` or ``"human"``.
        **kwargs: see `PaperScoutEnv`.

    ``score`` is the F1 of the selection against the gold set, ``success`` its recall of at least
    ``success_recall``.
    """

    metadata = {**TextParallelEnv.metadata, "name": "paperscout_v0"}
    scripts = {
        CRAWLER: {
            "expert": "agentr1_envs.paperscout.expert:Expert",
            "observer": "agentr1_envs.paperscout.expert:Observer",
        },
        SELECTOR: {"expert": "agentr1_envs.paperscout.expert:SelectorExpert"},
    }

    def __init__(
        self,
        *,
        individual: float = 1.0,
        shared: float = 1.0,
        hit: float = 1.0,
        miss: float = -0.5,
        false: float = -0.5,
        max_candidates: int = 50,
        selector_words: int = 150,
        render_mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.individual = number("individual", individual, None)
        self.shared = number("shared", shared, None)
        self.hit, self.miss = number("hit", hit, None), number("miss", miss, None)
        self.false = number("false", false, None)
        self.max_candidates = whole("max_candidates", max_candidates)
        self.selector_words = whole("selector_words", selector_words, 0)
        self.env = PaperScoutEnv(**kwargs)
        self._format = get_format(self.env.tool_format)
        self._select = Tool(select)
        self._setup([CRAWLER, SELECTOR], render_mode)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_select"]  # its argument model is a class made at run time
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._select = Tool(select)

    def active_agents(self) -> list[str]:
        """The selector when there is something to judge, else the crawler."""
        return [SELECTOR] if self._candidates else [CRAWLER]

    def system_prompt(self, agent: str) -> str:
        """What a model that plays an agent must know."""
        if agent == CRAWLER:
            return self.env.system_prompt
        example = ToolCall("select", {"arxiv_ids": ["2101.00001", "2102.00002"]})
        return _SELECTOR_PROMPT.format(call=self._format.render([example]))

    def tools(self, agent: str) -> list[dict[str, Any]]:
        """`search` and `expand` for the crawler, `select` for the selector."""
        return self.env.tools if agent == CRAWLER else [self._select.schema]

    @property
    def selection(self) -> list[str]:
        """The papers selected so far, in the order of their selection."""
        return list(self._selected)

    # --- the episode -----------------------------------------------------------------------------

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> None:
        _, self._inner_info = self.env.reset(seed=seed, options=options)
        self._view = Pool(self.env.shown, self.env.abstract_words)
        self._candidates: list[tuple[Paper, float]] = []
        self._selected: dict[str, None] = {}
        self._error: dict[str, str] | None = None
        self._spoke = ""
        self._followed: list[str] = []
        self._over: tuple[bool, bool] = (False, False)

    def _advance(self, actions: dict[str, str]) -> tuple[dict[str, float], bool, bool]:
        self._error = None
        (self._spoke,) = actions
        if CRAWLER in actions:
            reward = self._crawl(actions[CRAWLER])
            rewards = {CRAWLER: self.individual * reward}
        else:
            rewards = self._judge(actions[SELECTOR])
        # The last papers found are still judged before the episode ends.
        if self._candidates:
            return rewards, False, False
        return rewards, *self._over

    def _crawl(self, reply: str) -> float:
        env = self.env
        before = len(env.pool.records)
        _, reward, terminated, truncated, self._inner_info = env.step(reply)
        self._error = self._inner_info.get("agent_error")
        self._over = terminated, truncated
        for record in env.pool.records[before:]:
            self._candidates += record.new
            if record.kind == "expand" and record.error is None:
                self._followed.append(record.argument)
            self._view.record(record)
        if not self._candidates:
            self._mark_followed()
        # By identifier: the order of the judge's figures would give them away.
        self._candidates.sort(key=lambda pair: pair[0].id)
        return reward

    def _judge(self, reply: str) -> dict[str, float]:
        before = self.scores().f1
        shown = self._candidates[: self.max_candidates]
        named = self._named(reply, {paper.id for paper, _ in shown})
        own = 0.0
        for paper, relevance in shown:
            right = relevance >= self.env.select_threshold
            if paper.id in named:
                self._selected[paper.id] = None
                own += self.hit if right else self.false
            elif right:
                own += self.miss
        self._view.add((paper, float(paper.id in named)) for paper, _ in self._candidates)
        self._candidates = []
        self._mark_followed()
        gain = self.shared * (self.scores().f1 - before)
        return {CRAWLER: gain, SELECTOR: self.individual * own + gain}

    def _mark_followed(self) -> None:
        # Only now: a paper can be found and expanded in one reply, before it is judged.
        for name in self._followed:
            self._view.mark_expanded(name)
        self._followed = []

    def _named(self, reply: str, candidates: set[str]) -> set[str]:
        """The candidates that a reply selects; what is wrong with it goes to `agent_error`."""
        parsed = self._format.parse(reply)
        if parsed.errors:
            fault = parsed.errors[0]
            self._error = agent_error(f"parse_{fault.reason}", fault.message)
        named: set[str] = set()
        for call in parsed.calls:
            if call.name != "select":
                message = f"there is no tool {call.name[:64]!r}; the tool is: select."
                self._error = agent_error("unknown_tool", message)
                continue
            try:
                ids = self._select.validate(call.arguments)["arxiv_ids"]
            except ToolError as error:
                self._error = agent_error(error.kind, error.message)
                continue
            found = {base_id(name) for name in ids}
            if found - candidates:
                message = f"select: {sorted(found - candidates)[0][:64]!r} is no candidate."
                self._error = agent_error("unknown_paper", message)
            named |= found & candidates
        return named

    # --- what agents see -------------------------------------------------------------------------

    def _observe(self, agent: str) -> str:
        if agent == CRAWLER:
            return self._view.text(self.env.head(), self.env.notes)
        question = f"Query: {self.env.question}"
        shown = self._candidates[: self.max_candidates]
        if not shown:
            return f"{question}\n\nNothing to judge."
        parts = [question, f"Candidates ({len(shown)}):"]
        for paper, _ in shown:
            abstract = paper.shortened(self.selector_words) if self.selector_words else ""
            parts.append(f"[{paper.id}] {paper.title}" + (f"\n{abstract}" if abstract else ""))
        return "\n\n".join(parts)

    def _info(self, agent: str) -> Info:
        inner: Mapping[str, Any] = self._inner_info
        scores = self.scores()
        metrics = {
            **inner["metrics"],
            "recall": scores.recall,
            "precision": scores.precision,
            "f1": scores.f1,
            "selected": len(self._selected),
        }
        state = f"{inner['anchor']}:{len(self._candidates)}:{','.join(sorted(self._selected))}"
        info: Info = {
            "task_id": inner["task_id"],
            "step": inner["step"],
            "anchor": short_hash(state),
            "selector": inner["selector"],
            "metrics": metrics,
        }
        if self._error is not None and agent == self._spoke:
            info["agent_error"] = self._error
        if any(self._over) and not self._candidates:
            info["success"] = scores.recall >= self.env.success_recall
            info["score"] = scores.f1
            info["stop_reason"] = inner.get("stop_reason")
        return copy_json(info)

    def scores(self) -> Scores:
        """Precision, recall and F1 of the selection."""
        gold = self.env.gold
        hits = sum(name in gold for name in self._selected)
        return count_scores(hits, len(self._selected), len(gold))

    def close(self) -> None:
        """Closes the task's environment."""
        self.env.close()


def parallel_env(**kwargs: Any) -> PaperScoutParallelEnv:
    """The parallel form; arguments of `PaperScoutParallelEnv`."""
    return PaperScoutParallelEnv(**kwargs)


def env(**kwargs: Any) -> Any:
    """The AEC form, with observations ``{"text": str}``; arguments of `PaperScoutParallelEnv`."""
    return as_aec(PaperScoutParallelEnv(**kwargs))


raw_env = PaperScoutParallelEnv
