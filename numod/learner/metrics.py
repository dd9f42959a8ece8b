"""Metrics: numbers about predictions, accumulated on the device over the batches of a pass and read once at its end.

A function of `(pred, *targets)` is averaged over the samples (`AvgMetric`). Metrics that are no average, such as F1,
are classes. Names are fastai's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from ..core.tensor import Tensor
from ..core.shape.joining import stack
from ..dtypes import float64, int64
from ..nn import functional as F

Number = float | int | Tensor | None


class Metric:
    """Base of metrics: `reset()` before a pass, `accumulate(learn)` after each batch, `value` and `name` at its end.

    `value` is a number or a tensor of one element, None where there was no sample. `column` is the name where it is not
    the class's.
    """

    column: str | None = None

    def reset(self) -> None:
        """Forget what was accumulated."""

    def accumulate(self, learn: Any) -> None:
        """Add a batch: `learn.pred`, `learn.yb`, `learn.loss`."""

    @property
    def value(self) -> Number:
        """The value over all samples since `reset`."""
        raise NotImplementedError(f"{type(self).__name__} should implement the property value")

    @property
    def name(self) -> str:
        """The heading of the metric's column."""
        if self.column is not None:
            return self.column
        text = type(self).__name__.removesuffix("Metric")
        return "".join(
            "_" + letter.lower() if letter.isupper() and k else letter.lower() for k, letter in enumerate(text)
        )

    def state_dict(self) -> dict[str, Any]:
        """What was accumulated."""
        return {key: value for key, value in vars(self).items() if isinstance(value, (Tensor, int, float, list))}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        vars(self).update(state)


class AvgMetric(Metric):
    """The average over all samples of `func(pred, *targets)`, which gives the average of a batch."""

    def __init__(self, func: Callable[..., Any], name: str | None = None) -> None:
        self.func, self._name = func, name
        self.reset()

    def reset(self) -> None:
        self.total, self.count = 0.0, 0

    def accumulate(self, learn: Any) -> None:
        size = batch_size(learn.yb or learn.xb)
        self.total = self.total + in_double(self.func(learn.pred, *learn.yb)) * size
        self.count += size

    @property
    def value(self) -> Number:
        return self.total / self.count if self.count else None

    @property
    def name(self) -> str:
        function = getattr(self.func, "func", self.func)  # of a partial
        return self._name or self.column or getattr(function, "__name__", type(function).__name__)


class AvgLoss(AvgMetric):
    """The average loss of all samples."""

    def __init__(self) -> None:
        super().__init__(len, "loss")

    def accumulate(self, learn: Any) -> None:
        size = batch_size(learn.yb or learn.xb)
        self.total = self.total + in_double(learn.loss) * size
        self.count += size


class Perplexity(AvgLoss):
    """The exponential of the average loss."""

    column = "perplexity"

    @property
    def value(self) -> Number:
        mean = super().value
        return mean if mean is None else mean.exp() if isinstance(mean, Tensor) else math.exp(mean)


class ValueMetric(Metric):
    """A value that is computed elsewhere, by `func()`."""

    def __init__(self, func: Callable[[], Number], metric_name: str | None = None) -> None:
        self.func, self.metric_name = func, metric_name

    @property
    def value(self) -> Number:
        return self.func()

    @property
    def name(self) -> str:
        return self.metric_name or self.func.__name__


class ConfusionMatrix(Metric):
    """Counts of (true class, predicted class), on the device. `classes` is the number of classes (`pred.shape[axis]`).

    Its value is not a number; `matrix` is the tensor (classes, classes), rows by true class.
    """

    def __init__(self, axis: int = -1, thresh: float = 0.5) -> None:
        self.axis, self.thresh = axis, thresh
        self.reset()

    def reset(self) -> None:
        self.matrix: Tensor | None = None

    def accumulate(self, learn: Any) -> None:
        predicted, classes = decided(learn.pred, self.axis, self.thresh)
        target = learn.yb[0].reshape(-1).to(int64)
        counts = (target * classes + predicted.reshape(-1)).bincount(minlength=classes * classes)
        counts = counts.reshape(classes, classes)
        self.matrix = counts if self.matrix is None else self.matrix + counts

    @property
    def value(self) -> Number:
        return None if self.matrix is None else self._score(self.matrix.double())

    def _score(self, counts: Tensor) -> Number:
        """The value of a subclass, from the counts as floats."""
        return None

    def state_dict(self) -> dict[str, Any]:
        return {"matrix": self.matrix}


