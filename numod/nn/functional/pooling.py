"""Pooling over one to three dimensions: max, average, power-average, adaptive, fractional, and max unpooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import floor, prod

from ... import dtypes
from ...autograd import is_grad_enabled
from ...core import functions as f
from ...core.create import random
from ...core.forms import with_out
from ...core.quantized.pooling import averaged_dtypes, is_quantized, pooled_bytes, pools_bytes, zero_of_bytes
from ...core.tensor import Tensor
from ...core.create.values import tensor
from ...errors import plain_sizes
from ...ops import table as t
from ...ops.image import byte_pooling as byte_op
from ...ops.image import pooling as op

_NAMES = ("max_pool", "avg_pool", "lp_pool", "adaptive_max_pool", "adaptive_avg_pool", "max_unpool")
__all__ = [
    f"{name}{ndim}d{suffix}"
    for name in _NAMES
    for ndim in (1, 2, 3)
    for suffix in (("", "_with_indices") if "max_pool" in name else ("",))
]
__all__ += [
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]

Size = int | Sequence[int]
_INTEGERS = dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64


def _tuple(name: str, value: Size, ndim: int) -> tuple[int, ...]:
    value = plain_sizes(name, value)
    values = value if isinstance(value, tuple) else (value,)
    if len(values) == 1:
        values *= ndim
    if len(values) != ndim:
        raise RuntimeError(f"{name} must either be a single int, or a tuple of {ndim} ints, got {value}")
    return values


def _expect_planes(name: str, shape: tuple[int, ...], ndim: int) -> None:
    if len(shape) not in (ndim + 1, ndim + 2) or 0 in shape[-ndim - 1 :]:
        expected = f"{ndim + 1}D or {ndim + 2}D (batch mode) tensor"
        raise RuntimeError(
            f"{name}: Expected {expected} with optional 0 dim batch size for input, but got: {list(shape)}; non-empty "
            f"{expected} expected for input"
        )


def expect_floats(name: str, x: Tensor, *more: dtypes.dtype) -> None:
    """Raise NotImplementedError, as PyTorch's kernels do, unless x has a floating dtype or one of `more`."""
    if not x.is_floating_point() and x.dtype not in more:
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{x.dtype.short}'; convert first, for example with .float()"
        )


def _output_size(n: int, kernel: int, stride: int, pad: int, step: int, ceil_mode: bool) -> int:
    """The number of windows along one dimension.

    With `ceil_mode` there may be one more, which starts inside the input or its left padding.
    """
    span = n + 2 * pad - step * (kernel - 1) - 1
    size = (span + (stride - 1 if ceil_mode else 0)) // stride + 1
    return size - 1 if ceil_mode and (size - 1) * stride >= n + pad else size


def _short(values: tuple[int, ...]) -> int | tuple[int, ...]:
    return values[0] if len(set(values)) == 1 else values


def _windows(
    name: str, x: Tensor, kernel: Size, stride: Size | None, padding: Size, dilation: Size, ceil_mode: bool, ndim: int
) -> tuple:
    """The op's attributes, after checks."""
    numbers = [
        None if sizes is None and argument == "stride" else plain_sizes(argument, sizes)
        for argument, sizes in (
            ("kernel_size", kernel),
            ("stride", stride),
            ("padding", padding),
            ("dilation", dilation),
        )
    ]
    return _checked(name, tuple(x.shape), *numbers, ceil_mode, ndim)


