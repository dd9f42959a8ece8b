"""Functions of the standard about dtypes."""

from __future__ import annotations

import builtins
from typing import Any

import numod

from .. import Tensor, broadcast_to

__all__ = ["astype", "broadcast_arrays", "broadcast_to", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]
_KINDS = {
    "bool": lambda row: row.kind == "b",
    "signed integer": lambda row: row.kind == "i",
    "unsigned integer": lambda row: row.kind == "u",
    "integral": lambda row: row.kind in "iu",
    "real floating": lambda row: row.kind == "f",
    "complex floating": lambda row: row.kind == "c",
    "numeric": lambda row: row.kind in "iufc",
}


def _dtype_of(value: Any) -> Any:
    return value.dtype if isinstance(value, Tensor) else value


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The array in another dtype: a copy, unless `copy` is False and it has the dtype already."""
    return x.to(dtype=dtype, device=device, copy=copy)


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The arrays in their common shape."""
    return list(numod.broadcast_tensors(*arrays))


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype (or an array's) becomes `to` by the standard's promotion."""
    return numod.promote_types(_dtype_of(from_), to) == to


def finfo(type: Any, /) -> Any:
    """The limits of a floating dtype, or of an array's."""
    return numod.finfo(_dtype_of(type))


def iinfo(type: Any, /) -> Any:
    """The limits of an integer dtype, or of an array's."""
    return numod.iinfo(_dtype_of(type))


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
