"""Metrics over batches of different sizes against formulas over all samples in NumPy."""

from __future__ import annotations

import numpy as np
import classified
import pytest
from classified import CLASSES, SCORES, counts

import numod
from numod.learner import (
    AvgMetric,
    ConfusionMatrix,
    F1Score,
    FBeta,
    Metric,
    Perplexity,
    Precision,
    R2Score,
    Recall,
    RocAuc,
    RocAucBinary,
    accuracy,
    accuracy_multi,
    error_rate,
    mae,
    mse,
    rmse,
    top_k_accuracy,
)
from numod.learner.metrics import as_metric
from numod.nn import functional as F

GENERATOR = numod.Generator().manual_seed(5)
VALUES, TARGETS = numod.randn(11, generator=GENERATOR), numod.randn(11, generator=GENERATOR)


def over_batches(metric: object, *arguments: object) -> float:
    return classified.over_batches(as_metric(metric), *arguments)


def test_averages_weigh_batches_by_their_size() -> None:
    right = (SCORES.argmax(1) == CLASSES).float().mean().item()
    assert over_batches(accuracy, SCORES, CLASSES) == pytest.approx(right)
    assert over_batches(error_rate, SCORES, CLASSES) == pytest.approx(1 - right)
    top = (SCORES.topk(2, 1).indices == CLASSES[:, None]).any(1).float().mean().item()
    assert over_batches(lambda pred, target: top_k_accuracy(pred, target, k=2), SCORES, CLASSES) == pytest.approx(top)
    assert over_batches(lambda pred, target: 2.0, SCORES, CLASSES) == 2.0
    yes = SCORES > 0.3
    assert over_batches(accuracy_multi, SCORES, yes) == pytest.approx(
        ((SCORES.sigmoid() > 0.5) == yes).float().mean().item()
    )


def test_errors_of_numbers() -> None:
    difference = VALUES.double().numpy() - TARGETS.double().numpy()
    assert over_batches(mse, VALUES, TARGETS) == pytest.approx((difference**2).mean())
    assert over_batches(mse, VALUES[:, None], TARGETS) == pytest.approx((difference**2).mean())  # not broadcast
    assert over_batches(mae, VALUES, TARGETS) == pytest.approx(np.abs(difference).mean())
    assert over_batches(rmse, VALUES, TARGETS) == pytest.approx(np.sqrt((difference**2).mean()))
    spread = (TARGETS.double().numpy() - TARGETS.double().numpy().mean()) ** 2
    assert over_batches(R2Score(), VALUES, TARGETS) == pytest.approx(1 - (difference**2).sum() / spread.sum())


def test_perplexity_is_of_the_whole_loss() -> None:
    whole = F.cross_entropy(SCORES, CLASSES).exp().item()
    assert over_batches(Perplexity(), SCORES, CLASSES, F.cross_entropy) == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize("average", ["binary", "macro", "weighted", "micro"])
def test_precision_recall_and_f1(average: str) -> None:
    matrix = counts()
    hits, predicted, actual = matrix.diagonal(), matrix.sum(0), matrix.sum(1)
    if average == "micro":
        hits, predicted, actual = hits.sum(), predicted.sum(), actual.sum()
    with np.errstate(invalid="ignore"):
        expected = [
            hits / predicted,
            hits / actual,
            2 * hits / (predicted + actual),
            5 * hits / (4 * actual + predicted),
        ]
    for metric, values in zip((Precision, Recall, F1Score, lambda **o: FBeta(beta=2.0, **o)), expected):
        values = np.nan_to_num(values)
        chosen = values[1] if average == "binary" else values
        chosen = np.average(values, weights=actual if average == "weighted" else None) if average[0] in "mw" else chosen
        assert over_batches(metric(average=average), SCORES, CLASSES) == pytest.approx(float(chosen))


def test_confusion_matrix_and_logits_of_two_classes() -> None:
    metric = ConfusionMatrix()
    over_batches(metric, SCORES, CLASSES)
    assert metric.matrix.tolist() == counts().tolist()
    truth = CLASSES % 2
    hits = ((VALUES > 0) & (truth == 1)).sum().item()
    assert over_batches(Recall(), VALUES, truth) == pytest.approx(hits / (truth == 1).sum().item())


def area(scores: np.ndarray, positive: np.ndarray) -> float:
    above, below = scores[positive][:, None], scores[~positive]
    return float(((above > below) + 0.5 * (above == below)).mean())


def test_area_under_the_curve_with_equal_scores() -> None:
    scores, truth = (VALUES * 2).round(), CLASSES % 2
    expected = area(scores.numpy(), truth.numpy() == 1)
    assert over_batches(RocAucBinary(), scores, truth) == pytest.approx(expected)
    probabilities = SCORES.softmax(1).numpy()
    expected = np.mean([area(probabilities[:, k], CLASSES.numpy() == k) for k in range(4)])
    assert over_batches(RocAuc(), SCORES, CLASSES) == pytest.approx(expected)


def test_names_and_what_is_no_metric() -> None:
    assert (
        as_metric(accuracy).name == "accuracy"
        and F1Score().name == "f1_score"
        and as_metric(Recall).name == "recall_score"
    )
    assert AvgMetric(lambda *_: 0.0, "mine").name == "mine" and Precision().value is None
    with pytest.raises(TypeError, match="expected a Metric or a function"):
        as_metric(3)
    with pytest.raises(ValueError, match="average must be"):
        F1Score(average="mean")
    with pytest.raises(NotImplementedError):
        _ = Metric().value