@lru_cache(1024)
def _checked(
    name: str,
    shape: tuple[int, ...],
    kernel: Size,
    stride: Size | None,
    padding: Size,
    dilation: Size,
    ceil_mode: bool,
    ndim: int,
) -> tuple:
    """(kernel, stride, padding, dilation, sizes of the result). Raises for arguments that do not fit."""
    window = _tuple(f"{name}: kernel_size", kernel, ndim)
    stride = (
        window
        if stride is None or (not isinstance(stride, int) and not len(stride))
        else _tuple(f"{name}: stride", stride, ndim)
    )
    padding, dilation = _tuple(f"{name}: padding", padding, ndim), _tuple(f"{name}: dilation", dilation, ndim)
    for name_, values in (("kernel_size", window), ("stride", stride), ("dilation", dilation)):
        if min(values) <= 0:
            raise RuntimeError(f"{name}() {name_} must be greater than zero, but got {_short(values)}")
    if min(padding) < 0:
        raise RuntimeError(f"{name}: pad must be non-negative, but got pad: {_short(padding)}")
    if any(2 * p > d * (k - 1) + 1 for p, d, k in zip(padding, dilation, window)):
        raise RuntimeError(
            f"{name}: pad should be at most half of effective kernel size, but got "
            f"pad={_short(padding)}, kernel_size={_short(window)} and dilation={_short(dilation)}"
        )
    _expect_planes(name, shape, ndim)
    sizes = tuple(
        _output_size(n, k, s, p, d, ceil_mode)
        for n, k, s, p, d in zip(shape[-ndim:], window, stride, padding, dilation)
    )
    if min(sizes) <= 0:
        raise RuntimeError(
            f"Given input size: {shape[-ndim - 1 :]}. Calculated output size: {(shape[-ndim - 1], *sizes)}. Output "
            "size is too small"
        )
    # a longer stride has the same effect, and scratch memory depends on it
    stride = tuple(min(s, max(n + 2 * p, 1)) for s, n, p in zip(stride, shape[-ndim:], padding))
    return window, stride, padding, dilation, sizes


