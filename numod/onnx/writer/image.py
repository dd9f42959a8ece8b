"""Pooling, interpolation, unfold and fold, and grid_sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ... import dtypes
from ..symbols import Call, Size, product
from .graph import Unsupported
from .products import end_padding
from .rules import rule

if TYPE_CHECKING:
    from ...graph.ir.program import Value
    from .translate import Translation


# ---- pooling


class _Pool:
    """What all pools share: the input as (N, C, *spatial), and the result in the shape of the step's."""

    def __init__(self, translation: Translation, call: Call) -> None:
        self.translation, self.graph = translation, translation.graph
        self.x, self.out = call.inputs[0], call.results[0]
        self.kernel, self.stride, self.padding, self.dilation, self.sizes = call.attributes[:5]
        self.rank = len(self.kernel)
        self.shape, self.result_shape = translation.shape(self.x), translation.shape(self.out)
        lead = self.shape[: -self.rank]
        spatial = self.shape[-self.rank :]
        self.spatial = spatial
        # (N, C) where there are two leading dimensions; else all of them are channels of one image, or images of one
        self.batched = self.shape if len(lead) == 2 else (product(lead), 1, *spatial)
        self.end_padding = [
            end_padding(*window)
            for window in zip(self.sizes, spatial, self.kernel, self.stride, self.padding, self.dilation)
        ]

    def input(self) -> str:
        """The input as (N, C, *spatial)."""
        return self.graph.reshape(self.translation.name(self.x), self.shape, self.batched)

    def input_reduced_by(self, operator: str) -> str:
        """The input, after a reduction of the axes that one window covers if their sizes are dynamic."""
        whole = []
        for k in range(self.rank):
            if not any(isinstance(number, Size) for number in (self.kernel[k], self.stride[k])):
                continue
            if self.kernel[k] != self.spatial[k] or self.sizes[k] != 1 or self.padding[k]:
                raise Unsupported("windows that divide a dynamic size; export a fixed size")
            whole.append(k)
        one = {
            name: tuple([neutral if k in whole else number for k, number in enumerate(getattr(self, name))])
            for name, neutral in (("kernel", 1), ("stride", 1), ("dilation", 1), ("end_padding", 0))
        }
        self.__dict__.update(one)
        return self.graph.reduce(operator, self.input(), [k + 2 for k in whole])

    def result(self, name: str) -> str:
        """A result as the step's."""
        return self.graph.reshape(name, (*self.batched[:2], *self.result_shape[-self.rank :]), self.result_shape)

    @property
    def is_adaptive(self) -> bool:
        """Whether windows divide the input."""
        return 0 in self.stride

    def windows(self, k: int) -> list[tuple[int, int]]:
        """The (start, stop) of adaptive windows along a dimension."""
        size, count = self.spatial[k], self.sizes[k]
        if isinstance(size, Size) or isinstance(count, Size):
            raise Unsupported("adaptive pooling of a dynamic size to more than one element; export a fixed size")
        return [(o * size // count, -(-(o + 1) * size // count)) for o in range(count)]


@rule("max_pool_values", "max_pool")
def max_pool(translation: Translation, call: Call) -> tuple:
    """MaxPool; adaptive windows by maxima of slices."""
    pool, graph = _Pool(translation, call), translation.graph
    wants_indices = len(call.results) > 1 and call.results[1] in translation.users
    wants_indices |= len(call.results) > 1 and call.results[1] in translation._results
    if pool.is_adaptive:
        if wants_indices:
            raise Unsupported("indices of adaptive max pooling; use max_pool with a kernel size")
        return (pool.result(_adaptive_max(pool)),)
    if wants_indices and any(isinstance(number, Size) for number in pool.kernel):
        raise Unsupported("indices of windows that cover a dynamic size; use max() with a dimension")
    dtype = translation.dtype(pool.x)
    x = pool.input_reduced_by("ReduceMax")
    narrow = dtype.kind == "f" or dtype in (dtypes.int8, dtypes.uint8)
    x = x if narrow else graph.cast(x, dtypes.float64)
    outputs = graph.node(
        "MaxPool", x, outputs=2, kernel_shape=list(pool.kernel), strides=list(pool.stride),
        pads=[*pool.padding, *pool.end_padding], dilations=list(pool.dilation),
    )  # fmt: skip
    values = outputs[0] if narrow else graph.cast(outputs[0], dtype)
    if not wants_indices:  # one output only
        graph.nodes[-1 if narrow else -2].outputs = outputs[:1]
        return (pool.result(values),)
    plane = graph.number(product(pool.spatial), dtypes.int64)
    return pool.result(values), pool.result(graph.node("Mod", outputs[1], plane))


def _adaptive_max(pool: _Pool) -> str:
    graph, name = pool.graph, pool.input()
    for k in range(pool.rank):
        dim = k + 2
        if pool.sizes[k] == 1:
            name = graph.reduce("ReduceMax", name, [dim])
            continue
        parts = [graph.reduce("ReduceMax", graph.slice(name, dim, *window), [dim]) for window in pool.windows(k)]
        name = graph.node("Concat", *parts, axis=dim)
    return name


@rule("average_pool")
def average_pool(translation: Translation, call: Call) -> str:
    """AveragePool; adaptive windows by products with matrices of weights."""
    pool, graph = _Pool(translation, call), translation.graph
    counts_borders, divisor = call.attributes[5:]
    if translation.dtype(pool.x).kind != "f":
        raise Unsupported(f"AveragePool does not take {translation.dtype(pool.x)}; convert to float32")
    if pool.is_adaptive:
        return pool.result(_adaptive_average(pool))
    if tuple(pool.kernel) == tuple(pool.spatial) and all(size == 1 for size in pool.sizes) and not any(pool.padding):
        if not divisor:
            return pool.result(graph.reduce("ReduceMean", pool.input(), range(2, 2 + pool.rank)))
    if any(d != 1 for d in pool.dilation) and graph.opset < 19:
        raise Unsupported("average pooling with dilation needs opset_version=19")
    x, include = pool.input_reduced_by("ReduceMean"), bool(counts_borders)
    pads = [*pool.padding, *pool.end_padding]
    if divisor:
        include = True  # the kernel's size divides all sums
    elif include and any(end > p for end, p in zip(pool.end_padding, pool.padding)):
        # padding counts, but what ceil_mode adds beyond does not: pad first
        borders = [0, 0, *pool.padding] * 2
        x = graph.node("Pad", x, graph.constant(borders))
        pads = [*[0] * pool.rank, *[end - p for end, p in zip(pool.end_padding, pool.padding)]]
        pads, include = [max(pad, 0) for pad in pads], False
    name = graph.node(
        "AveragePool", x, kernel_shape=list(pool.kernel), strides=list(pool.stride), pads=pads,
        count_include_pad=int(include), dilations=list(pool.dilation) if graph.opset >= 19 else None,
    )  # fmt: skip
    if divisor:
        if whole := [size for size in call.attributes[0] if isinstance(size, Size)]:
            raise Unsupported(f"a divisor with a window of the dynamic size {whole[0]}; divide the sum")
        factor = product(pool.kernel) / divisor
        name = graph.node("Mul", name, graph.constant(factor, translation.dtype(pool.x)))
    return pool.result(name)


def _adaptive_average(pool: _Pool) -> str:
    graph, name = pool.graph, pool.input()
    if all(size == 1 for size in pool.sizes):
        return graph.reduce("ReduceMean", name, range(2, 2 + pool.rank))
    dtype = pool.translation.dtype(pool.x)
    for k in range(pool.rank):
        windows = pool.windows(k)
        matrix = np.zeros((pool.spatial[k], len(windows)))
        for o, (start, stop) in enumerate(windows):
            matrix[start:stop, o] = 1 / (stop - start)
        name = _product_along(pool.translation, name, graph.constant(matrix, dtype), k + 2, 2 + pool.rank)
    return name


def _product_along(translation: Translation, name: str, matrix: str, dim: int, rank: int) -> str:
    """x times a matrix (n, m) along a dimension of n elements."""
    graph, order = translation.graph, [*range(rank)]
    order[dim], order[-1] = order[-1], order[dim]
    return graph.transpose(graph.node("MatMul", graph.transpose(name, order), matrix), order)


# ---- interpolation


@rule("resample")
def resample(translation: Translation, call: Call) -> str:
    """Resize where the weights are those of linear or cubic interpolation, else a product with their matrix."""
    graph, (x, index, weight) = translation.graph, call.inputs
    dim, size, back = call.attributes
    indices, weights = translation.constant_of(index), translation.constant_of(weight)
    n = translation.shape(x)[dim]
    if (indices is None or weights is None or isinstance(n, Size)) and not back:
        return _weighted_sum(translation, call)
    if indices is None or weights is None or isinstance(n, Size):
        raise Unsupported("the gradient of an interpolation of a dynamic size; export it with a fixed size")
    matrix = np.zeros((indices.shape[0], size if back else n))
    np.add.at(matrix, (np.arange(indices.shape[0])[:, None], indices), weights.astype(np.float64))
    mode = None if back or graph.opset < 18 or translation.rank(x) < 3 else _mode(matrix)
    if mode is None:
        matrix = matrix if back else matrix.T
        constant = graph.constant(matrix, translation.dtype(x))
        return _product_along(translation, translation.name(x), constant, dim, translation.rank(x))
    axes, sizes = [dim], [size]
    last = call
    following = translation.only_user(call.results[0])
    while following is not None and following.op.name == "resample" and _mode_of(translation, following) == mode:
        axes.append(following.attributes[0])
        sizes.append(following.attributes[1])
        translation.done.add(following.number)
        last, following = following, translation.only_user(following.results[0])
    order = np.argsort(axes)
    name = graph.node(
        "Resize", translation.name(x), "", "", graph.constant([sizes[k] for k in order]), axes=[axes[k] for k in order],
        **mode,
    )  # fmt: skip
    translation.names[last.results[0]] = name
    return name


def _weighted_sum(translation: Translation, call: Call) -> str:
    """The elements at the indices times their weights, where both follow from a dynamic size."""
    graph, (x, index, weight) = translation.graph, call.inputs
    dim, rank, total = call.attributes[0], translation.rank(x), ""
    taps = translation.shape(index)[1]
    for tap in range(taps):
        part = graph.node("Gather", translation.name(x), _column(translation, index, tap), axis=dim)
        factors = graph.unsqueeze(_column(translation, weight, tap), [*range(1, rank - dim)])
        part = graph.node("Mul", part, factors)
        total = graph.node("Add", total, part) if total else part
    return total


def _column(translation: Translation, value: Value, number: int) -> str:
    """A column of a matrix, as a vector."""
    graph = translation.graph
    return graph.squeeze(graph.slice(translation.name(value), 1, number, number + 1), [1])


def _mode_of(translation: Translation, call: Call) -> dict | None:
    """The attributes of Resize for another step."""
    _, index, weight = call.inputs
    dim, size, back = call.attributes
    indices, weights = translation.constant_of(index), translation.constant_of(weight)
    n = translation.shape(call.inputs[0])[dim]
    if indices is None or weights is None or back or isinstance(n, Size):
        return None
    matrix = np.zeros((indices.shape[0], n))
    np.add.at(matrix, (np.arange(indices.shape[0])[:, None], indices), weights.astype(np.float64))
    return _mode(matrix)


def _mode(matrix: np.ndarray) -> dict | None:
    """The attributes with which Resize has these weights (m, n); None if there are none."""
    m, n = matrix.shape
    for where in ("half_pixel", "align_corners") if m > 1 else ():
        at = (np.arange(m) + 0.5) * (n / m) - 0.5 if where == "half_pixel" else np.arange(m) * ((n - 1) / (m - 1))
        for mode, taps in (("linear", _linear_taps), ("cubic", _cubic_taps)):
            expected = np.zeros((m, n))
            for offset, weights in taps(at):
                places = np.clip(np.floor(at) + offset, 0, n - 1).astype(int)
                np.add.at(expected, (np.arange(m), places), weights)
            if np.abs(expected - matrix).max(initial=0) < 1e-5:
                chosen = {"mode": mode, "coordinate_transformation_mode": where}
                return chosen | ({"cubic_coeff_a": -0.75} if mode == "cubic" else {})
    return None


def _linear_taps(at: np.ndarray) -> list[tuple[int, np.ndarray]]:
    distance = at - np.floor(at)
    return [(0, 1 - distance), (1, distance)]


def _cubic_taps(at: np.ndarray) -> list[tuple[int, np.ndarray]]:
    distance, a = at - np.floor(at), -0.75

    def weight(x: np.ndarray) -> np.ndarray:
        x = np.abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        return np.where(x <= 1, near, ((x - 5) * x + 8) * x * a - 4 * a)

    return [(offset, weight(distance - offset)) for offset in (-1, 0, 1, 2)]


# ---- patches


@rule("patches")
def patches(translation: Translation, call: Call) -> str:
    """unfold by Gather, fold by Col2Im."""
    graph, (x,) = translation.graph, call.inputs
    sizes, kernel, counts, dilation, padding, stride, back = call.attributes
    shape, name = translation.shape(x), translation.name(x)
    if any(isinstance(size, Size) for size in (*sizes, *counts)):
        raise Unsupported("unfold and fold of dynamic images; export them with a fixed size")
    if back:
        if graph.opset < 18:
            raise Unsupported("fold needs opset_version=18")
        flat = graph.reshape(name, shape, (*shape[:2], product(counts)))
        return graph.node(
            "Col2Im", flat, graph.constant(list(sizes)), graph.constant(list(kernel)), dilations=list(dilation),
            pads=[*padding, *padding], strides=list(stride),
        )  # fmt: skip
    name = graph.node("Pad", name, graph.constant([0, 0, *padding] * 2)) if any(padding) else name
    for k in range(2):
        places = np.arange(kernel[k])[:, None] * dilation[k] + np.arange(counts[k]) * stride[k]
        name = graph.node("Gather", name, graph.constant(places), axis=2 + 2 * k)
    transposed = graph.transpose(name, (0, 1, 2, 4, 3, 5))
    return graph.reshape(transposed, (*shape[:2], *kernel, *counts), translation.shape(call.results[0]))


@rule("grid_sample")
def grid_sample(translation: Translation, call: Call) -> str:
    """GridSample."""
    graph, (x, grid) = translation.graph, call.inputs
    mode, padding, corners, orders = call.attributes
    if any(orders) or (translation.rank(x) > 4 and graph.opset < 20):
        raise Unsupported("grid_sample of volumes needs opset_version=20, and derivatives have no ONNX form")
    modes = {"bilinear": "linear", "bicubic": "cubic"} if graph.opset >= 20 else {}
    return graph.node(
        "GridSample", translation.name(x), translation.name(grid), mode=modes.get(mode, mode), padding_mode=padding,
        align_corners=int(corners),
    )  # fmt: skip
