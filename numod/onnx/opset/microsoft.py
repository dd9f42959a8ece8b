"""Operators of ONNX Runtime's domain com.microsoft that exporters, optimizers and quantizers emit."""

from __future__ import annotations

import numod
import numod.nn.functional as F

from ...core import Tensor
from ..registry import MICROSOFT, operator
from .arithmetic import gemm
from .attention import merge_heads, split_heads
from .convolution import conv


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


@operator("Inverse", domain=MICROSOFT)
def inverse(x: Tensor) -> Tensor:
    """The inverse of matrices."""
    return numod.linalg.inv(x)
