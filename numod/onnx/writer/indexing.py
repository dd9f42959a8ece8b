"""Reading and writing by index tensors, joining, padding, flipping."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ... import dtypes
from ..symbols import Call, Size, product
from .graph import Unsupported
from .rules import advise, rule
from .views import put_along

if TYPE_CHECKING:
    from .translate import Translation

advise("runtimes have no random numbers that can be repeated; pass them as an input", "poisson binomial "
       "standard_gamma")  # fmt: skip
_REDUCTIONS = {"prod": "mul", "amax": "max", "amin": "min"}


@rule("index_select", "select_known")
def index_select(translation: Translation, call: Call) -> str:
    """Gather."""
    x, index = map(translation.name, call.inputs)
    if not translation.rank(call.inputs[0]):
        return x
    return translation.graph.node("Gather", x, index, axis=call.attributes[0])


@rule("gather")
def gather(translation: Translation, call: Call) -> str:
    """GatherElements."""
    x, index = map(translation.name, call.inputs)
    if not translation.rank(call.inputs[0]):
        return x
    return translation.graph.node("GatherElements", x, index, axis=call.attributes[0])


@rule("index_add", "index_copy")
def index_write(translation: Translation, call: Call) -> str:
    """ScatterND along one dimension."""
    x, index, source = map(translation.name, call.inputs)
    (dim,), graph, rank = call.attributes, translation.graph, translation.rank(call.inputs[0])
    adds = {"reduction": "add"} if call.op.name == "index_add" else {}
    index = index if translation.rank(call.inputs[1]) else graph.unsqueeze(index, [0])
    if not rank:
        flat = [graph.unsqueeze(name, [0]) for name in (x, source)]
        return graph.squeeze(put_along(translation, flat[0], index, flat[1], 0, 1, **adds), [0])
    source_rank = translation.rank(call.inputs[2])
    source = source if source_rank == rank else graph.unsqueeze(source, [dim])
    return put_along(translation, x, index, source, dim, rank, **adds)


@rule("scatter", "scatter_add", "scatter_reduce")
def scatter(translation: Translation, call: Call) -> str:
    """ScatterElements."""
    graph, (x, index, source) = translation.graph, call.inputs
    how = {"scatter_add": "add"}.get(call.op.name)
    if call.op.name == "scatter_reduce":
        how = _REDUCTIONS[call.attributes[1]]
        if how != "mul" and graph.opset < 18:
            raise Unsupported("scatter_reduce by extrema needs opset_version=18")
    updates = translation.name(source)
    shape, part = translation.shape(index), translation.shape(source)
    for dim, (wanted, size) in enumerate(zip(shape, part)):
        if wanted != size:
            updates = graph.slice(updates, dim, 0, wanted)
    names = [translation.name(x), translation.name(index), updates]
    if not translation.rank(x):
        names = [graph.node("Reshape", name, graph.constant([-1])) for name in names]
        return graph.squeeze(graph.node("ScatterElements", *names, axis=0, reduction=how), [0])
    return graph.node("ScatterElements", *names, axis=call.attributes[0], reduction=how)


@rule("nonzero")
def nonzero(translation: Translation, call: Call) -> str:
    """NonZero of a flat mask."""
    graph, mask = translation.graph, call.inputs[0]
    flat = graph.node("Reshape", translation.name(mask), graph.constant([-1]))
    return graph.node("Squeeze", graph.node("NonZero", flat), graph.constant([0]))


@rule("bounded")
def checked_index(translation: Translation, call: Call) -> str:
    """Indices that are checked: runtimes check them too."""
    return translation.name(call.inputs[0])


@rule("bag_bounds")
def bag_bounds(translation: Translation, call: Call) -> str:
    """The offsets, and the end of the last bag."""
    graph, (length, include_last) = translation.graph, call.attributes
    offsets = translation.name(call.inputs[0])
    return offsets if include_last else graph.node("Concat", offsets, graph.sizes([length]), axis=0)


@rule("bag")
def bag(translation: Translation, call: Call) -> str:
    """EmbeddingBag: sums of rows by ScatterND."""
    graph, (x, index, bounds, share), (mean,) = translation.graph, call.inputs, call.attributes
    rows = graph.node("Gather", translation.name(x), translation.name(index), axis=0)
    if share is not None:
        rows = graph.node("Mul", rows, graph.unsqueeze(translation.name(share), [1]))
    dtype, (bags, width) = translation.dtype(x), translation.shape(call.results[0])
    places = graph.node(
        "Range", graph.constant(0), graph.number(translation.shape(index)[0], dtypes.int64), graph.constant(1)
    )
    starts = graph.slice(translation.name(bounds), 0, 0, bags)
    begun = graph.node("LessOrEqual", graph.unsqueeze(starts, [0]), graph.unsqueeze(places, [1]))
    number = graph.reduce("ReduceSum", graph.cast(begun, dtypes.int64), [1], False)
    number = graph.node("Sub", number, graph.constant(1))
    zeros = graph.expand(graph.constant(0.0, dtype), (), (bags, width))
    sums = put_along(translation, zeros, number, rows, 0, 2, reduction="add")
    if not mean:
        return sums
    ones = graph.expand(graph.constant(1.0, dtype), (), (translation.shape(index)[0],))
    counts = graph.expand(graph.constant(0.0, dtype), (), (bags,))
    counts = put_along(translation, counts, number, ones, 0, 1, reduction="add")
    return graph.node("Div", sums, graph.unsqueeze(graph.node("Max", counts, graph.constant(1.0, dtype)), [1]))


# ---- joining and padding


@rule("cat")
def cat(translation: Translation, call: Call) -> str:
    """Concat."""
    return translation.graph.node("Concat", *map(translation.name, call.inputs), axis=call.attributes[0])


@rule("stack")
def stack(translation: Translation, call: Call) -> str:
    """Concat along a new dimension."""
    graph, (dim,) = translation.graph, call.attributes
    return graph.node("Concat", *[graph.unsqueeze(translation.name(x), [dim]) for x in call.inputs], axis=dim)


@rule("pad")
def pad(translation: Translation, call: Call) -> str:
    """Pad; circular padding by Concat before opset 19."""
    graph, (x, value), (before, after, mode) = translation.graph, call.inputs, call.attributes
    name, dtype = translation.name(x), translation.dtype(x)
    if mode == "circular" and graph.opset < 19:
        for dim, (first, last) in enumerate(zip(before, after)):
            name = _wrapped(translation, name, dim, first, last, translation.shape(x)[dim])
        return name
    pads = graph.sizes([*before, *after])
    if mode != "constant":
        return graph.node("Pad", name, pads, mode={"replicate": "edge", "circular": "wrap"}.get(mode, mode))
    filling = graph.number(value, dtype) if isinstance(value, (bool, int, float)) else translation.name(value)
    return graph.node("Pad", name, pads, filling)


def _wrapped(translation: Translation, name: str, dim: int, first: object, last: object, size: object) -> str:
    graph = translation.graph
    if any(isinstance(number, Size) or number < 0 for number in (first, last)):
        raise Unsupported("circular padding by a dynamic or negative size; pad by a fixed size")
    head = [graph.slice(name, dim, size - first, size)] if first else []
    tail = [graph.slice(name, dim, 0, last)] if last else []
    return graph.node("Concat", *head, name, *tail, axis=dim) if head or tail else name


@rule("flip")
def flip(translation: Translation, call: Call) -> str:
    """Slice with steps of -1."""
    graph, (dims,) = translation.graph, call.attributes
    count, far = len(dims), np.iinfo(np.int64).min
    bounds = [graph.constant([number] * count) for number in (-1, far)]
    return graph.node(
        "Slice", translation.name(call.inputs[0]), *bounds, graph.constant(list(dims)), graph.constant([-1] * count)
    )


@rule("roll")
def roll(translation: Translation, call: Call) -> str:
    """The elements from `first` on, then those before; several dimensions are one."""
    graph, (x,), (dims, first) = translation.graph, call.inputs, call.attributes
    shape, dim = translation.shape(x), dims[0]
    merged = (*shape[:dim], product(shape[dim : dims[-1] + 1]), *shape[dims[-1] + 1 :])
    name = graph.reshape(translation.name(x), shape, merged)
    parts = [graph.slice(name, dim, first, merged[dim]), graph.slice(name, dim, 0, first)]
    return graph.reshape(graph.node("Concat", *parts, axis=dim), merged, shape)


@rule("band")
def band(translation: Translation, call: Call) -> str:
    """Trilu: the elements between two diagonals."""
    graph, (x,), (low, high) = translation.graph, call.inputs, call.attributes
    rows, columns = translation.shape(x)[-2:]
    dtype, name = translation.dtype(x), translation.name(x)
    if dtype not in (dtypes.float32, dtypes.float64, dtypes.int64, dtypes.bool_, dtypes.float16, dtypes.bfloat16):
        name = graph.cast(name, dtypes.int64)
    if isinstance(columns, Size) or isinstance(high, Size) or high < columns - 1:
        name = graph.node("Trilu", name, graph.number(high, dtypes.int64), upper=0)
    if isinstance(rows, Size) or isinstance(low, Size) or low > 1 - rows:
        name = graph.node("Trilu", name, graph.number(low, dtypes.int64), upper=1)
    return name if dtype.kind in "fb" or dtype is dtypes.int64 else graph.cast(name, dtype)


@rule("triangle_indices")
def triangle_indices(translation: Translation, call: Call) -> str:
    """Constants."""
    dtype, _, rows, columns, diagonal, upper = call.attributes
    if any(isinstance(number, Size) for number in (rows, columns, diagonal)):
        raise Unsupported("triangle indices of a dynamic size; use tril or triu of a mask")
    indices = np.triu_indices(rows, diagonal, columns) if upper else np.tril_indices(rows, diagonal, columns)
    return translation.graph.constant(np.stack(indices), dtype)
