"""Attention: scaled dot-product attention, and multi-head attention with its projections."""

from __future__ import annotations

from math import prod, sqrt

from ... import dtypes
from ...core import functions as f
from ...core.create import random
from ...core.extensions import extensions
from ...core.tensor import Tensor
from ...errors import warn_caller
from ...ops.attention import attention as op
from ...ops.pointwise import broadcast_shapes
from .activation import softmax
from .dropout import dropout
from .linear import linear

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key^T * scale + mask) @ value for (..., L, E), (..., S, E), (..., S, Ev) -> (..., L, Ev).

    A bool mask (..., L, S) is True where a key takes part; a floating mask is added to the scores. Fully masked rows
    are 0. With `is_causal`, position i attends to positions 0 to i. With `enable_gqa`, keys and values have fewer
    heads, each shared by several heads of the query. On the CPU the (L, S) scores are never materialized, except if the
    mask requires a gradient and for double backward. Vaswani et al., 2017.

    Example:

        >>> q = torch.ones(2, 4, 5, 8)
        >>> F.scaled_dot_product_attention(q, q, q, is_causal=True).shape
        numod.Size([2, 4, 5, 8])
    """
    _check(query, key, value, attn_mask, dropout_p, is_causal)
    scale = 1.0 / sqrt(query.shape[-1] or 1) if scale is None else scale
    if type(scale) not in (int, float):  # a compiled function's symbolic number, or a tensor
        query, scale = query * scale, 1.0
    mask = attn_mask if attn_mask is None or attn_mask.dtype is dtypes.bool_ else attn_mask.to(query.dtype)
    if enable_gqa:
        return f.flatten(_attention(*_grouped(query, key, value, mask), dropout_p, is_causal, float(scale)), -4, -3)
    return _attention(query, key, value, mask, dropout_p, is_causal, float(scale))


def _grouped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple:
    """Queries (..., H, L, E) as (..., Hk, H / Hk, L, E): grouped by the head of the keys and values they share."""
    heads, kv_heads = query.shape[-3], max(key.shape[-3], value.shape[-3])
    if any(tensor.shape[-3] == 0 or heads % tensor.shape[-3] or kv_heads % tensor.shape[-3] for tensor in (key, value)):
        raise RuntimeError("Number of heads in key and value must divide the number of heads in query")
    key, value = (
        tensor if tensor.shape[-3] == kv_heads else f.repeat_interleave(tensor, kv_heads // tensor.shape[-3], -3)
        for tensor in (key, value)
    )
    split = lambda x: f.unflatten(x, -3, (kv_heads, heads // kv_heads)) if x.shape[-3] == heads else f.unsqueeze(x, -3)  # noqa: E731
    return (
        split(query),
        f.unsqueeze(key, -3),
        f.unsqueeze(value, -3),
        mask if mask is None or mask.ndim < 3 else split(mask),
    )


def _attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, causal: bool, scale: float
) -> Tensor:
    """Attention by the blockwise kernel if it is supported, otherwise composed of ops."""
    tensors = (query, key, value) if mask is None else (query, key, value, mask)
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors[:3])
        raise RuntimeError(
            f"scaled_dot_product_attention: sizes differ; query, key and value are {shapes}, expected (..., L, E), "
            "(..., S, E) and (..., S, Ev)"
        )
    lead = broadcast_shapes("scaled_dot_product_attention", [tensor.shape[:-2] for tensor in tensors])
    if not op.suits(query._layout, prod(lead), key.shape[-2], value.shape[-1], causal or mask is not None) or (
        mask is not None and mask.requires_grad
    ):
        return f.matmul(dropout(op.attention_weights(query, key, mask, scale, causal), dropout_p), value)
    ends = [tensor.shape[-2:] for tensor in tensors[:3]] + [(query.shape[-2], key.shape[-2])]
    tensors = [
        tensor if tensor.shape == (*lead, *end) else f.expand(tensor, (*lead, *end))
        for tensor, end in zip(tensors, ends)
    ]
    if len(lead) > op.LEADS:
        tensors = [f.flatten(tensor, 0, len(lead) - op.LEADS) for tensor in tensors]
    drawn = 0, 0
    if dropout_p > 0.0:
        # raises if examples of `func.vmap` would share numbers that must differ, or the reverse
        extensions.random_count(query, False)
        drawn = random.default_generator.draw(prod(lead) * query.shape[-2] * key.shape[-2])
    out, _ = op.attention.apply((*tensors, *(None,) * (4 - len(tensors)), *drawn), (scale, causal, float(dropout_p)))
    return f.in_shape(out, *lead, *out.shape[-2:]) if len(lead) > op.LEADS else out


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, is_causal: bool) -> None:
    """Raise for arguments of attention that do not fit, as PyTorch does."""
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got "
            f"query.dim: {query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead."
        )
    if not query.dtype is key.dtype is value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype} key.dtype: {key.dtype} and value.dtype: {value.dtype} instead."
        )
    if mask is not None and is_causal:
        raise RuntimeError("scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if mask is not None and mask.dtype not in (dtypes.bool_, query.dtype, dtypes.float32):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but "
            f"got attn_mask.dtype: {mask.dtype} and  query.dtype: {query.dtype} instead."
        )
    if not 0.0 <= dropout_p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")


def _mask_of(name: str, mask: Tensor | None, like: Tensor) -> Tensor | None:
    """A mask to add to the scores: -inf where a bool mask is True."""
    if mask is None or mask.is_floating_point():
        return mask
    if mask.dtype is not dtypes.bool_:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return f.masked_fill(like.new_zeros(mask.shape), mask, float("-inf"))


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Multi-head attention over (L, N, E), (S, N, Ek), (S, N, Ev), or without N.

    Returns (result (L, N, E), weights (N, L, S) or None).

    Example:

        >>> nn.MultiheadAttention(4, 2)(torch.ones(3, 1, 4), torch.ones(3, 1, 4), torch.ones(3, 1, 4))[0].shape
        numod.Size([3, 1, 4])
    """
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    return attend_by_heads(
        query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn,
        dropout_p if training else 0.0,
        out_proj_weight, out_proj_bias, key_padding_mask, need_weights, attn_mask, separate, static_k, static_v,
        average_attn_weights, is_causal, False,
    )  # fmt: skip


