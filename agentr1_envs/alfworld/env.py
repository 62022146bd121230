"""`AgentR1/ALFWorld-v0`: household tasks in text."""

from __future__ import annotations

import os
import warnings
from typing import Any, ClassVar

from agentr1_envs.alfworld.engine import NOTHING, StateEngine
from agentr1_envs.alfworld.game import UnreachableGoal
from agentr1_envs.alfworld.pddl import UnsupportedGame
from agentr1_envs.alfworld.rooms import DIFFICULTIES
from agentr1_envs.alfworld.rows import check_row, game_of, row_texts
from agentr1_envs.alfworld.wording import DEFAULT_WORDING
from agentr1_envs.arguments import whole
from agentr1_envs.command_reply import BadReply, CommandReader
from agentr1_envs.errors import EnvironmentFault, TaskDataError
from agentr1_envs.task_env import StepOutcome, TextTaskEnv, agent_error
from agentr1_envs.task_set import TaskSource

ENGINES = ("state", "textworld")

_RULES = (
    "You are in a house and have a household task. You see only what the receptacle that you stand "
    "at holds: go to receptacles, open those that are closed, and carry one object at a time.\n"
    "Commands look like: go to desk 1, open drawer 2, take mug 1 from desk 1, {put}, clean mug 1 "
    "with sinkbasin 1, heat mug 1 with microwave 1, cool mug 1 with fridge 1, use desklamp 1, "
    "examine mug 1, look, inventory. A command that is not possible now does nothing."
)


