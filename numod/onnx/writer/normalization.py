"""Normalization of rows, channels and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..symbols import Call, Size
from .rules import rule

if TYPE_CHECKING:
    from ...graph.ir.program import Value
    from .translate import Translation


@rule("row_norm")
def row_norm(translation: Translation, call: Call) -> tuple:
    """LayerNormalization over the last dimension."""
    graph, (x, weight, bias) = translation.graph, call.inputs
    names = [translation.name(x), _scale(translation, weight, x)]
    names += [] if bias is None else [translation.name(bias)]
    out = graph.node("LayerNormalization", *names, axis=-1, epsilon=float(call.attributes[0]))
    return out, None, None


@rule("rms_norm")
def rms_norm(translation: Translation, call: Call) -> tuple:
    """RMSNormalization from opset 23 on, else its formula."""
    graph, (x, weight, bias) = translation.graph, call.inputs
    name, dtype, eps = translation.name(x), translation.dtype(x), float(call.attributes[0])
    if graph.opset >= 23:
        out = graph.node("RMSNormalization", name, _scale(translation, weight, x), axis=-1, epsilon=eps)
    else:
        mean = graph.reduce("ReduceMean", graph.node("Mul", name, name), [translation.rank(x) - 1])
        deviation = graph.node("Sqrt", graph.node("Add", mean, graph.constant(eps, dtype)))
        out = graph.node("Div", name, deviation)
        out = out if weight is None else graph.node("Mul", out, translation.name(weight))
    return out if bias is None else graph.node("Add", out, translation.name(bias)), None, None


@rule("channel_norm")
def channel_norm(translation: Translation, call: Call) -> tuple:
    """Batch normalization by the statistics of the batch, which are results too."""
    graph, (x, weight, bias) = translation.graph, call.inputs
    rank, dtype = translation.rank(x), translation.dtype(x)
    dims = [dim for dim in range(rank) if dim != 1]
    name = translation.name(x)
    mean = graph.reduce("ReduceMean", name, dims)
    centred = graph.node("Sub", name, mean)
    variance = graph.reduce("ReduceMean", graph.node("Mul", centred, centred), dims)
    eps = graph.constant(float(call.attributes[0]), dtype)
    out = graph.node("Div", centred, graph.node("Sqrt", graph.node("Add", variance, eps)))
    out = _affine(translation, out, weight, bias, rank)
    flat = [graph.node("Reshape", value, graph.constant([-1])) for value in (mean, variance)]
    return out, *flat


@rule("group_norm")
def group_norm(translation: Translation, call: Call) -> tuple:
    """InstanceNormalization where each channel is a group, GroupNormalization from opset 21 on, else one of the two
    on reshaped tensors.
    """
    graph, (x, weight, bias), (groups, eps) = translation.graph, call.inputs, call.attributes
    shape, name, dtype = translation.shape(x), translation.name(x), translation.dtype(x)
    channels, eps = shape[1], float(eps)
    if weight is not None and bias is not None and len(shape) > 2:
        names = [name, translation.name(weight), translation.name(bias)]
        if groups == channels:
            return graph.node("InstanceNormalization", *names, epsilon=eps), None, None
        if graph.opset >= 21:
            return graph.node("GroupNormalization", *names, num_groups=groups, epsilon=eps), None, None
    rows = graph.node("Reshape", name, graph.constant([0, groups, -1]))
    ones, zeros = (graph.constant(np.full(groups, number), dtype) for number in (1.0, 0.0))
    out = graph.node("InstanceNormalization", rows, ones, zeros, epsilon=eps)
    is_dynamic = any(isinstance(size, Size) for size in shape[1:])
    out = graph.node("Reshape", out, graph.node("Shape", name) if is_dynamic else graph.constant([0, *shape[1:]]))
    return _affine(translation, out, weight, bias, len(shape)), None, None


def _affine(translation: Translation, name: str, weight: Value | None, bias: Value | None, rank: int) -> str:
    """x * weight + bias, with an entry for each channel (dimension 1)."""
    graph = translation.graph
    for op, value in (("Mul", weight), ("Add", bias)):
        if value is not None:
            name = graph.node(op, name, graph.unsqueeze(translation.name(value), range(1, rank - 1)))
    return name


def _scale(translation: Translation, weight: Value | None, x: Value) -> str:
    """The weight, which the operator needs, or ones."""
    if weight is not None:
        return translation.name(weight)
    size = translation.shape(x)[-1]
    graph, one = translation.graph, translation.graph.constant(1.0, translation.dtype(x))
    if isinstance(size, Size):
        return graph.expand(one, (), (size,))
    return graph.constant(np.ones(size), translation.dtype(x))
