"""A CPU as one of verl's platforms: FSDP2 over gloo, and "GPUs" that are names for Ray alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
from verl.plugin.platform import PlatformRegistry
from verl.plugin.platform.platform_cuda import PlatformCUDA

from agentr1_train.verl.cpu.device import CpuDevice


class PlatformCPU(PlatformCUDA):
    """Named "cpu"; see the module's docstring."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = CpuDevice("agentr1_cpu_device")

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False  # never chosen by itself, only by VERL_PLATFORM=cpu

    def current_device(self) -> Any:
        return "cpu"  # verl passes it to Tensor.to

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: Any) -> None: ...

    def synchronize(self, device_index: Any = None) -> None: ...

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def set_allocator_settings(self, settings: str) -> None: ...

    def empty_cache(self) -> None: ...

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def is_ipc_supported(self) -> bool:
        return False

    def rollout_env_vars(self) -> dict[str, str]:
        return {}

    @contextlib.contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None: ...

    def profiler_stop(self) -> None: ...

    def cudart(self) -> None:
        return None


def install(after_import: Callable[[str, Callable[[ModuleType], None]], None]) -> None:
    """Register platform and rollout; teach torch the backend string that verl builds."""
    PlatformRegistry.register(platform="cpu")(PlatformCPU)
    start = torch.distributed.init_process_group

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
        # verl asks for "cpu:gloo,<device>:<backend>", and torch refuses a device named twice.
        if backend and backend.replace(" ", "") == "cpu:gloo,cpu:gloo":
            backend = "gloo"
        return start(backend, *args, **kwargs)

    torch.distributed.init_process_group = init_process_group
    after_import("verl.workers.rollout.replica", _register_replica)
    after_import("verl.workers.rollout.base", _register_adapter)
    after_import("verl.workers.engine.fsdp.transformer_impl", _keep_in_place)


def _register_replica(module: Any) -> None:
    def load() -> type:
        from agentr1_train.verl.cpu.rollout import HFReplica

        return HFReplica

    module.RolloutReplicaRegistry.register("hf_cpu", load)


def _register_adapter(module: Any) -> None:
    module._ROLLOUT_REGISTRY["hf_cpu", "async"] = "agentr1_train.verl.cpu.rollout.ServerAdapter"


def _keep_in_place(module: Any) -> None:
    """A reference model is offloaded to pinned memory, which only a GPU's driver can give."""
    from torch.distributed.fsdp import OffloadPolicy

    module.CPUOffloadPolicy = lambda pin_memory=True: OffloadPolicy()
