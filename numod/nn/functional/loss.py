"""Losses: elementwise losses with a reduction, and losses with class indices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...errors import warn_caller
from ... import dtypes
from ...core import functions as f
from ...core.apply import apply, as_tensor_of, observed
from ...core.resolve import resolved
from ...core.tensor import Tensor
from ...device import Layout
from ...ops.reduce import reduction as r, softmax as sm
from ...ops import table as t
from ...ops.reduce.nll import nll
from .activation import log_softmax
from .reduction import expect_expandable, reduced, with_deprecated_reduction

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "huber_loss", "kl_div", "l1_loss",
    "mse_loss", "nll_loss", "smooth_l1_loss",
]  # fmt: skip


def _elementwise(row: object, input: Tensor, target: Tensor, reduction: str, *numbers: float | Tensor) -> Tensor:
    """Apply a row to input and target and reduce; in a single pass if all are contiguous and have the same shape."""
    layout, target_layout = input._layout, target._layout
    if layout.shape != target_layout.shape:
        warn_caller(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size."
        )
    dense = (
        layout.dense
        and target_layout.dense
        and layout.shape == target_layout.shape
        and all([as_tensor_of(number) is None for number in numbers])
    )
    if (
        reduction in ("mean", "sum")
        and layout.size
        and dense
        and all(
            [number._layout.dense and number.shape == layout.shape for number in numbers if isinstance(number, Tensor)]
        )
    ):
        return apply(
            r.fused_map_reduce(row), (input, target, *numbers), (1.0 / layout.size if reduction == "mean" else 1,)
        )
    return reduced(row(input, target, *numbers), reduction)


def _weighted(loss: Tensor, input: Tensor, weight: Tensor) -> Tensor:
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    return loss * weight


def _scaled(loss: Tensor, weight: Tensor) -> Tensor:
    """The loss times weights of any dtype, in the loss's dtype."""
    return (loss * weight).to(loss.dtype)


@with_deprecated_reduction
def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Mean (or sum) of squared differences; with a weight per element, the weighted mean.

    Example:

        >>> F.mse_loss(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 2.0]))
        tensor(2.5000)
    """
    return _weighted_mean(t.squared_error, input, target, reduction, weight)


@with_deprecated_reduction
def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Mean (or sum) of absolute differences; with a weight per element, the weighted mean.

    Example:

        >>> F.l1_loss(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 2.0]))
        tensor(1.5000)
    """
    if weight is None and not (input.dtype.differentiable or target.dtype.differentiable):
        return reduced((input - target).abs(), reduction)
    if input.is_complex() or target.is_complex():
        input = (input - target).abs()
        target = input.new_zeros(input.shape)
    return _weighted_mean(t.absolute_error, input, target, reduction, weight)


def _weighted_mean(row: object, input: Tensor, target: Tensor, reduction: str, weight: Tensor | None) -> Tensor:
    if weight is None:
        return _elementwise(row, input, target, reduction)
    loss = _weighted(_elementwise(row, input, target, "none"), input, weight)
    return f.sum(loss) / f.sum(weight) if reduction == "mean" else reduced(loss, reduction)


@with_deprecated_reduction
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Squared below `beta`, absolute above. Girshick, Fast R-CNN, 2015.

    Example:

        >>> F.smooth_l1_loss(torch.tensor([0.0, 3.0]), torch.tensor([0.5, 0.0]))
        tensor(1.3125)
    """
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}.")
    return (
        l1_loss(input, target, reduction=reduction)
        if beta == 0
        else _elementwise(t.smooth_l1, input, target, reduction, beta)
    )


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Half the square below `delta`, linear above. Huber, 1964.

    Example:

        >>> F.huber_loss(torch.tensor([0.0, 3.0]), torch.tensor([0.5, 0.0]))
        tensor(1.3125)
    """
    if not delta > 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}.")
    if not input.is_floating_point():
        raise RuntimeError(f"result type Float can't be cast to the desired output type {input.dtype.short}")
    if target.dtype is not input.dtype and target.is_floating_point():
        target = target.to(input.dtype)  # the input's dtype is the result's
    if weight is None:
        return _elementwise(t.huber, input, target, reduction, delta)
    return reduced(_weighted(_elementwise(t.huber, input, target, "none", delta), input, weight), reduction)


