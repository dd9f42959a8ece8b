"""Losses: pointwise rows closed by a reduction, and those with class indices."""

from __future__ import annotations

import warnings

from ... import dtypes
from ...core import functions as f
from ...core.apply import apply
from ...core.tensor import Tensor
from ...ops import reduction as r, softmax as sm, table as t
from .activation import log_softmax
from .reduction import reduced, with_legacy

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "huber_loss", "kl_div", "l1_loss", "mse_loss", "nll_loss",
    "smooth_l1_loss",
]


def _elementwise(row: object, input: Tensor, target: Tensor, reduction: str, weight: Tensor | None, *numbers: float) -> Tensor:  # noqa: A002
    if isinstance(target, Tensor) and target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.", stacklevel=3,
        )
    tensors = [each for each in (input, target, *numbers) if isinstance(each, Tensor)]
    if reduction in ("mean", "sum") and weight is None and input.numel() and all(each._layout.dense and each.shape == input.shape for each in tensors):
        return apply(r.closing(row), (input, target, *numbers), (1.0 / input.numel() if reduction == "mean" else 1,))
    loss = row(input, target, *numbers)
    return reduced(loss if weight is None else loss * weight, reduction)


@with_legacy
def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:  # noqa: A002
    """Mean (or sum) of squared differences."""
    return _elementwise(t.squared_error, input, target, reduction, weight)


@with_legacy
def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:  # noqa: A002
    """Mean (or sum) of absolute differences."""
    return _elementwise(t.absolute_error, input, target, reduction, weight)


@with_legacy
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:  # noqa: A002
    """Squared below `beta`, absolute above. Girshick, Fast R-CNN, 2015."""
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return l1_loss(input, target, reduction) if beta == 0 else _elementwise(t.smooth_l1, input, target, reduction, None, beta)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None) -> Tensor:  # noqa: A002
    """Half the square below `delta`, linear above. Huber, 1964."""
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    return _elementwise(t.huber, input, target, reduction, weight, delta)


@with_legacy
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Tensor:  # noqa: A002
    """-(target log x + (1 - target) log(1 - x)), logarithms not below -100. Raises ValueError for other shapes, RuntimeError for x outside [0, 1]."""
    if target.shape != input.shape:
        raise ValueError(f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. Please ensure they have the same size.")
    if not bool(((input >= 0) & (input <= 1)).all()):
        raise RuntimeError("all elements of input should be between 0 and 1; for logits use binary_cross_entropy_with_logits")
    return _elementwise(t.binary_cross_entropy, input, target, reduction, weight)


@with_legacy
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,  # noqa: A002
) -> Tensor:
    """binary_cross_entropy of sigmoid(x), without its rounding; `pos_weight` multiplies the loss of positive targets."""
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    return _elementwise(t.binary_cross_entropy_with_logits, input, target, reduction, weight, 1.0 if pos_weight is None else pos_weight)


@with_legacy
def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:  # noqa: A002
    """target * (log target - input), input being log-probabilities; reduction "batchmean" divides the sum by the batch size."""
    loss = t.exp(target) * (target - input) if log_target else t.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return f.sum(loss) / input.shape[0]
    return reduced(loss, reduction)


@with_legacy
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> Tensor:  # noqa: A002
    """-input[target] for log-probabilities (N, C, ...) or (C,) and class indices; the mean is weighted by the classes' weights."""
    return _class_loss(input, target, weight, ignore_index, reduction, lambda x, safe: -f.gather(x, 1, safe.unsqueeze(1)).squeeze(1))


