"""Views: nodes that compute a view from its base, and a base after a write to its view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ... import dtypes
from ..symbols import Call, Extent, Size, product
from .graph import Unsupported

if TYPE_CHECKING:
    from .translate import Translation

_RESHAPING = ("unsqueeze", "squeeze", "view")


def forward(translation: Translation, call: Call) -> str:
    """The view of a tensor."""
    known = translation.last_steps.get(call.inputs[0])
    if known is not None and call.op.name == "slice" and call.attributes[:2] == (0, known[0]):
        return known[1]
    graph, (value,), name = translation.graph, call.results, translation.name(call.inputs[0])
    old, new = translation.shape(call.inputs[0]), translation.shape(value)
    kind, attributes = call.op.name, call.attributes
    if kind == "permute":
        return graph.transpose(name, attributes[0])
    if kind == "expand":
        return graph.expand(name, old, new)
    if kind == "slice":
        return _slice(translation, call, name)
    if kind == "select":
        index = graph.number(attributes[1], dtypes.int64)
        return graph.node("Gather", name, index, axis=attributes[0])
    if kind == "unsqueeze":
        return graph.unsqueeze(name, [attributes[0]])
    if kind == "squeeze":
        return graph.squeeze(name, [dim for dim in attributes[0] if isinstance(old[dim], int) and old[dim] == 1])
    if kind == "view":
        return graph.reshape(name, old, new)
    if kind == "diagonal":
        return _diagonal(translation, call, name)
    if kind == "as_strided":
        places, lead = _strided_places(translation, call)
        flat = graph.node("Reshape", name, graph.constant([0] * lead + [-1]))
        return graph.node("Gather", flat, graph.constant(places), axis=lead)
    raise Unsupported("this view has no ONNX form; use real tensors")


def put(translation: Translation, call: Call, base: str, part: str) -> str:
    """The base, after the view `part` was written."""
    graph, kind, attributes = translation.graph, call.op.name, call.attributes
    shape, part_shape = translation.shape(call.inputs[0]), translation.shape(call.results[0])
    if kind == "permute":
        return graph.transpose(part, list(np.argsort(attributes[0])))
    if kind in _RESHAPING:
        return graph.reshape(part, part_shape, shape)
    if kind == "select":
        dim, index = attributes
        return _joined(translation, base, graph.unsqueeze(part, [dim]), dim, index, index + 1, shape[dim])
    if kind == "slice":
        dim, start, length, step = attributes
        if step == 1:
            return _joined(translation, base, part, dim, start, start + length, shape[dim])
        places = graph.node(
            "Range", *[graph.number(bound, dtypes.int64) for bound in (start, start + length * step, step)]
        )
        return put_along(translation, base, places, part, dim, len(shape))
    if kind == "as_strided":
        places, lead = _strided_places(translation, call)
        flat = [graph.node("Reshape", tensor, graph.constant([0] * lead + [-1])) for tensor in (base, part)]
        written = put_along(translation, flat[0], graph.constant(places.reshape(-1)), flat[1], lead, lead + 1)
        return graph.reshape(written, (*shape[:lead], product(shape[lead:])), shape)
    if kind == "diagonal":
        return _put_diagonal(translation, call, base, part)
    raise Unsupported(f"a write to a view made by {kind} has no ONNX form; write to a clone()")


def put_along(translation: Translation, base: str, places: str, part: str, dim: int, rank: int, **how: str) -> str:
    """`base` with `part` at the positions `places` (a vector) along a dimension."""
    graph = translation.graph
    order = [dim, *[k for k in range(rank) if k != dim]]
    base, part = graph.transpose(base, order), graph.transpose(part, order)
    written = graph.node("ScatterND", base, graph.unsqueeze(places, [1]), part, **how)
    return graph.transpose(written, [order.index(k) for k in range(rank)])


def _joined(translation: Translation, base: str, part: str, dim: int, start: Extent, stop: Extent, size: Extent) -> str:
    """`base` with `part` from `start` to `stop` along a dimension."""
    graph = translation.graph
    before = [] if start == 0 else [graph.slice(base, dim, 0, start)]
    after = [] if stop == size else [graph.slice(base, dim, stop, size)]
    parts = [*before, part, *after]
    return part if len(parts) == 1 else graph.node("Concat", *parts, axis=dim)


def _slice(translation: Translation, call: Call, name: str) -> str:
    graph, (dim, start, length, step) = translation.graph, call.attributes
    size = translation.shape(call.inputs[0])[dim]
    if start == 0 and step == 1 and length == size:
        return name
    stop = start + (length - 1) * step + 1 if isinstance(length, Size) or length else start
    if not isinstance(length, Size) and not length:
        stop = start
    return graph.slice(name, dim, start, stop, step)


def _diagonal(translation: Translation, call: Call, name: str) -> str:
    places, order, sizes, flat_sizes = _diagonal_places(translation, call)
    graph = translation.graph
    flat = graph.reshape(graph.transpose(name, order), sizes, flat_sizes)
    return graph.node("Gather", flat, graph.constant(places), axis=len(order) - 2)


def _put_diagonal(translation: Translation, call: Call, base: str, part: str) -> str:
    places, order, sizes, flat_sizes = _diagonal_places(translation, call)
    graph, dim = translation.graph, len(order) - 2
    flat = graph.reshape(graph.transpose(base, order), sizes, flat_sizes)
    written = put_along(translation, flat, graph.constant(places), part, dim, dim + 1)
    return graph.transpose(graph.reshape(written, flat_sizes, sizes), list(np.argsort(order)))


def _diagonal_places(translation: Translation, call: Call) -> tuple:
    """(the places of a diagonal in flat matrices, the order with the matrices' dimensions last, the sizes in this
    order, those of flat matrices).
    """
    offset, first, second = call.attributes
    shape = translation.shape(call.inputs[0])
    rows, columns = shape[first], shape[second]
    if any(isinstance(number, Size) for number in (rows, columns, offset)):
        raise Unsupported("the diagonal of dynamic dimensions has no ONNX form; export it with a fixed size")
    rest = [k for k in range(len(shape)) if k not in (first, second)]
    places = np.arange(rows * columns).reshape(rows, columns).diagonal(offset)
    lead = tuple([shape[k] for k in rest])
    return places, [*rest, first, second], (*lead, rows, columns), (*lead, rows * columns)


def _strided_places(translation: Translation, call: Call) -> tuple[np.ndarray, int]:
    """(for each element of the view, its position in the base; the number of leading dimensions that both have, which
    are left out of the positions).
    """
    value = call.inputs[0]
    shape, strides = translation.shape(value), translation.program.strides[value]
    sizes, steps, offset = call.attributes
    pairs = [*zip(shape, strides)]
    lead = 0
    while lead < min(len(shape), len(sizes)) and pairs[lead] == (sizes[lead], steps[lead]):
        lead += 1
    shape, strides, sizes, steps = shape[lead:], strides[lead:], sizes[lead:], steps[lead:]
    if any(isinstance(number, Size) for number in (*shape, *strides, *sizes, *steps, offset)):
        raise Unsupported("as_strided with a dynamic size has no ONNX form; use view, narrow or unfold")
    memory, wanted = _offsets(shape, strides), _offsets(sizes, steps) + offset
    inverse = np.full(int(max(memory.max(initial=0), wanted.max(initial=0))) + 1, -1)
    inverse[memory.reshape(-1)] = np.arange(product(shape))
    places = inverse[wanted]
    if wanted.min(initial=0) < 0 or places.min(initial=0) < 0:
        raise Unsupported("as_strided reads beyond the tensor; use view, narrow or unfold")
    return places, lead


def _offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """The positions in memory of all elements."""
    total = np.zeros((1,) * len(shape), np.int64)
    for k, (size, stride) in enumerate(zip(shape, strides)):
        total = total + np.arange(size).reshape(-1, *[1] * (len(shape) - k - 1)) * stride
    return total