@with_deprecated_reduction
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """-(target log x + (1 - target) log(1 - x)), with logarithms clamped to at least -100.

    Raises ValueError if the shapes differ, RuntimeError for x or target values outside [0, 1].

    Example:

        >>> F.binary_cross_entropy(torch.tensor([0.5, 0.5]), torch.tensor([0.0, 1.0]))
        tensor(0.6931)
    """
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size."
        )
    f.require_all(
        (input >= 0) & (input <= 1),
        RuntimeError,
        "all elements of input should be between 0 and 1; for logits use binary_cross_entropy_with_logits",
    )
    if target.dtype is not input.dtype:
        raise RuntimeError(
            f"Found dtype {target.dtype.short} but expected {input.dtype.short}; convert the target with "
            ".to(input.dtype)"
        )
    f.require_all((target >= 0) & (target <= 1), RuntimeError, "all elements of target should be between 0 and 1")
    if weight is None:
        return _elementwise(t.binary_cross_entropy, input, target, reduction)
    expect_expandable(weight, input)
    return reduced(_scaled(_elementwise(t.binary_cross_entropy, input, target, "none"), weight), reduction)


@with_deprecated_reduction
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy of sigmoid(x), numerically stable; `pos_weight` multiplies the loss of positive targets.

    Example:

        >>> F.binary_cross_entropy_with_logits(torch.zeros(2), torch.tensor([0.0, 1.0]))
        tensor(0.6931)
    """
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            f"result type {input.dtype.short} can't be cast to the desired output type {target.dtype.short}; convert "
            "the target with .float()"
        )
    if not input.is_floating_point():
        raise NotImplementedError(
            f"\"log_sigmoid_cpu\" not implemented for '{input.dtype.short}'; convert it with .float()"
        )
    positive = 1.0 if pos_weight is None else pos_weight.to(dtypes.promote_types(input.dtype, target.dtype))
    for tensor in (weight, pos_weight):
        if isinstance(tensor, Tensor):
            expect_expandable(tensor, input)
    if weight is None:
        return _elementwise(t.binary_cross_entropy_with_logits, input, target, reduction, positive)
    loss = _elementwise(t.binary_cross_entropy_with_logits, input, target, "none", positive)
    return reduced(_scaled(loss, weight), reduction)


@with_deprecated_reduction
def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log target - input), where input has log-probabilities.

    The reduction "batchmean" divides the sum by the batch size.

    Example:

        >>> F.kl_div(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[1.0, 0.0]]), reduction="batchmean")
        tensor(0.6931)
    """
    if not (input.dtype.is_floating_point and target.dtype.is_floating_point):
        raise RuntimeError(
            f"kl_div: Integral inputs not supported, got {input.dtype.short} and {target.dtype.short}; use .float()"
        )
    if reduction == "mean":
        warn_caller(
            "reduction: 'mean' divides by the number of elements; 'batchmean' divides by the batch size, which gives "
            "the divergence."
        )
    loss = t.exp(target) * (target - input) if log_target else t.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return f.sum(loss) / (input.shape[0] if input.ndim else 1)
    return reduced(loss, reduction)


@partial(with_deprecated_reduction, before="ignore_index")
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """-input[target] for log-probabilities (N, C, ...) or (C,) and class indices.

    The mean is weighted by the class weights.

    Example:

        >>> F.nll_loss(torch.tensor([[-1.0, -2.0]]), torch.tensor([1]))
        tensor(2.)
    """
    if _in_one_pass(input, weight, reduction):
        return _nll(input, target, weight, ignore_index, reduction)
    return _class_loss(
        input, target, weight, ignore_index, reduction, lambda x, safe: -f.gather(x, 1, safe.unsqueeze(1)).squeeze(1)
    )


