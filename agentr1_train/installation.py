"""What is installed, what works, and what a GPU run would lack: the facts behind `agentr1 doctor`.

Nothing here imports torch or any other optional package into this process: packages are imported in
a child, so that one that hangs, prints or crashes is a line in the report. Nothing is downloaded.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from agentr1_envs import __version__
from agentr1_train.machine import machine
from agentr1_train.probes import run_probes
from agentr1_train.tested_versions import TESTED, TESTED_BRIDGES, TESTED_VERL


@dataclass(frozen=True)
class Extra:
    """An extra of the distribution: what it is for and the modules its feature imports.

    Attributes:
        check: Python that is run after the imports; an exception is the reason it does not work.
    """

    purpose: str
    modules: tuple[str, ...] = ()
    check: str = ""


#: In the order of the report: light imports first, so that a slow one delays nothing else.
EXTRAS: dict[str, Extra] = {
    "multi": Extra("solver and critic as PettingZoo agents", ("pettingzoo",)),
    "serve": Extra("servers and the proxy", ("fastapi", "jinja2", "uvicorn")),
    "live": Extra("PaperScout on arXiv and Semantic Scholar", ("httpx",)),
    "harmony": Extra("gpt-oss' tool format; its parser needs nothing"),
    "viewer": Extra("episodes as HTML (agentr1 view); it needs nothing"),
    "docs": Extra("building this documentation", ("mkdocs", "material")),
    "dev": Extra("tests and checks", ("build", "hypothesis", "mypy", "pytest", "xdist")),
    "alfworld": Extra("the real ALFWorld engine", ("textworld", "fast_downward", "alfworld")),
    "spacy": Extra(
        "WebShop's published score",
        ("spacy",),
        "from agentr1_envs.webshop.nouns import spacy_missing\n"
        "if spacy_missing(): raise RuntimeError(spacy_missing())",
    ),
    "train": Extra(
        "training with the local back end",
        (
            "torch",
            "transformers",
            "tokenizers",
            "safetensors",
            "hydra",
            "omegaconf",
            "matplotlib",
            "tensorboard",
        ),
    ),
    "dense": Extra("dense retrieval", ("torch", "transformers", "sentence_transformers")),
    "verl": Extra(
        "training with verl on a cluster",
        ("ray", "tensordict", "transfer_queue", "verl", "verl.trainer.main_ppo"),
        "import verl\nfrom agentr1_train.verl import check_version\n"
        "check_version(verl.__version__)",
    ),
    "vllm": Extra("generation with vLLM", ("vllm",)),
}
#: Distribution -> module of the bridges' stacks.
BRIDGES = {
    "trl": "trl",
    "verifiers": "verifiers",
    "skyrl-gym": "skyrl_gym",
    "gem-llm": "gem",
    "openenv": "openenv",
}

_GPU_PROBE = """
import torch
f = {"torch": torch.__version__, "cuda_build": torch.version.cuda, "hip_build": torch.version.hip}
f["available"] = torch.cuda.is_available()
if f["available"]:
    f["devices"] = [
        {"name": p.name, "memory": p.total_memory, "capability": f"{p.major}.{p.minor}"}
        for p in map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    ]
    f["bf16"] = torch.cuda.is_bf16_supported()
    torch.zeros(8, device="cuda").sum().item()
result = f
"""


@dataclass
class Package:
    """A distribution: what is wanted, what is there, what the tests run with."""

    name: str
    wanted: str = ""
    installed: str | None = None
    tested: str | None = None

    @property
    def fits(self) -> bool:
        """Whether it is installed in a version that the requirement allows."""
        return self.installed is not None and allows(self.wanted, self.installed)


@dataclass
class ExtraReport:
    """One extra. `state`: works, incomplete, broken, missing, or installed (not imported)."""

    name: str
    purpose: str
    state: str
    reason: str = ""
    seconds: float | None = None
    packages: list[Package] = field(default_factory=list)


@dataclass
class Check:
    """Something that a GPU run needs.

    Attributes:
        state: ok, missing, optional (missing and not needed), or unknown (not looked at).
    """

    name: str
    state: str
    found: str
    advice: str = ""


@dataclass
class Report:
    """Everything that `agentr1 doctor` says; `as_dict` is its JSON."""

    versions: dict[str, str]
    machine: dict[str, Any]
    base: list[Package]
    extras: list[ExtraReport]
    bridges: list[Package]
    gpu: list[Check]

    def as_dict(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)

    def problems(self, required: list[str]) -> list[str]:
        """Why this installation can't be used, with these extras required; empty if it can."""
        found = [f"{p.name} {p.installed or 'is missing'}, {p.wanted}" for p in self.base]
        found = [text for text, p in zip(found, self.base, strict=True) if not p.fits]
        for extra in self.extras:
            if extra.name in required and extra.state not in ("works", "installed"):
                found.append(f"extra {extra.name}: {extra.state} {extra.reason}".rstrip())
        return found


