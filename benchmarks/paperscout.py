"""Search and expansion calls, the environment's own share of a step, opening; scripted scores.

Rates are of CPU time, and steps are timed at their best of some rounds, so that what else runs on
the machine counts little.

python -m benchmarks.paperscout [--size 100000] [--json FILE]
python -m benchmarks.paperscout --scores [--episodes N]   # expert, observer and simple policies
python -m benchmarks.paperscout --calibrate               # the lexical selector's logistic fit
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from agentr1_envs.paperscout.env import PaperScoutEnv
from agentr1_envs.paperscout.expert import Expert, Observer, content_words
from agentr1_envs.paperscout.generator import library_name
from agentr1_envs.paperscout.local import LocalLibrary, generated_library
from agentr1_envs.paperscout.selector import LexicalSelector
from agentr1_envs.tool_formats import ToolCall

ROUNDS = 8


class Timed:
    """Passes calls on; counts some of them and the seconds spent inside."""

    def __init__(self, inner: Any, methods: tuple[str, ...]) -> None:
        self._inner = inner
        self.clear()
        for name in methods:
            setattr(self, name, self._timed(getattr(inner, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        clock = time.process_time

        def timed(*args: Any) -> Any:
            start = clock()
            result = method(*args)
            self.seconds += clock() - start
            self.calls += 1
            return result

        return timed

    def clear(self) -> None:
        self.seconds, self.calls = 0.0, 0


def cost_of_timing() -> float:
    """Seconds that timing one call adds outside of what it counts as inside."""

    class Nothing:
        def method(self, *args: Any) -> None:
            pass

    best = float("inf")
    for _ in range(200):
        timed = Timed(Nothing(), ("method",))
        start = time.process_time()
        for _ in range(100):
            timed.method(None, None, None)
        best = min(best, (time.process_time() - start - timed.seconds) / 100)
    return best


def rate(calls: Sequence[Callable[[], Any]], repeats: int = 3) -> float:
    """Calls a second, the best of some rounds; the first round warms caches."""
    best = 0.0
    for _ in range(repeats):
        start = time.process_time()
        for call in calls:
            call()
        best = max(best, len(calls) / (time.process_time() - start))
    return best


def opening(size: int) -> float:
    """Seconds to open the library in a process that has imported everything."""
    code = (
        "import time; from agentr1_envs.paperscout.local import generated_library; "
        f"s = time.process_time(); generated_library(size={size}); print(time.process_time() - s)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ]
    return min(float(run.stdout) for run in runs)


def speed(size: int) -> dict[str, float]:
    """The figures of the table, by name."""
    start = time.process_time()
    library = generated_library(size=size)
    made = time.process_time() - start
    tasks = library.tasks("test")
    assert tasks is not None
    rows = [tasks[i] for i in range(min(150, len(tasks)))]
    rng = np.random.default_rng(0)
    ids = [library.store.read(int(row)).id for row in rng.integers(len(library.store), size=3000)]
    searches = [partial(library.search, row["question"], 10, row["cutoff"]) for row in rows]
    expansions = [partial(library.references, name) for name in ids]
    figures = {
        "papers": float(size),
        "made or opened here, s": made,
        "opened in a new process, s": opening(size),
        "search calls/s": rate(searches),
        "expand calls/s (first time)": rate(expansions, 1),
        "expand calls/s": rate(expansions),
    }
    figures.update(own_share(size, rows, calls=5))
    figures.update(own_share(size, rows, calls=1))
    figures.update(many(size))
    return figures


def replies(env: PaperScoutEnv, row: dict[str, Any], calls: int) -> Iterator[str]:
    """Five replies of some calls each: searches, then expansions of what was found."""
    words = content_words(row["question"]).split()
    queries = [row["question"], *(" ".join(words[i:]) for i in range(1, calls))]
    yield env.render_calls([ToolCall("search", {"query": q}) for q in dict.fromkeys(queries)])
    for _ in range(4):
        best = env.pool.best(expanded=False, count=calls)
        yield env.render_calls([ToolCall("expand", {"arxiv_id": e.paper.id}) for e in best])


def own_share(size: int, rows: list[dict[str, Any]], calls: int) -> dict[str, float]:
    """Milliseconds a step of `calls` calls: in all, and without the library and the selector."""
    env = PaperScoutEnv(split="test", library_options={"size": size})
    env.reset()
    library = Timed(env.library, ("search", "references"))
    selector = Timed(env.selector, ("score",))
    env._library, env._selector = library, selector  # type: ignore[assignment]
    clock = min(timeit.repeat(time.process_time, number=1000, repeat=20)) / 1000
    timing = cost_of_timing()
    # Each step at its best of some rounds: the code's own cost, whatever else the machine does.
    best: dict[tuple[int, int], tuple[float, ...]] = {}
    reset = [float("inf")] * len(rows)
    for _ in range(ROUNDS):
        for i, row in enumerate(rows):
            start = time.process_time()
            env.reset(options={"task": row})
            reset[i] = min(reset[i], time.process_time() - start)
            for step, reply in enumerate(replies(env, row, calls)):
                library.clear()
                selector.clear()
                start = time.process_time()
                _, _, terminated, truncated, _ = env.step(reply)
                spent = time.process_time() - start
                own = spent - library.seconds - selector.seconds - clock
                own -= timing * (library.calls + selector.calls)
                figures = (own, spent, library.seconds, selector.seconds)
                best[i, step] = min(best.get((i, step), figures), figures)
                if terminated or truncated:
                    break
    columns = zip(*best.values(), strict=True)
    own, spent, searched, judged = (float(np.mean(column)) * 1e3 for column in columns)
    name = f"step of {calls} call{'s'[: calls - 1]}"
    return {
        f"{name}, ms": spent,
        f"{name}: the library, ms": searched,
        f"{name}: the selector, ms": judged,
        f"{name}: the environment's own share, ms": own,
        "reset, ms": float(np.mean(reset)) * 1e3,
    }


def many(size: int) -> dict[str, float]:
    """Memory and time of 1,000 environments beside the one library."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    envs = [PaperScoutEnv(split="test", library_options={"size": size}) for _ in range(1000)]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
    seconds = time.process_time() - start
    assert len({id(env.library) for env in envs}) == 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"1,000 environments, s": seconds, "1,000 environments, MiB more": grown / 1024}


