"""New tensors: from values, constants, ranges, and from other libraries' arrays. Random ones are in `random`."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

import numpy as np

from .. import dtypes
from ..device import Storage
from ..device.device import Device
from ..device.layout import layout
from ..device.storage import ForeignStorage
from ..dtypes import dtype as DType
from ..ops import table as t
from .apply import apply, state
from .tensor import Tensor, wrap

_CPU = Device("cpu")


def tensor(data: object, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor holding a copy of `data`: a number, nested sequences, an array or a tensor. Raises ValueError for ragged sequences."""
    if isinstance(data, Tensor):
        result = data.detach().clone().to(device=device or data.device, dtype=dtype or data.dtype)
    else:
        array = _array(data)
        kind = dtype or (dtypes.from_numpy(array.dtype) if isinstance(data, (np.ndarray, np.generic)) else _inferred(array))
        result = _from_array(_converted(array, kind.compute), kind.compute).to(device=device, dtype=kind)
    return result.requires_grad_() if requires_grad else result


def as_tensor(data: object, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """`data` as a tensor, sharing memory where it can (an array of the right dtype, a tensor)."""
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype)
    if isinstance(data, np.ndarray):
        return from_numpy(data).to(device=device, dtype=dtype)
    return tensor(data, dtype=dtype, device=device)


