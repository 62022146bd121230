"""Speed and scale of the shop, in one run.

    python -m benchmarks.webshop --json FILE
    python -m benchmarks.webshop --products 1000000 --workers 2 --folder DIR --json FILE

The first form plays the generated catalog of 1,000 products: steps and resets per second of one
core (CPU time, searches and rendering included), memory of 1,000 environments, and the scores of
the scripted policies on held-out goals. The second one writes N generated products in the form of
the public files, converts them as `agentr1 prepare webshop` does, and measures conversion, opening,
search and the memory of further processes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import agentr1_envs  # noqa: F401
from agentr1_envs.registration import ENVS, load
from benchmarks.scripted import play_script

ENV_ID = "AgentR1/WebShop-v0"


def _memory(pid: int | str, *names: str) -> int:
    """Sum of the named fields of a process's smaps_rollup, in bytes; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    fields = dict(line.split(":", 1) for line in lines[1:])
    return sum(int(fields[name].split()[0]) * 1024 for name in names)


def _tree(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid] + [other for child in children for other in _tree(int(child))]


class Peak(threading.Thread):
    """The largest memory of a process and its children, sampled every two seconds."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.rss, self.anonymous, self.over = pid, 0, 0, False

    def run(self) -> None:
        """Sample until `over`."""
        while not self.over:
            tree = _tree(self.pid)
            self.rss = max(self.rss, sum(_memory(pid, "Pss") for pid in tree))
            self.anonymous = max(self.anonymous, sum(_memory(pid, "Anonymous") for pid in tree))
            time.sleep(2)


def _policy(name: str, env: Any) -> Any:
    return load(ENVS[ENV_ID].experts[name])(env)


def _episode(env: Any, policy: Any, index: int) -> tuple[list[str], float]:
    actions, info = play_script(env, policy, options={"task_index": index})
    return actions, info["score"]


def speed(episodes: int = 500) -> dict[str, Any]:
    """Steps and resets per CPU second at 1,000 products."""
    env = gym.make(ENV_ID, split="train")
    env.reset(seed=0)
    base: Any = env.unwrapped
    plans = [_episode(env, _policy("observer", env), index)[0] for index in range(episodes)]
    figures: dict[str, Any] = {"products": len(base.catalog), "episodes": episodes}
    for mode in ("text_rich", "text", "compact"):
        env = gym.make(ENV_ID, split="train", observation=mode)
        env.reset(seed=0)
        rates = []
        for _ in range(5):
            base.catalog.forget()  # every query is searched anew, every product read anew
            steps, start = 0, time.process_time()
            for index, actions in enumerate(plans):
                env.reset(options={"task_index": index})
                for action in actions:
                    env.step(action)
                steps += len(actions)
            rates.append(steps / (time.process_time() - start))
        figures[f"steps_per_s_{mode}"] = round(statistics.median(rates))
    start = time.process_time()
    for _ in range(5000):
        env.reset()
    figures["resets_per_s"] = round(5000 / (time.process_time() - start))
    return figures


def scores(episodes: int = 500) -> dict[str, Any]:
    """Mean score and success of the scripted policies on the test split."""
    figures: dict[str, Any] = {}
    for goals in ("human", "synthetic"):
        for name in ("expert", "observer"):
            env = gym.make(ENV_ID, split="test", goals=goals)
            policy = _policy(name, env)
            got = [_episode(env, policy, index)[1] for index in range(episodes)]
            figures[f"{name}_{goals}_score"] = round(float(np.mean(got)), 3)
            figures[f"{name}_{goals}_success"] = round(float(np.mean(np.equal(got, 1))), 3)
    return figures


def many(count: int = 1000) -> dict[str, Any]:
    """Memory that further environments add to one process."""
    envs = [gym.make(ENV_ID)]
    envs[0].reset(seed=0)
    before = _memory("self", "Private_Dirty", "Private_Clean")
    for number in range(1, count):
        envs.append(gym.make(ENV_ID))
        envs[-1].reset(seed=number)
        envs[-1].step("search[red dress]")
    added = _memory("self", "Private_Dirty", "Private_Clean") - before
    shared = len({id(env.unwrapped.catalog) for env in envs})  # type: ignore[attr-defined]
    return {"environments": count, "catalogs": shared, "kib_each": round(added / count / 1024, 1)}


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


_CONVERT = """
import sys
from agentr1_train.cli.main import main
sys.exit(main(["prepare", "webshop", *sys.argv[1:]]))
"""

_USER = """
import json, sys, time
sys.path.insert(0, {root!r})
from benchmarks.webshop import _memory
from agentr1_envs.webshop.env import WebShopEnv
from agentr1_envs.webshop.catalog import open_catalog
base = _memory("self", "Private_Dirty", "Private_Clean")
start = time.perf_counter()
catalog = open_catalog({folder!r}).check()
env = WebShopEnv(catalog={folder!r}, split="test")
env.reset(seed=0)
opened = time.perf_counter() - start
times = []
for index in range(300):
    _, _ = env.reset(options={{"task_index": index}})
    query = env.task_text.partition(", and price")[0]
    start = time.perf_counter()
    rows = catalog.search(query)
    times.append(time.perf_counter() - start)
    env.step(f"search[{{query}}]")
    env.step(f"click[{{catalog.asin(rows[0])}}]")
    env.step("click[buy now]")
