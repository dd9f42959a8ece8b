"""Metrics that need all predictions at once: areas under curves, correlations, and any function of all of them.

The predictions stay on the device until the end of the pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.shape.joining import cat, stack
from ..core.tensor import Tensor
from .metrics import AvgMetric, Metric, Number, batch_size, in_double
from .preds import activation_of

_ACTIVATIONS = ("no", "sigmoid", "softmax", "binary_softmax")


class FromAll(Metric):
    """Base class: `_of(preds, targets)` is the value."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.preds: list[Tensor] = []
        self.targets: list[Tensor] = []

    def accumulate(self, learn: Any) -> None:
        self.preds.append(self._prepared(learn.pred.detach()))
        self.targets.append(learn.yb[0])

    @property
    def value(self) -> Number:
        return self._of(cat(self.preds), cat(self.targets)) if self.preds else None

    def _prepared(self, preds: Tensor) -> Tensor:
        """What is kept of a batch's predictions."""
        return preds

    def _of(self, preds: Tensor, targets: Tensor) -> Number:
        raise NotImplementedError(f"{type(self).__name__} should implement _of(preds, targets)")


class AccumMetric(FromAll):
    """`func(preds, targets, **options)` of all samples.

    - `dim_argmax`: predictions are the classes with the largest score along it.
    - `activation`: "sigmoid", "softmax" or "binary_softmax" (the probability of the last class) of the scores, or "no".
    - `thresh`: predictions are whether the values are at least this.
    - `to_np`: `func` is called with arrays; `invert_arg`: with the targets first; `flatten`: with one dimension.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        dim_argmax: int | None = None,
        activation: str = "no",
        thresh: float | None = None,
        to_np: bool = False,
        invert_arg: bool = False,
        flatten: bool = True,
        name: str | None = None,
        **options: Any,
    ) -> None:
        if activation not in _ACTIVATIONS:
            raise ValueError(f"AccumMetric: activation must be one of {_ACTIVATIONS}, got {activation!r}")
        self.func, self.dim_argmax, self.activation, self.thresh = func, dim_argmax, activation, thresh
        self.to_np, self.invert_arg, self.flatten, self.options = to_np, invert_arg, flatten, options
        self.column = name or getattr(func, "__name__", type(func).__name__)
        super().__init__()

    def _prepared(self, preds: Tensor) -> Tensor:
        if self.activation == "sigmoid":
            preds = preds.sigmoid()
        elif self.activation != "no":
            preds = preds.softmax(-1 if self.dim_argmax is None else self.dim_argmax)
            preds = preds[:, -1] if self.activation == "binary_softmax" else preds
        elif self.dim_argmax is not None:
            preds = preds.argmax(self.dim_argmax)
        return preds if self.thresh is None else preds >= self.thresh

    def _of(self, preds: Tensor, targets: Tensor) -> Number:
        arguments = [values.reshape(-1) if self.flatten else values for values in (preds, targets)]
        if self.to_np:
            arguments = [values.cpu().numpy() for values in arguments]
        return self.func(*(reversed(arguments) if self.invert_arg else arguments), **self.options)


def skm_to_fastai(
    func: Callable[..., Any],
    is_class: bool = True,
    thresh: float | None = None,
    axis: int = -1,
    activation: str | None = None,
    **options: Any,
) -> AccumMetric:
    """A metric of one of scikit-learn's functions, or another of (targets, predictions) as arrays.

    `is_class`: predictions are classes, by `thresh` or the largest score along `axis`; else they are the scores.
    """
    dim_argmax = axis if is_class and thresh is None else None
    if activation is None:
        activation = "sigmoid" if is_class and thresh is not None else "no"
    return AccumMetric(func, dim_argmax, activation, thresh, to_np=True, invert_arg=True, **options)


# ---- scores against classes


class _OfEachClass(FromAll):
    """The mean over classes, each against the rest, or over labels where targets have the scores' shape."""

    def _of(self, preds: Tensor, targets: Tensor) -> Tensor:
        return stack([self._of_class(scores, positive) for scores, positive in _classes(preds, targets)]).mean()

    def _of_class(self, scores: Tensor, positive: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} should implement _of_class(scores, positive)")


def _classes(preds: Tensor, targets: Tensor) -> list[tuple[Tensor, Tensor]]:
    """(scores, whether the sample is of the class) of each class; of two classes the second alone."""
    count = preds.shape[1] if preds.dim() == 2 else 1
    if count > 1 and targets.shape == preds.shape:
        return list(zip(preds.t(), _is_positive(targets).t()))
    if count > 2:
        return [(scores, targets == k) for k, scores in enumerate(preds.softmax(-1).t())]
    scores = preds[:, 1] - preds[:, 0] if count == 2 else preds.reshape(-1)
    return [(scores, _is_positive(targets.reshape(-1)))]