class FromCounts(ConfusionMatrix):
    """A ratio of counts by class, averaged as scikit-learn does.

    `average` "binary" is the value of the class `pos_label`, "macro" the mean of classes, "weighted" that by their
    number of samples, "micro" of all samples together.
    """

    def __init__(self, axis: int = -1, pos_label: int = 1, average: str = "binary", thresh: float = 0.5) -> None:
        if average not in ("binary", "macro", "weighted", "micro"):
            raise ValueError(
                f"{type(self).__name__}: average must be 'binary', 'macro', 'weighted' or 'micro', got {average!r}"
            )
        self.pos_label, self.average = pos_label, average
        super().__init__(axis, thresh)

    def _score(self, counts: Tensor) -> Number:
        hits, predicted, actual = self._counts(counts)
        if self.average == "micro":
            hits, predicted, actual = hits.sum(), predicted.sum(), actual.sum()
        # 0 for a class without samples, as in scikit-learn
        ratio = self._ratio(hits, predicted, actual).nan_to_num(nan=0.0)
        if self.average == "binary":
            return ratio[self.pos_label]
        if self.average == "macro":
            seen = self._seen(predicted, actual)
            return (ratio * seen).sum() / seen.sum()
        return (ratio * actual).sum() / actual.sum() if self.average == "weighted" else ratio

    def _counts(self, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of each class the numbers of samples that are found, that are predicted, and that there are."""
        return counts.diagonal(), counts.sum(0), counts.sum(1)

    def _seen(self, predicted: Tensor, actual: Tensor) -> Tensor:
        """Which classes the mean is of."""
        return predicted + actual > 0

    def _ratio(self, hits: Tensor, predicted: Tensor, actual: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} should implement _ratio(hits, predicted, actual)")


class Precision(FromCounts):
    """The share of a class's predictions that are correct."""

    column = "precision_score"

    def _ratio(self, hits: Tensor, predicted: Tensor, actual: Tensor) -> Tensor:
        return hits / predicted


class Recall(FromCounts):
    """The share of a class's samples that are found."""

    column = "recall_score"

    def _ratio(self, hits: Tensor, predicted: Tensor, actual: Tensor) -> Tensor:
        return hits / actual


class FBeta(FromCounts):
    """The weighted harmonic mean of precision and recall, which counts `beta` times as much."""

    column = "fbeta_score"

    def __init__(self, beta: float, *args: Any, **options: Any) -> None:
        self.beta = beta
        super().__init__(*args, **options)

    def _ratio(self, hits: Tensor, predicted: Tensor, actual: Tensor) -> Tensor:
        square = self.beta * self.beta
        return (1 + square) * hits / (square * actual + predicted)


class F1Score(FBeta):
    """The harmonic mean of precision and recall."""

    column = "f1_score"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(1.0, *args, **options)


# ---- functions of a batch


def accuracy(inp: Tensor, targ: Tensor, axis: int = -1) -> Tensor:
    """The share of samples whose largest score along `axis` is their class."""
    return (inp.argmax(axis) == targ.reshape(inp.argmax(axis).shape)).float().mean()


def error_rate(inp: Tensor, targ: Tensor, axis: int = -1) -> Tensor:
    """1 less the accuracy."""
    return 1 - accuracy(inp, targ, axis)


def top_k_accuracy(inp: Tensor, targ: Tensor, k: int = 5, axis: int = -1) -> Tensor:
    """The share of samples whose class is among the `k` with the largest scores."""
    top = inp.topk(min(k, inp.shape[axis]), axis).indices
    return (top == targ.unsqueeze(axis)).any(axis).float().mean()


def accuracy_multi(inp: Tensor, targ: Tensor, thresh: float = 0.5, sigmoid: bool = True) -> Tensor:
    """The share of right yes-or-no answers, for targets of the scores' shape."""
    return (((inp.sigmoid() if sigmoid else inp) > thresh) == targ.bool()).float().mean()


def mse(inp: Tensor, targ: Tensor) -> Tensor:
    """The mean squared error."""
    return F.mse_loss(inp, _shaped(targ, inp))


def mae(inp: Tensor, targ: Tensor) -> Tensor:
    """The mean absolute error."""
    return F.l1_loss(inp, _shaped(targ, inp))


class Rmse(AvgMetric):
    """The root of the mean squared error of all samples."""

    def __init__(self) -> None:
        super().__init__(mse, "rmse")

    @property
    def value(self) -> Number:
        mean = super().value
        return mean if mean is None else mean**0.5


rmse, perplexity = Rmse(), Perplexity()


def _shaped(targ: Tensor, inp: Tensor) -> Tensor:
    """(N,) targets for (N, 1) predictions."""
    return targ.reshape(inp.shape).to(inp.dtype) if targ.numel() == inp.numel() else targ


def decided(pred: Tensor, axis: int, thresh: float) -> tuple[Tensor, int]:
    """(predicted classes, number of classes). One score per sample is a logit of two classes."""
    if pred.dim() < 2 or pred.shape[axis] == 1:
        return (pred.reshape(-1).sigmoid() > thresh).to(int64), 2
    return pred.argmax(axis), pred.shape[axis]


def batch_size(batch: tuple) -> int:
    """The number of samples."""
    first = batch[0] if batch else ()
    while not isinstance(first, Tensor) and isinstance(first, (list, tuple)) and first:
        first = first[0]
    if isinstance(first, dict):
        first = next(iter(first.values()))
    return first.shape[0] if isinstance(first, Tensor) and first.dim() else 1


def in_double(value: Any) -> Any:
    """A metric of a batch, without history, in float64 (so that sums of many batches stay exact)."""
    if not isinstance(value, Tensor):
        return value
    value = value.detach()
    return (value if value.dim() == 0 else value.float().mean()).double()


def as_metric(metric: Any) -> Metric:
    """Wrap a function of a batch as a metric that averages its values."""
    metric = metric() if isinstance(metric, type) else metric
    if isinstance(metric, Metric):
        return metric
    if not callable(metric):
        raise TypeError(f"metrics: expected a Metric or a function of (pred, target), got {type(metric).__name__}")
    return AvgMetric(metric)


def read(values: Iterable[Number]) -> list[float | None]:
    """Values as Python numbers, all tensors by one read from the device."""
    values = list(values)
    places = [k for k, value in enumerate(values) if isinstance(value, Tensor)]
    if places:
        whole = stack([values[k].detach().reshape(()).to(float64) for k in places])
        for k, value in zip(places, whole.tolist()):
            values[k] = value
    return values