def _adaptive(name: str, x: Tensor, output_size: Size | Sequence[int | None], ndim: int) -> tuple:
    """The op's attributes for adaptive windows: regular windows if the sizes divide, otherwise with stride 0."""
    output_size = plain_sizes("output_size", output_size, optional=ndim > 1)
    wanted = (output_size,) * ndim if isinstance(output_size, int) else output_size
    if len(wanted) != ndim:
        problem = (
            "'output_size' should contain one int"
            if ndim == 1
            else f"internal error: output_size.size() must be {ndim}"
        )
        raise RuntimeError(f"{name}(): {problem}, got {tuple(wanted)}")
    if x.ndim <= ndim and not isinstance(output_size, int):
        raise ValueError(f"{name}: Input dimension should be at least {ndim + 1}, got {list(x.shape)}")
    sizes = tuple(n if size is None else size for n, size in zip(x.shape[-ndim:], wanted))
    if any(n < 0 for n in sizes):
        negative = f"Trying to create tensor with negative dimension {min(sizes)}: {[*x.shape[:-ndim], *sizes]}"
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0, but got {sizes}. {negative}"
        )
    if x.ndim not in (ndim + 1, ndim + 2):
        raise RuntimeError(f"{name}(): Expected {ndim + 1}D or {ndim + 2}D tensor, but got {list(x.shape)}")
    # the first dimension whose size may not be 0
    filled = x.ndim - ndim if name in ("adaptive_avg_pool1d", "adaptive_avg_pool2d") else 1
    if 0 in x.shape[filled:]:
        empty = filled + x.shape[filled:].index(0)
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
            f"{list(x.shape)} with dimension {empty} being empty"
        )
    expect_floats(name, x, *averaged_dtypes(), *(_INTEGERS if is_quantized.get() else ()))
    if all(size and n % size == 0 for n, size in zip(x.shape[-ndim:], sizes)):
        window = tuple(n // size for n, size in zip(x.shape[-ndim:], sizes))
        return window, window, (0,) * ndim, (1,) * ndim, sizes
    largest = tuple(-(-n // max(size, 1)) + 1 for n, size in zip(x.shape[-ndim:], sizes))
    return largest, (0,) * ndim, (0,) * ndim, (1,) * ndim, sizes


def _max(x: Tensor, parameters: tuple, with_indices: bool) -> Tensor | tuple[Tensor, Tensor]:
    """Max pooling. Indices take time, so they are computed only if the caller or a gradient needs them."""
    if not with_indices and pools_bytes(x, len(parameters[0])):
        return pooled_bytes(byte_op.max_pool_bytes, x, (*parameters, False, 0, 0))
    x = f.contiguous(x)
    if not with_indices and not (is_grad_enabled() and x.requires_grad):
        return op.max_pool_values.apply((x,), parameters)
    values, indices = op.max_pool.apply((x,), parameters)
    return (values, indices.to(dtypes.int64)) if with_indices else values


def _average(x: Tensor, parameters: tuple) -> Tensor:
    zero = zero_of_bytes.get()
    if zero is not None:
        return pooled_bytes(byte_op.average_pool_bytes, x, (*parameters, zero))
    return op.average_pool.apply((f.contiguous(x),), parameters)


def _max_pool(ndim: int) -> tuple[Callable, Callable]:
    """(with indices, without) of max pooling over `ndim` spatial dimensions."""
    name = f"max_pool{ndim}d"

    def with_indices(
        input: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        return_indices: bool = True,
    ) -> tuple[Tensor, Tensor]:
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode, True)

    def pool(
        input: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        expect_floats(name, input, *(_INTEGERS if ndim > 1 or return_indices or is_quantized.get() else ()))
        return _max(
            input, _windows(name, input, kernel_size, stride, padding, dilation, ceil_mode, ndim), return_indices
        )

    return _with_name(
        pool, name, "The maximum of each window; with `return_indices`, also its index in the plane.", "2"
    ), _with_name(
        with_indices, f"{name}_with_indices", "The maximum of each window, and its index in the plane.", "2", "[0]"
    )


def _with_name(function: Callable, name: str, text: str, arguments: str = "", result: str = "") -> Callable:
    """The function with its name and docstring, which has an example that halves each dimension of 4 elements."""
    if arguments:
        ndim = int(name.removesuffix("_with_indices")[-2])
        text += (
            f"\n\nExample:\n\n    >>> F.{name}(torch.ones(1, 2{', 4' * ndim}), {arguments}){result}.shape\n"
            f"    numod.Size([1, 2{', 2' * ndim}])\n"
        )
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


def _avg_pool(ndim: int) -> Callable:
    """The function of average pooling over `ndim` spatial dimensions."""
    name = f"avg_pool{ndim}d"

    def pool(
        input: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        expect_floats(name, input, dtypes.int64, *averaged_dtypes())
        if divisor_override == 0:
            raise RuntimeError("divisor must be not zero")
        parameters = _windows(name, input, kernel_size, stride, padding, 1, ceil_mode, ndim)
        return _average(input, (*parameters, bool(count_include_pad), divisor_override or 0))

    return _with_name(
        pool, name, "The mean of each window; padding counts as zeros unless `count_include_pad` is False.", "2"
    )


def _lp_pool(ndim: int) -> Callable:
    """The function of power-average pooling over `ndim` spatial dimensions."""
    average, greatest = _avg_pool(ndim), _max_pool(ndim)[0]

    def pool(
        input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
    ) -> Tensor:
        if norm_type in (float("inf"), -float("inf")):
            return (1 if norm_type > 0 else -1) * greatest(
                t.abs(input) * (1 if norm_type > 0 else -1), kernel_size, stride, ceil_mode=ceil_mode
            )
        window = _tuple("kernel_size", kernel_size, ndim)
        count = 1
        for size in window:
            count *= size
        total = average(f.pow(input, norm_type), kernel_size, stride, 0, ceil_mode)
        return f.pow(t.sign(total) * t.relu(t.abs(total)) * count, 1.0 / norm_type)

    return _with_name(pool, f"lp_pool{ndim}d", "The p-norm of each window: (sum of x ** p) ** (1 / p).", "2, 2")


def _adaptive_max(ndim: int) -> tuple[Callable, Callable]:
    name = f"adaptive_max_pool{ndim}d"

    def with_indices(input: Tensor, output_size: Size, return_indices: bool = True) -> tuple[Tensor, Tensor]:
        return pool(input, output_size, True)

    def pool(input: Tensor, output_size: Size, return_indices: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        return _max(input, _adaptive(name, input, output_size, ndim), return_indices)

    return _with_name(
        pool, name, "The maxima of windows that divide the input evenly into `output_size`.", "2"
    ), _with_name(
        with_indices, f"{name}_with_indices", "The maxima of such windows, and their indices in the plane.", "2", "[0]"
    )


def _adaptive_average(ndim: int) -> Callable:
    name = f"adaptive_avg_pool{ndim}d"

    def pool(input: Tensor, output_size: Size) -> Tensor:
        parameters = _adaptive(name, input, output_size, ndim)
        return _average(input, (*parameters, False, 0))

    return _with_name(
        pool, name, "Means of windows that divide the input evenly into `output_size`; None keeps a size.", "2"
    )


def _max_unpool(ndim: int) -> Callable:
    """The function that inverts max pooling over `ndim` spatial dimensions."""
    name = f"max_unpool{ndim}d"

    def unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        expect_floats(name, input)
        window = _tuple("kernel_size", kernel_size, ndim)
        stride = window if stride is None else _tuple("stride", stride, ndim)
        padding = _tuple("padding", padding, ndim)
        default = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(input.shape[-ndim:], stride, window, padding)]
        sizes = default if output_size is None else list(output_size)[-ndim:]
        if any(not low - s < n < low + s for n, low, s in zip(sizes, default, stride)):
            raise ValueError(f"invalid output_size {sizes}: each size must be within a stride of {default}")
        if indices.dtype is not dtypes.int64:
            raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype.short}")
        if input.shape != indices.shape:
            raise RuntimeError(
                "Expected shape of indices to be same as that of the input tensor "
                f"({list(input.shape)}) but got indices tensor with shape: {list(indices.shape)}"
            )
        count = 1
        for n in sizes:
            count *= n
        lead = input.shape[:-ndim]
        positions = f.check_bounds(name, f.flatten(indices, -ndim), count, -1, error=RuntimeError)
        flat = input.new_zeros((*lead, count)).scatter(-1, positions, f.flatten(input, -ndim))
        return f.in_shape(flat, *lead, *sizes)

    text = "Puts each element at its index in planes of `output_size`: a partial inverse of max pooling."
    text += f"""

Example:

    >>> windows, places = F.max_pool{ndim}d(torch.rand(1, 2{", 4" * ndim}), 2, return_indices=True)
    >>> F.{name}(windows, places, 2).shape
    numod.Size([1, 2{", 4" * ndim}])
"""
    return _with_name(unpool, name, text)


def _fractional(ndim: int) -> tuple[Callable, Callable]:
    """(with indices, without) of fractional max pooling over `ndim` spatial dimensions."""
    name = f"fractional_max_pool{ndim}d"

    def with_indices(
        input: Tensor,
        kernel_size: Size,
        output_size: Size | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = True,
        _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        if input.ndim not in (ndim + 1, ndim + 2):
            raise RuntimeError(f"{name}(): Expected {ndim + 1}D or {ndim + 2}D tensor, but got: {list(input.shape)}")
        if 0 in input.shape[-ndim - 1 :]:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got {list(input.shape)}"
            )
        window = _tuple(f"{name}: kernel_size", kernel_size, ndim)
        if output_size is None:
            ratios = (output_ratio,) * ndim if isinstance(output_ratio, (int, float)) else tuple(output_ratio)
            if len(ratios) != ndim:
                raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
            output_size = [int(n * ratio) for n, ratio in zip(input.shape[-ndim:], ratios)]
        sizes = _tuple("output_size", output_size, ndim)
        if min(window) <= 0 or min(sizes) <= 0:
            raise RuntimeError(
                f"{name}: sizes must be greater than zero, got kernel_size {window}, output_size {sizes}"
            )
        # PyTorch's rule in three dimensions is stricter by one
        if any(o + k - 1 + (ndim == 3) > n for o, k, n in zip(sizes, window, input.shape[-ndim:])):
            raise RuntimeError(
                f"{name}: pool size {window} too large relative to input size {list(input.shape[-ndim:])}"
            )
        x = input if input.ndim == ndim + 2 else f.unsqueeze(input, 0)
        samples = (
            random.rand((x.shape[0], x.shape[1], ndim), dtype=input.dtype)
            if _random_samples is None
            else _random_samples
        )
        if samples.dtype is not input.dtype:
            raise RuntimeError(
                f"Expect _random_samples to have the same dtype as input, but got {samples.dtype} and {input.dtype}"
            )
        values, indices = _fractional_max(x, window, sizes, samples[: x.shape[0]].tolist(), ndim)
        return (values, indices) if input.ndim == ndim + 2 else (f.squeeze(values, 0), f.squeeze(indices, 0))

    def pool(
        input: Tensor,
        kernel_size: Size,
        output_size: Size | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        values_and_indices = with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)
        return values_and_indices if return_indices else values_and_indices[0]

    return _with_name(
        pool, name, "The maxima of windows at random positions. Graham, Fractional max-pooling, 2014.", "2, 2"
    ), _with_name(
        with_indices,
        f"{name}_with_indices",
        "The maxima of windows at random positions, and their indices in the plane.",
        "2, 2",
        "[0]",
    )


def _fractional_max(x: Tensor, window: tuple, sizes: tuple, samples: list, ndim: int) -> tuple[Tensor, Tensor]:
    """Max pooling of windows that start at random positions, given by the samples.

    Windows are gathered as (N, C, windows, window elements) and reduced.
    """
    positions = [
        [_window_positions(sample, window, sizes, tuple(x.shape[-ndim:])) for sample in image] for image in samples
    ]
    windows = (*x.shape[:2], *sizes, prod(window))
    index = tensor(positions, dtype=dtypes.int64, device=x.device).reshape(*x.shape[:2], prod(windows[2:]))
    gathered = f.reshape(f.gather(f.flatten(x, 2), 2, index), windows)
    values, chosen = f.max(gathered, -1)
    indices = f.squeeze(f.gather(f.reshape(index, windows), -1, f.unsqueeze(chosen, -1)), -1)
    return values, indices


def _window_positions(sample: list[float], window: tuple, sizes: tuple, plane: tuple) -> list[int]:
    """Flat indices of all elements of all windows of a plane.

    In two dimensions PyTorch uses the samples in reverse order.
    """
    order = sample[::-1] if len(plane) == 2 else sample
    starts = [_starts(u, n, o, k) for u, n, o, k in zip(order, plane, sizes, window)]
    flat: list[list[int]] = [[0]]
    for begin, k, n in zip(starts, window, plane):
        flat = [[base * n + at + offset for base in bases for offset in range(k)] for bases in flat for at in begin]
    return [base for bases in flat for base in bases]


def _starts(sample: float, n: int, out: int, kernel: int) -> list[int]:
    if out <= 1:
        return [n - kernel] * out
    alpha = (n - kernel) / (out - 1)
    return [floor((k + sample) * alpha) - floor(sample * alpha) for k in range(out - 1)] + [n - kernel]


for _ndim in (1, 2, 3):
    globals()[f"max_pool{_ndim}d"], globals()[f"max_pool{_ndim}d_with_indices"] = _max_pool(_ndim)
    globals()[f"adaptive_max_pool{_ndim}d"], globals()[f"adaptive_max_pool{_ndim}d_with_indices"] = _adaptive_max(_ndim)
    globals()[f"avg_pool{_ndim}d"], globals()[f"lp_pool{_ndim}d"] = with_out(_avg_pool(_ndim)), _lp_pool(_ndim)
    globals()[f"adaptive_avg_pool{_ndim}d"], globals()[f"max_unpool{_ndim}d"] = (
        with_out(_adaptive_average(_ndim)),
        _max_unpool(_ndim),
    )
fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional(3)
