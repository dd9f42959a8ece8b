"""Functions of the standard that create arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numod

from .. import Tensor, empty_like, from_dlpack, full_like, ones_like, zeros_like
from .common import shape_of

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid",
    "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """An array of numbers, nested sequences, or another array. `copy=False` raises ValueError if it needs a copy."""
    return numod.asarray(obj, dtype=dtype, device=device, copy=copy)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Numbers from `start` (0 if it is alone) up to `stop`, without it; none if `step` leads away."""
    if step == 0:
        raise ValueError("arange: step must not be 0")
    if dtype is not None and dtype.kind == "w":
        return arange(start, stop, step, dtype=numod.int64, device=device).to(dtype)
    first, last = (0, start) if stop is None else (start, stop)
    if (last - first) * step <= 0:
        return numod.arange(0, 0, 1 if isinstance(first + last + step, int) else 1.0, dtype=dtype, device=device)
    return numod.arange(first, last, step, dtype=dtype, device=device)


def empty(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array whose elements are not set."""
    return numod.empty(shape_of(shape), dtype=dtype, device=device)


def zeros(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of zeros."""
    return numod.zeros(shape_of(shape), dtype=dtype, device=device)


def ones(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of ones."""
    return numod.ones(shape_of(shape), dtype=dtype, device=device)


def full(shape: int | Sequence[int], fill_value: complex, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of one value, by default of its kind of number."""
    return numod.full(shape_of(shape), fill_value, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones on the diagonal `k`, zeros elsewhere."""
    result = numod.zeros(n_rows, n_rows if n_cols is None else n_cols, dtype=dtype, device=device)
    if -n_rows < k < result.shape[1]:
        result.diagonal(k).fill_(1)
    return result


def linspace(
    start: complex, stop: complex, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """`num` numbers at equal distances from `start` to `stop`, without `stop` unless `endpoint`."""
    if endpoint:
        return numod.linspace(start, stop, num, dtype=dtype, device=device)
    return numod.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Coordinate arrays of a grid."""
    return list(numod.meshgrid(*arrays, indexing=indexing))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The lower triangle of matrices, zeros above the diagonal `k`."""
    return numod.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The upper triangle of matrices, zeros below the diagonal `k`."""
    return numod.triu(x, k)
