"""Speed of ``AgentR1/HotpotQA-v0``: ``python -m benchmarks.hotpotqa_env [--json FILE]``.

Steps per second of CPU time on one core: with the search's own time left out (a retriever that
returns stored passages), and with the BM25 search of the embedded world. Time to build the world
and its index. Success of the scripted policies on the whole validation split.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from agentr1_envs.hotpotqa import corpus, generator
from agentr1_envs.hotpotqa.env import HotpotQAEnv
from agentr1_envs.hotpotqa.expert import Expert, Guesser, Observer
from benchmarks.scripted import play_script


class Stored:
    """Answers every query with the same passages, so that only the environment is timed."""

    def __init__(self, passages: list[Any]) -> None:
        self._passages = passages

    def search(self, query: str, k: int) -> list[Any]:
        """The stored passages."""
        return self._passages[:k]


def timed(function: Callable[[], Any]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def record(env: HotpotQAEnv, episodes: int) -> list[tuple[str, list[str]]]:
    """The expert's replies, so that writing them is not timed."""
    expert, out = Expert(env), []
    for _ in range(episodes):
        replies, info = play_script(env, expert)
        out.append((info["task_id"], replies))
    return out


def steps_per_second(env: HotpotQAEnv, played: list[tuple[str, list[str]]]) -> float:
    """Steps per CPU second of recorded episodes; resets are not counted."""
    steps, spent = 0, 0.0
    for task_id, replies in played:
        env.reset(options={"task_id": task_id})
        start = time.process_time()
        for reply in replies:
            env.step(reply)
        spent += time.process_time() - start
        steps += len(replies)
    return steps / spent


def policy_rate(env: HotpotQAEnv, policy: Any, episodes: int) -> dict[str, float]:
    """Success and retrieval of a scripted policy."""
    finals, kinds = [], []
    for _ in range(episodes):
        finals.append(play_script(env, policy)[1])
        kinds.append(env.task["answer"] in ("yes", "no"))
    closed = [i["success"] for i, yes_no in zip(finals, kinds, strict=True) if yes_no]
    other = [i["success"] for i, yes_no in zip(finals, kinds, strict=True) if not yes_no]
    return {
        "success, yes/no questions": sum(closed) / len(closed),
        "success, other questions": sum(other) / len(other),
        "support_recall": sum(i["metrics"]["support_recall"] for i in finals) / episodes,
        "replies": sum(i["step"] for i in finals) / episodes,
    }


def run(episodes: int) -> dict[str, Any]:
    """All figures."""
    figures: dict[str, Any] = {"build the world, CPU s": timed(generator.world)}
    figures["write 6,000 questions, CPU s"] = timed(
        lambda: [generator.questions(split) for split in generator.SIZES]
    )
    figures["index the articles, CPU s"] = timed(corpus.embedded)
    figures["articles"] = len(generator.world().articles)

    env = HotpotQAEnv(split="validation", order="sequential")
    played = record(env, episodes)
    figures["steps/s with BM25"] = max(steps_per_second(env, played) for _ in range(3))
    stored = Stored(env.retriever.search("river town born", 5))
    bare = HotpotQAEnv(split="validation", corpus=stored)
    figures["steps/s without search time"] = max(steps_per_second(bare, played) for _ in range(3))
    start = time.process_time()
    for task_id, _ in played:
        bare.reset(options={"task_id": task_id})
    figures["resets/s"] = len(played) / (time.process_time() - start)
    for name, policy in (("expert", Expert), ("observer", Observer), ("guesser", Guesser)):
        env = HotpotQAEnv(split="validation", order="sequential")
        for key, value in policy_rate(env, policy(env), len(env.tasks)).items():
            figures[f"{name}: {key}"] = value
    return figures


def main() -> None:
    """Print the table; write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    figures = run(args.episodes)
    from rich.console import Console
    from rich.table import Table

    table = Table("HotpotQA-v0", "value")
    for name, value in figures.items():
        table.add_row(name, f"{value:,.3f}" if value < 100 else f"{value:,.0f}")
    Console().print(table)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as handle:
            json.dump(figures, handle, indent=1)


if __name__ == "__main__":
    main()