def _is_positive(targets: Tensor) -> Tensor:
    return targets > 0.5 if targets.is_floating_point() else targets > 0


class RocAuc(_OfEachClass):
    """The area under the receiver operating characteristic: how often a positive sample scores above a negative one.

    For scores (N, classes) the mean over the classes, each against the rest; for targets (N, labels) over the labels.
    NaN where only one class occurs.
    """

    column = "roc_auc_score"

    def _of_class(self, scores: Tensor, positive: Tensor) -> Tensor:
        """By the ranks of the positive samples (Mann and Whitney, 1947)."""
        ones = positive.double().sum()
        zeros = positive.numel() - ones
        return ((_ranks(scores) * positive.double()).sum() - ones * (ones + 1) / 2) / (ones * zeros)


class RocAucBinary(RocAuc):
    """The area for one score per sample, or for two classes."""


class RocAucMulti(RocAuc):
    """The mean area of the labels."""


class APScore(_OfEachClass):
    """The average precision: the mean of the precisions at which each positive sample is found, by falling score.

    For scores (N, classes) the mean over the classes, each against the rest; for targets (N, labels) over the labels.
    0 without a positive sample, as in scikit-learn.
    """

    column = "average_precision_score"

    def _of_class(self, scores: Tensor, positive: Tensor) -> Tensor:
        """Samples of equal scores are found together."""
        _, group, counts = scores.unique(return_inverse=True, return_counts=True)
        hits = positive.double().new_zeros(len(counts)).index_add(0, group, positive.double()).flip(0)
        precision = hits.cumsum(0) / counts.flip(0).cumsum(0)
        return (precision * hits).sum() / hits.sum().clamp(min=1)


class APScoreBinary(APScore):
    """The average precision for one score per sample, or for two classes."""


class APScoreMulti(APScore):
    """The mean average precision of the labels."""


def _ranks(values: Tensor) -> Tensor:
    """Ranks from 1 on; equal values share the mean of their ranks."""
    _, group, counts = values.unique(return_inverse=True, return_counts=True)
    return (counts.cumsum(0).double() - (counts.double() - 1) / 2)[group]


class BrierScore(AvgMetric):
    """The squared error of probabilities: of class 1, or summed over more than two classes.

    The loss function says how predictions become probabilities, as in `Learner.get_preds`.
    """

    column = "brier_score_loss"

    def __init__(self) -> None:
        super().__init__(_brier)

    def accumulate(self, learn: Any) -> None:
        size = batch_size(learn.yb)
        self.total = self.total + in_double(_brier(activation_of(learn.loss_func)(learn.pred), learn.yb[0])) * size
        self.count += size


def _brier(chance: Tensor, target: Tensor) -> Tensor:
    if chance.dim() == 2 and chance.shape[1] > 2 and target.dim() == 1:
        right = chance.gather(1, target[:, None].long())[:, 0]
        return ((chance**2).sum(1) - 2 * right + 1).mean()
    chance = chance[:, 1] if chance.dim() == 2 and chance.shape[1] == 2 and target.dim() == 1 else chance
    return ((chance - target.reshape(chance.shape).to(chance.dtype)) ** 2).mean()


# ---- numbers against numbers


class _OfNumbers(FromAll):
    def _of(self, preds: Tensor, targets: Tensor) -> Tensor:
        return self._of_numbers(preds.double().reshape(-1), targets.double().reshape(-1))

    def _of_numbers(self, preds: Tensor, targets: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} should implement _of_numbers(preds, targets)")


class R2Score(_OfNumbers):
    """The coefficient of determination: 1 less the squared error over the targets' variance."""

    column = "r2_score"

    def _of_numbers(self, preds: Tensor, targets: Tensor) -> Tensor:
        return 1 - ((targets - preds) ** 2).sum() / ((targets - targets.mean()) ** 2).sum()


class ExplainedVariance(_OfNumbers):
    """1 less the variance of the errors over the targets' variance: a constant error does not count."""

    column = "explained_variance_score"

    def _of_numbers(self, preds: Tensor, targets: Tensor) -> Tensor:
        return 1 - (targets - preds).var() / targets.var()


class PearsonCorrCoef(_OfNumbers):
    """The correlation of predictions and targets."""

    column = "pearsonr"

    def _of_numbers(self, preds: Tensor, targets: Tensor) -> Tensor:
        preds, targets = preds - preds.mean(), targets - targets.mean()
        return (preds * targets).sum() / ((preds**2).sum() * (targets**2).sum()).sqrt()


class SpearmanCorrCoef(PearsonCorrCoef):
    """The correlation of the ranks of predictions and targets."""

    column = "spearmanr"

    def _of_numbers(self, preds: Tensor, targets: Tensor) -> Tensor:
        return super()._of_numbers(_ranks(preds), _ranks(targets))
