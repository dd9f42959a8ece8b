"""Reductions: a table of rows (map, combine, finalize, gradient) and the plan they share.

float32 elements are summed in short blocks, and the blocks in float64, so that errors do not grow with the length.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import inf, prod
from typing import NamedTuple

from ... import dtypes
from ...device import Layout, threads
from ...device.device import Device
from ...device.layout import layout
from ...dtypes import dtype as DType
from ...kernel import bind, build, emit, folds, writer
from ...kernel.any_size import for_all_sizes
from ...kernel.expression import Symbol, as_expression, parameter_names
from .. import table as t
from . import block_reduce
from ..op import Op, Plan, single_device
from ..pointwise import Pointwise

rows: dict[str, Reduction] = {}
# neighbouring outputs of a task: the wide totals of two tiles fit the L1 cache. A single thread takes two tiles at a
# time, for longer contiguous reads
_TILE = 512
# elements per output from which reductions with few outputs run in two stages, for parallelism
_TWO_STAGE_SIZE = 1 << 16
_CHUNKS = 64
_LINE = 64  # chunks are multiples of this many elements: aligned to cache lines if the row is
_COLUMNS = 1 << 10  # elements below which columns are reduced one by one
_ELEMENT, _TOTAL, _OTHER, _COUNT = map(Symbol, "xabn")  # the symbols of a fold's formulas


class Reduction(Op):
    """Reduce dimensions `dims` (sorted, distinct, non-negative); attributes (dims, keepdim, dtype or None).

    `map` maps an element, `combine` adds two totals, `finalize` maps total and count to the result. `identity`: the
    initial total, or "least" or "greatest" for that of the dtype. `result`: "sum" (integers and bool give int64),
    "same" or "bool". `accepts`: the supported kinds of dtypes (`dtype.kind`).

    The gradient is a function on tensors of `g` and `out` (shaped to broadcast), `x`, `count` and `dims`.
    """

    takes = "x[*s]~:any; dims=axis^* keepdim=flag dtype=dtype?"
    inputs = ("x",)
    attributes = ("dims", "keepdim", "dtype")
    upcasts_half = False
    wide_unsigned = True  # `accepts` decides

    def __init__(
        self,
        name: str,
        combine: Callable,
        identity: object,
        map: Callable,
        finalize: Callable,
        gradient: Callable | None,
        result: str,
        accepts: str,
    ) -> None:
        super().__init__(name)
        self.combine, self.identity, self.map, self.finalize = combine, identity, map, finalize
        self.result, self.accepts = result, accepts
        self.differentiable = gradient is not None
        self.gradients = {} if gradient is None else {"x": _gradient(gradient)}
        self._folds: dict[tuple[DType, DType], folds.Fold] = {}

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        dims = attributes[0]
        return (
            None
            if len(dims) <= len(sizes["s"]) and sorted(set(dims)) == list(dims)
            else f"attribute 'dims' must be dimensions in order, got {dims}"
        )

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x,) = arguments
        dims, keepdim, wanted = attributes
        fold = self.fold(x, wanted)
        shape = tuple(1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims)
        out = layout(shape, fold.result, x.device)
        return Plan(out, *_plan(fold, self.name, x, dims, out))

    def fold(self, x: Layout, wanted: DType | None) -> folds.Fold:
        """The fold for an input; `wanted`: the requested dtype or None."""
        compute = wanted or (dtypes.int64 if self.result == "sum" and not x.dtype.differentiable else x.dtype)
        if compute.kind not in self.accepts:
            if compute.is_complex:
                raise NotImplementedError(
                    f"\"{self.name}\" not implemented for '{compute.short}'; take a part first, with .real, .imag or "
                    ".abs()"
                )
            self.refuse_wide_unsigned(compute)
            raise RuntimeError(
                f"{self.name}(): could not infer output dtype. Input dtype must be either a floating point or complex "
                f"dtype. Got: {(wanted or x.dtype).short}"
            )
        compute = dtypes.bool_ if self.result == "bool" else compute
        if (x.dtype, compute) not in self._folds:  # one fold for all shapes, so that they share the kernel
            self._folds[x.dtype, compute] = self._fold(x.dtype, compute)
        return self._folds[x.dtype, compute]

    def _fold(self, source: DType, compute: DType) -> folds.Fold:
        wide = _wide(compute) if compute.differentiable and self.result == "sum" else compute.compute
        element, combine, final = self.map(_ELEMENT), self.combine(_TOTAL, _OTHER), self.finalize(_TOTAL, _COUNT)
        return folds.Fold(
            *map(as_expression, (element, combine, final)), self.start(compute), source, compute.compute, wide, compute
        )

    def start(self, compute: DType) -> float | int | bool:
        """The initial total; for extrema the smallest or largest value of the dtype."""
        if not isinstance(self.identity, str):
            return self.identity
        if compute.kind == "f":
            return -inf if self.identity == "least" else inf
        if compute.kind == "b":
            return self.identity == "greatest"
        limits = dtypes.iinfo(compute)
        return limits.min if self.identity == "least" else limits.max


def _wide(compute: DType) -> DType:
    """The dtype of totals."""
    return dtypes.float64 if compute.is_floating_point else dtypes.complex128


def _gradient(rule: Callable) -> Callable:
    """The gradient function of an op for a rule on tensors shaped to broadcast. Saves only the rule's parameters."""
    names = parameter_names(rule)
    saved_names = tuple(name for name in names if name in ("out", "x"))

    def gradient(g: object, layout: Layout, dims: tuple, keepdim: bool, *saved: object) -> object:
        values = dict(zip(saved_names, saved))
        values["g"] = _restore(g, dims, keepdim)
        if "out" in values:
            values["out"] = _restore(values["out"], dims, keepdim)
        values["dims"], values["count"] = dims, layout.size // (g.numel() or 1)
        return rule(*[values[name] for name in names]).expand(layout.shape)

    gradient.argument_names = ("g", "layout", "dims", "keepdim", *saved_names)
    return gradient


