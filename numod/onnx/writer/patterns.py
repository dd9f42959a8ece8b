"""Steps that together are one ONNX operator: batch normalization in evaluation, and quantized layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...graph.ir.program import Value
from ..symbols import Call
from . import quantized

if TYPE_CHECKING:
    from .translate import Translation


def match(translation: Translation, call: Call) -> Callable | None:
    """The rule of a step that ends a pattern; None for other steps."""
    name = call.op.name
    if call.in_place:
        return None
    if name == "addcmul":
        parts = _batch_norm(translation, call)
        return None if parts is None else lambda translation, call: _write_batch_norm(translation, *parts)
    if name in ("byte_linear", "byte_convolution"):
        find = quantized.static_convolution if name == "byte_convolution" else quantized.static_linear
        layer = find(translation, call)
        return None if layer is None else lambda translation, call: quantized.write_layer(translation, call, layer)
    if name in ("quantize_int8", "quantize_uint8", "mul"):
        write = quantized.dequantizing if name == "mul" else quantized.quantizing
        written = write(translation, call)
        return None if written is None else lambda translation, call: written
    return None


def _batch_norm(translation: Translation, call: Call) -> tuple | None:
    """(x, weight, bias, mean, variance, eps) if a step is bias - mean * inverse + x * inverse."""
    shift, x, scale, factor = call.inputs
    if factor != 1 or not all(isinstance(value, Value) for value in (shift, x, scale)):
        return None
    offset = _producer(translation, shift, "addcmul")
    inverse = _producer(translation, scale, "inverse_deviation")
    if offset is None or inverse is None or translation.rank(x) < 2:
        return None
    bias, mean, inverse_again, minus = offset.inputs
    variance, weight, eps = inverse.inputs
    if inverse_again != inverse.results[0] or minus != -1 or not isinstance(eps, float):
        return None
    is_ours = all(isinstance(value, Value) and translation.rank(value) == 1 for value in (mean, variance))
    channels = translation.shape(mean)
    if (
        not is_ours
        or translation.shape(x)[1:2] != channels
        or translation.shape(call.results[0]) != translation.shape(x)
    ):
        return None
    expected = (*channels, *[1] * (translation.rank(x) - 2))
    if translation.shape(scale)[-len(expected) :] != expected:
        return None
    return x, weight, bias, mean, variance, eps


def _producer(translation: Translation, value: Value, op: str) -> Call | None:
    """The step that computed a value or, for a view, its base."""
    call = translation.producers.get(value)
    if call is not None and call.op.name == "view":
        call = translation.producers.get(call.inputs[0])
    is_made = call is not None and call.op.name == op and not call.in_place and value not in translation.written
    return call if is_made else None


def _write_batch_norm(
    translation: Translation, x: Value, weight: object, bias: object, mean: Value, variance: Value, eps: float
) -> str:
    graph, dtype = translation.graph, translation.dtype(mean)
    sizes = translation.shape(mean)
    names = [
        translation.name(value) if isinstance(value, Value) else graph.constant([float(value)] * sizes[0], dtype)
        for value in (weight, bias, mean, variance)
    ]
    return graph.node("BatchNormalization", translation.name(x), *names, epsilon=eps)
