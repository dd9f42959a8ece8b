"""Convolution over one to three spatial dimensions, and its two gradients. All three are linear in both inputs and each other's gradients.

Shapes: x (N, C, *spatial), weight (O, C / groups, *kernel), g (N, O, *out). On the CPU the patches of a block of output rows are gathered into
a scratch matrix that fits the second-level cache, and BLAS multiplies it; depthwise convolutions and other targets use direct loops.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from math import prod

from .. import dtypes
from ..device import Layout, blas
from ..device.layout import layout
from ..kernel import bind, build
from .op import Op, Plan, single_device

_BLOCK = 1 << 17  # elements of a scratch matrix
_WORKERS = 8  # scratch matrices: one for each turn of the parallel loop
_DIRECT = 64  # multiply-adds per output and group up to which direct loops beat gathering
_GEOMETRY = (  # what every kernel is told, after its arrays
    "images", "groups", "channels", "features", "depth", "height", "width", "kernel_d", "kernel_h", "kernel_w", "out_d", "out_h", "out_w",
    "stride_d", "stride_h", "stride_w", "pad_d", "pad_h", "pad_w", "step_d", "step_h", "step_w",
)  # fmt: skip

# ---- kernels. `channels` and `features` are those of one group; rows are output rows (out_d * out_h of them), taps a patch's elements


def forward_blocks(x, weight, out, scratch, workers, rows, blocks, taps, address):
    """out (features, positions of a block) = weight (features, taps) @ patches (taps, positions)."""
    for turn in parallel_range(workers):
        own = int64(turn) * taps * rows * out_w
        for task in range(int64(turn), images * groups * blocks, workers):
            place = task // blocks
            first = (task % blocks) * rows
            last = min(first + rows, out_d * out_h)
            count = (last - first) * out_w
            gather_patches(x, place * channels * depth * height * width, scratch, own, first, last, GEOMETRY)
            at = place * features * out_d * out_h * out_w + first * out_w
            gemm(address, weight, (place % groups) * features * taps, scratch, own, out, at, features, count, taps, 0, 0, taps, count, out_d * out_h * out_w, 0.0)


def input_blocks(g, weight, out, scratch, workers, rows, blocks, taps, address):
    """out (channels, input) = patches of weight^T (taps, features) @ g (features, positions of a block), each added where it came from."""
    for turn in parallel_range(workers):
        own = int64(turn) * taps * rows * out_w
        for place in range(int64(turn), images * groups, workers):
            base = place * channels * depth * height * width
            for k in range(channels * depth * height * width):
                out[uintp(base + k)] = 0
            for block in range(blocks):
                first = block * rows
                last = min(first + rows, out_d * out_h)
                count = (last - first) * out_w
                at = place * features * out_d * out_h * out_w + first * out_w
                gemm(address, weight, (place % groups) * features * taps, g, at, scratch, own, taps, count, features, 1, 0, taps, out_d * out_h * out_w, count, 0.0)
                scatter_patches(out, base, scratch, own, first, last, GEOMETRY)


def weight_blocks(g, x, out, scratch, partial, workers, rows, blocks, taps, address):
    """partial (workers, features of all groups, taps) += g (features, positions of a block) @ patches^T; the sum over workers is out."""
    for turn in parallel_range(workers):
        own = int64(turn) * taps * rows * out_w
        mine = int64(turn) * groups * features * taps
        for k in range(groups * features * taps):
            partial[uintp(mine + k)] = 0
        for task in range(int64(turn), images * groups * blocks, workers):
            place = task // blocks
            first = (task % blocks) * rows
            last = min(first + rows, out_d * out_h)
            count = (last - first) * out_w
            gather_patches(x, place * channels * depth * height * width, scratch, own, first, last, GEOMETRY)
            at = place * features * out_d * out_h * out_w + first * out_w
            into = mine + (place % groups) * features * taps
            gemm(address, g, at, scratch, own, partial, into, features, taps, count, 0, 1, out_d * out_h * out_w, count, taps, 1.0)
    for k in range(groups * features * taps):
        total = partial[uintp(k)]
        for turn in range(1, workers):
            total += partial[uintp(turn * groups * features * taps + k)]
        out[uintp(k)] = total


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

    def __init__(self, name: str, inputs: tuple[str, str], blocks: Callable, direct: Callable) -> None:
        super().__init__(name)
        self.inputs, self.blocks, self.direct = inputs, blocks, direct

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
        taps, features = prod(weight[1:]), weight[0] // parameters[3]
        address = blas.gemm_address(out.storage) if out.device.type == "cpu" else 0
        if not address or (weight[1] == 1 and taps * features <= _DIRECT) or 0 in result:
            return Plan(out, _launcher(self, self.direct, out, 3, (), work), numbers)
        return Plan(out, self._launch_blocks(out, numbers, x, result, taps, features * parameters[3], address, work))

    def _launch_blocks(self, out: Layout, numbers: tuple, x: tuple, result: tuple, taps: int, features: int, address: int, work: int) -> Callable:
        """Scratch matrices of some output rows each, and a launch that makes them."""
        width, lines = result[-1], prod(result[2:-1])
        rows = max(1, min(lines, _BLOCK // (taps * width)))
        blocks = -(-lines // rows)
        tasks = x[0] * numbers[1] * (1 if self.blocks is input_blocks else blocks)
        workers = min(_WORKERS if self.blocks is not weight_blocks else max(1, min(_WORKERS, (1 << 20) // (features * taps))), tasks)
        scratch = workers * taps * rows * width
        sizes = (scratch, workers * features * taps) if self.blocks is weight_blocks else (scratch,)
        run = _launcher(self, self.blocks, out, 3 + len(sizes), ("workers", "rows", "blocks", "taps", "address"), work)
        empty, storage = out.device.empty, out.storage

        def launch(first: object, second: object, result: object) -> None:
            blas.prepare(1)
            run(first, second, result, *[empty(size, storage) for size in sizes], workers, rows, blocks, taps, address, *numbers)

        return launch


def _launcher(op: Op, kernel: Callable, out: Layout, arrays: int, numbers: tuple, work: int) -> Callable:
    signature = ", ".join([f"{out.storage.name}[]"] * arrays + ["int64"] * (len(numbers) + len(_GEOMETRY)))
    return bind.launcher(out.device, f"{op.name}_{kernel.__name__}", _source(kernel), signature, out.dtype, work, build.FAST_REDUCTION)


@cache
def _source(kernel: Callable) -> str:
    """The kernel's text with the geometry's names as its last arguments, and where it passes them on."""
    names = ", ".join(_GEOMETRY)
    return re.sub(r"\bGEOMETRY\b", names, bind.source_of(kernel)).replace("):", f", {names}):", 1)


def geometry(x: tuple, weight: tuple, result: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int) -> tuple[int, ...]:
    """The numbers of `_GEOMETRY`; missing spatial dimensions have size and stride 1."""

    def three(values: tuple, filler: int) -> tuple:
        return (filler,) * (3 - len(values)) + tuple(values)

    sizes = (*three(x[2:], 1), *three(weight[2:], 1), *three(result[2:], 1))
    return (x[0], groups, weight[1], weight[0] // groups, *sizes, *three(stride, 1), *three(padding, 0), *three(dilation, 1))


def output_sizes(sizes: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple) -> tuple[int, ...]:
    """Spatial sizes of a convolution's result."""
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation))


convolution = Convolution("convolution", ("x", "weight"), forward_blocks, forward_direct)
convolution_input = Convolution("convolution_input", ("given", "weight"), input_blocks, input_direct)
convolution_weight = Convolution("convolution_weight", ("given", "x"), weight_blocks, weight_direct)


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