def _restore(tensor: object, dims: tuple, keepdim: bool) -> object:
    """Insert the reduced dimensions with size 1."""
    for dim in () if keepdim or tensor.ndim == 0 else dims:  # a scalar broadcasts anyway
        tensor = tensor.unsqueeze(dim)
    return tensor


class _Loops(NamedTuple):
    """The loops of a reduction, in memory order: sizes and steps of kept (outer) and of reduced (inner) dimensions."""

    outer_sizes: list[int]
    outer_steps: list[int]
    inner_sizes: list[int]
    inner_steps: list[int]
    outs: int  # the number of outputs
    count: int  # elements of an output


def _plan(fold: folds.Fold, name: str, x: Layout, dims: tuple[int, ...], out: Layout) -> tuple[Callable, tuple]:
    """The (launch, constants) of a reduction over `dims`, by the kernel that suits the strides and sizes."""
    outer_dims = [d for d in range(x.ndim) if d not in dims]
    outer_sizes, (outer_steps,) = emit.collapse([x.shape[d] for d in outer_dims], [[x.strides[d] for d in outer_dims]])
    dims = sorted(dims, key=lambda d: -(x.strides[d] or inf))
    inner_sizes, (inner_steps,) = emit.collapse([x.shape[d] for d in dims], [[x.strides[d] for d in dims]])
    if out.size == 0:
        return (lambda *_: None), ()
    count = prod(x.shape[d] for d in dims)
    if count == 0:
        inner_sizes, inner_steps = [0], [1]
    loops = _Loops(outer_sizes, outer_steps, inner_sizes, inner_steps, out.size, count)
    backend = x.device.backend
    by_columns = (
        len(inner_sizes) == 1
        and inner_steps[0] > outer_steps[-1] > 0
        and (for_all_sizes.get() or (outer_sizes[-1] >= 4 and x.size >= _COLUMNS))
        and not backend.is_gpu
    )
    if by_columns:
        return _reduce_columns(fold, name, x, loops)
    if len(inner_sizes) > 1 and backend.is_gpu and backend.chunks(loops.outs, count, inner_steps[-1] == 1) > 1:
        return _reduce_by_dimensions(fold, name, x, loops)
    return _reduce_in_stages(fold, name, x, loops)


