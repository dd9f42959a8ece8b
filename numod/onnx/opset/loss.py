"""Losses of classifiers, from scores and log-probabilities."""

from __future__ import annotations

import numod
import numod.nn.functional as F

from ...core import Tensor
from ..registry import operator


@operator("NegativeLogLikelihoodLoss", since=12)
def nll_loss(
    log_probabilities: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-probability of the targets."""
    ignored = -(2**31) if ignore_index is None else ignore_index
    return F.nll_loss(log_probabilities, target.to(numod.int64), weight, ignore_index=ignored, reduction=reduction)


@operator("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy(
    scores: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    outputs: int,
) -> object:
    """Cross entropy of scores, and the log-probabilities if the node has two outputs."""
    log_probabilities = F.log_softmax(scores, 1)
    loss = nll_loss(log_probabilities, target, weight, ignore_index=ignore_index, reduction=reduction)
    return (loss, log_probabilities)[:outputs] if outputs > 1 else loss
