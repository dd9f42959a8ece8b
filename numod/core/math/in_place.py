"""In-place methods that take more arguments than their row:

`add_` with alpha, `div_` with a rounding mode, `clamp_` with two bounds, `fill_`.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import warn_caller
from ... import dtypes
from ...ops import table as t
from ..convert.copies import copy_
from . import elementwise
from ..apply import apply_into, as_tensor_of
from .elementwise import checked_fill, divisor, in_older_order, quotient, refuse_masks, scale_of
from ..tensor import Tensor

METHODS = """
    add_ sub_ subtract_=sub_ div_ divide_=div_ true_divide_=div_ floor_divide_ remainder_ fmod_ clamp_
    clip_=clamp_ round_ fill_ zero_ masked_fill_ addcmul_ addcdiv_
"""


def _scaled(row: object, sign: int) -> Callable:
    """`add_` or `sub_`: without alpha the row itself, else the sum with `sign * alpha * other`."""

    def method(self: Tensor, other: Tensor | float, third: Tensor | None = None, *, alpha: float = 1) -> Tensor:
        if third is not None:
            other, alpha = in_older_order(f"{row.name}_", other, (third,))
        if sign < 0:
            refuse_masks(self, other)
        alpha = scale_of(self, other, alpha)
        if alpha == 1:
            apply_into(row, (self, other), (self,))
        else:
            apply_into(t.add_scaled, (self, other, sign * alpha), (self,))
        return self

    return method


def div_(self: Tensor, other: Tensor | float, *, rounding_mode: str | None = None) -> Tensor:
    """Divide by `other`; `rounding_mode` "floor" or "trunc" rounds the quotient.

    Raises RuntimeError where the dtype cannot hold a true quotient.
    """
    apply_into(quotient(rounding_mode), (self, other if rounding_mode is None else divisor(self, other)), (self,))
    return self


def floor_divide_(self: Tensor, other: Tensor | float) -> Tensor:
    """Divide by `other`, rounded towards minus infinity. Raises RuntimeError for an integer division by zero."""
    return div_(self, other, rounding_mode="floor")


def remainder_(self: Tensor, other: Tensor | float) -> Tensor:
    """Replace by the remainder of a division by `other`, with the sign of `other`.

    Raises RuntimeError for an integer division by zero.
    """
    apply_into(t.remainder, (self, divisor(self, other)), (self,))
    return self


def fmod_(self: Tensor, other: Tensor | float) -> Tensor:
    """Replace by the remainder of a division by `other`, with the sign of `self`.

    Raises RuntimeError for an integer division by zero.
    """
    apply_into(t.fmod, (self, divisor(self, other)), (self,))
    return self


def clamp_(self: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    """Limit to [min, max]; either bound may be None, a number or a tensor. Raises RuntimeError where both are None.

    Example:

        >>> x = torch.tensor([-2.0, 0.5, 3.0])
        >>> x.clamp_(-1, 1)
        tensor([-1.0000,  0.5000,  1.0000])
    """
    if min is None and max is None:
        raise RuntimeError("numod.clamp: At least one of 'min' or 'max' must not be None")
    if max is None:
        apply_into(t.clamp_min, (self, min), (self,))
    elif min is None:
        apply_into(t.clamp_max, (self, max), (self,))
    else:
        apply_into(t.clamp, (self, min, max), (self,))
    return self


def round_(self: Tensor, *, decimals: int = 0) -> Tensor:
    """Round to the nearest integer (or multiple of 10^-decimals), halves to even.

    Example:

        >>> torch.tensor([1.26]).round_(decimals=1)
        tensor([1.3000])
    """
    if decimals:
        return copy_(self, elementwise.round(self, decimals=decimals))
    apply_into(t.round, (self,), (self,))
    return self


def fill_(self: Tensor, value: Tensor | float) -> Tensor:
    """Fill with `value`. Raises RuntimeError for a number that the dtype does not hold.

    Example:

        >>> torch.zeros(2).fill_(3.0)
        tensor([3., 3.])
    """
    value = dtypes.fitting(value, self._layout.dtype)
    if isinstance(value, Tensor) and value.dtype.is_complex and not value.ndim and not self.dtype.is_complex:
        return copy_(self, value)
    if (number := as_tensor_of(value)) is not None:
        return copy_(self, number)
    return _filled(self, value)


def zero_(self: Tensor) -> Tensor:
    """Fill with zeros.

    Example:

        >>> torch.ones(2).zero_()
        tensor([0., 0.])
    """
    return _filled(self, 0)


def _filled(self: Tensor, value: Tensor | float) -> Tensor:
    part, self_layout = self, self._layout
    if self_layout.overlapping and not isinstance(value, Tensor):
        part = unexpanded(self)
        self_layout = part._layout
    apply_into(t.fill, (value,), (part,), (self_layout.dtype, self_layout.device, self_layout.shape))
    return self


def unexpanded(self: Tensor) -> Tensor:
    """The part of an expanded tensor that contains each element once."""
    part = self
    for d, step in enumerate(self._layout.strides):
        part = part if step else part.narrow(d, 0, min(1, self.shape[d]))
    return part


def memory_of(self: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """(memory as a vector, indices of the elements in it) of a tensor in which several elements share memory.

    Warns, as PyTorch does, that `name` will write to it; the last write to an element wins.
    """
    warn_caller(
        f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing this "
        "operation. This also applies to advanced indexing "
        "e.g. tensor[indices] = tensor"
    )
    shape, strides = tuple(self.shape), self._layout.strides
    extent = 1 + sum([(n - 1) * step for n, step in zip(shape, strides)])
    return self.as_strided((extent,), (1,)), self._places(shape, strides, 0)


def masked_fill_(self: Tensor, mask: Tensor, value: Tensor | float) -> Tensor:
    """Write `value` where mask is true.

    Example:

        >>> torch.zeros(3).masked_fill_(torch.tensor([True, False, True]), 5.0)
        tensor([5., 0., 5.])
    """
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    if self._layout.overlapping:
        memory, places = memory_of(self, "masked_fill_")
        memory.index_fill_(0, places[mask.expand(self.shape)], checked_fill(value, self.dtype))
        return self
    apply_into(t.where, (mask, checked_fill(value, self.dtype), self), (self,), (self.dtype,))
    return self


def _addcmul(row: object) -> Callable:
    """`addcmul_` or `addcdiv_`."""

    def method(self: Tensor, tensor1: Tensor, tensor2: Tensor, *third: Tensor, value: float = 1) -> Tensor:
        if third:
            tensor1, tensor2, value = in_older_order(f"{row.name}_", tensor1, (tensor2, *third), 2)
        apply_into(row, (self, tensor1, tensor2, value), (self,))
        return self

    return method


add_, sub_ = _scaled(t.add, 1), _scaled(t.sub, -1)
addcmul_, addcdiv_ = _addcmul(t.addcmul), _addcmul(t.addcdiv)
