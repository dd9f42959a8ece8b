"""New tensors: from values, constants, ranges, and from other libraries' arrays. Random ones are in `random`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from math import ceil, isinf, isnan, prod

import numpy as np

from .. import dtypes
from ..device import Storage
from ..device.device import Device, default_device
from ..device.layout import layout
from ..device.storage import ForeignStorage
from ..dtypes import dtype as DType
from ..formats import layout as Layout, memory_format as MemoryFormat, preserve_format, strided
from ..ops import table as t
from ..ops.triangle import band
from .apply import apply, as_tensor_of, state, tell_made
from .arguments import wrong_argument
from .resolve import flat, resolved, whole
from .tensor import Tensor, wrap

_CPU = Device("cpu")
_NUMBERS = frozenset((bool, int, float, complex))


def factory(function: Callable) -> Callable:
    """Decorator of creation functions that adds PyTorch's further options: `out`, `memory_format`, and `layout` and `pin_memory`, which have no effect."""

    code = function.__code__
    takes_sizes = code.co_flags & 4 and code.co_varnames[code.co_argcount + code.co_kwonlyargcount] == "size"

    @functools.wraps(function)
    def make(
        *arguments: object, out: Tensor | None = None, layout: Layout | None = strided, pin_memory: bool | None = False,
        memory_format: MemoryFormat = preserve_format,
        **named: object,
    ) -> Tensor:
        if named:
            if "size" in named and takes_sizes:  # sizes given one by one may also come as one sequence, also by name
                arguments = (named.pop("size"),)
            if named.get("dtype").__class__ is type:
                named["dtype"] = dtypes.given(named["dtype"])
        if layout is not strided and layout is not None:
            raise TypeError(f"{function.__name__}(): argument 'layout' must be numod.strided, not {layout!r}")
        if out is not None:
            from .elementwise import write_result

            result = function(*arguments, **{"dtype": out.dtype, "device": out.device, **named})
            ranged = result.ndim == 1 and result.numel() == out.numel() and not takes_sizes  # it keeps the shape of `out`
            return write_result(function.__name__, result.reshape(out.shape) if ranged else result, out)
        try:
            result = function(*arguments, **named)
        except AttributeError as error:
            raise wrong_argument(function.__name__, function, arguments, named) or error from None
        return result if memory_format is preserve_format else _in_format(result, memory_format)

    return make


def _in_format(result: Tensor, memory_format: MemoryFormat) -> Tensor:
    from .formats import in_format

    changed = in_format(result.detach(), memory_format)
    return changed.requires_grad_(result.requires_grad)


def tensor(data: object, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:
    """A tensor holding a copy of `data`: a number, nested sequences, an array or a tensor. Raises ValueError for ragged sequences."""
    dtype = dtypes.given(dtype)
    if (number := _of_number(data, dtype, device)) is not None:
        result = number.clone()
    elif isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), "
            "rather than numod.tensor(sourceTensor).",
            stacklevel=2,
        )
        result = data.detach().clone().to(device=device or data.device, dtype=dtype or data.dtype)
    elif hasattr(data, "__cuda_array_interface__"):
        result = as_tensor(data, dtype, device).clone()
    else:
        kinds: set[type | DType | np.dtype] = set()
        array, numpy = _array(data, kinds, dtype), isinstance(data, (np.ndarray, np.generic))
        kind = dtype or (dtypes.from_numpy(array.dtype) if numpy else _inferred(array, kinds))
        array = array if numpy else _fitting(array, kind)
        made = tell_made(_from_array(_converted(array, kind.compute), kind.compute), "array" if isinstance(data, np.ndarray) else "values")
        device = default_device() if device is None else device
        result = made if device is _CPU and kind is kind.compute else made.to(device=device, dtype=kind)
    return result.requires_grad_() if requires_grad else result


def _of_number(value: object, dtype: DType | None, device: Device | str | None) -> Tensor | None:
    """The tensor of what stands for a number while a function is recorded, where the dtype holds what the number is."""
    number = as_tensor_of(value)
    if number is None:
        return None
    dtype = dtypes.given(dtype) or (dtypes.get_default_dtype() if number.is_floating_point() else number.dtype)
    same = dtype in (dtypes.float32, dtypes.float64) or dtype is number.dtype
    return number.to(device=default_device() if device is None else device, dtype=dtype) if same else None


