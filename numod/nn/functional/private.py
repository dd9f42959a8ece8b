"""Helpers that copies of PyTorch's layers import from `nn.functional`, under PyTorch's private names."""

from __future__ import annotations

import warnings
from math import prod
from typing import Any

from ...errors import warn_caller
from ... import dtypes
from ...core import Tensor
from ...core import functions as f
from ...core.overrides import handle_torch_function as handle_torch_function
from ...core.overrides import has_torch_function as has_torch_function
from ...core.overrides import has_torch_function_unary as has_torch_function_unary
from ...core.overrides import has_torch_function_variadic as has_torch_function_variadic
from .embedding import _renormalize_rows
from .linear import linear


def _none_or_dtype(input: Tensor | None) -> dtypes.dtype | None:
    """The dtype of a tensor; None for None. Raises RuntimeError for anything else."""
    if input is not None and not isinstance(input, Tensor):
        raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")
    return None if input is None else input.dtype


def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: dtypes.dtype | None,
    other_name: str,
    target_type: dtypes.dtype,
    check_other: bool = True,
) -> Tensor | None:
    """An attention mask to add to the scores: -inf where a bool mask is True. A floating mask stays.

    Raises AssertionError for other masks. With `check_other`, another dtype than the other mask's is a warning.
    """
    if mask is None:
        return None
    if mask.dtype is not dtypes.bool_ and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype is not other_type:
        text = f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead."
        warn_caller(text)
    if mask.is_floating_point():
        return mask
    return f.masked_fill(mask.new_zeros(mask.shape, dtype=target_type), mask, float("-inf"))


def _in_projection_packed(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The projected query, key and value of attention, by the weights (3 E, E) and the bias (3 E)."""
    size = q.shape[-1]
    if q is k is v:
        projected = linear(q, w, b)
        return tuple(part.contiguous() for part in projected.split(size, -1))
    biases = (None, None, None) if b is None else b.chunk(3)
    return tuple(linear(x, weight, bias) for x, weight, bias in zip((q, k, v), w.chunk(3), biases))


def _in_projection(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    b_q: Tensor | None = None,
    b_k: Tensor | None = None,
    b_v: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The projected query, key and value of attention, by a weight (E, size of the input) and a bias (E) each.

    Raises AssertionError for other shapes.
    """
    size = q.shape[-1]
    rows = ("query", q, w_q, b_q), ("key", k, w_k, b_k), ("value", v, w_v, b_v)
    for name, x, weight, _ in rows:
        if weight.shape != (size, x.shape[-1]):
            expected = (size, x.shape[-1])
            raise AssertionError(f"expecting {name} weights shape of {expected}, but got {weight.shape}")
    for name, _, _, bias in rows:
        if bias is not None and bias.shape != (size,):
            raise AssertionError(f"expecting {name} bias shape of {(size,)}, but got {bias.shape}")
    return tuple(linear(x, weight, bias) for _, x, weight, bias in rows)


def _mha_shape_check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Whether attention's query (L, N, E) is batched; (L, E) is not. Raises AssertionError for what does not fit."""
    if query.ndim not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor"
        )
    ndim, is_batched = query.ndim, query.ndim == 3
    label = f"For {'batched' if is_batched else 'unbatched'} ({ndim}-D) `query`, expected"
    if key.ndim != ndim or value.ndim != ndim:
        raise AssertionError(
            f"{label} `key` and `value` to be {ndim}-D but found {key.ndim}-D and {value.ndim}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.ndim != ndim - 1:
        raise AssertionError(
            f"{label} `key_padding_mask` to be `None` or {ndim - 1}-D but found {key_padding_mask.ndim}-D tensor "
            "instead"
        )
    if attn_mask is not None and attn_mask.ndim not in (2, 3):
        raise AssertionError(
            f"{label} `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.ndim}-D tensor instead"
        )
    expected = (num_heads, query.shape[0], key.shape[0])
    if not is_batched and attn_mask is not None and attn_mask.ndim == 3 and attn_mask.shape != expected:
        raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}")
    return is_batched


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The dimension of a softmax without `dim`, with a warning."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def _verify_batch_size(size: Any) -> None:
    """Raise ValueError for an input (N, C, ...) with one value per channel, whose variance is zero."""
    if prod([size[0], *size[2:]]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def _verify_spatial_size(size: Any) -> None:
    """Raise ValueError for an input (N, C, ...) with one spatial element."""
    if prod(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {size}")


def _no_grad_embedding_renorm_(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows of an embedding that `input` names to at most `max_norm`, in place."""
    _renormalize_rows(weight, input.flatten(), max_norm, norm_type)
