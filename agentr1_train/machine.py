"""Cores, memory and disk as this process may use them."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Cores, memory and disk as this process may use them; sizes in bytes."""
    total, available = _memory()
    folders = {"here": Path.cwd(), "temporary files": Path(os.environ.get("TMPDIR", "/tmp"))}
    folders["cache"] = Path(os.environ.get("AGENTR1_CACHE", Path.home() / ".cache"))
    disk = {}
    for name, folder in folders.items():
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        disk[name] = {"path": str(folder), "free": shutil.disk_usage(folder).free}
    shared = Path("/dev/shm")
    return {
        "cores": _cores(),
        "memory": total,
        "memory_available": available,
        "shared_memory": shutil.disk_usage(shared).total if shared.is_dir() else None,
        "disk": disk,
        "compilers": [tool for tool in ("gcc", "g++", "make") if shutil.which(tool)],
    }


def _cores() -> float:
    """Cores by affinity and by the control group's quota."""
    try:
        cores = float(len(os.sched_getaffinity(0)))
    except AttributeError:  # not on macOS and Windows
        cores = float(os.cpu_count() or 1)
    quota = _read("/sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and quota[0].isdigit():
        cores = min(cores, int(quota[0]) / int(quota[1]))
    return cores


def _memory() -> tuple[int | None, int | None]:
    """Total and available, by /proc/meminfo and the control group's limit."""
    found = {
        key: int(value) * 1024
        for key, value in re.findall(r"(\w+):\s+(\d+) kB", _read("/proc/meminfo"))
    }
    total, available = found.get("MemTotal"), found.get("MemAvailable")
    limit = _read("/sys/fs/cgroup/memory.max").strip()
    if limit.isdigit() and total is not None and int(limit) < total:
        used = _read("/sys/fs/cgroup/memory.current").strip()
        total = int(limit)
        if used.isdigit() and available is not None:
            available = min(available, max(0, total - int(used)))
    return total, available


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