def examine(
    *,
    do_import: bool = True,
    timeout: float = 180.0,
    tick: Callable[[str], None] = lambda name: None,
) -> Report:
    """Look at this installation and this machine.

    Args:
        do_import: Import what is installed, in a child process; else only versions are read.
        timeout: Seconds one extra's imports may take.
        tick: Called with the name of each probe as it begins.
    """
    base, extras = requirements()
    installed = {
        name
        for name in EXTRAS
        if all(package.installed for package in extras.get(name, [])) or not extras.get(name)
    }
    probes: list[tuple[str, tuple[str, ...], str]] = []
    if do_import:
        probes = [(n, e.modules, e.check) for n, e in EXTRAS.items() if n in installed]
        if version_of("torch"):
            probes.append(("gpu", (), _GPU_PROBE))
    outcomes = run_probes(probes, timeout, tick)
    reports = [
        _extra_report(name, extras.get(name, []), outcomes.get(name), do_import) for name in EXTRAS
    ]
    bridges = [Package(n, "", version_of(n), TESTED_BRIDGES[n]) for n in BRIDGES]
    gpu = gpu_checks(outcomes.get("gpu", {}), {report.name: report for report in reports})
    return Report(versions(), machine(), base, reports, bridges, gpu)


def _extra_report(
    name: str, packages: list[Package], outcome: dict[str, Any] | None, imported: bool
) -> ExtraReport:
    report = ExtraReport(name, EXTRAS[name].purpose, "works", packages=packages)
    missing = [p.name for p in packages if p.installed is None]
    wrong = [f"{p.name} {p.installed} is not {p.wanted}" for p in packages]
    wrong = [t for t, p in zip(wrong, packages, strict=True) if p.installed and not p.fits]
    if missing:
        report.state = "missing" if len(missing) == len(packages) else "incomplete"
        report.reason = ", ".join(missing)
    elif outcome is not None:
        report.seconds = outcome.get("seconds")
        if outcome["error"]:
            report.state, report.reason = "broken", outcome["error"]
    elif not imported:
        report.state = "installed"
    if wrong and report.state in ("works", "installed"):
        report.state, report.reason = "incomplete", "; ".join(wrong)
    return report


# --- versions -------------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """Of agentr1, Python and the system."""
    return {
        "agentr1": __version__,
        "where": str(Path(__file__).resolve().parents[1]),
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": platform.platform(),
    }


def version_of(name: str) -> str | None:
    """The installed version of a distribution."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def requirements() -> tuple[list[Package], dict[str, list[Package]]]:
    """What the distribution requires, and what each extra does."""
    base: list[Package] = []
    extras: dict[str, list[Package]] = {}
    for extra, text in _declared():
        match = re.match(r"([\w.-]+)(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?", text)
        assert match is not None, text
        name = re.sub(r"[-_.]+", "-", match[1]).lower()
        tested = TESTED.get(name) or TESTED_VERL.get(name)
        package = Package(match[1], match[2].strip(), version_of(match[1]), tested)
        (base if extra is None else extras.setdefault(extra, [])).append(package)
    return base, extras


def _declared() -> Iterator[tuple[str | None, str]]:
    """Extra (None: the base) and requirement, of the installed metadata or of a checkout's file."""
    project = Path(__file__).resolve().parents[1] / "pyproject.toml"
    table = {}
    if project.is_file():
        table = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
    if table.get("name") == "agentr1":
        yield from ((None, text) for text in table["dependencies"])
        for extra, texts in table["optional-dependencies"].items():
            yield from ((extra, text) for text in texts)
        return
    try:
        declared = metadata.requires("agentr1") or []
    except metadata.PackageNotFoundError:
        declared = []
    for text in declared:
        match = re.search(r"""extra\s*==\s*["']([\w-]+)["']""", text)
        yield (match[1] if match else None), text.partition(";")[0].strip()