@with_legacy
def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0,  # noqa: A002
) -> Tensor:
    """Cross-entropy of logits (N, C, ...) or (C,) and class indices (N, ...) or probabilities (N, C, ...).

    Raises IndexError for a class outside [0, C), RuntimeError for shapes or dtypes that do not fit.
    """
    if target.dtype.is_floating_point:
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    if label_smoothing == 0.0:
        return _class_loss(input, target, weight, ignore_index, reduction, lambda x, safe: apply(sm.cross_entropy, (f.contiguous(x), f.contiguous(safe)), (-(1 << 62),)))
    logits = log_softmax(input, 1 if input.ndim > 1 else 0)
    classes = logits.shape[1 if input.ndim > 1 else 0]
    exact = nll_loss(logits, target, weight, ignore_index, reduction)
    spread = _class_loss(logits, target, weight, ignore_index, reduction, lambda x, safe: _spread(x, weight, classes), uniform=True)
    return (1.0 - label_smoothing) * exact + label_smoothing * spread


def _spread(x: Tensor, weight: Tensor | None, classes: int) -> Tensor:
    """Mean over classes of the (weighted) negative log-probabilities."""
    weighted = x if weight is None else x * weight.reshape([1, -1] + [1] * (x.ndim - 2))
    return -f.sum(weighted, 1) / classes


def _class_loss(x: Tensor, target: Tensor, weight: Tensor | None, ignored: int, reduction: str, loss_of: object, uniform: bool = False) -> Tensor:
    """The shared part of losses with class indices: checks, ignored targets, class weights, reduction."""
    if x.ndim == 1:
        return _reduced_one(_class_loss(x.unsqueeze(0), target.reshape(1), weight, ignored, reduction, loss_of, uniform), reduction)
    if x.shape[0] != target.shape[0] if target.ndim else True:
        raise ValueError(f"Expected input batch_size ({x.shape[0]}) to match target batch_size ({target.shape[0] if target.ndim else 0}).")
    if target.dtype is not dtypes.int64:
        raise RuntimeError(f"expected scalar type Long for class indices but found {target.dtype.short}; convert with .long()")
    if x.shape[:1] + x.shape[2:] != target.shape:
        raise RuntimeError(f"expected target of shape {tuple(x.shape[:1] + x.shape[2:])} for input {tuple(x.shape)}, got {tuple(target.shape)}")
    found = apply(r.closing(t.class_bounds), (f.contiguous(target), x.shape[1], ignored), (1,))._observe() if target.numel() else 0
    if found >= 1 << 32:
        wrong = f.masked_fill(target, target == ignored, 0)
        low, high = wrong.min()._observe(), wrong.max()._observe()
        raise IndexError(f"Target {low if low < 0 else high} is out of bounds for {x.shape[1]} classes.")
    ignores = found > 0
    safe = f.masked_fill(target, target == ignored, 0) if ignores else target
    loss = loss_of(x, safe)
    if weight is None and not ignores:
        return reduced(loss, reduction)
    share = f.reshape(f.index_select(weight, 0, f.reshape(safe, -1)), safe.shape) if weight is not None else (target == target).to(x.dtype)
    share = f.masked_fill(share, target == ignored, 0.0) if ignores else share
    loss = f.masked_fill(loss, target == ignored, 0.0) if ignores else loss
    loss = loss if uniform else loss * share
    return f.sum(loss) / f.sum(share) if reduction == "mean" else reduced(loss, reduction)


def _reduced_one(loss: Tensor, reduction: str) -> Tensor:
    return loss.reshape(()) if reduction == "none" else loss


def _soft_cross_entropy(x: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float) -> Tensor:
    """Cross-entropy with probabilities as target."""
    if target.shape != x.shape:
        raise RuntimeError(f"expected target probabilities of shape {tuple(x.shape)}, got {tuple(target.shape)}")
    dim = 1 if x.ndim > 1 else 0
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / x.shape[dim]
    logits = log_softmax(x, dim)
    if weight is not None:
        logits = logits * weight.reshape([-1] if x.ndim == 1 else [1, -1] + [1] * (x.ndim - 2))
    loss = -f.sum(logits * target, dim)
    return f.sum(loss) / (x.numel() // x.shape[dim]) if reduction == "mean" else reduced(loss, reduction)
