"""Max pooling and average pooling over one to three spatial dimensions, and their gradients.

The last one to three dimensions of a dense x (..., depth, height, width) are pooled. Kernels always have three, and
count the dimensions before them as planes. A window begins at o * stride - pad and has kernel elements `step` apart.
An adaptive window (stride 0) begins at floor(o * n / out) and ends at ceil((o + 1) * n / out). Elements outside the
input are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.library.windows import Pooling
from ...kernel.registers import pool_rows, tiles
from ...kernel.registers.primitives.images import fold_windows
from ...kernel.specialize import specialized
from ..reduce import reduction
from ..op import Op, Plan
from .average_pool_kernels import (
    average_kernel,
    average_pool_rows,
    average_planes,
    average_planes_gradient,
    average_gradient_kernel,
    average_gradient_elements,
)
from .max_pool_kernels import (
    max_pool_kernel,
    max_pool_rows,
    max_pool_rows_with_indices,
    place_gradient_kernel,
    place_gradient_elements,
)


_WORKERS = 8  # iterations of the parallel loop, each with its own folded lines
# output lines between the two passes: long enough for the stores of one to reach the cache before the other loads them
_BLOCK_LINES = 8
_WINDOWS_PER_LOAD = 4  # windows of a line that a GPU thread loads before it compares them, at most
_INDEX = np.dtype(np.int64)


class _Pool(Op):
    """Base.

    Attributes (kernel, stride, padding, dilation, sizes) are tuples with a number for each spatial dimension; `sizes`
    are the spatial sizes of the result.
    """

    attributes = ("kernel", "stride", "padding", "dilation", "sizes")

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        return size_error(sizes["s"], _with_spatial_sizes(sizes["s"], attributes[4]), attributes)

    def _plan(
        self,
        kernel: Callable,
        results: tuple[Layout, ...],
        arrays: tuple[np.dtype, ...],
        x: tuple,
        out: tuple,
        attributes: tuple,
        numbers: tuple = (),
        scratch: tuple = (),
    ) -> Plan:
        """A plan for a kernel. `arrays`: storages of inputs and results; `scratch`: sizes and storages of scratch
        memory; x and out: shapes.
        """
        result, pool = results if self.outputs else results[0], _pooling(x, out, attributes)
        if results[0].size == 0:
            return Plan(result, lambda *_: None)
        constants = (*numbers, *pool)
        signature = bind.signature(*arrays, *(kind for _, kind in scratch), numbers=len(constants))
        flags = build.FAST_REDUCTION if kernel is average_planes else build.FAST_POINTWISE
        size, windows = pool.depth * pool.height * pool.width, pool.out_d * pool.out_h * pool.out_w
        work = pool.planes * max(windows * pool.kernel_d * pool.kernel_h * pool.kernel_w, size)
        if kernel is place_gradient_elements:
            # the number of windows that contain one of four neighbours
            window_count = (
                (3 + (pool.kernel_w - 1) * pool.step_w) // pool.stride_w + 1 if pool.stride_w else _WINDOWS_PER_LOAD
            )
            kernel, work = (
                partial(kernel, AHEAD=min(window_count, _WINDOWS_PER_LOAD), **_compile_time_sizes(pool)),
                pool.planes * size // 4,
            )
        run = bind.launcher(results[0].device, self.name, specialized(kernel), signature, results[0].dtype, work, flags)
        count, make = len(arrays), results[0].device.backend.scratch if scratch else None

        def launch(*arguments: object) -> None:
            run(*arguments[:count], *make(scratch), *arguments[count:])

        return Plan(result, launch if scratch else run, constants)

    def _line_arguments(self, x: Layout, attributes: tuple) -> tuple[tuple[int, int, int], tuple]:
        """The numbers and scratch memory of a kernel that computes whole rows: folded rows, and a table of windows."""
        window, stride, padding, step = (attribute[-1] for attribute in attributes[:4])
        sizes = _three_sizes(attributes[4], 1)
        workers, size = min(_WORKERS, prod(x.shape[: -len(attributes[0])]) * sizes[0] * sizes[1]), x.storage.itemsize
        margin = max(pool_rows.MARGIN_BYTES // size, padding)
        line = margin + pool_rows.folded_row_size(tiles.host().lanes(size), x.shape[-1], sizes[2], stride, window, step)
        return (workers, line, margin), (
            (workers * _BLOCK_LINES * line, x.storage),
            (3 * (sizes[0] + sizes[1]), _INDEX),
        )


def _three_sizes(values: tuple, filler: int) -> tuple[int, ...]:
    return (filler,) * (3 - len(values)) + tuple(values)


def _pooling(x: tuple, out: tuple, attributes: tuple) -> Pooling:
    """The sizes of a pooling of these shapes."""
    window, stride, padding, dilation = (
        _three_sizes(attribute, filler) for attribute, filler in zip(attributes, (1, 1, 0, 1))
    )
    ndim = len(attributes[0])
    return Pooling(
        prod(x[:-ndim]),
        *_three_sizes(x[-ndim:], 1),
        *window,
        *_three_sizes(out[-ndim:], 1),
        *stride,
        *padding,
        *dilation,
    )


def _line_kernel(kernel: Callable, kind: str, attributes: tuple) -> Callable:
    """A kernel that computes whole rows, specialised for a stride and kind of windows."""
    stride = attributes[1][-1]
    primitive = fold_windows(kind, (stride or 1) if stride in (0, *pool_rows.STRIDES) else "any")
    return partial(kernel, fold_windows_of_row=primitive, BLOCK=_BLOCK_LINES, REGULAR=stride != 0)


def _with_spatial_sizes(shape: tuple, sizes: tuple) -> tuple[int, ...]:
    """A shape with other spatial sizes."""
    return (*shape[: -len(sizes)], *sizes)


def size_error(inner: tuple, outer: tuple, attributes: tuple) -> str | None:
    """An error message if windows over the last sizes of `inner` do not give those of `outer`, or if one begins after
    the last element; else None.
    """
    kernel, stride, padding, dilation, sizes = attributes[:5]
    rank = len(sizes)
    if not 1 <= rank <= min(3, len(inner)) or any(len(attribute) != rank for attribute in attributes[:4]):
        return (
            f"attributes must have one entry for each of 1 to 3 dimensions, got kernel {kernel}, stride {stride}, "
            f"padding {padding} and sizes {sizes}"
        )
    for n, o, k, s, p, d in zip(inner[-rank:], outer[-rank:], kernel, stride, padding, dilation):
        if (o and not n) or (not s and (p or d != 1)) or p > d * k or (s and o and (o - 1) * s - p >= n):
            return (
                f"attribute 'sizes' must fit windows over {inner}, got {sizes}; kernel {kernel}, stride {stride}, "
                f"padding {padding}, dilation {dilation}"
            )
    return None


def _compile_time_sizes(pool: Pooling) -> dict[str, int]:
    """The fields that are compile-time constants, since a network has few values of them: windows, and a depth of 1."""
    names = [name for name in pool._fields if name.partition("_")[0] in ("kernel", "stride", "pad", "step")]
    return {name: getattr(pool, name) for name in names} | {
        name: 1 for name in ("depth", "out_d") if getattr(pool, name) == 1
    }


def _has_line_kernels(x: Layout) -> bool:
    """Whether whole rows are computed at once: for floats on the CPU."""
    return not x.device.backend.is_gpu and x.dtype.is_floating_point


class MaxPool(_Pool):
    """(values, indices) of a dense x. Indices are int32 for planes of fewer than 2^31 elements, to save memory."""

    takes = "x[*s]:buif; kernel=1..^* stride=0..^* padding=0..^* dilation=1..^* sizes=0..^*"
    inputs, outputs = ("x",), ("values", "indices")
    gradients = {
        "x": lambda grads, indices, kernel, stride, padding, dilation, layout: _scatter(
            grads[0], indices, (kernel, stride, padding, dilation), layout
        )
    }

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x,) = arguments
        shape = _with_spatial_sizes(x.shape, attributes[4])
        index = dtypes.int32 if prod(x.shape[-len(attributes[4]) :]) < 1 << 31 else dtypes.int64
        results = layout(shape, x.dtype, x.device), layout(shape, index, x.device)
        kernel, numbers, scratch = partial(max_pool_kernel, LINES=not x.device.backend.is_gpu), (), ()
        if _has_line_kernels(x) and index is dtypes.int32:
            numbers, (folded, table) = self._line_arguments(x, attributes)
            kernel = _line_kernel(max_pool_rows_with_indices, "argmax", attributes)
            scratch = (folded, (folded[0], index.storage), table)
        return self._plan(
            kernel, results, (x.storage, x.storage, index.storage), x.shape, shape, attributes, numbers, scratch
        )


class MaxPoolValues(_Pool):
    """The values of max pooling of a dense x, without indices."""

    takes = "x[*s]:buif; kernel=1..^* stride=0..^* padding=0..^* dilation=1..^* sizes=0..^*"
    inputs = ("x",)
    gradients = {
        "x": lambda g, x, kernel, stride, padding, dilation, layout: _scatter(
            g, _indices(x, g, (kernel, stride, padding, dilation)), (kernel, stride, padding, dilation), layout
        )
    }

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x,) = arguments
        out = layout(_with_spatial_sizes(x.shape, attributes[4]), x.dtype, x.device)
        if _has_line_kernels(x):
            return self._plan(
                _line_kernel(max_pool_rows, "max", attributes),
                (out,),
                (x.storage, x.storage),
                x.shape,
                out.shape,
                attributes,
                *self._line_arguments(x, attributes),
            )
        with_indices, empty = max_pool.prepare(arguments, attributes), x.device.empty
        indices = with_indices.layout[1]
        return Plan(
            out,
            lambda x_data, values, *constants: with_indices.launch(
                x_data, values, empty(indices.size, indices.storage), *constants
            ),
            with_indices.constants,
        )


def _scatter(g: object, indices: object, windows: tuple, layout: Layout) -> object:
    return place_gradient.apply((g.contiguous(), indices), (*windows, tuple(layout.shape[-len(windows[0]) :])))


def _indices(x: object, g: object, windows: tuple) -> object:
    return max_pool.apply((x,), (*windows, tuple(g.shape[-len(windows[0]) :])))[1]


class PlaceGradient(_Pool):
    """The gradient of max pooling: g added at indices into planes of `sizes`."""

    takes = "d_out[*s]:buif indices[*s]:any; kernel=1..^* stride=0..^* padding=0..^* dilation=1..^* sizes=0..^*"
    inputs = ("d_out", "indices")
    gradients = {
        "d_out": lambda g, indices, kernel: (
            g.flatten(-len(kernel)).gather(-1, indices.flatten(-len(kernel)).to(dtypes.int64)).reshape(indices.shape)
        )
    }

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        kind = dtypes.int32 if prod(attributes[4]) < 1 << 31 else dtypes.int64
        if arguments[1].dtype is not kind:
            return f"indices must be of {kind}, got {arguments[1].dtype}"
        return size_error(_with_spatial_sizes(sizes["s"], attributes[4]), sizes["s"], attributes)

    def further_limits(self, arguments: tuple, attributes: tuple, sizes: dict) -> dict[int, int | tuple[int, int]]:
        """See `Op.further_limits`."""
        return {1: (prod(attributes[4]), -1)}

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        d_out, indices = arguments
        out = layout(_with_spatial_sizes(d_out.shape, attributes[4]), d_out.dtype, d_out.device)
        kernel = place_gradient_elements if d_out.device.backend.is_gpu else place_gradient_kernel
        return self._plan(
            kernel, (out,), (d_out.storage, indices.storage, d_out.storage), out.shape, d_out.shape, attributes
        )


class AvgPool(_Pool):
    """Average pooling of a dense x or, if `backward`, its gradient. Each is the other's gradient."""

    attributes = (*_Pool.attributes, "counts_borders", "divisor")

    def __init__(self, name: str, backward: bool) -> None:
        super().__init__(name)
        self.backward = backward
        self.inputs = ("d_out",) if backward else ("x",)

    @property
    def takes(self) -> str:
        """See `Op.takes`."""
        return (
            f"{self.inputs[0]}[*s]:buif; kernel=1..^* stride=0..^* padding=0..^* dilation=1..^* sizes=0..^* "
            "counts_borders=flag divisor=0.."
        )

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        ends = sizes["s"], _with_spatial_sizes(sizes["s"], attributes[4])
        return size_error(*(reversed(ends) if self.backward else ends), attributes)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x,) = arguments
        out = layout(_with_spatial_sizes(x.shape, attributes[4]), x.dtype, x.device)
        inner, outer = (out.shape, x.shape) if self.backward else (x.shape, out.shape)
        numbers, scratch = (int(attributes[5]), attributes[6]), ()
        on_gpu = x.device.backend.is_gpu
        if not self.backward:
            kernel = partial(average_kernel, LINES=not on_gpu)
        elif on_gpu:
            kernel = average_gradient_elements
        else:
            kernel = average_gradient_kernel
        ndim = len(attributes[4])
        is_global = prod(outer[-ndim:]) == 1 and attributes[0] == tuple(inner[-ndim:]) and not any(attributes[2])
        is_global = is_global and not attributes[6] and x.dtype.is_floating_point
        if is_global and on_gpu and not self.backward:
            return reduction.mean.prepare((x,), (tuple(range(x.ndim - ndim, x.ndim)), True, None))
        if is_global and not on_gpu:
            kernel = average_planes_gradient if self.backward else average_planes
        elif not self.backward and _has_line_kernels(x):
            line_numbers, scratch = self._line_arguments(x, attributes)
            kernel = _line_kernel(average_pool_rows, "sum", attributes)
            numbers = (*line_numbers, *numbers)
            scratch = (*scratch, (attributes[4][-1], x.storage))
        return self._plan(kernel, (out,), (x.storage, x.storage), inner, outer, attributes, numbers, scratch)


def _gradient_by(op: Callable) -> Callable:
    """The gradient function of average pooling that runs the op that `op()` returns."""

    def gradient(
        g: object,
        kernel: tuple,
        stride: tuple,
        padding: tuple,
        dilation: tuple,
        layout: Layout,
        counts_borders: bool,
        divisor: int,
    ) -> object:
        return op().apply(
            (g.contiguous(),),
            (kernel, stride, padding, dilation, tuple(layout.shape[-len(kernel) :]), counts_borders, divisor),
        )

    return gradient


max_pool = MaxPool("max_pool")
max_pool_values = MaxPoolValues("max_pool_values")
place_gradient = PlaceGradient("place_gradient")
average_pool, average_pool_gradient = AvgPool("average_pool", False), AvgPool("average_pool_gradient", True)
average_pool.gradients = {"x": _gradient_by(lambda: average_pool_gradient)}
average_pool_gradient.gradients = {"d_out": _gradient_by(lambda: average_pool)}
