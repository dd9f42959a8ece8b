"""How a convolution by implicit GEMM is cut into tasks, and the sizes of the grid that a task needs."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from ...kernel.library.direct import Geometry
from ...kernel.registers import tiles

_GRID_SIZE = 1 << 17  # elements of a grid: it stays in the second-level cache
# elements of a grid on processors with 16 vector registers, which have small caches and tiles with few rows, so that
# the grid is read more often
_SMALL_GRID_SIZE = 1 << 15
WORKERS = 8  # iterations of the parallel loop, each with its own grid
_MIN_TASKS = 4  # minimum number of tasks, so that threads can share a convolution
_SHARED_WEIGHT_SIZE = 1 << 15  # size of a weight from which workers share a grid of all images for its gradient
_SHARED_GRID_SIZE = 1 << 22  # maximum number of elements of this grid: it stays in the shared cache
_TILEWISE_WEIGHT_SIZE = 1 << 17  # features times channels from which the weight is packed tile by tile, not as a whole
_SHARED_GRID_ROWS = 64  # rows of a product from which workers share a grid
_ROWS_PER_WORKER = 16  # rows per worker that shares a grid
_COPY_COST = 24  # cost of copying an element to a grid, in products
# with 16 vector registers: elements of a run that all rows use before the next run, and products summed at a time, so
# that the run and the rows of a tile stay in the first-level cache
_FIRST_LEVEL_SIZE, _SPLIT_DEPTH = 1 << 13, 512
UNSPLIT_DEPTH = 1 << 40  # products summed at a time on other processors
PACKED_ROWS = 16  # rows of tiles that a worker packs at a time
_RUN_STEP = 48  # granularity of runs of positions: whole tiles on every processor
_MIN_GRID_ROWS = 4  # minimum number of output rows of a grid: fewer would copy its borders too often
_FULL_TILE_ROWS = 8  # rows of a tile on processors with 32 vector registers
FEW_ROWS = 2  # rows of a product up to which they are computed one by one


class GridPlan(NamedTuple):
    """How a convolution is cut into tasks, and the sizes of the grid that one task needs."""

    workers: int  # iterations of the parallel loop
    tasks: int
    # parts of the rows (features or channels); more than one: all images are on one grid, which all workers read
    shares: int
    blocks: int  # parts of the output's height
    rows: int  # output rows of a block
    size: int  # elements of a grid
    low_d: int  # the first slab, line and column of the grid, in elements of a phase
    low_h: int
    low_w: int
    variants: int  # phases of the width, or columns of the kernel
    apart: int  # whether every column of the kernel has a variant of its own
    grid_d: int  # the sizes of one phase of the grid
    grid_h: int
    stack: int  # images of a grid
    grid_w: int
    run: int  # positions of the grid that all rows use before the next ones
    deep: int  # products summed at a time


def round_up(n: int, step: int) -> int:
    return -(-n // step) * step


class _Axis(NamedTuple):
    """What the outputs read along one axis of the grid, in elements of one phase."""

    low: int  # the first element that the first output reads
    span: int  # from there to the last element that it reads
    outputs: int
    phases: int

    def length(self, outputs: int) -> int:
        """The elements that so many outputs read."""
        return outputs + self.span


def _axis(conv: Geometry, axis: str, letter: str, backward: bool) -> _Axis:
    """What the outputs of a convolution, or the elements of the input's gradient, read along an axis."""
    stride, pad, taps, step, outputs = (
        getattr(conv, f"{name}_{letter}") for name in ("stride", "pad", "kernel", "step", "out")
    )
    reach = (taps - 1) * step
    if backward:
        low, high, outputs, stride = (
            (pad - reach) // stride,
            (stride - 1 + pad) // stride,
            -(-getattr(conv, axis) // stride),
            1,
        )
    else:
        low, high = -pad // stride, (reach - pad) // stride
    return _Axis(low, high - low, outputs, stride)


def plan_grid(conv: Geometry, backward: bool, on_weight: bool, product_rows: int) -> tuple[GridPlan, int]:
    """A plan, without its workers, and the number of positions of a grid.

    The grid holds x, or g if `backward`. The product has a row for each feature, or channel. If there is more than one
    share, all images are on one grid, which all workers read.
    """
    images, groups = conv.images, conv.groups
    depth, height, width = (
        _axis(conv, axis, letter, backward) for axis, letter in zip(("depth", "height", "width"), "dhw")
    )
    strides = conv.stride_d * conv.stride_h * conv.stride_w
    taps = conv.kernel_d * conv.kernel_h * conv.kernel_w // (strides if backward else 1)
    small_caches = tiles.host().rows < _FULL_TILE_ROWS and not on_weight
    # with a copy of the input for each column of the kernel, no positions lie between the outputs of two lines
    further_copies = conv.kernel_w - width.phases
    copy_per_column = (
        conv.kernel_w == 1 or width.span * product_rows * taps > _COPY_COST * width.outputs * further_copies
    )
    if copy_per_column:
        width = width._replace(span=0, phases=conv.kernel_w)
    channels = conv.features if backward else conv.channels
    planes = channels * depth.phases * height.phases * width.phases
    max_size = (_SMALL_GRID_SIZE if small_caches else _GRID_SIZE) * (2 if copy_per_column else 1)
    line_size = planes * width.length(width.outputs)
    image_size = line_size * depth.length(depth.outputs) * height.length(height.outputs)

    if _uses_one_grid(conv, on_weight, product_rows, images * image_size, max_size):
        stack, rows = images, height.outputs
        shares = max(1, min(WORKERS, product_rows // _ROWS_PER_WORKER))
    else:
        shares, stack = 1, max(1, min(max_size // image_size, images * groups // _MIN_TASKS, images))
        # the fewest vectors for an image
        stack = min(range(stack, 0, -1), key=lambda count: -(-_positions(depth, height, width, count) // 16) / count)
        rows = height.outputs
        if depth.outputs == 1 and depth.span == 0:
            rows = min(rows, max(_MIN_GRID_ROWS, max_size // line_size - height.span, 1))
            if images * groups < _MIN_TASKS and image_size > _GRID_SIZE // 8:
                rows = min(rows, -(-height.outputs * images * groups // _MIN_TASKS))
            rows = -(-height.outputs // -(-height.outputs // rows))  # blocks of equal height
    blocks, stacks = -(-height.outputs // rows), -(-images // stack)
    sizes = depth.length(depth.outputs), height.length(rows), stack, width.length(width.outputs)
    positions = prod(sizes)

    terms, terms_at_once = channels * taps, UNSPLIT_DEPTH
    if planes * positions <= (_FIRST_LEVEL_SIZE if small_caches else 2 * max_size):
        run = positions
    else:  # all rows use a run of the grid before the next run
        run = max(1, (_FIRST_LEVEL_SIZE if small_caches else max_size) // planes // _RUN_STEP) * _RUN_STEP
    if small_caches and depth.outputs == 1 and product_rows > FEW_ROWS and 2 * terms > 3 * _SPLIT_DEPTH:
        terms_at_once = -(-terms // -(-terms // _SPLIT_DEPTH))
        run = max(1, _FIRST_LEVEL_SIZE * terms // terms_at_once // planes // _RUN_STEP) * _RUN_STEP
    return GridPlan(
        0,
        groups * stacks * blocks * shares,
        shares,
        blocks,
        rows,
        planes * positions,
        depth.low,
        height.low,
        width.low,
        width.phases,
        int(copy_per_column),
        *sizes,
        run,
        terms_at_once,
    ), positions


def _uses_one_grid(conv: Geometry, on_weight: bool, product_rows: int, size: int, max_size: int) -> bool:
    """Whether workers share a grid of all images, which has `size` elements."""
    if conv.groups > 1:
        return False
    if on_weight:
        weight_size = conv.channels * conv.features * conv.kernel_d * conv.kernel_h * conv.kernel_w
        return product_rows > FEW_ROWS and weight_size >= _SHARED_WEIGHT_SIZE and size <= _SHARED_GRID_SIZE
    few_images = conv.images < _MIN_TASKS and size <= max_size
    large_weight = conv.channels * conv.features >= _TILEWISE_WEIGHT_SIZE and size <= 2 * max_size
    return product_rows >= _SHARED_GRID_ROWS and (few_images or large_weight)


def _positions(depth: _Axis, height: _Axis, width: _Axis, stack: int) -> int:
    """The positions of a grid of `stack` images from the first output to the last one."""
    lines = (depth.outputs - 1) * height.length(height.outputs) + height.outputs - 1
    return (lines * stack + stack - 1) * width.length(width.outputs) + width.outputs