def as_tensor(data: object, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """`data` as a tensor, sharing memory where it can (an array of the right dtype, a tensor)."""
    if (number := _of_number(data, dtype, device)) is not None:
        return number
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype)
    if isinstance(data, np.ndarray):
        return from_numpy(data).to(device=device, dtype=dtype)
    if hasattr(data, "__cuda_array_interface__"):
        from .exchange import from_cuda_array

        return from_cuda_array(data).to(device=device, dtype=dtype)
    return tensor(data, dtype=dtype, device=device)


def computed(array: np.ndarray, dtype: DType, device: Device) -> Tensor:
    """The numbers of an array that nobody else has, made from shapes alone: a recorded program repeats them."""
    return tell_made(_from_array(_converted(array, dtype.compute), dtype.compute), "values").to(device=device, dtype=dtype)


def from_numpy(array: np.ndarray) -> Tensor:
    """The array's memory as a tensor. Read-only arrays are copied. Raises TypeError for other objects and dtypes, ValueError for negative strides."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    kind, flags, strides, size = dtypes.from_numpy(array.dtype), array.flags, array.strides, array.itemsize
    if min(strides, default=0) < 0:
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not supported. Make a copy with array.copy()."
        )
    if not flags.carray and (not flags.behaved or any([s % size for s in strides])) or not array.dtype.isnative:
        array = np.array(array, dtype=kind.numpy, order="C", copy=True)
    result = _from_array(array, kind)
    result._storage = ForeignStorage(result._storage.data)
    return tell_made(result, "array")


def _from_array(array: np.ndarray, kind: DType) -> Tensor:
    """A tensor over a writeable, aligned array with non-negative strides of whole elements."""
    size = array.itemsize
    shape = layout(array.shape, kind, _CPU, tuple([s // size for s in array.strides]) if array.size else None)
    flat = np.ndarray((shape.extent,), kind.storage, array, 0) if array.flags.c_contiguous else _memory(array, shape.extent, kind)
    return wrap(Storage(flat), shape, 0)


def _memory(array: np.ndarray, extent: int, kind: DType) -> np.ndarray:
    """The memory range a strided array touches, as one flat array that keeps the array alive."""
    return np.lib.stride_tricks.as_strided(array.view(kind.storage), (extent,), (array.itemsize,))


def _array(data: object, kinds: set[type | DType | np.dtype], dtype: DType | None = None) -> np.ndarray:
    try:
        data = _without_tensors(data, kinds, _depth(data))
    except RecursionError:
        raise ValueError("too many dimensions 'list': the data contains itself, or is nested too deeply") from None
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ValueError(f"expected sequences of equal length at every depth: {error}") from None
    except OverflowError as error:
        raise ValueError(f"Overflow when unpacking a value: {error}") from None
    if array.dtype == object:
        others = [each for each in array.ravel() if not isinstance(each, (bool, int, float, complex))]
        if not others and dtype is not None and dtype.differentiable:
            return array.astype(np.complex128 if dtype.is_complex else np.float64)
        if not others:
            raise ValueError("Overflow when unpacking long: an integer does not fit in 64 bits")
        raise RuntimeError(f"Could not infer dtype of {type(others[0]).__name__}; expected numbers, nested sequences of numbers, arrays or tensors")
    if array.dtype.kind in "SU" and not isinstance(data, np.ndarray):  # NumPy would read the numbers in it
        expected = "there is text in the data; expected numbers, nested sequences of numbers, arrays or tensors"
        kind, first = "bytes" if array.dtype.kind == "S" else "str", data
        while isinstance(first, (list, tuple)):
            first = first[0]
        if first is not data and isinstance(first, (str, bytes)):
            raise ValueError(f"too many dimensions '{kind}': {expected}")
        raise TypeError(f"new(): invalid data type '{kind}': {expected}")
    return array


def _depth(data: object) -> int:
    """The number of dimensions that sequences and arrays say the data has: those of its first element's place."""
    depth = 0
    while isinstance(data, (list, tuple)) and data and depth < 64:  # more than NumPy takes, and a list may hold itself
        depth, data = depth + 1, data[0]
    return depth + (data.ndim if isinstance(data, np.ndarray) else isinstance(data, (list, tuple)))


def _without_tensors(data: object, kinds: set[type | DType | np.dtype], depth: int) -> object:
    """The data, of `depth` dimensions, with arrays for tensors; a tensor among numbers is a number, whatever its shape. `kinds` gets the types of its numbers
    and the dtypes of its arrays and tensors. Raises ValueError for more than one element in the place of a number."""
    if isinstance(data, (list, tuple)):
        types = set(map(type, data))
        if types <= _NUMBERS:
            kinds |= types
            return data
        return [_without_tensors(each, kinds, depth - 1) for each in data]
    kinds.add(data.dtype if isinstance(data, (Tensor, np.ndarray, np.generic)) else type(data))
    if not isinstance(data, Tensor):
        return data
    array = data.detach().cpu().to(data.dtype.compute).numpy()
    if depth > 0:
        return array
    if array.size != 1:
        raise ValueError(f"only one element tensors can be converted to Python scalars: got one of shape {array.shape} in a sequence; use stack or cat")
    return array.reshape(())


