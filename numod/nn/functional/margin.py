"""Margin losses, similarity losses, and Poisson and Gaussian negative log-likelihoods."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log, pi

from ... import dtypes
from ...core import functions as f
from ...core.tensor import Tensor
from ...ops import table as t
from ...ops.index.indexing import gather
from .distance import pairwise_distance
from .reduction import expect_expandable, reduced, with_deprecated_reduction

__all__ = [
    "cosine_embedding_loss", "gaussian_nll_loss", "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "poisson_nll_loss", "soft_margin_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


@with_deprecated_reduction
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin): input1 should be larger where target is 1, smaller at -1.

    Example:

        >>> F.margin_ranking_loss(torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([1.0]))
        tensor(2.)
    """
    if len({input1.ndim, input2.ndim, target.ndim}) > 1:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got "
            f"sizes: input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
    return reduced(t.clamp_min(-target * (input1 - input2) + margin, 0.0), reduction)


@with_deprecated_reduction
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """The distance where target is 1, max(0, margin - distance) where it is -1.

    Example:

        >>> F.hinge_embedding_loss(torch.tensor([0.5, 0.5]), torch.tensor([1.0, -1.0]))
        tensor(0.5000)
    """
    zero = input.new_zeros(())
    return reduced(
        f.where(target != 1, t.clamp_min(+margin - input, 0.0), zero) + f.where(target != -1, input, zero), reduction
    )


@with_deprecated_reduction
def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)), where target is 1 or -1.

    Example:

        >>> F.soft_margin_loss(torch.zeros(2), torch.tensor([1.0, -1.0]))
        tensor(0.6931)
    """
    expect_expandable(target, input)
    return reduced(t.softplus(input * -target.to(input.dtype), 1.0, 1e30), reduction)


@with_deprecated_reduction
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """The mean over classes of the binary cross-entropies of logits (..., C) with targets 0 and 1.

    Example:

        >>> F.multilabel_soft_margin_loss(torch.zeros(1, 3), torch.tensor([[1.0, 0.0, 1.0]]))
        tensor(0.6931)
    """
    loss = -(target * t.logsigmoid(input) + (1 - target) * t.logsigmoid(-input))
    loss = loss if weight is None else loss * weight
    return reduced(f.sum(loss, input.ndim - 1) / input.shape[-1], reduction)


@with_deprecated_reduction
def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Sum over target classes j and other classes i of max(0, 1 - (x[j] - x[i])) / C, for (N, C) or (C).

    Targets end at the first -1.

    Example:

        >>> F.multilabel_margin_loss(torch.tensor([[0.1, 0.2, 0.4, 0.8]]), torch.tensor([[3, 0, -1, 1]]))
        tensor(0.8500)
    """
    _expect_classes("multilabel_margin_loss", input)
    if target.shape != input.shape and (max(input.ndim, target.ndim) > 1 or target.numel() != input.numel()):
        raise RuntimeError(
            f"multilabel_margin_loss: inconsistent target size: {list(target.shape)} for input of size: "
            f"{list(input.shape)}; expected (N, C) or (C) both"
        )
    x, y = (tensor.reshape(1, -1) if input.ndim < 2 else tensor for tensor in (input, target))
    if y.numel() and ((y < -1) | (y >= x.shape[1])).any()._observe():
        raise RuntimeError(
            f"multilabel_margin_loss: targets have to be classes in [0, {x.shape[1]}) or -1, got values from "
            f"{y.min()._observe()} to {y.max()._observe()}"
        )
    counted = f.cumsum((y < 0).to(dtypes.int64), 1) == 0
    positions = f.masked_fill(y, ~counted, 0)
    chosen = (y.new_zeros(y.shape).scatter_add(1, positions, counted.to(y.dtype))) > 0
    use = counted.unsqueeze(2) & ~chosen.unsqueeze(1)
    loss = (
        f.sum(
            t.margin_gap(use, x.unsqueeze(1), gather.apply((f.contiguous(x), positions), (1,)).unsqueeze(2), 1.0),
            (1, 2),
        )
        / x.shape[1]
    )
    return reduced(loss.squeeze(0) if input.ndim < 2 else loss, reduction)


def _expect_classes(name: str, x: Tensor) -> None:
    if x.ndim > 2 or 0 in x.shape[-1:]:
        raise RuntimeError(
            f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(x.shape)}"
        )


