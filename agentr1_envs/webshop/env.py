"""`WebShopEnv`: shopping in a text shop."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from agentr1_envs.arguments import flag, whole
from agentr1_envs.command_reply import BadReply, CommandReader
from agentr1_envs.errors import TaskDataError, shorten
from agentr1_envs.seeding import derive_int
from agentr1_envs.task_env import StepOutcome, TextTaskEnv, agent_error
from agentr1_envs.task_set import TaskSource
from agentr1_envs.webshop import pages
from agentr1_envs.webshop.catalog import GOAL_KINDS, Catalog, open_catalog, read_meta
from agentr1_envs.webshop.goals import SPLITS, GoalSet, split_range
from agentr1_envs.webshop.reward import Purchase, Target, score_purchase
from agentr1_envs.webshop.session import ShopSession

REWARD_MODES = ("score", "success10", "sparse")

SYSTEM_PROMPT = """\
You are shopping in a web shop. Find a product that fits the instruction, choose the options it \
asks for, and buy it. Each turn you give one command:
search[keywords]: search the shop; works where there is a Search button.
click[text]: click a button, a product's code or an option; the text is what stands on the page.
An instruction may ask for a kind of product, attributes, options and a highest price. The visit \
ends when you click Buy Now; buy only after every option is chosen."""

_FIELDS: dict[str, tuple[type, ...]] = {
    "asin": (str,),
    "instruction_text": (str,),
    "attributes": (list,),
    "price_upper": (int, float),
    "goal_options": (list, dict),
}


class GoalTasks:
    """The goals of one split as a task panel; ``task_id`` is ``kind/position``."""

    def __init__(self, goals: GoalSet, split: str, catalog: Catalog) -> None:
        self.split, self._goals, self._catalog = split, goals, catalog
        self._positions = split_range(split, len(goals))
        if not self._positions:
            first, last = SPLITS[split]
            place = f"positions {first} to {last - 1}" if last else f"positions from {first}"
            raise TaskDataError(
                str(catalog.path),
                f"{goals.kind} goals for split {split!r} ({place} of all goals); another split, "
                f"other goals={GOAL_KINDS} or a larger catalog has some",
                field=f"goals.{goals.kind}",
                value=len(goals),
            )

    @property
    def hash(self) -> str:
        """SHA-256 over the catalog's key, the kind and the split."""
        text = f"webshop/{self._catalog.hash}/{self._goals.kind}/{self.split}"
        return hashlib.sha256(text.encode()).hexdigest()

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: int) -> dict[str, Any]:
        position = self._positions[index]
        return {"task_id": f"{self._goals.kind}/{position}", **self._goals[position]}

    def index(self, task_id: str) -> int:
        """The position of a task in the panel; `KeyError` when it is not there."""
        kind, _, digits = str(task_id).rpartition("/")
        if kind != self._goals.kind or not (digits.isascii() and digits.isdigit()):
            raise KeyError(task_id)
        if digits != str(int(digits)) or int(digits) not in self._positions:
            raise KeyError(task_id)
        return int(digits) - self._positions.start

    def weights(self) -> np.ndarray:
        """Sampling weights of the goals, float64 [len(self)]."""
        return self._goals.weights(self._positions)

    def __repr__(self) -> str:
        return f"GoalTasks({len(self)} {self._goals.kind} goals, split={self.split!r})"


