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


class EncoderSelector(Selector):
    """Similarity of the query and of "title. abstract" under a sentence-transformers model.

    The cosine is spread linearly from [``low``, ``high``] to [0, 1]. Encoders differ in the range
    that they use, so both bounds are arguments; fit them for a model with a few known pairs.

    Args:
        model: a folder or a name that sentence-transformers knows.
        device: ``"cpu"``, ``"cuda"``, ...; None lets the library choose.
        low: cosine at and below which a paper is irrelevant.
        high: cosine at and above which it surely meets the query.
        cache_size: embeddings of papers that are kept.
        local_files_only: never contact a hub; a model that is not on disk is an error.
    """

    name = "encoder"

    def __init__(
        self,
        model: str,
        *,
        device: str | None = None,
        low: float = 0.2,
        high: float = 0.8,
        cache_size: int = 100_000,
        local_files_only: bool = True,
    ) -> None:
        if not -1 <= low < high <= 1:
            raise ValueError(f"low, high: expected -1 <= low < high <= 1, got {low}, {high}")
        from sentence_transformers import SentenceTransformer

        self._model: Any = SentenceTransformer(
            model, device=device, local_files_only=local_files_only
        )
        self.low, self.high, self.cache_size = low, high, cache_size
        self._known: OrderedDict[str, npt.NDArray[np.float32]] = OrderedDict()
        self._lock = threading.Lock()

    def score(
        self, question: str, papers: Sequence[Paper], gold: frozenset[str] = frozenset()
    ) -> Sequence[float]:
        keys = [question, *(f"{paper.title}. {paper.abstract}" for paper in papers)]
        with self._lock:
            new = [key for key in dict.fromkeys(keys) if key not in self._known]
            if new:
                vectors = self._model.encode(
                    new, normalize_embeddings=True, show_progress_bar=False, convert_to_numpy=True
                )
                self._known.update(zip(new, vectors, strict=True))
            rows = [self._known[key] for key in keys]
            while len(self._known) > self.cache_size:
                self._known.popitem(last=False)
        cosine = np.stack(rows[1:]) @ rows[0]
        return np.clip((cosine - self.low) / (self.high - self.low), 0.0, 1.0).tolist()