def allows(wanted: str, version: str) -> bool:
    """Whether a version is in a range such as ``>=3.8,<3.9``; local parts (``+cpu``) don't count.

    Only the comparisons that this distribution declares: ``packaging`` is not in the base install.
    """
    have = _numbers(version)
    for part in filter(None, (piece.strip() for piece in wanted.split(","))):
        match = re.fullmatch(r"(>=|<=|==|!=|<|>)\s*([\w.+!-]+)", part)
        if match is None:
            return False
        bound = _numbers(match[2])
        size = max(len(have), len(bound))
        a, b = have + (0,) * (size - len(have)), bound + (0,) * (size - len(bound))
        holds = {
            ">=": a >= b, "<=": a <= b, "==": a == b, "!=": a != b, "<": a < b, ">": a > b,
        }  # fmt: skip
        if not holds[match[1]]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    release = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, release[0].split("."))) if release else ()


# --- a GPU run ------------------------------------------------------------------------------------


def gpu_checks(outcome: dict[str, Any], extras: dict[str, ExtraReport]) -> list[Check]:
    """What training on a GPU needs, and what of it is here.

    Args:
        outcome: The GPU probe's; empty where it did not run.
        extras: The reports of the extras.
    """
    facts = outcome.get("result") or {}
    checks = [_driver()]
    torch = version_of("torch")
    if torch is None:
        checks.append(Check("torch", "missing", "not installed", "pip install 'agentr1[train]'"))
    elif not outcome:
        checks.append(Check("torch with CUDA", "unknown", f"{torch}, not imported"))
    elif outcome["error"]:
        checks.append(Check("torch", "missing", f"{torch}: {outcome['error']}", ""))
    else:
        checks += _torch_checks(facts)
    for name, purpose in (("train", "the local back end"), ("verl", "the verl back end")):
        extra = extras[name]
        state = "ok" if extra.state in ("works", "installed") else "missing"
        found = extra.state if state == "ok" else f"{extra.state}: {extra.reason}"
        checks.append(Check(purpose, state, found, f"pip install 'agentr1[{name}]'"))
    vllm, vllm_extra = version_of("vllm"), extras["vllm"]
    broken = vllm_extra.state == "broken"
    checks.append(
        Check(
            "vLLM (verl's rollouts)",
            "ok" if vllm and not broken else "missing",
            f"{vllm}: {vllm_extra.reason}" if vllm and broken else vllm or "not installed",
            "install verl[vllm] first: it chooses torch and vLLM together",
        )
    )
    flash = version_of("flash-attn")
    advice = "without it attention is PyTorch's own (sdpa); attn_implementation says which"
    checks.append(
        Check("flash-attn", "ok" if flash else "optional", flash or "not installed", advice)
    )
    size = shutil.disk_usage("/dev/shm").total if Path("/dev/shm").is_dir() else 0
    checks.append(
        Check(
            "shared memory (NCCL, Ray)",
            "ok" if size >= 1 << 30 else "missing",
            f"{size / 2**30:.1f} GiB in /dev/shm",
            "at least 1 GiB; docker run --shm-size",
        )
    )
    return checks


def _driver() -> Check:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return Check("NVIDIA driver", "missing", "no nvidia-smi", "needs an NVIDIA GPU and driver")
    command = [tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        return Check("NVIDIA driver", "missing", f"nvidia-smi: {type(error).__name__}", "")
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or not lines:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no GPU"]
        return Check("NVIDIA driver", "missing", said[0][:200], "needs an NVIDIA GPU and driver")
    return Check("NVIDIA driver", "ok", f"{len(lines)} x {lines[0]}")


def _torch_checks(facts: dict[str, Any]) -> list[Check]:
    build = facts["cuda_build"] or facts["hip_build"]
    text = f"{facts['torch']}, built for {build or 'the CPU only'}"
    advice = "install a CUDA build of torch"
    checks = [Check("torch with CUDA", "ok" if build else "missing", text, advice)]
    devices = facts.get("devices", [])
    if not facts["available"]:
        checks.append(Check("a usable GPU", "missing", "torch.cuda.is_available() is False", ""))
        return checks
    names = ", ".join(f"{d['name']} ({d['memory'] / 2**30:.0f} GiB)" for d in devices)
    checks.append(Check("a usable GPU", "ok", names))
    bf16 = "ok" if facts["bf16"] else "missing"
    checks.append(Check("bfloat16", bf16, "yes" if facts["bf16"] else "no", "dtype=float32"))
    return checks
