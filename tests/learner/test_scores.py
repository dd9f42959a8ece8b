"""Metrics of all predictions, of labels and of agreement, over batches of different sizes, beside scikit-learn's and
SciPy's.
"""

from __future__ import annotations

import pickle
import types
from collections.abc import Callable

import numpy as np
import pytest

import numod
from numod import nn
from numod.learner import (
    AccumMetric,
    APScore,
    APScoreMulti,
    BalancedAccuracy,
    BrierScore,
    CohenKappa,
    DataLoaders,
    ExplainedVariance,
    F1ScoreMulti,
    FBetaMulti,
    HammingLoss,
    HammingLossMulti,
    Jaccard,
    JaccardMulti,
    Learner,
    MatthewsCorrCoef,
    Metric,
    PearsonCorrCoef,
    PrecisionMulti,
    R2Score,
    RecallMulti,
    RocAuc,
    RocAucMulti,
    SpearmanCorrCoef,
    skm_to_fastai,
)
from numod.learner.metrics import read

GENERATOR = numod.Generator().manual_seed(4)
COUNT = 23
SCORES = numod.randn(COUNT, 4, generator=GENERATOR)
CLASSES = numod.randint(0, 4, (COUNT,), generator=GENERATOR)
LABELS = numod.randint(0, 2, (COUNT, 4), generator=GENERATOR)
VALUES, TARGETS = numod.randn(COUNT, generator=GENERATOR), numod.randn(COUNT, generator=GENERATOR)
TIED = (VALUES * 2).round()  # with equal scores
YES = (TARGETS > 0).long()


def over_batches(metric: Metric, preds: numod.Tensor, targets: numod.Tensor, loss: object = None) -> float:
    metric.reset()
    assert read([metric.value]) == [None]
    for part in (slice(0, 9), slice(9, 10), slice(10, COUNT)):
        metric.accumulate(types.SimpleNamespace(pred=preds[part], yb=(targets[part],), xb=(), loss_func=loss))
    (value,) = read([metric.value])
    assert isinstance(value, float)
    return value


@pytest.mark.parametrize("scores", [VALUES, TIED], ids=["distinct", "equal"])
def test_scores_of_two_classes(scores: numod.Tensor) -> None:
    skm = pytest.importorskip("sklearn.metrics")
    for metric, reference in ((RocAuc(), skm.roc_auc_score), (APScore(), skm.average_precision_score)):
        assert over_batches(metric, scores, YES) == pytest.approx(reference(YES.numpy(), scores.numpy()))
        assert metric.name == reference.__name__


def test_scores_of_classes_and_of_labels() -> None:
    skm = pytest.importorskip("sklearn.metrics")
    chances, one_hot = SCORES.softmax(1).numpy(), nn.functional.one_hot(CLASSES).numpy()
    for metric, reference in ((RocAuc, skm.roc_auc_score), (APScore, skm.average_precision_score)):
        expected = reference(one_hot, chances, average="macro")
        assert over_batches(metric(), SCORES, CLASSES) == pytest.approx(expected, rel=1e-6)
        expected = reference(LABELS.numpy(), SCORES.numpy(), average="macro")
        assert over_batches(metric(), SCORES, LABELS) == pytest.approx(expected)
    assert over_batches(RocAucMulti(), SCORES, LABELS.float()) == over_batches(RocAuc(), SCORES, LABELS)


def test_brier_scores_are_of_probabilities() -> None:
    skm = pytest.importorskip("sklearn.metrics")
    expected = skm.brier_score_loss(YES.numpy(), VALUES.double().sigmoid().numpy())
    loss = nn.BCEWithLogitsLoss()
    assert over_batches(BrierScore(), VALUES, YES, loss) == pytest.approx(expected)
    assert over_batches(BrierScore(), VALUES[:, None], YES, loss) == pytest.approx(expected)
    assert over_batches(BrierScore(), VALUES.sigmoid(), YES.float(), nn.BCELoss()) == pytest.approx(expected)
    two = SCORES[:, :2].double().softmax(1)[:, 1].numpy()
    expected = skm.brier_score_loss(YES.numpy(), two)
    assert over_batches(BrierScore(), SCORES[:, :2], YES, nn.CrossEntropyLoss()) == pytest.approx(expected)
    chances, one_hot = SCORES.double().softmax(1).numpy(), np.eye(4)[CLASSES.numpy()]
    expected = ((chances - one_hot) ** 2).sum(1).mean()
    assert over_batches(BrierScore(), SCORES, CLASSES, nn.CrossEntropyLoss()) == pytest.approx(expected)


