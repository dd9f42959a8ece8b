"""Operators of ONNX Runtime's domain com.microsoft with quantized numbers, as its quantizers emit them."""

from __future__ import annotations

import math

import numod
import numod.nn.functional as F

from ...core import Tensor
from ..registry import MICROSOFT, operator
from .pooling import average_pool
from .quantize import dequantize_linear, dynamic_quantize_linear, matmul_integer, quantize_linear
from .recurrent import lstm


@operator("MatMulNBits", domain=MICROSOFT, state="weight scales zero_points")
def matmul_n_bits(
    x: Tensor,
    weight: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    order: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    K: int,
    N: int,
    accuracy_level: int = 0,
    bits: int = 4,
    block_size: int,
) -> Tensor:
    """x W, where W (K, N) is stored as (N, blocks, bytes), several numbers to a byte, with a scale per block.

    With `order` (g_idx), row k of W has the scale and the zero point of block `order[k]`.
    """
    if bits not in (2, 4, 8):
        raise NotImplementedError(f"expected weights of 2, 4 or 8 bits, got {bits}; quantize again to one of these")
    if order is not None and (bits != 4 or (zero_points is not None and zero_points.dtype is numod.uint8)):
        what = f"weights of {bits} bits" if bits != 4 else "zero points packed as uint8"
        raise NotImplementedError(
            f"rows in another order (g_idx) need weights of 4 bits, and zero points as floats or none; got {what}, for "
            "which ONNX Runtime defines no result. Quantize without g_idx (act_order), or symmetrically"
        )
    blocks = -(-K // block_size)
    numbers = _unpacked(weight.reshape(N, -1), bits)[:, :K]
    block_of = numod.arange(K) // block_size if order is None else order.reshape(-1)[:K].long()
    if zero_points is None:
        zeros: Tensor | float = float(2 ** (bits - 1))
    elif zero_points.dtype is numod.uint8:
        zeros = _unpacked(zero_points.reshape(N, -1), bits)[:, block_of].to(scales.dtype)
    else:
        zeros = zero_points.reshape(N, blocks)[:, block_of]
    dense = (numbers.to(scales.dtype) - zeros) * scales.reshape(N, blocks)[:, block_of]
    return F.linear(x, dense.to(x.dtype), bias)


def _unpacked(packed: Tensor, bits: int) -> Tensor:
    """The numbers of each byte, lowest bits first."""
    if bits == 8:
        return packed
    parts = [numod.bitwise_right_shift(packed, shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return numod.stack(parts, -1).reshape(packed.shape[0], -1)


@operator("DynamicQuantizeMatMul", domain=MICROSOFT, state="b_scale b_zero")
def dynamic_quantize_matmul(
    a: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    """The product with an input that is quantized by its range."""
    values, scale, zero = dynamic_quantize_linear(a)
    return matmul_integer_to_float(values, b, scale, b_scale, zero, b_zero, bias)


@operator("MatMulIntegerToFloat", domain=MICROSOFT, state="a_scale b_scale a_zero b_zero")
def matmul_integer_to_float(
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero: Tensor | None = None,
    b_zero: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The product of integers, scaled."""
    out = matmul_integer(a, b, a_zero, b_zero).to(numod.float32) * (a_scale * b_scale)
    return out if bias is None else out + bias


@operator("QGemm", domain=MICROSOFT, state="a_scale a_zero b_scale b_zero scale zero")
def quantized_gemm(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    c: Tensor | None = None,
    scale: Tensor | None = None,
    zero: Tensor | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """alpha a b + c of quantized matrices, where the int32 c has the product's scale; a float without `scale`."""
    product = matmul_integer(a.T if transA else a, b.T if transB else b, a_zero, b_zero)
    out = (product if c is None else product + c).to(numod.float32) * (alpha * a_scale * b_scale)
    return out if scale is None else quantize_linear(out, scale, zero)


@operator("DynamicQuantizeLSTM", domain=MICROSOFT, state="w w_scale w_zero r r_scale r_zero")
def dynamic_quantize_lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    peephole: Tensor | None = None,
    w_scale: Tensor | None = None,
    w_zero: Tensor | None = None,
    r_scale: Tensor | None = None,
    r_zero: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
) -> tuple:
    """An LSTM with integer weights (directions, inputs, gates). ONNX Runtime quantizes the inputs of products, too."""
    if w_scale is None or r_scale is None:
        raise ValueError("DynamicQuantizeLSTM needs the scales of both weights")
    weights = [_directions(values, scale, zero) for values, scale, zero in ((w, w_scale, w_zero), (r, r_scale, r_zero))]
    return lstm(
        x,
        *weights,
        b,
        lengths,
        initial_h,
        initial_c,
        peephole,
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        activations=activations,
        clip=clip,
        direction=direction,
        hidden_size=hidden_size,
        input_forget=input_forget,
    )


def _directions(values: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """Quantized weights (directions, inputs, gates) as floats (directions, gates, inputs).

    Scales and zero points are per direction, or per direction and gate.
    """
    shape = (values.shape[0], 1, -1)
    numbers = values.to(numod.int32)
    numbers = numbers if zero is None else numbers - zero.reshape(shape).to(numod.int32)
    return (numbers.to(scale.dtype) * scale.reshape(shape)).transpose(1, 2).contiguous()


def _quantized_binary(name: str, function: object) -> None:
    def compute(
        a: Tensor,
        a_scale: Tensor,
        a_zero: Tensor | None,
        b: Tensor,
        b_scale: Tensor,
        b_zero: Tensor | None,
        scale: Tensor,
        zero: Tensor | None = None,
    ) -> Tensor:
        out = function(dequantize_linear(a, a_scale, a_zero), dequantize_linear(b, b_scale, b_zero))
        return quantize_linear(out, scale, zero)

    operator(name, domain=MICROSOFT, state="a_scale a_zero b_scale b_zero scale zero")(compute)


_quantized_binary("QLinearAdd", numod.add)
_quantized_binary("QLinearMul", numod.mul)


@operator("QLinearSigmoid", domain=MICROSOFT, state="x_scale x_zero scale zero")
def qlinear_sigmoid(
    x: Tensor, x_scale: Tensor, x_zero: Tensor | None, scale: Tensor, zero: Tensor | None = None
) -> Tensor:
    """The sigmoid of quantized numbers."""
    return quantize_linear(numod.sigmoid(dequantize_linear(x, x_scale, x_zero)), scale, zero)


@operator("QLinearLeakyRelu", domain=MICROSOFT, state="x_scale x_zero scale zero")
def qlinear_leaky_relu(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    alpha: float = 0.01,
) -> Tensor:
    """LeakyRelu of quantized numbers."""
    return quantize_linear(F.leaky_relu(dequantize_linear(x, x_scale, x_zero), alpha), scale, zero)


@operator("QLinearSoftmax", domain=MICROSOFT, state="x_scale x_zero scale zero")
def qlinear_softmax(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = -1,
    opset: int = 0,
) -> Tensor:
    """Softmax of quantized numbers; before opset 13 over all axes from `axis` on."""
    values = dequantize_linear(x, x_scale, x_zero)
    if opset < 13:
        flat = values.reshape(math.prod(values.shape[: axis % x.ndim]), -1)
        return quantize_linear(F.softmax(flat, 1).reshape(x.shape), scale, zero)
    return quantize_linear(F.softmax(values, axis), scale, zero)


@operator("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(scale: Tensor, zero: Tensor, *parts: Tensor, axis: int) -> Tensor:
    """Quantized tensors, each with its scale and zero point, one after another."""
    values = [dequantize_linear(*parts[k : k + 3]) for k in range(0, len(parts), 3)]
    return quantize_linear(numod.cat(values, axis), scale, zero)


@operator("QLinearGlobalAveragePool", domain=MICROSOFT, state="x_scale x_zero scale zero")
def qlinear_global_average_pool(
    x: Tensor, x_scale: Tensor, x_zero: Tensor, scale: Tensor, zero: Tensor, *, channels_last: int = 0
) -> Tensor:
    """The mean of each channel of quantized numbers."""
    axes = tuple(range(1, x.ndim - 1)) if channels_last else tuple(range(2, x.ndim))
    return quantize_linear(dequantize_linear(x, x_scale, x_zero).mean(axes, keepdim=True), scale, zero)


@operator("QLinearAveragePool", domain=MICROSOFT, state="x_scale x_zero scale zero")
def qlinear_average_pool(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    channels_last: int = 0,
    count_include_pad: int = 0,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Means of windows of quantized numbers."""
    values = dequantize_linear(x, x_scale, x_zero)
    out = average_pool(
        values.movedim(-1, 1) if channels_last else values,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    return quantize_linear(out.movedim(1, -1) if channels_last else out, scale, zero)


@operator("QLinearWhere", domain=MICROSOFT, state="a_scale a_zero b_scale b_zero scale zero")
def quantized_where(
    condition: Tensor,
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor | None,
    scale: Tensor,
    zero: Tensor | None = None,
) -> Tensor:
    """`a` where the condition holds, else `b`, of quantized numbers."""
    out = numod.where(condition, dequantize_linear(a, a_scale, a_zero), dequantize_linear(b, b_scale, b_zero))
    return quantize_linear(out, scale, zero)
