"""Metrics of agreement and overlap over batches of different sizes, against their formulas in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from classified import CLASSES, SCORES, counts, over_batches

import numod
from numod.learner import BalancedAccuracy, CohenKappa, Dice, Jaccard, JaccardCoeff, MatthewsCorrCoef

GENERATOR = numod.Generator().manual_seed(5)


def test_balanced_accuracy() -> None:
    assert BalancedAccuracy().value is None
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