def attend_by_heads(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    size: int,
    heads: int,
    weight: Tensor | None,
    bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero: bool,
    dropout_p: float,
    out_weight: Tensor,
    out_bias: Tensor | None,
    key_padding_mask: Tensor | None,
    need_weights: bool,
    attn_mask: Tensor | None,
    separate: tuple | None,
    static_k: Tensor | None,
    static_v: Tensor | None,
    average: bool,
    is_causal: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor | None]:
    """`multi_head_attention_forward` in which N is the first dimension if `batch_first`."""
    _check_heads(query, key, value, size, heads, attn_mask, is_causal)
    batched = query.ndim == 3
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = key_padding_mask if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        batch_first = False
    # permutations to (N, heads, L, width) and back
    time, order, back = (1, (0, 2, 1, 3), (0, 2, 1, 3)) if batch_first else (0, (1, 2, 0, 3), (2, 0, 1, 3))
    batch, length, keys, width = query.shape[1 - time], query.shape[time], key.shape[time], size // heads
    q, k, v = _projected(query, key, value, weight, bias, separate)
    if attn_mask is not None and key_padding_mask is not None and attn_mask.dtype is not key_padding_mask.dtype:
        warn_caller(
            "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type for both instead."
        )
    mask, padding = _mask_of("attn_mask", attn_mask, q), _mask_of("key_padding_mask", key_padding_mask, q)
    if mask is not None:
        wanted = (length, keys) if mask.ndim == 2 else (batch * heads, length, keys)
        if tuple(mask.shape) != wanted:
            raise RuntimeError(
                f"The shape of the {mask.ndim}D attn_mask is {tuple(mask.shape)}, but should be {wanted}."
            )
        mask = mask if mask.ndim == 2 else f.reshape(mask, (batch, heads, length, keys))
    if (bias_k is None) != (bias_v is None):
        present, absent = ("bias_k", "bias_v") if bias_v is None else ("bias_v", "bias_k")
        raise AssertionError(f"{present} is set but {absent} is None; give both or neither")
    if bias_k is not None:
        line = (batch, 1, size) if batch_first else (1, batch, size)
        k, v = f.cat([k, bias_k.expand(line)], time), f.cat([v, bias_v.expand(line)], time)
        mask, padding = (tensor if tensor is None else f.pad_constant(tensor, (0, 1)) for tensor in (mask, padding))
    split_heads = lambda x: f.permute(f.unflatten(x, 2, (heads, width)), order)  # noqa: E731
    q = split_heads(q)
    k = split_heads(k) if static_k is None else f.unflatten(static_k, 0, (batch, heads))
    v = split_heads(v) if static_v is None else f.unflatten(static_v, 0, (batch, heads))
    if add_zero:
        k, v = (f.cat([tensor, tensor.new_zeros((batch, heads, 1, width))], 2) for tensor in (k, v))
        mask, padding = (tensor if tensor is None else f.pad_constant(tensor, (0, 1)) for tensor in (mask, padding))
    if padding is not None:
        if tuple(padding.shape) != (batch, k.shape[2]):
            raise AssertionError(
                f"expecting key_padding_mask shape of {(batch, keys)}, but got {tuple(key_padding_mask.shape)}"
            )
        padding = f.reshape(padding, (batch, 1, 1, k.shape[2]))
        mask = padding if mask is None else mask + padding
    if need_weights or not op.suits(q._layout, batch * heads, k.shape[2], width, mask is not None):
        q, k, v = f.contiguous(q), f.contiguous(k), f.contiguous(v)  # one launch then multiplies all heads
    if need_weights:
        scores = f.matmul(q * (1.0 / sqrt(width)), f.transpose(k, -2, -1))
        used = dropout(softmax(scores if mask is None else scores + mask, -1), dropout_p, dropout_p > 0.0)
        attended = f.matmul(used, v)
    else:  # the blockwise kernel, whose fully masked rows are 0
        attended = scaled_dot_product_attention(q, k, v, mask, dropout_p)
    result = f.reshape(f.permute(attended, back), (*query.shape[:2], size))
    result = linear(result, out_weight, out_bias)
    result = result if batched else result.squeeze(1)
    if not need_weights:
        return result, None
    weights = f.mean(used, 1) if average else used
    return result, weights if batched else weights.squeeze(0)


