"""Fused attention: ONNX's Attention from opset 23 on, else softmax(query @ key^T * scale + mask) @ value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import dtypes
from ..symbols import Call
from .graph import Unsupported
from .rules import rule

if TYPE_CHECKING:
    from .translate import Translation


@rule("attention")
def attention(translation: Translation, call: Call) -> tuple:
    """The result; the logsumexp is for gradients only."""
    scale, causal, dropped = call.attributes
    if dropped:
        raise Unsupported("dropout draws random numbers; call model.eval()")
    query, key, value, mask = call.inputs[:4]
    # rows whose keys are all masked are NaN in ONNX's Attention, and 0 here and in the formula below
    if translation.graph.opset >= 23 and translation.rank(query) == 4 and mask is None:
        names = [translation.name(tensor) for tensor in (query, key, value)]
        return translation.graph.node("Attention", *names, scale=float(scale), is_causal=int(causal)), None
    return _composed(translation, call), None


def _composed(translation: Translation, call: Call) -> str:
    """Write attention as products and softmax, for opsets without an operator for it."""
    graph, node = translation.graph, translation.graph.node
    scale, causal, _ = call.attributes
    query, key, value, mask = call.inputs[:4]
    dtype, rank = translation.dtype(query), translation.rank(query)
    order = [*range(rank - 2), rank - 1, rank - 2]
    scaled = node("Mul", translation.name(query), graph.constant(float(scale), dtype))
    scores = node("MatMul", scaled, graph.transpose(translation.name(key), order))
    least = graph.constant(float("-inf"), dtype)
    if causal:
        sizes = translation.shape(query)[-2], translation.shape(key)[-2]
        ones = graph.expand(graph.constant(1, dtypes.int64), (), sizes)
        below = graph.cast(node("Trilu", ones, upper=0), dtypes.bool_)
        scores = node("Where", below, scores, least)
    if mask is None:
        weights = node("Softmax", scores, axis=-1)
    else:
        name = translation.name(mask)
        is_bool = translation.dtype(mask) is dtypes.bool_
        scores = node("Where", name, scores, least) if is_bool else node("Add", scores, name)
        weights = node("Softmax", scores, axis=-1)
        # rows without a key
        weights = node("Where", node("IsNaN", weights), graph.constant(0.0, dtype), weights)
    return node("MatMul", weights, translation.name(value))
