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


def cut(conv: Geometry, backward: bool, on_weight: bool, outer: int) -> tuple[GridPlan, int]:
    """A plan, without its workers, and the number of positions of a grid.

    The grid holds x, or g if `backward`. `outer` is the number of rows of the product (features, or channels). If
    there is more than one share, all images are on one grid, which all workers read.
    """
    images, groups, by_name = conv.images, conv.groups, conv._asdict()
    lows, spans, counts, phases, strides = [], [], [], [], [by_name[f"stride_{letter}"] for letter in "dhw"]
    for axis, letter in zip(("depth", "height", "width"), "dhw"):
        stride = by_name[f"stride_{letter}"]
        pad = by_name[f"pad_{letter}"]
        reach = (by_name[f"kernel_{letter}"] - 1) * by_name[f"step_{letter}"]
        low, high = (
            ((pad - reach) // stride, (stride - 1 + pad) // stride)
            if backward
            else (-pad // stride, (reach - pad) // stride)
        )
        lows.append(low)
        spans.append(high - low)
        counts.append(-(-by_name[axis] // stride) if backward else by_name[f"out_{letter}"])
        phases.append(1 if backward else stride)
    taps = conv.kernel_d * conv.kernel_h * conv.kernel_w // (prod(strides) if backward else 1)
    small = tiles.host().rows < _FULL_TILE_ROWS and not on_weight
    copies = conv.kernel_w - phases[2]  # additional copies of the input
    apart = conv.kernel_w == 1 or spans[2] * outer * taps > _COPY_COST * counts[2] * copies
    if apart:
        spans[2], phases[2] = 0, conv.kernel_w
    planes = prod(phases) * (conv.features if backward else conv.channels)
    most = (_SMALL_GRID_SIZE if small else _GRID_SIZE) * (2 if apart else 1)
    line = planes * (counts[2] + spans[2])
    image = line * (counts[0] + spans[0]) * (counts[1] + spans[1])
    rows = counts[1]

    def positions(stack: int) -> int:
        return (((counts[0] - 1) * (counts[1] + spans[1]) + counts[1] - 1) * stack + stack - 1) * (
            counts[2] + spans[2]
        ) + counts[2]

    if on_weight:
        weights = conv.channels * conv.features * conv.kernel_d * conv.kernel_h * conv.kernel_w
        one_grid = (
            groups == 1 and outer > FEW_ROWS and weights >= _SHARED_WEIGHT_SIZE and images * image <= _SHARED_GRID_SIZE
        )
    else:
        few = images < _MIN_TASKS and images * image <= most
        wide = conv.channels * conv.features >= _TILEWISE_WEIGHT_SIZE and images * image <= 2 * most
        one_grid = groups == 1 and outer >= _SHARED_GRID_ROWS and (few or wide)
    stack = images
    if not one_grid:
        stack = max(1, min(most // image, images * groups // _MIN_TASKS, images))
        # the fewest vectors for an image
        stack = min(range(stack, 0, -1), key=lambda count: -(-positions(count) // 16) / count)
        if counts[0] == 1 and spans[0] == 0:
            rows = min(rows, max(_MIN_GRID_ROWS, most // line - spans[1], 1))
            if images * groups < _MIN_TASKS and image > _GRID_SIZE // 8:
                rows = min(rows, -(-counts[1] * images * groups // _MIN_TASKS))
            rows = -(-counts[1] // -(-counts[1] // rows))  # blocks of equal height
    shares = max(1, min(WORKERS, outer // _ROWS_PER_WORKER)) if one_grid else 1
    blocks, sets = -(-counts[1] // rows), -(-images // stack)
    sizes = (counts[0] + spans[0], rows + spans[1], stack, counts[2] + spans[2])
    tasks = groups * sets * blocks * shares
    run_size, depth, deep = _FIRST_LEVEL_SIZE if small else 2 * most, planes // prod(phases) * taps, UNSPLIT_DEPTH
    few = planes * prod(sizes) <= run_size  # else all rows use one run of the grid before the next
    run = prod(sizes) if few else max(1, (_FIRST_LEVEL_SIZE if small else most) // planes // _RUN_STEP) * _RUN_STEP
    if small and counts[0] == 1 and outer > FEW_ROWS and 2 * depth > 3 * _SPLIT_DEPTH:
        deep = -(-depth // -(-depth // _SPLIT_DEPTH))
        run = max(1, _FIRST_LEVEL_SIZE * depth // deep // planes // _RUN_STEP) * _RUN_STEP
    size = planes * prod(sizes)
    return GridPlan(0, tasks, shares, blocks, rows, size, *lows, phases[2], int(apart), *sizes, run, deep), prod(sizes)
