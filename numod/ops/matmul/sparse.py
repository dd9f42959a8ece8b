"""Linear layers of float32 whose weight is mostly zeros: the zeros are neither stored nor multiplied.

`pack_sparse` stores the other elements in groups of rows (`kernel.registers.sparse_rows`); `sparse_linear` reads them.
Freezing uses both where they are faster than a dense product (`graph.passes.sparsity`). A weight that was written to
may have more elements than its packed form has room for: then the layer multiplies the dense weight.
"""

from __future__ import annotations

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.any_size import for_all_sizes
from ...kernel.language import bits32, float32, int64, parallel_range, uintp
from ...kernel.library.panels import transpose
from ...kernel.registers.primitives.sparse import sparse_batch, sparse_dots
from ...kernel.registers.sparse_rows import ROWS, VECTORS
from ...kernel.registers.vectors import host
from ...kernel.scalar import shared_scalar
from ...kernel.specialize import specialized
from ..op import Op, Plan
from .matmul import Linear


@shared_scalar
def sort_rows(weight, packed, order_at, counts, starts, rows, inner, padded):
    """packed (padded), from order_at on = the rows of weight (rows, inner) by the number of their elements."""
    for k in range(inner + 2):
        starts[uintp(k)] = 0
    for row in range(rows):
        count = int64(0)
        for k in range(inner):
            count += int64(weight[uintp(row * inner + k)] != 0.0)
        counts[uintp(row)] = count
        starts[uintp(count + 1)] += 1
    for k in range(inner + 1):
        starts[uintp(k + 1)] += starts[uintp(k)]
    for row in range(rows):
        position = starts[uintp(counts[uintp(row)])]
        packed[uintp(order_at + position)] = row
        starts[uintp(counts[uintp(row)])] = position + 1
    for position in range(rows, padded):
        packed[uintp(order_at + position)] = position