def _kind_of(each: type | DType | np.dtype) -> DType:
    """The dtype of a tensor of such numbers."""
    if isinstance(each, DType):
        return each
    if isinstance(each, np.dtype):
        return dtypes.int64 if each.kind == "u" and each.itemsize > 1 else dtypes.from_numpy(each)
    return _inferred(np.zeros(1, next((kind for kind in (bool, int, float, complex) if issubclass(each, kind)), float)), set())


def _inferred(array: np.ndarray, kinds: set[type | DType | np.dtype]) -> DType:
    """The dtype of a tensor of Python's numbers; with arrays and tensors among them the one that holds all of these, as in PyTorch."""
    if not kinds <= _NUMBERS and any(isinstance(each, (DType, np.dtype)) for each in kinds):
        return functools.reduce(dtypes.promote_types, map(_kind_of, kinds))
    if array.size == 0 and array.dtype == np.float64:
        return dtypes.get_default_dtype()
    if array.dtype.kind in "fc":
        return dtypes.get_default_dtype() if array.dtype.kind == "f" else dtypes.get_default_dtype().to_complex()
    return dtypes.from_numpy(array.dtype) if array.dtype.kind == "b" else dtypes.int64 if array.dtype.kind in "iu" else dtypes.from_numpy(array.dtype)


def _fitting(array: np.ndarray, kind: DType) -> np.ndarray:
    """The array of Python numbers for a tensor of `kind`. Raises RuntimeError where integers, or real numbers, cannot hold one of them."""
    if array.dtype.kind == "c" and not kind.is_complex and not array.imag.any():
        array = array.real
    if array.size and kind.kind in "iu" and array.dtype != kind.numpy:
        for bound in (array.min().item(), array.max().item()):  # NaN where there is one
            dtypes.fitting(bound, kind)
    elif array.dtype.kind == "c" and kind.kind == "f":
        dtypes.fitting(1j, kind)
    return array


