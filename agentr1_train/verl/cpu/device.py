"""What verl asks of a device, answered for a CPU; free of verl."""

from __future__ import annotations

import resource
from types import ModuleType
from typing import Any

import torch


class CpuDevice(ModuleType):
    """``torch.cpu`` with the calls that verl makes on ``torch.cuda``."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def get_device_name(self, device: Any = None) -> str:
        return "CPU"  # a row of verl's table of peak rates

    def max_memory_allocated(self, device: Any = None) -> int:
        """Peak resident memory of the process, bytes."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    max_memory_reserved = memory_allocated = memory_reserved = max_memory_allocated

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        import psutil

        memory = psutil.virtual_memory()
        return memory.available, memory.total

    def empty_cache(self) -> None: ...

    def ipc_collect(self) -> None: ...

    def set_device(self, device: Any) -> None: ...

    def reset_peak_memory_stats(self, device: Any = None) -> None: ...

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        torch.set_rng_state(state)
