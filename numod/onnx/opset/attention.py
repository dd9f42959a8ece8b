"""Attention and what goes with it: rotary embeddings, caches, linear attention, causal convolutions."""

from __future__ import annotations

import math

import numod
import numod.nn.functional as F

from ...core import Tensor
from ...dtypes import dtype
from ..program import Program
from ..registry import operator
from ..tensors import to_dtype


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(N, T, heads * D) -> (N, heads, T, D)."""
    return x.reshape(x.shape[0], x.shape[1], heads, -1).permute(0, 2, 1, 3)


def merge_heads(x: Tensor) -> Tensor:
    """(N, heads, T, D) -> (N, T, heads * D)."""
    return x.permute(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def masked_softmax(scores: Tensor) -> Tensor:
    """Softmax along the last axis; rows where all is masked are zeros."""
    empty = numod.isneginf(scores.amax(-1, keepdim=True))
    return numod.softmax(scores.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)


@operator("Attention", since=23)
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    outputs: int,
) -> object:
    """Scaled dot-product attention with masks, caches, grouped heads, windows, and a limit for scores."""
    is_flat = query.ndim == 3
    if is_flat:
        if not q_num_heads or not kv_num_heads:
            raise ValueError("inputs of three dimensions need q_num_heads and kv_num_heads")
        query = split_heads(query, q_num_heads)
        key, value = split_heads(key, kv_num_heads), split_heads(value, kv_num_heads)
    offset = 0 if past_key is None else past_key.shape[2]
    key = key if past_key is None else numod.cat([past_key, key], 2)
    value = value if past_value is None else numod.cat([past_value, value], 2)
    present = key, value
    allowed = _allowed(query, key, lengths, offset, is_causal, left_window_size, right_window_size)
    bias = _bias(mask, allowed, key.shape[2], query.dtype)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if outputs < 4 and not softcap and query.shape[1] == key.shape[1] and bias is None and softmax_precision is None:
        out = F.scaled_dot_product_attention(query, key, value, scale=scale)
        return _results(out, present, None, is_flat, outputs)
    repeats = query.shape[1] // key.shape[1]
    if repeats > 1:
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    root = math.sqrt(scale)
    scores = [(query * root) @ (key * root).mT]
    scores.append(softcap * numod.tanh(scores[0] / softcap) if softcap else scores[0])
    scores.append(scores[1] if bias is None else scores[1] + bias)
    wide = scores[2] if softmax_precision is None else scores[2].to(to_dtype(softmax_precision))
    probabilities = masked_softmax(wide).to(query.dtype)
    stages = {0: scores[0], 1: scores[1], 2: scores[2], 3: probabilities}
    return _results(probabilities @ value, present, stages[qk_matmul_output_mode], is_flat, outputs)


def _allowed(
    query: Tensor, key: Tensor, lengths: Tensor | None, offset: int, is_causal: int, left: int, right: int
) -> Tensor | None:
    """Which keys each query may see, by order, window and the number of keys that count; None if all."""
    rows, columns = numod.arange(query.shape[2]).reshape(-1, 1), numod.arange(key.shape[2])
    start = offset
    if lengths is not None and not offset:
        start = (lengths - query.shape[2]).reshape(-1, 1, 1, 1)
    distance = rows + start - columns
    conditions = []
    if is_causal:
        conditions.append(distance >= 0)
    if left >= 0:
        conditions.append(distance <= left)
    if right >= 0:
        conditions.append(-distance <= right)
    if lengths is not None:
        conditions.append(columns < lengths.reshape(-1, 1, 1, 1))
    result = None
    for condition in conditions:
        result = condition if result is None else result & condition
    return result


def _bias(mask: Tensor | None, allowed: Tensor | None, count: int, kind: dtype) -> Tensor | None:
    """What is added to scores. A mask that is too short covers the first keys; the others are not seen."""
    if mask is not None and mask.dtype is numod.bool:
        mask = numod.zeros(mask.shape, dtype=kind).masked_fill(~mask, -math.inf)
    if mask is not None and mask.shape[-1] < count:
        mask = F.pad(mask, [0, count - mask.shape[-1]], value=-math.inf)
    if allowed is None:
        return mask
    forbidden = numod.zeros(allowed.shape, dtype=kind).masked_fill(~allowed, -math.inf)
    return forbidden if mask is None else mask + forbidden


def _results(out: Tensor, present: tuple, scores: Tensor | None, is_flat: bool, outputs: int) -> object:
    out = merge_heads(out) if is_flat else out
    return (out, *present, scores)[:outputs] if outputs > 1 else out


@operator("FlexAttention", domain="ai.onnx.preview")
def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    prob_mod: Program | None = None,
    scale: float | None = None,
    score_mod: Program | None = None,
    softmax_precision: int | None = None,
    scope: dict,
) -> Tensor:
    """Attention with graphs that change scores and probabilities."""
    repeats = query.shape[1] // key.shape[1]
    key, value = (part.repeat_interleave(repeats, 1) if repeats > 1 else part for part in (key, value))
    kind = numod.float64 if query.dtype is numod.float64 else numod.float32
    kind = kind if softmax_precision is None else to_dtype(softmax_precision)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query @ key.mT).to(kind) * scale
    scores = scores if score_mod is None else score_mod.run((scores,), scope)[0]
    probabilities = masked_softmax(scores)
    probabilities = probabilities if prob_mod is None else prob_mod.run((probabilities,), scope)[0]
    return (probabilities.to(value.dtype) @ value).to(query.dtype)


@operator("RotaryEmbedding", since=23)
def rotary_embedding(
    x: Tensor,
    cosines: Tensor,
    sines: Tensor,
    places: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Pairs of features rotated by angles that depend on the place."""
    rows = split_heads(x, num_heads) if x.ndim == 3 else x
    size = rotary_embedding_dim or rows.shape[-1]
    rotated, rest = rows[..., :size], rows[..., size:]
    if places is not None:
        cosines, sines = cosines[places], sines[places]
    cosines, sines = cosines.unsqueeze(1), sines.unsqueeze(1)
    if interleaved:
        first, second = rotated[..., 0::2], rotated[..., 1::2]
    else:
        first, second = rotated[..., : size // 2], rotated[..., size // 2 :]
    real, imaginary = cosines * first - sines * second, sines * first + cosines * second
    if interleaved:
        rotated = numod.stack([real, imaginary], -1).reshape(rotated.shape)
    else:
        rotated = numod.cat([real, imaginary], -1)
    out = numod.cat([rotated, rest], -1) if rest.shape[-1] else rotated
    return merge_heads(out) if x.ndim == 3 else out


@operator("TensorScatter", since=24)
def tensor_scatter(
    cache: Tensor, update: Tensor, starts: Tensor | None = None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    """A cache with updates written from a start per example on, which may wrap around."""
    axis = axis % cache.ndim
    places = numod.arange(update.shape[axis]).reshape([-1 if k == axis else 1 for k in range(cache.ndim)])
    if starts is not None:
        places = places + starts.reshape(-1, *[1] * (cache.ndim - 1))
    places = places % cache.shape[axis] if mode == "circular" else places
    return cache.scatter(axis, places.expand(update.shape), update)


@operator("LinearAttention", since=27)
def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past_state: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> tuple:
    """Attention by a state that each step decays, corrects and adds to."""
    if update_rule not in ("linear", "gated", "delta", "gated_delta"):
        raise ValueError(f"unknown update_rule {update_rule}")
    kind, state_kind = query.dtype, query.dtype if past_state is None else past_state.dtype
    q, k, v = (
        split_heads(part, heads).to(numod.float32)
        for part, heads in ((query, q_num_heads), (key, kv_num_heads), (value, kv_num_heads))
    )
    decays = None if decay is None else numod.exp(split_heads(decay, kv_num_heads).to(numod.float32))
    rates = None if beta is None else split_heads(beta, beta.shape[-1]).to(numod.float32)
    state = numod.zeros(q.shape[0], kv_num_heads, k.shape[-1], v.shape[-1])
    state = state if past_state is None else past_state.to(numod.float32)
    repeats, results = q_num_heads // kv_num_heads, []
    for step in range(q.shape[2]):
        row, new = k[:, :, step, :, None], v[:, :, step, None, :]
        if update_rule.startswith("gated"):
            state = state * decays[:, :, step, :, None]
        if update_rule.endswith("delta"):
            new = rates[:, :, step, :, None] * (new - row.mT @ state)
        state = state + row * new
        read = state.repeat_interleave(repeats, 1) if repeats > 1 else state
        results.append(q[:, :, step, None, :] @ read)
    out = numod.cat(results, 2) * (scale or 1 / math.sqrt(q.shape[-1]))
    return merge_heads(out).to(kind), state.to(state_kind)


@operator("CausalConvWithState", since=27)
def causal_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    past_state: Tensor | None = None,
    *,
    activation: str = "none",
) -> tuple:
    """A depthwise convolution over the past, whose last inputs are the next call's state."""
    reach = weight.shape[-1] - 1
    before = numod.zeros(x.shape[0], x.shape[1], reach, dtype=x.dtype) if past_state is None else past_state
    whole = numod.cat([before, x], 2)
    out = F.conv1d(whole, weight, bias, groups=x.shape[1])
    out = F.silu(out) if activation in ("silu", "swish") else out
    return out, whole[:, :, whole.shape[2] - reach :]