def _reduce_in_stages(fold: folds.Fold, name: str, x: Layout, loops: _Loops) -> tuple[Callable, tuple]:
    """Reduce in one stage, or in two if there are few outputs of many elements along one dimension."""
    backend, sizes, chunks = x.device.backend, loops.inner_sizes, 1
    if len(sizes) == 1 and backend.is_gpu:
        chunks = backend.chunks(loops.outs, sizes[0], loops.inner_steps[0] == 1)
    elif len(sizes) == 1 and loops.outs < _CHUNKS and sizes[0] >= _TWO_STAGE_SIZE:
        chunks = min(_CHUNKS, sizes[0] // (_TWO_STAGE_SIZE // _CHUNKS))
    one_stage = backend.is_gpu or len(sizes) > 1 or not for_all_sizes.get()
    if chunks == 1 and one_stage:
        return _reduce_rows(fold, name, x, loops, 1)
    return _reduce_in_two_stages(fold, name, x, loops, chunks)


def _reduce_by_dimensions(fold: folds.Fold, name: str, x: Layout, loops: _Loops) -> tuple[Callable, tuple]:
    """Reduce the innermost dimension, then the others: on a GPU, one stage with few outputs would use few threads."""
    *other_sizes, inner_size = loops.inner_sizes
    *other_steps, inner_step = loops.inner_steps
    others = prod(other_sizes)
    # adjacent threads read adjacent memory
    if inner_step == 1:
        sizes, steps, strides = loops.outer_sizes + other_sizes, loops.outer_steps + other_steps, None
    else:
        sizes, steps, strides = other_sizes + loops.outer_sizes, other_steps + loops.outer_steps, (1, loops.outs)
    partial = layout((loops.outs, others), fold.wide, x.device, strides)
    inner_loops = _Loops(sizes, steps, [inner_size], [inner_step], loops.outs * others, inner_size)
    run, constants = _reduce_in_stages(_partial_fold(fold), name, x, inner_loops)
    return two_passes(run, constants, fold, name, partial, loops.count), ()


def _reduce_rows(
    fold: folds.Fold, name: str, x: Layout, loops: _Loops, chunks: int, joined: bool = False
) -> tuple[Callable, tuple]:
    """The (launch, constants) of a kernel that reduces each row, in `chunks` parts, by a thread or a block each."""
    *row_sizes, n = loops.inner_sizes
    *row_steps, step = loops.inner_steps
    inner, backend = emit.classes_of([[step]]), x.device.backend
    chunk = -(-n // chunks)
    chunk = chunk if chunks == 1 else -(-chunk // _LINE) * _LINE
    threads_per_row = (
        backend.threads_per_row(chunk, per_thread=block_reduce.ELEMENTS_PER_THREAD)
        if backend.is_gpu and inner == "1"
        else 0
    )
    blocks = (loops.outs * chunks, threads_per_row) if 0 < threads_per_row <= chunk else None
    across = backend.is_gpu and inner == "s" and chunks > 1
    ranks = len(loops.outer_sizes), len(row_sizes)
    short = chunks == 1 and not row_sizes and not for_all_sizes.get() and n <= fold.block and not backend.is_gpu
    source, signature = (
        folds.rows(fold, inner, *ranks, across, joined, short)
        if blocks is None
        else folds.block_rows(fold, *ranks, blocks[1])
    )
    if inner == "1" and not backend.is_gpu:
        source = emit.by_half_registers(source)
    constants = loops.outs, n, chunk, chunks, loops.count, prod(row_sizes)
    constants += (*loops.outer_sizes[1:], *row_sizes[1:], *loops.outer_steps, *row_steps)
    constants += (step,) if inner == "s" else ()
    launch = bind.launcher(x.device, name, source, signature, fold.dtype, x.size, build.FAST_REDUCTION, blocks)
    return launch, constants


def _reduce_in_two_stages(fold: folds.Fold, name: str, x: Layout, loops: _Loops, chunks: int) -> tuple[Callable, tuple]:
    """Reduce chunks, then their partial totals; on a CPU in one kernel."""
    partial = layout((loops.outs, chunks), fold.wide, x.device)
    if not x.device.backend.is_gpu:
        run, constants = _reduce_rows(fold, name, x, loops, chunks, joined=True)
        return _launcher_with_memory(run, 1, partial), constants
    run, constants = _reduce_rows(_partial_fold(fold), name, x, loops, chunks)
    return two_passes(run, constants, fold, name, partial, loops.count), ()


def _partial_fold(fold: folds.Fold) -> folds.Fold:
    """The fold whose results are totals to be combined."""
    return fold._replace(finalize=_TOTAL, result=fold.wide)


def _reduce_columns(fold: folds.Fold, name: str, x: Layout, loops: _Loops) -> tuple[Callable, tuple]:
    """The (launch, constants) of a kernel that reduces a strided dimension for neighbouring outputs at once."""
    *row_sizes, n = loops.outer_sizes
    *row_steps, step = loops.outer_steps
    (length,), (walk,), rows = loops.inner_sizes, loops.inner_steps, prod(row_sizes)
    inner = emit.classes_of([[step]])
    few = length if length < folds.STREAMS and not for_all_sizes.get() else 0
    source, signature = folds.columns(fold, len(row_sizes), inner, few)
    geometry = (loops.count, *row_sizes[1:], *row_steps, *([step] if inner == "s" else []))
    shared, one_thread = (
        (rows, n, length, walk, tile, -(-n // tile), *geometry) for tile in (min(n, _TILE), min(n, 2 * _TILE))
    )
    run = bind.launcher(x.device, name, source, signature, fold.dtype, x.size, build.FAST_REDUCTION)
    launch = _launcher_with_memory(run, 1, layout((rows, n), fold.wide, x.device))
    if one_thread == shared:
        return launch, shared
    return (lambda *arguments: launch(*arguments, *(one_thread if threads.get_num_threads() == 1 else shared))), ()


def _launcher_with_memory(run: Callable, inputs: int, totals: Layout) -> Callable:
    """A launcher of a kernel that takes scratch memory for totals between its inputs and its result."""
    empty, size, storage = totals.device.empty, totals.size, totals.storage
    return lambda *arguments: run(*arguments[:inputs], empty(size, storage), *arguments[inputs:])


class FusedMapReduce(Op):
    """A pointwise row reduced to one number, in one pass forward and one backward (losses).

    Attribute `scale` is 1, or 1 / count for a mean. Tensors must be contiguous and have the same shape.
    """

    attributes = ("scale",)
    upcasts_half = False

    def __init__(self, row: Pointwise) -> None:
        super().__init__(f"{row.name}_total")
        self.row, self.inputs, self.differentiable = row, row.inputs, row.differentiable
        self.scaled = Pointwise(
            self.name, lambda *values: row(*values[:-1]) * values[-1], {}, inputs=(*row.inputs, "scale")
        )
        self.element = as_expression(row(*(Symbol(writer.argument_name(name)) for name in self.inputs)))
        self.total, self.mean = t.add(_TOTAL, _OTHER), t.div(_TOTAL, _COUNT)

    def gradient_of(self, position: int) -> Pointwise | None:
        return self.scaled.gradient_of(position)

    @property
    def takes(self) -> str:
        """See `Op.takes`."""
        return " ".join(f"{input}#[*s]:any" for input in self.inputs) + "; scale=number"

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        return None if "s" in sizes else "at least one input must be a tensor"

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (scale,) = attributes
        tensors = [argument for argument in arguments if isinstance(argument, Layout)]
        compute, _ = self.row.types(arguments)
        out = layout((), compute, single_device(self.name, tensors))
        n = tensors[0].size
        inputs = tuple(
            writer.Input(
                writer.argument_name(name),
                argument.dtype if isinstance(argument, Layout) else dtypes.of_scalar_type(argument),
                isinstance(argument, Layout),
            )
            for name, argument in zip(self.inputs, arguments)
        )
        final = self.mean if scale != 1 else _TOTAL
        wide, narrow = dtypes.float64 if compute.is_floating_point else compute, compute.compute
        fold = folds.Fold(self.element, self.total, final, 0, compute, narrow, wide, compute)
        return Plan(out, *total(self.name, out.device, fold, inputs, n))


def total(
    name: str, device: Device, fold: folds.Fold, inputs: tuple[writer.Input, ...], n: int
) -> tuple[Callable, tuple]:
    """The launcher and constants of a reduction of a formula over n elements to one value."""
    on_gpu = device.backend.is_gpu
    chunks = (
        device.backend.chunks(1, n, True)
        if on_gpu
        else min(_CHUNKS, n // (_TWO_STAGE_SIZE // _CHUNKS))
        if n >= _TWO_STAGE_SIZE
        else 1
    )
    constants = (n, -(-n // chunks), chunks, n)
    if chunks == 1 and (on_gpu or not for_all_sizes.get()):
        return flat(name, device, fold, inputs, n, chunks), constants
    partial = layout((1, chunks), fold.wide, device)
    if on_gpu:
        return two_passes(
            flat(name, device, _partial_fold(fold), inputs, n, chunks), constants, fold, name, partial, n
        ), ()
    return _launcher_with_memory(
        flat(name, device, fold, inputs, n, chunks, joined=True),
        len([input for input in inputs if input.tensor]),
        partial,
    ), constants


def flat(
    name: str,
    device: Device,
    fold: folds.Fold,
    inputs: tuple[writer.Input, ...],
    n: int,
    chunks: int,
    joined: bool = False,
) -> Callable:
    """The launcher of `folds.flat` for n elements in total."""
    blocks = (chunks, device.backend.threads_per_row(n // chunks)) if device.backend.is_gpu else None
    source, signature = folds.flat(fold, inputs, blocks[1] if blocks else 0, joined)
    return bind.launcher(device, name, source, signature, fold.dtype, n, build.FAST_REDUCTION, blocks)


def two_passes(
    run_first: Callable, constants: tuple, fold: folds.Fold, name: str, partial: Layout, count: int
) -> Callable:
    """A launcher that computes partial totals, then reduces them."""
    outs, chunks = partial.shape
    last = folds.Fold(
        _ELEMENT, fold.combine, fold.finalize, fold.identity, fold.wide, fold.wide, fold.wide, fold.result
    )
    outer_step, inner_step = partial.strides
    loops = _Loops([outs], [outer_step], [chunks], [inner_step], outs, count)
    run_last, constants_last = _reduce_in_stages(last, name, partial, loops)

    def launch(*arguments: object) -> None:
        *inputs, out = (argument for argument in arguments if not isinstance(argument, (int, float)))
        numbers = [argument for argument in arguments if isinstance(argument, (int, float))]
        totals = partial.device.empty(partial.size, partial.storage)
        run_first(*inputs, totals, *numbers, *constants)
        run_last(totals, out, *constants_last)

    return launch


@cache
def fused_map_reduce(row: Pointwise) -> FusedMapReduce:
    """The op that reduces a row to one number (see `FusedMapReduce`)."""
    return FusedMapReduce(row)


def reduction(
    name: str,
    combine: Callable,
    identity: object,
    *,
    map: Callable = lambda x: x,
    finalize: Callable = lambda a, n: a,
    dx: Callable | None = None,
    result: str = "same",
    accepts: str = "buif",
) -> Reduction:
    """Add a row to the table of reductions."""
    rows[name] = row = Reduction(name, combine, identity, map, finalize, dx, result, accepts)
    return row


def _prod_gradient(g: object, x: object, out: object, dims: tuple) -> object:
    """g * out / x; with zeros in x, the products of the other elements are computed directly."""
    if not (x == 0).any()._observe():
        return g * (out / x).conj()
    order = [d for d in range(x.ndim) if d not in dims] + list(dims)
    permuted = x.permute(order)
    flat = permuted.reshape(*permuted.shape[: x.ndim - len(dims)], -1)
    n = flat.shape[-1]
    others = (
        flat.unsqueeze(-2)
        .expand(*flat.shape[:-1], n, n)
        .masked_fill(x.new_identity(n), 1)
        .prod(-1)
        .conj()
        .reshape(permuted.shape)
    )
    return g * others.permute([order.index(d) for d in range(x.ndim)])


def _extremum_gradient(g: object, x: object, out: object, dims: tuple) -> object:
    """g, shared evenly among the elements that equal the extremum."""
    is_extremum = ((x == out) | ((x != x) & (out != out))).to(g.dtype)
    return g * (is_extremum / is_extremum.sum(dims, keepdim=True))


sum = reduction("sum", lambda a, b: a + b, 0, dx=lambda g: g, result="sum", accepts="buifc")
nansum = reduction(
    "nansum",
    lambda a, b: a + b,
    0,
    map=lambda x: t.where(x == x, x, 0.0),
    dx=lambda g, x: t.where(x == x, g, 0.0),
    result="sum",
    accepts="f",
)
mean = reduction(
    "mean",
    lambda a, b: a + b,
    0,
    finalize=lambda a, n: a / n,
    dx=lambda g, count: g / count,
    result="sum",
    accepts="fc",
)
prod_ = reduction("prod", lambda a, b: a * b, 1, dx=_prod_gradient, result="sum", accepts="buifc")
amax = reduction("amax", lambda a, b: t.larger(a, b), "least", dx=_extremum_gradient)
amin = reduction("amin", lambda a, b: t.smaller(a, b), "greatest", dx=_extremum_gradient)
any_ = reduction("any", lambda a, b: t.logical_or(a, b), False, result="bool", accepts="buwifc")
all_ = reduction("all", lambda a, b: t.logical_and(a, b), True, result="bool", accepts="buwifc")
norm2 = reduction(
    "norm2",
    lambda a, b: a + b,
    0,
    map=lambda x: x * x,
    finalize=lambda a, n: t.sqrt(a),
    result="sum",
    accepts="f",
    dx=lambda g, x, out: (x / out).masked_fill(out == 0, 0.0) * g,
)
norm1 = reduction(
    "norm1", lambda a, b: a + b, 0, map=lambda x: t.abs(x), dx=lambda g, x: x.sign() * g, result="sum", accepts="f"
)
