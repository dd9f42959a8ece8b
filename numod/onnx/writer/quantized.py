"""Quantized tensors: QuantizeLinear and DequantizeLinear around the operators of floats, products of integers where
the scales depend on the data, and weights of 8 or 4 bits that become floats at run time.

A static layer was captured as arithmetic of integers. `StaticLayer` finds its scales in it, so that it is written as
runtimes expect it: DequantizeLinear, Gemm or Conv, QuantizeLinear.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import dtypes
from ...graph.ir.program import Value
from ..symbols import Call, Size
from .rules import rule

if TYPE_CHECKING:
    from .translate import Translation

LIMITS = {dtypes.uint8: (0, 255), dtypes.int8: (-128, 127)}
_MOVES = ("row_major", "view")


@rule("_int_mm")
def integer_product(translation: Translation, call: Call) -> str:
    """MatMulInteger of unsigned integers: runtimes' products with signed ones may saturate on processors without
    VNNI.
    """
    graph, names, zeros = translation.graph, [], []
    for value in call.inputs:
        is_signed = translation.dtype(value) is dtypes.int8
        names.append(_unsigned(translation, value) if is_signed else translation.name(value))
        zeros.append(graph.constant(128 if is_signed else 0, dtypes.uint8))
    return graph.node("MatMulInteger", *names, *zeros)


def _unsigned(translation: Translation, value: Value) -> str:
    """An int8 tensor plus 128, as uint8."""
    graph = translation.graph
    wide = graph.cast(translation.name(value), dtypes.int32)
    return graph.cast(graph.node("Add", wide, graph.constant(128, dtypes.int32)), dtypes.uint8)


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


# ---- QuantizeLinear and DequantizeLinear


def quantize(translation: Translation, name: str, scale: float, zero: int, dtype: Any) -> str:
    """A tensor as integers."""
    graph = translation.graph
    return graph.node("QuantizeLinear", name, graph.constant(scale, dtypes.float32), graph.constant(zero, dtype))


def dequantize(translation: Translation, name: str, scale: float, zero: int, dtype: Any) -> str:
    """Integers as a tensor of floats."""
    graph = translation.graph
    return graph.node("DequantizeLinear", name, graph.constant(scale, dtypes.float32), graph.constant(zero, dtype))


def quantizing(translation: Translation, call: Call) -> str | None:
    """The nodes of a step that quantizes with fixed numbers, over all integers of its dtype; None for another one."""
    x, scale, zero, low, high = call.inputs
    dtype = translation.dtype(call.results[0])
    numbers = all(isinstance(number, (int, float)) for number in (scale, zero))
    if not numbers or LIMITS.get(dtype) != (low, high) or translation.dtype(x) is not dtypes.float32:
        return None
    return quantize(translation, translation.name(x), float(scale), int(zero), dtype)


def dequantizing(translation: Translation, call: Call) -> str | None:
    """The nodes of a step that ends (float(integers) - zero) * scale; None for another one."""
    difference, scale = call.inputs
    centred = made_by(translation, difference, "sub")
    if not isinstance(scale, float) or centred is None or not isinstance(centred.inputs[1], int):
        return None
    copied = made_by(translation, centred.inputs[0], "copy")
    if copied is None or translation.dtype(call.results[0]) is not dtypes.float32:
        return None
    dtype = translation.dtype(copied.inputs[0])
    low, high = LIMITS.get(dtype, (0, -1))
    if not low <= centred.inputs[1] <= high:
        return None
    return dequantize(translation, translation.name(copied.inputs[0]), scale, centred.inputs[1], dtype)


def made_by(translation: Translation, value: Any, *ops: str) -> Call | None:
    """The step that made a value, if it is of one of these ops and nothing writes to the value."""
    call = translation.producers.get(value) if isinstance(value, Value) else None
    is_one = call is not None and call.op.name in ops and not call.in_place and value not in translation.written
    return call if is_one else None


def _source(translation: Translation, value: Any, *ops: str) -> Any:
    """The value before steps of these ops."""
    call = made_by(translation, value, *ops)
    while call is not None:
        value = call.inputs[0]
        call = made_by(translation, value, *ops)
    return value


# ---- layers with fixed scales


@dataclass
class StaticLayer:
    """A quantized layer: what it reads, and its scales. `convolution` has the attributes of Conv."""

    x: Value
    weight: Value
    weight_scale: Value  # float64, an entry for each channel or for all
    scale: float
    zero: int
    steps: Value  # float32: the scale of the bias
    bias: Value | None  # in steps
    out_scale: float
    out_zero: int
    has_relu: bool
    convolution: dict[str, Any] = field(default_factory=dict)


def static_layer(translation: Translation, call: Call) -> StaticLayer | None:
    """The layer that a requantizing step ends; None where it has another form."""
    total, offset, multiplier, zero, low, high = call.inputs
    dtype = translation.dtype(call.results[0])
    least, most = LIMITS[dtype]
    ratio = made_by(translation, _source(translation, multiplier, "view"), "div")
    if ratio is None or not isinstance(ratio.inputs[1], float) or high != most or low not in (least, zero):
        return None
    steps = made_by(translation, ratio.inputs[0], "mul")
    if steps is None or not isinstance(steps.inputs[1], float):
        return None
    scale_of_weight = _source(translation, steps.inputs[0], "copy")
    result = _of_integers(translation, total, offset) or _of_floats(translation, total, offset)
    if result is None:
        return None
    x, weight, x_zero, bias, convolution = result
    return StaticLayer(
        x, weight, scale_of_weight, steps.inputs[1], x_zero, ratio.inputs[0], bias, ratio.inputs[1], zero,
        low != least, convolution,
    )  # fmt: skip


def _of_integers(translation: Translation, total: Any, offset: Any) -> tuple | None:
    """(x, weight, zero, bias, attributes) of a product of integers."""
    product = made_by(translation, total, "_int_mm")
    if product is None:
        return None
    added = made_by(translation, offset, "add")
    sums = made_by(translation, added.inputs[0] if added is not None else offset, "mul")
    if sums is None or not isinstance(sums.inputs[1], int):
        return None
    bias = None if added is None else added.inputs[1]
    rows, weight = product.inputs[0], _source(translation, product.inputs[1], "permute", "view", "row_major")
    if translation.rank(weight) == 2:
        return rows, weight, -sums.inputs[1], bias, {}
    unfolded = _unfolded(translation, rows, weight, -sums.inputs[1])
    return None if unfolded is None else (unfolded[0], weight, -sums.inputs[1], bias, unfolded[1])


def _unfolded(translation: Translation, rows: Value, weight: Value, zero: int) -> tuple[Value, dict] | None:
    """(the images (N, C, H, W) whose patches a matrix has as rows, the attributes of their convolution)."""
    permute = made_by(translation, _source(translation, rows, *_MOVES), "permute")
    second = None if permute is None else made_by(translation, permute.inputs[0], "as_strided")
    first = None if second is None else made_by(translation, second.inputs[0], "as_strided")
    if first is None or len(second.attributes[1]) != 6 or translation.rank(weight) != 4:
        return None
    image = first.inputs[0]
    strides = [first.attributes[1][1], second.attributes[1][2]]
    steps = [first.attributes[1][4], second.attributes[1][5]]
    memory = translation.program.strides[image][1:3]
    if any(isinstance(number, Size) for number in (*strides, *steps, *memory)):
        return None
    pads = [0, 0, 0, 0]
    padded = made_by(translation, image, "pad")
    if padded is not None:
        before, after, mode = padded.attributes
        if mode != "constant" or padded.inputs[1] != zero:
            return None
        pads, image = [*before[1:3], *after[1:3]], padded.inputs[0]
    ordered = made_by(translation, _source(translation, image, "row_major"), "permute")
    if ordered is None or tuple(ordered.attributes[0]) != (0, 2, 3, 1):
        return None
    return ordered.inputs[0], {
        "strides": [step // size for step, size in zip(strides, memory)],
        "dilations": [step // size for step, size in zip(steps, memory)],
        "pads": pads,
        "group": 1,
    }


def _of_floats(translation: Translation, total: Any, offset: Any) -> tuple | None:
    """(x, weight, zero, bias, attributes) of a convolution of integers as floats."""
    product = made_by(translation, total, "convolution")
    if product is None or product.attributes[4] is not None:
        return None
    centred = made_by(translation, _source(translation, product.inputs[0], "row_major"), "sub")
    if centred is None or not isinstance(centred.inputs[1], int):
        return None
    x, weight = (_source(translation, value, "copy") for value in (centred.inputs[0], product.inputs[1]))
    if translation.dtype(x) not in LIMITS or translation.dtype(weight) is not dtypes.int8:
        return None
    stride, padding, dilation, groups, _ = product.attributes
    attributes = {"strides": [*stride], "dilations": [*dilation], "pads": [*padding, *padding], "group": groups}
    bias = _source(translation, offset, "view") if isinstance(offset, Value) else None
    return x, weight, centred.inputs[1], bias, attributes


def write_layer(translation: Translation, call: Call, layer: StaticLayer) -> str:
    """The nodes of a static layer."""
    graph = translation.graph
    x = dequantize(translation, translation.name(layer.x), layer.scale, layer.zero, translation.dtype(layer.x))
    scale = graph.cast(translation.name(layer.weight_scale), dtypes.float32)
    is_per_channel = translation.shape(layer.weight_scale) != (1,)
    scale = scale if is_per_channel else graph.node("Squeeze", scale)
    axis = {"axis": 0} if is_per_channel else {}
    inputs = [x, graph.node("DequantizeLinear", translation.name(layer.weight), scale, **axis)]
    if layer.bias is not None:
        inputs.append(_bias(translation, layer, axis))
    if layer.convolution:
        name = graph.node("Conv", *inputs, kernel_shape=[*translation.shape(layer.weight)[2:]], **layer.convolution)
    else:
        name = graph.node("Gemm", *inputs, transB=1)
    name = graph.node("Relu", name) if layer.has_relu else name
    dtype = translation.dtype(call.results[0])
    name = quantize(translation, name, layer.out_scale, layer.out_zero, dtype)
    if not layer.convolution or translation.rank(call.results[0]) > 2:
        return name
    return _as_rows(translation, call, name)


def _bias(translation: Translation, layer: StaticLayer, axis: dict[str, int]) -> str:
    """The bias, from integers with the scale of the products."""
    graph, name = translation.graph, translation.name(layer.bias)
    if translation.dtype(layer.bias) is not dtypes.int32:
        name = graph.cast(name, dtypes.int32)
    steps = translation.name(layer.steps)
    steps = steps if axis else graph.node("Squeeze", steps)
    return graph.node("DequantizeLinear", name, steps, **axis)


def _as_rows(translation: Translation, call: Call, name: str) -> str:
    """A convolution's result (N, C, H, W) as rows, like the step's result. Steps that permute back are left out."""
    graph, viewed = translation.graph, translation.only_user(call.results[0])
    permute = None if viewed is None or viewed.op.name != "view" else translation.only_user(viewed.results[0])
    if permute is not None and permute.op.name == "permute" and tuple(permute.attributes[0]) == (0, 3, 1, 2):
        translation.names[permute.results[0]] = name
        translation.done.update((viewed.number, permute.number))
        return name
    channels = translation.shape(call.results[0])[1]
    return graph.node("Reshape", graph.transpose(name, (0, 2, 3, 1)), graph.constant(np.array([-1, channels])))
