"""DistributedDataParallel, imported on first use, and DataParallel, which on one device calls the wrapped module.

Both keep PyTorch's state dict names (`module.` prefix).
"""

from __future__ import annotations

from typing import Any

from ..module import Module

__all__ = ["DataParallel", "DistributedDataParallel", "scatter"]


class DataParallel(Module):
    """Calls `module`, as PyTorch does with one device or none.

    Example:

        >>> nn.DataParallel(nn.Linear(2, 3))(torch.ones(4, 2)).shape
        numod.Size([4, 3])
    """

    def __init__(self, module: Module, device_ids: list | None = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module, self.device_ids, self.output_device, self.dim = module, device_ids or [], output_device, dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> list[Any]:
    """The inputs for each device: as they are, since there is one. Raises ValueError for more."""
    if len(target_gpus) > 1:
        raise ValueError(f"scatter: numod uses one device, got {len(target_gpus)}: {list(target_gpus)}")
    return [inputs]


def __getattr__(name: str) -> Any:
    if name != "DistributedDataParallel":
        raise AttributeError(f"module 'numod.nn.parallel' has no attribute '{name}'")
    from .distributed import DistributedDataParallel

    return DistributedDataParallel