def _converted(array: np.ndarray, kind: DType) -> np.ndarray:
    """A fresh C-ordered array of `kind`; integers are taken modulo its range, as in PyTorch."""
    fresh = _CPU.empty(array.size, kind.numpy).reshape(array.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        fresh[...] = array
    return fresh


def _shape(sizes: tuple, name: str) -> tuple[int, ...]:
    """Sizes given as numbers or as one sequence. Raises TypeError and RuntimeError as PyTorch does."""
    return _checked_shape(name, *flat(sizes))


@resolved
def _checked_shape(name: str, *sizes: int) -> tuple[int, ...]:
    sizes = whole(name, sizes)
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {list(sizes)}")
    if prod(sizes) >= 1 << 60:
        raise RuntimeError(f"{name}(): storage for sizes {list(sizes)} is larger than any memory")
    return sizes


def constant(op: object, inputs: tuple, shape: tuple, dtype: DType | None, device: Device | str | None, requires_grad: bool = False, *strides: tuple) -> Tensor:
    """The result of an op without tensor inputs; row-major where no strides are given."""
    place = default_device() if device is None else Device(device)
    result = apply(op, inputs, (_dtype(dtype), place, tuple(shape), *strides))
    return result.requires_grad_() if requires_grad else result


def _dtype(dtype: DType | None) -> DType:
    return dtypes.get_default_dtype() if dtype is None else dtypes.given(dtype)


@factory
def empty(*size: int, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor of uninitialised memory."""
    place = default_device() if device is None else Device(device)
    shape = layout(_shape(size, "empty"), _dtype(dtype), place)
    result = wrap(Storage(place.empty(shape.size, shape.storage)), shape, 0)
    if shape.dtype is dtypes.bool_ and place.type == "cpu":
        return zeros(shape.shape, dtype=dtypes.bool_, requires_grad=requires_grad)  # bytes other than 0 and 1 are no valid bools
    tell_made(result, "empty")
    if state.inference:
        result._inference = True
    return result.requires_grad_() if requires_grad else result


@factory
def zeros(*size: int, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor filled with 0."""
    return constant(t.fill, (0,), _shape(size, "zeros"), dtype, device, requires_grad)


@factory
def ones(*size: int, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor filled with 1."""
    return constant(t.fill, (1,), _shape(size, "ones"), dtype, device, requires_grad)


@factory
def full(size: Sequence[int], fill_value: float, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor filled with `fill_value`, whose type determines the dtype by default."""
    if (number := _of_number(fill_value, dtype, device)) is not None:
        return number.expand(_shape((size,), "full")).clone().requires_grad_(requires_grad)
    fill_value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    kind = _dtype(dtype or dtypes.of_scalar(fill_value))
    return constant(t.fill, (dtypes.fitting(fill_value, kind),), _shape((size,), "full"), kind, device, requires_grad)


def _filled_like(input: Tensor, value: float, dtype: DType | None, device: Device | str | None, requires_grad: bool) -> Tensor:
    """Filled with `value`, with the shape and memory order of `input`."""
    own = input._layout
    strides = (own.strides,) if own.packed and not own.dense else ()
    result = constant(t.fill, (value,), own.shape, dtype or own.dtype, device or own.device, requires_grad, *strides)
    return result if own.batch is None else own.batch.alike(result)


@factory
def empty_like(input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor with the shape and memory order of `input`. (It is filled with 0, like `zeros_like`, which preserves the order in a single op.)"""
    return _filled_like(input, 0, dtype, device, requires_grad)


@factory
def zeros_like(input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros with the shape of `input`."""
    return _filled_like(input, 0, dtype, device, requires_grad)


@factory
def ones_like(input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor of ones with the shape of `input`."""
    return _filled_like(input, 1, dtype, device, requires_grad)


@factory
def full_like(input: Tensor, fill_value: float, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor filled with `fill_value`, with the shape of `input`."""
    if as_tensor_of(fill_value) is not None:
        return empty_like(input, dtype=dtype, device=device).fill_(fill_value).requires_grad_(requires_grad)
    fill_value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return _filled_like(input, dtypes.fitting(fill_value, _dtype(dtype or input.dtype)), dtype, device, requires_grad)


@factory
def arange(*bounds: float, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False, **named: float) -> Tensor:
    """`start, start + step, ...` below `end`: arange(end), arange(start, end), arange(start, end, step)."""
    kind, start, step, count = _progression(getattr(dtypes.given(dtype), "name", None), *(_bounds(bounds, named) if named else bounds))
    return constant(t.arange, (start, step), (count,), kind, device, requires_grad)


@resolved
def _progression(kind: str | None, *bounds: float) -> tuple[DType, float, float, int]:
    """(dtype, first number, step, how many) of a range."""
    start, end, step = _bounds(bounds, {})
    if any(isinf(each) or isnan(each) for each in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError(f"upper bound and lower bound inconsistent with step sign: from {start} to {end} by {step}")
    kind = (
        (dtypes.ALL.get(kind) or dtypes.ABSENT[kind])
        if kind
        else (dtypes.int64 if all(isinstance(each, (int, np.integer)) for each in (start, end, step)) else dtypes.get_default_dtype())
    )
    if kind is dtypes.int64:  # PyTorch counts whole numbers for this dtype alone
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            raise RuntimeError("step must be nonzero")
    return kind, _whole(start, kind), _whole(step, kind), ceil((end - start) / step)


@factory
def range(start: float = 0, end: float | None = None, step: float = 1, *, dtype: DType | None = None, **options: object) -> Tensor:
    """As arange, `end` included. Deprecated, as in PyTorch: it is not what Python's range does."""
    count = int((end - start) / step) + 1 if step else 0
    if count < 1:
        raise RuntimeError("step must be nonzero" if step == 0 else f"upper bound and lower bound inconsistent with step sign: from {start} to {end} by {step}")
    warnings.warn("numod.range is deprecated because its behavior is inconsistent with Python's range builtin. Instead, use numod.arange.", stacklevel=3)
    return constant(t.arange, (start, step), (count,), dtype, options.get("device"), options.get("requires_grad", False))


def _bounds(bounds: tuple, named: dict) -> tuple:
    bounds = tuple(each.item() if isinstance(each, Tensor) else each for each in bounds)
    if len(bounds) == 1 and "end" not in named:
        bounds = (0, *bounds)
    given = {**dict(zip(("start", "end", "step"), bounds)), **named}
    if "end" not in given or len(bounds) > 3:
        raise TypeError("arange() takes (end), (start, end) or (start, end, step)")
    return given.get("start", 0), given["end"], given.get("step", 1)


def _count(name: str, start: float, end: float, steps: int) -> int:
    if isinstance(steps, float):
        given = ", ".join(type(each).__name__ for each in (start, end, steps))
        raise TypeError(f"{name}() received an invalid combination of arguments - got ({given}); steps must be an int")
    if steps < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {steps}")
    return int(steps)


@factory
def linspace(start: float, end: float, steps: int, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """`steps` numbers from `start` to `end`, evenly spaced, both ends included."""
    steps = _count("linspace", start, end, steps)
    start, end = _number(start), _number(end)
    if isinstance(start, complex) or isinstance(end, complex):
        return _complex_linspace(complex(start), complex(end), steps, dtype or dtypes.get_default_dtype().to_complex(), device).requires_grad_(requires_grad)
    if dtype is not None and not dtype.is_floating_point:
        return linspace(*_wholes(start, end, steps, dtype), steps, dtype=dtypes.float64, device=device).to(dtype)
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    return constant(t.linspace, (float(start), float(end), step, max(steps // 2, 1), steps - 1), (steps,), dtype, device, requires_grad)


def _complex_linspace(start: complex, end: complex, steps: int, dtype: DType, device: Device | str | None) -> Tensor:
    """The parts evenly spaced. Raises RuntimeError for a dtype of real numbers."""
    if not dtype.is_complex:
        raise RuntimeError(f"linspace(): the inferred dtype is complex and can't be safely cast to {dtype}; give a complex dtype, or real ends")
    real, imaginary = (linspace(a, b, steps, dtype=dtype.real, device=device) for a, b in ((start.real, end.real), (start.imag, end.imag)))
    return t.add(real, t.mul(imaginary, 1j))


@factory
def logspace(
    start: float, end: float, steps: int, base: float = 10.0, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:
    """`steps` powers of `base`, the exponents evenly spaced from `start` to `end`."""
    steps = _count("logspace", start, end, steps)
    if dtype is not None and not dtype.is_floating_point:
        return t.pow(
            float(base), linspace(*_wholes(start, end, steps, dtype), steps, dtype=dtypes.complex128 if dtype.is_complex else dtypes.float64, device=device)
        ).to(dtype)
    result = t.pow(float(base), linspace(start, end, steps, dtype=dtype, device=device))
    return result.requires_grad_() if requires_grad else result


def _whole(bound: float, kind: DType) -> float:
    """A bound of a range, cut to an integer for a dtype of integers."""
    return bound if kind.differentiable else int(bound)


def _wholes(start: float, end: float, steps: int, kind: DType) -> tuple[float, float]:
    """The ends of `steps` numbers as a dtype of integers holds them. Raises RuntimeError for one it does not hold, unless it is not among the numbers."""
    if kind.differentiable:
        return start, end
    first, last = (int(dtypes.fitting(bound, kind)) if used else 0 for bound, used in ((start, steps > 0), (end, steps > 1)))
    return (first % (1 << 8 * kind.itemsize), last % (1 << 8 * kind.itemsize)) if kind.kind == "u" else (first, last)


def _number(value: Tensor | float) -> float:
    """A number, or that of a zero-dimensional tensor."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(f"linspace only supports 0-dimensional start and end tensors, but got start with {value.ndim} dimension(s)")
        return value.item()
    return value


@factory
def eye(n: int, m: int | None = None, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """The identity matrix, (n, m)."""
    for name, size in (("n", n), ("m", m)):
        if size is not None and size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    result = apply(band, (ones(n, n if m is None else m, dtype=dtype, device=device),), (0, 0))
    return result.requires_grad_() if requires_grad else result


def _legacy(cls: type, *arguments: object, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """`Tensor(...)`: sizes give uninitialised memory, a sequence or array its values in the default dtype."""
    device = device or _CPU
    if len(arguments) == 1 and not isinstance(arguments[0], (int, np.integer)):
        (data,) = arguments
        if isinstance(data, Tensor):
            return data._alias(cls)
        if isinstance(data, tuple) and all(isinstance(n, int) for n in data) and type(data).__name__ == "Size":
            return empty(data, dtype=dtype, device=device)._alias(cls)
        return tensor(data, dtype=dtype or dtypes.get_default_dtype(), device=device)._alias(cls)
    return empty(*arguments or (0,), dtype=dtype, device=device)._alias(cls)


Tensor._legacy = classmethod(_legacy)


def scalar_tensor(value: float, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """A zero-dimensional tensor."""
    return full((), value, dtype=dtype or dtypes.get_default_dtype(), device=device, requires_grad=requires_grad)
