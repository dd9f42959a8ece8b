"""Convolution of float32 by 3 x 3 on the CPU by Winograd's F(2x2, 3x3), the gradient of its input, and that of its weight, which is F(3x3, 2x2).

The method is in `kernel.library.winograd`, when it is taken in `convolution`. Errors are as small as those of the sums that it replaces (F(4x4, 3x3) has a
third fewer products still, and errors ten times as large), but they go with the largest of the 16 elements of a tile, not with the largest of the nine that an
output sees.
"""

from __future__ import annotations

from collections.abc import Callable

from ..device import Layout, tiles
from ..device.threads import get_num_threads
from ..device.winograd import TAPS
from ..kernel import bind, build
from ..kernel.specialize import specialized
from .convolution_direct import geometry, launcher
from .finish import Finish

_TILES = 1 << 17  # elements of the transformed tiles of a task: they stay in the second-level cache
_WHOLE = (
    1 << 20
)  # those of all tiles, up to which they may be transformed before the weights: they stay in the cache that cores share
_LARGE = 1 << 15  # channels times features from which they are, if they may
_FEATURES = 16  # features done at a time, so that a task's tiles are read half as often
_DEPTH = 32  # products summed up before they are added to the others: short sums have small errors
_SUMMED = 96  # tiles summed up at a time for a weight, about
# elements of the transformed tiles that several threads prepare before they multiply them: to start threads more often costs more than the cache saves
_TOGETHER = 1 << 20
_WORKERS = 8  # as in `convolution_grid`
_PLACES = (
    "workers",
    "tasks",
    "shares",
    "rows",
    "high",
    "wide",
    "columns",
    "board_line",
    "board_size",
    "row_step",
    "depth_step",
    "turned",
    "given",
    "taps_step",
    "tiles_step",
    "step",
)
_CHUNKS = (
    "workers",
    "chunks",
    "together",
    "rows",
    "high",
    "wide",
    "columns",
    "board_size",
    "taps_step",
    "tiles_step",
    "step",
)


