"""Arithmetic of uint16, uint32 and uint64, which numod converts only: in int64, which wraps to their bits."""

from __future__ import annotations

from collections.abc import Callable

import numod

from ...core import Tensor
from ..tensors import as_tensor

_UNSIGNED = {numod.uint16, numod.uint32, numod.uint64}
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def in_int64(function: Callable[..., Tensor], of_uint64: Callable[..., Tensor] | None = None) -> Callable[..., Tensor]:
    """`function`, which then takes tensors of wide unsigned dtypes, too.

    `of_uint64` computes the int64 with the result's bits where numbers of 2**63 and more, which are negative in int64,
    make a difference.
    """

    def compute(*tensors: Tensor) -> Tensor:
        dtype = tensors[0].dtype
        if dtype not in _UNSIGNED:
            return function(*tensors)
        signed = [tensor.to(numod.int64) for tensor in tensors]
        result = (of_uint64 if dtype is numod.uint64 and of_uint64 else function)(*signed)
        return result if result.dtype is numod.bool else result.to(dtype)

    return compute


def in_order(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """For `in_int64`: a comparison, maximum or minimum, on numbers moved so that their order is that of uint64."""

    def compute(*tensors: Tensor) -> Tensor:
        result = function(*[tensor + _INT64_MIN for tensor in tensors])
        return result if result.dtype is numod.bool else result + _INT64_MIN

    return compute


def shift_right(x: Tensor, count: Tensor) -> Tensor:
    """For `in_int64`: a shift that moves zeros in."""
    halved = numod.bitwise_right_shift(x, 1) & _INT64_MAX
    return numod.where(count == 0, x, numod.bitwise_right_shift(halved, numod.clamp(count - 1, min=0)))


def divide(a: Tensor, b: Tensor) -> Tensor:
    """For `in_int64`: the quotient. Halving makes both positive; what is lost corrects the quotient by one at most."""
    one = as_tensor(1)
    half = numod.div(shift_right(a, one), numod.where(b < 0, one, b), rounding_mode="trunc")
    quotient = numod.where(b < 0, 0, 2 * half)
    rest = a - quotient * b
    return quotient + in_order(numod.ge)(rest, b).to(numod.int64)


def remainder(a: Tensor, b: Tensor) -> Tensor:
    """For `in_int64`: the remainder."""
    return a - divide(a, b) * b


def sign(x: Tensor) -> Tensor:
    """For `in_int64`: 1, or 0 for 0."""
    return (x != 0).to(numod.int64)
