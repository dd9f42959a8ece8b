"""Communication hooks of DistributedDataParallel, at PyTorch's path `distributed.algorithms.ddp_comm_hooks`.

A hook `(state, bucket) -> Future` reduces the gradients of a bucket in the place of the all-reduce, for instance in
fewer bits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from enum import Enum
from importlib import import_module
from typing import Any

from ..core.tensor import Tensor
from ..dtypes import bfloat16, float16
from ..dtypes import dtype as DType
from ..futures import Future
from .collectives import all_reduce
from .group import ProcessGroup, default_group

__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook", "fp16_compress_wrapper",
]  # fmt: skip
Hook = Callable[[Any, "GradBucket"], Future]
default_hooks = sys.modules[__name__]  # `from numod.distributed.algorithms.ddp_comm_hooks import default_hooks`


class BuiltinCommHookType(Enum):
    """Hooks by number, for `_register_builtin_comm_hook`."""

    ALLREDUCE = 1
    FP16_COMPRESS = 2


class GradBucket:
    """The gradients that a hook reduces together: (n,) in one tensor, which `gradients` are parts of."""

    def __init__(self, index: int, buffer: Tensor, parameters: Sequence[Tensor], is_last: bool) -> None:
        self._index, self._buffer, self._parameters, self._is_last = index, buffer, list(parameters), is_last

    def index(self) -> int:
        """The bucket's number, in the order of reduction."""
        return self._index

    def buffer(self) -> Tensor:
        """All gradients, (n,)."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the tensor that `buffer` returns, for hooks that wrap others."""
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """The gradient of each parameter, as a view of the buffer."""
        parts = self._buffer.split([parameter.numel() for parameter in self._parameters])
        return [part.view(parameter.shape) for part, parameter in zip(parts, self._parameters)]

    def parameters(self) -> list[Tensor]:
        """The parameters."""
        return self._parameters

    def is_last(self) -> bool:
        """Whether no bucket comes after it in this backward pass."""
        return self._is_last


def _averaged(group: ProcessGroup | None, values: Tensor) -> Future:
    """The average of the ranks' values, in place. They are divided first, since sums of float16 could overflow."""
    group = default_group(group)
    work = all_reduce(values.div_(group.size()), group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """The average, as without a hook. The state is a process group or None."""
    return _averaged(process_group, bucket.buffer())


def compressing(dtype: DType, name: str) -> Hook:
    """A hook that sends gradients as `dtype`."""

    def hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
        buffer = bucket.buffer()
        return _averaged(process_group, buffer.to(dtype)).then(lambda future: buffer.copy_(future.value()))

    hook.__name__ = hook.__qualname__ = name
    hook.__doc__ = f"The average, sent and summed as {dtype.name}. The state is a process group or None."
    return hook


def _wrapping(dtype: DType, name: str) -> Callable[[Hook], Hook]:
    def wrapper(hook: Hook) -> Hook:
        def wrapped(state: Any, bucket: GradBucket) -> Future:
            buffer = bucket.buffer()
            bucket.set_buffer(buffer.to(dtype))
            return hook(state, bucket).then(lambda future: buffer.copy_(future.value()))

        return wrapped

    wrapper.__name__ = wrapper.__qualname__ = name
    wrapper.__doc__ = f"A hook that gives another hook the gradients as {dtype.name}."
    return wrapper


fp16_compress_hook, bf16_compress_hook = (
    compressing(float16, "fp16_compress_hook"), compressing(bfloat16, "bf16_compress_hook"),
)  # fmt: skip
fp16_compress_wrapper, bf16_compress_wrapper = (
    _wrapping(float16, "fp16_compress_wrapper"), _wrapping(bfloat16, "bf16_compress_wrapper"),
)  # fmt: skip
BUILTIN = {BuiltinCommHookType.ALLREDUCE: allreduce_hook, BuiltinCommHookType.FP16_COMPRESS: fp16_compress_hook}


def __getattr__(name: str) -> object:
    """PyTorch's modules of other hooks. They build on this one, so that they are imported when they are asked for."""
    homes = {"powerSGD_hook": ".power_sgd", "post_localSGD_hook": ".local_sgd"}
    if name not in homes:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return import_module(homes[name], __package__)
