"""Convolutions of one tap (1 x 1) whose weight is mostly zeros: each output channel reads only the channels it needs.

The weight is packed by `ops.matmul.sparse.pack_sparse`. Channels are rows of contiguous pixels, so that a register
holds pixels of one channel. Freezing uses it where it is faster than the dense kernel (`graph.passes.sparsity`).
"""

from __future__ import annotations

from math import prod

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.language import float32, int64, parallel_range, uintp
from ...kernel.registers.primitives.sparse import sparse_batch
from ...kernel.registers.sparse_rows import ROWS, VECTORS
from ...kernel.registers.vectors import host
from ...kernel.specialize import specialized
from ..matmul.sparse import fixed_size
from ..op import Plan
from .convolution import Convolution, forward_direct


def dense_pixels(x, weight, out, images, rows, inner, pixels):
    """out (images, rows, pixels) = weight (rows, inner) @ x (images, inner, pixels)."""
    for i in range(images):
        for j in range(rows):
            for p in range(pixels):
                total = float32(0.0)
                for k in range(inner):
                    total += weight[uintp(j * inner + k)] * x[uintp((i * inner + k) * pixels + p)]
                out[uintp((i * rows + j) * pixels + p)] = total


def sparse_pixels(
    x, weight, packed, out, columns, product, images, rows, inner, pixels, capacity, *, LANES, WIDTH, dense
):
    """out (images, rows, pixels) = packed weight (rows, inner) @ x (images, inner, pixels).

    Scratch for each WIDTH pixels: columns (inner, WIDTH), for those that are not whole, and product (groups * LANES,
    WIDTH), for groups that have fewer rows.
    """
    groups, chunks = (rows + LANES - 1) // LANES, (pixels + WIDTH - 1) // WIDTH
    order_at = groups + 2
    columns_at = order_at + groups * LANES
    values_at = columns_at + capacity * LANES
    if packed[uintp(0)] == 0:
        dense(x, weight, out, images, rows, inner, pixels)
    for task in parallel_range(images * chunks):
        if packed[uintp(0)] != 0:
            image, first = int64(task) // chunks, int64(task) % chunks * WIDTH
            count, x_at, out_at = min(WIDTH, pixels - first), image * inner * pixels + first, image * rows * pixels
            x_scratch, product_at = int64(task) * inner * WIDTH, int64(task) * groups * LANES * WIDTH
            if count < WIDTH:
                for k in range(inner):
                    for p in range(WIDTH):
                        columns[uintp(x_scratch + k * WIDTH + p)] = 0.0
                    for p in range(count):
                        columns[uintp(x_scratch + k * WIDTH + p)] = x[uintp(x_at + k * pixels + p)]
            for group in range(groups):
                start = int64(packed[uintp(1 + group)])
                steps = int64(packed[uintp(2 + group)]) - start
                is_whole = count == WIDTH and group * LANES + LANES <= rows
                for row in range(0, LANES, ROWS):
                    value, column = values_at + start * LANES + row, columns_at + start * LANES + row
                    order = order_at + group * LANES + row
                    if is_whole:
                        sparse_batch(
                            packed, value, packed, column, steps, x, x_at, pixels, packed, order, out, out_at + first,
                            pixels,
                        )  # fmt: skip
                    elif count == WIDTH:
                        sparse_batch(
                            packed, value, packed, column, steps, x, x_at, pixels, packed, order, product, product_at,
                            WIDTH,
                        )  # fmt: skip
                    else:
                        sparse_batch(
                            packed, value, packed, column, steps, columns, x_scratch, WIDTH, packed, order, product,
                            product_at, WIDTH,
                        )  # fmt: skip
                if not is_whole:
                    for position in range(group * LANES, min(group * LANES + LANES, rows)):
                        row_number = int64(packed[uintp(order_at + position)])
                        for p in range(count):
                            out[uintp(out_at + row_number * pixels + first + p)] = product[
                                uintp(product_at + row_number * WIDTH + p)
                            ]


class SparseConvolution(Convolution):
    """`convolution` by a weight packed by `pack_sparse`, its last input. CPU only, without gradients."""

    takes = None  # the packed layout depends on the processor, so it is not saved in files
    differentiable = portable = False
    gradients, joint = {}, {}

    def prepack(self, arguments: tuple, attributes: tuple) -> None:
        """The weight is packed already."""

    def with_epilogue(self, name: str, arguments: tuple, attributes: tuple, *end: object) -> None:
        """As `Op.with_epilogue`: the kernel has no epilogue."""

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, weight, packed = arguments
        out = layout(self.shapes(x, weight, attributes)[2], dtypes.float32, x.device)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        lanes, real, scratch = host().lanes(4), np.dtype("float32"), x.device.backend.scratch
        (images, inner), rows, pixels, width = x.shape[:2], weight.shape[0], prod(x.shape[2:]), VECTORS * lanes
        groups, chunks = -(-rows // lanes), images * -(-pixels // width)
        capacity = (packed.size - fixed_size(rows)) // (2 * lanes)
        source = specialized(sparse_pixels, LANES=lanes, WIDTH=width, dense=dense_pixels)
        signature = bind.signature(*["float32"] * 2, "int32", *["float32"] * 3, numbers=5)
        work = images * pixels * capacity * lanes
        run = bind.launcher(x.device, self.name, source, signature, dtypes.float32, work, build.FAST_REDUCTION)
        parts = (chunks * inner * width, real), (chunks * groups * lanes * width, real)
        sizes = images, rows, inner, pixels, capacity
        return Plan(out, lambda *arrays: run(*arrays, *scratch(parts), *sizes))


def fits(x: Layout, weight: Layout, attributes: tuple) -> bool:
    """Whether a convolution has one tap, and a whole group of channels at each pixel."""
    stride, padding, _, groups, shape = attributes
    return groups == 1 and shape is None and prod(weight.shape[2:]) == prod(stride) == 1 and not any(padding)


sparse_convolution = SparseConvolution("sparse_convolution", ("x", "weight", "packed"), forward_direct)
