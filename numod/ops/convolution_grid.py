"""Convolution of floats on the CPU by register tiles. Shapes are those of `convolution`; the grid is explained in `kernel.library.grid`.

Patches of a block of output rows are runs of a grid that fits the second-level cache, and tiles multiply it. Where a result could hold what the
zeros of a border make of an infinity, it is computed again from the elements that exist (`kernel.library.direct`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod

import numpy as np

from ..device import Layout, threads, tiles
from ..kernel import bind, build
from ..kernel.specialize import specialized
from .convolution_direct import GEOMETRY, geometry, launcher
from .finish import Finish

_GRID = 1 << 17  # elements of a grid: it stays in the second-level cache
_SMALL = 1 << 15  # where registers are few (16): caches are small too, and of tiles of few rows each reads the grid again
_WORKERS = 8  # grids: one for each turn of the parallel loop
_TASKS = 4  # parts to cut a convolution into at least, so that threads can share it
_LARGE = 1 << 15  # elements of a weight of which not every worker gets sums of its own, if
_HUGE = 1 << 17  # features times channels of a weight that is packed a tile at a time, not whole: memory is slow
_WHOLE = 1 << 22  # a grid of all images has no more elements: it stays in the cache that cores share
_MANY = 64  # rows that meet a grid from which workers share it
_COPY = 24  # products that take as long as copying an element to a grid
_FEWEST = 16  # such rows for each worker that shares a grid
_NEAR = 1 << 13  # elements that all rows meet before they meet the next, there: they stay in the first-level cache
_DEEP = 512  # products summed up at a time, there: a tile's rows stay in the first-level cache
_ALL = 1 << 40  # products summed up at a time elsewhere
_PACKED = 16  # tiles' rows that a worker packs at a time
_RUN = 48  # positions of a grid, whole tiles on every processor
_ROWS = 4  # output rows a grid holds at least: fewer would copy its borders too often
_FULL = 8  # rows of a tile where registers are many
_FEW = 2  # rows of a product up to which they are done one by one
_PLACES = (  # what a grid's kernel is told beside
    "workers", "tasks", "shares", "blocks", "rows", "size", "low_d", "low_h", "low_w", "variants", "apart", "grid_d", "grid_h", "stack", "grid_w",
    "run", "deep",
)  # fmt: skip
_STEPS = "groups * features * out_d * out_h * out_w, out_d * out_h * out_w, out_h * out_w, out_w, 1"  # of the output: image, feature, slab, line, column
_KERNEL = "kernel_d, kernel_h, kernel_w, pad_d, pad_h, step_d, step_h"


def forward_grid(x, weight, out, padded, grid, tile, table, columns, PLACES):
    """out = weight (features, taps) @ patches, of the images and output rows that a grid holds at a time."""
    taps = channels * kernel_d * kernel_h * kernel_w
    own_rows = -(-features // TILE_ROWS) * TILE_ROWS
    fill_columns(columns, kernel_w, pad_w, step_w, stride_w, stride_w, low_w, variants, apart, grid_d * grid_h * stack * grid_w)
    fill_taps(table, channels, KERNEL, stride_d, stride_h, low_d, low_h, columns, variants, GRID)
    pad_features(weight, padded, features, own_rows, taps)
    if shares > 1:  # all images are on one grid, and the features are shared out
        for channel in parallel_range(channels):
            c = int64(channel)
            spread_images(
                x, c * depth * height * width, channels * depth * height * width, grid, c * stride_d * stride_h * variants * grid_d * grid_h * stack * grid_w,
                images, 1, depth, height, width, stride_d, stride_h, stride_w, low_d, low_h, columns, variants, GRID, KERNEL,
            )
    for turn in parallel_range(workers):
        own, own_tile = int64(turn) * size if shares == 1 else 0, int64(turn) * (tile.size // workers)
        for task in range(turn * tasks // workers, (turn + 1) * tasks // workers):
            share, place = task % shares, task // shares
            first, group, image = place % blocks * rows, place // blocks % groups, place // (blocks * groups) * stack
            count, lines = min(stack, images - image), min(rows, out_h - first)
            if shares == 1:
                spread_images(
                    x, (image * groups + group) * channels * depth * height * width, groups * channels * depth * height * width, grid, own, count, channels,
                    depth, height, width, stride_d, stride_h, stride_w, low_d, low_h + first, columns, variants, GRID, KERNEL,
                )
            top = share * own_rows // TILE_ROWS // shares * TILE_ROWS
            held = min(features, (share + 1) * own_rows // TILE_ROWS // shares * TILE_ROWS) - top
            target = (((image * groups + group) * features + top) * out_d * out_h + first) * out_w
            if padded.size > 0:
                multiply_grid(
                    padded, (group * own_rows + top) * taps, taps, held, taps, grid, own, table, 0, out, target, STEPS, count, out_d, lines, out_w, GRID, run,
                    deep, tile, own_tile, TILE_ROWS, LANES,
                )
            else:
                multiply_grid(
                    weight, (group * features + top) * taps, taps, held, taps, grid, own, table, 0, out, target, STEPS, count, out_d, lines, out_w, GRID, run,
                    deep, tile, own_tile, TILE_ROWS, LANES,
                )
            low, high = first * out_w, (first + out_d * lines) * out_w  # of a plane
            for plane in range(count * held):
                batch, row = image + plane // held, group * features + top + plane % held
                line = (batch * groups * features + row) * out_d * out_h * out_w
                if not isfinite(out[uintp(line + low)]):  # an infinite weight is in all of a plane: any element tells
                    for each in range((line + low) // out_w, (line + high) // out_w):
                        convolve_line(x, weight, out, each, GEOMETRY)
                FINISH(batch, row, line, low, high)


def input_grid(g, weight, out, panels, grid, tile, table, columns, order, PLACES):
    """out = patches of g times the weights that lead there. The input's elements fall into phases, each of which some of the taps reach."""
    taps = kernel_d * kernel_h * kernel_w
    own_rows = -(-channels // TILE_ROWS) * TILE_ROWS
    plane = grid_d * grid_h * stack * grid_w
    fill_columns(columns, kernel_w, pad_w, step_w, stride_w, 0, low_w, variants, apart, plane)
    phases = stride_d * stride_h * stride_w
    found = int64(0)
    for phase in range(phases):  # order: the taps, phase by phase; after them where each phase begins. table: where in the grid they lead
        r_d, r_h, r_w = phase // (stride_h * stride_w), phase // stride_w % stride_h, phase % stride_w
        order[taps + phase] = found
        for tap in range(taps):
            v_d = r_d + pad_d - tap // (kernel_h * kernel_w) * step_d
            v_h = r_h + pad_h - tap // kernel_w % kernel_h * step_h
            v_w = r_w + pad_w - tap % kernel_w * step_w
            if v_d % stride_d == 0 and v_h % stride_h == 0 and v_w % stride_w == 0:
                order[found] = tap
                found += 1
        begin = order[taps + phase]
        for j in range(begin, found):
            tap = order[j]
            v_d = (r_d + pad_d - tap // (kernel_h * kernel_w) * step_d) // stride_d - low_d
            v_h = (r_h + pad_h - tap // kernel_w % kernel_h * step_h) // stride_h - low_h
            for o in range(features):
                table[uintp(features * begin + o * (found - begin) + j - begin)] = (
                    o * variants * plane + (v_d * grid_h + v_h) * stack * grid_w + columns[tap % kernel_w]
                )
    order[taps + phases] = found
    if shares == 1:
        most = (own_rows // TILE_ROWS + PACKED - 1) // PACKED
        for part in parallel_range(groups * most):
            group, top = int64(part) // most, int64(part) % most * PACKED * TILE_ROWS
            pack_taps(
                weight, (group * features * channels + top) * taps, features, channels, taps, panels, (group * own_rows + top) * features * taps,
                min(PACKED * TILE_ROWS, own_rows - top), TILE_ROWS, channels - top, order, phases,
            )
    if shares > 1:  # as in forward_grid
        for feature in parallel_range(features):
            o = int64(feature)
            spread_images(
                g, o * out_d * out_h * out_w, features * out_d * out_h * out_w, grid, o * variants * plane, images, 1, out_d, out_h, out_w,
                1, 1, 1, low_d, low_h, columns, variants, GRID, KERNEL,
            )
    for turn in parallel_range(workers):
        own, own_tile = int64(turn) * size if shares == 1 else 0, int64(turn) * (tile.size // workers)
        for task in range(turn * tasks // workers, (turn + 1) * tasks // workers):
            share, place = task % shares, task // shares
            first, group, image = place % blocks * rows, place // blocks % groups, place // (blocks * groups) * stack
            count = min(stack, images - image)
            if shares == 1:
                spread_images(
                    g, (image * groups + group) * features * out_d * out_h * out_w, groups * features * out_d * out_h * out_w, grid, own, count, features,
                    out_d, out_h, out_w, 1, 1, 1, low_d, low_h + first, columns, variants, GRID, KERNEL,
                )
            top = share * own_rows // TILE_ROWS // shares * TILE_ROWS
            held = min(channels, (share + 1) * own_rows // TILE_ROWS // shares * TILE_ROWS) - top
            panel, packed = (group * own_rows + top) * features * taps, held
            if shares > 1:  # each worker packs what it needs next, into memory of its own, which stays in the cache
                panel, packed = int64(turn) * TILE_ROWS * features * taps, TILE_ROWS
            for row in range(top, top + held, packed):
                if shares > 1:
                    pack_taps(weight, row * taps, features, channels, taps, panels, panel, TILE_ROWS, TILE_ROWS, channels - row, order, phases)
                for phase in range(phases):
                    r_d, r_h, r_w = phase // (stride_h * stride_w), phase // stride_w % stride_h, phase % stride_w
                    slabs, width_here = (depth - r_d + stride_d - 1) // stride_d, (width - r_w + stride_w - 1) // stride_w
                    lines = min(rows, (height - r_h + stride_h - 1) // stride_h - first)
                    begin, reached = order[taps + phase], order[taps + phase + 1] - order[taps + phase]
                    target = ((((image * groups + group) * channels + row) * depth + r_d) * height + r_h + first * stride_h) * width + r_w
                    if lines > 0 and slabs > 0 and width_here > 0:
                        multiply_grid(
                            panels, panel + TILE_ROWS * features * begin, features * taps, min(packed, top + held - row), features * reached, grid, own, table,
                            features * begin, out, target, groups * channels * depth * height * width, depth * height * width, stride_d * height * width,
                            stride_h * width, stride_w, count, slabs, lines, width_here, GRID, run, deep, tile, own_tile, TILE_ROWS, LANES,
                        )
    for plane in parallel_range(images * groups * channels):  # as in forward_grid; every phase has taps of its own
        whole = True
        for r_d in range(min(stride_d, depth)):
            for r_h in range(min(stride_h, height)):
                for r_w in range(min(stride_w, width)):
                    whole &= isfinite(out[uintp(((int64(plane) * depth + r_d) * height + r_h) * width + r_w)])
        if not whole:
            convolve_back(g, weight, out, int64(plane), GEOMETRY)


def weight_grid(g, x, out, turned, sums, grid, table, columns, PLACES):
    """sums (workers, groups, taps, features) += patches (taps, positions) @ g (positions, features); out is the sum over workers, turned."""
    taps = channels * kernel_d * kernel_h * kernel_w
    own_taps, own_features = -(-taps // TILE_ROWS) * TILE_ROWS, -(-features // LANES) * LANES
    panel = 2 * LANES if own_features // LANES % 3 == 1 else 3 * LANES  # a last panel of one vector would be slow
    fill_columns(columns, kernel_w, pad_w, step_w, stride_w, stride_w, low_w, variants, apart, grid_d * grid_h * stack * grid_w)
    fill_taps(table, channels, KERNEL, stride_d, stride_h, low_d, low_h, columns, variants, GRID)
    for tap in range(taps, own_taps):
        table[tap] = 0
    for turn in parallel_range(workers):
        own, mine = int64(turn) * size, int64(turn) * groups * own_taps * own_features
        panels = int64(turn) * (turned.size // workers)
        for k in range(groups * own_taps * own_features):
            sums[uintp(mine + k)] = 0
        for task in range(turn * tasks // workers, (turn + 1) * tasks // workers):
            first = task % blocks * rows
            group = task // blocks % groups
            image = task // (blocks * groups) * stack
            count = min(stack, images - image)
            lines = min(rows, out_h - first)
            end = grid_reach(count, grid_h, stack, grid_w, out_d, lines, out_w)
            spread_images(
                x, (image * groups + group) * channels * depth * height * width, groups * channels * depth * height * width, grid, own, count, channels, depth,
                height, width, stride_d, stride_h, stride_w, low_d, low_h + first, columns, variants, GRID, KERNEL,
            )
            turn_outputs(
                g, (image * groups + group) * features * out_d * out_h * out_w, groups * features * out_d * out_h * out_w, out_d * out_h * out_w, features,
                turned, panels, first, count, out_d, lines, out_h, out_w, grid_h, stack, grid_w, end, panel, LANES,
            )
            for feature in range(0, own_features, panel):
                held = min(panel, own_features - feature)
                for tap in range(0, own_taps, TILE_ROWS):
                    into = mine + (group * own_taps + tap) * own_features + feature
                    if held > 2 * LANES:
                        spread3(grid, own, 0, 1, turned, panels + feature * end, panel, table, tap, sums, into, own_features, end, 1)
                    elif held > LANES:
                        spread2(grid, own, 0, 1, turned, panels + feature * end, panel, table, tap, sums, into, own_features, end, 1)
                    else:
                        spread1(grid, own, 0, 1, turned, panels + feature * end, panel, table, tap, sums, into, own_features, end, 1)
    for part in parallel_range(groups * own_taps // TILE_ROWS):
        group, tap = int64(part) * TILE_ROWS // own_taps, int64(part) * TILE_ROWS % own_taps
        for feature in range(features):
            for t in range(tap, min(tap + TILE_ROWS, taps)):
                place = (group * own_taps + t) * own_features + feature
                total = sums[uintp(place)]
                for turn in range(1, workers):
                    total += sums[uintp(turn * groups * own_taps * own_features + place)]
                element = (group * features + feature) * taps + t
                out[uintp(element)] = total if isfinite(total) else correlate(g, x, element, GEOMETRY)


def weight_whole(g, x, out, turned, sums, grid, table, columns, PLACES):
    """out (features, taps) where all images fit one grid: `rows` taps at a time, whose sums (taps, features) stay in the cache until they are turned."""
    taps = channels * kernel_d * kernel_h * kernel_w
    own_features = -(-features // LANES) * LANES
    panel = 2 * LANES if own_features // LANES % 3 == 1 else 3 * LANES
    fill_columns(columns, kernel_w, pad_w, step_w, stride_w, stride_w, low_w, variants, apart, grid_d * grid_h * stack * grid_w)
    fill_taps(table, channels, KERNEL, stride_d, stride_h, low_d, low_h, columns, variants, GRID)
    for tap in range(taps, table.size):
        table[tap] = 0
    end = grid_reach(images, grid_h, stack, grid_w, out_d, out_h, out_w)
    for channel in parallel_range(channels):
        c = int64(channel)
        spread_images(
            x, c * depth * height * width, channels * depth * height * width, grid, c * stride_d * stride_h * variants * grid_d * grid_h * stack * grid_w,
            images, 1, depth, height, width, stride_d, stride_h, stride_w, low_d, low_h, columns, variants, GRID, KERNEL,
        )
    for part in parallel_range((features + panel - 1) // panel):
        feature = int64(part) * panel
        turn_outputs(
            g, feature * out_d * out_h * out_w, features * out_d * out_h * out_w, out_d * out_h * out_w, min(panel, features - feature), turned, feature * end,
            0, images, out_d, out_h, out_h, out_w, grid_h, stack, grid_w, end, panel, LANES,
        )
    for turn in parallel_range(workers):
        mine = int64(turn) * rows * own_features
        for block in range(turn * tasks // workers, (turn + 1) * tasks // workers):
            first, held = block * rows, min(rows, taps - block * rows)
            for feature in range(0, own_features, panel):
                width_here = min(panel, own_features - feature)
                for tap in range(0, held, TILE_ROWS):
                    into = mine + tap * own_features + feature
                    if width_here > 2 * LANES:
                        spread3(grid, 0, 0, 1, turned, feature * end, panel, table, first + tap, sums, into, own_features, end, 0)
                    elif width_here > LANES:
                        spread2(grid, 0, 0, 1, turned, feature * end, panel, table, first + tap, sums, into, own_features, end, 0)
                    else:
                        spread1(grid, 0, 0, 1, turned, feature * end, panel, table, first + tap, sums, into, own_features, end, 0)
            whole = True
            for tap in range(held):
                for feature in range(features):
                    whole &= isfinite(sums[uintp(mine + tap * own_features + feature)])
            turn_sums(sums, mine, own_features, held, features, out, first, taps, LANES)
            if not whole:
                for element in range(held * features):
                    at = element // held * taps + first + element % held
                    if not isfinite(out[uintp(at)]):
                        out[uintp(at)] = correlate(g, x, at, GEOMETRY)


def weight_lines(g, x, out, given, grid, table, columns, PLACES):
    """out = the products of each feature's g and the grid shifted by each tap: few features and channels a group, many groups."""
    taps = channels * kernel_d * kernel_h * kernel_w
    fill_columns(columns, kernel_w, pad_w, step_w, stride_w, stride_w, low_w, variants, apart, grid_d * grid_h * stack * grid_w)
    fill_taps(table, channels, KERNEL, stride_d, stride_h, low_d, low_h, columns, variants, GRID)
    for turn in parallel_range(workers):
        own, mine = int64(turn) * size, int64(turn) * (given.size // workers)
        for group in range(turn * groups // workers, (turn + 1) * groups // workers):
            for k in range(features * taps):
                out[uintp(group * features * taps + k)] = 0
            for part in range(tasks // groups):
                first = part % blocks * rows
                image = part // blocks * stack
                count = min(stack, images - image)
                lines = min(rows, out_h - first)
                end = grid_reach(count, grid_h, stack, grid_w, out_d, lines, out_w)
                spread_images(
                    x, (image * groups + group) * channels * depth * height * width, groups * channels * depth * height * width, grid, own, count, channels,
                    depth, height, width, stride_d, stride_h, stride_w, low_d, low_h + first, columns, variants, GRID, KERNEL,
                )
                for feature in range(features):
                    base = ((image * groups + group) * features + feature) * out_d * out_h * out_w
                    spread_outputs(
                        g, base, groups * features * out_d * out_h * out_w, given, mine, first, count, out_d, lines, out_h, out_w, grid_h, stack, grid_w, end
                    )
                    for tap in range(0, taps, 3):  # three at a time, so that g is read once for them
                        second, third = min(tap + 1, taps - 1), min(tap + 2, taps - 1)
                        s0, s1, s2 = own + table[tap], own + table[second], own + table[third]
                        t0, t1, t2 = g.dtype.type(0), g.dtype.type(0), g.dtype.type(0)
                        for k in range(end):
                            value = given[uintp(mine + k)]
                            t0 += value * grid[uintp(s0 + k)]
                            t1 += value * grid[uintp(s1 + k)]
                            t2 += value * grid[uintp(s2 + k)]
                        base = (group * features + feature) * taps
                        out[uintp(base + tap)] += t0
                        out[uintp(base + second)] += t1 if second > tap else g.dtype.type(0)
                        out[uintp(base + third)] += t2 if third > second else g.dtype.type(0)
            for element in range(group * features * taps, (group + 1) * features * taps):
                if not isfinite(out[uintp(element)]):
                    out[uintp(element)] = correlate(g, x, element, GEOMETRY)


def turn_weight(weight, turned, groups, features, channels, taps):
    """turned (groups, channels, features, taps) = weight (groups, features, channels, taps), the taps from the last to the first."""
    for row in parallel_range(groups * features):
        group, feature = int64(row) // features, int64(row) % features
        for channel in range(channels):
            target, last = ((group * channels + channel) * features + feature) * taps, (int64(row) * channels + channel + 1) * taps - 1
            for tap in range(taps):
                turned[uintp(target + tap)] = weight[uintp(last - tap)]


def turned_launcher(out: Layout, x: tuple, weight: tuple, result: tuple, parameters: tuple, work: int) -> Callable:
    """The input's gradient, of stride 1, by the forward kernel: one text to compile. It convolves g with the weight turned, where borders are as wide as taps
    reach over."""
    stride, padding, dilation, groups = parameters
    shape = (x[1], weight[0] // groups, *weight[2:])
    borders = tuple(step * (taps - 1) - pad for taps, pad, step in zip(weight[2:], padding, dilation))
    numbers, turned = geometry(result, shape, x, stride, borders, dilation, groups), (prod(weight), out.storage)
    sizes = groups, weight[0] // groups, weight[1], prod(weight[2:])
    array, make = f"{out.storage.name}[]", out.device.backend.scratch
    turn = bind.launcher(out.device, "turn_weight", specialized(turn_weight), f"{array}, {array}, int64, int64, int64, int64", out.dtype, 0)
    run, shared_by = _grid_kernel("convolution", out, numbers, shape, (stride, borders, dilation, groups), work)

    def launch(given: object, weight: object, result: object) -> None:
        scratch, constants = shared_by(threads.get_num_threads())
        straight, *others = make((turned, *scratch))
        turn(weight, straight, *sizes)
        run(given, straight, result, *others, *constants)

    return launch


def grid_launcher(op: str, out: Layout, numbers: tuple, weight: tuple, parameters: tuple, work: int, finish: Finish | None = None) -> Callable:
    """A launch of op's kernel that makes the scratch memory it needs. `parameters` are (stride, padding, dilation, groups)."""
    run, shared_by = _grid_kernel(op, out, numbers, weight, parameters, work, finish)
    make = out.device.backend.scratch

    def launch(first: object, second: object, result: object, *further: object) -> None:
        scratch, constants = shared_by(threads.get_num_threads())
        run(first, second, result, *make(scratch), *constants, *further)

    return launch


def _grid_kernel(
    op: str, out: Layout, numbers: tuple, weight: tuple, parameters: tuple, work: int, finish: Finish | None = None
) -> tuple[Callable, Callable[[int], tuple]]:
    """The launcher of op's kernel, and a function of the number of threads: the scratch memory that it is given after its three tensors, and the constants
    after that. Each worker has memory of its own, and more workers than threads would not find theirs in the cache; only where workers sum up there are
    always as many."""
    backward, on_weight, storage, index = op == "convolution_input", op == "convolution_weight", out.storage, np.dtype("int64")
    groups, channels, features, lanes = parameters[3], weight[1], weight[0] // parameters[3], tiles.host().lanes(out.storage.itemsize)
    few = (max(channels, features) if on_weight else channels if backward else features) <= _FEW
    tile_rows, taps = 1 if few else tiles.host().rows, prod(weight[1:])
    places, reach = _cut(numbers, backward, on_weight, channels if backward else features)
    whole = on_weight and places["shares"] > 1
    if whole:
        rows = tiles.VECTORS * max(lanes, tile_rows)
        places |= {"rows": rows, "tasks": -(-taps // rows)}
    places["size"] += 2 * tiles.LINE * lanes
    tile_size, elements = lanes * (tiles.LINE if few else tile_rows * tiles.VECTORS), features * prod(weight[2:])
    if places["deep"] < _ALL:
        tile_size *= -(-(channels if backward else features) // tile_rows) * (-(-places["run"] // (tiles.VECTORS * lanes)) + 1)
    columns = weight[-1] + places["variants"], index
    kernel = input_grid if backward else forward_grid if not on_weight else weight_lines if few else weight_whole if whole else weight_grid

    @cache
    def shared_by(threads: int) -> tuple[tuple, tuple]:
        workers = min(_WORKERS, places["tasks"], _WORKERS if on_weight else threads)
        grids = workers if places["shares"] == 1 else 1
        grid, tile = (grids * places["size"], storage), (workers * tile_size, storage)
        if backward:
            packed = groups * _ceil(channels, tile_rows) if places["shares"] == 1 else workers * tile_rows
            scratch = ((packed * elements, storage), grid, tile, (elements, index), columns, (prod(weight[2:]) + prod(parameters[0]) + 1, index))
        elif not on_weight:
            padded = 0 if features % tile_rows == 0 else groups * _ceil(features, tile_rows) * taps
            scratch = ((padded, storage), grid, tile, (taps, index), columns)
        elif few:
            scratch = ((workers * (reach + lanes), storage), grid, (taps, index), columns)
        else:
            sums = workers * (places["rows"] if whole else groups * _ceil(taps, tile_rows)) * _ceil(features, lanes)
            turned = grids * _ceil(features, tiles.VECTORS * lanes) * reach
            scratch = ((turned, storage), (sums, storage), grid, (_ceil(taps, tile_rows), index), columns)
        return scratch, (workers, *[int(places[name]) for name in _PLACES[1:]], *numbers)

    words = {"PLACES": ", ".join(_PLACES), "KERNEL": _KERNEL, "GRID": "grid_d, grid_h, stack, grid_w", "STEPS": _STEPS}
    words |= {"TILE_ROWS": tile_rows, "LANES": lanes, "PACKED": _PACKED, "multiply_grid": "multiply_grid_lines" if few else "multiply_grid"}
    arrays = (*[storage.name] * 3, *(each.name for _, each in shared_by(1)[0]))
    fastmath = build.FAST_REDUCTION if kernel is weight_lines else build.FAST_POINTWISE
    return launcher(op, kernel, out, arrays, len(_PLACES), work, tuple(words.items()), finish, fastmath), shared_by


def _ceil(n: int, step: int) -> int:
    return -(-n // step) * step


def _cut(numbers: tuple, backward: bool, on_weight: bool, outer: int) -> tuple[dict[str, int], int]:
    """The numbers of `_PLACES` by name, and the positions of a grid: how many images and output rows are done at a time.

    The grid holds x, or g if `backward`; `outer` is the number of rows (features, or channels) that meet it. More than one share: all images are on
    one grid, which all workers read.
    """
    named = dict(zip(GEOMETRY, numbers))
    images, groups = named["images"], named["groups"]
    lows, spans, counts, phases, strides = [], [], [], [], [named[f"stride_{letter}"] for letter in "dhw"]
    for axis, letter in zip(("depth", "height", "width"), "dhw"):
        stride, pad, reach = named[f"stride_{letter}"], named[f"pad_{letter}"], (named[f"kernel_{letter}"] - 1) * named[f"step_{letter}"]
        low, high = ((pad - reach) // stride, (stride - 1 + pad) // stride) if backward else (-pad // stride, (reach - pad) // stride)
        lows.append(low)
        spans.append(high - low)
        counts.append(-(-named[axis] // stride) if backward else named[f"out_{letter}"])
        phases.append(1 if backward else stride)
    taps = named["kernel_d"] * named["kernel_h"] * named["kernel_w"] // (prod(strides) if backward else 1)
    small = tiles.host().rows < _FULL and not on_weight
    copies = named["kernel_w"] - phases[2]  # more than there are otherwise
    apart = named["kernel_w"] == 1 or spans[2] * outer * taps > _COPY * counts[2] * copies
    if apart:
        spans[2], phases[2] = 0, named["kernel_w"]
    planes, most = prod(phases) * named["features" if backward else "channels"], (_SMALL if small else _GRID) * (2 if apart else 1)
    line = planes * (counts[2] + spans[2])
    image = line * (counts[0] + spans[0]) * (counts[1] + spans[1])
    rows = counts[1]

    def positions(stack: int) -> int:
        return (((counts[0] - 1) * (counts[1] + spans[1]) + counts[1] - 1) * stack + stack - 1) * (counts[2] + spans[2]) + counts[2]

    if on_weight:
        weights = prod(numbers[2:4]) * named["kernel_d"] * named["kernel_h"] * named["kernel_w"]
        alone = groups == 1 and outer > _FEW and weights >= _LARGE and images * image <= _WHOLE
    else:
        few = images < _TASKS and images * image <= most
        wide = prod(numbers[2:4]) >= _HUGE and images * image <= 2 * most
        alone = groups == 1 and outer >= _MANY and (few or wide)
    stack = images
    if not alone:
        stack = max(1, min(most // image, images * groups // _TASKS, images))
        stack = min(range(stack, 0, -1), key=lambda count: -(-positions(count) // 16) / count)  # the fewest vectors for an image
        if counts[0] == 1 and spans[0] == 0:
            rows = min(rows, max(_ROWS, most // line - spans[1], 1))
            if images * groups < _TASKS and image > _GRID // 8:
                rows = min(rows, -(-counts[1] * images * groups // _TASKS))
            rows = -(-counts[1] // -(-counts[1] // rows))  # blocks of equal height
    shares = max(1, min(_WORKERS, outer // _FEWEST)) if alone else 1
    blocks, sets = -(-counts[1] // rows), -(-images // stack)
    sizes = (counts[0] + spans[0], rows + spans[1], stack, counts[2] + spans[2])
    tasks = groups * sets * blocks * shares
    near, depth, deep = _NEAR if small else 2 * most, planes // prod(phases) * taps, _ALL
    few = planes * prod(sizes) <= near  # else rows meet as much of the grid as stays in the cache, one after the other
    run = prod(sizes) if few else max(1, (_NEAR if small else most) // planes // _RUN) * _RUN
    if small and counts[0] == 1 and outer > _FEW and 2 * depth > 3 * _DEEP:
        deep = -(-depth // -(-depth // _DEEP))
        run = max(1, _NEAR * depth // deep // planes // _RUN) * _RUN
    found = (tasks, shares, blocks, rows, planes * prod(sizes), *lows, phases[2], apart, *sizes, run, deep)
    return dict(zip(_PLACES[1:], found)), prod(sizes)
