"""Tensors in a memory format: the channels of images last in memory, first in the shape.

The formats' names are in `numod.formats`.
"""

from __future__ import annotations

from ...formats import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    memory_format as MemoryFormat,
    preserve_format,
)
from ...ops import table as t, view as v
from ..apply import apply
from ..listeners import lies_dense
from ..tensor import Tensor

_RANKS = {channels_last: 4, channels_last_3d: 5}


def in_format(input: Tensor, memory_format: MemoryFormat) -> Tensor:
    """The tensor itself if its elements lie in that order, else a copy that does.

    Raises RuntimeError if the format is for other ranks.
    """
    if follows(input, memory_format):
        return input
    if memory_format is contiguous_format:
        return apply(t.row_major, (input,))
    rank = _RANKS[memory_format]
    if input.ndim != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {memory_format.name} format")
    last = apply(t.row_major, (apply(v.permute, (input,), ((0, *range(2, rank), 1),)),))
    return apply(v.permute, (last,), ((0, rank - 1, *range(1, rank - 1)),))


def follows(input: Tensor, memory_format: MemoryFormat) -> bool:
    """Whether a tensor's elements lie in that order, without gaps."""
    if memory_format is None:
        return True
    if not isinstance(memory_format, MemoryFormat):
        raise TypeError(
            "memory_format must be a numod.memory_format such as numod.channels_last, not "
            f"{type(memory_format).__name__}"
        )
    if memory_format is preserve_format:
        return True
    if memory_format is contiguous_format:
        return input._layout.dense
    if input.ndim != _RANKS[memory_format]:
        return False
    step = 1
    for d in (1, *range(input.ndim - 1, 1, -1), 0):
        if input.shape[d] != 1 and input._layout.strides[d] != step:
            return False
        step *= input.shape[d]
    return True


def is_contiguous(self: Tensor, memory_format: MemoryFormat = contiguous_format) -> bool:
    """Whether the elements lie in row-major order, or that of a memory format, without gaps.

    Example:

        >>> torch.ones(2, 3).t().is_contiguous()
        False
    """
    return lies_dense(self) if memory_format is contiguous_format else follows(self, memory_format)


Tensor.is_contiguous = is_contiguous
