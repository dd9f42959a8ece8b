"""DistributedDataParallel, imported on first use, and DataParallel, which on one device calls the wrapped module.

Both keep PyTorch's state dict names (`module.` prefix).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core import Tensor, cat
from ..module import Module

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter",
]  # fmt: skip


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
    _check_one("scatter", target_gpus)
    return [inputs]


def _check_one(name: str, devices: Sequence) -> None:
    if len(devices) > 1:
        raise ValueError(f"{name}: numod uses one device, got {len(devices)}: {list(devices)}")


def scatter_kwargs(inputs: Any, kwargs: dict | None, target_gpus: Any, dim: int = 0) -> tuple[tuple, tuple]:
    """(inputs of each device, keyword arguments of each device), for the one device."""
    return tuple(scatter(inputs, target_gpus, dim)), tuple(scatter(kwargs or {}, target_gpus, dim))


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """The outputs of replicas as one: tensors in a row along `dim`, at the same positions of containers."""
    first = outputs[0]
    if isinstance(first, Tensor):
        parts = [output.unsqueeze(0) if output.ndim == 0 else output for output in outputs]
        return cat(parts, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(output) != len(first) for output in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([output[key] for output in outputs], target_device, dim)) for key in first)
    items = [gather(items, target_device, dim) for items in zip(*outputs)]
    return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)


def replicate(network: Module, devices: Sequence, detach: bool = False) -> list[Module]:
    """The copies of a network on each device: the network itself, since there is one device."""
    _check_one("replicate", devices)
    return [network]


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict] | None = None,
    devices: Sequence | None = None,
) -> list[Any]:
    """Call each module with its input (a tuple of positional arguments) and its keyword arguments, in turn."""
    if len(modules) != len(inputs):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}")
    kwargs_tup = kwargs_tup or [{}] * len(modules)
    arguments = [value if isinstance(value, (list, tuple)) else (value,) for value in inputs]
    return [module(*values, **kwargs) for module, values, kwargs in zip(modules, arguments, kwargs_tup)]


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict | None = None,
) -> Any:
    """`module(*inputs)`, as PyTorch does with one device or none. Raises ValueError for more devices.

    Example:

        >>> nn.parallel.data_parallel(nn.Linear(2, 3), torch.ones(4, 2)).shape
        numod.Size([4, 3])
    """
    _check_one("data_parallel", device_ids or ())
    return parallel_apply([module], [inputs], [module_kwargs or {}])[0]


def __getattr__(name: str) -> Any:
    if name != "DistributedDataParallel":
        raise AttributeError(f"module 'numod.nn.parallel' has no attribute '{name}'")
    from .distributed import DistributedDataParallel

    return DistributedDataParallel
