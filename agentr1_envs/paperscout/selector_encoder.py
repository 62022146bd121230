"""The `encoder` selector: cosine similarity of sentence embeddings."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from agentr1_envs.paperscout.papers import Paper
from agentr1_envs.paperscout.selector import Selector
from agentr1_envs.retrieval.encoders import load_encoder


class EncoderSelector(Selector):
    """Similarity of the query and of "title. abstract" under a sentence encoder.

    The cosine is spread linearly from [``low``, ``high``] to [0, 1]. Encoders differ in the range
    that they use, so both bounds are arguments; fit them for a model with a few known pairs.

    Args:
        model: a folder, an installed package that carries a model, or a hub name.
        low: cosine at and below which a paper is irrelevant.
        high: cosine at and above which it surely meets the query.
        cache_size: embeddings of papers that are kept.
        **options: see `agentr1_envs.retrieval.encoders.load_encoder`, which also says when a hub
            is contacted (only with ``download=True``).
    """

    name = "encoder"

    def __init__(
        self,
        model: str,
        *,
        low: float = 0.2,
        high: float = 0.8,
        cache_size: int = 100_000,
        **options: Any,
    ) -> None:
        if not -1 <= low < high <= 1:
            raise ValueError(f"low, high: expected -1 <= low < high <= 1, got {low}, {high}")
        self._encoder = load_encoder(model, **options)
        self.low, self.high, self.cache_size = low, high, cache_size
        self._known: OrderedDict[tuple[bool, str], npt.NDArray[np.float32]] = OrderedDict()
        self._lock = threading.Lock()

    def score(
        self, question: str, papers: Sequence[Paper], gold: frozenset[str] = frozenset()
    ) -> Sequence[float]:
        texts = [f"{paper.title}. {paper.abstract}" for paper in papers]
        with self._lock:
            rows = [*self._vectors([question], query=True), *self._vectors(texts, query=False)]
        cosine = np.stack(rows[1:]) @ rows[0]
        return np.clip((cosine - self.low) / (self.high - self.low), 0.0, 1.0).tolist()

    def _vectors(self, texts: list[str], *, query: bool) -> list[npt.NDArray[np.float32]]:
        keys = [(query, text) for text in texts]
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        if new:
            found = self._encoder.encode([text for _, text in new], query=query)
            self._known.update(zip(new, found, strict=True))
        vectors = [self._known[key] for key in keys]
        while len(self._known) > self.cache_size:
            self._known.popitem(last=False)
        return vectors
