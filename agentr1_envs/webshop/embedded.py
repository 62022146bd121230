"""The shop that needs no files: a generated catalog, made at first use and kept in a cache.

It is made anew when the generator, the catalog format or the size change. `AGENTR1_CACHE` names
another folder than ``$XDG_CACHE_HOME/agentr1`` (``~/.cache/agentr1``); where none can be written,
the catalog is made in a temporary folder that this process removes when it ends.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from pathlib import Path

from agentr1_envs.webshop.catalog import Catalog, open_catalog
from agentr1_envs.webshop.generator import DEFAULT_SIZE, Generator

_lock = threading.Lock()
_made: dict[tuple[int, int], Path] = {}


def cache_root() -> Path:
    """Where catalogs are kept."""
    named = os.environ.get("AGENTR1_CACHE")
    if named:
        return Path(named) / "webshop"
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "agentr1" / "webshop"


def embedded_catalog(size: int = DEFAULT_SIZE, seed: int = 0) -> Catalog:
    """The generated catalog of `size` products; made if there is none yet."""
    with _lock:
        path = _made.get((size, seed))
        if path is None or not (path / "meta.json").is_file():
            path = _made[(size, seed)] = _find_or_make(Generator(size, seed))
    return open_catalog(path)


def _find_or_make(generator: Generator) -> Path:
    from agentr1_envs.webshop.convert import DEFAULT_SEED, build_catalog, source_key
    from agentr1_envs.webshop.folders import is_usable

    key = source_key({**generator.key, "seed": DEFAULT_SEED})
    name = f"generated-{generator.size}-{key[:16]}"
    try:
        path = cache_root() / name
        if not is_usable(path, key):
            build_catalog(generator.source(), path, keep_equal=True)
    except (OSError, RuntimeError):  # read-only, full, or no home at all
        folder = tempfile.mkdtemp(prefix="agentr1-webshop-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = Path(folder) / name
        build_catalog(generator.source(), path)
    return path
