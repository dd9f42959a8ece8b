"""Products and extremes written to places: x with every source element folded into the element its index names.

Sums are in `indexing`, means composed of them.

Dense tensors seen as (outer, n, inner); indices int64, checked by the caller. No column (outer, inner) is shared
between tasks, but on a GPU: there each element of the source has a thread of its own where columns are few, and
products of floats are made in any order, unless determinism is asked for.
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
from .indexing import columns, ones
from ..op import Op, Plan, single_device
from ..reduce.softmax import split

# dtypes that a GPU exchanges if they are as expected: as what, and how a number becomes that and a number again
_SWAPPED = {
    dtypes.int32: (np.int32, int32, int32), dtypes.int64: (np.int64, int64, int64),
    dtypes.float32: (np.uint32, bits32, float_of_bits32), dtypes.float64: (np.uint64, bits64, float_of_bits64),
}  # fmt: skip


def product(held, value):
    """What becomes of a number that is held, and the next value."""
    return held * value


def maximum(held, value):
    """The greater one, NaN first. It is chosen, not branched to: a processor cannot predict which one is greater."""
    return value if (value != value) | (value > held) else held


def minimum(held, value):
    """The lesser one, likewise."""
    return value if (value != value) | (value < held) else held


KINDS = {"prod": product, "amax": maximum, "amin": minimum}


def scatter_reduce_kernel(x, index, source, out, outer, n, inner, m, width, blocks, *, merged):
    """out (outer, n, inner) = x with source (outer, m, inner) folded in at index (outer, m, inner) along n; NaN wins
    over extremes.
    """
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
                held = out[uintp(target)]
                out[uintp(target)] = merged(held, value)


def start_kernel(x, out, total):
    """out = x (total)."""
    for i in parallel_range(total):
        out[uintp(i)] = x[uintp(i)]


def scatter_reduce_elements(x, index, source, out, outer, n, inner, m, *, merged, bits_of, number_of):
    """The same for GPU threads, one for each element of source, where out has x already, as bits.

    Who finds that another was faster begins anew.
    """
    for task in parallel_range(outer * m * inner):
        place = int64(task)
        row = quotient(place, inner)
        target = uintp((quotient(row, m) * n + index[uintp(place)]) * inner + place - row * inner)
        value, held, waits = source[uintp(place)], x[target], True
        while waits:
            found = bits_of(held)
            if bits_of(merged(held, value)) != found:  # extremes only grow or only fall: what is none now will be none
                found = cuda.atomic.cas(out, target, bits_of(held), bits_of(merged(held, value)))
            waits = found != bits_of(held)
            held = number_of(found)


def gradients(g: object, x: object, index: object, source: object, out: object, dim: int, reduce: str) -> tuple:
    """Of a product: the conjugate of what multiplies each factor, zeros counted rather than divided by.

    Of an extreme: shared evenly between equal ones.
    """
    if reduce == "prod":
        others = x.new_ones(x.shape).scatter_reduce(dim, index, source, "prod"), _other_factors(x, index, source, dim)
        return g * others[0].conj(), g.gather(dim, index) * others[1].conj()
    from_x, from_source = (x == out).to(g.dtype), (source == out.gather(dim, index)).to(g.dtype)
    share = g / from_x.scatter_add(dim, index, from_source)
    return share * from_x, share.gather(dim, index) * from_source


def _other_factors(x: object, index: object, source: object, dim: int) -> object:
    """For each source element the product of x and the other elements that go where it goes; zeros keep their
    gradients.
    """
    zero = source == 0
    zeros, number = source.masked_fill(~zero, 0), zero.to(x.dtype)
    # of the others
    zeros, number = (
        x.new_zeros(x.shape).scatter_add(dim, index, each).gather(dim, index) - each for each in (zeros, number)
    )
    ones = source.masked_fill(zero, 1)
    rest = x.scatter_reduce(dim, index, ones, "prod").gather(dim, index) / ones
    return rest.masked_fill(number != 0, 0) + (zeros * rest).masked_fill(number != 1, 0)


class ScatterReduce(Op):
    """x with source folded in along parameter `dim`; parameter `reduce` is prod, amax or amin. One dtype."""

    takes = "x[*x]:buifc index[*i]:int64<dim source[*i]; dim=axis reduce=prod|amax|amin"
    inputs, parameters = ("x", "index", "source"), ("dim", "reduce")
    gradients = {("x", "source"): gradients}

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.misfit`."""
        return indexing.differ_beside(sizes["x"], sizes["i"], parameters[0])

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x, index, source), (dim, reduce) = arguments, parameters
        out = layout(tuple(x.shape), x.dtype, single_device(self.name, [x, index, source]))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        signature = bind.signature(x, "int64", x, x, numbers=6)
        outer, n, inner = split(x.shape, dim)
        sizes = outer, n, inner, _length(source, dim)
        anywhere = reduce != "prod" or not (indexing.deterministic and x.dtype.is_floating_point)
        if x.device.backend.is_gpu and x.dtype in _SWAPPED and anywhere and indexing.few_columns(*sizes):
            return Plan(out, self._by_elements(x, source, reduce), sizes)
        width = columns(x, inner)
        blocks = -(-inner // width)
        text = specialized(
            scatter_reduce_kernel, merged=KINDS[reduce], **ones(x, inner=inner, width=inner, blocks=blocks)
        )
        launch = bind.launcher(x.device, f"{self.name}_{reduce}", text, signature, x.dtype, x.size + source.size)
        return Plan(out, launch, (*sizes, width, blocks))

    def _by_elements(self, x: Layout, source: Layout, reduce: str) -> Callable:
        bits, there, back = _SWAPPED[x.dtype]
        bits, text = (
            np.dtype(bits),
            specialized(scatter_reduce_elements, merged=KINDS[reduce], bits_of=there, number_of=back),
        )
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
