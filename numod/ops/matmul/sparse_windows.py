"""Linear layers of a weight that is mostly zeros, for a row of x: as `sparse`, by permutations instead of gathers.

A step multiplies an element of each of LANES rows. Its elements lie within 2 * LANES columns from its base on, a
multiple of LANES; rows without an element there wait. So weights with long runs of zeros take many steps: freezing
measures which form is faster (`graph.passes.sparsity`). For processors with AVX-512.
"""

from __future__ import annotations

import numpy as np

from ... import dtypes
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import bits32, int64, parallel_range, uint32, uintp
from ...kernel.registers.primitives.sparse import window_dots
from ...kernel.registers.vectors import host
from ...kernel.scalar import scalar
from ...kernel.specialize import specialized
from ..op import Op, Plan
from .sparse import SparseLinear, dense_rows, fixed_size, sort_rows


@scalar
def next_element(weight, start, k, inner):
    """The first column from k on whose element is not zero, or `inner`."""
    while k < inner and weight[uintp(start + k)] == 0.0:
        k += 1
    return k


def pack_steps(weight, packed, counts, starts, columns, rows, inner, capacity, *, LANES):
    """Pack weight (rows, inner) into packed: whether it fits, the first step of each group, the rows of the groups,
    then the steps' bases, places (bytes) and values.

    Scratch: counts (rows), starts (inner + 2), and columns (LANES), the next of each row.
    """
    groups, total = (rows + LANES - 1) // LANES, int64(0)
    order_at = groups + 2
    bases_at = order_at + groups * LANES
    places_at = bases_at + capacity
    values_at = places_at + capacity * LANES // 4
    sort_rows(weight, packed, order_at, counts, starts, rows, inner, groups * LANES)
    for group in range(groups):
        packed[uintp(1 + group)] = total
        low = int64(inner)
        for lane in range(LANES):
            row = int64(packed[uintp(order_at + group * LANES + lane)])
            columns[uintp(lane)] = next_element(weight, row * inner, 0, inner) if row < rows else inner
            low = min(low, columns[uintp(lane)])
        while low < inner:
            base, after = low - low % LANES, int64(inner)
            if total < capacity:
                packed[uintp(bases_at + total)] = base
                for k in range(LANES // 4):
                    packed[uintp(places_at + total * LANES // 4 + k)] = 0
            for lane in range(LANES):
                column, value = columns[uintp(lane)], uint32(0)
                if column < min(base + 2 * LANES, inner):
                    start = int64(packed[uintp(order_at + group * LANES + lane)]) * inner
                    value = uint32(bits32(weight[uintp(start + column)]))
                    if total < capacity:
                        shift = uint32(lane % 4 * 8)
                        packed[uintp(places_at + total * LANES // 4 + lane // 4)] |= uint32(column - base) << shift
                    columns[uintp(lane)] = next_element(weight, start, column + 1, inner)
                if total < capacity:
                    packed[uintp(values_at + total * LANES + lane)] = value
                after = min(after, columns[uintp(lane)])
            low, total = after, total + 1
    packed[uintp(1 + groups)] = total
    packed[uintp(0)] = int64(total <= capacity)


def window_product(
    x, weight, bias, packed, out, line, product, batch, rows, inner, capacity,
    *, HAS_BIAS, LANES, dense,
):  # fmt: skip
    """out (batch, rows) = x (batch, inner) @ packed weight (rows, inner).T + bias.

    Scratch: line, a row of x with zeros up to whole windows, and product (groups * LANES).
    """
    groups = (rows + LANES - 1) // LANES
    order_at = groups + 2
    bases_at = order_at + groups * LANES
    places_at = bases_at + capacity
    values_at = places_at + capacity * LANES // 4
    if packed[uintp(0)] == 0:
        dense(x, weight, out, batch, rows, inner)
    else:
        for i in range(batch):
            for k in range(inner):
                line[uintp(k)] = x[uintp(i * inner + k)]
            for k in range(inner, (inner + LANES - 1) // LANES * LANES + LANES):
                line[uintp(k)] = 0.0
            for task in parallel_range(groups):
                group = int64(task)
                first = int64(packed[uintp(1 + group)])
                window_dots(
                    packed, values_at + first * LANES, packed, places_at + first * LANES // 4, packed, bases_at + first,
                    int64(packed[uintp(2 + group)]) - first, line, 0, product, group * LANES, rows - group * LANES,
                )  # fmt: skip
                for position in range(group * LANES, min(group * LANES + LANES, rows)):
                    out[uintp(i * rows + packed[uintp(order_at + position)])] = product[uintp(position)]
    if HAS_BIAS:
        for i in range(batch):
            for j in range(rows):
                out[uintp(i * rows + j)] += bias[uintp(j)]


class PackWindows(Op):
    """Pack a weight (rows, inner, ...) of float32 in steps of windows, with room for `capacity` of them."""

    inputs, attributes = ("weight",), ("capacity",)
    differentiable = portable = False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (weight,), (capacity,), lanes = arguments, attributes, host().lanes(4)
        rows, source = weight.shape[0], specialized(pack_steps, LANES=lanes)
        inner = weight.size // max(rows, 1)
        signature = bind.signature("float32", "int32", "int64", "int64", "int64", numbers=3)
        run = bind.launcher(weight.device, self.name, source, signature, dtypes.float32, 1)
        scratch, number = weight.device.backend.scratch, np.dtype("int64")
        parts = (rows, number), (inner + 2, number), (lanes, number)
        out = layout((fixed_size(rows) + capacity * (1 + lanes // 4 + lanes),), dtypes.int32, weight.device)
        return Plan(out, lambda *arrays: run(*arrays, *scratch(parts), rows, inner, capacity))


pack_windows = PackWindows("pack_windows")


def capacity_of(packed: np.ndarray, rows: int) -> int:
    """The steps that a weight needs, also of a packed form that has no room for them."""
    return int(packed[1 + -(-rows // host().lanes(4))])


class WindowLinear(SparseLinear):
    """`linear` of a weight packed by `pack_windows`, its last input."""

    def form(self, batch: int, rows: int, inner: int, words: int, has_bias: bool) -> tuple:
        """See `SparseLinear`."""
        lanes = host().lanes(4)
        capacity = words // (1 + lanes // 4 + lanes)
        source = specialized(window_product, HAS_BIAS=has_bias, LANES=lanes, dense=dense_rows)
        parts = -(-inner // lanes) * lanes + lanes, -(-rows // lanes) * lanes
        return source, capacity, batch * capacity * lanes // 4, parts


window_linear = WindowLinear("window_linear")