def test_numbers() -> None:
    skm, stats = pytest.importorskip("sklearn.metrics"), pytest.importorskip("scipy.stats")
    references = {
        R2Score: skm.r2_score, ExplainedVariance: skm.explained_variance_score,
        PearsonCorrCoef: lambda y, p: stats.pearsonr(p, y)[0], SpearmanCorrCoef: lambda y, p: stats.spearmanr(p, y)[0],
    }  # fmt: skip
    for metric, reference in references.items():
        for preds in (VALUES, TIED, VALUES + 3):
            expected = reference(TARGETS.double().numpy(), preds.double().numpy())
            assert over_batches(metric(), preds[:, None], TARGETS) == pytest.approx(expected), metric


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
@pytest.mark.parametrize("labels", [LABELS, LABELS * numod.tensor([1, 1, 0, 1])], ids=["all", "one never"])
def test_ratios_of_labels(average: str, labels: numod.Tensor) -> None:
    skm = pytest.importorskip("sklearn.metrics")
    chosen, actual = (SCORES.sigmoid() >= 0.6).numpy(), labels.numpy()
    for metric, reference in (
        (PrecisionMulti, skm.precision_score), (RecallMulti, skm.recall_score), (F1ScoreMulti, skm.f1_score),
        (JaccardMulti, skm.jaccard_score),
    ):  # fmt: skip
        expected = reference(actual, chosen, average=average, zero_division=0)
        assert over_batches(metric(thresh=0.6, average=average), SCORES, labels.float()) == pytest.approx(expected)
        assert metric().name == reference.__name__
    expected = skm.fbeta_score(actual, chosen, beta=2, average=average, zero_division=0)
    assert over_batches(FBetaMulti(2, 0.6, average=average), SCORES, labels) == pytest.approx(expected)
    expected = skm.hamming_loss(actual, chosen)
    assert over_batches(HammingLossMulti(0.6), SCORES, labels) == pytest.approx(expected)
    with pytest.raises(ValueError, match="average must be"):
        F1ScoreMulti(average="binary")


def test_wrong_answers_at_the_threshold_as_for_the_other_metrics_of_labels() -> None:
    metric = pickle.loads(pickle.dumps(HammingLossMulti(0.5, sigmoid=False)))
    assert over_batches(metric, numod.full((COUNT, 4), 0.5), numod.ones(COUNT, 4)) == 0.0


@pytest.mark.filterwarnings("ignore:No positive class found")
def test_average_precision_with_a_label_that_never_occurs() -> None:
    skm = pytest.importorskip("sklearn.metrics")
    labels = LABELS * numod.tensor([1, 1, 0, 1])
    expected = skm.average_precision_score(labels.numpy(), SCORES.numpy())
    assert over_batches(APScoreMulti(), SCORES, labels) == pytest.approx(expected)


def test_agreement() -> None:
    skm = pytest.importorskip("sklearn.metrics")
    for metric, reference in (
        (BalancedAccuracy(), skm.balanced_accuracy_score), (CohenKappa(), skm.cohen_kappa_score),
        (MatthewsCorrCoef(), skm.matthews_corrcoef), (HammingLoss(), skm.hamming_loss),
        (Jaccard(average="macro"), lambda y, p: skm.jaccard_score(y, p, average="macro")),
    ):  # fmt: skip
        expected = reference(CLASSES.numpy(), SCORES.argmax(1).numpy())
        assert over_batches(metric, SCORES, CLASSES) == pytest.approx(expected)
        assert metric.name == getattr(reference, "__name__", "").replace("<lambda>", "jaccard_score")


def of_targets_first(targets: np.ndarray, preds: np.ndarray, weight: float) -> float:
    assert isinstance(targets, np.ndarray) and targets.dtype == np.int64
    return weight * float((targets - preds).sum())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"dim_argmax": -1}, SCORES.argmax(-1)),
        ({"activation": "softmax", "flatten": False}, SCORES.softmax(-1)),
        ({"activation": "binary_softmax"}, SCORES.softmax(-1)[:, -1]),
        ({"activation": "sigmoid", "thresh": 0.6}, (SCORES.sigmoid() >= 0.6).reshape(-1)),
        ({}, SCORES.reshape(-1)),
    ],
)
def test_any_function_of_all_predictions(options: dict, expected: numod.Tensor) -> None:
    received = []

    def keep(preds: numod.Tensor, targets: numod.Tensor) -> float:
        received[:] = [preds, targets]
        return 0.5

    metric = AccumMetric(keep, **options)
    assert over_batches(metric, SCORES, CLASSES) == 0.5 and metric.name == "keep"
    assert numod.equal(received[0], expected) and numod.equal(received[1], CLASSES)


def test_functions_of_arrays_with_the_targets_first() -> None:
    metric = skm_to_fastai(of_targets_first, weight=2.0)
    expected = 2.0 * (CLASSES - SCORES.argmax(1)).sum().item()
    assert over_batches(metric, SCORES, CLASSES) == expected and metric.name == "of_targets_first"
    with pytest.raises(ValueError, match="activation must be one of"):
        AccumMetric(of_targets_first, activation="relu")


def test_one_read_for_all_metrics_of_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = numod.randn(20, 3), numod.randint(0, 2, (20,))
    loader = [(x[k : k + 4], y[k : k + 4]) for k in range(0, 20, 4)]
    metrics = [APScore(), RocAuc(), BrierScore(), SpearmanOfClass(), MatthewsCorrCoef(), HammingLoss(), CohenKappa()]
    learn = Learner(DataLoaders(loader, loader), nn.Linear(3, 2), nn.CrossEntropyLoss(), metrics=metrics)
    reads = count_reads(monkeypatch)
    values = learn.validate()
    assert len(values) == 1 + len(metrics) and len(reads) == 1


class SpearmanOfClass(SpearmanCorrCoef):
    """The correlation of class 1's scores with the classes."""

    def _prepared(self, preds: numod.Tensor) -> numod.Tensor:
        return preds[:, 1]


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list:
    reads: list = []

    def counted(name: str) -> Callable:
        method = getattr(numod.Tensor, name)

        def read_tensor(self: numod.Tensor, *arguments: object) -> object:
            reads.append(name)
            return method(self, *arguments)

        return read_tensor

    for name in ("item", "tolist"):
        monkeypatch.setattr(numod.Tensor, name, counted(name))
    return reads
