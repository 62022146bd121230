"""`TextTaskEnv`: what every environment of the suite shares.

It owns seeding, the choice of the task, the step limit, the end of an episode and the info
contract, so that an environment only says how a task starts and what an action does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from agentr1_envs.arguments import number, whole
from agentr1_envs.errors import EnvironmentFault, shorten
from agentr1_envs.seeding import short_hash
from agentr1_envs.spaces import UnicodeText
from agentr1_envs.task_set import TaskSource, canonical_split, copy_json, load_tasks

ORDERS = ("random", "sequential")


@dataclass(slots=True)
class StepOutcome:
    """What an action did, as an environment's `_act` reports it.

    Attributes:
        observation: What the environment says now.
        reward: Reward of this step, penalties for errors aside.
        terminated: The task ended by its own rules.
        stop_reason: Why it ended, in a word; used only with `terminated`.
        agent_error: ``{"kind": str, "message": str}`` when the agent did something wrong.
        tool_calls: The calls that were run, each ``{"name", "arguments", "result", "error"}``.
    """

    observation: str
    reward: float = 0.0
    terminated: bool = False
    stop_reason: str | None = None
    agent_error: dict[str, str] | None = None
    tool_calls: list[dict[str, Any]] | None = None


def agent_error(kind: str, message: str) -> dict[str, str]:
    """The value of ``info["agent_error"]``. Messages are cut, so that they never grow."""
    return {"kind": kind, "message": shorten(message, 500)}


class TextTaskEnv(gym.Env[str, str]):
    """Base class: text in, text out, one task an episode.

    Args:
        split: Which tasks: ``"train"``, ``"validation"``, ``"test"`` or an alias of one.
        tasks: A file of tasks (JSONL, JSON, Parquet) or a `TaskSource`. None takes the
            environment's embedded generator.
        order: ``"random"`` draws tasks with the environment's generator; ``"sequential"`` walks
            the panel and starts again at its end. A seed given to `reset` restarts the walk.
        shard: ``(i, n)`` limits the environment to tasks i, i + n, i + 2 n, ...
        max_steps: Step limit; the episode is truncated there. None takes the class's default.
        render_mode: ``"ansi"`` (`render` returns the transcript) or ``"human"`` (it is printed).
        error_penalty: Taken off the reward of each step with an agent error; at least 0.
        max_errors: Truncate the episode after so many steps with an agent error. None: no limit.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "human"], "render_fps": 4}
    default_max_steps: ClassVar[int] = 10
    #: Keys that `reset(options=...)` understands.
    reset_options: ClassVar[frozenset[str]] = frozenset({"task", "task_id", "task_index"})
    max_observation_chars: ClassVar[int] = 131_072

    def __init__(
        self,
        *,
        split: str = "train",
        tasks: TaskSource | str | os.PathLike[str] | None = None,
        order: str = "random",
        shard: tuple[int, int] | list[int] | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
        error_penalty: float = 0.0,
        max_errors: int | None = None,
    ) -> None:
        self.split = canonical_split(split)
        if order not in ORDERS:
            raise ValueError(f"order must be one of {ORDERS}, got {order!r}")
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            modes = self.metadata["render_modes"]
            raise ValueError(f"render_mode must be None or one of {modes}, got {render_mode!r}")
        if shard is not None:
            pair = tuple(shard) if isinstance(shard, (tuple, list)) else ()
            if (
                len(pair) != 2
                or not all(isinstance(i, (int, np.integer)) for i in pair)
                or not 0 <= pair[0] < pair[1]
            ):
                raise ValueError(f"shard must be (i, n) with 0 <= i < n, got {shard!r}")
            shard = (int(pair[0]), int(pair[1]))
        self.order, self.shard, self.render_mode = order, shard, render_mode
        self.max_steps = whole(
            "max_steps", self.default_max_steps if max_steps is None else max_steps
        )
        self.error_penalty = number("error_penalty", error_penalty)
        self.max_errors = None if max_errors is None else whole("max_errors", max_errors)
        self.observation_space = UnicodeText(self.max_observation_chars)
        self.action_space = UnicodeText(1_000_000)
        self._tasks_argument = tasks
        self._task_source: TaskSource | None = None
        self._cursor = 0
        self._task: dict[str, Any] | None = None
        self._running = False
        self._step_index = 0
        self._error_count = 0
        self._transcript: list[str] = []

    # --- what an environment defines -------------------------------------------------------------

    def _make_tasks(self, split: str) -> TaskSource:
        """The embedded panel of `split`, used when no `tasks` are given."""
        raise NotImplementedError

    def _load_tasks(self, tasks: Any, split: str) -> TaskSource:
        """The panel that the user named; override to read official files."""
        return load_tasks(tasks, split=split)

    def _check_task(self, row: dict[str, Any]) -> None:
        """Raise `TaskDataError` when `row` is no task of this environment."""

    def _start(self, task: dict[str, Any]) -> str:
        """Begin `task`; return the first observation."""
        raise NotImplementedError

    def _act(self, action: str) -> StepOutcome:
        """Do `action`."""
        raise NotImplementedError

    def _too_long(self, message: str) -> StepOutcome:
        """The answer to a reply that is too long to be read; the state stays as it is."""
        return StepOutcome(message, agent_error=agent_error("too_long", message))

    def _final(self) -> tuple[bool, float]:
        """``(success, score)`` of the episode that just ended; score in [0, 1]."""
        raise NotImplementedError

    def _anchor_state(self) -> str:
        """The task's state as text: equal if and only if the states are equal, steps aside."""
        raise NotImplementedError

    def _admissible(self) -> list[str] | None:
        """The actions that would do something now, where the task can list them."""
        return None

    def _metrics(self) -> dict[str, float]:
        """Numbers worth logging; cheap, asked for at every step."""
        return {}

    @property
    def system_prompt(self) -> str:
        """What a model must know about the task family."""
        raise NotImplementedError

    @property
    def task_text(self) -> str:
        """What a model must know about this task; fixed during an episode."""
        raise NotImplementedError

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools in OpenAI's function schema; empty where there are none."""
        return []

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        # What can be loaded or generated again is not copied; it may hold a function, too.
        if self._tasks_argument is None or isinstance(self._tasks_argument, (str, os.PathLike)):
            state["_task_source"] = None
        return state

    @property
    def blocking(self) -> bool:
        """Whether this object's steps may wait (network, a model): rollouts then thread them."""
        return False

    # --- tasks -----------------------------------------------------------------------------------

    @property
    def tasks(self) -> TaskSource:
        """The panel of tasks; loaded or generated when first needed."""
        if self._task_source is None:
            if self._tasks_argument is None:
                source = self._make_tasks(self.split)
            else:
                source = self._load_tasks(self._tasks_argument, self.split)
            if self.shard is not None and self.shard[0] >= len(source):
                raise ValueError(
                    f"shard {self.shard} of a panel of {len(source)} tasks holds no task"
                )
            self._task_source = source
        return self._task_source

    @property
    def task(self) -> dict[str, Any]:
        """A copy of the current task's row. It holds the answer: not for the agent."""
        if self._task is None:
            raise ResetNeeded("no task yet: call reset() first")
        return copy_json(self._task)

    def _choose_task(self, options: Mapping[str, Any]) -> dict[str, Any]:
        given = [key for key in ("task", "task_id", "task_index") if options.get(key) is not None]
        if len(given) > 1:
            raise ValueError(f"reset options {given} exclude each other: give one")
        if not given:
            return self.tasks[self._next_index()]
        key, value = given[0], options[given[0]]
        if key == "task":
            if not isinstance(value, dict) or not isinstance(value.get("task_id"), str):
                raise ValueError("reset option 'task' must be a dict with a str 'task_id'")
            return copy_json(value)
        if key == "task_id":
            if not isinstance(value, str):
                raise ValueError(f"reset option 'task_id' must be a str, got {value!r}")
            try:
                return self.tasks[self.tasks.index(value)]
            except KeyError:
                raise ValueError(f"task_id {value!r} is not in {self.tasks!r}") from None
        if whole("reset option 'task_index'", value, 0) >= len(self.tasks):
            raise ValueError(f"task_index {value} is outside 0..{len(self.tasks) - 1}")
        return self.tasks[int(value)]

    def _next_index(self) -> int:
        offset, stride = self.shard or (0, 1)
        count = (len(self.tasks) - offset + stride - 1) // stride
        if self.order == "sequential":
            position = self._cursor % count
            self._cursor += 1
        else:
            position = int(self.np_random.integers(count))
        return offset + position * stride

    # --- Gymnasium's interface -------------------------------------------------------------------

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """Gymnasium's spec of this environment, or None."""
        return self.__dict__.get("_spec")

    @spec.setter
    def spec(self, value: Any) -> None:
        self.__dict__["_spec"] = value
        # gym.make(id, max_episode_steps=n), which make_vec calls too, adds a TimeLimit that knows
        # nothing of success and score. Taking the limit over lets this environment end first, with
        # its final keys. Gymnasium tells the limit to its wrapper alone, so it is read from the
        # frame of `make`, which sets this attribute just before it adds the wrapper.
        caller = sys._getframe(1)
        if caller.f_globals.get("__name__") != "gymnasium.envs.registration":
            return
        limit = caller.f_locals.get("max_episode_steps")
        if limit is None:
            limit = getattr(caller.f_locals.get("env_spec"), "max_episode_steps", None)
        if isinstance(limit, int) and limit > 0:
            self.max_steps = min(self.max_steps, limit)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Reseeds the environment's generator and restarts a sequential walk.
            options: ``task_id``, ``task_index`` or ``task`` (a row) picks the task.

        Raises:
            ValueError: An option is unknown or names no task.
            EnvironmentFault: The environment's own machinery failed.
        """
        super().reset(seed=seed)
        if seed is not None:
            self._cursor = 0
        options = {} if options is None else options
        if not isinstance(options, Mapping):
            raise ValueError(f"reset options must be a dict or None, got {options!r}")
        if not options.keys() <= self.reset_options:
            unknown = sorted(map(str, options.keys() - self.reset_options))
            raise ValueError(f"unknown reset options {unknown}: {sorted(self.reset_options)} exist")
        self._running = False
        task = self._choose_task(options)
        self._check_task(task)
        self._task, self._step_index, self._error_count = task, 0, 0
        observation = self._cut(self._start(task))
        self._running = True
        info = self._info()
        if self.render_mode is not None:
            self._transcript = []
            self._note(f"[task {task['task_id']}]\n{observation}")
        return observation, info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Do `action`.

        Raises:
            ResetNeeded: The episode has ended or none was started.
            TypeError: `action` is no str.
            EnvironmentFault: The environment's own machinery failed; the episode is void.
        """
        if not self._running:
            raise ResetNeeded("the episode has ended or none was started: call reset() first")
        if not isinstance(action, str):
            raise TypeError(f"an action is a str, got {type(action).__name__}")
        self._step_index += 1
        # Whatever raises below leaves the episode void: only a completed step sets it running.
        self._running = False
        if len(action) <= self.action_space.max_length:  # type: ignore[attr-defined]
            outcome = self._act(action)
        else:
            limit = self.action_space.max_length  # type: ignore[attr-defined]
            message = f"The reply is {len(action)} characters long; at most {limit} are read."
            outcome = self._too_long(message)
        reward, error = float(outcome.reward), outcome.agent_error
        if error is not None:
            self._error_count += 1
            reward -= self.error_penalty
        if reward != reward or reward in (float("inf"), float("-inf")):
            raise EnvironmentFault(f"{type(self).__name__} gave the reward {reward}")
        terminated, truncated, stop_reason = outcome.terminated, False, outcome.stop_reason
        if not terminated:
            if self.max_errors is not None and self._error_count >= self.max_errors:
                truncated, stop_reason = True, "max_errors"
            elif self._step_index >= self.max_steps:
                truncated, stop_reason = True, "max_steps"
        observation = self._cut(outcome.observation)
        info = self._info()
        if outcome.tool_calls is not None:
            info["tool_calls"] = outcome.tool_calls
        if error is not None:
            info["agent_error"] = error
        if terminated or truncated:
            success, score = self._final()
            info["success"], info["score"] = bool(success), float(score)
            info["stop_reason"] = stop_reason or "terminated"
        else:
            self._running = True
        if self.render_mode is not None:
            self._note(f"> {action}\n{observation}" + (f"\n[reward {reward:g}]" if reward else ""))
            if terminated or truncated:
                self._note(f"[{info['stop_reason']}: score {info['score']:g}]")
        return observation, reward, terminated, truncated, info

    def render(self) -> str | None:  # type: ignore[override]
        """The transcript so far (``"ansi"``); ``"human"`` has printed it already."""
        if self.render_mode == "ansi":
            return "\n".join(self._transcript)
        return None

    # --- parts -----------------------------------------------------------------------------------

    def _info(self) -> dict[str, Any]:
        assert self._task is not None
        task_id = self._task["task_id"]
        info: dict[str, Any] = {
            "task_id": task_id,
            "step": self._step_index,
            "anchor": short_hash(f"{task_id}\x1f{self._anchor_state()}"),
        }
        admissible = self._admissible()
        if admissible is not None:
            info["admissible_actions"] = admissible
        metrics = self._metrics()
        if metrics:
            info["metrics"] = metrics
        return info

    def _cut(self, text: str) -> str:
        limit = self.max_observation_chars
        if len(text) <= limit:
            return text
        mark = "\n[cut]"
        return text[: limit - len(mark)] + mark

    def _note(self, text: str) -> None:
        self._transcript.append(text)
        if self.render_mode == "human":
            print(text, flush=True)
