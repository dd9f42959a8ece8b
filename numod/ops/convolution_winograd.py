"""Convolution of float32 by 3 x 3 on the CPU by Winograd's F(2x2, 3x3), and the gradient of its input. The method is in `kernel.winograd`, when it is taken in `convolution`.

Errors are as small as those of the sums that it replaces (F(4x4, 3x3) has a third fewer products still, and errors ten times as large), but they go with the largest of the
16 elements of a tile, not with the largest of the nine that an output sees.
"""

from __future__ import annotations

from collections.abc import Callable

from ..device import Layout, tiles
from ..device.winograd import TAPS
from ..kernel import build
from .convolution_direct import geometry, launcher
from .finish import Finish

_TILES = 1 << 17  # elements of the transformed tiles of a task: they stay in the second-level cache
_WHOLE = 1 << 20  # those of all tiles, up to which they may be transformed before the weights: they stay in the cache that cores share
_LARGE = 1 << 15  # channels times features from which they are, if they may
_FEATURES = 16  # features done at a time, so that a task's tiles are read half as often
_DEPTH = 32  # products summed up before they are added to the others: short sums have small errors
_WORKERS = 8  # as in `convolution_grid`
_PLACES = "workers", "tasks", "shares", "rows", "high", "wide", "columns", "board_line", "board_size", "row_step", "depth_step", "turned", "taps_step", "tiles_step", "step"


def by_winograd(x, weight, out, taps, tiles, products, board, PLACES):
    """out = the 16 products of transformed tiles of x and transformed kernels, transformed back."""
    if shares == 1:
        for part in parallel_range(features // TILE_ROWS):
            spread_taps(weight, int64(part) * TILE_ROWS * row_step, row_step, depth_step, channels, taps, int64(part) * 16 * taps_step, taps_step, TILE_ROWS, LANES)
    else:  # all tiles are one task, and the features are shared out
        for turn in parallel_range(workers):
            for c in range(turn * channels // workers, (turn + 1) * channels // workers):
                spread_tiles(
                    x, c * height * width, channels * height * width, 0, rows, high, wide, height, width, pad_h, pad_w, board, int64(turn) * board_size, board_line,
                    tiles, c * columns, tiles_step, LANES,
                )
    for turn in parallel_range(workers):
        own, mine, products_at = int64(turn) * 16 * tiles_step if shares == 1 else 0, int64(turn) * FEATURES // TILE_ROWS * 16 * taps_step if shares > 1 else 0, int64(turn) * 16 * step
        for task in range(turn * tasks // workers, (turn + 1) * tasks // workers):
            share, first = task % shares, task // shares * rows
            held = min(rows, images * high - first)
            if shares == 1:
                for c in range(channels):
                    spread_tiles(
                        x, c * height * width, channels * height * width, first, held, high, wide, height, width, pad_h, pad_w, board, int64(turn) * board_size, board_line,
                        tiles, own + c * columns, tiles_step, LANES,
                    )
            for block in range(share * (features // FEATURES) // shares, (share + 1) * (features // FEATURES) // shares):
                feature = block * FEATURES
                if shares > 1:
                    for row in range(0, FEATURES, TILE_ROWS):
                        spread_taps(weight, (feature + row) * row_step, row_step, depth_step, channels, taps, mine + row // TILE_ROWS * 16 * taps_step, taps_step, TILE_ROWS, LANES)
                multiply_places(
                    taps, mine if shares > 1 else feature // TILE_ROWS * 16 * taps_step, taps_step, turned, tiles, own, tiles_step, columns, products, products_at, step, FEATURES, channels, DEPTH, held * wide, TILE_ROWS, LANES, SIZE
                )
                for plane in range(FEATURES * ((first + held - 1) // high - first // high + 1)):
                    image, f = first // high + plane // FEATURES, feature + plane % FEATURES
                    top = max(first - image * high, 0)
                    count = min(high, first + held - image * high) - top
                    line_at = (image * features + f) * out_h * out_w
                    combine_tiles(
                        products, products_at + plane % FEATURES * columns + (image * high + top - first) * wide, step, out, line_at, top, count, wide, out_h, out_w,
                        x, image * channels * height * width, weight, f * row_step, depth_step, turned, channels, height, width, pad_h, pad_w, LANES,
                    )
                    low, end = 2 * top * out_w, min(out_h, 2 * (top + count)) * out_w
                    FINISH(image, f, line_at, low, end)


def fits(x: tuple, weight: tuple, out: Layout, parameters: tuple) -> bool:
    """Whether the kernel does such a convolution, and the gradient of its input."""
    stride, padding, dilation, groups = parameters
    plain = len(x) == 4 and tuple(weight[2:]) == (3, 3) and stride == dilation == (1, 1) and groups == 1 and max(padding) <= 2
    return plain and out.storage.name == "float32" and weight[0] % _FEATURES == weight[1] % _FEATURES == 0 and 16 * max(weight[:2]) * x[3] <= 2 * _WHOLE


def winograd_launcher(back: bool, out: Layout, x: tuple, weight: tuple, result: tuple, parameters: tuple, work: int, finish: Finish | None = None) -> Callable:
    """A launch of the kernel that makes the scratch memory it needs. The input's gradient convolves g with the kernels turned, where borders are as wide as taps reach over."""
    stride, padding, dilation, groups = parameters
    features, channels = weight[:2]
    steps = (TAPS * channels, TAPS)
    if back:
        x, result, features, channels, steps, padding = result, x, channels, features, steps[::-1], tuple(2 - each for each in padding)
    storage, lanes, tile_rows = out.storage, tiles.host().lanes(out.storage.itemsize), tiles.host().rows
    high, wide = (-(-each // 2) for each in result[2:])
    whole = x[0] * high
    once = 16 * channels * whole * wide <= _WHOLE and channels * features >= _LARGE
    shares = min(_WORKERS, features // _FEATURES) if once else 1
    sets = 1 if once else -(-whole // max(1, _TILES // (16 * channels * wide)))
    rows = -(-whole // sets)
    tasks = -(-whole // rows) * shares
    workers = min(_WORKERS, tasks)
    columns, line = _ceil((rows - 1) * wide + _ceil(wide, lanes), lanes), 2 * _ceil(wide, lanes) + 2
    board = (2 * min(rows, high) + 2) * line
    taps_step, tiles_step, step = (each + lanes for each in (tile_rows * channels, channels * columns, _FEATURES * columns))  # whole pages would share lines of the cache
    panels = features // tile_rows if shares == 1 else workers * _FEATURES // tile_rows
    scratch = tuple((count, storage) for count in (16 * panels * taps_step, 16 * (workers if shares == 1 else 1) * tiles_step, 16 * workers * step, workers * board))
    constants = (workers, tasks, shares, rows, high, wide, columns, line, board, *steps, int(back), taps_step, tiles_step, step, *geometry(x, (features, channels, 3, 3), result, stride, padding, dilation, groups))
    words = {"PLACES": ", ".join(_PLACES), "TILE_ROWS": tile_rows, "LANES": lanes, "FEATURES": _FEATURES, "DEPTH": _DEPTH, "SIZE": storage.itemsize}
    run, make = launcher("convolution", by_winograd, out, (storage.name,) * 7, len(_PLACES), work, tuple(words.items()), finish, build.FAST_POINTWISE), out.device.backend.scratch

    def launch(first: object, second: object, result: object, *further: object) -> None:
        run(first, second, result, *make(scratch), *constants, *further)

    return launch


def _ceil(n: int, step: int) -> int:
    return -(-n // step) * step
