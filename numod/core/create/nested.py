"""Nested sequences of numbers, arrays and tensors as one NumPy array, and PyTorch's errors for those that are none."""

from __future__ import annotations

import functools

import numpy as np

from ... import dtypes
from ...dtypes import dtype as DType
from ...errors import warn_caller_once
from ..tensor import Tensor

NUMBERS = frozenset((bool, int, float, complex))
_EXPECTED = "expected numbers, nested sequences of numbers, arrays or tensors"
_TEXT = f"there is text in the data; {_EXPECTED}"
_ADVICE = "pad the rows, or keep a list of tensors"


def _ragged(data: object, sizes: list[int], is_integer: bool, dim: int = 0) -> Exception | None:
    """PyTorch's error for the first item that differs from the `sizes` of the first items; None if there is none."""
    has_length = hasattr(data, "__len__") and not (isinstance(data, np.ndarray) and not data.ndim)
    kind = type(data).__name__
    if dim == len(sizes):
        if not has_length:
            return None
        start = (
            f"'{kind}' object cannot be interpreted as an integer" if is_integer else f"must be real number, not {kind}"
        )
        return TypeError(f"{start}: expected a number at dim {dim}, as in the first row; {_ADVICE}")
    if not has_length:
        return TypeError(f"not a sequence: expected one of length {sizes[dim]} at dim {dim}, got {kind}; {_ADVICE}")
    if len(data) != sizes[dim]:
        return ValueError(f"expected sequence of length {sizes[dim]} at dim {dim} (got {len(data)}); {_ADVICE}")
    return next(filter(None, (_ragged(item, sizes, is_integer, dim + 1) for item in data)), None)


def _sizes(data: object) -> list[int]:
    """The lengths of nested sequences, from their first items."""
    sizes: list[int] = []
    while isinstance(data, (list, tuple)):
        sizes.append(len(data))
        data = data[0] if data else None
    return [*sizes, *data.shape] if isinstance(data, np.ndarray) else sizes


def _is_integer(kinds: set[type | DType | np.dtype], dtype: DType | None) -> bool:
    """Whether a tensor of `dtype`, else of such numbers, holds integers or booleans."""
    kind = dtype or functools.reduce(dtypes.promote_types, map(_kind_of, kinds or {float}))
    return not kind.differentiable


def _uninferred(kinds: set[type | DType | np.dtype]) -> Exception | None:
    """PyTorch's error for objects that are no numbers."""
    others = [kind.__name__ for kind in kinds if isinstance(kind, type) and not issubclass(kind, (*NUMBERS, range))]
    if not others:
        return None
    if others[0] in ("str", "bytes"):
        return TypeError(f"new(): invalid data type '{others[0]}': {_TEXT}")
    return RuntimeError(f"Could not infer dtype of {others[0]}; {_EXPECTED}")


def array_of(data: object, kinds: set[type | DType | np.dtype], dtype: DType | None = None) -> np.ndarray:
    """Nested sequences, arrays and tensors as an array; `kinds` receives the types of their numbers."""
    try:
        data = _without_tensors(data, kinds, _depth(data), dtype)
    except RecursionError:
        raise ValueError("too many dimensions 'list': the data contains itself, or is nested too deeply") from None
    try:
        array = np.asarray(data) if dtype is not dtypes.uint64 else _as_uint64(data, kinds)
    except ValueError as error:
        unknown = _uninferred(kinds) if dtype is None else None
        ragged = unknown or _ragged(data, _sizes(data), _is_integer(kinds, dtype))
        raise ragged or ValueError(f"expected sequences of equal length: {error}") from None
    except OverflowError as error:
        if dtype is dtypes.uint64:
            raise
        raise ValueError(f"Overflow when unpacking a value: {error}") from None
    if array.dtype == object:
        invalid = [item for item in array.ravel() if not isinstance(item, (bool, int, float, complex))]
        if not invalid and dtype is not None and dtype.differentiable:
            return array.astype(np.complex128 if dtype.is_complex else np.float64)
        if not invalid:
            raise ValueError("Overflow when unpacking long: an integer does not fit in 64 bits")
        raise RuntimeError(f"Could not infer dtype of {type(invalid[0]).__name__}; {_EXPECTED}")
    if array.dtype.kind in "SU" and not isinstance(data, np.ndarray):  # NumPy would read the numbers in it
        kind, first = "bytes" if array.dtype.kind == "S" else "str", data
        while isinstance(first, (list, tuple)):
            first = first[0]
        if first is not data and isinstance(first, (str, bytes)):
            raise ValueError(f"too many dimensions '{kind}': {_TEXT}")
        raise TypeError(f"new(): invalid data type '{kind}': {_TEXT}")
    return array


