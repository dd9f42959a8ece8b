"""Attention: scaled dot products of queries and keys weigh the values; several heads with their projections."""

from __future__ import annotations

from math import sqrt

from ... import dtypes
from ...core import creation, functions as f
from ...core.tensor import Tensor
from .activation import softmax
from .dropout import dropout
from .linear import linear

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key^T * scale + mask) @ value for (..., L, E), (..., S, E), (..., S, Ev) -> (..., L, Ev). Vaswani et al., 2017.

    A bool mask (..., L, S) tells who takes part; rows where nobody does give 0. `is_causal`: position i sees 0 to i. `enable_gqa`: keys and values have
    fewer heads, each for several of the query's.
    """
    if is_causal and attn_mask is not None:
        raise RuntimeError("scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if enable_gqa:
        repeats = query.shape[-3] // key.shape[-3]
        key, value = (each.repeat_interleave(repeats, -3) for each in (key, value))
    scores = f.matmul(query * (1.0 / sqrt(query.shape[-1]) if scale is None else scale), key.transpose(-2, -1))
    blocked = None
    if is_causal:
        rows, columns = query.shape[-2], key.shape[-2]
        blocked = creation.arange(columns, device=query.device) > creation.arange(rows, device=query.device).unsqueeze(1)
    elif attn_mask is not None:
        blocked = ~attn_mask if attn_mask.dtype is dtypes.bool_ else None
        scores = scores if blocked is not None else scores + attn_mask
    if blocked is not None:
        scores = f.masked_fill(scores, blocked, float("-inf"))
    weights = softmax(scores, -1)
    if blocked is not None and not is_causal:
        weights = f.masked_fill(weights, blocked.all(-1, keepdim=True), 0.0)  # nobody to attend to: NaN otherwise
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p)
    return f.matmul(weights, value)


def _mask_of(name: str, mask: Tensor | None, like: Tensor) -> Tensor | None:
    """A mask to be added: -inf where a bool mask is True."""
    if mask is None or mask.is_floating_point():
        return mask
    if mask.dtype is not dtypes.bool_:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return f.masked_fill(like.new_zeros(mask.shape), mask, float("-inf"))


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor | None, in_proj_bias: Tensor | None,
    bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True,
    key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None, static_k: Tensor | None = None,
    static_v: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of several heads over (L, N, E), (S, N, Ek), (S, N, Ev), or without N -> (result (L, N, E), weights (N, L, S) or None)."""
    batched = query.ndim == 3
    if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor with {key.ndim}-D key and {value.ndim}-D value")
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = key_padding_mask if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, size = query.shape
    if size != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {size}")
    width = size // num_heads
    if width * num_heads != size:
        raise AssertionError(f"embed_dim {size} not divisible by num_heads {num_heads}")
    if key.shape[:2] != value.shape[:2]:
        raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias, (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None)
    mask, padding = _mask_of("attn_mask", attn_mask, q), _mask_of("key_padding_mask", key_padding_mask, q)
    if mask is not None:
        wanted = (length, key.shape[0]) if mask.ndim == 2 else (batch * num_heads, length, key.shape[0])
        if tuple(mask.shape) != wanted:
            raise RuntimeError(f"The shape of the {mask.ndim}D attn_mask is {tuple(mask.shape)}, but should be {wanted}.")
        mask = mask.unsqueeze(0) if mask.ndim == 2 else mask
    if bias_k is not None and bias_v is not None:
        k, v = f.cat([k, bias_k.expand((1, batch, size))], 0), f.cat([v, bias_v.expand((1, batch, size))], 0)
        mask, padding = (each if each is None else f.pad_constant(each, (0, 1)) for each in (mask, padding))
    heads = lambda x: f.transpose(f.reshape(f.contiguous(x), (x.shape[0], batch * num_heads, width)), 0, 1)  # noqa: E731
    q = heads(q)
    k = heads(k) if static_k is None else static_k
    v = heads(v) if static_v is None else static_v
    if add_zero_attn:
        k, v = (f.cat([each, each.new_zeros((batch * num_heads, 1, width))], 1) for each in (k, v))
        mask, padding = (each if each is None else f.pad_constant(each, (0, 1)) for each in (mask, padding))
    if padding is not None:
        if tuple(padding.shape) != (batch, k.shape[1]):
            raise AssertionError(f"expecting key_padding_mask shape of {(batch, key.shape[0])}, but got {tuple(key_padding_mask.shape)}")
        spread = f.reshape(padding.unsqueeze(1).unsqueeze(1).expand((batch, num_heads, 1, k.shape[1])), (batch * num_heads, 1, k.shape[1]))
        mask = spread if mask is None else mask + spread
    scores = f.matmul(q * (1.0 / sqrt(width)), k.transpose(-2, -1))
    weights = softmax(scores if mask is None else scores + mask, -1)
    used = dropout(weights, dropout_p, training)
    result = f.reshape(f.transpose(f.matmul(used, v), 0, 1), (length * batch, size))
    result = f.reshape(linear(result, out_proj_weight, out_proj_bias), (length, batch, size))
    result = result if batched else result.squeeze(1)
    if not need_weights:
        return result, None
    weights = f.reshape(used, (batch, num_heads, length, k.shape[1]))
    weights = f.mean(weights, 1) if average_attn_weights else weights
    return result, weights if batched else weights.squeeze(0)


def _projected(query: Tensor, key: Tensor, value: Tensor, weight: Tensor | None, bias: Tensor | None, separate: tuple | None) -> list[Tensor]:
    """Queries, keys and values, by one weight (3 E, E) or one each; one product where all three are the same tensor."""
    biases = (None,) * 3 if bias is None else f.chunk(bias, 3, 0)
    if separate is None and query is key and key is value:
        return list(f.chunk(linear(query, weight, bias), 3, -1))
    weights = f.chunk(weight, 3, 0) if separate is None else separate
    return [linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)]
