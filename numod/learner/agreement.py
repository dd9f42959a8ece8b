"""Metrics of a confusion matrix that compare a classifier with chance, and overlaps of classes."""

from __future__ import annotations

from ..core.tensor import Tensor
from .metrics import ConfusionMatrix, F1Score, FromCounts, Number


class BalancedAccuracy(ConfusionMatrix):
    """The mean over the classes of the share of their samples that are found; `adjusted`: 0 for guesses, 1 at best."""

    column = "balanced_accuracy_score"

    def __init__(self, axis: int = -1, adjusted: bool = False, thresh: float = 0.5) -> None:
        self.adjusted = adjusted
        super().__init__(axis, thresh)

    def _score(self, counts: Tensor) -> Number:
        actual = counts.sum(1)
        score = (counts.diagonal() / actual).nan_to_num(nan=0.0).sum() / (actual > 0).sum()
        chance = 1 / (actual > 0).sum().double()
        return (score - chance) / (1 - chance) if self.adjusted else score


class CohenKappa(ConfusionMatrix):
    """The agreement beyond that of chance: 0 for guesses by the classes' frequencies, 1 at best."""

    column = "cohen_kappa_score"

    def _score(self, counts: Tensor) -> Number:
        shares = counts / counts.sum()
        chance = (shares.sum(0) * shares.sum(1)).sum()
        return (shares.diagonal().sum() - chance) / (1 - chance)


class MatthewsCorrCoef(ConfusionMatrix):
    """The correlation of predicted and actual classes; 0 where either has one class only."""

    column = "matthews_corrcoef"

    def _score(self, counts: Tensor) -> Number:
        predicted, actual, total = counts.sum(0), counts.sum(1), counts.sum()
        product = counts.diagonal().sum() * total - (predicted * actual).sum()
        spreads = (total**2 - (predicted**2).sum()) * (total**2 - (actual**2).sum())
        return (product / spreads.sqrt()).nan_to_num(nan=0.0)


class HammingLoss(ConfusionMatrix):
    """The share of samples whose class is wrong."""

    def _score(self, counts: Tensor) -> Number:
        return 1 - counts.diagonal().sum() / counts.sum()


class Jaccard(FromCounts):
    """The samples of a class that are found, over those that are of the class or predicted to be."""

    column = "jaccard_score"

    def _ratio(self, hits: Tensor, predicted: Tensor, actual: Tensor) -> Tensor:
        return hits / (predicted + actual - hits)


class Dice(F1Score):
    """The overlap of predicted and actual pixels of class 1: twice the common ones over the sum of both."""

    column = "dice"

    def __init__(self, axis: int = 1, thresh: float = 0.5) -> None:
        super().__init__(axis=axis, thresh=thresh)


class JaccardCoeff(Jaccard):
    """The overlap of predicted and actual pixels of class 1: the common ones over those of either."""

    column = "jaccard_coeff"

    def __init__(self, axis: int = 1, thresh: float = 0.5) -> None:
        super().__init__(axis=axis, thresh=thresh)
