"""`AgentR1/GSM8KTool-v0`: grade-school word problems with a calculator."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from agentr1_envs.arguments import flag, whole
from agentr1_envs.errors import TaskDataError
from agentr1_envs.task_env import StepOutcome, agent_error
from agentr1_envs.task_set import TaskSource
from agentr1_envs.tool_env import ToolEnv
from agentr1_envs.tool_formats import ToolCall
from agentr1_envs.tools import Tool, ToolError

from .answer import MARK, extract_answer, parse_number, same_number, score_reply
from .calculator import CalculatorError, calculate
from .generator import generated_tasks, select

_COMPACT = "Solve the problem. To calculate, write {call}\nEnd with {mark} and the number."
_FULL = (
    "You solve grade-school word problems. Think step by step and leave arithmetic to the tools.\n"
    "{instructions}\n"
    "A call looks like this: {call}\n"
    "Its result is the next message. When you know the answer, write it without a call, on a line "
    "of its own, as one number after {mark}, for example: {mark} 42"
)
_PROMPTS = {"compact": _COMPACT, "full": _FULL}


class GSM8KToolEnv(ToolEnv):
    """Grade-school word problems with a calculator.

    Description:
        A word problem of one to four steps. The agent may calculate with a tool, as often as the
        step limit allows, and then gives one number. The embedded tasks are made by a generator;
        `tasks` reads the official GSM8K files.

    Action:
        Text. With tool calls (see `tool_format`), they run in order, and an answer in the same
        reply is not read. Without a call, ``#### 42`` gives the final answer: what stands after the
        last ``####`` up to the end of its line, one number, perhaps with a currency sign or units.
        Numbers are compared exactly, as fractions. A reply with neither is an agent error.

    Observation:
        The problem; then the results of the calls, or what was wrong.

    Rewards:
        1.0 once, for the right final answer; 0.0 for everything else, less `error_penalty` for
        steps with an agent error.

    Termination:
        Terminated by the final answer (stop_reason "answer"). Truncated by max_steps (default 8)
        or max_errors. `success` is whether the answer was right; `score` is 1.0 or 0.0.

    Arguments:
        difficulty: Level of generated tasks: "easy" (one or two steps, whole numbers), "hard" (two
            to four steps, money, fractions, per cent, units, needless facts) or "mixed".
        templates: "core", "held_out" (kinds of problems that "core" never has) or "all".
        num_tasks: Number of generated tasks; None takes 100,000 (train) or 2,000 (other splits).
        system_prompt: "compact" (one line with an example call), "full" (with the tools' schemas
            and all rules) or the text itself.
        reward_tool: Adds the tool ``calc_gsm8k_reward(answer)`` of Agent-R1's first recipe, which
            tells the agent whether an answer is right. It is an oracle: results with it are no
            measure of mathematics. It never pays a reward itself.
        tool_format, max_calls: see `ToolEnv`.
        split, tasks, order, shard, max_steps, render_mode, error_penalty, max_errors: see
            `TextTaskEnv`. `tasks` is a file of tasks, an official file (JSONL, JSON, Parquet,
            Arrow) or a folder with official files, such as one of the Hugging Face cache.

    Tasks:
        ``question``; ``answer`` (a number as text); optional ``solution``, ``calls`` (expressions
        that lead to the answer), ``template``, ``numbers``, ``level``. Generated splits share no
        (template, numbers) pair.

    References:
        Cobbe et al., Training Verifiers to Solve Math Word Problems, arXiv:2110.14168 (GSM8K).
        Agent-R1, arXiv:2511.14460 (GSM8K with a tool).
    """

    default_max_steps: ClassVar[int] = 8

    def __init__(
        self,
        *,
        difficulty: str = "easy",
        templates: str = "core",
        num_tasks: int | None = None,
        system_prompt: str = "compact",
        reward_tool: bool = False,
        tool_format: str = "hermes",
        max_calls: int = 4,
        split: str = "train",
        tasks: TaskSource | str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        for name, text in (("difficulty", difficulty), ("templates", templates)):
            if not isinstance(text, str):
                raise ValueError(f"{name} must be a text, got {text!r}")
        select(difficulty, templates)  # raises for unknown names, at once
        if num_tasks is not None:
            num_tasks = whole("num_tasks", num_tasks)
        if not isinstance(system_prompt, str):
            raise ValueError(f"system_prompt must be a text, got {system_prompt!r}")
        self.difficulty, self.templates, self.num_tasks = difficulty, templates, num_tasks
        self.reward_tool = flag("reward_tool", reward_tool)
        super().__init__(
            tool_format=tool_format, max_calls=max_calls, split=split, tasks=tasks, **kwargs
        )
        example = self._format.render([ToolCall("calculator", {"expression": "3*4"})])
        prompt = _PROMPTS.get(system_prompt)
        self._system_prompt = system_prompt
        if prompt is not None:
            instructions = self._format.instructions(self.tools) if prompt is _FULL else ""
            self._system_prompt = prompt.format(call=example, mark=MARK, instructions=instructions)
        self._question = ""
        self._truth = ""
        self._results: list[str] = []
        self._answer: str | None = None
        self._right = False

    # --- tasks -----------------------------------------------------------------------------------

    def _make_tasks(self, split: str) -> TaskSource:
        return generated_tasks(
            split, difficulty=self.difficulty, templates=self.templates, size=self.num_tasks
        )

    def _load_tasks(self, tasks: Any, split: str) -> TaskSource:
        from .official import load_tasks

        return load_tasks(tasks, split=split)

    def _check_task(self, row: dict[str, Any]) -> None:
        source, task_id = "task", row.get("task_id")
        question, answer = row.get("question"), row.get("answer")
        if not isinstance(question, str) or not question.strip():
            raise TaskDataError(source, "a non-empty text", task_id, "question", question)
        if not isinstance(answer, str) or parse_number(answer) is None:
            raise TaskDataError(source, "one number as text", task_id, "answer", answer)

    # --- the episode -----------------------------------------------------------------------------

    @property
    def system_prompt(self) -> str:
        """The rules, with an example call in the chosen format."""
        return self._system_prompt

    @property
    def task_text(self) -> str:
        """The word problem."""
        return self._question

    def _make_tools(self) -> list[Tool]:
        tools = [Tool(calculator)]
        if self.reward_tool:
            tools.append(Tool(self._calc_gsm8k_reward, name="calc_gsm8k_reward"))
        return tools

    def _calc_gsm8k_reward(self, answer: str) -> str:
        """Compares an answer with the true one: 1.0 if it is right, else 0.0.

        Args:
            answer: The answer, as a number or as a text that ends with #### and the number.
        """
        given = answer if MARK in answer else f"{MARK} {answer}"
        return str(score_reply(given, self._truth))

    def _start(self, task: dict[str, Any]) -> str:
        self._question, self._truth = task["question"], task["answer"]
        self._results, self._answer, self._right = [], None, False
        return self._question

    def _on_calls(self, calls: list[dict[str, Any]], outcome: StepOutcome) -> None:
        for call in calls:
            if call["result"] is not None:
                self._results.append(call["result"])

    def _on_answer(self, text: str) -> StepOutcome:
        answer = extract_answer(text)
        if answer is None:
            message = f"Call a tool, or give the final answer as {MARK} and a number."
            return StepOutcome(message, agent_error=agent_error("no_answer", message))
        self._answer = answer
        self._right = right = same_number(answer, self._truth)
        return StepOutcome(
            "Right." if right else "Wrong.",
            reward=1.0 if right else 0.0,
            terminated=True,
            stop_reason="answer",
        )

    def _final(self) -> tuple[bool, float]:
        return self._right, float(self._right)

    def _anchor_state(self) -> str:
        return "\x1f".join(self._results) + ("" if self._answer is None else f"\x1e{self._answer}")


def calculator(expression: str) -> str:
    """Evaluates arithmetic exactly.

    Args:
        expression: Numbers, + - * / // % **, brackets, abs, min, max, round, floor, ceil.
    """
    try:
        return calculate(expression)
    except CalculatorError as error:
        raise ToolError(f"calculator: {error}.", "calculator") from None
