"""Copies: in another dtype, on another device, in another memory order, or into another tensor."""

from __future__ import annotations

from numbers import Number

from ...errors import warn_caller
from ... import dtypes
from ...device.device import Device
from ...dtypes import dtype as DType
from ...formats import contiguous_format, memory_format as MemoryFormat, preserve_format
from ...ops import complexes, table as t
from ..apply import apply, apply_into
from ..listeners import lies_dense
from ..shape.formats import follows, in_format
from ..tensor import Tensor

BOTH = "clone"
METHODS = "to contiguous copy_"


def to(
    input: Tensor,
    *arguments: object,
    dtype: DType | None = None,
    device: object = None,
    other: Tensor | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: MemoryFormat = preserve_format,
) -> Tensor:
    """In another dtype and on another device: to(dtype), to(device), to(device, dtype), to(other).

    Itself where nothing changes, unless `copy`.

    Example:

        >>> torch.tensor([1, 2]).to(torch.float32)
        tensor([1., 2.])
    """
    if len(arguments) == 1 and dtype is device is None and not copy:
        if arguments[0] is input._layout.device or arguments[0] is input._layout.dtype:
            return input if memory_format is preserve_format else in_format(input, memory_format)
        if arguments[0].__class__ is DType and memory_format is preserve_format:
            return apply(t.copy, (_without_imaginary(input, arguments[0]),), (arguments[0],))
    flags = 0
    for argument in arguments if other is None else (*arguments, other):
        if isinstance(argument, (DType, type)):
            dtype = argument
        elif isinstance(argument, Tensor):
            dtype, device = argument.dtype, argument.device
        elif isinstance(argument, bool):
            flags += 1
            non_blocking, copy = (argument, copy) if flags == 1 else (non_blocking, argument)
        elif argument is not None:
            device = argument
    device = input.device if device is None else Device(device)
    dtype = dtypes.as_dtype(dtype) or input.dtype
    if not isinstance(dtype, DType):
        raise TypeError(f"to(): dtype must be a numod dtype, got {dtype!r}")
    result = input if device is input.device else _moved(input, device, non_blocking)
    if dtype is not input.dtype:
        result = apply(t.copy, (_without_imaginary(result, dtype),), (dtype,))
    result = result if memory_format is preserve_format else in_format(result, memory_format)
    return input.clone() if result is input and copy else result


def _without_imaginary(input: Tensor, dtype: DType) -> Tensor:
    """The real parts of complex numbers that become real ones, with PyTorch's warning.

    `!= 0` is asked of both parts.
    """
    if not input.is_complex() or dtype.is_complex or dtype is dtypes.bool_:
        return input
    warn_caller("Casting complex values to real discards the imaginary part")
    return complexes.real(input)


def _moved(input: Tensor, device: object, non_blocking: bool) -> Tensor:
    from .transfer import move

    return move(input, device, non_blocking)


def clone(input: Tensor, *, memory_format: MemoryFormat = preserve_format) -> Tensor:
    """A copy with memory of its own.

    Example:

        >>> torch.clone(torch.tensor([1.0, 2.0]))
        tensor([1., 2.])
    """
    if memory_format is not preserve_format and not follows(input, memory_format):
        return in_format(input, memory_format)
    return apply(t.copy, (input,))


def contiguous(input: Tensor, memory_format: MemoryFormat = contiguous_format) -> Tensor:
    """The tensor itself if it is dense in row-major order (or in `memory_format`), else a dense copy.

    Example:

        >>> torch.ones(2, 3).t().contiguous().stride()
        (2, 1)
    """
    if memory_format is not contiguous_format:
        return in_format(input, memory_format)
    return input if lies_dense(input) else apply(t.row_major, (input,))


def copy_(self: Tensor, other: Tensor | float, non_blocking: bool = False) -> Tensor:
    """Fill with `other`, which broadcasts and is converted; returns self.

    Example:

        >>> torch.zeros(2).copy_(torch.tensor([1, 2]))
        tensor([1., 2.])
    """
    if not isinstance(other, Tensor):
        if isinstance(other, Number):
            return self.fill_(other)
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")
    self_layout, other_layout = self._layout, other._layout
    if other_layout is not self_layout:
        other = (
            other
            if other_layout.device is self_layout.device
            else other.to(device=self_layout.device, non_blocking=non_blocking)
        )
        other = _without_imaginary(
            other.expand(self_layout.shape) if other_layout.shape != self_layout.shape else other, self_layout.dtype
        )
    apply_into(t.copy, (other,), (self,), (self_layout.dtype,))
    return self
