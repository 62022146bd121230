"""`agentr1 play`: a person plays an environment in the terminal."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from agentr1_envs.registration import ENVS, load
from agentr1_train.cli.common import (
    UsageError,
    add_env_option,
    find_env_id,
    make_env,
    parse_pairs,
    write_drawing,
)

HELP = """\
Type an action and Enter. Commands of the terminal begin with a colon:
  :call NAME KEY=VALUE ..  write a tool call in the environment's format
  :edit                    type several lines; a single dot ends them
  :tools  :actions         the tools, the admissible actions
  :draw [FILE]             a picture of the episode so far, where the task has one
  :hint                    what the scripted expert would do (needs one)
  :task   :new   :quit     the task again, another task, leave"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("env", help="an id, or a short name such as gsm8k_tool")
    parser.add_argument("--seed", type=int, default=None, help="seed of the first task")
    parser.add_argument("--task-id", help="play this task")
    add_env_option(parser)


def main(args: argparse.Namespace) -> int:
    """Play until the person leaves."""
    env_id = find_env_id(args.env)
    env = make_env(env_id, parse_pairs(args.env_kwargs))
    player = _Player(env, env_id)
    try:
        player.reset(args.seed, {"task_id": args.task_id} if args.task_id else {})
        print(HELP)
        player.loop()
    finally:
        env.close()
    return 0


class _Player:
    def __init__(self, env: Any, env_id: str) -> None:
        self.env, self.env_id = env, env_id
        self.info: dict[str, Any] = {}
        self.observation = ""
        self.total = 0.0
        self.over = True
        self.expert: Any = None

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        try:
            self.observation, self.info = self.env.reset(seed=seed, options=options)
        except ValueError as error:
            raise UsageError(str(error)) from error
        self.total, self.over = 0.0, False
        experts = ENVS[self.env_id].experts if self.env_id in ENVS else {}
        if "expert" in experts:
            self.expert = load(experts["expert"])(self.env)
            self.expert.reset(self.observation, self.info)
        self.show_task()

    def show_task(self) -> None:
        base = self.env.unwrapped
        print(f"\n=== {self.info.get('task_id', '')}")
        prompt = getattr(base, "system_prompt", "")
        if prompt:
            print(f"{prompt}\n")
        if getattr(base, "tools", None):
            print("Tools: " + ", ".join(tool["function"]["name"] for tool in base.tools) + "\n")
        print(self.observation, flush=True)

    def loop(self) -> None:
        while True:
            line = _read("\n> ")
            if line is None or line.strip() == ":quit":
                return
            if line.strip() == ":edit":
                line = _read_lines()
            elif line.startswith(":call"):
                line = self.call(line)
            elif line.startswith(":"):
                self.command(line.strip())
                continue
            if line is None:
                continue
            if self.over:
                print("The episode is over: :new starts another, :quit leaves.")
                continue
            self.step(line)

    def step(self, action: str) -> None:
        self.observation, reward, terminated, truncated, self.info = self.env.step(action)
        self.total += float(reward)
        print(self.observation)
        if reward:
            print(f"[reward {reward:g}]")
        if terminated or truncated:
            self.over = True
            result = "solved" if self.info.get("success") else "not solved"
            print(
                f"[over: {self.info.get('stop_reason')}; {result}, score "
                f"{self.info.get('score', 0):g}, return {self.total:g}]  :new  :quit",
                flush=True,
            )

    def command(self, line: str) -> None:
        if line == ":new":
            self.reset()
        elif line == ":task":
            self.show_task()
        elif line == ":tools":
            for tool in getattr(self.env.unwrapped, "tools", []):
                function = tool["function"]
                print(f"{function['name']}: {function['description']}")
                for name, field in function["parameters"]["properties"].items():
                    print(f"    {name}: {field.get('type', '')} {field.get('description', '')}")
        elif line == ":actions":
            print("\n".join(self.info.get("admissible_actions", ["(not listed by this task)"])))
        elif line.partition(" ")[0] == ":draw":
            self.draw(line.partition(" ")[2].strip())
        elif line == ":hint":
            if self.expert is None or self.over:
                print("There is no hint.")
            else:
                print(self.expert.act(self.observation, self.info))
        else:
            print(HELP)

    def draw(self, file: str) -> None:
        """Print the picture of the episode, or write it where the name ends in .svg or .html."""
        function = getattr(self.env.unwrapped, "draw", None)
        if function is None:
            print("This task has no picture.")
        elif not file:
            print(function("text"))
        else:
            try:
                write_drawing(file, function)
            except (UsageError, OSError) as error:  # no reason to lose the episode
                print(f"not written: {error}")
            else:
                print(f"written: {file}")

    def call(self, line: str) -> str | None:
        import shlex

        from agentr1_envs.tool_formats import ToolCall, get_format

        name_format = getattr(self.env.unwrapped, "tool_format", None)
        try:
            words = shlex.split(line)[1:]
            arguments = parse_pairs(words[1:])
        except (ValueError, UsageError) as error:
            print(f"not a call: {error}")
            return None
        if name_format is None or not words:
            print(":call NAME KEY=VALUE .. works in environments with tools")
            return None
        # "3*4" is a text even though it could be read as a number by something else.
        schema = {tool["function"]["name"]: tool for tool in self.env.unwrapped.tools}
        fields = schema.get(words[0], {}).get("function", {}).get("parameters", {})
        for key in arguments:
            if fields.get("properties", {}).get(key, {}).get("type") == "string":
                arguments[key] = next(w for w in words if w.startswith(key + "=")).partition("=")[2]
        text = get_format(name_format).render([ToolCall(words[0], arguments)])
        print(text)
        return text


def _read(prompt: str) -> str | None:
    try:
        return input(prompt)
    except EOFError:
        print()
        return None
    except UnicodeDecodeError as error:
        print(f"not UTF-8: {error}", file=sys.stderr)
        return ""


def _read_lines() -> str | None:
    lines: list[str] = []
    while True:
        line = _read(". ")
        if line is None:
            return None
        if line == ".":
            return "\n".join(lines)
        lines.append(line)
