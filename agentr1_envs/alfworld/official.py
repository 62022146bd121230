"""ALFWorld's own files: reading the official layout, writing generated games in it."""

from __future__ import annotations

from functools import lru_cache

from agentr1_envs.alfworld.textworld_engine import INSTALL_HINT


@lru_cache(maxsize=1)
def package_texts() -> tuple[str, str]:
    """Domain and grammar of the installed ``alfworld`` package.

    Raises:
        ImportError: it is not installed.
    """
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec("alfworld")
    if spec is None or not spec.origin:
        raise ImportError(INSTALL_HINT)
    data = Path(spec.origin).parent / "data"
    return (
        (data / "alfred.pddl").read_text(encoding="utf-8"),
        (data / "alfred.twl2").read_text(encoding="utf-8"),
    )
