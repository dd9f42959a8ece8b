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
from ...kernel.registers.primitives import sparse_batch, sparse_dots
from ...kernel.registers.sparse_rows import ROWS, VECTORS
from ...kernel.registers.vectors import host
from ...kernel.specialize import specialized
from ..op import Op, Plan
from .matmul import Linear


def pack_groups(weight, packed, rows, inner, capacity, *, LANES):
    """Pack weight (rows, inner) into packed: whether it fits, the first step of each group, columns, values."""
    groups, total = (rows + LANES - 1) // LANES, int64(0)
    columns_at = groups + 2
    values_at = columns_at + capacity * LANES
    for group in range(groups):
        packed[uintp(1 + group)] = total
        longest = int64(0)
        for row in range(group * LANES, min(group * LANES + LANES, rows)):
            count = int64(0)
            for k in range(inner):
                count += int64(weight[uintp(row * inner + k)] != 0.0)
            longest = max(longest, count)
        total += longest
    packed[uintp(1 + groups)] = total
    packed[uintp(0)] = int64(total <= capacity)
    if total <= capacity:
        for e in range(total * LANES):
            packed[uintp(columns_at + e)], packed[uintp(values_at + e)] = 0, 0
        for row in range(rows):
            at = int64(packed[uintp(1 + row // LANES)]) * LANES + row % LANES
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
    x, weight, bias, packed, out, turned, product, batch, rows, inner, capacity,
    *, HAS_BIAS, IS_ROW, LANES, WIDTH, dense,
):  # fmt: skip
    """out (batch, rows) = x (batch, inner) @ packed weight (rows, inner).T + bias.

    Scratch: for each WIDTH rows of x, turned (inner, WIDTH) and product (groups * LANES, WIDTH).
    """
    groups = (rows + LANES - 1) // LANES
    columns_at, chunks = groups + 2, (batch + WIDTH - 1) // WIDTH
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
                    int64(packed[uintp(2 + group)]) - first, x, 0, out, group * LANES, rows - group * LANES,
                )  # fmt: skip
            else:
                i, turned_at = int64(task) * WIDTH, int64(task) * WIDTH * inner
                product_at, count = int64(task) * WIDTH * groups * LANES, min(WIDTH, batch - int64(task) * WIDTH)
                transpose(x, i * inner, inner, count, inner, turned, turned_at, WIDTH, LANES)
                for group in range(groups):
                    first = int64(packed[uintp(1 + group)])
                    steps = int64(packed[uintp(2 + group)]) - first
                    for row in range(0, LANES, ROWS):
                        sparse_batch(
                            packed, values_at + first * LANES + row, packed, columns_at + first * LANES + row, steps,
                            turned, turned_at, product, product_at + (group * LANES + row) * WIDTH,
                        )  # fmt: skip
                transpose(product, product_at, WIDTH, rows, count, out, i * rows, rows, LANES)
    if HAS_BIAS:
        for i in range(batch):
            for j in range(rows):
                out[uintp(i * rows + j)] += bias[uintp(j)]


class PackSparse(Op):
    """Pack a weight (rows, inner) of float32 in groups of rows, with room for `capacity` steps of all groups."""

    inputs, parameters = ("weight",), ("capacity",)
    differentiable = portable = False

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (weight,), (capacity,), lanes = arguments, parameters, host().lanes(4)
        (rows, inner), source = weight.shape, specialized(pack_groups, LANES=lanes)
        signature = bind.signature("float32", "int32", numbers=3)
        run = bind.launcher(weight.device, self.name, source, signature, dtypes.float32, 1)
        size = -(-rows // lanes) + 2 + 2 * capacity * lanes
        return Plan(layout((size,), dtypes.int32, weight.device), run, (rows, inner, capacity))


pack_sparse = PackSparse("pack_sparse")


def capacity_of(weight: np.ndarray) -> int:
    """The steps of all groups that `pack_sparse` needs for a weight."""
    lanes = host().lanes(4)
    counts = np.count_nonzero(weight, axis=1)
    padded = np.pad(counts, (0, -len(counts) % lanes))
    return int(padded.reshape(-1, lanes).max(1).sum())


class SparseLinear(Linear):
    """`linear` of a weight packed by `pack_sparse`, its last input. CPU only, without gradients."""

    takes = None  # the packed layout depends on the processor, so it is not saved in files
    inputs = (*Linear.inputs, "packed")
    differentiable = portable = False
    gradients, joint = {}, {}

    def prepack(self, arguments: tuple, parameters: tuple) -> None:
        """The weight is packed already."""

    def with_epilogue(self, name: str, arguments: tuple, parameters: tuple, *end: object) -> None:
        """As `Op.with_epilogue`: the kernel has no epilogue."""

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        x, weight, bias, packed = arguments
        has_bias, lanes, (rows, inner) = isinstance(bias, Layout), host().lanes(4), weight.shape
        out = layout(self.shape(arguments[:3], parameters), dtypes.float32, x.device)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        batch, width = out.size // rows, VECTORS * lanes
        is_row = batch == 1 and not for_all_sizes.get()
        source = specialized(
            sparse_product, HAS_BIAS=has_bias, IS_ROW=is_row, LANES=lanes, WIDTH=width, dense=dense_rows
        )
        signature = bind.signature(*["float32"] * 3, "int32", *["float32"] * 3, numbers=4)
        groups = -(-rows // lanes)
        capacity = (packed.size - groups - 2) // (2 * lanes)
        work = batch * capacity * lanes
        run = bind.launcher(x.device, self.name, source, signature, dtypes.float32, work, build.FAST_REDUCTION)
        chunks, real, scratch = 0 if is_row else -(-batch // width), np.dtype("float32"), x.device.backend.scratch
        parts = (max(chunks * inner * width, 1), real), (max(chunks * groups * lanes * width, 1), real)
        sizes = batch, rows, inner, capacity
        if has_bias:
            return Plan(out, lambda *arrays: run(*arrays, *scratch(parts), *sizes))
        return Plan(out, lambda x, weight, *rest: run(x, weight, x, *rest, *scratch(parts), *sizes))


sparse_linear = SparseLinear("sparse_linear")
