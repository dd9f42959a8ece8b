"""New tensors by size: constants, identities.

`values` makes tensors of data, `ranges` evenly spaced ones, `random` random ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from ... import dtypes
from ...device import Storage
from ...device.device import Device, default_device
from ...device.layout import layout, ordered_strides
from ...dtypes import dtype as DType
from ...errors import warn_caller
from ...formats import layout as Layout, memory_format as MemoryFormat, preserve_format, strided
from ...ops import table as t
from ...ops.linalg.tril_triu import band
from .. import overrides
from ..apply import apply, as_tensor_of, state
from ..listeners import notify_created
from ..arguments import plain_number, wrong_argument
from ..resolve import flat, resolved, whole
from ..tensor import Tensor, wrap
from .values import of_number, tensor

_CPU = Device("cpu")


def factory(function: Callable) -> Callable:
    """Decorator of creation functions that adds PyTorch's options `out`, `memory_format`, `pin_memory` and `layout`.

    The only layout is `strided`.
    """
    code = function.__code__
    takes_sizes = code.co_flags & 4 and code.co_varnames[code.co_argcount + code.co_kwonlyargcount] == "size"

    @functools.wraps(function)
    def make(
        *arguments: object,
        out: Tensor | None = None,
        layout: Layout | None = strided,
        pin_memory: bool | None = False,
        memory_format: MemoryFormat = preserve_format,
        **kwargs: object,
    ) -> Tensor:
        if kwargs:
            if "size" in kwargs and takes_sizes:  # sizes may be passed separately, as one sequence, or by name
                arguments = (kwargs.pop("size"),)
            if kwargs.get("requires_grad", False).__class__ is not bool:
                _expect_bool(function.__name__, "requires_grad", kwargs["requires_grad"])
                kwargs["requires_grad"] = bool(kwargs["requires_grad"])
            if kwargs.get("dtype").__class__ is type:
                kwargs["dtype"] = dtypes.as_dtype(kwargs["dtype"])
        if layout is not strided and layout is not None:
            raise TypeError(f"{function.__name__}(): argument 'layout' must be numod.strided, not {layout!r}")
        if out is not None:
            from ..math.outputs import write_result

            if not isinstance(out, Tensor):
                raise TypeError(f"{function.__name__}(): argument 'out' must be Tensor, not {type(out).__name__}")
            if kwargs.get("dtype") not in (None, out.dtype):
                raise RuntimeError(
                    f"dtype {kwargs['dtype'].short} does not match dtype of out parameter ({out.dtype.short})"
                )
            result = function(*arguments, **{**kwargs, "dtype": out.dtype, "device": out.device})
            if function.__name__ == "arange" and out.numel() not in (0, result.numel()):
                warn_caller(
                    f"The number of elements in the out tensor of shape {list(out.shape)} is {out.numel()} which does "
                    f"not match the computed number of elements {result.numel()}. Note that this may occur as a result "
                    f"of rounding error. The out tensor will be resized to a tensor of shape ({result.numel()},)."
                )
            if out.shape != result.shape and out.numel() != result.numel():
                out.resize_(result.shape)
            # a range keeps the shape of `out` if the count of elements is equal
            keeps_shape = result.ndim == 1 and result.numel() == out.numel() and not takes_sizes
            return write_result(function.__name__, result.reshape(out.shape) if keeps_shape else result, out)
        try:
            result = function(*arguments, **kwargs)
        except Exception as error:
            if overrides.appears(arguments):
                return overrides.again(make, arguments, kwargs)
            named_already = str(error).startswith(f"{function.__name__}() ")
            if named_already or (wrong := wrong_argument(function.__name__, function, arguments, kwargs)) is None:
                raise
            raise wrong from error
        if pin_memory:
            _expect_bool(function.__name__, "pin_memory", pin_memory)
            result = result.pin_memory()
        return result if memory_format is preserve_format else _in_format(result, memory_format)

    return make


def _expect_bool(name: str, option: str, value: object) -> None:
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"{name}(): argument '{option}' must be bool, not {type(value).__name__}")


def _in_format(result: Tensor, memory_format: MemoryFormat) -> Tensor:
    from ..shape.formats import in_format

    changed = in_format(result.detach(), memory_format)
    return changed.requires_grad_(result.requires_grad)


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


def constant(
    op: object,
    inputs: tuple,
    shape: tuple,
    dtype: DType | None,
    device: Device | str | None,
    requires_grad: bool = False,
    *strides: tuple,
) -> Tensor:
    """The result of an op without tensor inputs; row-major where no strides are given."""
    target = default_device() if device is None else Device(device)
    result = apply(op, inputs, (_dtype(dtype), target, tuple(shape), *strides))
    return result.requires_grad_() if requires_grad else result


def _dtype(dtype: DType | None) -> DType:
    return dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)


@factory
def empty(
    *size: int, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of uninitialised memory.

    Example:

        >>> torch.empty(2, 3).shape
        numod.Size([2, 3])
    """
    target = default_device() if device is None else Device(device)
    shape = layout(_shape(size, "empty"), _dtype(dtype), target)
    result = wrap(Storage(target.empty(shape.size, shape.storage)), shape, 0)
    if shape.dtype is dtypes.bool_ and target.type == "cpu":
        # bytes other than 0 and 1 are no valid bools
        return zeros(shape.shape, dtype=dtypes.bool_, requires_grad=requires_grad)
    notify_created(result, "empty")
    if state.inference:
        result._inference = True
    return result.requires_grad_() if requires_grad else result


