"""Pooling of bytes with kernels for channels innermost, which is how convolutions of integers lay images out."""

from __future__ import annotations

from contextvars import ContextVar
from math import prod

from ... import dtypes
from ...ops.image.byte_pooling import MOST_ELEMENTS
from ...ops.op import Op
from ..apply import apply
from ..tensor import Tensor
from .convolutions import records_float_layers

_BYTES = dtypes.int8, dtypes.uint8
# the integer that stands for zero while a mean of quantized images is computed from their integers
zero_of_bytes: ContextVar[int | None] = ContextVar("zero_of_bytes", default=None)

# whether the integers that a function of maxima gets are those of a quantized tensor: plain ones have fewer functions
is_quantized: ContextVar[bool] = ContextVar("is_quantized", default=False)


def averaged_dtypes() -> tuple[dtypes.dtype, ...]:
    """The dtypes of integers that have means now."""
    return () if zero_of_bytes.get() is None else _BYTES


def pools_bytes(x: Tensor, ndim: int) -> bool:
    """Whether `pooled_bytes` takes this input for pooling over `ndim` dimensions."""
    is_plain = x.dtype in _BYTES and ndim == 2 and x.ndim == 4 and x.device.type == "cpu"
    is_plain = is_plain and prod(x.shape[2:]) <= MOST_ELEMENTS
    return is_plain and not records_float_layers.get()


def pooled_bytes(op: Op, x: Tensor, attributes: tuple) -> Tensor:
    """The pooled images (N, C, H, W). Planes that are contiguous are pooled as images of one channel."""
    images = x.movedim(1, -1)
    if images.is_contiguous() or not x.is_contiguous():
        return apply(op, (images.contiguous(),), attributes).movedim(-1, 1)
    planes = apply(op, (x.reshape(-1, *x.shape[2:], 1),), attributes)
    return planes.reshape(*x.shape[:2], *planes.shape[1:3])