class OneSearch:
    """Searches the question once and stops."""

    def __init__(self, env: PaperScoutEnv) -> None:
        self.env = env

    def reset(self, obs: str, info: dict[str, Any]) -> None:
        self.done = False

    def act(self, obs: str, info: dict[str, Any]) -> str:
        if self.done:
            return "Done."
        self.done = True
        question = obs.partition("\n")[0].removeprefix("Query: ")
        return self.env.render_calls([ToolCall("search", {"query": question})])


class NoAction(OneSearch):
    """Answers at once."""

    def act(self, obs: str, info: dict[str, Any]) -> str:
        return "Done."


def scores(episodes: int) -> dict[str, dict[str, float]]:
    """Mean figures of scripted policies on the test panel, by policy and selector."""
    table: dict[str, dict[str, float]] = {}
    policies: dict[str, Any] = {
        "expert": Expert,
        "observer": Observer,
        "one search": OneSearch,
        "no action": NoAction,
    }
    for selector in ("gold", "lexical"):
        for name, policy_class in policies.items():
            env = PaperScoutEnv(split="test", order="sequential", selector=selector)
            policy = policy_class(env)
            ends: list[dict[str, float]] = []
            count = min(episodes, len(env.tasks))
            for _ in track(range(count), f"{name}, {selector}", transient=True):
                obs, info = env.reset()
                policy.reset(obs, info)
                total, over = 0.0, False
                while not over:
                    obs, reward, terminated, truncated, info = env.step(policy.act(obs, info))
                    total, over = total + reward, terminated or truncated
                kept = ("recall", "precision", "f1", "crawler_recall", "calls")
                ends.append({**{k: info["metrics"][k] for k in kept}, "return": total})
            table[f"{name}, selector {selector}"] = {
                key: float(np.mean([end[key] for end in ends])) for key in ends[0]
            }
    return table


def calibrate() -> dict[str, float]:
    """Slope of the logistic function, and the raw figure at which it should be one half.

    Both from what searches find for the training questions: the slope by maximum likelihood, the
    middle where selecting from there on gives the best F1.
    """
    library: LocalLibrary = generated_library()
    selector = LexicalSelector(library.frequency)
    tasks = library.tasks("train")
    assert tasks is not None
    raw, right = [], []
    for i in track(range(len(tasks)), "training questions", transient=True):
        row = tasks[i]
        papers = library.search(row["question"], 50, row["cutoff"])
        raw += selector.raw(row["question"], papers)
        right += [paper.id in set(row["gold"]) for paper in papers]
    x, y = np.array(raw), np.array(right, float)
    # Newton's method on the log-likelihood of two parameters, with a trace of ridge.
    features = np.stack([x, np.ones_like(x)], 1)
    weight = np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-features @ weight))
        gradient = features.T @ (y - p) - 1e-3 * weight
        hessian = (features * (p * (1 - p))[:, None]).T @ features + 1e-3 * np.eye(2)
        weight = weight + np.linalg.solve(hessian, gradient)
    order = np.argsort(-x)
    hits = np.cumsum(y[order])
    f1 = 2 * hits / (np.arange(1, len(y) + 1) + y.sum())
    best = int(f1.argmax())
    return {
        "slope": float(weight[0]),
        "middle": float(x[order][best]),
        "F1 there": float(f1[best]),
        "middle by likelihood": float(-weight[1] / weight[0]),
        "pairs": float(len(y)),
        "share right": float(y.mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=100_000, help="papers")
    parser.add_argument("--scores", action="store_true", help="scripted policies on the test panel")
    parser.add_argument("--episodes", type=int, default=1000, help="most episodes a policy")
    parser.add_argument("--calibrate", action="store_true", help="fit the lexical selector")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON too")
    args = parser.parse_args()
    result: Any
    if args.scores:
        result = scores(args.episodes)
        columns = list(next(iter(result.values())))
        table = Table("policy", *columns, title="PaperScout, test panel")
        for name, row in result.items():
            table.add_row(name, *(f"{row[column]:.3f}" for column in columns))
    else:
        result = calibrate() if args.calibrate else speed(args.size)
        name = "lexical selector" if args.calibrate else library_name(args.size, 0)
        table = Table("figure", "value", title=name)
        for name, value in result.items():
            table.add_row(name, f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}")
    Console().print(table)
    if args.json:
        with open(args.json, "w") as handle:
            json.dump(result, handle, indent=1)


if __name__ == "__main__":
    main()