@with_deprecated_reduction
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over other classes of max(0, margin - x[target] + x[i]) ** p, for (N, C) or (C).

    `weight` multiplies the loss of each target class.

    Example:

        >>> F.multi_margin_loss(torch.tensor([[0.1, 0.2, 0.4, 0.8]]), torch.tensor([3]))
        tensor(0.3250)
    """
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    x, y = (input.reshape(1, -1), target.reshape(1)) if input.ndim < 2 else (input, target)
    _expect_classes("multi_margin_loss", input)
    if y.shape != x.shape[:1]:
        wanted = (
            "1-D with size equal to the number of input samples (batch size). Expected target size "
            f"[{x.shape[0]}], but got {list(target.shape)}"
        )
        raise RuntimeError(f"multi_margin_loss: inconsistent target size: target tensor should be {wanted}")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    if weight is not None and tuple(weight.shape) != (x.shape[1],):
        raise RuntimeError(
            f"multi_margin_loss: inconsistent weight size, expected {x.shape[1]} but got {list(weight.shape)}"
        )
    y = f.check_bounds("multi_margin_loss", y, x.shape[1], 1, error=RuntimeError)
    y = y.unsqueeze(1)
    gaps = t.margin_gap(y != y.new_arange(x.shape[1]), x, gather.apply((f.contiguous(x), y), (1,)), float(margin))
    gaps = t.square(gaps) if p == 2 else gaps
    gaps = gaps if weight is None else gaps * f.index_select(weight, 0, y.squeeze(1)).unsqueeze(1)
    if reduction == "mean":  # all rows have the same length
        return f.mean(gaps)
    return reduced(f.reshape(f.sum(gaps, 1) / x.shape[1], target.shape), reduction)


@with_deprecated_reduction
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cosine where target is 1, max(0, cosine - margin) where it is -1.

    Example:

        >>> F.cosine_embedding_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]), torch.tensor([1.0]))
        tensor(1.)
    """
    if target.ndim + 1 != input1.ndim or input1.ndim != input2.ndim:
        raise RuntimeError(
            f"{'0D' if target.ndim == 0 else '1D'} target tensor expects {target.ndim + 1}D input "
            f"tensors, but found inputs with sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    dot, one, two = (f.sum(products, -1) for products in (input1 * input2, input1 * input1, input2 * input2))
    cosine = dot / (t.sqrt(one + 1e-12) * t.sqrt(two + 1e-12))  # the product of the squares might overflow
    zero = cosine.new_zeros(())
    return reduced(
        f.where(target == 1, 1 - cosine, zero) + f.where(target == -1, t.clamp_min(cosine - margin, 0.0), zero),
        reduction,
    )


@with_deprecated_reduction
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin).

    `swap` uses the smaller one of the negative's distances from anchor and positive. Balntas et al., 2016.

    Example:

        >>> F.triplet_margin_loss(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]), torch.tensor([[6.0, 8.0]]))
        tensor(0.)
    """
    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=lambda a, b: pairwise_distance(a, b, p, eps),
        margin=margin,
        swap=swap,
        reduction=reduction,
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Triplet margin loss with any distance function.

    Example:

        >>> F.triplet_margin_with_distance_loss(torch.zeros(1, 2), torch.ones(1, 2), torch.full((1, 2), 2.0))
        tensor(0.)
    """
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
            f"but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    distance = distance_function or pairwise_distance
    positive_distance, negative_distance = distance(anchor, positive), distance(anchor, negative)
    if swap:
        negative_distance = t.minimum(negative_distance, distance(positive, negative))
    return reduced(t.clamp_min(margin + positive_distance - negative_distance, 0.0), reduction)


@partial(with_deprecated_reduction, before="eps")
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """-log of the Poisson probability of target at rate exp(input) (or input).

    `full` adds Stirling's approximation of log(target!).

    Example:

        >>> F.poisson_nll_loss(torch.zeros(2), torch.ones(2))
        tensor(1.)
    """
    loss = t.exp(input) - target * input if log_input else input - target * t.log(input + eps)
    if full:
        stirling = target * t.log(target) - target + 0.5 * t.log(2 * pi * target)
        loss = loss + f.where(target <= 1, stirling.new_zeros(()), stirling)
    return reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log var + (input - target)^2 / var) / 2, with var at least eps; `full` adds the constant. Nix, Weigend, 1994.

    Example:

        >>> F.gaussian_nll_loss(torch.zeros(2), torch.ones(2), torch.ones(2))
        tensor(0.5000)
    """
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError(f"var has negative entry/entries, got {var}")
        var = input.new_full(input.shape, float(var))
    elif var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif input.ndim != var.ndim or [m for m, n in zip(var.shape, input.shape) if m != n] != [1]:
            # one variance along one dimension
            raise ValueError(
                f"var is of incorrect size: expected {tuple(input.shape)}, with one dimension of 1 or without the "
                f"last, got {tuple(var.shape)}"
            )
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    if not var.is_floating_point():
        raise RuntimeError(
            f"result type Float can't be cast to the desired output type {var.dtype.short}; convert var with .float()"
        )
    if (var < 0).any():
        raise ValueError("var has negative entry/entries")
    var = var + (t.clamp_min(var, eps) - var).detach()  # the gradient ignores the clamping
    loss = 0.5 * (t.log(var) + (input - target) ** 2 / var)
    return reduced(loss + 0.5 * log(2 * pi) if full else loss, reduction)
