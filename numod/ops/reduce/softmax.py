"""Softmax, log-softmax and cross-entropy with class indices.

Dense inputs are seen as (outer, n, inner) and reduced along n. A column is the n elements at one place (outer, inner).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ... import dtypes
from ...device import Layout, threads
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.any_size import for_all_sizes
from ...kernel.library.softmax import greatest_in_line, sum_of_exp_in_line, write_softmax_in_line
from ...kernel.registers import tiles
from ...kernel.specialize import has, specialized
from . import register_rows, block_reduce
from ..op import Op, Plan, single_device
from .softmax_kernels import (
    cross_entropy_block,
    cross_entropy_columns,
    cross_entropy_gradient_block,
    cross_entropy_gradient_columns,
    cross_entropy_gradient_kernel,
    cross_entropy_kernel,
    cross_entropy_total_kernel,
    log_softmax_block,
    log_softmax_columns,
    log_softmax_kernel,
    softmax_block,
    softmax_columns,
    softmax_kernel,
    total_block,
    total_kernel,
)

_COLUMNS = 128  # neighbouring columns of a task of the column kernels, which are used on a CPU
_MIN_COLUMNS = 8  # minimum number of neighbouring columns for them, if n is not the last axis
_MIN_ROWS = 96  # minimum number of rows for them, if n is the last axis
_MAX_LENGTH = 32  # and maximum length of these rows


# device functions for contiguous elements, by the compile-time parameter whose default takes any step
_IN_LINE = {"greatest": greatest_in_line, "sum_of_exp": sum_of_exp_in_line, "write_softmax": write_softmax_in_line}


class Softmax(Op):
    """Softmax or log-softmax of a dense tensor along the attribute `dim`."""

    takes = "x[*s]:f; dim=axis"
    inputs, attributes = ("x",), ("dim",)

    def __init__(self, name: str, kernels: tuple[Callable, Callable, Callable], gradient: Callable) -> None:
        super().__init__(name)
        self.kernels, self.gradients = kernels, {"x": gradient}

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x,), (dim,) = arguments, attributes
        _check_float(self.name, x)
        out = layout(x.shape, x.dtype, x.device)
        if x.size == 0:
            return Plan(out, lambda *_: None)
        outer, n, inner = split(x.shape, dim)
        signature = bind.signature(x, x, numbers=3)
        return Plan(out, _launcher(x, self.name, self.kernels, signature, outer, n, inner), (outer, n, inner))


class CrossEntropy(Op):
    """Loss per element: dense x (N, C, ...), int64 target (N, ...) -> (N, ...).

    The caller has checked the range of the targets.
    """

    takes = "x[n c *s]:f target[n *s]:int64; ignore_index=int"
    inputs, attributes = ("x", "target"), ("ignore_index",)
    gradients = {
        "x": lambda g, x, target, ignore_index: cross_entropy_gradient.apply(
            (g.contiguous(), x, target, None), (ignore_index, False)
        )
    }

    def further_limits(self, arguments: tuple, attributes: tuple, sizes: dict) -> dict[int, int | tuple[int, int]]:
        """See `Op.further_limits`."""
        return {1: (sizes["c"], attributes[0])}

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x, target), (ignored, *mean) = arguments, attributes
        _check_float(self.name, x)
        if x.shape[:1] + x.shape[2:] != target.shape:
            raise RuntimeError(
                f"cross_entropy: input {tuple(x.shape)} (N, C, ...) expects target "
                f"{tuple(x.shape[:1] + x.shape[2:])}, got {tuple(target.shape)}"
            )
        if target.dtype is not dtypes.int64:
            raise RuntimeError(
                f"cross_entropy: expected target of class indices as numod.int64, got {target.dtype}; convert with "
                ".long()"
            )
        device = single_device(self.name, [x, target])
        return self._plan(x, layout(target.shape, x.dtype, device), (*split(x.shape, 1), ignored, *map(int, mean)))

    def _plan(self, x: Layout, out: Layout, constants: tuple) -> Plan:
        if out.size == 0:
            return Plan(out, lambda *_: None)
        signature = bind.signature(x, "int64", x, numbers=4)
        return Plan(
            out,
            _launcher(
                x,
                self.name,
                (cross_entropy_kernel, cross_entropy_columns, cross_entropy_block),
                signature,
                *constants[:3],
            ),
            constants,
        )


class CrossEntropyTotal(CrossEntropy):
    """(loss, count, invalid): the sum of losses, or their `mean` over targets that are not ignored, the number of these
    targets, and the number of targets outside [0, C).
    """

    takes = "x[n c *s]:f target[n *s]:int64; ignore_index=int mean=flag"
    attributes, outputs = ("ignore_index", "mean"), ("loss", "count", "invalid")
    results_with_gradient = 1
    gradients = {
        "x": lambda grads, x, target, count, ignore_index, mean, recording: _total_gradient(
            grads[0], x, target, count, ignore_index, mean, recording
        )
    }

    def further_limits(self, arguments: tuple, attributes: tuple, sizes: dict) -> dict[int, int | tuple[int, int]]:
        """No limits: the kernel counts targets outside [0, C)."""
        return {}

    def _plan(self, x: Layout, out: Layout, constants: tuple) -> Plan:
        results = (layout((), x.dtype, x.device), *[layout((), dtypes.int64, x.device)] * 2)
        signature = f"{x.storage.name}[], int64[], {x.storage.name}[], int64[], int64[]"
        large = for_all_sizes.get() or 16 * x.size >= threads.MIN_PARALLEL_WORK
        if x.device.backend.is_gpu or large or constants[2] >= _MIN_COLUMNS:
            return self._plan_in_two(x, out, results, signature, constants)
        source = _source(cross_entropy_total_kernel, x.device, constants[2])
        return Plan(
            results,
            bind.launcher(
                x.device, self.name, source, signature + 5 * ", int64", x.dtype, 16 * x.size, build.FAST_POINTWISE
            ),
            constants,
        )

    def _plan_in_two(self, x: Layout, out: Layout, results: tuple, signature: str, constants: tuple) -> Plan:
        """The loss per target in parallel, then the total."""
        per_target, backend = super()._plan(x, out, constants[:-1]), x.device.backend
        signature += 4 * ", int64"
        if backend.is_gpu:
            add = block_reduce.launcher(x, self.name, total_block, signature, 1, backend.threads_per_row(out.size, 512))
        else:
            add = bind.launcher(
                x.device, self.name, specialized(total_kernel), signature, x.dtype, out.size, build.FAST_REDUCTION
            )
        (_, n, _, ignored, mean), scratch = constants, ((out.size, x.storage),)

        def launch(x_data: object, target: object, *results: object) -> None:
            (losses,) = backend.scratch(scratch)
            per_target.launch(x_data, target, losses, *per_target.constants)
            add(losses, target, *results, out.size, n, ignored, mean)

        return Plan(results, launch)


class CrossEntropyGradient(Op):
    """g * (softmax(x) - one_hot(target)) along dimension 1, for dense g and target (N, ...) and x (N, C, ...).

    If `count` is not None, g is one number for all targets, divided by `count` if `mean`.
    """

    takes = "d_out[*g]:f x[n c *s] target[n *s]:int64 count?[]:int64; ignore_index=int mean=flag"
    inputs, attributes = ("d_out", "x", "target", "count"), ("ignore_index", "mean")

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        wanted = () if isinstance(arguments[3], Layout) else (sizes["n"], *sizes["s"])
        return None if sizes["g"] == wanted else f"d_out must be of shape {wanted}, got {sizes['g']}"

    def further_limits(self, arguments: tuple, attributes: tuple, sizes: dict) -> dict[int, int | tuple[int, int]]:
        """See `Op.further_limits`."""
        return {2: (sizes["c"], attributes[0])}

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (_, x, _, count), (ignored, mean) = arguments, attributes
        out = layout(x.shape, x.dtype, x.device)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        signature = bind.signature(x, x, "int64", "int64", x, numbers=6)
        outer, n, inner = split(x.shape, 1)
        kernels = cross_entropy_gradient_kernel, cross_entropy_gradient_columns, cross_entropy_gradient_block
        launch = _launcher(x, self.name, kernels, signature, outer, n, inner)
        constants = (outer, n, inner, ignored, int(not isinstance(count, Layout)), int(mean))
        if isinstance(count, Layout):
            return Plan(out, launch, constants)
        # the kernel does not read the array passed for `count`
        return Plan(out, lambda g, x, target, out: launch(g, x, target, target, out, *constants))


def _launcher(
    x: Layout, name: str, kernels: tuple[Callable, Callable, Callable], signature: str, outer: int, n: int, inner: int
) -> Callable:
    """The launcher of the kernel for single columns, for neighbouring columns (columns), or for blocks of threads."""
    kernel, columns, block = kernels
    if threads_per_row := block_reduce.sharing(x, n, inner):
        return block_reduce.launcher(
            x, name, register_rows.register_variant(block, n, threads_per_row), signature, outer, threads_per_row
        )
    transposed = inner == 1 and n <= _MAX_LENGTH and outer >= _MIN_ROWS and not for_all_sizes.get()
    if not transposed and inner < _MIN_COLUMNS or x.device.backend.is_gpu:
        flags = build.FAST_POINTWISE if has(kernel, "sum_of_exp") else build.FAST_REDUCTION  # see `log_softmax_kernel`
        return bind.launcher(x.device, name, _source(kernel, x.device, inner), signature, x.dtype, 16 * x.size, flags)
    buffers, names, storage = signature.count("[]"), columns.__code__.co_varnames, x.storage
    arrays, numbers = [*signature.split(", ")[:buffers], *[f"{storage.name}[]"] * 4], signature.split(", ")[buffers:]
    source = specialized(columns, COLUMNS=_COLUMNS, LANES=tiles.host().lanes(x.dtype.itemsize))
    run = bind.launcher(
        x.device, name, source, ", ".join([*arrays, *numbers]), x.dtype, 16 * x.size, build.FAST_POINTWISE
    )
    empty = x.device.empty
    size = x.size
    column_count = outer * inner
    x_at = names.index("x")
    out_at = names.index("out")

    def launch(*arguments: object) -> None:
        strips = (empty(size, storage), empty(size, storage)) if transposed else (arguments[x_at], arguments[out_at])
        run(
            *arguments[:buffers],
            *strips,
            empty(column_count, storage),
            empty(column_count, storage),
            *arguments[buffers:],
        )

    return launch


def _total_gradient(
    g: object, x: object, target: object, count: object, ignore_index: int, mean: bool, recording: bool
) -> object:
    """The gradient of `cross_entropy_total`. If `recording`, it is one that can be differentiated again."""
    if not recording:
        return cross_entropy_gradient.apply((g, x, target, count), (ignore_index, mean))
    g_per_target = (g / count if mean else g).expand(target.shape).contiguous()
    return cross_entropy_gradient.apply((g_per_target, x, target, None), (ignore_index, False))


def _second_by_g(g: object, x: object, target: object, ignore_index: int) -> object:
    """The gradient of `cross_entropy_gradient` with respect to d_out, for the gradient g of its result."""
    unit = cross_entropy_gradient.apply(
        (target.new_ones(target.shape, dtype=x.dtype), x, target, None), (ignore_index, False)
    )
    return (g * unit).sum(1)


def _second_by_x(g: object, d_out: object, x: object, target: object, ignore_index: int) -> object:
    """The gradient of `cross_entropy_gradient` with respect to x, for the gradient g of its result."""
    probabilities = x.softmax(1)
    d_loss = d_out.masked_fill(target == ignore_index, 0.0).unsqueeze(1)
    return d_loss * probabilities * (g - (g * probabilities).sum(1, keepdim=True))


def _source(kernel: Callable, device: object, inner: int) -> str:
    """A kernel's source, with the device functions for contiguous elements if inner is 1 and the CPU has them."""
    if inner != 1 or not device.backend.VECTORISED:
        return specialized(kernel)
    return specialized(
        kernel, inner=np.int64(1), **{name: function for name, function in _IN_LINE.items() if has(kernel, name)}
    )


def split(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """Sizes before, of and after a dimension; a scalar is one element."""
    return prod(shape[:dim]), shape[dim] if shape else 1, prod(shape[dim + 1 :])


def _check_float(name: str, x: Layout) -> None:
    if not x.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{x.dtype.short}'; convert first, for example with .to(numod.float32)"
        )


softmax = Softmax(
    "softmax",
    (softmax_kernel, softmax_columns, softmax_block),
    lambda g, out, dim: out * (g - (g * out).sum(dim, keepdim=True)),
)
log_softmax = Softmax(
    "log_softmax",
    (log_softmax_kernel, log_softmax_columns, log_softmax_block),
    lambda g, out, dim: g - out.exp() * g.sum(dim, keepdim=True),
)
cross_entropy = CrossEntropy("cross_entropy")
cross_entropy_total = CrossEntropyTotal("cross_entropy_total")
cross_entropy_gradient = CrossEntropyGradient("cross_entropy_gradient")
cross_entropy_gradient.gradients = {"d_out": _second_by_g, "x": _second_by_x}