def pack_groups(weight, packed, counts, starts, rows, inner, capacity, *, LANES):
    """Pack weight (rows, inner) into packed: whether it fits, the first step of each group, the rows of the groups,
    columns, values. Rows with as many elements share a group, so that few zeros are stored.

    Scratch: counts (rows) and starts (inner + 2).
    """
    groups, total = (rows + LANES - 1) // LANES, int64(0)
    order_at = groups + 2
    columns_at = order_at + groups * LANES
    values_at = columns_at + capacity * LANES
    sort_rows(weight, packed, order_at, counts, starts, rows, inner, groups * LANES)
    for group in range(groups):
        packed[uintp(1 + group)] = total
        total += counts[uintp(packed[uintp(order_at + min(group * LANES + LANES, rows) - 1)])]
    packed[uintp(1 + groups)] = total
    packed[uintp(0)] = int64(total <= capacity)
    if total <= capacity:
        for e in range(total * LANES):
            packed[uintp(columns_at + e)], packed[uintp(values_at + e)] = 0, 0
        for position in range(rows):
            row = int64(packed[uintp(order_at + position)])
            at = int64(packed[uintp(1 + position // LANES)]) * LANES + position % LANES
            for k in range(inner):
                value = weight[uintp(row * inner + k)]
                if value != 0.0:
                    packed[uintp(columns_at + at)], packed[uintp(values_at + at)] = k, bits32(value)
                    at += LANES


def dense_rows(x, weight, out, batch, rows, inner):
    """out (batch, rows) = x (batch, inner) @ weight (rows, inner).T."""
    for i in range(batch):
        for j in range(rows):
            total = float32(0.0)
            for k in range(inner):
                total += x[uintp(i * inner + k)] * weight[uintp(j * inner + k)]
            out[uintp(i * rows + j)] = total


def sparse_product(
    x, weight, bias, packed, out, x_columns, product, batch, rows, inner, capacity,
    *, HAS_BIAS, IS_ROW, LANES, WIDTH, dense,
):  # fmt: skip
    """out (batch, rows) = x (batch, inner) @ packed weight (rows, inner).T + bias.

    Scratch: for each WIDTH rows of x, x_columns (inner, WIDTH) and product (groups * LANES, WIDTH).
    """
    groups = (rows + LANES - 1) // LANES
    order_at, chunks = groups + 2, (batch + WIDTH - 1) // WIDTH
    columns_at = order_at + groups * LANES
    values_at = columns_at + capacity * LANES
    if packed[uintp(0)] == 0:
        dense(x, weight, out, batch, rows, inner)
    for task in parallel_range(groups if IS_ROW else chunks):
        if packed[uintp(0)] != 0:
            if IS_ROW:
                group = int64(task)
                first = int64(packed[uintp(1 + group)])
                sparse_dots(
                    packed, values_at + first * LANES, packed, columns_at + first * LANES,
                    int64(packed[uintp(2 + group)]) - first, x, 0, product, group * LANES, rows - group * LANES,
                )  # fmt: skip
                for position in range(group * LANES, min(group * LANES + LANES, rows)):
                    out[uintp(packed[uintp(order_at + position)])] = product[uintp(position)]
            else:
                i, x_columns_at = int64(task) * WIDTH, int64(task) * WIDTH * inner
                product_at, count = int64(task) * WIDTH * groups * LANES, min(WIDTH, batch - int64(task) * WIDTH)
                transpose(x, i * inner, inner, count, inner, x_columns, x_columns_at, WIDTH, LANES)
                for group in range(groups):
                    first = int64(packed[uintp(1 + group)])
                    steps = int64(packed[uintp(2 + group)]) - first
                    for row in range(0, LANES, ROWS):
                        sparse_batch(
                            packed, values_at + first * LANES + row, packed, columns_at + first * LANES + row, steps,
                            x_columns, x_columns_at, WIDTH, packed, order_at + group * LANES + row, product,
                            product_at, WIDTH,
                        )  # fmt: skip
                transpose(product, product_at, WIDTH, rows, count, out, i * rows, rows, LANES)
    if HAS_BIAS:
        for i in range(batch):
            for j in range(rows):
                out[uintp(i * rows + j)] += bias[uintp(j)]


class PackSparse(Op):
    """Pack a weight (rows, inner, ...) of float32 in groups of rows, with room for `capacity` steps of all groups."""

    inputs, attributes = ("weight",), ("capacity",)
    differentiable = portable = False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (weight,), (capacity,), lanes = arguments, attributes, host().lanes(4)
        rows, source = weight.shape[0], specialized(pack_groups, LANES=lanes)
        inner = weight.size // max(rows, 1)
        signature = bind.signature("float32", "int32", "int64", "int64", numbers=3)
        run = bind.launcher(weight.device, self.name, source, signature, dtypes.float32, 1)
        scratch, parts = weight.device.backend.scratch, ((rows, np.dtype("int64")), (inner + 2, np.dtype("int64")))
        out = layout((fixed_size(rows) + 2 * capacity * lanes,), dtypes.int32, weight.device)
        return Plan(out, lambda *arrays: run(*arrays, *scratch(parts), rows, inner, capacity))


pack_sparse = PackSparse("pack_sparse")


def fixed_size(rows: int) -> int:
    """The words of a packed weight before its columns."""
    lanes = host().lanes(4)
    return -(-rows // lanes) * (lanes + 1) + 2


def capacity_of(weight: np.ndarray) -> int:
    """The steps of all groups that `pack_sparse` needs for a weight."""
    lanes = host().lanes(4)
    counts = np.sort(np.count_nonzero(weight, axis=1))
    return int(counts[lanes - 1 :: lanes].sum() + (counts[-1] if len(counts) % lanes else 0))


class SparseLinear(Linear):
    """`linear` of a weight packed by `pack_sparse`, its last input. CPU only, without gradients."""

    takes = None  # the packed layout depends on the processor, so it is not saved in files
    inputs = (*Linear.inputs, "packed")
    differentiable = portable = False
    gradients, joint = {}, {}

    def prepack(self, arguments: tuple, attributes: tuple) -> None:
        """The weight is packed already."""

    def with_epilogue(self, name: str, arguments: tuple, attributes: tuple, *end: object) -> None:
        """As `Op.with_epilogue`: the kernel has no epilogue."""

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, weight, bias, packed = arguments
        has_bias, (rows, inner) = isinstance(bias, Layout), weight.shape
        out = layout(self.shape(arguments[:3], attributes), dtypes.float32, x.device)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        batch, words = out.size // rows, packed.size - fixed_size(rows)
        source, capacity, work, parts = self.form(batch, rows, inner, words, has_bias)
        signature = bind.signature(*["float32"] * 3, "int32", *["float32"] * 3, numbers=4)
        run = bind.launcher(x.device, self.name, source, signature, dtypes.float32, work, build.FAST_REDUCTION)
        scratch, sizes = x.device.backend.scratch, (batch, rows, inner, capacity)
        parts = [(size, np.dtype("float32")) for size in parts]
        if has_bias:
            return Plan(out, lambda *arrays: run(*arrays, *scratch(parts), *sizes))
        return Plan(out, lambda x, weight, *rest: run(x, weight, x, *rest, *scratch(parts), *sizes))

    def form(self, batch: int, rows: int, inner: int, words: int, has_bias: bool) -> tuple:
        """(the kernel, the steps for which a packed weight of so many words has room, the work, scratch sizes)."""
        lanes, is_row = host().lanes(4), batch == 1 and not for_all_sizes.get()
        width, groups, capacity = VECTORS * lanes, -(-rows // lanes), words // (2 * lanes)
        source = specialized(
            sparse_product, HAS_BIAS=has_bias, IS_ROW=is_row, LANES=lanes, WIDTH=width, dense=dense_rows
        )
        chunks = 0 if is_row else -(-batch // width)
        parts = max(chunks * inner * width, 1), max(chunks * width, 1) * groups * lanes
        return source, capacity, batch * capacity * lanes, parts


sparse_linear = SparseLinear("sparse_linear")
