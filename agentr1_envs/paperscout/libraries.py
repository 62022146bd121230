"""Libraries and selectors by name; one object of each serves all environments of a process."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from agentr1_envs.paperscout.library import PaperLibrary
from agentr1_envs.paperscout.selector import GoldSelector, LexicalSelector, Selector

T = TypeVar("T")
LIVE = ("arxiv", "semantic_scholar")
SELECTORS = ("gold", "lexical", "encoder", "llm")
_shared: dict[tuple[Any, ...], Any] = {}
_lock = threading.RLock()


def _once(key: tuple[Any, ...], make: Callable[[], T]) -> T:
    """One object a key and process. A forked child keeps what its parent opened."""
    with _lock:
        if key not in _shared:
            _shared[key] = make()
        return _shared[key]


def open_library(name: str, options: Mapping[str, Any] | None = None) -> PaperLibrary:
    """The library of a name, shared in this process.

    Args:
        name: ``"generated"``, ``"arxiv"``, ``"semantic_scholar"``, or a folder made by
            `agentr1 prepare paperscout`.
        options: arguments of the library: ``size``, ``seed`` and ``cache_dir`` (generated);
            ``retrieval`` and ``encoder`` (generated, folder); those of `live_library` (live).

    Raises:
        TaskDataError: the folder is not what it should be.
        ValueError: an unknown option.
    """
    if not isinstance(name, str | os.PathLike) or not os.fspath(name):
        raise ValueError(f"library: expected a name or a folder, got {name!r}")
    given = dict(options or {})
    is_folder = name != "generated" and name not in LIVE
    place = os.path.abspath(name) if is_folder else name
    # A folder that was prepared anew in the meantime is opened anew.
    stamp = folder_stamp(place) if is_folder else 0
    try:
        key = ("library", place, stamp, json.dumps(given, sort_keys=True))
        return _once(key, lambda: _library(name, given))
    except TypeError as error:
        raise ValueError(f"library {name!r}, library_options {given}: {error}") from error


def folder_stamp(folder: str) -> int:
    """Changes when a prepared folder is written again; 0 where there is none."""
    for part in (os.path.join(folder, "library"), folder):
        try:
            return os.stat(os.path.join(part, "papers.json")).st_mtime_ns
        except OSError:
            continue
    return 0


def _library(name: str, options: dict[str, Any]) -> PaperLibrary:
    if name in LIVE:
        return live_library(name, **options)
    if name == "generated":
        from agentr1_envs.paperscout.local import generated_library

        return generated_library(**options)
    from agentr1_envs.paperscout.local import LocalLibrary

    return LocalLibrary(name, **options)


def live_library(
    name: str,
    *,
    cache_path: str | None = None,
    max_age_days: float = 30.0,
    offline: bool = False,
    arxiv_url: str | None = None,
    semantic_scholar_url: str | None = None,
    interval: float | None = None,
    **client: Any,
) -> PaperLibrary:
    """A live service with its cache.

    Args:
        name: ``"arxiv"`` or ``"semantic_scholar"``.
        cache_path: SQLite file of answers; None takes ``~/.cache/agentr1/paperscout.sqlite``,
            ``""`` keeps none.
        max_age_days: answers older than this are asked for again.
        offline: answer from the cache only.
        arxiv_url, semantic_scholar_url: other addresses, for a mirror or a test.
        interval: seconds between two requests to a host; None takes what the service asks for.
        **client: ``timeout``, ``tries``, ``backoff``, ``max_wait``, ``max_bytes`` of `LiveClient`.
    """
    from agentr1_envs.paperscout.live import arxiv, semantic_scholar
    from agentr1_envs.paperscout.live.cache import ResponseCache, default_cache_path
    from agentr1_envs.paperscout.live.http import LiveClient

    cache = None
    if cache_path != "":
        cache = ResponseCache(cache_path or default_cache_path(), max_age_days * 86400.0)
    key = os.environ.get(semantic_scholar.KEY_VARIABLE)
    scholar = semantic_scholar.SemanticScholarLibrary(
        LiveClient(
            semantic_scholar_url or semantic_scholar.BASE_URL,
            interval=semantic_scholar.INTERVAL if interval is None else interval,
            cache=cache,
            offline=offline,
            headers={"x-api-key": key} if key else None,
            **client,
        )
    )
    if name == "semantic_scholar":
        return scholar
    search = LiveClient(
        arxiv_url or arxiv.BASE_URL,
        interval=arxiv.INTERVAL if interval is None else interval,
        cache=cache,
        offline=offline,
        **client,
    )
    return arxiv.ArxivLibrary(search, scholar)


def open_selector(name: str, options: Mapping[str, Any] | None, library: PaperLibrary) -> Selector:
    """The selector of a name, shared in this process.

    Args:
        name: one of `SELECTORS`.
        options: arguments of the selector.
        library: gives the lexical selector how common a term is.

    Raises:
        ValueError: an unknown option.
        TaskDataError: the model of an encoder is not at hand.
        EnvironmentFault: the encoder's library is not installed.
    """
    given = dict(options or {})
    try:
        key = ("selector", name, json.dumps(given, sort_keys=True), library)
        return _once(key, lambda: _selector(name, given, library))
    except TypeError as error:
        raise ValueError(f"selector {name!r}, selector_options {given}: {error}") from error


def _selector(name: str, options: dict[str, Any], library: PaperLibrary) -> Selector:
    if name == "gold":
        return GoldSelector(LexicalSelector(library.frequency), **options)
    if name == "lexical":
        return LexicalSelector(library.frequency, **options)
    if name == "encoder":
        from agentr1_envs.paperscout.selector_encoder import EncoderSelector

        return EncoderSelector(**options)
    from agentr1_envs.paperscout.selector_llm import LlmSelector

    return LlmSelector(**options)
