"""Quantized tensors: QuantizeLinear, products of integers, and weights that become floats at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import dtypes
from ..symbols import Call
from .rules import rule

if TYPE_CHECKING:
    from .translate import Translation


@rule("_int_mm")
def integer_product(translation: Translation, call: Call) -> str:
    """MatMulInteger."""
    return translation.graph.node("MatMulInteger", *map(translation.name, call.inputs))


@rule("weight_only_product")
def weight_only_product(translation: Translation, call: Call) -> str:
    """x @ w.T for a weight of 8 or 4 bits."""
    graph, (x, w, scale, zero) = translation.graph, call.inputs
    (group,) = call.attributes
    rows, groups = translation.shape(scale)
    name, node = translation.name(w), graph.node
    if translation.dtype(w) is dtypes.uint8:  # two numbers in a byte: the low halves are a group's first columns
        halves = node("Reshape", name, graph.constant([rows, groups, group // 2]))
        sixteen = graph.constant(16, dtypes.uint8)
        parts = node("Mod", halves, sixteen), node("Div", halves, sixteen)
        blocks = node("Concat", *parts, axis=2)
    else:
        blocks = node("Reshape", name, graph.constant([rows, groups, group]))
    centred = node("Sub", graph.cast(blocks, dtypes.float32), graph.unsqueeze(translation.name(zero), [2]))
    values = node("Mul", centred, graph.unsqueeze(translation.name(scale), [2]))
    weight = node("Reshape", values, graph.constant([rows, groups * group]))
    return node("MatMul", translation.name(x), graph.transpose(weight, (1, 0)))
