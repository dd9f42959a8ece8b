"""Normalization and dropout."""

from __future__ import annotations

import math

import numpy as np

import numod
import numod.nn.functional as F

from ...core import Tensor
from ...dtypes import dtype
from ..program import TRAINING
from ..registry import operator


def _batch_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    epsilon: float,
    momentum: float,
    form: str,
    outputs: int,
) -> object:
    """`form` is "eval"; "train", where the new statistics are outputs; or "update", where they replace the old ones."""
    if form == "eval":
        return F.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)
    if form == "update":
        return F.batch_norm(x, mean, variance, scale, bias, True, 1 - momentum, epsilon)
    axes = (0, *range(2, x.ndim))
    with numod.no_grad():
        new_mean, new_variance = x.mean(axes), x.var(axes, correction=0)
        blended = [momentum * old + (1 - momentum) * new for old, new in ((mean, new_mean), (variance, new_variance))]
    out = F.batch_norm(x, None, None, scale, bias, True, 0.0, epsilon)
    return (out, *blended)[:outputs] if outputs > 1 else out


def _mode(scope: dict, training: int) -> str:
    return "train" if training else "update" if scope[TRAINING] else "eval"


@operator("BatchNormalization", since=1, state="mean variance")
def batch_norm_in_old_version(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float = 1e-5,
    is_test: int = 0,
    momentum: float = 0.9,
    spatial: int = 1,
    consumed_inputs: list[int] | None = None,
    outputs: int,
    scope: dict,
) -> object:
    """Before version 14; `spatial` 0 has statistics for each place, and more than one output means training."""
    form = _mode(scope, outputs > 1 and not is_test)
    if not spatial:
        shape = x.shape
        flat = [value.reshape(-1) for value in (scale, bias, mean, variance)]
        out = _batch_norm(x.reshape(shape[0], -1), *flat, epsilon, momentum, form, 1)
        return out.reshape(shape)
    return _batch_norm(x, scale, bias, mean, variance, epsilon, momentum, form, min(outputs, 3))


@operator("BatchNormalization", since=14, state="mean variance")
def batch_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    outputs: int,
    scope: dict,
) -> object:
    """Normalization by stored statistics, or by the batch's in training."""
    form = _mode(scope, training_mode)
    return _batch_norm(x, scale, bias, mean, variance, epsilon, momentum, form, outputs)


@operator("InstanceNormalization")
def instance_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, consumed_inputs: list[int] | None = None
) -> Tensor:
    """Normalization of each channel of each example."""
    if x.ndim > 2 and x.dtype.is_floating_point and math.prod(x.shape[2:]) > 1:
        return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)
    return F.group_norm(x, x.shape[1], scale, bias, epsilon)


@operator("GroupNormalization", since=18)
def group_norm_in_old_version(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int
) -> Tensor:
    """Before version 21 scale and bias are per group."""
    repeats = x.shape[1] // num_groups
    return F.group_norm(x, num_groups, *(value.repeat_interleave(repeats) for value in (scale, bias)), epsilon)


@operator("GroupNormalization", since=21)
def group_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Tensor:
    """Normalization of groups of channels."""
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@operator("LayerNormalization", since=1)
@operator("LayerNormalization", domain="com.microsoft")
def layer_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    outputs: int,
) -> object:
    """Normalization over the axes from `axis` on, with the means and inverse deviations if they are asked for."""
    axis = axis + x.ndim if axis < 0 else axis
    shape = tuple(x.shape[axis:])
    out = F.layer_norm(x, shape, scale.expand(shape), None if bias is None else bias.expand(shape), epsilon)
    if outputs == 1:
        return out
    axes = tuple(range(axis, x.ndim))
    wide = x.to(numod.float32) if stash_type == 1 else x
    mean = wide.mean(axes, keepdim=True)
    return out, mean, numod.rsqrt(wide.var(axes, correction=0, keepdim=True) + epsilon)