def by_winograd(x, weight, out, taps, tiles, products, board, PLACES):
    """out = the 16 products of transformed tiles of x and transformed kernels, transformed back. `given` taps are transformed already."""
    apart = (shares > 1) & (given == 0)  # each worker transforms the kernels that it needs next
    if (shares == 1) & (given == 0):
        for part in parallel_range(features // FEATURES):
            spread_taps(
                weight,
                int64(part) * FEATURES * row_step,
                row_step,
                depth_step,
                channels,
                taps,
                int64(part) * 16 * taps_step,
                taps_step,
                FEATURES,
                LANES,
            )
    if shares > 1:  # all tiles are one task, and the features are shared out
        for turn in parallel_range(workers):
            for c in range(turn * channels // workers, (turn + 1) * channels // workers):
                spread_tiles(
                    x,
                    c * height * width,
                    channels * height * width,
                    0,
                    rows,
                    high,
                    wide,
                    height,
                    width,
                    pad_h,
                    pad_w,
                    board,
                    int64(turn) * board_size,
                    board_line,
                    tiles,
                    c * columns,
                    tiles_step,
                    LANES,
                )
    for turn in parallel_range(workers):
        own, products_at = int64(turn) * 16 * tiles_step if shares == 1 else 0, int64(turn) * 16 * step
        for task in range(turn * tasks // workers, (turn + 1) * tasks // workers):
            share, first = task % shares, task // shares * rows
            held = min(rows, images * high - first)
            if shares == 1:
                for c in range(channels):
                    spread_tiles(
                        x,
                        c * height * width,
                        channels * height * width,
                        first,
                        held,
                        high,
                        wide,
                        height,
                        width,
                        pad_h,
                        pad_w,
                        board,
                        int64(turn) * board_size,
                        board_line,
                        tiles,
                        own + c * columns,
                        tiles_step,
                        LANES,
                    )
            for block in range(
                share * (features // FEATURES) // shares, (share + 1) * (features // FEATURES) // shares
            ):
                feature = block * FEATURES
                panel = (int64(turn) if apart else block) * 16 * taps_step
                if apart:
                    spread_taps(
                        weight,
                        feature * row_step,
                        row_step,
                        depth_step,
                        channels,
                        taps,
                        panel,
                        taps_step,
                        FEATURES,
                        LANES,
                    )
                multiply_places(
                    taps,
                    panel,
                    taps_step,
                    turned,
                    tiles,
                    own,
                    tiles_step,
                    columns,
                    products,
                    products_at,
                    step,
                    FEATURES,
                    channels,
                    0,
                    DEPTH,
                    held * wide,
                    TILE_ROWS,
                    LANES,
                    SIZE,
                )
                for plane in range(FEATURES * ((first + held - 1) // high - first // high + 1)):
                    image, f = first // high + plane // FEATURES, feature + plane % FEATURES
                    top = max(first - image * high, 0)
                    count = min(high, first + held - image * high) - top
                    line_at = (image * features + f) * out_h * out_w
                    combine_tiles(
                        products,
                        products_at + plane % FEATURES * columns + (image * high + top - first) * wide,
                        step,
                        out,
                        line_at,
                        top,
                        count,
                        wide,
                        out_h,
                        out_w,
                        x,
                        image * channels * height * width,
                        weight,
                        f * row_step,
                        depth_step,
                        turned,
                        channels,
                        height,
                        width,
                        pad_h,
                        pad_w,
                        LANES,
                    )
                    low, end = 2 * top * out_w, min(out_h, 2 * (top + count)) * out_w
                    FINISH(image, f, line_at, low, end)


def weight_by_winograd(g, x, out, taps, tiles, products, board, PLACES):
    """out, the weight's gradient, = the 16 products of transformed tiles of g (2 x 2) and x, summed up over some rows of tiles, a chunk, at a time, transformed
    back (3 x 3).

    Some chunks are transformed, then multiplied, `together`: threads are started twice for them.
    """
    parts = (channels + features) // LANES
    for start in range(0, chunks, together):
        end = min(start + together, chunks)
        for turn in parallel_range(workers):
            own = int64(turn) * board_size
            for chunk in range(start, end):
                first = chunk * rows
                held = min(rows, images * high - first)
                for part in range(turn * parts // workers, (turn + 1) * parts // workers):
                    channel, feature = part * LANES, part * LANES - channels
                    if feature < 0:
                        spread_pixels(
                            x,
                            channel * height * width,
                            channels * height * width,
                            first,
                            held,
                            high,
                            wide,
                            2,
                            height,
                            width,
                            pad_h,
                            pad_w,
                            board,
                            own,
                            tiles,
                            (chunk - start) * 16 * tiles_step + channel,
                            columns,
                            tiles_step,
                            LANES,
                        )
                    else:
                        spread_pixels(
                            g,
                            feature * out_h * out_w,
                            features * out_h * out_w,
                            first,
                            held,
                            high,
                            wide,
                            0,
                            out_h,
                            out_w,
                            0,
                            0,
                            board,
                            own,
                            taps,
                            ((chunk - start) * features + feature) // FEATURES * 16 * taps_step + feature % FEATURES,
                            FEATURES,
                            taps_step,
                            LANES,
                        )
        for turn in parallel_range(workers):
            for chunk in range(start, end):
                held = min(rows, images * high - chunk * rows)
                for block in range(
                    turn * (features // FEATURES) // workers, (turn + 1) * (features // FEATURES) // workers
                ):
                    own, panel = (
                        (block if chunks > 1 else int64(turn)) * 16 * step,
                        ((chunk - start) * (features // FEATURES) + block) * 16 * taps_step,
                    )
                    multiply_places(
                        taps,
                        panel,
                        taps_step,
                        0,
                        tiles,
                        (chunk - start) * 16 * tiles_step,
                        tiles_step,
                        columns,
                        products,
                        own,
                        step,
                        FEATURES,
                        held * wide,
                        chunk,
                        DEPTH,
                        channels,
                        TILE_ROWS,
                        LANES,
                        SIZE,
                    )
                    for row in range(FEATURES if chunk == chunks - 1 else 0):
                        for channel in range(0, channels, LANES):
                            element = ((block * FEATURES + row) * channels + channel) * 9
                            if combine_taps(products, own + row * columns + channel, step, out, element):
                                for each in range(element, element + 9 * LANES):
                                    if not isfinite(out[uintp(each)]):
                                        out[uintp(each)] = correlate(g, x, each, GEOMETRY)


def fits(x: tuple, weight: tuple, out: Layout, parameters: tuple) -> bool:
    """Whether the kernels do such a convolution and its gradients: scratch memory is bounded, and larger ones were not measured."""
    stride, padding, dilation, groups = parameters
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
        and features % _FEATURES == channels % _FEATURES == 0
        and features * channels <= _WHOLE // 2
        and 16 * max(features, channels) * x[3] <= 2 * _WHOLE
    )


def spread_weight(weight, taps, blocks, channels, taps_step, *, FEATURES, LANES):
    """taps (blocks of features, 16, channels, features of a block) = the transformed kernels of weight."""
    for block in parallel_range(blocks):
        spread_taps(
            weight,
            int64(block) * FEATURES * channels * 9,
            channels * 9,
            9,
            channels,
            taps,
            int64(block) * 16 * taps_step,
            taps_step,
            FEATURES,
            LANES,
        )


def weight_spreader(weight: Layout) -> tuple[Callable, tuple, int]:
    """(launcher, constants, elements of the result) of what transforms the weight of convolutions before they run."""
    features, channels = weight.shape[:2]
    blocks, taps_step, array = features // _FEATURES, _taps_step(channels), f"{weight.storage.name}[]"
    source = specialized(spread_weight, FEATURES=_FEATURES, LANES=_lanes())
    run = bind.launcher(
        weight.device, "spread_weight", source, f"{array}, {array}, int64, int64, int64", weight.dtype, weight.size * 8
    )
    return run, (blocks, channels, taps_step), 16 * blocks * taps_step


def winograd_launcher(
    op: str, out: Layout, x: tuple, weight: tuple, result: tuple, parameters: tuple, work: int, finish: Finish | None = None, given: bool = False
) -> Callable:  # fmt: skip
    """A launch of op's kernel that makes the scratch memory it needs; where transformed taps are `given` they are its third input."""
    on_weight, storage = op == "convolution_weight", out.storage
    sizes, places, numbers = (
        _of_weight(x, weight, result, parameters)
        if on_weight
        else _of_result(op == "convolution_input", given, x, weight, result, parameters)
    )
    kernel, names = (weight_by_winograd, _CHUNKS) if on_weight else (by_winograd, _PLACES)
    words = {
        "PLACES": ", ".join(names),
        "TILE_ROWS": tiles.host().rows,
        "LANES": _lanes(),
        "FEATURES": _FEATURES,
        "DEPTH": _DEPTH,
        "SIZE": storage.itemsize,
    }
    run = launcher(
        "convolution",
        kernel,
        out,
        (storage.name,) * 7,
        len(names),
        work,
        tuple(words.items()),
        finish,
        build.FAST_POINTWISE,
    )
    scratch, constants, make = tuple((size, storage) for size in sizes), (*places, *numbers), out.device.backend.scratch
    alone = (
        (*places[:2], 1, *places[3:], *numbers) if on_weight else constants
    )  # one thread has a chunk at a time in its cache; the bits are the same

    def launch(first: object, second: object, result: object, *further: object) -> None:
        run(first, second, result, *make(scratch), *(constants if get_num_threads() > 1 else alone), *further)

    def launch_given(first: object, second: object, taps: object, result: object, *further: object) -> None:
        run(first, second, result, taps, *make(scratch[1:]), *constants, *further)

    return launch_given if given else launch


def _of_result(
    back: bool, given: bool, x: tuple, weight: tuple, result: tuple, parameters: tuple
) -> tuple[tuple, tuple, tuple]:
    """Sizes of scratch memory, the numbers of `_PLACES`, the geometry. The input's gradient convolves g with the kernels turned, where borders are as wide as
    taps reach over."""
    stride, padding, dilation, groups = parameters
    features, channels = weight[:2]
    steps, lanes = (TAPS * channels, TAPS), _lanes()
    if back:
        x, result, features, channels, steps, padding = (
            result,
            x,
            channels,
            features,
            steps[::-1],
            tuple(2 - each for each in padding),
        )
    high, wide = (-(-each // 2) for each in result[2:])
    whole = x[0] * high
    once = 16 * channels * whole * wide <= _WHOLE and channels * features >= _LARGE
    shares = min(_WORKERS, features // _FEATURES) if once else 1
    sets = 1 if once else -(-whole // max(1, _TILES // (16 * channels * wide)))
    rows = -(-whole // sets)
    tasks = -(-whole // rows) * shares
    workers, line = min(_WORKERS, tasks), 2 * _ceil(wide, lanes) + 2
    columns, board = _ceil((rows - 1) * wide + _ceil(wide, lanes), lanes), (2 * min(rows, high) + 2) * line
    taps_step, tiles_step, step = (
        _taps_step(channels),
        channels * columns + lanes,
        _FEATURES * columns + lanes,
    )  # whole pages would share lines of the cache
    places = (
        workers,
        tasks,
        shares,
        rows,
        high,
        wide,
        columns,
        line,
        board,
        *steps,
        int(back),
        int(given),
        taps_step,
        tiles_step,
        step,
    )
    sizes = (
        16 * (workers if once else features // _FEATURES) * taps_step,
        16 * (1 if once else workers) * tiles_step,
        16 * workers * step,
        workers * board,
    )
    return sizes, places, geometry(x, (features, channels, *weight[2:]), result, stride, padding, dilation, groups)


def _of_weight(x: tuple, weight: tuple, result: tuple, parameters: tuple) -> tuple[tuple, tuple, tuple]:
    """Sizes of scratch memory, the numbers of `_CHUNKS`, the geometry."""
    (features, channels), (high, wide), lanes = weight[:2], [-(-each // 2) for each in result[2:]], _lanes()
    whole, blocks, columns = x[0] * high, features // _FEATURES, channels + lanes
    rows = -(-whole // -(-whole // max(1, _SUMMED // wide)))
    chunks, workers, board = (
        -(-whole // rows),
        min(_WORKERS, blocks),
        (2 * min(rows, high) + 2) * (2 * wide + 2) * lanes,
    )
    taps_step, tiles_step, step = _FEATURES * rows * wide + lanes, rows * wide * columns, _FEATURES * columns
    together = max(1, min(chunks, _TOGETHER // (16 * (blocks * taps_step + tiles_step))))
    sizes = (
        16 * together * blocks * taps_step,
        16 * together * tiles_step,
        16 * (blocks if chunks > 1 else workers) * step,
        workers * board,
    )
    return (
        sizes,
        (workers, chunks, together, rows, high, wide, columns, board, taps_step, tiles_step, step),
        geometry(x, weight, result, *parameters),
    )


def _taps_step(channels: int) -> int:
    return _FEATURES * channels + _lanes()


def _lanes() -> int:
    return tiles.host().lanes(4)


def _ceil(n: int, step: int) -> int:
    return -(-n // step) * step
