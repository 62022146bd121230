"""Act on another package's module when, and only if, something imports it."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls functions with a module right after it was imported."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Callable[[ModuleType], None]]] = {}

    def add(self, name: str, action: Callable[[ModuleType], None]) -> None:
        """Call ``action`` with module ``name``: now where it is imported already, else then."""
        if name in sys.modules:
            action(sys.modules[name])
        else:
            self.waiting.setdefault(name, []).append(action)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        actions = self.waiting.pop(name, None)
        if actions is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            for action in actions:
                action(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
