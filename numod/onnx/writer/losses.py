"""Losses of class indices. Others are rows of the table, with a sum or a mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..symbols import Call
from .rules import advise, rule

if TYPE_CHECKING:
    from .translate import Translation

advise("the CTC loss is not in ONNX; export the network without it", "ctc")


@rule("cross_entropy")
def cross_entropy(translation: Translation, call: Call) -> str:
    """The loss of each element."""
    return _loss(translation, call, "SoftmaxCrossEntropyLoss", call.attributes[0], "none")


@rule("cross_entropy_total")
def cross_entropy_total(translation: Translation, call: Call) -> tuple:
    """The mean or sum of losses."""
    ignored, mean = call.attributes
    return _loss(translation, call, "SoftmaxCrossEntropyLoss", ignored, "mean" if mean else "sum"), None, None


@rule("nll_loss")
def nll_loss(translation: Translation, call: Call) -> tuple:
    """The negative log likelihood."""
    ignored, reduction = call.attributes
    return _loss(translation, call, "NegativeLogLikelihoodLoss", ignored, reduction), None, None


def _loss(translation: Translation, call: Call, op: str, ignored: int, reduction: str) -> str:
    names = [translation.name(value) for value in call.inputs if value is not None]
    return translation.graph.node(op, *names, ignore_index=ignored, reduction=reduction)
