"""Copies of transposed tensors, by square blocks that are transposed in registers.

A plain loop would use one element of each cache line at a time, and lines that are a multiple of a page apart compete
for one cache set.
"""

from __future__ import annotations

from collections.abc import Callable

from ... import dtypes
from ...device import Layout
from ...kernel import bind, emit
from ...kernel.language import int64, parallel_range
from ...kernel.registers import tiles
from ...kernel.registers.primitives.tiles import transpose_block
from ...kernel.specialize import specialized

MIN_SIZE = 1 << 12  # minimum number of elements for which these blocks pay off
STRIP = 64  # columns per task, which is the number of lines of x that are in the cache at a time
_KINDS = {1: dtypes.int8, 4: dtypes.float32, 8: dtypes.float64}  # elements are moved as these of the same width


def transpose_kernel(
    x, out, images, planes, rows, columns, x_image, x_plane, x_column, out_image, out_plane, out_row, *, LANES
):
    """out (images, planes, rows, columns) = x, which is contiguous along the dimension of rows.

    If a size is not a multiple of LANES, the last blocks overlap the previous ones.
    """
    strips = (columns + STRIP - 1) // STRIP
    for index in parallel_range(images * planes * strips):
        task = int64(index)
        matrix = task // strips
        first, image = (task - matrix * strips) * STRIP, matrix // planes
        plane = matrix - image * planes
        x_base, out_base = image * x_image + plane * x_plane, image * out_image + plane * out_plane
        for row in range(0, rows, 2 * LANES):
            for column in range(first, min(first + STRIP, columns), LANES):
                j = min(column, columns - LANES)
                for part in range(row, min(row + 2 * LANES, rows), LANES):
                    i = min(part, rows - LANES)
                    transpose_block(x, x_base + i + j * x_column, x_column, out, out_base + i * out_row + j, out_row)


def plan_transpose_copy(x: Layout, out: Layout) -> Callable | None:
    """A function (x, out) that copies x into `out` of the same shape; None if x is not transposed or too small."""
    kind = _KINDS.get(x.storage.itemsize)
    if kind is None or x.size < MIN_SIZE or x.device.backend.is_gpu:
        return None
    sizes, strides = emit.collapse(x.shape, [x.strides, out.strides])
    transposed = emit.crossing(sizes, strides)
    lanes = tiles.square(kind.itemsize)
    if transposed is None or len(transposed[0]) > 4 or min(transposed[0][-2:]) < lanes or 0 in strides[0]:
        return None
    sizes, ((*x_outer, x_row, x_column), (*out_outer, out_row, out_column)) = transposed
    if x_row != 1 or out_column != 1:
        return None
    outer = [[0] * (4 - len(sizes)) + list(strides) for strides in (x_outer, out_outer)]
    shape = [1] * (4 - len(sizes)) + sizes
    numbers = (*shape, *outer[0], x_column, *outer[1], out_row)
    source = specialized(transpose_kernel, LANES=lanes)
    run = bind.launcher(
        x.device, "transpose", source, bind.signature(kind, kind, numbers=len(numbers)), kind, 2 * x.size
    )
    if x.storage == kind.storage:
        return lambda x, out: run(x, out, *numbers)
    return lambda x, out: run(x.view(kind.storage), out.view(kind.storage), *numbers)
