"""Functions of the standard about dtypes."""

from __future__ import annotations

import builtins
from typing import Any, NamedTuple

import numod

from .. import Tensor
from ..dtypes import RANGES

__all__ = ["astype", "broadcast_arrays", "broadcast_to", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]
_KINDS = {
    "bool": lambda row: row.kind == "b",
    "signed integer": lambda row: row.kind == "i",
    "unsigned integer": lambda row: row.kind in "uw",
    "integral": lambda row: row.kind in "iuw",
    "real floating": lambda row: row.kind == "f",
    "complex floating": lambda row: row.kind == "c",
    "numeric": lambda row: row.kind in "iuwfc",
}


def _dtype_of(value: Any) -> Any:
    return value.dtype if isinstance(value, Tensor) else value


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The array in another dtype: a copy, unless `copy` is False and it has the dtype already."""
    return x.to(dtype=dtype, device=device, copy=copy)


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """The array repeated along axes of size 1, and along new ones in front."""
    return numod.broadcast_to(x, tuple(shape))


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The arrays in their common shape."""
    return list(numod.broadcast_tensors(*arrays))


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype (or an array's) becomes `to` by the standard's promotion."""
    dtype = _dtype_of(from_)
    if "w" in (dtype.kind, to.kind) and isdtype(dtype, "integral") and isdtype(to, "integral"):
        (low, high), (least, most) = (
            RANGES[dtype],
            RANGES[to],
        )  # numod promotes uint16, uint32 and uint64 to floats only
        return least <= low and high <= most
    try:
        return numod.promote_types(dtype, to) == to
    except RuntimeError:
        return False


class FloatInfo(NamedTuple):
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


class IntegerInfo(NamedTuple):
    bits: int
    max: int
    min: int
    dtype: Any


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating dtype, or of an array's; of a complex one those of its parts."""
    dtype = _dtype_of(type).to_real()
    limits = numod.finfo(dtype)
    return FloatInfo(limits.bits, limits.eps, limits.max, limits.min, limits.smallest_normal, dtype)


def iinfo(type: Any, /) -> IntegerInfo:
    """The limits of an integer dtype, or of an array's."""
    dtype = _dtype_of(type)
    limits = numod.iinfo(dtype)
    return IntegerInfo(limits.bits, limits.max, limits.min, dtype)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is another one, of a kind such as "integral", or one of several of them."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, member) for member in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: kind must be one of {', '.join(map(repr, _KINDS))}, got {kind!r}")
        return _KINDS[kind](dtype)
    return dtype == kind


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype of an operation of all arguments; Python numbers count by their kind only."""
    numbers = [value for value in arrays_and_dtypes if isinstance(value, (builtins.bool, int, float, complex))]
    dtypes = [_dtype_of(value) for value in arrays_and_dtypes if isinstance(value, (Tensor, numod.dtype))]
    if not dtypes:
        raise ValueError("result_type: at least one array or dtype is required")
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = numod.promote_types(result, dtype)
    for number in numbers:
        result = numod.result_type(numod.empty(1, dtype=result), number)
    return result