class WebShopEnv(TextTaskEnv):
    """Find and buy the product that an instruction describes.

    Description:
        A shop of thousands to a million products with a search engine (BM25, 50 hits, 10 a page),
        item pages with options (colour, size, ..) and sub-pages. An instruction asks for a kind of
        product, attributes, options and a highest price; one purchase ends the visit. Without a
        `catalog` the shop is generated. Scores in generated shops are not WebShop scores.

    Action:
        Text: ``search[keywords]`` where there is a search bar, or ``click[text]`` with a text that
        stands on the page: ``back to search``, ``next >``, ``< prev``, a product's code (ASIN) or
        number, an option's value, ``description``, ``features``, ``reviews``, ``buy now``. Letter
        case does not matter; what follows the last bracket is ignored. Anything else changes
        nothing and is an agent error (``bad_format``, ``no_search_bar``, ``empty_search``,
        ``not_clickable``).
        With ``action_format="think_action"`` the command stands in
        ``<think>..</think><action>COMMAND</action>``, with ``"tool"`` in a call of the tool
        ``env_step(command)`` in `tool_format`; only the first call of a reply is carried out.

    Observation:
        The page. ``text_rich`` (default): a node a line, ``[button] X [button_]``, chosen options
        and visited products as ``[clicked button]``. ``text``: visible texts joined by
        `` [SEP] ``, no sign of what is chosen. ``compact``: buttons in brackets on shared lines,
        plain texts shortened to keep the page within `observation_chars`; the text of an action is
        never cut. With ``result_labels="number"`` the results of a page are 1 to 10 in place of
        their ASINs.

    Rewards:
        0 until the purchase. Then, by `reward_mode`, ``score``: the score in [0, 1];
        ``success10``: 10 if the score is 1, else 0; ``sparse``: 1 if the score is 1, else 0. The
        score is (attribute hits + option hits + [price <= cap]) / (attributes + options + 1),
        times a type factor; ``info["metrics"]`` has its parts after the purchase. `error_penalty`
        is taken off at each agent error.

    Termination:
        Terminated by the purchase (stop reason ``bought``); truncated after `max_steps` (15) steps.
        Success is a score of 1. Without a purchase the score is 0.

    Arguments:
        catalog: Folder made by ``agentr1 prepare webshop``. None: the generated catalog of 1,000
            products, made at first use.
        goals: ``"human"`` or ``"synthetic"``.
        observation, observation_chars, result_labels: see Observation.
        reward_mode: see Rewards.
        action_format, tool_format: see Action.
        compat: ``"princeton"`` follows the published environment where it differs (see
            docs/webshop.md).
        show_attributes: Item pages offer the sub-page Attributes.
        magic_queries: Whether ``<r>``, ``<a>``, ``<c>``, ``<q>`` searches list products. None:
            only with `compat`.
        weighted: Draw goals by their weight (rare attributes more often) instead of uniformly.
        split, tasks, order, shard, max_steps, render_mode, error_penalty, max_errors: see
            `TextTaskEnv`.

    Tasks:
        Goals are drawn once, when the catalog is made. By position: 0-499 test, 500-1499
        validation, the rest train; ``task_id`` is ``human/17`` or ``synthetic/17``. A row of a
        tasks file has task_id, asin, instruction_text, attributes, goal_options and price_upper.

    References:
        Yao et al., WebShop: Towards Scalable Real-World Web Interaction with Grounded Language
        Agents, NeurIPS 2022, arXiv:2207.01206.
    """

    default_max_steps = 15

    def __init__(
        self,
        *,
        catalog: str | os.PathLike[str] | None = None,
        goals: str = "human",
        observation: str = "text_rich",
        observation_chars: int = pages.DEFAULT_COMPACT_CHARS,
        result_labels: str = "asin",
        reward_mode: str = "score",
        action_format: str = "command",
        tool_format: str = "hermes",
        compat: str | None = None,
        show_attributes: bool = False,
        magic_queries: bool | None = None,
        weighted: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _one_of("goals", goals, GOAL_KINDS)
        _one_of("observation", observation, pages.MODES)
        _one_of("reward_mode", reward_mode, REWARD_MODES)
        _one_of("compat", compat, (None, "princeton"))
        _one_of("result_labels", result_labels, ("asin", "number"))
        if compat is not None and result_labels != "asin":
            raise ValueError(f"compat={compat!r} has result_labels='asin', got {result_labels!r}")
        if flag("weighted", weighted) and self.order != "random":
            raise ValueError("weighted=True needs order='random'")
        self.goals, self.observation, self.reward_mode = goals, observation, reward_mode
        self.observation_chars, self.compat = whole("observation_chars", observation_chars), compat
        self.show_attributes = flag("show_attributes", show_attributes)
        self.magic_queries = None if magic_queries is None else flag("magic_queries", magic_queries)
        self.weighted, self.result_labels = weighted, result_labels
        self.action_format, self.tool_format = action_format, tool_format
        self._reader = CommandReader(
            action_format,
            tool_format,
            purpose="Search the shop or click something on the page.",
            example="search[red shoes]",
        )
        self._cumulative: np.ndarray | None = None
        self._catalog_path = catalog
        if catalog is not None:
            read_meta(_folder(catalog))  # a wrong path is told now, not at the first reset
        self._catalog: Catalog | None = None
        self.session: ShopSession | None = None
        self._score: float | None = None
        self._detail: dict[str, Any] = {}

    # --- tasks -----------------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        """The shop's catalog; shared by all environments of the process."""
        if self._catalog is None:
            if self._catalog_path is not None:
                self._catalog = open_catalog(self._catalog_path)
            else:
                from agentr1_envs.webshop.embedded import embedded_catalog

                self._catalog = embedded_catalog()
        return self._catalog

    def _make_tasks(self, split: str) -> TaskSource:
        return GoalTasks(self.catalog.goals(self.goals), split, self.catalog)

    def _next_index(self) -> int:
        if not self.weighted:
            return super()._next_index()
        if self._cumulative is None:
            tasks = self.tasks
            if not isinstance(tasks, GoalTasks):
                raise ValueError("weighted=True needs the catalog's own goals, not a tasks file")
            offset, stride = self.shard or (0, 1)
            self._cumulative = np.cumsum(tasks.weights()[offset::stride])
        draw = self.np_random.random() * self._cumulative[-1]
        place = int(np.searchsorted(self._cumulative, draw, side="right"))
        offset, stride = self.shard or (0, 1)
        return offset + min(place, len(self._cumulative) - 1) * stride

    def _check_task(self, row: dict[str, Any]) -> None:
        source = f"task {row.get('task_id')!r}"
        for field, types in _FIELDS.items():
            value = row.get(field)
            if not isinstance(value, types) or isinstance(value, bool):
                names = " or ".join(kind.__name__ for kind in types)
                raise TaskDataError(source, names, field=field, value=value)
        options = row["goal_options"]
        texts = [*row["attributes"], *(options.values() if isinstance(options, dict) else options)]
        # Columnar files fill the keys that a row lacks with null.
        if not all(isinstance(text, str) for text in texts if text is not None):
            raise TaskDataError(source, "texts", field="attributes, goal_options", value=texts)
        if self.catalog.row_of(row["asin"]) < 0:
            raise TaskDataError(
                source, f"a product of {self.catalog!r}", field="asin", value=row["asin"]
            )

    # --- episode ---------------------------------------------------------------------------------

    def _start(self, task: dict[str, Any]) -> str:
        self.session = ShopSession(
            self.catalog,
            task["instruction_text"],
            princeton=self.compat == "princeton",
            show_attributes=self.show_attributes,
            magic_queries=self.magic_queries,
            numbered=self.result_labels == "number",
            name=task["task_id"].rpartition("/")[2],
            seed=derive_int("webshop", task["task_id"]),
        )
        self._score, self._detail = None, {}
        return self._view(self.session.nodes)

    def _act(self, action: str) -> StepOutcome:
        session = self.session
        assert session is not None
        try:
            command = self._reader.read(action)
        except BadReply as bad:
            return self._mistake(session, bad.kind, bad.message)
        reply = session.act(command.text)
        if reply.bought:
            outcome = self._buy(session)
        elif reply.error is not None:
            outcome = self._mistake(
                session, reply.error, self._complaint(reply.error, command.text)
            )
        else:
            outcome = StepOutcome(self._view(session.nodes))
        if command.error is not None and outcome.agent_error is None:
            outcome.agent_error = command.error
        if command.tool_calls is not None:
            command.tool_calls[0]["result"] = outcome.observation
            outcome.tool_calls = command.tool_calls
        return outcome

    def _mistake(self, session: ShopSession, kind: str, message: str) -> StepOutcome:
        page = self._view(session.nodes)
        if self.compat is None:
            page = f"{message}\n\n{page}"
        return StepOutcome(page, agent_error=agent_error(kind, message))

    def _complaint(self, kind: str, action: str) -> str:
        shown = shorten(" ".join(action.split()), 80)
        if kind == "bad_format":
            return f"Not an action: {shown!r}. Give search[keywords] or click[text]."
        if kind == "empty_search":
            return "The search has no keywords."
        if kind == "no_search_bar":
            return "There is no search bar on this page; click[Back to Search] leads to one."
        return f"Nothing on this page can be clicked with {shown!r}."

    def _buy(self, session: ShopSession) -> StepOutcome:
        product = session.product
        assert product is not None
        score, self._detail = score_purchase(
            Purchase(
                name=product.title,
                query=product.query,
                product_category=product.product_category,
                attributes=product.attributes,
                bullets=product.bullets,
                description=product.description,
                price=product.price,
                options=session.options,
                nouns=product.nouns,
            ),
            self.target(),
        )
        self._score = score
        make = pages.done_page if self.compat == "princeton" else pages.receipt_page
        observation = self._view(make(product.asin, session.options, score))
        reward = {"score": score, "success10": 10.0 * (score == 1), "sparse": float(score == 1)}
        return StepOutcome(
            observation, reward[self.reward_mode], terminated=True, stop_reason="bought"
        )

    def target(self) -> Target:
        """What the current task asks for."""
        assert self._task is not None
        task = self._task
        wanted = self.catalog.product(self.catalog.row_of(task["asin"]))
        options = task["goal_options"]
        if isinstance(options, Mapping):
            options = {name: value for name, value in options.items() if value is not None}
        return Target(
            name=wanted.title,
            query=wanted.query,
            product_category=wanted.product_category,
            attributes=task["attributes"],
            options=options,
            price_upper=float(task["price_upper"]),
            nouns=wanted.nouns,
        )

    def _final(self) -> tuple[bool, float]:
        return self._score == 1.0, self._score or 0.0

    def _anchor_state(self) -> str:
        assert self.session is not None
        return self.session.state()

    def _admissible(self) -> list[str]:
        session = self.session
        assert session is not None
        if session.page == "search":
            # Any words can be searched; the instruction's own are the one example that is listed.
            return [f"search[{' '.join(session.instruction.split())}]"]
        actions = [f"click[{text}]" for text in session.clickables()]
        return actions

    def _metrics(self) -> dict[str, Any]:
        metrics: dict[str, Any] = {"noun_source": self.catalog.noun_source}
        metrics.update(self._detail)
        return metrics

    def _view(self, nodes: list[pages.Node]) -> str:
        return pages.view(nodes, self.observation, self.observation_chars)

    @property
    def system_prompt(self) -> str:
        """The rules of the shop and how to reply."""
        return f"{SYSTEM_PROMPT}\n{self._reader.instructions}"

    @property
    def tools(self) -> list[dict[str, Any]]:
        """``env_step`` with ``action_format="tool"``, else nothing."""
        return self._reader.tools

    def format_action(self, command: str) -> str:
        """A command as a reply in this environment's action format."""
        return self._reader.write(command)

    @property
    def task_text(self) -> str:
        """The instruction."""
        assert self.session is not None
        return self.session.instruction


def _one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {allowed}, got {value!r}")


def _folder(path: str | os.PathLike[str]) -> Any:
    from pathlib import Path

    return Path(path)
