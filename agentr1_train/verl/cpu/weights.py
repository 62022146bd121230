"""Weights from the training workers to rollout servers of their own, through a file.

``rollout.checkpoint_engine.backend=file``: for verl's separate_async on one machine without a GPU.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import torch
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry


@CheckpointEngineRegistry.register("file")
class FileEngine(CheckpointEngine):
    """The first training rank writes, every server reads, and the file goes when all have it."""

    def __init__(self, bucket_size: int, is_master: bool = False, **_: Any) -> None:
        self.master = is_master
        self.path = Path()

    def prepare(self) -> str | None:
        """Where the weights will be; None from all but the first training rank."""
        return tempfile.mkdtemp(prefix="agentr1-weights-") if self.master else None

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: list[Any]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Everybody is told the first training rank's folder."""
        join = ["init_process_group"] * rollout_world_size
        readers = {"folder": metadata[:1] * rollout_world_size, "method": join}
        return {"folder": metadata[:1] * actor_wg_world_size}, readers

    def init_process_group(self, folder: str) -> None:
        self.path = Path(folder, "weights.pt")

    def finalize(self) -> None:
        """Called when all have read."""
        if self.master:
            self.path.unlink()
            self.path.parent.rmdir()

    async def send_weights(
        self, weights: Iterator[tuple[str, torch.Tensor]], global_steps: int | None = None
    ) -> None:
        """Every rank walks the iterator: gathering a sharded tensor takes all of them."""
        state = {name: w.detach().cpu().clone() for name, w in weights}
        if self.master:
            part = self.path.with_suffix(".part")
            torch.save(state, part)
            os.replace(part, self.path)

    async def receive_weights(
        self, global_steps: int | None = None
    ) -> AsyncIterator[tuple[str, torch.Tensor]]:
        """Names and tensors, once they are there."""
        while not self.path.is_file():
            await asyncio.sleep(0.05)
        for name, tensor in torch.load(self.path, weights_only=True).items():
            yield name, tensor
