"""Rows of a table by index, and the reverse."""

from __future__ import annotations

from ... import dtypes
from ...core import functions as f
from ...core.tensor import Tensor

__all__ = ["embedding", "one_hot"]


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:  # noqa: A002
    """Rows of weight (count, size) at indices of any shape -> (..., size). Row `padding_idx` gets no gradient. Raises IndexError outside."""
    if not weight.ndim == 2:
        raise RuntimeError("'weight' must be 2-D")
    if input.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(f"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got numod.{input.dtype.short}Tensor instead")
    flat = f.reshape(input, -1).to(dtypes.int64)
    rows = f.index_select(weight, 0, f.check_bounds("embedding()", flat, weight.shape[0], 0))
    if padding_idx is not None:
        padding_idx %= weight.shape[0]
        rows = f.where((flat == padding_idx).unsqueeze(1), rows.detach(), rows)
    return f.reshape(rows, (*input.shape, weight.shape[1]))


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 (..., num_classes): 1 at the index, else 0."""
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, got {tensor.dtype}")
    if tensor.numel() and (tensor.min() < 0)._observe():
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        num_classes = tensor.max()._observe() + 1 if tensor.numel() else 0
    elif tensor.numel() and (tensor.max() >= num_classes)._observe():
        raise RuntimeError("Class values must be smaller than num_classes.")
    return (tensor.unsqueeze(-1) == tensor.new_arange(num_classes)).to(dtypes.int64)
