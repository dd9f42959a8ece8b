"""`make_tensor`: random test data within bounds that suit the dtype. For training data use `numod.rand`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import dtypes
from ..core.math.complexes import complex_
from ..core.functions import where
from ..core.create.random import rand, randint
from ..core.tensor import Tensor
from ..device.device import Device
from ..dtypes import dtype as DType


def make_tensor(
    *shape: int | Sequence[int],
    dtype: DType,
    device: Device | str = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: object = None,
) -> Tensor:
    """A tensor of `shape` with random values in [low, high), by default within [-9, 9] and the dtype's range.

    `noncontiguous` leaves gaps along the last dimension (for more than one element). `exclude_zero` replaces zeros with
    the smallest positive normal number, or 1. Raises ValueError for bounds that are NaN, empty or outside the dtype,
    and for options that contradict each other.
    """
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, "
            f"but got noncontiguous={noncontiguous} and memory_format={memory_format}"
        )
    if requires_grad and not dtype.differentiable:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}"
        )
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    gaps = noncontiguous and math.prod(sizes) > 1
    result = _values((*sizes[:-1], 2 * sizes[-1]) if gaps else sizes, dtype, device, low, high)
    if exclude_zero:
        result = where(result == 0, dtypes.finfo(dtype).tiny if dtype.differentiable else 1, result).to(dtype)
    return (result[..., ::2] if gaps else result).requires_grad_(requires_grad)


def _values(
    shape: tuple[int, ...], dtype: DType, device: Device | str, low: float | None, high: float | None
) -> Tensor:
    if dtype.is_complex:
        return complex_(*(_values(shape, dtype.real, device, low, high) for _ in range(2)))
    low, high = _bounds(dtype, low, high)
    if not dtype.is_floating_point:
        # limits, so that the difference fits into an int64
        low, high = max(math.ceil(low), -(1 << 62)), min(math.ceil(high), (1 << 62) - 1)
        return randint(low, high, shape, dtype=dtypes.int64, device=device).to(dtype)
    share = rand(shape, dtype=dtype.compute, device=device)
    # high - low could overflow
    return (share * high + (1 - share) * low).clamp(low, high).to(dtype)


def _bounds(dtype: DType, low: float | None, high: float | None) -> tuple[float, float]:
    """The bounds limited to the dtype's range. For integers, `high` is exclusive."""
    if dtype.is_floating_point:
        lowest, end, default = dtypes.finfo(dtype).min, dtypes.finfo(dtype).max, (-9, 9)
    else:
        lowest, end = (0, 2) if dtype is dtypes.bool_ else (dtypes.iinfo(dtype).min, dtypes.iinfo(dtype).max + 1)
        default = (max(lowest, -9), min(end, 10))
    low, high = default[0] if low is None else low, default[1] if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    if low > high or (low == high and not dtype.is_floating_point):
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if high < lowest or low >= end:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{lowest}, {end})"
        )
    return max(low, lowest), min(high, end)