def from_numpy(array: np.ndarray) -> Tensor:
    """The array's memory as a tensor. Read-only arrays are copied. Raises TypeError for other objects and dtypes, ValueError for negative strides."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    kind = dtypes.from_numpy(array.dtype)
    if any(s < 0 for s in array.strides):
        raise ValueError("At least one stride in the given numpy array is negative, and tensors with negative strides are not supported. Make a copy with array.copy().")
    if not array.flags.writeable or not array.dtype.isnative or not array.flags.aligned or any(s % array.itemsize for s in array.strides):
        array = np.array(array, dtype=kind.numpy, order="C", copy=True)
    result = _from_array(array, kind)
    result._storage = ForeignStorage(result._storage.data)
    return result


def _from_array(array: np.ndarray, kind: DType) -> Tensor:
    """A tensor over a writeable, aligned array with non-negative strides of whole elements."""
    strides = tuple(s // array.itemsize for s in array.strides) if array.size else None
    shape = layout(array.shape, kind, _CPU, strides)
    flat = np.ndarray((shape.extent,), kind.storage, array, 0) if array.flags.c_contiguous else _memory(array, shape.extent, kind)
    return wrap(Storage(flat), shape, 0)


def _memory(array: np.ndarray, extent: int, kind: DType) -> np.ndarray:
    """The stretch of memory a strided array touches, as one flat array that keeps the array alive."""
    return np.lib.stride_tricks.as_strided(array.view(kind.storage), (extent,), (array.itemsize,))


def _array(data: object) -> np.ndarray:
    data = _without_tensors(data)
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ValueError(f"expected sequences of equal length at every depth: {error}") from None
    except OverflowError as error:
        raise ValueError(f"Overflow when unpacking a value: {error}") from None
    if array.dtype == object:
        others = [each for each in array.ravel() if not isinstance(each, (bool, int, float))]
        if not others:
            raise ValueError("Overflow when unpacking long: an integer does not fit in 64 bits")
        raise RuntimeError(f"Could not infer dtype of {type(others[0]).__name__}; expected numbers, nested sequences of numbers, arrays or tensors")
    return array


def _without_tensors(data: object) -> object:
    if isinstance(data, Tensor):
        return data.detach().cpu().numpy()
    if isinstance(data, (list, tuple)):
        return [_without_tensors(each) for each in data]
    return data


def _inferred(array: np.ndarray) -> DType:
    if array.size == 0 and array.dtype == np.float64:
        return dtypes.get_default_dtype()
    if array.dtype.kind == "f":
        return dtypes.get_default_dtype()
    return dtypes.from_numpy(array.dtype) if array.dtype.kind == "b" else dtypes.int64 if array.dtype.kind in "iu" else dtypes.from_numpy(array.dtype)


def _converted(array: np.ndarray, kind: DType) -> np.ndarray:
    """A fresh C-ordered array of `kind`. Raises RuntimeError for integers that do not fit."""
    if kind.kind in "iu" and array.dtype.kind in "iu" and array.size and array.dtype != kind.numpy:
        limits = np.iinfo(kind.numpy)
        if array.min() < limits.min or array.max() > limits.max:
            raise RuntimeError(f"value cannot be converted to type {kind.name} without overflow")
    with np.errstate(invalid="ignore", over="ignore"):
        return np.array(array, dtype=kind.numpy, order="C", copy=True)


def _shape(sizes: tuple, name: str) -> tuple[int, ...]:
    """Sizes given as numbers or as one sequence. Raises TypeError and RuntimeError as PyTorch does."""
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        sizes = tuple(sizes[0])
    try:
        sizes = tuple([n.__index__() for n in sizes])
    except AttributeError:
        raise TypeError(f"{name}(): sizes must be ints, got {sizes!r}") from None
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {list(sizes)}")
    if prod(sizes) >= 1 << 60:
        raise RuntimeError(f"{name}(): storage for sizes {list(sizes)} is larger than any memory")
    return sizes


def constant(op: object, inputs: tuple, shape: tuple, dtype: DType | None, device: Device | str | None, requires_grad: bool = False, *strides: tuple) -> Tensor:
    """The result of an op without tensor inputs; row-major where no strides are given."""
    place = _CPU if device is None else Device(device)
    result = apply(op, inputs, (_dtype(dtype), place, tuple(shape), *strides))
    return result.requires_grad_() if requires_grad else result


def _dtype(dtype: DType | None) -> DType:
    if dtype is not None and not isinstance(dtype, DType):
        raise TypeError(f"dtype must be a numod dtype such as numod.float32, got {dtype!r}")
    return dtype or dtypes.get_default_dtype()


def empty(*size: int, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """Uninitialised memory."""
    place = _CPU if device is None else Device(device)
    shape = layout(_shape(size, "empty"), _dtype(dtype), place)
    result = wrap(Storage(place.empty(shape.size, shape.storage)), shape, 0)
    if shape.dtype is dtypes.bool_ and place.type == "cpu":
        result._storage.data.fill(0)  # a byte other than 0 and 1 is no bool
    if state.inference:
        result._inference = True
    return result.requires_grad_() if requires_grad else result


def zeros(*size: int, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """All 0."""
    return constant(t.fill, (0,), _shape(size, "zeros"), dtype, device, requires_grad)


def ones(*size: int, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """All 1."""
    return constant(t.fill, (1,), _shape(size, "ones"), dtype, device, requires_grad)


def full(size: Sequence[int], fill_value: float, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """All `fill_value`; its type gives the dtype."""
    fill_value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return constant(t.fill, (fill_value,), _shape((size,), "full"), dtype or dtypes.of_scalar(fill_value), device, requires_grad)


def _filled_like(input: Tensor, value: float, dtype: DType | None, device: Device | str | None, requires_grad: bool) -> Tensor:  # noqa: A002
    """All `value`, shaped like `input`, in its order of dimensions."""
    own = input._layout
    strides = (own.strides,) if own.packed and not own.dense else ()
    return constant(t.fill, (value,), own.shape, dtype or own.dtype, device or own.device, requires_grad, *strides)


def empty_like(input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:  # noqa: A002
    """Shaped like `input`, in its order of dimensions. (Filled with 0: the order is then one op's.)"""
    return _filled_like(input, 0, dtype, device, requires_grad)


def zeros_like(input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:  # noqa: A002
    """All 0, shaped like `input`."""
    return _filled_like(input, 0, dtype, device, requires_grad)


def ones_like(input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:  # noqa: A002
    """All 1, shaped like `input`."""
    return _filled_like(input, 1, dtype, device, requires_grad)


def full_like(input: Tensor, fill_value: float, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:  # noqa: A002
    """All `fill_value`, shaped like `input`."""
    return _filled_like(input, fill_value.item() if isinstance(fill_value, Tensor) else fill_value, dtype, device, requires_grad)


def arange(*bounds: float, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False, **named: float) -> Tensor:
    """`start, start + step, ...` below `end`: arange(end), arange(start, end), arange(start, end, step)."""
    start, end, step = _bounds(bounds, named)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    kind = dtype or (dtypes.int64 if all(isinstance(each, (int, np.integer)) for each in (start, end, step)) else dtypes.get_default_dtype())
    return constant(t.arange, (start, step), (ceil((end - start) / step),), kind, device, requires_grad)


def _bounds(bounds: tuple, named: dict) -> tuple:
    bounds = tuple(each.item() if isinstance(each, Tensor) else each for each in bounds)
    if len(bounds) == 1 and "end" not in named:
        bounds = (0, *bounds)
    given = {**dict(zip(("start", "end", "step"), bounds)), **named}
    if "end" not in given or len(bounds) > 3:
        raise TypeError("arange() takes (end), (start, end) or (start, end, step)")
    return given.get("start", 0), given["end"], given.get("step", 1)


def linspace(start: float, end: float, steps: int, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """`steps` numbers from `start` to `end`, evenly spaced, both ends included."""
    if steps < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {steps}")
    if dtype is not None and not dtype.is_floating_point:
        return linspace(start, end, steps, dtype=dtypes.float64, device=device).to(dtype)
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    return constant(t.linspace, (float(start), float(end), step, max(steps // 2, 1), steps - 1), (steps,), dtype, device, requires_grad)


def eye(n: int, m: int | None = None, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """The identity matrix, (n, m)."""
    rows, columns = arange(n, device=device).unsqueeze(1), arange(n if m is None else m, device=device)
    result = (rows == columns).to(dtype or dtypes.get_default_dtype())
    return result.requires_grad_() if requires_grad else result


def from_dlpack(external: object) -> Tensor:
    """The memory of any CPU array that speaks DLPack. Read-only memory is copied."""
    if isinstance(external, Tensor):
        return external.view(external.shape)
    return from_numpy(np.from_dlpack(external))


def _legacy(cls: type, *arguments: object, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """The old constructor: sizes give uninitialised memory, a sequence or array its values in the default dtype."""
    if len(arguments) == 1 and not isinstance(arguments[0], (int, np.integer)):
        (data,) = arguments
        if isinstance(data, Tensor):
            return data._alias(cls)
        if isinstance(data, tuple) and all(isinstance(n, int) for n in data) and type(data).__name__ == "Size":
            return empty(data, dtype=dtype, device=device)._alias(cls)
        return tensor(data, dtype=dtype or dtypes.get_default_dtype(), device=device)._alias(cls)
    return empty(*arguments or (0,), dtype=dtype, device=device)._alias(cls)


Tensor._legacy = classmethod(_legacy)


def asarray(obj: object, *, dtype: DType | None = None, device: Device | str | None = None, copy: bool | None = None, requires_grad: bool = False) -> Tensor:
    """`obj` as a tensor; `copy` forces or forbids (ValueError) a copy."""
    result = tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype=dtype, device=device)
    if copy is False and not (isinstance(obj, (Tensor, np.ndarray)) and _shares(result, obj)):
        raise ValueError("can't alias the given object; pass copy=None or copy=True")
    return result.requires_grad_() if requires_grad else result


def _shares(result: Tensor, source: Tensor | np.ndarray) -> bool:
    address = source.data_ptr() if isinstance(source, Tensor) else source.ctypes.data
    return result.data_ptr() == address


def scalar_tensor(value: float, *, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """A zero-dimensional tensor."""
    return full((), value, dtype=dtype or dtypes.get_default_dtype(), device=device)