@factory
def zeros(
    *size: int, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor filled with 0.

    Example:

        >>> torch.zeros(2, 3)
        tensor([[0., 0., 0.],
                [0., 0., 0.]])
    """
    return constant(t.fill, (0,), _shape(size, "zeros"), dtype, device, requires_grad)


@factory
def ones(
    *size: int, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor filled with 1.

    Example:

        >>> torch.ones(2, 3)
        tensor([[1., 1., 1.],
                [1., 1., 1.]])
    """
    return constant(t.fill, (1,), _shape(size, "ones"), dtype, device, requires_grad)


@factory
def full(
    size: Sequence[int],
    fill_value: float,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor filled with `fill_value`, whose type determines the dtype by default.

    Example:

        >>> torch.full((2, 2), 7)
        tensor([[7, 7],
                [7, 7]])
    """
    if (number := of_number(fill_value, dtype, device)) is not None:
        return number.expand(_shape((size,), "full")).clone().requires_grad_(requires_grad)
    if isinstance(fill_value, Tensor):
        fill_value = plain_number("full", "fill_value", fill_value)
    kind = _dtype(dtype or dtypes.of_scalar(fill_value))
    return constant(t.fill, (dtypes.fitting(fill_value, kind),), _shape((size,), "full"), kind, device, requires_grad)


def _filled_like(
    input: Tensor, value: float, dtype: DType | None, device: Device | str | None, requires_grad: bool
) -> Tensor:
    """Filled with `value`, with the shape and memory order of `input`."""
    input_layout = input._layout
    if input_layout.dense:
        strides = ()
    elif input_layout.packed:
        strides = (input_layout.strides,)
    else:
        strides = (ordered_strides(input_layout.shape, input_layout.strides),)
    result = constant(
        t.fill,
        (value,),
        input_layout.shape,
        dtype or input_layout.dtype,
        device or input_layout.device,
        requires_grad,
        *strides,
    )
    return result if input_layout.batch is None else input_layout.batch.as_batched(result)


@factory
def empty_like(
    input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor with the shape and memory order of `input`.

    (It is filled with 0, like `zeros_like`, which preserves the order in a single op.)

    Example:

        >>> torch.empty_like(torch.ones(2, 3)).shape
        numod.Size([2, 3])
    """
    return _filled_like(input, 0, dtype, device, requires_grad)


@factory
def zeros_like(
    input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of zeros with the shape of `input`.

    Example:

        >>> torch.zeros_like(torch.ones(2))
        tensor([0., 0.])
    """
    return _filled_like(input, 0, dtype, device, requires_grad)


@factory
def ones_like(
    input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of ones with the shape of `input`.

    Example:

        >>> torch.ones_like(torch.zeros(2))
        tensor([1., 1.])
    """
    return _filled_like(input, 1, dtype, device, requires_grad)


@factory
def full_like(
    input: Tensor,
    fill_value: float,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor filled with `fill_value`, with the shape of `input`.

    Example:

        >>> torch.full_like(torch.ones(2), 7.0)
        tensor([7., 7.])
    """
    if as_tensor_of(fill_value) is not None:
        return empty_like(input, dtype=dtype, device=device).fill_(fill_value).requires_grad_(requires_grad)
    if isinstance(fill_value, Tensor):
        fill_value = plain_number("full_like", "fill_value", fill_value)
    return _filled_like(input, dtypes.fitting(fill_value, _dtype(dtype or input.dtype)), dtype, device, requires_grad)


@factory
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The identity matrix, (n, m).

    Example:

        >>> torch.eye(2)
        tensor([[1., 0.],
                [0., 1.]])
    """
    for name, size in (("n", n), ("m", m)):
        if size is not None and size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    result = apply(band, (ones(n, n if m is None else m, dtype=dtype, device=device),), (0, 0))
    return result.requires_grad_() if requires_grad else result


def _construct(cls: type, *arguments: object, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """`Tensor(...)`: uninitialised memory of these sizes, or the values of a sequence or array in the default dtype."""
    device = device or _CPU
    if len(arguments) == 1 and not isinstance(arguments[0], (int, np.integer)):
        (data,) = arguments
        if isinstance(data, Tensor):
            return data._alias(cls)
        if isinstance(data, tuple) and all(isinstance(n, int) for n in data) and type(data).__name__ == "Size":
            return empty(data, dtype=dtype, device=device)._alias(cls)
        return tensor(data, dtype=dtype or dtypes.get_default_dtype(), device=device)._alias(cls)
    return empty(*arguments or (0,), dtype=dtype, device=device)._alias(cls)


Tensor._construct = classmethod(_construct)


@factory
def scalar_tensor(
    s: float, *, dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False
) -> Tensor:
    """A zero-dimensional tensor.

    Example:

        >>> torch.scalar_tensor(3.5)
        tensor(3.5000)
    """
    return full((), s, dtype=dtype or dtypes.get_default_dtype(), device=device, requires_grad=requires_grad)
