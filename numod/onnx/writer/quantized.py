"""Quantized tensors: QuantizeLinear and DequantizeLinear around the operators of floats, products of integers where
the scales depend on the data, and weights of 8 or 4 bits that become floats at run time.

A static layer was captured as arithmetic of integers. `StaticLayer` finds its scales in it, so that it is written as
runtimes expect it: DequantizeLinear, Gemm or Conv, QuantizeLinear.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ... import dtypes
from ...graph.ir.program import Value
from ..symbols import Call
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


@rule("byte_linear")
def byte_linear(translation: Translation, call: Call) -> str:
    """A layer of integers whose scales are not in the program: MatMulInteger, and the steps after it."""
    graph, node, (x, weight, offset, multiplier) = translation.graph, translation.graph.node, call.inputs
    zero, low, high = (graph.constant(float(number), dtypes.float32) for number in call.attributes)
    left, left_zero = translation.name(x), 0
    if translation.dtype(x) is dtypes.int8:
        left, left_zero = _unsigned(translation, x), 128
    total = node("Add", _integer_matmul(translation, left, left_zero, weight), translation.name(offset))
    scaled = node("Mul", graph.cast(total, dtypes.float32), translation.name(multiplier))
    shifted = node("Add", node("Round", scaled), zero)
    return graph.cast(node("Clip", shifted, low, high), translation.dtype(call.results[0]))


@rule("dynamic_linear")
def dynamic_linear(translation: Translation, call: Call) -> str:
    """x in integers of its own range, MatMulInteger, and floats again."""
    x, *others = call.inputs
    return _dynamic_product(translation, translation.name(x), others, call.attributes[0])


def _dynamic_product(translation: Translation, name: str, others: list[Value], last: int) -> str:
    """A matrix in integers of its range (or of each row's if `last` is 0) times the weight, scale and bias `others`."""
    graph, node, (weight, weight_scale, bias) = translation.graph, translation.graph.node, others

    def number(value: float) -> str:
        return graph.constant(float(value), dtypes.float32)

    if last:
        low = node("Min", graph.reduce("ReduceMin", name, [0, 1], False), number(0))
        high = node("Max", graph.reduce("ReduceMax", name, [0, 1], False), number(0))
        step = node("Div", node("Sub", high, low), number(last))
        usable = node("Max", step, number(6.1e-5))
        scale = node("Where", node("Greater", step, number(1e-38)), usable, number(0.1))
        zero = node("Clip", node("Round", node("Neg", node("Div", low, scale))), number(0), number(last))
        limits = number(0), number(last)
    else:
        greatest = graph.reduce("ReduceMax", node("Abs", name), [1])
        scale = node("Max", node("Div", greatest, number(127)), number(1e-12))
        zero, limits = number(128), (number(1), number(255))
    scaled = node("Add", node("Mul", name, node("Reciprocal", scale)), zero)
    integers = graph.cast(node("Clip", node("Round", scaled), *limits), dtypes.uint8)
    total = _integer_matmul(translation, integers, graph.cast(zero, dtypes.uint8), weight)
    total, weight_scale_name = graph.cast(total, dtypes.float32), translation.name(weight_scale)
    if last:
        values = node("Mul", total, node("Mul", weight_scale_name, scale))
    else:  # one after the other: ONNX Runtime fuses the form above as if all rows had the first one's scale
        values = node("Mul", node("Mul", total, weight_scale_name), scale)
    return node("Add", values, translation.name(bias))


@rule("dynamic_lstm")
def dynamic_lstm(translation: Translation, call: Call) -> tuple[str, ...]:
    """The steps of an LSTM layer, one after the other."""

    def cell(node: Any, x: list[str], y: list[str], h: str, c: str) -> tuple[str, str]:
        gate, forget, new, out = (node("Add", *pair) for pair in zip(x, y))
        added = node("Mul", node("Sigmoid", gate), node("Tanh", new))
        c = node("Add", node("Mul", node("Sigmoid", forget), c), added)
        return node("Mul", node("Sigmoid", out), node("Tanh", c)), c

    return _dynamic_layer(translation, call, cell)


@rule("dynamic_gru")
def dynamic_gru(translation: Translation, call: Call) -> tuple[str, ...]:
    """The steps of a GRU layer, one after the other."""

    def cell(node: Any, x: list[str], y: list[str], h: str) -> tuple[str]:
        reset, update = (node("Sigmoid", node("Add", *pair)) for pair in zip(x[:2], y))
        new = node("Tanh", node("Add", x[2], node("Mul", reset, y[2])))
        return (node("Add", new, node("Mul", update, node("Sub", h, new))),)

    return _dynamic_layer(translation, call, cell)


def _dynamic_layer(translation: Translation, call: Call, cell: Any) -> tuple[str, ...]:
    """All states of a layer, (steps * N, H) each."""
    graph, (x, weight, scale, bias, *start), (last, reverse) = translation.graph, call.inputs, call.attributes
    (rows, wide), (batch, size) = translation.shape(x), translation.shape(start[0])
    states, outputs = tuple(translation.name(state) for state in start), {}
    for first in range(0, rows, batch)[:: -1 if reverse else 1]:
        inputs = graph.slice(translation.name(x), 0, first, first + batch)
        product = _dynamic_product(translation, states[0], [weight, scale, bias], last)
        parts = [[graph.slice(value, 1, k, k + size) for k in range(0, wide, size)] for value in (inputs, product)]
        states = outputs[first] = cell(graph.node, *parts, *states)
    return tuple(graph.node("Concat", *column, axis=0) for column in zip(*[outputs[at] for at in sorted(outputs)]))


def _integer_matmul(translation: Translation, left: str, left_zero: str | int, weight: Value) -> str:
    """MatMulInteger of uint8 with the transpose of an int8 weight (out, in)."""
    graph = translation.graph
    zero = graph.constant(left_zero, dtypes.uint8) if isinstance(left_zero, int) else left_zero
    right = graph.transpose(_unsigned(translation, weight), (1, 0))
    return graph.node("MatMulInteger", left, right, zero, graph.constant(128, dtypes.uint8))


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
    """The step that makes a value, if it is of one of these ops and nothing writes to the value."""
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


def static_linear(translation: Translation, call: Call) -> StaticLayer | None:
    """The layer of a product of integers; None where its scales have another form."""
    x, weight, offset, multiplier = call.inputs
    zero, low, high = call.attributes
    least, most = LIMITS[translation.dtype(x)]
    ratio, steps = _scales(translation, multiplier)
    weight = _source(translation, weight, "permute", *_MOVES)
    if steps is None or translation.rank(weight) != 2:
        return None
    x_zero, bias = _offset_parts(translation, offset)
    if x_zero is None or high != most or low not in (least, zero):
        return None
    scale_of_weight = _source(translation, steps.inputs[0], "copy")
    return StaticLayer(
        x, weight, scale_of_weight, steps.inputs[1], x_zero, ratio.inputs[0], bias, ratio.inputs[1], zero,
        low != least,
    )  # fmt: skip


def _scales(translation: Translation, multiplier: Any) -> tuple[Call, Call] | tuple[None, None]:
    """The steps (multiplier = steps / scale of the result, steps = scale of the weight * scale of x).

    Steps that are greater for a large bias (`WeightParts.fitting`) have the same products.
    """
    ratio = made_by(translation, _source(translation, multiplier, "expand", "as_strided", *_MOVES), "div")
    if ratio is None:
        return None, None
    greater = made_by(translation, ratio.inputs[0], "maximum")
    steps = made_by(translation, ratio.inputs[0] if greater is None else greater.inputs[0], "mul")
    if steps is None:
        return None, None
    return (ratio, steps) if isinstance(ratio.inputs[1], float) and isinstance(steps.inputs[1], float) else (None, None)


def _offset_parts(translation: Translation, offset: Any) -> tuple[int | None, Any]:
    """(the zero point, the bias in steps) that make up an offset; the zero point is None for another form."""
    added = made_by(translation, offset, "add")
    sums = made_by(translation, added.inputs[0] if added is not None else offset, "mul")
    if sums is None or not isinstance(sums.inputs[1], int):
        return None, None
    return -sums.inputs[1], None if added is None else added.inputs[1]


def static_convolution(translation: Translation, call: Call) -> StaticLayer | None:
    """The layer of a convolution of integers (N, H, W, C); None where scales or images have another form."""
    images, filters, offset, multiplier = call.inputs
    stride, padding, dilation, groups, fill, zero, low, high = call.attributes
    least, most = LIMITS[translation.dtype(images)]
    ratio, steps = _scales(translation, multiplier)
    permute = made_by(translation, _source(translation, images, "row_major"), "permute")
    weight = _source(translation, filters, "permute", *_MOVES)
    if steps is None or permute is None or tuple(permute.attributes[0]) != (0, 2, 3, 1):
        return None
    if weight is filters or translation.rank(weight) != 4:
        return None
    x_zero, bias = _offset_parts(translation, offset)
    if x_zero != fill or high != most or low not in (least, zero):
        return None
    attributes = {"strides": [*stride], "dilations": [*dilation], "pads": [*padding, *padding], "group": groups}
    return StaticLayer(
        permute.inputs[0], weight, _source(translation, steps.inputs[0], "copy"), steps.inputs[1], fill,
        ratio.inputs[0], bias, ratio.inputs[1], zero, low != least, attributes,
    )  # fmt: skip


@rule("byte_convolution")
def byte_convolution(translation: Translation, call: Call) -> str:
    """A convolution of integers whose scales are not in the program: Conv of float32, and the steps after it."""
    graph, node, (images, filters, offset, multiplier) = translation.graph, translation.graph.node, call.inputs
    stride, padding, dilation, groups, fill, zero, low, high = call.attributes
    floats = [graph.cast(translation.name(value), dtypes.float32) for value in (images, filters, offset)]
    centred = graph.transpose(node("Sub", floats[0], graph.constant(float(fill), dtypes.float32)), (0, 3, 1, 2))
    total = node(
        "Conv", centred, graph.transpose(floats[1], (0, 3, 1, 2)), kernel_shape=[*translation.shape(filters)[1:3]],
        strides=[*stride], dilations=[*dilation], pads=[*padding, *padding], group=groups,
    )  # fmt: skip
    sums = node("ReduceSum", floats[1], graph.constant([1, 2, 3]), keepdims=0)
    added = node("Add", floats[2], node("Mul", sums, graph.constant(float(fill), dtypes.float32)))
    scaled = node("Mul", node("Add", graph.transpose(total, (0, 2, 3, 1)), added), translation.name(multiplier))
    shifted = node("Add", node("Round", scaled), graph.constant(float(zero), dtypes.float32))
    limits = [graph.constant(float(bound), dtypes.float32) for bound in (low, high)]
    return graph.cast(node("Clip", shifted, *limits), translation.dtype(call.results[0]))


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
    return _channels_last(translation, call, name) if layer.convolution else name


def _bias(translation: Translation, layer: StaticLayer, axis: dict[str, int]) -> str:
    """The bias, from integers with the scale of the products."""
    graph, name = translation.graph, translation.name(layer.bias)
    if translation.dtype(layer.bias) is not dtypes.int32:
        name = graph.cast(name, dtypes.int32)
    steps = translation.name(layer.steps)
    steps = steps if axis else graph.node("Squeeze", steps)
    return graph.node("DequantizeLinear", name, steps, **axis)


def _channels_last(translation: Translation, call: Call, name: str) -> str:
    """A convolution's result (N, C, H, W) with the channels last; a step that turns it back is left out."""
    permute = translation.only_user(call.results[0])
    if permute is not None and permute.op.name == "permute" and tuple(permute.attributes[0]) == (0, 3, 1, 2):
        translation.names[permute.results[0]] = name
        translation.done.add(permute.number)
        return name
    return translation.graph.transpose(name, (0, 2, 3, 1))
