"""Losses against their definitions in NumPy: values, reductions, gradients to second order, old spellings, errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from math import lgamma, pi

import numpy as np
import pytest
from selection import second_orders

import numod
from numod import nn
from numod.autograd import gradcheck, gradgradcheck
from numod.nn import functional as F

RNG = np.random.default_rng(0)
X, Y, Z = (RNG.standard_normal((5, 4)) for _ in range(3))
UNIT, WEIGHT = RNG.random((5, 4)) * 0.8 + 0.1, RNG.random(4) + 0.5
SIGN = np.where(RNG.random((5, 4)) > 0.5, 1.0, -1.0)
CLASS = np.array([1, 0, 3, 2, 3])
ROWS = np.arange(5)


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def length(x: np.ndarray) -> np.ndarray:
    return np.sqrt(((x + 1e-6) ** 2).sum(1))


def others(x: np.ndarray, margin: float) -> np.ndarray:
    """max(0, margin - x[target] + x[i]) for i other than the target."""
    gaps = np.maximum(0, margin - x[ROWS, CLASS][:, None] + x)
    gaps[ROWS, CLASS] = 0
    return gaps


GAP = np.abs(X - Y)
SIGMOID = 1 / (1 + np.exp(-X))
# (loss, inputs, of which the first's gradient is checked, the loss of each element)
CASES: dict[str, tuple[Callable, tuple, np.ndarray]] = {
    "mse": (F.mse_loss, (X, Y), (X - Y) ** 2), "l1": (F.l1_loss, (X, Y), GAP),
    "huber": (lambda x, y, **k: F.huber_loss(x, y, delta=0.7, **k), (X, Y),
        np.where(GAP < 0.7, GAP**2 / 2, 0.7 * (GAP - 0.35))),
    "smooth_l1": (lambda x, y, **k: F.smooth_l1_loss(x, y, beta=0.5, **k), (X, Y),
        np.where(GAP < 0.5, GAP**2, GAP - 0.25)),
        "bce": (F.binary_cross_entropy, (UNIT, UNIT[::-1]),
            -(UNIT[::-1] * np.log(UNIT) + (1 - UNIT[::-1]) * np.log(1 - UNIT))),
    "bce_with_logits": (F.binary_cross_entropy_with_logits, (X, UNIT),
        -(UNIT * np.log(SIGMOID) + (1 - UNIT) * np.log(1 - SIGMOID))),
        "kl": (F.kl_div, (X, UNIT), UNIT * (np.log(UNIT) - X)),
    "poisson": (F.poisson_nll_loss, (X, UNIT), np.exp(X) - UNIT * X),
    "gaussian": (F.gaussian_nll_loss, (X, Y, UNIT), 0.5 * (np.log(UNIT) + (X - Y) ** 2 / UNIT)),
    "soft_margin": (F.soft_margin_loss, (X, SIGN), np.log1p(np.exp(-SIGN * X))),
    "margin_ranking": (lambda x, y, s, **k: F.margin_ranking_loss(x, y, s, 0.3, **k), (X, Y, SIGN),
        np.maximum(0, -SIGN * (X - Y) + 0.3)),
        "hinge": (F.hinge_embedding_loss, (X, SIGN), np.where(SIGN == 1, X, np.maximum(0, 1 - X))),
    "multilabel_soft_margin": (F.multilabel_soft_margin_loss, (X, UNIT),
        -(UNIT * np.log(SIGMOID) + (1 - UNIT) * np.log(1 - SIGMOID)).mean(1)),
        "multi_margin": (F.multi_margin_loss, (X, CLASS), others(X, 1.0).sum(1) / 4),
    "multi_margin squared": (lambda x, y, **k: F.multi_margin_loss(x, y, p=2, margin=0.7, **k), (X, CLASS),
        (others(X, 0.7) ** 2).sum(1) / 4), "nll": (F.nll_loss, (X, CLASS), -X[ROWS, CLASS]),
        "cross_entropy": (F.cross_entropy, (X, CLASS), -log_softmax(X)[ROWS, CLASS]),
    "smoothed": (lambda x, y, **k: F.cross_entropy(x, y, label_smoothing=0.2, **k), (X, CLASS),
        -0.8 * log_softmax(X)[ROWS, CLASS] - 0.2 * log_softmax(X).mean(1)),
        "soft targets": (F.cross_entropy, (X, UNIT), -(UNIT * log_softmax(X)).sum(1)),
    "cosine": (F.cosine_embedding_loss, (X, Y, SIGN[:, 0]),
        (lambda c: np.where(SIGN[:, 0] == 1, 1 - c,
            np.maximum(0, c)))((X * Y).sum(1) / np.sqrt((X * X).sum(1) * (Y * Y).sum(1)))),
    "triplet": (lambda x, y, z, **k: F.triplet_margin_loss(x, y, z, swap=True, **k), (X, Y, Z),
        np.maximum(0, 1 + length(X - Y) - np.minimum(length(X - Z), length(Y - Z)))),
}  # fmt: skip
pytestmark = [pytest.mark.on_cuda(simulator=False), pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")]


def tensors(arrays: tuple) -> list[numod.Tensor]:
    return [numod.tensor(np.ascontiguousarray(array)) for array in arrays]


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    loss, arrays, elements = CASES[name]
    for reduction, expected in (("none", elements), ("sum", elements.sum()), ("mean", elements.mean())):
        np.testing.assert_allclose(loss(*tensors(arrays), reduction=reduction).numpy(), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name, twice", second_orders(3, CASES, others=pytest.mark.fuzz))
def test_gradients(name: str, twice: bool) -> None:
    loss, arrays, _ = CASES[name]
    x, *rest = tensors(arrays)
    x.requires_grad_()
    assert gradcheck(lambda x: loss(x, *rest), (x,))
    assert not twice or gradgradcheck(lambda x: loss(x, *rest), (x,))


@pytest.mark.parametrize("loss, logarithms", [(F.nll_loss, X), (F.cross_entropy, log_softmax(X))])
def test_class_weights_and_ignored_classes(loss: Callable, logarithms: np.ndarray) -> None:
    share = np.where(CLASS == 3, 0, WEIGHT[CLASS])
    x, target, weight = tensors((X, CLASS, WEIGHT))
    row_losses = -share * logarithms[ROWS, CLASS]
    for reduction, expected in (
        ("none", row_losses),
        ("sum", row_losses.sum()),
        ("mean", row_losses.sum() / share.sum()),
    ):
        np.testing.assert_allclose(
            loss(x, target, weight, ignore_index=3, reduction=reduction).numpy(), expected, rtol=1e-9
        )
    assert np.isnan(loss(x, numod.full((5,), -100)).item())  # a mean of nothing


def test_weights_of_elements() -> None:
    x, y, weight = tensors((X, Y, UNIT))
    np.testing.assert_allclose(F.mse_loss(x, y, weight=weight).item(), (UNIT * (X - Y) ** 2).sum() / UNIT.sum())
    np.testing.assert_allclose(F.huber_loss(x, y, weight=weight, delta=9.0).item(), (UNIT * (X - Y) ** 2 / 2).mean())
    with pytest.raises(ValueError, match="same size"):
        F.l1_loss(x, y, weight=weight[0])


def test_constants_of_full_likelihoods() -> None:
    x, y, count = tensors((X, Y, np.full((5, 4), 6.0)))
    difference = F.poisson_nll_loss(x, count, full=True) - F.poisson_nll_loss(x, count)
    assert difference.item() == pytest.approx(lgamma(7), abs=0.02)  # Stirling's approximation
    assert (F.gaussian_nll_loss(x, y, 1.0, full=True) - F.gaussian_nll_loss(x, y, 1.0)).item() == pytest.approx(
        0.5 * np.log(2 * pi)
    )


def test_labels_end_at_the_first_negative_one() -> None:
    x, target = numod.tensor([0.1, 0.2, 0.4, 0.8]), numod.tensor([3, 0, -1, 1])
    # 0.25 * ((1-(0.1-0.2)) + (1-(0.1-0.4)) + (1-(0.8-0.2)) + (1-(0.8-0.4)))
    assert F.multilabel_margin_loss(x, target).item() == pytest.approx(0.85)


def test_logits_far_from_zero() -> None:
    x = numod.tensor([1e4, 1e4, -1e4, -1e4], requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(x, numod.tensor([0.0, 1.0, 0.0, 1.0]), reduction="none")
    loss.sum().backward()
    assert loss.tolist() == [1e4, 0.0, 0.0, 1e4] and x.grad.tolist() == [1.0, 0.0, 0.0, -1.0]


@pytest.mark.cpu_only
@pytest.mark.parametrize("loss", [F.smooth_l1_loss, F.huber_loss])
def test_gradients_of_infinite_errors_are_bounded_as_others_and_those_of_nan_are_nan(loss: Callable) -> None:
    x = numod.tensor([0.25, np.inf, -np.inf, np.nan], requires_grad=True)
    loss(x, numod.zeros(4), reduction="sum").backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0.25, 1, -1, np.nan])


def test_the_older_spelling_has_its_places() -> None:
    x, y = tensors((X, Y))
    assert list(inspect.signature(F.mse_loss).parameters) == [
        "input",
        "target",
        "size_average",
        "reduce",
        "reduction",
        "weight",
    ]
    assert list(inspect.signature(F.nll_loss).parameters)[2:6] == ["weight", "size_average", "ignore_index", "reduce"]
    assert F.mse_loss(x, y, None, None, "sum").item() == pytest.approx(((X - Y) ** 2).sum())
    assert F.cross_entropy(x, numod.tensor(CLASS), None, None, 1).item() == pytest.approx(
        -log_softmax(X)[ROWS, CLASS][1:].mean()
    )
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert F.l1_loss(x, y, False).item() == pytest.approx(GAP.sum())
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert nn.HingeEmbeddingLoss(0.5, reduce=False).reduction == "none"
    with pytest.raises(TypeError):
        F.mse_loss(x, y, None, None, "sum", None, None)
    with pytest.warns(FutureWarning, match="NLLLoss2d"):
        nn.NLLLoss2d()


ERRORS = [
    (lambda x, y: F.mse_loss(x, y, reduction="most"), ValueError, "most is not a valid value for reduction"),
    (lambda x, y: F.smooth_l1_loss(x, y, beta=-1.0), RuntimeError, "negative"),
    (lambda x, y: F.huber_loss(x, y, delta=0), RuntimeError, "delta"),
    (lambda x, y: F.binary_cross_entropy(x, y), RuntimeError, "between 0 and 1"),
    (lambda x, y: F.binary_cross_entropy_with_logits(x, y > 0), RuntimeError,
    "Double can't be cast to the desired output type Bool"),
    (lambda x, y: F.kl_div(x, (y > 0).long()), RuntimeError, "Integral"),
    (lambda x, y: F.cross_entropy(x, y[:, 0].int()), RuntimeError, "expected target dtype to be Long or Byte"),
    (lambda x, y: F.cross_entropy(x, y, ignore_index=2), RuntimeError, "ignore_index is not supported"),
    (lambda x, y: F.cross_entropy(x, y, label_smoothing=1.5), RuntimeError, "label_smoothing"),
    (lambda x, y: F.cross_entropy(x, numod.tensor(CLASS), y[0, :3]), RuntimeError, "all 4 classes"),
    (lambda x, y: F.nll_loss(x, numod.tensor(CLASS[:3])), ValueError, "batch_size"),
    (lambda x, y: F.cross_entropy(x, numod.tensor(CLASS + 1)), IndexError, "Target 4 is out of bounds"),
    (lambda x, y: F.cross_entropy(x[0], numod.tensor([1, 2])), ValueError, "1D target must have size 1"),
    (lambda x, y: F.multi_margin_loss(x, numod.tensor(CLASS), weight=y[0, :3]), RuntimeError,
    "inconsistent weight size"),
    (lambda x, y: F.multilabel_margin_loss(x, numod.full((5, 4), -2)), RuntimeError, "or -1"),
    (lambda x, y: nn.TripletMarginLoss(margin=0.0), ValueError, "margin"),
    (lambda x, y: nn.MultiMarginLoss(p=3), ValueError, "p == 1"),
]  # fmt: skip


@pytest.mark.cpu_only
@pytest.mark.parametrize("call, error, text", ERRORS)
def test_errors(call: Callable, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        call(*tensors((X, Y)))


def test_broadcast_targets_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="Using a target size"):
        F.mse_loss(*tensors((X, Y[0])))


def test_bytes_are_classes_too() -> None:
    x = tensors((X,))[0]
    assert (
        F.cross_entropy(x, numod.tensor(CLASS).to(numod.uint8)).item() == F.cross_entropy(x, numod.tensor(CLASS)).item()
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", [None, [1.0, 2.0, 4.0]])
def test_negative_log_likelihood_to_second_order(weight, reduction):
    x, target = numod.randn(2, 3, 2, dtype=numod.float64, requires_grad=True), numod.tensor([[0, 2], [1, 0]])
    weight = None if weight is None else numod.tensor(weight, dtype=numod.float64)
    chosen = weight[target] if weight is not None else numod.ones(2, 2, dtype=numod.float64)
    chosen[1, 0] = 0  # ignored
    loss = F.nll_loss(x, target, weight, ignore_index=1, reduction=reduction)
    row_losses = -x.gather(1, target.unsqueeze(1)).squeeze(1) * chosen
    expected = row_losses if reduction == "none" else row_losses.sum() / (chosen.sum() if reduction == "mean" else 1)
    assert numod.allclose(loss, expected)
    assert gradcheck(lambda x: F.nll_loss(x, target, weight, ignore_index=1, reduction=reduction), (x,))
    assert gradgradcheck(lambda x: F.nll_loss(x * x, target, weight, ignore_index=1, reduction=reduction), (x,))


def test_cosine_similarity_of_tiny_vectors():
    x = numod.tensor([[1e-4, 1e-8]])
    y = numod.tensor([[1e-8, 1e-4]])
    np.testing.assert_allclose(
        numod.nn.functional.cosine_similarity(x * 1e-4, y * 1e-4, eps=1e-30).tolist(), [2e-4], rtol=1e-5
    )


def test_margins_that_are_just_kept_have_no_gradient():
    for loss, target in (
        (numod.nn.functional.multi_margin_loss, [0]),
        (numod.nn.functional.multilabel_margin_loss, [[0, -1]]),
    ):
        x = numod.tensor([[1.0, 0.0]], requires_grad=True)
        loss(x, numod.tensor(target)).backward()
        assert x.grad.tolist() == [[0.0, 0.0]]