times.sort()
private = _memory("self", "Private_Dirty", "Private_Clean")
print(json.dumps({{"open_s": opened, "p50_ms": times[150] * 1e3, "p99_ms": times[297] * 1e3,
                  "private_mib": private / 2**20, "python_mib": base / 2**20}}), flush=True)
sys.stdin.readline()
"""


def scale(products: int, folder: Path, workers: int, noun_source: str) -> dict[str, Any]:
    """Convert and use a large generated catalog."""
    from agentr1_envs.webshop.generator import Generator

    figures: dict[str, Any] = {"products": products, "noun_source": noun_source}
    start = time.perf_counter()
    paths = Generator(products).write_files(folder / "files", human=5000)
    figures["write_files_s"] = round(time.perf_counter() - start, 1)
    figures["files_gb"] = round(sum(path.stat().st_size for path in paths) / 1e9, 2)
    out = folder / "shop"
    arguments = ["--dataset_mode", "full", "--input_dir", str(folder / "files"), "--force"]
    arguments += ["--output_dir", str(out), "--workers", str(workers), "--max_rows", "1000"]
    start, cpu = time.perf_counter(), _children_cpu()
    process = subprocess.Popen(
        [sys.executable, "-c", _CONVERT, *arguments, "--noun_source", noun_source]
    )
    peak = Peak(process.pid)
    peak.start()
    if process.wait() != 0:
        raise RuntimeError("the conversion failed")
    peak.over = True
    figures["convert_s"] = round(time.perf_counter() - start, 1)
    figures["convert_cpu_s"] = round(_children_cpu() - cpu, 1)
    figures["convert_peak_mib"] = round(peak.rss / 2**20)
    figures["convert_peak_anonymous_mib"] = round(peak.anonymous / 2**20)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    figures["catalog_gb"] = round(size / 1e9, 2)
    script = _USER.format(root=os.getcwd(), folder=str(out))
    users = []
    for _ in range(2):  # the second one shares its pages with the first, which still runs
        user = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert user.stdout is not None
        users.append((user, json.loads(user.stdout.readline())))
    for user, _ in users:
        user.communicate("\n")
    figures.update({name: round(value, 2) for name, value in users[1][1].items()})
    return figures


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--products", type=int, help="measure conversion and use at this size")
    parser.add_argument("--folder", type=Path, help="where files and catalog go; kept")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--noun_source", choices=("heuristic", "spacy"), default="heuristic")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()
    if args.products:
        if args.folder is None:
            parser.error("--products needs --folder")
        args.folder.mkdir(parents=True, exist_ok=True)
        figures = {"scale": scale(args.products, args.folder, args.workers, args.noun_source)}
    else:
        figures = {"speed": speed(), "policies": scores(), "many": many()}
    figures["machine"] = {
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "peak_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    for part, values in figures.items():
        for name, value in values.items():
            print(f"{part:<10} {name:<28} {value}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
