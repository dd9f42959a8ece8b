"""Matrix products and convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import dtypes
from ..symbols import Call, Size
from .graph import Unsupported
from .rules import rule

if TYPE_CHECKING:
    from ...graph.ir.program import Value
    from .translate import Translation


@rule("matmul")
def matmul(translation: Translation, call: Call) -> str:
    """a @ b."""
    graph = translation.graph
    names = []
    for value, transposed in zip(call.inputs, call.attributes):
        order = [*range(translation.rank(value))]
        if transposed and len(order) > 1:
            order[-2:] = order[:-3:-1]
        names.append(graph.transpose(translation.name(value), order))
    if translation.dtype(call.inputs[0]) in (dtypes.int8, dtypes.int16, dtypes.uint8):
        wide = [graph.cast(name, dtypes.int32) for name in names]
        return graph.cast(graph.node("MatMul", *wide), translation.dtype(call.results[0]))
    return graph.node("MatMul", *names)


@rule("linear")
def linear(translation: Translation, call: Call) -> str:
    """x @ weight.T + bias: Gemm for matrices, else MatMul and Add."""
    graph, (x, weight, bias) = translation.graph, call.inputs
    names = [translation.name(value) for value in (x, weight, bias) if value is not None]
    if translation.rank(x) == 2 and translation.dtype(x).kind == "f":
        return graph.node("Gemm", *names, transB=1)
    name = graph.node("MatMul", names[0], graph.transpose(names[1], (1, 0)))
    return name if bias is None else graph.node("Add", name, names[2])


@rule("convolution")
def convolution(translation: Translation, call: Call) -> str:
    """Conv, with the bias that is added next."""
    graph, (x, weight) = translation.graph, call.inputs
    stride, padding, dilation, groups, shape = call.attributes
    _check_dtype(translation, x)
    kernel = translation.static_shape(weight, "a convolution's kernel")[2:]
    pads = [*padding, *padding]
    if shape is not None:
        sizes = translation.shape(x)[2:]
        pads[len(padding) :] = [
            end_padding(out, size, k, s, p, d)
            for out, size, k, s, p, d in zip(shape[2:], sizes, kernel, stride, padding, dilation)
        ]
    bias, added = _added_bias(translation, call)
    names = [translation.name(value) for value in (x, weight)] + bias
    name = graph.node(
        "Conv",
        *names,
        strides=list(stride),
        pads=pads,
        dilations=list(dilation),
        group=groups,
        kernel_shape=list(kernel),
    )
    return _finish(translation, name, added)


@rule("convolution_input")
def transposed_convolution(translation: Translation, call: Call) -> str:
    """ConvTranspose, with the bias that is added next."""
    graph, (x, weight) = translation.graph, call.inputs
    stride, padding, dilation, groups, shape = call.attributes
    _check_dtype(translation, x)
    kernel = translation.static_shape(weight, "a convolution's kernel")[2:]
    further = [
        out - ((size - 1) * s - 2 * p + d * (k - 1) + 1)
        for out, size, k, s, p, d in zip(shape[2:], translation.shape(x)[2:], kernel, stride, padding, dilation)
    ]
    if any(isinstance(size, Size) for size in further):
        raise Unsupported("the size of a transposed convolution must follow from its input's; leave out output_size")
    bias, added = _added_bias(translation, call)
    names = [translation.name(value) for value in (x, weight)] + bias
    name = graph.node(
        "ConvTranspose", *names, strides=list(stride), pads=[*padding, *padding], dilations=list(dilation),
        output_padding=further, group=groups, kernel_shape=list(kernel),
    )  # fmt: skip
    return _finish(translation, name, added)


def _check_dtype(translation: Translation, x: Value) -> None:
    if translation.dtype(x).kind != "f":
        raise Unsupported(f"Conv does not take {translation.dtype(x)}; convert to float32")


def end_padding(out: int, size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """The padding after the last element with which a convolution has `out` results."""
    needed = (out - 1) * stride + dilation * (kernel - 1) + 1 - size - padding
    if isinstance(needed, Size) or needed < 0:
        return padding
    return needed


def _added_bias(translation: Translation, call: Call) -> tuple[list[str], Call | None]:
    """(the bias as an input, the step that adds it), where the next step only adds a bias per channel."""
    user = translation.only_user(call.results[0])
    if user is None or user.op.name != "add" or user.in_place or user.inputs[0] != call.results[0]:
        return [], None
    viewed = translation.producers.get(user.inputs[1])
    channels = translation.shape(call.results[0])[1]
    if viewed is None or viewed.op.name != "view" or viewed.inputs[0] not in translation.program.held:
        return [], None
    shape = translation.shape(user.inputs[1])
    is_bias = shape == (channels, *[1] * (translation.rank(call.results[0]) - 2))
    if not is_bias or translation.rank(viewed.inputs[0]) != 1 or viewed.inputs[0] in translation.written:
        return [], None
    return [translation.name(viewed.inputs[0])], user


def _finish(translation: Translation, name: str, added: Call | None) -> str:
    if added is not None:
        translation.names[added.results[0]] = name
        translation.done.add(added.number)
    return name