@partial(with_deprecated_reduction, before="ignore_index")
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross-entropy of logits (N, C, ...) or (C,) and class indices (N, ...) or probabilities (N, C, ...).

    Raises IndexError for a class outside [0, C), RuntimeError for shapes or dtypes that do not match.

    Example:

        >>> F.cross_entropy(torch.zeros(2, 4), torch.tensor([0, 3]))
        tensor(1.3863)
    """
    if label_smoothing > 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if input.shape == target.shape:
        if not target.dtype.is_floating_point:
            raise RuntimeError(
                f"Expected floating point type for target with class probabilities, got {target.dtype.short}; "
                "for one-hot targets use target.argmax(1) or target.float()"
            )
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    if label_smoothing <= 0.0:
        if (
            weight is None
            and input.ndim > 1
            and reduction in ("mean", "sum")
            and not input.is_meta
            and (input.device.type == "cpu" or target.numel())
        ):
            return _total_cross_entropy(input, _checked_classes(input, target, None), ignore_index, reduction)
        if _in_one_pass(input, weight, reduction):
            return _nll(log_softmax(input, 1), target, weight, ignore_index, reduction)
        none = -(1 << 62)  # the op ignores no target, since `_class_loss` has replaced them
        per_target = lambda x, safe: apply(sm.cross_entropy, (f.contiguous(x), f.contiguous(safe)), (none,))  # noqa: E731
        return _class_loss(input, target, weight, ignore_index, reduction, per_target)
    logits = log_softmax(input, 1 if input.ndim > 1 else 0)
    classes = logits.shape[1 if input.ndim > 1 else 0]
    exact = nll_loss(logits, target, weight, ignore_index=ignore_index, reduction=reduction)
    spread = _class_loss(
        logits, target, weight, ignore_index, reduction, lambda x, safe: _spread(x, weight, classes), uniform=True
    )
    return (1.0 - label_smoothing) * exact + label_smoothing * spread


def _in_one_pass(x: Tensor, weight: Tensor | None, reduction: str) -> bool:
    """Whether `_nll` supports the arguments: on the CPU, without gradients of the weights."""
    wide = x.dtype.is_floating_point and x.dtype.compute is x.dtype
    return (
        wide
        and x.ndim > 1
        and x.device.type == "cpu"
        and reduction in ("mean", "sum", "none")
        and (weight is None or not weight.requires_grad)
    )


def _nll(x: Tensor, target: Tensor, weight: Tensor | None, ignored: int, reduction: str) -> Tensor:
    """The loss and the check of its targets in a single pass."""
    target = f.contiguous(_checked_classes(x, target, weight))
    loss, _, wrong = apply(
        nll, (f.contiguous(x), target, None if weight is None else f.contiguous(weight)), (ignored, reduction)
    )
    if wrong._observe():
        _refuse_classes(target, ignored, x.shape[1])
    return loss


def _total_cross_entropy(x: Tensor, target: Tensor, ignored: int, reduction: str) -> Tensor:
    """The mean or sum of the loss and the check of its targets in a single pass."""
    x, target = x if x._layout.dense else f.contiguous(x), target if target._layout.dense else f.contiguous(target)
    flat = target.device.backend.is_gpu
    loss, _, wrong = apply(
        sm.cross_entropy_total,
        (x, _classes_within(target, ignored, x.shape[1]) if flat else target),
        (ignored, reduction == "mean"),
    )
    if not flat and wrong._observe():
        _refuse_classes(target, ignored, x.shape[1])
    return loss


def _classes_within(target: Tensor, ignored: int, classes: int) -> Tensor:
    """The targets on a GPU, with 0 in place of targets outside [0, classes), which are reported to the host."""
    return f.bounded(target, 0, classes, IndexError, f"Target {{}} is out of bounds for {classes} classes.", ignored)


def _refuse_classes(target: Tensor, ignored: int, classes: int) -> None:
    """Raise IndexError for targets outside [0, classes)."""
    wrong = f.masked_fill(target, target == ignored, 0)
    low, high = wrong.min()._observe(), wrong.max()._observe()
    raise IndexError(f"Target {low if low < 0 else high} is out of bounds for {classes} classes.")


def _spread(x: Tensor, weight: Tensor | None, classes: int) -> Tensor:
    """The label-smoothing term: the mean over classes of the (weighted) negative log-probabilities."""
    weighted = x if weight is None else x * weight.reshape([1, -1] + [1] * (x.ndim - 2))
    return -f.sum(weighted, 1) / classes


def _class_loss(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignored: int,
    reduction: str,
    loss_of: Callable[[Tensor, Tensor], Tensor],
    uniform: bool = False,
) -> Tensor:
    """Common part of losses with class indices: checks, ignored targets, class weights, reduction."""
    if x.ndim == 0:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if x.ndim == 1:
        if target.numel() != 1:
            raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {target.numel()}")
        return _reduced_one(
            _class_loss(x.unsqueeze(0), target.reshape(1), weight, ignored, reduction, loss_of, uniform), reduction
        )
    target = _checked_classes(x, target, weight)
    ignores = bool(target.numel() and not target.is_meta)
    if ignores and target.device.backend.is_gpu:
        target = _classes_within(target, ignored, x.shape[1])
    elif ignores:
        class_bounds = observed(r.fused_map_reduce(t.class_bounds), (f.contiguous(target), x.shape[1], ignored), (1,))
        if class_bounds >= 1 << 32:
            _refuse_classes(target, ignored, x.shape[1])
        ignores = class_bounds > 0
    left_out = target == ignored if ignores else None
    safe = f.masked_fill(target, left_out, 0) if ignores else target
    loss = loss_of(x, safe)
    if weight is None and not ignores:
        return reduced(loss, reduction)
    share = (
        (target != ignored).to(x.dtype)
        if weight is None
        else f.reshape(f.index_select(weight, 0, f.reshape(safe, -1)), safe.shape)
    )
    loss = f.masked_fill(loss, left_out, 0.0) if ignores else loss
    if weight is not None:
        share = f.masked_fill(share, left_out, 0.0) if ignores else share
        loss = loss if uniform else loss * share
    return f.sum(loss) / f.sum(share) if reduction == "mean" else reduced(loss, reduction)


def _checked_classes(x: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    """The targets as int64, after checks of targets and weights."""
    _require_classes(x._layout, target._layout, None if weight is None else weight._layout)
    return target.to(dtypes.int64)


@resolved
def _require_classes(x: Layout, target: Layout, weight: Layout | None) -> None:
    """Raise ValueError or RuntimeError, as PyTorch does, for an invalid batch size, dtype, shape or weights."""
    if target.ndim == 0 or x.shape[0] != target.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({x.shape[0]}) to match target batch_size "
            f"({target.shape[0] if target.ndim else 0})."
        )
    if target.dtype not in (dtypes.int64, dtypes.uint8):
        raise RuntimeError(
            "expected target dtype to be Long or Byte (scalar type Long) for class indices, but got "
            f"{target.dtype.short}; convert the target with .long()"
        )
    if x.shape[:1] + x.shape[2:] != target.shape:
        expected = x.shape[:1] + x.shape[2:]
        squeezed = target.ndim > 1 and (*target.shape[:1], *target.shape[2:]) == tuple(expected)
        advice = "; remove the dimension of one: target.squeeze(1)" if squeezed and target.shape[1] == 1 else ""
        raise RuntimeError(
            f"Expected target size {list(expected)}, got {list(target.shape)}, for input {list(x.shape)}{advice}"
        )
    if weight is not None and tuple(weight.shape) != (x.shape[1],):
        raise RuntimeError(
            f"weight tensor should be defined either for all {x.shape[1]} classes or no classes but got weight tensor "
            f"of shape: {list(weight.shape)}"
        )
    if weight is not None and weight.dtype is not x.dtype:
        raise RuntimeError(
            f"class weights: expected scalar type {x.dtype.short} but found {weight.dtype.short}; convert them with "
            ".to(input.dtype)"
        )


def _reduced_one(loss: Tensor, reduction: str) -> Tensor:
    return loss.reshape(()) if reduction == "none" else loss


def _soft_cross_entropy(x: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float) -> Tensor:
    """Cross-entropy with target probabilities of the same shape as x."""
    dim = 1 if x.ndim > 1 else 0
    if smoothing > 0.0:
        target = target * (1.0 - smoothing) + smoothing / x.shape[dim]
    logits = log_softmax(x, dim)
    if weight is not None:
        logits = logits * weight.reshape([-1] if x.ndim == 1 else [1, -1] + [1] * (x.ndim - 2))
    loss = -f.sum(logits * target, dim)
    return (
        f.sum(loss) / (loss.numel() if x.numel() else float("nan")) if reduction == "mean" else reduced(loss, reduction)
    )
