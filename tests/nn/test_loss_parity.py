"""All losses beside PyTorch's: every reduction, weights, options, gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest
from parity import same_error, torch, twins

import numod

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")]
RNG = np.random.default_rng(0)
X, Y, Z = (RNG.standard_normal((5, 4)) for _ in range(3))
SIGN, CLASS = np.where(RNG.random((5, 4)) > 0.5, 1.0, -1.0), RNG.integers(0, 4, 5)
ROW_SIGN, UNIT, WEIGHT = SIGN[:, 0].copy(), RNG.random((5, 4)) * 0.8 + 0.1, RNG.random(4) + 0.5
LABELS = np.array([[0, 2, -1, 1], [3, -1, 0, 0], [-1, 0, 1, 2], [0, 1, 2, 3], [1, -1, -1, -1]])

CASES = [  # (class name, options, inputs; those of floats in the first group get gradients)
    ("L1Loss", {}, (X, Y)), ("MSELoss", {}, (X, Y)), ("SmoothL1Loss", {"beta": 0.5}, (X, Y)),
    ("SmoothL1Loss", {"beta": 0.0}, (X, Y)), ("HuberLoss", {"delta": 0.7}, (X, Y)),
    ("CrossEntropyLoss", {}, (X, CLASS)),
    ("CrossEntropyLoss", {"weight": WEIGHT, "label_smoothing": 0.2, "ignore_index": 1}, (X, CLASS)),
    ("CrossEntropyLoss", {"ignore_index": 2}, (X, CLASS)),
    ("CrossEntropyLoss", {"weight": WEIGHT, "label_smoothing": 0.1}, (X, UNIT)),
    ("CrossEntropyLoss", {}, (X[0], CLASS[0])),
    ("CrossEntropyLoss", {}, (RNG.standard_normal((2, 4, 3)), RNG.integers(0, 4, (2, 3)))),
    ("NLLLoss", {"weight": WEIGHT, "ignore_index": 1}, (X, CLASS)),
    ("NLLLoss", {}, (RNG.standard_normal((2, 4, 3, 2)), RNG.integers(0, 4, (2, 3, 2)))),
    ("PoissonNLLLoss", {}, (X, UNIT)), ("PoissonNLLLoss", {"log_input": False, "full": True}, (UNIT, UNIT * 4)),
    ("GaussianNLLLoss", {"full": True}, (X, Y, UNIT)), ("GaussianNLLLoss", {}, (X, Y, UNIT[:, :1].copy())),
    ("GaussianNLLLoss", {}, (X, Y, UNIT[:, 0].copy())), ("KLDivLoss", {}, (X, UNIT)),
    ("KLDivLoss", {"log_target": True}, (X, Y)),
    ("BCELoss", {"weight": WEIGHT}, (UNIT, UNIT[::-1].copy())),
    ("BCEWithLogitsLoss", {"pos_weight": WEIGHT, "weight": WEIGHT}, (X, UNIT)),
    ("MarginRankingLoss", {"margin": 0.3}, (X, Y, SIGN)), ("HingeEmbeddingLoss", {"margin": 0.4}, (X, SIGN)),
    ("MultiLabelMarginLoss", {}, (X, LABELS)), ("MultiLabelMarginLoss", {}, (X[0], LABELS[0])),
    ("SoftMarginLoss", {}, (X, SIGN)), ("MultiLabelSoftMarginLoss", {"weight": WEIGHT}, (X, UNIT)),
    ("CosineEmbeddingLoss", {"margin": 0.1}, (X, Y, ROW_SIGN)),
    ("MultiMarginLoss", {}, (X, CLASS)), ("MultiMarginLoss", {"p": 2, "margin": 0.7, "weight": WEIGHT}, (X, CLASS)),
    ("TripletMarginLoss", {}, (X, Y, Z)), ("TripletMarginLoss", {"swap": True, "margin": 2.0, "p": 1}, (X, Y, Z)),
    ("TripletMarginWithDistanceLoss", {}, (X, Y, Z)),
]  # fmt: skip


def tensors(t, arrays: tuple) -> list:
    inputs = [t.tensor(array) for array in arrays]
    return [
        array.requires_grad_() if array.is_floating_point() and k < 2 and arrays[k] is not SIGN else array
        for k, array in enumerate(inputs)
    ]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "name, options, arrays", CASES, ids=lambda parameter: parameter if isinstance(parameter, str) else ""
)
def test_losses(name: str, options: dict, arrays: tuple, reduction: str) -> None:
    losses = []
    for t in (numod, torch):
        loss = getattr(t.nn, name)(
            **{key: t.tensor(value) if isinstance(value, np.ndarray) else value for key, value in options.items()},
            reduction=reduction,
        )
        inputs = tensors(t, arrays)
        result = loss(*inputs)
        (result * result).sum().backward()
        losses.append(
            (
                repr(loss),
                tuple(result.shape),
                result.detach().numpy(),
                [input.grad.numpy() for input in inputs if input.grad is not None],
            )
        )
    assert losses[0][:2] == losses[1][:2]
    np.testing.assert_allclose(losses[0][2], losses[1][2], rtol=1e-9, atol=1e-10)
    assert len(losses[0][3]) == len(losses[1][3])
    for mine, theirs in zip(losses[0][3], losses[1][3]):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("blank, packed, zero", [(0, False, False), (3, False, True), (0, True, False)])
def test_ctc(blank: int, packed: bool, zero: bool, reduction: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((12, 3, 6))
    lengths, sizes = [12, 9, 3 if zero else 10], [4, 2, 5]
    labels = [label for label in range(6) if label != blank]
    targets = rng.choice(labels, (3, 5))
    targets[0, 1] = targets[0, 0]  # a repeated label needs a blank between
    flat = np.concatenate([targets[n, : sizes[n]] for n in range(3)])
    losses = []
    for t in (numod, torch):
        logits = t.tensor(x, requires_grad=True)
        loss = t.nn.CTCLoss(blank, reduction, zero)(
            logits.log_softmax(2), t.tensor(flat if packed else targets), t.tensor(lengths), t.tensor(sizes)
        )
        (loss * loss).sum().backward()
        losses.append((loss.detach().numpy(), logits.grad.numpy()))
    np.testing.assert_allclose(losses[0][0], losses[1][0], rtol=1e-9)
    np.testing.assert_allclose(losses[0][1], losses[1][1], rtol=1e-7, atol=1e-9)


LINEAR_CASES = [
    ({}, CLASS), ({"bias": True, "label_smoothing": 0.2}, CLASS),
    ({"ignore_index": 1, "weight": WEIGHT, "reduction": "sum"}, CLASS), ({"bias": True}, UNIT),
    ({"out_features": (2, 3), "bias": True, "reduction": "none"}, RNG.integers(0, 4, (5, 2, 3))),
]  # fmt: skip


@pytest.mark.parametrize(
    "options, target", LINEAR_CASES, ids=lambda parameter: str(list(parameter)) if isinstance(parameter, dict) else ""
)
def test_linear_cross_entropy(options: dict, target: np.ndarray) -> None:
    ours, theirs = twins(
        lambda nn: nn.LinearCrossEntropyLoss(
            4,
            4,
            **{k: (numod if nn is numod.nn else torch).tensor(v) if k == "weight" else v for k, v in options.items()},
        )
    )
    results = [model(t.tensor(X), t.tensor(target)) for t, model in ((numod, ours), (torch, theirs))]
    np.testing.assert_allclose(*(result.detach().numpy() for result in results), rtol=1e-9)
    for result in results:
        result.sum().backward()
    np.testing.assert_allclose(
        ours.linear.weight.grad.numpy(), theirs.linear.weight.grad.numpy(), rtol=1e-7, atol=1e-10
    )


def test_legacy_reductions() -> None:
    for t in (numod, torch):
        with pytest.warns(UserWarning, match="reduction='sum'"):
            assert (
                float(t.nn.functional.mse_loss(t.tensor([1.0, 2.0]), t.tensor([0.0, 0.0]), size_average=False)) == 5.0
            )
        with pytest.warns(UserWarning, match="reduction='none'"):
            assert t.nn.MSELoss(reduce=False).reduction == "none"


@pytest.mark.parametrize("call", [
    lambda t: t.nn.functional.cross_entropy(t.zeros(2, 3), t.tensor([0, 3])), lambda t: t.nn.functional.cross_entropy(t.zeros(2, 3), t.tensor([0])), lambda t: t.nn.functional.nll_loss(t.zeros(2, 3), t.tensor([0.0, 1.0])),
    lambda t: t.nn.functional.multi_margin_loss(t.zeros(2, 3), t.tensor([0, 1]), p=3), lambda t: t.nn.TripletMarginLoss(margin=0), lambda t: t.nn.functional.gaussian_nll_loss(t.zeros(2), t.zeros(2), -t.ones(2)),
    lambda t: t.nn.functional.mse_loss(t.zeros(2), t.zeros(2), reduction="other"), lambda t: t.nn.functional.margin_ranking_loss(t.zeros(2), t.zeros(2, 1), t.zeros(2)), lambda t: t.nn.functional.multilabel_margin_loss(t.zeros(2, 3), t.tensor([[0, 1, 3], [0, 0, 0]])),
    lambda t: t.nn.functional.ctc_loss(t.zeros(3, 1, 4), t.tensor([[1]]), t.tensor([5]), t.tensor([1])), lambda t: t.nn.functional.binary_cross_entropy(t.tensor([2.0]), t.tensor([1.0])), lambda t: t.nn.HuberLoss(delta=-1)(t.zeros(2), t.zeros(2)),
    lambda t: t.nn.LinearCrossEntropyLoss(3, 2)(t.zeros(1, 2, 3), t.tensor([0])), lambda t: t.nn.LinearCrossEntropyLoss(3, 2, out_features=(2,))(t.zeros(3), t.tensor([0, 1])), lambda t: t.nn.LinearCrossEntropyOptions(batch_chunk_size=0),
    lambda t: t.nn.LinearCrossEntropyLoss(3, 2, label_smoothing=2.0), lambda t: t.nn.functional.linear_cross_entropy(t.zeros(2, 3), t.zeros(4, 3), t.zeros(2, 4), ignore_index=0), lambda t: t.nn.functional.linear_cross_entropy(t.zeros(2, 3), t.zeros(4, 3), t.tensor([0, 1]), linear_bias=t.zeros(3)),
])  # fmt: skip
def test_errors(call) -> None:
    same_error(call)
