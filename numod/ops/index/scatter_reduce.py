"""scatter_reduce by products and extrema: each source element is combined with the element of x at its index.

Sums are in `indexing`; means are composed of sums. Dense tensors are seen as (outer, n, inner); indices are int64 and
checked by the caller. A column (outer, inner) belongs to one task, except on a GPU with few columns: there each element
of the source has a thread, and products of floats are in any order, unless `indexing.deterministic` is set.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import (
    bits32,
    bits64,
    cuda,
    float_of_bits32,
    float_of_bits64,
    int32,
    int64,
    parallel_range,
    uintp,
)
from ...kernel.library.division import quotient
from ...kernel.specialize import specialized
from . import indexing
from .indexing import columns, sizes_of_one
from ..op import Op, Plan, single_device
from ..reduce.softmax import split

# dtypes with compare-and-swap on a GPU: the dtype that is swapped, conversions to its bits and back
_SWAPPED = {
    dtypes.int32: (np.int32, int32, int32), dtypes.int64: (np.int64, int64, int64),
    dtypes.float32: (np.uint32, bits32, float_of_bits32), dtypes.float64: (np.uint64, bits64, float_of_bits64),
}  # fmt: skip


def product(current, value):
    """The product of the current and the next value."""
    return current * value


def maximum(current, value):
    """The maximum of the current and the next value; NaN wins. A selection, since a branch cannot be predicted."""
    return value if (value != value) | (value > current) else current


def minimum(current, value):
    """The minimum of the current and the next value; NaN wins."""
    return value if (value != value) | (value < current) else current


KINDS = {"prod": product, "amax": maximum, "amin": minimum}


def scatter_reduce_kernel(x, index, source, out, outer, n, inner, m, width, blocks, *, combine):
    """out (outer, n, inner) = x combined with source (outer, m, inner) at index (outer, m, inner) along n."""
    for task in parallel_range(outer * blocks):
        row = int64(task) // blocks
        first = (int64(task) % blocks) * width
        last = min(first + width, inner)
        for k in range(row * n, (row + 1) * n):
            for j in range(first, last):
                out[uintp(k * inner + j)] = x[uintp(k * inner + j)]
        for k in range(m):
            base = (row * m + k) * inner
            for j in range(base + first, base + last):
                target = (row * n + index[uintp(j)]) * inner + j - base
                value = source[uintp(j)]
                current = out[uintp(target)]
                out[uintp(target)] = combine(current, value)


def start_kernel(x, out, total):
    """out = x (total)."""
    for i in parallel_range(total):
        out[uintp(i)] = x[uintp(i)]


def scatter_reduce_elements(x, index, source, out, outer, n, inner, m, *, combine, bits_of, number_of):
    """`scatter_reduce_kernel` for a GPU, with one thread per element of source; out has the bits of x.

    Retries when its compare-and-swap fails.
    """
    for task in parallel_range(outer * m * inner):
        element = int64(task)
        row = quotient(element, inner)
        target = uintp((quotient(row, m) * n + index[uintp(element)]) * inner + element - row * inner)
        value, current, retry = source[uintp(element)], x[target], True
        while retry:
            current_bits = bits_of(current)
            if bits_of(combine(current, value)) != current_bits:  # extrema are monotonic: no need to retry
                current_bits = cuda.atomic.cas(out, target, bits_of(current), bits_of(combine(current, value)))
            retry = current_bits != bits_of(current)
            current = number_of(current_bits)


def gradients(g: object, x: object, index: object, source: object, out: object, dim: int, reduce: str) -> tuple:
    """(d_x, d_source). For a product, g times the conjugate of the other factors; for extrema, shared evenly among
    equal elements.
    """
    if reduce == "prod":
        others = x.new_ones(x.shape).scatter_reduce(dim, index, source, "prod"), _other_factors(x, index, source, dim)
        return g * others[0].conj(), g.gather(dim, index) * others[1].conj()
    from_x, from_source = (x == out).to(g.dtype), (source == out.gather(dim, index)).to(g.dtype)
    share = g / from_x.scatter_add(dim, index, from_source)
    return share * from_x, share.gather(dim, index) * from_source


def _other_factors(x: object, index: object, source: object, dim: int) -> object:
    """For each source element, the product of x and the other source elements with the same index.

    Zeros are counted instead of divided by.
    """
    zero = source == 0
    zeros, number = (  # the sum of the other zeros (0, but it has gradients), and their number
        x.new_zeros(x.shape).scatter_add(dim, index, values).gather(dim, index) - values
        for values in (source.masked_fill(~zero, 0), zero.to(x.dtype))
    )
    ones = source.masked_fill(zero, 1)
    product_of_others = x.scatter_reduce(dim, index, ones, "prod").gather(dim, index) / ones
    return product_of_others.masked_fill(number != 0, 0) + (zeros * product_of_others).masked_fill(number != 1, 0)


class ScatterReduce(Op):
    """x combined with source along `dim`; `reduce` is prod, amax or amin. x and source have the same dtype."""

    takes = "x[*x]:buifc index[*i]:int64<dim source[*i]; dim=axis reduce=prod|amax|amin"
    inputs, attributes = ("x", "index", "source"), ("dim", "reduce")
    gradients = {("x", "source"): gradients}

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        return indexing.size_mismatch(sizes["x"], sizes["i"], attributes[0])

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x, index, source), (dim, reduce) = arguments, attributes
        out = layout(tuple(x.shape), x.dtype, single_device(self.name, [x, index, source]))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        signature = bind.signature(x, "int64", x, x, numbers=6)
        outer, n, inner = split(x.shape, dim)
        sizes = outer, n, inner, _length(source, dim)
        any_order = reduce != "prod" or not (indexing.deterministic and x.dtype.is_floating_point)
        if x.device.backend.is_gpu and x.dtype in _SWAPPED and any_order and indexing.few_columns(*sizes):
            return Plan(out, self._launch_by_elements(x, source, reduce), sizes)
        width = columns(x, inner)
        blocks = -(-inner // width)
        text = specialized(
            scatter_reduce_kernel, combine=KINDS[reduce], **sizes_of_one(x, inner=inner, width=inner, blocks=blocks)
        )
        launch = bind.launcher(x.device, f"{self.name}_{reduce}", text, signature, x.dtype, x.size + source.size)
        return Plan(out, launch, (*sizes, width, blocks))

    def _launch_by_elements(self, x: Layout, source: Layout, reduce: str) -> Callable:
        """A launch with a thread for each element of the source, which updates `out` by compare-and-swap."""
        bits, bits_of, number_of = _SWAPPED[x.dtype]
        bits = np.dtype(bits)
        text = specialized(scatter_reduce_elements, combine=KINDS[reduce], bits_of=bits_of, number_of=number_of)
        start = bind.launcher(
            x.device, f"{self.name}_start", specialized(start_kernel), bind.signature(x, x, numbers=1), x.dtype, x.size
        )
        fold = bind.launcher(
            x.device,
            f"{self.name}_{reduce}",
            text,
            bind.signature(x, "int64", x, bits, numbers=4),
            x.dtype,
            source.size,
        )

        def launch(x_data: object, index: object, source_data: object, out: object, *sizes: int) -> None:
            start(x_data, out, x.size)
            fold(x_data, index, source_data, out.view(bits), *sizes)

        return launch


def _length(source: Layout, dim: int) -> int:
    return source.shape[dim] if source.ndim else 1


scatter_reduce = ScatterReduce("scatter_reduce")
