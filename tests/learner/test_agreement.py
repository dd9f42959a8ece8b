"""Metrics of agreement and overlap over batches of different sizes, against their formulas in NumPy."""

from __future__ import annotations

import types

import numpy as np
import pytest

import numod
from numod.learner import BalancedAccuracy, CohenKappa, Dice, Jaccard, JaccardCoeff, MatthewsCorrCoef, Metric
from numod.learner.metrics import read

GENERATOR = numod.Generator().manual_seed(4)
SCORES = numod.randn(11, 4, generator=GENERATOR)
CLASSES = numod.tensor([0, 3, 1, 2, 2, 0, 1, 3, 0, 1, 1])


def over_batches(metric: Metric, preds: numod.Tensor, targets: numod.Tensor) -> float:
    assert read([metric.value]) == [None]
    for part in (slice(0, 4), slice(4, 8), slice(8, 11)):
        metric.accumulate(types.SimpleNamespace(pred=preds[part], yb=(targets[part],), xb=()))
    return read([metric.value])[0]


def counts() -> np.ndarray:
    matrix = np.zeros((4, 4))
    np.add.at(matrix, (CLASSES.numpy(), SCORES.argmax(1).numpy()), 1)
    return matrix


def test_balanced_accuracy() -> None:
    expected = (counts().diagonal() / counts().sum(1)).mean()
    assert over_batches(BalancedAccuracy(), SCORES, CLASSES) == pytest.approx(expected)
    assert over_batches(BalancedAccuracy(adjusted=True), SCORES, CLASSES) == pytest.approx((expected - 0.25) / 0.75)


def test_kappa_is_agreement_beyond_chance() -> None:
    shares = counts() / counts().sum()
    chance = shares.sum(0) @ shares.sum(1)
    assert over_batches(CohenKappa(), SCORES, CLASSES) == pytest.approx((np.trace(shares) - chance) / (1 - chance))
    assert over_batches(CohenKappa(), numod.nn.functional.one_hot(CLASSES).float(), CLASSES) == pytest.approx(1)


def test_matthews_is_the_correlation_of_two_classes() -> None:
    scores, classes = SCORES[:, :2], CLASSES % 2
    expected = np.corrcoef(scores.argmax(1).numpy(), classes.numpy())[0, 1]
    assert over_batches(MatthewsCorrCoef(), scores, classes) == pytest.approx(expected)
    assert over_batches(MatthewsCorrCoef(), scores, classes * 0) == 0


def test_overlaps() -> None:
    common, predicted, actual = counts().diagonal(), counts().sum(0), counts().sum(1)
    ratios = common / (predicted + actual - common)
    assert over_batches(Jaccard(average="macro"), SCORES, CLASSES) == pytest.approx(ratios.mean())
    images, masks = numod.randn(11, 2, 3, 3, generator=GENERATOR), numod.rand(11, 3, 3, generator=GENERATOR) > 0.5
    predicted_masks, wanted = images.argmax(1).bool().numpy(), masks.numpy()
    both = (predicted_masks & wanted).sum()
    assert over_batches(Dice(), images, masks.long()) == pytest.approx(
        2 * both / (predicted_masks.sum() + wanted.sum())
    )
    assert over_batches(JaccardCoeff(), images, masks.long()) == pytest.approx(both / (predicted_masks | wanted).sum())
