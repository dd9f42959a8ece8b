"""3 x 3 convolution of float32 on the CPU by Winograd's F(2x2, 3x3), with the gradients of its input and, by F(3x3,
2x2), of its weight.

`kernel.library.winograd` has the method, `convolution` the conditions for its use. Errors are as small as those of
direct sums, but relative to the largest of the 16 elements of a tile, not of the nine that an output reads. F(4x4,
3x3) would take a third fewer products, with errors ten times as large.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import NamedTuple

from ...device import Layout
from ...device.threads import get_num_threads
from ...kernel.registers.winograd import TAPS
from ...kernel import bind, build
from ...kernel.language import EPILOGUE, int64, parallel_range, uintp
from ...kernel.library.direct import Geometry, correlate_tap
from ...kernel.library.winograd import (
    transform_products,
    multiply_tiles,
    transform_channels,
    transform_kernels,
    transform_input,
)
from ...kernel.registers import tiles
from ...kernel.registers.primitives.images import combine_taps
from ...kernel.specialize import specialized
from ..matmul.epilogue import Epilogue
from .direct import geometry, launcher

_TASK_TILES_SIZE = 1 << 17  # elements of the transformed tiles of a task: they stay in the second-level cache
# limits for transforming all tiles before the weights: most elements of the tiles, which stay in the shared cache, and
# least number of channels times features
_ALL_TILES_MAX_SIZE, _ALL_TILES_MIN_WEIGHT = 1 << 20, 1 << 15
_FEATURES_PER_STEP = 16  # features computed at a time
_TAPS_PADDING = 16  # elements between the components of transformed kernels: whole pages would share lines of the cache
_PRODUCTS_PER_SUM = 32  # products that are summed before they are added to the total: short sums have small errors
_TILES_PER_SUM = 96  # approximate number of tiles that are summed at a time for the gradient of a weight
# elements of the transformed tiles that threads prepare before they multiply them; starting threads more often would
# cost more than the cache saves
_PREPARED_SIZE = 1 << 20
_WORKERS = 8  # as in `implicit_gemm`


class TilePlan(NamedTuple):
    """How a convolution is cut into tasks, and where its transformed tiles and kernels lie. Steps are in elements."""

    workers: int  # iterations of the parallel loop
    tasks: int
    shares: int  # parts of the features; more than one: all tiles are one task's
    rows: int  # rows of tiles of a task
    high: int  # rows of tiles of an image
    wide: int  # tiles of a row
    columns: int  # elements of one channel's transformed tiles at one of the 16 places
    line_size: int  # elements of a line of the input with its borders
    lines_size: int
    row_step: int  # from one kernel's output channel to the next, and to the next input channel
    depth_step: int
    flipped: int  # whether kernels are read from their last element to the first
    is_transformed: int  # whether kernels are transformed already
    taps_step: int  # from one of the 16 places to the next: of transformed kernels
    tiles_step: int  # of transformed tiles
    step: int  # of products


class ChunkPlan(NamedTuple):
    """How the gradient of a weight is cut into chunks of tiles. Steps are in elements."""

    workers: int  # iterations of the parallel loop
    chunks: int
    together: int  # chunks that are transformed before they are multiplied
    rows: int  # rows of tiles of a chunk
    high: int  # rows of tiles of an image
    wide: int  # tiles of a row
    columns: int
    lines_size: int
    taps_step: int  # from one of the 16 places to the next: of transformed outputs
    tiles_step: int  # of transformed tiles
    step: int  # of products


def winograd_kernel(
    x, weight, out, taps, tiles, products, padded_lines, plan: TilePlan, conv: Geometry, *, FEATURES, DEPTH, TILE_ROWS,
    LANES, SIZE,
):  # fmt: skip
    """out = the inverse transform of the 16 products of transformed tiles of x and transformed kernels."""
    apart = (plan.shares > 1) & (plan.is_transformed == 0)  # workers transform kernels when they need them
    if (plan.shares == 1) & (plan.is_transformed == 0):
        for part in parallel_range(conv.features // FEATURES):
            transform_kernels(
                weight, int64(part) * FEATURES * plan.row_step, plan.row_step, plan.depth_step, conv.channels, taps,
                int64(part) * 16 * plan.taps_step, plan.taps_step, FEATURES, LANES,
            )  # fmt: skip
    if plan.shares > 1:  # all tiles are one task, and features are divided among workers
        for worker in parallel_range(plan.workers):
            for c in range(worker * conv.channels // plan.workers, (worker + 1) * conv.channels // plan.workers):
                transform_input(
                    x, c * conv.height * conv.width, conv.channels * conv.height * conv.width, 0, plan.rows, plan.high,
                    plan.wide, conv.height, conv.width, conv.pad_h, conv.pad_w, padded_lines,
                    int64(worker) * plan.lines_size, plan.line_size, tiles, c * plan.columns, plan.tiles_step, LANES,
                )  # fmt: skip
    for worker in parallel_range(plan.workers):
        tiles_at, products_at = (
            int64(worker) * 16 * plan.tiles_step if plan.shares == 1 else 0,
            int64(worker) * 16 * plan.step,
        )
        for task in range(worker * plan.tasks // plan.workers, (worker + 1) * plan.tasks // plan.workers):
            share, first = task % plan.shares, task // plan.shares * plan.rows
            row_count = min(plan.rows, conv.images * plan.high - first)
            if plan.shares == 1:
                for c in range(conv.channels):
                    transform_input(
                        x, c * conv.height * conv.width, conv.channels * conv.height * conv.width, first, row_count,
                        plan.high, plan.wide, conv.height, conv.width, conv.pad_h, conv.pad_w, padded_lines,
                        int64(worker) * plan.lines_size, plan.line_size, tiles, tiles_at + c * plan.columns,
                        plan.tiles_step, LANES,
                    )  # fmt: skip
            for block in range(
                share * (conv.features // FEATURES) // plan.shares,
                (share + 1) * (conv.features // FEATURES) // plan.shares,
            ):
                feature = block * FEATURES
                panel = (int64(worker) if apart else block) * 16 * plan.taps_step
                if apart:
                    transform_kernels(
                        weight, feature * plan.row_step, plan.row_step, plan.depth_step, conv.channels, taps, panel,
                        plan.taps_step, FEATURES, LANES,
                    )  # fmt: skip
                multiply_tiles(
                    taps, panel, plan.taps_step, plan.flipped, tiles, tiles_at, plan.tiles_step, plan.columns, products,
                    products_at, plan.step, FEATURES, conv.channels, 0, DEPTH, row_count * plan.wide, TILE_ROWS, LANES,
                    SIZE,
                )  # fmt: skip
                for plane in range(FEATURES * ((first + row_count - 1) // plan.high - first // plan.high + 1)):
                    image, f = first // plan.high + plane // FEATURES, feature + plane % FEATURES
                    top = max(first - image * plan.high, 0)
                    count = min(plan.high, first + row_count - image * plan.high) - top
                    line_at = (image * conv.features + f) * conv.out_h * conv.out_w
                    transform_products(
                        products,
                        products_at + plane % FEATURES * plan.columns + (image * plan.high + top - first) * plan.wide,
                        plan.step, out, line_at, top, count, plan.wide, conv.out_h, conv.out_w, x,
                        image * conv.channels * conv.height * conv.width, weight, f * plan.row_step, plan.depth_step,
                        plan.flipped, conv.channels, conv.height, conv.width, conv.pad_h, conv.pad_w, LANES,
                    )  # fmt: skip
                    low, end = 2 * top * conv.out_w, min(conv.out_h, 2 * (top + count)) * conv.out_w
                    EPILOGUE(image, f, line_at, low, end)


def winograd_weight_kernel(
    g, x, out, taps, tiles, products, padded_lines, plan: ChunkPlan, conv: Geometry, *, FEATURES, DEPTH, TILE_ROWS,
    LANES, SIZE,
):  # fmt: skip
    """out = the weight's gradient: the inverse transform (3 x 3) of the 16 products of transformed tiles of g (2 x 2)
    and x, summed over chunks of rows of tiles.

    `together` chunks are transformed, then multiplied, to start threads less often.
    """
    parts = (conv.channels + conv.features) // LANES
    for start in range(0, plan.chunks, plan.together):
        end = min(start + plan.together, plan.chunks)
        for worker in parallel_range(plan.workers):
            scratch_at = int64(worker) * plan.lines_size
            for chunk in range(start, end):
                first = chunk * plan.rows
                row_count = min(plan.rows, conv.images * plan.high - first)
                for part in range(worker * parts // plan.workers, (worker + 1) * parts // plan.workers):
                    channel, feature = part * LANES, part * LANES - conv.channels
                    if feature < 0:
                        transform_channels(
                            x, channel * conv.height * conv.width, conv.channels * conv.height * conv.width, first,
                            row_count, plan.high, plan.wide, 2, conv.height, conv.width, conv.pad_h, conv.pad_w,
                            padded_lines, scratch_at, tiles, (chunk - start) * 16 * plan.tiles_step + channel,
                            plan.columns, plan.tiles_step, LANES,
                        )  # fmt: skip
                    else:
                        transform_channels(
                            g, feature * conv.out_h * conv.out_w, conv.features * conv.out_h * conv.out_w, first,
                            row_count, plan.high, plan.wide, 0, conv.out_h, conv.out_w, 0, 0, padded_lines, scratch_at,
                            taps,
                            ((chunk - start) * conv.features + feature) // FEATURES * 16 * plan.taps_step
                            + feature % FEATURES, FEATURES, plan.taps_step, LANES,
                        )  # fmt: skip
        for worker in parallel_range(plan.workers):
            for chunk in range(start, end):
                row_count = min(plan.rows, conv.images * plan.high - chunk * plan.rows)
                for block in range(
                    worker * (conv.features // FEATURES) // plan.workers,
                    (worker + 1) * (conv.features // FEATURES) // plan.workers,
                ):
                    scratch_at, panel = (
                        (block if plan.chunks > 1 else int64(worker)) * 16 * plan.step,
                        ((chunk - start) * (conv.features // FEATURES) + block) * 16 * plan.taps_step,
                    )
                    multiply_tiles(
                        taps, panel, plan.taps_step, 0, tiles, (chunk - start) * 16 * plan.tiles_step, plan.tiles_step,
                        plan.columns, products, scratch_at, plan.step, FEATURES, row_count * plan.wide, chunk, DEPTH,
                        conv.channels, TILE_ROWS, LANES, SIZE,
                    )  # fmt: skip
                    for row in range(FEATURES if chunk == plan.chunks - 1 else 0):
                        for channel in range(0, conv.channels, LANES):
                            element = ((block * FEATURES + row) * conv.channels + channel) * 9
                            if combine_taps(
                                products, scratch_at + row * plan.columns + channel, plan.step, out, element
                            ):
                                for element_at in range(element, element + 9 * LANES):
                                    if not isfinite(out[uintp(element_at)]):
                                        out[uintp(element_at)] = correlate_tap(g, x, element_at, conv)


def fits_winograd(x: tuple, weight: tuple, out: Layout, attributes: tuple) -> bool:
    """Whether the kernels support a convolution and its gradients; larger ones would need much scratch memory."""
    stride, padding, dilation, groups = attributes
    plain = (
        len(x) == 4
        and tuple(weight[2:]) == (3, 3)
        and stride == dilation == (1, 1)
        and groups == 1
        and max(padding) <= 2
        and out.storage.name == "float32"
    )
    features, channels = weight[:2]
    return (
        plain
        and features % _FEATURES_PER_STEP == channels % _FEATURES_PER_STEP == 0
        and features * channels <= _ALL_TILES_MAX_SIZE // 2
        and 16 * max(features, channels) * x[3] <= 2 * _ALL_TILES_MAX_SIZE
    )


def transform_weight(weight, taps, blocks, channels, taps_step, *, FEATURES, LANES):
    """taps (blocks of features, 16, channels, features of a block) = the transformed kernels of a weight."""
    for block in parallel_range(blocks):
        transform_kernels(
            weight, int64(block) * FEATURES * channels * 9, channels * 9, 9, channels, taps,
            int64(block) * 16 * taps_step, taps_step, FEATURES, LANES,
        )  # fmt: skip


def transformed_size(features: int, channels: int) -> int:
    """How many elements a transformed weight has."""
    return 16 * (features // _FEATURES_PER_STEP) * _taps_step(channels)


def weight_transformer(weight: Layout) -> tuple[Callable, tuple, int]:
    """(launcher, constants, size of the result) of the kernel that transforms a weight ahead of convolutions."""
    features, channels = weight.shape[:2]
    blocks, taps_step, array = features // _FEATURES_PER_STEP, _taps_step(channels), f"{weight.storage.name}[]"
    source = specialized(transform_weight, FEATURES=_FEATURES_PER_STEP, LANES=_lanes())
    run = bind.launcher(
        weight.device,
        "winograd_weight",
        source,
        f"{array}, {array}, int64, int64, int64",
        weight.dtype,
        weight.size * 8,
    )
    return run, (blocks, channels, taps_step), transformed_size(features, channels)


def winograd_launcher(
    op: str,
    out: Layout,
    x: tuple,
    weight: tuple,
    result: tuple,
    attributes: tuple,
    work: int,
    epilogue: Epilogue | None = None,
    is_transformed: bool = False,
) -> Callable:
    """A launcher of op's kernel that allocates scratch memory. If `is_transformed`, the third input is the transformed
    weight.
    """
    on_weight, storage = op == "convolution_weight", out.storage
    sizes, plan, numbers = (
        _plan_of_weight_gradient(x, weight, result, attributes)
        if on_weight
        else _plan_of_result(op == "convolution_input", is_transformed, x, weight, result, attributes)
    )
    kernel = winograd_weight_kernel if on_weight else winograd_kernel
    sizes_of_tiles = {
        "FEATURES": _FEATURES_PER_STEP,
        "DEPTH": _PRODUCTS_PER_SUM,
        "TILE_ROWS": tiles.host().rows,
        "LANES": _lanes(),
        "SIZE": storage.itemsize,
    }
    run = launcher(
        "convolution", kernel, out, (storage.name,) * 7, work, epilogue, build.FAST_POINTWISE, **sizes_of_tiles
    )
    scratch, constants, make = tuple((size, storage) for size in sizes), (*plan, *numbers), out.device.backend.scratch
    # with one thread, a chunk at a time stays in the cache; the results are bitwise equal
    single_thread = (*plan._replace(together=1), *numbers) if on_weight else constants

    def launch(first: object, second: object, result: object, *further: object) -> None:
        run(
            first,
            second,
            result,
            *make(scratch),
            *(constants if get_num_threads() > 1 else single_thread),
            *further,
        )

    def launch_transformed(first: object, second: object, taps: object, result: object, *further: object) -> None:
        run(first, second, result, taps, *make(scratch[1:]), *constants, *further)

    return launch_transformed if is_transformed else launch


def _plan_of_result(
    backward: bool, is_transformed: bool, x: tuple, weight: tuple, result: tuple, attributes: tuple
) -> tuple[tuple, NamedTuple, Geometry]:
    """Sizes of scratch memory, the plan and the geometry. The input's gradient convolves g with the flipped
    kernels, with a padding of 2 minus that of the convolution.
    """
    stride, padding, dilation, groups = attributes
    features, channels = weight[:2]
    steps, lanes = (TAPS * channels, TAPS), _lanes()
    if backward:
        x, result, features, channels, steps, padding = (
            result,
            x,
            channels,
            features,
            steps[::-1],
            tuple(2 - pad for pad in padding),
        )
    tile_rows, tile_columns = (-(-size // 2) for size in result[2:])
    all_rows = x[0] * tile_rows
    one_task = (
        16 * channels * all_rows * tile_columns <= _ALL_TILES_MAX_SIZE and channels * features >= _ALL_TILES_MIN_WEIGHT
    )
    shares = min(_WORKERS, features // _FEATURES_PER_STEP) if one_task else 1
    stacks = 1 if one_task else -(-all_rows // max(1, _TASK_TILES_SIZE // (16 * channels * tile_columns)))
    rows = -(-all_rows // stacks)
    tasks = -(-all_rows // rows) * shares
    workers, line = min(_WORKERS, tasks), 2 * _ceil(tile_columns, lanes) + 2
    columns, lines_size = (
        _ceil((rows - 1) * tile_columns + _ceil(tile_columns, lanes), lanes),
        (2 * min(rows, tile_rows) + 2) * line,
    )
    # steps of whole pages would share lines of the cache
    taps_step, tiles_step = _taps_step(channels), channels * columns + lanes
    step = _FEATURES_PER_STEP * columns + lanes
    plan = TilePlan(
        workers,
        tasks,
        shares,
        rows,
        tile_rows,
        tile_columns,
        columns,
        line,
        lines_size,
        *steps,
        int(backward),
        int(is_transformed),
        taps_step,
        tiles_step,
        step,
    )
    sizes = (
        16 * (workers if one_task else features // _FEATURES_PER_STEP) * taps_step,
        16 * (1 if one_task else workers) * tiles_step,
        16 * workers * step,
        workers * lines_size,
    )
    return sizes, plan, geometry(x, (features, channels, *weight[2:]), result, stride, padding, dilation, groups)


def _plan_of_weight_gradient(
    x: tuple, weight: tuple, result: tuple, attributes: tuple
) -> tuple[tuple, NamedTuple, Geometry]:
    """Sizes of scratch memory, the plan and the geometry."""
    (features, channels), (tile_rows, tile_columns), lanes = (
        weight[:2],
        [-(-size // 2) for size in result[2:]],
        _lanes(),
    )
    all_rows, blocks, columns = x[0] * tile_rows, features // _FEATURES_PER_STEP, channels + lanes
    rows = -(-all_rows // -(-all_rows // max(1, _TILES_PER_SUM // tile_columns)))
    chunks = -(-all_rows // rows)
    workers = min(_WORKERS, blocks)
    lines_size = (2 * min(rows, tile_rows) + 2) * (2 * tile_columns + 2) * lanes
    taps_step, tiles_step, step = (
        _FEATURES_PER_STEP * rows * tile_columns + lanes,
        rows * tile_columns * columns,
        _FEATURES_PER_STEP * columns,
    )
    together = max(1, min(chunks, _PREPARED_SIZE // (16 * (blocks * taps_step + tiles_step))))
    sizes = (
        16 * together * blocks * taps_step,
        16 * together * tiles_step,
        16 * (blocks if chunks > 1 else workers) * step,
        workers * lines_size,
    )
    return (
        sizes,
        ChunkPlan(
            workers, chunks, together, rows, tile_rows, tile_columns, columns, lines_size, taps_step, tiles_step, step
        ),
        geometry(x, weight, result, *attributes),
    )


def _taps_step(channels: int) -> int:
    """Elements from one of the 16 places to the next, in a block of transformed kernels.

    It does not depend on the processor, so that transformed weights can be written to files.
    """
    return _FEATURES_PER_STEP * channels + _TAPS_PADDING


def _lanes() -> int:
    return tiles.host().lanes(4)


def _ceil(n: int, step: int) -> int:
    return -(-n // step) * step
