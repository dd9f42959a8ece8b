"""DataParallel on a single device: calls the wrapped module, and keeps PyTorch's state dict names (`module.`
prefix).
"""

from __future__ import annotations

from typing import Any

from .module import Module

__all__ = ["DataParallel", "DistributedDataParallel", "scatter"]
__path__: list[str] = []  # PyTorch's is a folder, whose files `numod.paths` finds here


class DataParallel(Module):
    """Calls `module`, as PyTorch does with one device or none."""

    def __init__(self, module: Module, device_ids: list | None = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module, self.device_ids, self.output_device, self.dim = module, device_ids or [], output_device, dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(Module):
    """Raises ValueError, as PyTorch does without a process group: numod has none."""

    def __init__(self, module: Module, *arguments: Any, **named: Any) -> None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> list[Any]:
    """The inputs for each device: as they are, since there is one. Raises ValueError for more."""
    if len(target_gpus) > 1:
        raise ValueError(f"scatter: numod uses one device, got {len(target_gpus)}: {list(target_gpus)}")
    return [inputs]
