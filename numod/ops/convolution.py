"""Convolution over one to three spatial dimensions, and its two gradients. All three are linear in both inputs and each other's gradients.

Shapes: x (N, C, *spatial), weight (O, C / groups, *kernel), g (N, O, *out). On the CPU the patches of a block of output rows are gathered into
a scratch matrix that fits the second-level cache, and BLAS multiplies it; depthwise convolutions and other targets use direct loops.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from math import prod

import numpy as np

from .. import dtypes
from ..device import Layout, blas, tiles
from ..device.layout import layout
from ..kernel import bind, build
from .op import Op, Plan, single_device

_GRID = 1 << 17  # elements of a grid: it stays in the second-level cache
_WORKERS = 8  # grids: one for each turn of the parallel loop
_TASKS = 4  # parts to cut a convolution into at least, so that threads can share it
_LARGE = 1 << 18  # elements of a weight of which not every worker gets sums of its own
_ROWS = 4  # output rows a grid holds at least: fewer would copy its borders too often
_FEW = 2  # rows of a product up to which they are done one by one
_GEOMETRY = (  # what every kernel is told, after its arrays
    "images", "groups", "channels", "features", "depth", "height", "width", "kernel_d", "kernel_h", "kernel_w", "out_d", "out_h", "out_w",
    "stride_d", "stride_h", "stride_w", "pad_d", "pad_h", "pad_w", "step_d", "step_h", "step_w",
)  # fmt: skip

# ---- kernels. `channels` and `features` are those of one group; rows are output rows (out_d * out_h of them), taps a patch's elements


_PLACES = ("workers", "tasks", "blocks", "stack", "rows", "size", "low_d", "low_h", "low_w", "grid_d", "grid_h", "grid_w")  # what a grid's kernel is told beside
_KERNEL = "kernel_d, kernel_h, kernel_w, pad_d, pad_h, pad_w, step_d, step_h, step_w"


def forward_pointwise(x, weight, out, address):
    """out (features, positions) = weight (features, channels) @ x (channels, positions), for each image and group: a kernel of one element."""
    positions = out_d * out_h * out_w
    for task in parallel_range(images * groups):
        place = int64(task)
        at = place * features * positions
        gemm(address, weight, (place % groups) * features * channels, x, place * channels * positions, out, at, features, positions, channels, 0, 0, channels, positions, positions, 0.0)


def forward_grid(x, weight, out, padded, grid, tile, table, PLACES):
    """out = weight (features, taps) @ patches, of the images and output rows that a grid holds at a time."""
    taps = channels * kernel_d * kernel_h * kernel_w
    own_rows = -(-features // TILE_ROWS) * TILE_ROWS
    fill_taps(table, channels, KERNEL, stride_d, stride_h, stride_w, LOWS, GRID, stack)
    for k in range(padded.size):  # features up to a multiple of a tile's
        row = k // taps
        padded[uintp(k)] = weight[uintp((row // own_rows * features + row % own_rows) * taps + k % taps)] if row % own_rows < features else 0
    for turn in parallel_range(workers):
        own = int64(turn) * size
        for task in range(turn * tasks // workers, (turn + 1) * tasks // workers):
            first = task % blocks * rows
            group = task // blocks % groups
            image = task // (blocks * groups) * stack
            count = min(stack, images - image)
            base = (image * groups + group) * channels * depth * height * width
            spread_images(
                x, base, groups * channels * depth * height * width, grid, own, count, channels, depth, height, width, stride_d, stride_h, stride_w,
                low_d, low_h + first, low_w, GRID, KERNEL, stack,
            )
            target = ((image * groups + group) * features * out_d * out_h + first) * out_w
            if padded.size > 0:
                multiply_grid(
                    padded, group * own_rows * taps, features, taps, grid, own, table, 0, out, target,
                    groups * features * out_d * out_h * out_w, out_d * out_h * out_w, out_h * out_w, out_w, 1,
                    count, out_d, min(rows, out_h - first), out_w, GRID, tile, int64(turn) * TILE_SIZE, TILE_ROWS, LANES,
                )
            else:
                multiply_grid(
                    weight, group * features * taps, features, taps, grid, own, table, 0, out, target,
                    groups * features * out_d * out_h * out_w, out_d * out_h * out_w, out_h * out_w, out_w, 1,
                    count, out_d, min(rows, out_h - first), out_w, GRID, tile, int64(turn) * TILE_SIZE, TILE_ROWS, LANES,
                )


def input_grid(g, weight, out, panels, grid, tile, table, order, PLACES):
    """out = patches of g times the weights that lead there. The input's elements fall into phases, each of which some of the taps reach."""
    taps = kernel_d * kernel_h * kernel_w
    own_rows = -(-channels // TILE_ROWS) * TILE_ROWS
    plane = stack * grid_d * grid_h * grid_w
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
            v_w = (r_w + pad_w - tap % kernel_w * step_w) // stride_w - low_w
            for o in range(features):
                table[uintp(features * begin + o * (found - begin) + j - begin)] = o * plane + (v_d * grid_h + v_h) * grid_w + v_w
    order[taps + phases] = found
    for line in parallel_range(groups * own_rows):  # panels (groups, phases, channels, features, taps of the phase)
        group, c = int64(line) // own_rows, int64(line) % own_rows
        for phase in range(phases):
            begin, reached = order[taps + phase], order[taps + phase + 1] - order[taps + phase]
            at = group * own_rows * features * taps + features * (own_rows * begin + c * reached)
            for o in range(features):
                source = ((group * features + o) * channels + c) * taps
                for j in range(reached):
                    panels[uintp(at + o * reached + j)] = weight[uintp(source + order[begin + j])] if c < channels else 0
    for turn in parallel_range(workers):
        own = int64(turn) * size
        for task in range(turn * tasks // workers, (turn + 1) * tasks // workers):
            first = task % blocks * rows
            group = task // blocks % groups
            image = task // (blocks * groups) * stack
            count = min(stack, images - image)
            spread_images(
                g, (image * groups + group) * features * out_d * out_h * out_w, groups * features * out_d * out_h * out_w, grid, own, count, features, out_d, out_h, out_w,
                1, 1, 1, low_d, low_h + first, low_w, GRID, KERNEL, stack,
            )
            for phase in range(phases):
                r_d, r_h, r_w = phase // (stride_h * stride_w), phase // stride_w % stride_h, phase % stride_w
                slabs, columns = (depth - r_d + stride_d - 1) // stride_d, (width - r_w + stride_w - 1) // stride_w
                lines = min(rows, (height - r_h + stride_h - 1) // stride_h - first)
                begin, reached = order[taps + phase], order[taps + phase + 1] - order[taps + phase]
                target = (((image * groups + group) * channels * depth + r_d) * height + r_h + first * stride_h) * width + r_w
                if lines > 0 and slabs > 0 and columns > 0:
                    multiply_grid(
                        panels, group * own_rows * features * taps + features * own_rows * begin, channels, features * reached, grid, own, table, features * begin, out, target,
                        groups * channels * depth * height * width, depth * height * width, stride_d * height * width, stride_h * width, stride_w,
                        count, slabs, lines, columns, GRID, tile, int64(turn) * TILE_SIZE, TILE_ROWS, LANES,
                    )


def weight_grid(g, x, out, turned, sums, grid, table, PLACES):
    """sums (workers, groups, taps, features) += patches (taps, positions) @ g (positions, features); out is the sum over workers, turned."""
    taps = channels * kernel_d * kernel_h * kernel_w
    own_taps, own_features = -(-taps // TILE_ROWS) * TILE_ROWS, -(-features // LANES) * LANES
    panel = 2 * LANES if own_features // LANES % 3 == 1 else 3 * LANES  # a last panel of one vector would be slow
    fill_taps(table, channels, KERNEL, stride_d, stride_h, stride_w, LOWS, GRID, stack)
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
            end = grid_reach(count, grid_d, grid_h, grid_w, out_d, lines, out_w)
            spread_images(
                x, (image * groups + group) * channels * depth * height * width, groups * channels * depth * height * width, grid, own, count, channels, depth, height, width,
                stride_d, stride_h, stride_w, low_d, low_h + first, low_w, GRID, KERNEL, stack,
            )
            turn_outputs(
                g, (image * groups + group) * features * out_d * out_h * out_w, groups * features * out_d * out_h * out_w, out_d * out_h * out_w, features, turned, panels,
                first, out_d, lines, out_h, out_w, GRID, end, panel, LANES,
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
                out[uintp((group * features + feature) * taps + t)] = total


def weight_lines(g, x, out, given, grid, table, PLACES):
    """out = the products of each feature's g and the grid shifted by each tap: few features and channels a group, many groups."""
    taps = channels * kernel_d * kernel_h * kernel_w
    fill_taps(table, channels, KERNEL, stride_d, stride_h, stride_w, LOWS, GRID, stack)
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
                end = grid_reach(count, grid_d, grid_h, grid_w, out_d, lines, out_w)
                spread_images(
                    x, (image * groups + group) * channels * depth * height * width, groups * channels * depth * height * width, grid, own, count, channels, depth, height, width,
                    stride_d, stride_h, stride_w, low_d, low_h + first, low_w, GRID, KERNEL, stack,
                )
                for feature in range(features):
                    base = ((image * groups + group) * features + feature) * out_d * out_h * out_w
                    spread_outputs(g, base, groups * features * out_d * out_h * out_w, given, mine, first, out_d, lines, out_h, out_w, GRID, end)
                    for tap in range(taps):
                        start, total = own + table[tap], g[0] * 0
                        for k in range(end):
                            total += given[uintp(mine + k)] * grid[uintp(start + k)]
                        out[uintp((group * features + feature) * taps + tap)] += total


def forward_direct(x, weight, out):
    """A row of the output at a time: each tap adds a stretch of an input row times its weight."""
    for task in parallel_range(images * groups * features * out_d * out_h):
        place = int64(task)
        oh = place % out_h
        od = (place // out_h) % out_d
        feature = place // (out_h * out_d)
        image_group = feature // features
        base = place * out_w
        for ow in range(out_w):
            out[uintp(base + ow)] = 0
        for c in range(channels):
            for a in range(kernel_d):
                d = od * stride_d - pad_d + a * step_d
                for b in range(kernel_h):
                    h = oh * stride_h - pad_h + b * step_h
                    if 0 <= d < depth and 0 <= h < height:
                        source = (((image_group * channels + c) * depth + d) * height + h) * width
                        tap = (((feature % (groups * features)) * channels + c) * kernel_d + a) * kernel_h + b
                        for k in range(kernel_w):
                            shift = k * step_w - pad_w
                            low = max(0, -(shift // stride_w))
                            high = min(out_w, (width - 1 - shift) // stride_w + 1)
                            value = weight[uintp(tap * kernel_w + k)]
                            if stride_w == 1:
                                for ow in range(low, high):
                                    out[uintp(base + ow)] += value * x[uintp(source + shift + ow)]
                            else:
                                for ow in range(low, high):
                                    out[uintp(base + ow)] += value * x[uintp(source + shift + ow * stride_w)]


def input_direct(g, weight, out):
    """A plane (image, channel) of the input at a time: each tap adds rows of g times its weight."""
    for task in parallel_range(images * groups * channels):
        place = int64(task)
        group = place // channels
        base = place * depth * height * width
        for k in range(depth * height * width):
            out[uintp(base + k)] = 0
        for o in range(features):
            for row in range(out_d * out_h):
                source = ((group * features + o) * out_d * out_h + row) * out_w
                for a in range(kernel_d):
                    d = (row // out_h) * stride_d - pad_d + a * step_d
                    for b in range(kernel_h):
                        h = (row % out_h) * stride_h - pad_h + b * step_h
                        if 0 <= d < depth and 0 <= h < height:
                            target = base + (d * height + h) * width
                            tap = ((((group % groups) * features + o) * channels + place % channels) * kernel_d + a) * kernel_h + b
                            for k in range(kernel_w):
                                shift = k * step_w - pad_w
                                low = max(0, -(shift // stride_w))
                                high = min(out_w, (width - 1 - shift) // stride_w + 1)
                                value = weight[uintp(tap * kernel_w + k)]
                                if stride_w == 1:
                                    for ow in range(low, high):
                                        out[uintp(target + shift + ow)] += value * g[uintp(source + ow)]
                                else:
                                    for ow in range(low, high):
                                        out[uintp(target + shift + ow * stride_w)] += value * g[uintp(source + ow)]


def weight_direct(g, x, out):
    """An element of the weight at a time: the products of g and the input shifted by its tap."""
    for task in parallel_range(groups * features * channels * kernel_d * kernel_h * kernel_w):
        place = int64(task)
        k = place % kernel_w
        b = (place // kernel_w) % kernel_h
        a = (place // (kernel_w * kernel_h)) % kernel_d
        channel = (place // (kernel_w * kernel_h * kernel_d)) % channels
        feature = place // (kernel_w * kernel_h * kernel_d * channels)
        shift = k * step_w - pad_w
        low = max(0, -(shift // stride_w))
        high = min(out_w, (width - 1 - shift) // stride_w + 1)
        total = g[0] * 0
        for image in range(images):
            for row in range(out_d * out_h):
                d = (row // out_h) * stride_d - pad_d + a * step_d
                h = (row % out_h) * stride_h - pad_h + b * step_h
                if 0 <= d < depth and 0 <= h < height:
                    source = (((image * groups + feature // features) * channels + channel) * depth + d) * height * width + h * width + shift
                    given = ((image * groups * features + feature) * out_d * out_h + row) * out_w
                    if stride_w == 1:
                        for ow in range(low, high):
                            total += g[uintp(given + ow)] * x[uintp(source + ow)]
                    else:
                        for ow in range(low, high):
                            total += g[uintp(given + ow)] * x[uintp(source + ow * stride_w)]
        out[uintp(place)] = total


# ---- ops


class Convolution(Op):
    """Base: two dense inputs. Parameters (stride, padding, dilation, groups, shape): tuples, and the result's shape where it does not follow."""

    parameters = ("stride", "padding", "dilation", "groups", "shape")

    def __init__(self, name: str, inputs: tuple[str, str], grid: Callable, direct: Callable) -> None:
        super().__init__(name)
        self.inputs, self.grid, self.direct = inputs, grid, direct

    def shapes(self, first: Layout, second: Layout, parameters: tuple) -> tuple[tuple, tuple, tuple]:
        """Shapes of x, weight and the convolution's result, one of which is this op's."""
        stride, padding, dilation, groups, shape = parameters
        given = {self.inputs[0]: tuple(first.shape), self.inputs[1]: tuple(second.shape)}
        x, weight = given.get("x", shape), given.get("weight", shape)
        return x, weight, given.get("given") or (x[0], weight[0], *output_sizes(x[2:], weight[2:], stride, padding, dilation))

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        first, second = arguments
        if first.dtype is not second.dtype:
            raise RuntimeError(f"Input type ({first.dtype}) and weight type ({second.dtype}) should be the same; convert one with .to()")
        if first.dtype is dtypes.bool_:
            raise NotImplementedError(f'"{self.name}" not implemented for \'Bool\'; convert first, for example with .to(numod.float32)')
        x, weight, result = self.shapes(first, second, parameters)
        out = layout({"convolution": result, "convolution_input": x, "convolution_weight": weight}[self.name], first.dtype, single_device(self.name, [first, second]))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        work = prod(result) * prod(weight[1:]) // 8
        numbers = geometry(x, weight, result, *parameters[:4])
        if out.device.type != "cpu" or not out.dtype.is_floating_point or 0 in result:
            return Plan(out, _launcher(self, self.direct, out, (), 3, (), work), numbers)
        if self.grid is forward_grid and _is_pointwise(weight, *parameters[:3]) and blas.gemm_address(out.storage):
            run = _launcher(self, forward_pointwise, out, (), 3, ("address",), work)
            return Plan(out, run, (blas.gemm_address(out.storage), *numbers))
        return Plan(out, self._launch_grid(out, numbers, x, weight, result, parameters, work))

    def _launch_grid(self, out: Layout, numbers: tuple, x: tuple, weight: tuple, result: tuple, parameters: tuple, work: int) -> Callable:
        """Scratch memory for each worker, and a launch that makes it."""
        groups, channels, features, lanes = parameters[3], weight[1], weight[0] // parameters[3], tiles.host().lanes(out.storage.itemsize)
        backward = self.grid is input_grid
        few = (channels if backward else features) <= _FEW if self.grid is not weight_grid else max(channels, features) <= _FEW
        large = self.grid is weight_grid and not few and weight[0] * prod(weight[1:]) > _LARGE
        places, reach = _cut(numbers, backward, 1 if large else _TASKS)
        workers, size, tile_rows = places[0], places[5] + 2 * tiles.LINE * lanes, 1 if few else tiles.host().rows
        places = (*places[:5], size, *places[6:])
        taps, ceil = prod(weight[1:]), lambda n, step: -(-n // step) * step  # noqa: E731
        storage, index, phases = out.storage, np.dtype("int64"), prod(parameters[0])
        grid, tile = (workers * size, storage), (workers * (tiles.LINE if few else tile_rows * tiles.VECTORS) * lanes, storage)
        if backward:
            kernel = input_grid
            scratch = ((groups * ceil(channels, tile_rows) * features * prod(weight[2:]), storage), grid, tile, (features * prod(weight[2:]), index), (prod(weight[2:]) + phases + 1, index))
        elif self.grid is forward_grid:
            kernel = forward_grid
            scratch = ((0 if features % tile_rows == 0 else groups * ceil(features, tile_rows) * taps, storage), grid, tile, (taps, index))
        elif few:
            kernel, scratch = weight_lines, ((workers * (reach + lanes), storage), grid, (taps, index))
        else:
            turned = workers * ceil(features, tiles.VECTORS * lanes) * reach
            kernel, scratch = weight_grid, ((turned, storage), (workers * groups * ceil(taps, tile_rows) * ceil(features, lanes), storage), grid, (ceil(taps, tile_rows), index))
        run = _launcher(self, kernel, out, tuple(f"{each.name}[]" for _, each in scratch), 3, _PLACES, work, few)
        make = out.device.backend.scratch

        def launch(first: object, second: object, result: object) -> None:
            run(first, second, result, *make(scratch), *places, *numbers)

        return launch


def _is_pointwise(weight: tuple, stride: tuple, padding: tuple, dilation: tuple) -> bool:
    return prod(weight[2:]) == 1 and prod(stride) == 1 and not any(padding)


def _cut(numbers: tuple, backward: bool, parts: int) -> tuple[tuple[int, ...], int]:
    """The numbers of `_PLACES`, and the positions of a grid: how many images and output rows are done at a time, in at least `parts` parts.

    The grid holds x, or g if `backward`. For one part it holds as many images as it can: every part goes through the whole weight.
    """
    named = dict(zip(_GEOMETRY, numbers))
    images, groups = named["images"], named["groups"]
    lows, spans, counts, phases = [], [], [], 1
    for axis, letter in zip(("depth", "height", "width"), "dhw"):
        stride, pad, reach = named[f"stride_{letter}"], named[f"pad_{letter}"], (named[f"kernel_{letter}"] - 1) * named[f"step_{letter}"]
        low, high = ((pad - reach) // stride, (stride - 1 + pad) // stride) if backward else (-pad // stride, (reach - pad) // stride)
        lows.append(low)
        spans.append(high - low)
        counts.append(-(-named[axis] // stride) if backward else named[f"out_{letter}"])
        phases *= 1 if backward else stride
    planes = phases * named["features" if backward else "channels"]
    line = planes * (counts[2] + spans[2])
    image = line * (counts[0] + spans[0]) * (counts[1] + spans[1])
    rows, stack = counts[1], 1
    plane = [n + span for n, span in zip(counts, spans)]

    def positions(count: int) -> int:
        return (((count - 1) * plane[0] + counts[0] - 1) * plane[1] + counts[1] - 1) * plane[2] + counts[2]

    most = max(1, min(_GRID // image, images * groups // parts, images))
    stack = most if parts == 1 else min(range(most, 0, -1), key=lambda count: -(-positions(count) // 16) / count)  # the fewest vectors for an image
    if counts[0] == 1 and spans[0] == 0:
        rows = min(rows, max(_ROWS, _GRID // line - spans[1], 1))
        if images * groups < parts and image > _GRID // 8:
            rows = min(rows, -(-counts[1] * images * groups // parts))
    blocks, sets = -(-counts[1] // rows), -(-images // stack)
    sizes = (counts[0] + spans[0], rows + spans[1], counts[2] + spans[2])
    tasks = groups * sets * blocks
    return (min(_WORKERS, tasks) if parts > 1 else 1, tasks, blocks, stack, rows, stack * planes * prod(sizes), *lows, *sizes), stack * prod(sizes)


def _launcher(op: Op, kernel: Callable, out: Layout, scratch: tuple[str, ...], arrays: int, numbers: tuple, work: int, few: bool = False) -> Callable:
    signature = ", ".join([*[f"{out.storage.name}[]"] * arrays, *scratch, *["int64"] * (len(numbers) + len(_GEOMETRY))])
    lanes = tiles.host().lanes(out.storage.itemsize) if scratch else 0
    return bind.launcher(out.device, f"{op.name}_{kernel.__name__}", _source(kernel, lanes, few), signature, out.dtype, work, build.FAST_REDUCTION)


@cache
def _source(kernel: Callable, lanes: int, few: bool) -> str:
    """The kernel's text with the geometry's names as its last arguments, the names it passes on together, and the tile's sizes as numbers."""
    text = re.sub(r"\bPLACES\b", ", ".join(_PLACES), bind.source_of(kernel)).replace("):", f", {', '.join(_GEOMETRY)}):", 1)
    if not lanes:
        return text
    rows = 1 if few else tiles.host().rows
    names = {"KERNEL": _KERNEL, "LOWS": "low_d, low_h, low_w", "GRID": "grid_d, grid_h, grid_w", "TILE_ROWS": rows, "LANES": lanes}
    names["TILE_SIZE"] = lanes * (tiles.LINE if few else tiles.VECTORS * rows)
    text = re.sub(rf"\b({'|'.join(names)})\b", lambda found: str(names[found[1]]), text)
    return text.replace("multiply_grid(", "multiply_grid_lines(") if few else text


def geometry(x: tuple, weight: tuple, result: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int) -> tuple[int, ...]:
    """The numbers of `_GEOMETRY`; missing spatial dimensions have size and stride 1."""

    def three(values: tuple, filler: int) -> tuple:
        return (filler,) * (3 - len(values)) + tuple(values)

    sizes = (*three(x[2:], 1), *three(weight[2:], 1), *three(result[2:], 1))
    return (x[0], groups, weight[1], weight[0] // groups, *sizes, *three(stride, 1), *three(padding, 0), *three(dilation, 1))


def output_sizes(sizes: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple) -> tuple[int, ...]:
    """Spatial sizes of a convolution's result."""
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation))


convolution = Convolution("convolution", ("x", "weight"), forward_grid, forward_direct)
convolution_input = Convolution("convolution_input", ("given", "weight"), input_grid, input_direct)
convolution_weight = Convolution("convolution_weight", ("given", "x"), weight_grid, weight_direct)


def _gradient(op: Convolution, *order: str) -> Callable:
    """The gradient of a bilinear op is the op that takes the other input: `order` says in which place each stands; its result has the input's shape."""

    def gradient(**named: object) -> object:
        stride, padding, dilation, groups = (named[name] for name in Convolution.parameters[:4])
        return op.apply(tuple(named[name].contiguous() for name in order), (stride, padding, dilation, groups, tuple(named["shape_of"].shape)))

    asked = (*order, *Convolution.parameters[:4], "layout")
    function = lambda *values: gradient(**dict(zip((*asked[:-1], "shape_of"), values)))  # noqa: E731
    function.asks_for = asked
    return function


convolution.gradients = {"x": _gradient(convolution_input, "g", "weight"), "weight": _gradient(convolution_weight, "g", "x")}
convolution_input.gradients = {"given": _gradient(convolution, "g", "weight"), "weight": _gradient(convolution_weight, "given", "g")}
convolution_weight.gradients = {"given": _gradient(convolution, "x", "g"), "x": _gradient(convolution_input, "given", "g")}