@operator("RMSNormalization", since=23)
def rms_norm(x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Tensor:
    """x divided by its root mean square over the axes from `axis` on."""
    axis = axis + x.ndim if axis < 0 else axis
    shape = tuple(x.shape[axis:])
    wide = x.to(numod.float32) if stash_type == 1 and x.dtype is not numod.float64 else x
    out = wide * numod.rsqrt((wide * wide).mean(tuple(range(axis, x.ndim)), keepdim=True) + epsilon)
    return out.to(x.dtype) * scale.expand(shape)


@operator("LRN")
def local_response_norm(
    x: Tensor, *, alpha: float = 0.0001, beta: float = 0.75, bias: float = 1.0, size: int
) -> Tensor:
    """Each channel divided by a power of the squares around it."""
    before, after = (size - 1) // 2, size // 2
    squares = F.pad((x * x).movedim(1, -1), [before, after]).movedim(-1, 1)
    total = sum((squares.narrow(1, k, x.shape[1]) for k in range(1, size)), squares.narrow(1, 0, x.shape[1]))
    return x / (bias + alpha / size * total) ** beta


@operator("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """x divided by its p-norm along an axis; zeros stay zeros."""
    norm = x.abs().sum(axis, keepdim=True) if p == 1 else (x * x).sum(axis, keepdim=True).sqrt()
    return x / numod.where(norm == 0, numod.ones_like(norm), norm)


@operator("MeanVarianceNormalization", since=9)
def mean_variance_normalization(x: Tensor, *, axes: list[int] | None = None) -> Tensor:
    """x less its mean, divided by its deviation."""
    axes = (0, 2, 3) if axes is None else tuple(axes)
    centred = x - x.mean(axes, keepdim=True)
    return centred / ((centred * centred).mean(axes, keepdim=True).sqrt() + 1e-9)


def _dropout(x: Tensor, ratio: float, drops: bool, outputs: int, mask_dtype: dtype) -> object:
    if outputs == 1:
        return F.dropout(x, ratio, drops)
    mask = numod.rand_like(x) >= ratio if drops else numod.ones_like(x, dtype=numod.bool)
    out = x * mask / (1 - ratio) if drops and ratio < 1 else x * mask if drops else x
    return out, mask.to(mask_dtype)


@operator("Dropout", since=1)
def dropout_in_first_version(
    x: Tensor,
    *,
    is_test: int = 0,
    ratio: float = 0.5,
    consumed_inputs: list[int] | None = None,
    outputs: int,
    scope: dict,
) -> object:
    """Before version 7 is_test of 0 means training, which is what exporters leave out: the module's mode decides."""
    return _dropout(x, ratio, scope[TRAINING], outputs, x.dtype)


@operator("Dropout", since=7)
def dropout_in_old_version(x: Tensor, *, ratio: float = 0.5, outputs: int, scope: dict) -> object:
    """Before version 10 the mask has the input's dtype."""
    return _dropout(x, ratio, scope[TRAINING], outputs, x.dtype)


@operator("Dropout", since=10)
def dropout_with_ratio(x: Tensor, *, ratio: float = 0.5, outputs: int, scope: dict) -> object:
    """Before version 12 the ratio is an attribute."""
    return _dropout(x, ratio, scope[TRAINING], outputs, numod.bool)


@operator("Dropout", since=12, host="ratio training_mode")
def dropout(
    x: Tensor,
    ratio: np.ndarray | None = None,
    training_mode: np.ndarray | None = None,
    *,
    seed: int | None = None,
    outputs: int,
    scope: dict,
) -> object:
    """Zeros with probability `ratio` in training, else the input."""
    drops = scope[TRAINING] or (training_mode is not None and bool(training_mode.reshape(())))
    return _dropout(x, 0.5 if ratio is None else float(ratio.reshape(())), drops, outputs, numod.bool)
