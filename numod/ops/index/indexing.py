"""Reading and writing by index tensors along one dimension: gather, scatter, index_select, index_add, bags, nonzero.

Dense tensors are seen as (outer, n, inner); indices are int64 and checked by the caller. Advanced indexing of several
dimensions is reduced to these ops by linear indices (`core.index.indexing`).

Writes to an element are in the order of the indices, since a column (outer, inner) belongs to one task. On a GPU,
additions use one thread per element of the source and atomics, in any order: sums of floats may differ in rounding from
run to run, unless `deterministic` is set. Real and imaginary parts are added separately, 8- and 16-bit integers in 32
bits. If many elements are put (not added) into few columns, the threads first determine which element comes last.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind
from ...kernel.emit import by_half_registers
from ...kernel.specialize import has, specialized
from ..op import Op, Plan, single_device
from ..sort.searchsorted import searchsorted
from ..reduce.softmax import split
from .indexing_kernels import (
    add_value,
    add_wide,
    bag_bounds_kernel,
    bag_kernel,
    bounded_kernel,
    clear_last,
    element_of_pair,
    find_last,
    gather_kernel,
    gather_runs_kernel,
    index_add_elements,
    index_add_kernel,
    index_select_elements,
    index_select_kernel,
    load_wide,
    nonzero_kernel,
    nonzero_run_kernel,
    put_last,
    same_element,
    scatter_add_elements,
    scatter_add_kernel,
    store_narrow,
)

_PARTS = 16  # runs of indices that are divided among threads
# dtypes with atomic additions on a GPU; float16 and bfloat16 are added as float32
_ATOMIC_DTYPES = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64)
SHORT_DTYPES = (dtypes.int8, dtypes.int16, dtypes.uint8)
_WRITES_PER_THREAD = 32  # writes to a column that one GPU thread can make
_FULL_GPU_COLUMNS = 1 << 16  # columns that fill a GPU
# 1 to warn, 2 to raise; set by `numod.use_deterministic_algorithms`, which also drops all plans
deterministic = 0


class CheckedIndex(Op):
    """Check dense int64 indices on a GPU without waiting for the result (`device.cuda_reports`).

    Attributes: the lowest valid index, the size, an index that is ignored, and the entry of the check in `report`.
    """

    inputs, attributes, gradients, differentiable = ("index", "report"), ("low", "size", "ignored", "slot"), {}, False
    reports = True
    portable = False  # it writes to memory of this process

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        index, _ = arguments
        out = layout(index.shape, dtypes.int64, index.device)
        launch = bind.launcher(
            index.device,
            self.name,
            specialized(bounded_kernel),
            bind.signature(*["int64"] * 3, numbers=5),
            dtypes.float64,
            index.size,
        )
        return Plan(out, launch, (index.size, *attributes))


class Gather(Op):
    """Elements of a dense x at int64 indices along the attribute `dim`."""

    takes = "x[*x]:any index[*i]:int64<dim; dim=axis"
    inputs, attributes, upcasts_half, wide_unsigned = ("x", "index"), ("dim",), False, True

    def __init__(self, name: str, kernel: Callable, gradient: Callable) -> None:
        super().__init__(name)
        self.kernel, self.gradients = kernel, {"x": gradient}

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        return size_mismatch(sizes["x"], sizes["i"], attributes[0]) if self.kernel is gather_kernel else None

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x, index), (dim,) = arguments, attributes
        _check_index(self.name, index, x)
        shape = index.shape if self.kernel is gather_kernel else x.shape[:dim] + index.shape + x.shape[dim + 1 :]
        out = layout(tuple(shape), x.dtype, single_device(self.name, [x, index]))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        outer, n, inner = split(x.shape, dim)
        if self.kernel is gather_kernel and index.ndim:
            m = index.shape[dim]
        elif self.kernel is index_select_kernel:
            m = prod(index.shape)
        else:
            m = 1
        on_gpu, kernel = x.device.backend.is_gpu, self.kernel
        if kernel is gather_kernel and not on_gpu:
            kernel = gather_runs_kernel
        elif kernel is index_select_kernel and on_gpu:
            kernel = index_select_elements
        numbers = (outer, n, inner, m) if on_gpu else (outer, n, inner, m, min(m, -(-_PARTS // outer)))
        source = specialized(kernel, **sizes_of_one(x, **dict(zip(("inner", "m", "parts"), numbers[2:]))))
        source = source if on_gpu else by_half_registers(source)
        signature = bind.signature(x, "int64", x, numbers=len(numbers))
        return Plan(out, bind.launcher(x.device, self.name, source, signature, x.dtype, out.size), numbers)


class Scatter(Op):
    """Put source into a dense x in place, or add it, at int64 indices along `dim`. x and source have the same dtype."""

    takes = "x[*x]:any index[*i]:int64<dim source[*s]:any; dim=axis"
    inputs, attributes = ("x", "index", "source"), ("dim",)

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        slabs = self.kernels is _SLABS
        if slabs and len(sizes["i"]) > 1:
            return f"index must have one dimension, got {len(sizes['i'])}"
        if slabs:
            n_indices, n_slabs = (sizes["i"] or (1,))[0], sizes["s"][attributes[0]] if sizes["s"] else 1
            fits = n_indices == n_slabs
        else:
            fits = sizes["i"] == sizes["s"]
        if not fits:
            return f"index of shape {sizes['i']} and source of shape {sizes['s']} do not fit"
        return size_mismatch(sizes["x"], sizes["s"], attributes[0])

    def __init__(
        self, name: str, kernels: tuple[Callable, Callable], adds: bool, x_gradient: Callable, source_gradient: Callable
    ) -> None:
        """`kernels`: one that writes in order, and one in any order. `adds`: whether elements are added, or put; then
        the last one of each index stays.
        """
        super().__init__(name)
        self.kernels, self.adds, self.gradients = kernels, adds, {"x": x_gradient, "source": source_gradient}

    def prepare_into(
        self, arguments: tuple, attributes: tuple, into: tuple[Layout, ...], over: tuple[int | None, ...]
    ) -> Plan:
        (x, index, source), (dim,) = arguments, attributes
        _check_index(self.name, index, x, source)
        single_device(self.name, [x, index, source])
        if x.dtype is not source.dtype:
            raise RuntimeError(
                f"{self.name}(): Expected self.dtype to be equal to src.dtype: self and source "
                f"expected to have the same dtype, but got (self) {x.dtype} and (source) {source.dtype}"
            )
        if source.size == 0 or index.size == 0:
            return Plan(into[0], lambda *_: None)
        outer, n, inner = split(x.shape, dim)
        sizes = outer, n, inner, source.shape[dim] if source.ndim else 1
        ordered, unordered = self.kernels
        on_gpu, work = x.device.backend.is_gpu, source.size
        # sums of integers do not depend on the order
        if on_gpu and self.adds and x.dtype in _ATOMIC_DTYPES and not (deterministic and x.dtype.is_floating_point):
            text = _atomic(unordered, add_value)
        elif on_gpu and self.adds and x.dtype.is_complex and not deterministic:
            return Plan(into[0], self._launch_by_parts(x, source, unordered), (outer, n, 2 * inner, sizes[3]))
        elif on_gpu and (x.dtype in SHORT_DTYPES or not self.adds) and few_columns(*sizes):
            kind = np.dtype(np.int64 if not self.adds and source.size >= 1 << 31 else np.int32)
            writes = (load_wide, add_wide, store_narrow) if self.adds else (clear_last, find_last, put_last)
            return Plan(into[0], self._launch_in_three_steps(x, source, unordered, kind, writes), sizes)
        else:
            width = columns(x, inner)
            blocks = -(-inner // width)
            sizes += width, blocks
            work = work if on_gpu or outer * blocks > 1 else 0  # a single task needs no second thread
            text = specialized(
                ordered, ADDS=self.adds, **sizes_of_one(x, inner=inner, width=inner, m=sizes[3], blocks=blocks)
            )
        signature = bind.signature(x, "int64", x, numbers=len(sizes))
        launch = bind.launcher(x.device, self.name, text, signature, x.dtype, work)
        return Plan(into[0], launch, sizes)

    def _launch_by_parts(self, x: Layout, source: Layout, kernel: Callable) -> Callable:
        """A launch that adds real and imaginary parts as neighbouring columns."""
        part, text = x.dtype.real, _atomic(kernel, add_value, element_of_pair)
        step = bind.launcher(
            x.device, self.name, text, bind.signature(part, "int64", part, numbers=4), part, 2 * source.size
        )
        return lambda x_data, index, source_data, *sizes: step(
            x_data.view(part.storage), index, source_data.view(part.storage), *sizes
        )

    def _launch_in_three_steps(
        self, x: Layout, source: Layout, kernel: Callable, kind: np.dtype, writes: tuple[Callable, ...]
    ) -> Callable:
        """A launch of three kernels with an array `last` of the size of x and dtype `kind`: the index in source of the
        last element that is put, or a sum.
        """
        empty = x.device.empty
        signature = bind.signature(x, "int64", x, kind, numbers=4)
        texts = [_atomic(kernel, write, shares_last=True) for write in writes]
        steps = [bind.launcher(x.device, self.name, text, signature, x.dtype, source.size) for text in texts]

        def launch(x_data: object, index: object, source_data: object, *sizes: int) -> None:
            last = empty(x.size, kind)
            for step in steps:
                step(x_data, index, source_data, last, *sizes)

        return launch


class Bag(Op):
    """Sums, or if `mean` means, of rows of a dense x (n, width) by bag: bag b has the rows at
    index[bounds[b]:bounds[b + 1]], multiplied by their `share` unless it is None.
    """

    takes = "x[n w]:buifc index[k]:int64<n bounds[b]:int64 share?[k]; mean=flag"
    inputs, attributes = ("x", "index", "bounds", "share"), ("mean",)
    gradients = {
        "x": lambda g, layout, index, bounds, share, mean: g.new_zeros(layout.shape).index_add_(
            0, index, _gradient_of_members(g, index, bounds, mean) * (1 if share is None else share.unsqueeze(1))
        ),
        "share": lambda g, x, index, bounds, mean: (
            _gradient_of_members(g, index, bounds, mean) * x.index_select(0, index)
        ).sum(1),
    }

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        return None if sizes["b"] else "bounds must have at least one element"

    def further_limits(self, arguments: tuple, attributes: tuple, sizes: dict) -> dict[int, int]:
        """See `Op.further_limits`."""
        return {2: sizes["k"] + 1}

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x, index, bounds, share), (mean,) = arguments, attributes
        tensors = [x, index, bounds, *([share] if isinstance(share, Layout) else [])]
        _check_index(self.name, index, *tensors)
        out = layout((bounds.shape[0] - 1, x.shape[1]), x.dtype, single_device(self.name, tensors))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        shares = len(tensors) > 3
        text = specialized(
            bag_kernel, SHARES=shares, **({} if shares else {"weights": ()}), **sizes_of_one(x, inner=x.shape[1])
        )
        signature = bind.signature(x, "int64", "int64", *[x] * (len(tensors) - 2), numbers=3)
        work = x.shape[1] * (index.size + out.shape[0])
        launch = bind.launcher(x.device, self.name, text, signature, x.dtype, work)
        return Plan(out, launch, (out.shape[0], x.shape[1], int(mean)))


class BagBounds(Op):
    """The bounds of bags from dense `offsets` into `length` indices. With `include_last`, offsets already has the end.

    Offsets that decrease, or do not start at 0, become -1.
    """

    takes = "offsets[n]:int64; length=0.. include_last=flag"
    inputs, attributes, gradients, differentiable = ("offsets",), ("length", "include_last"), {}, False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (offsets,), (length, include_last) = arguments, attributes
        out = layout((offsets.size + (not include_last),), dtypes.int64, offsets.device)
        launch = bind.launcher(
            out.device,
            self.name,
            specialized(bag_bounds_kernel),
            bind.signature("int64", "int64", numbers=3),
            dtypes.float64,
            out.size,
        )
        return Plan(out, launch, (offsets.size, out.size, length))


def _gradient_of_members(g: object, index: object, bounds: object, mean: bool) -> object:
    """The row of g for each member of a bag, divided by the size of the bag if `mean`."""
    g = g / (bounds[1:] - bounds[:-1]).clamp(min=1).unsqueeze(1) if mean else g
    return g.index_select(0, searchsorted.apply((g.new_arange(index.shape[0]), bounds, bounds), (True, False)) - 1)


class Nonzero(Op):
    """Linear indices of the true elements of a dense bool mask, `total` in number.

    On a GPU `before` is their running count, on a CPU None.
    """

    takes = "mask[*s]:bool before?[*s]:int64; total=0.."
    inputs, attributes, gradients, differentiable = ("mask", "before"), ("total",), {}, False

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        return (
            None
            if attributes[0] <= arguments[0].size
            else f"attribute 'total' must be at most {arguments[0].size}, got {attributes[0]}"
        )

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        mask, _ = arguments
        out = layout((attributes[0],), dtypes.int64, mask.device)
        if mask.size == 0:
            return Plan(out, lambda *_: None)
        on_gpu = mask.device.backend.is_gpu
        kernel, kinds, work = (
            (nonzero_kernel, "uint8[], int64[], int64[], int64", mask.size)
            if on_gpu
            else (nonzero_run_kernel, "uint8[], int64[], int64, int64", 1)
        )
        return Plan(
            out,
            bind.launcher(mask.device, self.name, specialized(kernel), kinds, dtypes.float64, work),
            (mask.size,) if on_gpu else (*attributes, mask.size),
        )


def columns(x: Layout, inner: int) -> int:
    """Columns of a task: on a CPU a run of at least 64, in at most 16 parts; on a GPU one."""
    return min(inner, max(64, -(-inner // 16))) if x.device.type == "cpu" else 1


def few_columns(outer: int, n: int, inner: int, m: int) -> bool:
    """Whether a GPU needs one thread per element, since one per column (outer, inner) would be too few."""
    return m > _WRITES_PER_THREAD and outer * inner < _FULL_GPU_COLUMNS


def _atomic(kernel: Callable, write: Callable, entry: Callable = same_element, shares_last: bool = False) -> str:
    """The source of a GPU kernel with one thread per element."""
    values = {"entry": entry} if has(kernel, "entry") else {}
    return (
        specialized(kernel, write=write, **values)
        if shares_last
        else specialized(kernel, write=write, last=(), **values)
    )


def sizes_of_one(x: Layout, **sizes: int) -> dict[str, np.int64]:
    """The sizes that are 1, as compile-time constants on a CPU, to remove loops and divisions."""
    return {} if x.device.backend.is_gpu else {name: np.int64(1) for name, n in sizes.items() if n == 1}


def size_mismatch(whole: tuple, part: tuple, dim: int) -> str | None:
    """An error message if `part` differs from `whole` in a dimension other than `dim`, else None."""
    fits = len(whole) == len(part) and all(n == m for d, (n, m) in enumerate(zip(whole, part)) if d != dim)
    return None if fits else f"sizes {part} must be {whole} except along dimension {dim}"


def _check_index(name: str, index: Layout, *others: Layout) -> None:
    """Raise RuntimeError unless index is int64 and all tensors are dense."""
    if index.dtype is not dtypes.int64:
        raise RuntimeError(f"{name}(): Expected dtype int64 for index, got {index.dtype}; convert with .long()")
    if not all(tensor.dense for tensor in (index, *others)):
        raise RuntimeError(f"{name}(): expected dense tensors; call .contiguous() first")


def _index_select_gradient(g: object, whole: Layout, index: object, dim: int) -> object:
    """The gradient of `index_select` for indices of any shape: slices of g added to zeros."""
    if index.ndim != 1:
        g, index = g.reshape(*whole.shape[:dim], -1 if g.numel() else 0, *whole.shape[dim + 1 :]), index.reshape(-1)
    return g.new_zeros(whole.shape).index_add_(dim, index, g)


gather = Gather(
    "gather", gather_kernel, lambda g, layout, index, dim: g.new_zeros(layout.shape).scatter_add_(dim, index, g)
)
gather.wide_unsigned = False
index_select = Gather(
    "index_select", index_select_kernel, lambda g, layout, index, dim: _index_select_gradient(g, layout, index, dim)
)
# writes of whole slabs of x at one index each, and of elements
_SLABS, _ELEMENTS = (index_add_kernel, index_add_elements), (scatter_add_kernel, scatter_add_elements)
# by indices computed internally
select_known = Gather("select_known", index_select_kernel, index_select.gradients["x"])
select_known.reusable = True
index_add = Scatter("index_add", _SLABS, True, lambda g: g, lambda g, index, dim: g.index_select(dim, index))
index_copy = Scatter(
    "index_copy",
    _SLABS,
    False,
    lambda g, index, dim: g.index_fill(dim, index, 0),
    lambda g, index, dim: g.index_select(dim, index),
)
scatter = Scatter(
    "scatter",
    _ELEMENTS,
    False,
    lambda g, index, dim: g.scatter(dim, index, 0),
    lambda g, index, dim: g.gather(dim, index),
)
scatter_add = Scatter("scatter_add", _ELEMENTS, True, lambda g: g, lambda g, index, dim: g.gather(dim, index))
nonzero = Nonzero("nonzero")
bounded = CheckedIndex("bounded")
bag, bag_bounds = Bag("bag"), BagBounds("bag_bounds")
