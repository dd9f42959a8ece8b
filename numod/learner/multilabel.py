"""Metrics of samples with any number of labels: predictions and targets are (samples, labels), of yes and no."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..core.shape.joining import stack
from ..core.tensor import Tensor
from .agreement import Jaccard
from .metrics import AvgMetric, F1Score, FBeta, FromCounts, Precision, Recall


class _OfLabels(FromCounts):
    """A ratio of counts by label. A score stands for yes where its sigmoid (or, without `sigmoid`, the score itself) is
    at least `thresh`. `average` is "macro", "weighted" or "micro".
    """

    def __init__(self, thresh: float = 0.5, sigmoid: bool = True, average: str = "macro") -> None:
        if average == "binary":
            raise ValueError(f"{type(self).__name__}: average must be 'macro', 'weighted' or 'micro', got 'binary'")
        self.sigmoid = sigmoid
        super().__init__(average=average, thresh=thresh)

    def accumulate(self, learn: Any) -> None:
        predicted, actual = _answers(learn.pred, self.thresh, self.sigmoid), learn.yb[0].bool()
        counts = stack([predicted & actual, predicted, actual]).sum(1)
        self.matrix = counts if self.matrix is None else self.matrix + counts

    def _counts(self, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return tuple(counts)

    def _seen(self, predicted: Tensor, actual: Tensor) -> Tensor:
        return predicted == predicted  # all labels


class PrecisionMulti(_OfLabels, Precision):
    """The share of a label's predictions that are correct."""


class RecallMulti(_OfLabels, Recall):
    """The share of a label's samples that are found."""


class JaccardMulti(_OfLabels, Jaccard):
    """The samples of a label that are found, over those that have the label or are predicted to."""


class FBetaMulti(FBeta, _OfLabels):
    """The weighted harmonic mean of precision and recall, which counts `beta` times as much."""


class F1ScoreMulti(F1Score, _OfLabels):
    """The harmonic mean of precision and recall."""


class HammingLossMulti(AvgMetric):
    """The share of wrong answers."""

    column = "hamming_loss"

    def __init__(self, thresh: float = 0.5, sigmoid: bool = True) -> None:
        super().__init__(partial(_wrong, thresh=thresh, sigmoid=sigmoid))


def _answers(scores: Tensor, thresh: float, sigmoid: bool) -> Tensor:
    """Which scores stand for yes."""
    return (scores.sigmoid() if sigmoid else scores) >= thresh


def _wrong(pred: Tensor, target: Tensor, thresh: float, sigmoid: bool) -> Tensor:
    return (_answers(pred, thresh, sigmoid) != target.bool()).double().mean()
