"""Operators of ONNX Runtime's domain com.microsoft that exporters, optimizers and quantizers emit."""

from __future__ import annotations

import math

import numod
import numod.nn.functional as F

from ...core import Tensor
from ..registry import MICROSOFT, operator
from .arithmetic import gemm
from .attention import merge_heads, split_heads
from .convolution import conv
from .pooling import average_pool
from .quantize import dequantize_linear, dynamic_quantize_linear, matmul_integer, quantize_linear


@operator("FusedMatMul", domain=MICROSOFT)
def fused_matmul(
    a: Tensor,
    b: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    """alpha a b, of matrices that may be transposed first."""
    if transBatchA or transBatchB:
        raise NotImplementedError("transBatchA and transBatchB; put a Transpose before the product")
    product = (a.mT if transA else a) @ (b.mT if transB else b)
    return product if alpha == 1 else alpha * product


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    activation: str = "",
    activation_alpha: float = 0.01,
    activation_beta: float = 0.0,
    activation_gamma: float = 0.0,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Gemm with an activation."""
    out = gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return _activated(out, activation, activation_alpha, activation_beta)


def _activated(x: Tensor, name: str, alpha: float, beta: float) -> Tensor:
    functions = {
        "": lambda: x,
        "Relu": lambda: F.relu(x),
        "Sigmoid": lambda: numod.sigmoid(x),
        "Tanh": lambda: numod.tanh(x),
        "LeakyRelu": lambda: F.leaky_relu(x, alpha),
        "Clip": lambda: numod.clamp(x, alpha, beta),
        "HardSigmoid": lambda: numod.clamp(alpha * x + beta, 0.0, 1.0),
    }
    if name not in functions:
        raise NotImplementedError(
            f"the activation {name}, expected one of {', '.join(functions)}; export the model unfused"
        )
    return functions[name]()


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    added: Tensor | None = None,
    *,
    activation: str = "",
    activation_params: list[float] | None = None,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Convolution, then a sum, then an activation."""
    out = conv(
        x,
        weight,
        bias,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    alpha, beta = [*(activation_params or ()), 0.01, 0.0][:2]
    return _activated(out if added is None else out + added, activation, alpha, beta)


@operator("Gelu", domain=MICROSOFT)
def gelu(x: Tensor) -> Tensor:
    """Gaussian error linear unit."""
    return F.gelu(x)


@operator("BiasGelu", domain=MICROSOFT)
def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """gelu(x + bias)."""
    return F.gelu(x + bias)


@operator("FastGelu", domain=MICROSOFT)
def fast_gelu(x: Tensor, bias: Tensor | None = None) -> Tensor:
    """gelu(x + bias), by tanh."""
    return F.gelu(x if bias is None else x + bias, approximate="tanh")


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(x: Tensor, *, alpha: float = 1.702) -> Tensor:
    """x sigmoid(alpha x)."""
    return x * numod.sigmoid(alpha * x)


@operator("BiasAdd", domain=MICROSOFT)
def bias_add(x: Tensor, bias: Tensor, skip: Tensor) -> Tensor:
    """x + bias + skip."""
    return x + bias + skip


@operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(
    x: Tensor,
    skip: Tensor,
    scale: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    outputs: int,
) -> object:
    """Layer normalization of x + skip + bias, which is the fourth output."""
    total = _sum(x, skip, bias)
    out = F.layer_norm(total, (total.shape[-1],), scale, beta, epsilon)
    if outputs == 1:
        return out
    mean, variance = total.mean(-1, keepdim=True), total.var(-1, correction=0, keepdim=True)
    return (out, mean, numod.rsqrt(variance + epsilon), total)[:outputs]


def _sum(x: Tensor, skip: Tensor, bias: Tensor | None) -> Tensor:
    total = x + skip
    return total if bias is None else total + bias


def _rms_norm(x: Tensor, scale: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    inverse = numod.rsqrt((x * x).mean(-1, keepdim=True) + epsilon)
    return x * inverse * scale, inverse


@operator("SimplifiedLayerNormalization")
@operator("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_norm(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1, outputs: int
) -> object:
    """x divided by its root mean square, scaled; over the last axis."""
    if axis not in (-1, x.ndim - 1):
        raise NotImplementedError(f"normalization over axis {axis}; it must be the last, put a Transpose before")
    return _rms_norm(x, scale, epsilon)[:outputs] if outputs > 1 else _rms_norm(x, scale, epsilon)[0]


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_norm(
    x: Tensor, skip: Tensor, scale: Tensor, bias: Tensor | None = None, *, epsilon: float = 1e-5, outputs: int
) -> object:
    """`simplified_layer_norm` of x + skip + bias; this sum is the fourth output."""
    total = _sum(x, skip, bias)
    out, inverse = _rms_norm(total, scale, epsilon)
    return (out, total.mean(-1, keepdim=True), inverse, total)[:outputs] if outputs > 1 else out


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_norm(
    words: Tensor,
    segments: Tensor | None,
    word_weight: Tensor,
    place_weight: Tensor,
    segment_weight: Tensor | None,
    scale: Tensor,
    beta: Tensor,
    mask: Tensor | None = None,
    places: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
    outputs: int,
) -> object:
    """BERT's embedding: words, places and segments, normalized; the second output counts the mask's words."""
    total = F.embedding(words, word_weight)
    total = total + (place_weight[: words.shape[1]] if places is None else F.embedding(places, place_weight))
    if segment_weight is not None and segments is not None:
        total = total + F.embedding(segments, segment_weight)
    out = F.layer_norm(total, (total.shape[-1],), scale, beta, epsilon)
    counts = numod.zeros(words.shape[0], dtype=numod.int32) if mask is None else mask.sum(1).to(numod.int32)
    return (out, counts, total)[:outputs] if outputs > 1 else out


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    heads: int,
    mask: Tensor | None,
    bias: Tensor | None,
    scale: float,
    causal: bool,
    filter_value: float,
) -> Tensor:
    """Attention of (N, T, heads * D); a mask has 0 for keys that are not seen."""
    query, key, value = (split_heads(part, heads) for part in (query, key, value))
    added = bias
    if mask is not None:
        hidden = _hidden(mask, key.shape[2])
        penalty = numod.where(hidden, numod.full((), filter_value), numod.full((), 0.0)).to(query.dtype)
        added = penalty if added is None else added + penalty
    if causal:
        future = numod.ones(query.shape[2], key.shape[2], dtype=numod.bool).triu(key.shape[2] - query.shape[2] + 1)
        penalty = numod.zeros(future.shape, dtype=query.dtype).masked_fill(future, filter_value)
        added = penalty if added is None else added + penalty
    return merge_heads(F.scaled_dot_product_attention(query, key, value, added, scale=scale or None))


def _hidden(mask: Tensor, keys: int) -> Tensor:
    """Which keys are not seen. A vector has the number of keys of each example that are."""
    if mask.ndim == 1:
        return numod.arange(keys) >= mask.reshape(-1, 1, 1, 1)
    shape = {2: (mask.shape[0], 1, 1, mask.shape[-1]), 3: (mask.shape[0], 1, *mask.shape[1:])}
    return mask.reshape(shape.get(mask.ndim, mask.shape)) == 0


@operator("Attention", domain=MICROSOFT)
def attention(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    past: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_length: Tensor | None = None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: list[int] | None = None,
    rotary_embedding_dim: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
    outputs: int,
) -> object:
    """Self-attention with one weight for queries, keys and values."""
    if do_rotary or past_present_share_buffer or outputs > 2:
        raise NotImplementedError(
            "do_rotary, past_present_share_buffer and a third output; export the model without fused attention"
        )
    projected = x @ weight
    projected = projected if bias is None else projected + bias
    sizes = qkv_hidden_sizes or [projected.shape[-1] // 3] * 3
    query, key, value = numod.split(projected, sizes, -1)
    if past is not None:
        key, value = (numod.cat([merge_heads(before), new], 1) for before, new in zip(past, (key, value)))
    out = _attend(query, key, value, num_heads, mask, attention_bias, scale, bool(unidirectional), mask_filter_value)
    if outputs == 1:
        return out
    return out, numod.stack([split_heads(key, num_heads), split_heads(value, num_heads)])


@operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    *,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    scale: float = 0.0,
    unidirectional: int = 0,
    outputs: int,
) -> object:
    """Attention of projected queries, keys and values, (N, T, H), or keys and values by head."""
    if query.ndim == 5:  # (N, T, heads, 3, D)
        query, key, value = (query[:, :, :, k].flatten(2) for k in range(3))
    elif key is not None and key.ndim == 5:  # (N, T, heads, 2, D)
        key, value = (key[:, :, :, k].flatten(2) for k in range(2))
    key, value = (merge_heads(part) if part.ndim == 4 else part for part in (key, value))
    if bias is not None:
        parts = numod.split(bias, [query.shape[-1], key.shape[-1], value.shape[-1]])
        query, key, value = (entry + part for entry, part in zip((query, key, value), parts))
    if past_key is not None:
        key, value = numod.cat([merge_heads(past_key), key], 1), numod.cat([merge_heads(past_value), value], 1)
    out = _attend(query, key, value, num_heads, mask, attention_bias, scale, bool(unidirectional), mask_filter_value)
    present = split_heads(key, num_heads), split_heads(value, num_heads)
    return (out, *present)[:outputs] if outputs > 1 else out


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
    """x W, where W (K, N) is stored as (N, blocks, bytes), several numbers to a byte, with a scale per block."""
    if bits not in (2, 4, 8) or order is not None:
        raise NotImplementedError(
            f"weights of {bits} bits or in another order (g_idx); quantize to 2, 4 or 8 bits without g_idx"
        )
    blocks = -(-K // block_size)
    numbers = _unpacked(weight.reshape(N, -1), bits)[:, : blocks * block_size].reshape(N, blocks, block_size)
    if zero_points is None:
        zeros: Tensor | float = float(2 ** (bits - 1))
    elif zero_points.dtype is numod.uint8:
        zeros = _unpacked(zero_points.reshape(N, -1), bits)[:, :blocks].unsqueeze(-1).to(scales.dtype)
    else:
        zeros = zero_points.reshape(N, blocks, 1)
    dense = (numbers.to(scales.dtype) - zeros) * scales.reshape(N, blocks, 1)
    return F.linear(x, dense.reshape(N, -1)[:, :K].to(x.dtype), bias)


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
    if channels_last:
        raise NotImplementedError("channels_last; export the model with channels after the batch")
    out = average_pool(
        dequantize_linear(x, x_scale, x_zero),
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    return quantize_linear(out, scale, zero)


@operator("Inverse", domain=MICROSOFT)
def inverse(x: Tensor) -> Tensor:
    """The inverse of matrices."""
    return numod.linalg.inv(x)