def _check_heads(
    query: Tensor, key: Tensor, value: Tensor, size: int, num_heads: int, mask: Tensor | None, is_causal: bool
) -> None:
    """Raise for arguments of multi-head attention that do not fit, as PyTorch does."""
    if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor with "
            f"{key.ndim}-D key and {value.ndim}-D value"
        )
    if query.shape[-1] != size:
        raise AssertionError(f"was expecting embedding dimension of {size}, but got {query.shape[-1]}")
    if size % num_heads:
        raise AssertionError(f"embed_dim {size} not divisible by num_heads {num_heads}")
    if key.shape[:-1] != value.shape[:-1]:
        raise AssertionError(f"key's sequence and batch dims {key.shape[:-1]} do not match value's {value.shape[:-1]}")
    if is_causal and mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if mask is not None and mask.ndim not in (2, 3):
        raise AssertionError(f"expected `attn_mask` to be `None`, 2-D or 3-D but found {mask.ndim}-D tensor instead")


def _projected(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor | None, bias: Tensor | None, separate: tuple | None
) -> list[Tensor]:
    """Projected queries, keys and values, with one weight (3 E, E) or separate ones; one product for self-attention."""
    biases = (None,) * 3 if bias is None else f.chunk(bias, 3, 0)
    if separate is None and query is key and key is value:
        return list(f.chunk(linear(query, weight, bias), 3, -1))
    weights = f.chunk(weight, 3, 0) if separate is None else separate
    return [linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)]