def _as_uint64(data: object, kinds: set[type | DType | np.dtype]) -> np.ndarray:
    """Data for a tensor of uint64, as an array: NumPy alone would round lists of large and small integers to float64.

    Raises OverflowError for Python ints that uint64 cannot hold, and TypeError for Python floats, as PyTorch does.
    """
    if kinds & {float, complex}:
        raise TypeError("an integer is required: convert the floats of the data with int()")
    return np.asarray(data, np.uint64 if kinds <= NUMBERS else None)


def _depth(data: object) -> int:
    """The number of dimensions of nested sequences and arrays, from the first element."""
    depth = 0
    while isinstance(data, (list, tuple)) and data and depth < 64:  # more than NumPy takes, and a list may hold itself
        depth, data = depth + 1, data[0]
    return depth + (data.ndim if isinstance(data, np.ndarray) else isinstance(data, (list, tuple)))


def _without_tensors(
    data: object, kinds: set[type | DType | np.dtype], depth: int, dtype: DType | None = None
) -> object:
    """The data, of `depth` dimensions, with tensors as arrays, or as numbers in place of a number.

    `kinds` receives the types of numbers and the dtypes of arrays and tensors. Raises ValueError, for a tensor of
    integers TypeError, for several elements in place of a number.
    """
    if isinstance(data, (list, tuple)):
        types = set(map(type, data))
        if types <= NUMBERS:
            kinds |= types
            return data
        return [_without_tensors(item, kinds, depth - 1, dtype) for item in data]
    kinds.add(data.dtype if isinstance(data, (Tensor, np.ndarray, np.generic)) else type(data))
    if not isinstance(data, Tensor):
        return data
    array = data.detach().cpu().to(data.dtype.compute).numpy()
    if depth > 0:
        return array
    warn_of_gradient(data)
    if array.size != 1:
        what = f": got one of shape {array.shape} in a sequence; use stack or cat"
        if _is_integer(kinds, dtype):
            raise TypeError(f"only integer tensors of a single element can be converted to an index{what}")
        raise ValueError(f"only one element tensors can be converted to Python scalars{what}")
    return array.reshape(())


def warn_of_gradient(self: Tensor) -> None:
    """PyTorch's warning where a number is taken from a tensor, which loses its gradient."""
    if self.requires_grad:
        warn_caller_once(
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\nConsider using "
            "tensor.detach() first."
        )


def _kind_of(type_: type | DType | np.dtype) -> DType:
    """The dtype of a tensor of such numbers."""
    if isinstance(type_, DType):
        return type_
    if isinstance(type_, np.dtype):
        return dtypes.from_numpy(type_)
    return inferred(
        np.zeros(1, next((kind for kind in (bool, int, float, complex) if issubclass(type_, kind)), float)), set()
    )


def inferred(array: np.ndarray, kinds: set[type | DType | np.dtype]) -> DType:
    """The dtype of a tensor of Python numbers.

    If arrays and tensors are among them, their dtypes promoted, as in PyTorch.
    """
    if not kinds <= NUMBERS and any(isinstance(kind, (DType, np.dtype)) for kind in kinds):
        return functools.reduce(dtypes.promote_types, map(_kind_of, kinds))
    if array.size == 0 and array.dtype == np.float64:
        return dtypes.get_default_dtype()
    if array.dtype.kind in "fc":
        return dtypes.get_default_dtype() if array.dtype.kind == "f" else dtypes.get_default_dtype().to_complex()
    if array.dtype.kind == "b":
        return dtypes.from_numpy(array.dtype)
    if array.dtype.kind in "iu":
        return dtypes.int64
    return dtypes.from_numpy(array.dtype)


def fitting(array: np.ndarray, kind: DType) -> np.ndarray:
    """The array of Python numbers for a tensor of `kind`.

    Raises RuntimeError where integers, or real numbers, cannot hold one of them.
    """
    if array.dtype.kind == "c" and not kind.is_complex and not array.imag.any():
        array = array.real
    if array.size and kind.kind in "iuw" and array.dtype != kind.numpy:
        for bound in (array.min().item(), array.max().item()):  # NaN where there is one
            dtypes.fitting(bound, kind)
    elif array.dtype.kind == "c" and kind.kind == "f":
        dtypes.fitting(1j, kind)
    return array