class ALFWorldEnv(TextTaskEnv):
    """Household tasks in text (ALFWorld).

    Description:
        The agent stands in a kitchen, living room, bedroom or bathroom and has to put, clean, heat,
        cool or examine things. Six types of tasks. The embedded games are generated; `data` plays
        ALFWorld's own. Scores on generated games are not ALFWorld scores.

    Action:
        Text. With ``action_format="command"`` the command itself. With ``"think_action"``
        ``<think>..</think><action>COMMAND</action>``. With ``"tool"`` a call of the tool
        ``env_step(command)`` in `tool_format`; only the first call of a reply is carried out.

    Observation:
        What ALFWorld's engine prints: first the room and the task, then the answer to each command;
        "Nothing happens." where a command is not possible. ``info["admissible_actions"]`` lists the
        commands that are, sorted.

    Rewards:
        1.0 when the goal is reached, once; 0.0 otherwise, less `error_penalty` for steps with an
        agent error (a reply that is no command, or a command that is not possible).

    Termination:
        Terminated when the goal holds (stop_reason "won"). Truncated by max_steps (default 50) or
        max_errors. `success` is whether the goal was reached, `score` the same as a number;
        ``info["metrics"]["goal_condition_success"]`` is the share of the goal's conditions that
        hold.

    Arguments:
        data: Folder with ALFWorld's games: ``json_2.1.1`` or any folder that holds ``train``,
            ``valid_seen`` or ``valid_unseen``, or games directly. None: generated games.
        engine: "state" (this project's, checked against the real one; games with an unknown domain
            or grammar go to the real one, with a warning) or "textworld" (needs the extra
            ``alfworld``).
        action_format, tool_format: see Action.
        difficulty: Of generated games: "normal", or "easy": rooms of at most seven receptacles.
        num_tasks: Number of generated games; None takes 10,000 (train) or 200 (other splits).
        split, tasks, order, shard, max_steps, render_mode, error_penalty, max_errors: see
            `TextTaskEnv`. ``valid_seen`` is the split "validation", ``valid_unseen`` is "test".

    Tasks:
        See `agentr1_envs.alfworld.rows`.

    References:
        Shridhar et al., ALFWorld: Aligning Text and Embodied Environments for Interactive Learning,
        ICLR 2021, arXiv:2010.03768. Côté et al., TextWorld, arXiv:1806.11532. Feng et al.,
        Group-in-Group Policy Optimization, arXiv:2505.10978 (the think_action format).
    """

    default_max_steps: ClassVar[int] = 50

    def __init__(
        self,
        *,
        data: str | os.PathLike[str] | None = None,
        engine: str = "state",
        action_format: str = "command",
        tool_format: str = "hermes",
        difficulty: str = "normal",
        num_tasks: int | None = None,
        split: str = "train",
        tasks: TaskSource | str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        if engine not in ENGINES:
            raise ValueError(f"engine must be one of {ENGINES}, got {engine!r}")
        reader = CommandReader(
            action_format,
            tool_format,
            purpose="Carry out one command in the house and see what happens.",
            example="go to desk 1",
        )
        if difficulty not in DIFFICULTIES:
            raise ValueError(f"difficulty must be one of {DIFFICULTIES}, got {difficulty!r}")
        if num_tasks is not None:
            num_tasks = whole("num_tasks", num_tasks)
        if data is not None and tasks is not None:
            raise ValueError("data and tasks exclude each other: give one")
        if data is not None and not os.path.isdir(data):
            raise FileNotFoundError(f"{os.fspath(data)}: no such folder of ALFWorld games")
        super().__init__(split=split, tasks=tasks, **kwargs)
        self.data, self.engine, self.num_tasks = data, engine, num_tasks
        self.difficulty = difficulty
        self.action_format, self.tool_format = action_format, tool_format
        self._reader = reader
        self._engine: Any = None  # StateEngine or TextworldEngine: what is played
        self._shadow: StateEngine | None = None  # follows the real engine, for experts and metrics
        self._real_texts: tuple[str, str, str] | None = None
        self._paid = False

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if not isinstance(self._engine, StateEngine):  # the real engine lives in this process
            state.update(_engine=None, _running=False)
        return state

    # --- tasks -----------------------------------------------------------------------------------

    def _make_tasks(self, split: str) -> TaskSource:
        if self.data is not None:
            from agentr1_envs.alfworld.official import OfficialTasks

            return OfficialTasks(self.data, split)
        from agentr1_envs.alfworld.generator import generated_tasks

        return generated_tasks(split, self.num_tasks, self.difficulty)

    def _check_task(self, row: dict[str, Any]) -> None:
        check_row(row)

    # --- the episode -----------------------------------------------------------------------------

    def _start(self, task: dict[str, Any]) -> str:
        self._paid = False
        unknown: UnsupportedGame | None = None
        state: StateEngine | None = None
        try:
            state = StateEngine(game_of(task))
        except UnsupportedGame as error:
            unknown = error
        except UnreachableGoal as error:
            task_id = task["task_id"]
            raise TaskDataError("task", "a reachable goal", task_id, "goal", str(error)) from error
        if self.engine == "state" and state is not None:
            self._engine, self._shadow = state, None
            return state.reset()
        if self.engine == "state":
            warnings.warn(
                f"task {task['task_id']}: {unknown}; it is played in the real engine",
                stacklevel=3,
            )
        self._engine, self._shadow = self._real(task), state
        if state is not None:
            state.reset()
        return self._engine.reset()

    def _real(self, task: dict[str, Any]) -> Any:
        """The real engine for a task; the one at hand if it is for the same game."""
        from agentr1_envs.alfworld.official import package_texts
        from agentr1_envs.alfworld.textworld_engine import TextworldEngine, grammar_with_goal

        problem, domain, grammar = row_texts(task)
        try:
            if domain is None or grammar is None:
                domain, grammar = package_texts()
                grammar = grammar_with_goal(grammar, task["goal"])
            texts = (problem, domain, grammar)
            if isinstance(self._engine, TextworldEngine):
                if self._real_texts == texts:
                    return self._engine
                self._engine.close()
                self._engine = None
            engine = TextworldEngine(*texts)
        except ImportError as error:
            raise EnvironmentFault(f"task {task['task_id']}: {error}") from error
        except UnreachableGoal as error:
            task_id = task["task_id"]
            raise TaskDataError("task", "a reachable goal", task_id, "goal", str(error)) from error
        self._real_texts = texts
        return engine

    def _act(self, action: str) -> StepOutcome:
        try:
            read = self._reader.read(action)
        except BadReply as bad:
            # Nothing was done in the house, but a goal that held already still holds.
            outcome = StepOutcome(
                f"{NOTHING} {bad.message}", agent_error=agent_error(bad.kind, bad.message)
            )
        else:
            moves, error = self._engine.moves, read.error
            said = self._engine.step(read.text)
            if self._shadow is not None:
                self._shadow.step(read.text)
            if self._engine.moves == moves:
                error = agent_error(
                    "inadmissible", f"The command {read.text.strip()!r} does nothing."
                )
            outcome = StepOutcome(said, agent_error=error, tool_calls=read.tool_calls)
            if read.tool_calls is not None:
                read.tool_calls[0]["result"] = said
        if self._engine.won and not self._paid:
            self._paid = True
            outcome.reward, outcome.terminated, outcome.stop_reason = 1.0, True, "won"
        return outcome

    def _final(self) -> tuple[bool, float]:
        return self._engine.won, float(self._engine.won)

    def _anchor_state(self) -> str:
        return (self._shadow or self._engine).state_key()

    def _admissible(self) -> list[str]:
        return self._engine.admissible()

    def _metrics(self) -> dict[str, float]:
        state = self._shadow or self._engine
        if not isinstance(state, StateEngine):
            return {}
        return {"goal_condition_success": state.goal_progress()}

    # --- for policies ----------------------------------------------------------------------------

    def state_engine(self) -> StateEngine:
        """A copy of the game as it stands, in the state engine, for scripted experts.

        Raises:
            EnvironmentFault: the state engine does not know this game.
        """
        state = self._shadow or self._engine
        if not isinstance(state, StateEngine):
            raise EnvironmentFault("this game is not known to the state engine; no expert plays it")
        return state.copy()

    def format_action(self, command: str) -> str:
        """A command as a reply in this environment's action format."""
        return self._reader.write(command)

    @property
    def system_prompt(self) -> str:
        """The rules of the house and how to reply; commands are worded as in the current game."""
        state = self._shadow or self._engine
        wording = state.game.wording if isinstance(state, StateEngine) else DEFAULT_WORDING
        rules = _RULES.format(put=wording.commands["putobject"] % ("mug 1", "shelf 1"))
        return f"{rules}\n{self._reader.instructions}"

    @property
    def task_text(self) -> str:
        """The goal's sentence."""
        if self._task is None:
            return ""
        state = self._shadow or self._engine
        if isinstance(state, StateEngine):
            return state.game.goal_text
        return f"Your task is to: {self._task.get('goal', '')}."

    @property
    def tools(self) -> list[dict[str, Any]]:
        """``env_step`` with ``action_format="tool"``, else nothing."""
        return self._reader.tools

    def close(self) -> None:
        """Give the real engine's library back, if there is one."""
        close = getattr(self._engine, "close", None)
        if close is not None:
            close()
        self._engine = None
        self._running = False
        super().close()
