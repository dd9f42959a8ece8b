"""Softmax, log-softmax and cross-entropy against NumPy: dimensions, layouts, extreme logits, targets, weights,
gradients, errors.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import numod
from numod.autograd import gradcheck, gradgradcheck
from numod.nn import functional as F

pytestmark = pytest.mark.on_cuda


def data(*shape, dtype=np.float64, seed=0):
    return (3 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def softmax(x, dim):
    e = np.exp(x - x.max(dim, keepdims=True))
    return e / e.sum(dim, keepdims=True)


def log_softmax(x, dim):
    shifted = x - x.max(dim, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(dim, keepdims=True))


REFERENCES = {"softmax": softmax, "log_softmax": log_softmax}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2])
@pytest.mark.parametrize("name", REFERENCES)
def test_values(name, dim, dtype):
    x = data(3, 5, 4, dtype=dtype)
    result = getattr(numod.tensor(x), name)(dim)
    assert result.dtype is numod.dtypes.from_numpy(dtype)
    np.testing.assert_allclose(
        result.numpy(),
        REFERENCES[name](x.astype(np.float64), dim),
        rtol=3e-6 if dtype == np.float32 else 1e-12,
        atol=1e-6 if dtype == np.float32 else 1e-14,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((3, 5, 140), 1), ((40, 8), 0), ((2, 7, 3, 5), 1), ((300, 5), 1), ((7, 19, 17), 2), ((96, 1), 1), ((131, 32), 1)],
)
@pytest.mark.parametrize("name", REFERENCES)
def test_softmax_along_strided_dimensions(name, shape, dim, dtype):
    x, g = data(*shape, dtype=dtype), data(*shape, dtype=dtype, seed=1)
    tensor = numod.tensor(x, requires_grad=True)
    result = getattr(tensor, name)(dim)
    result.backward(numod.tensor(g))
    wide, tolerance = x.astype(np.float64), 1e-5 if dtype == np.float32 else 1e-12
    attention_weights = softmax(wide, dim)
    slope = (
        attention_weights * (g - (g * attention_weights).sum(dim, keepdims=True))
        if name == "softmax"
        else g - attention_weights * g.sum(dim, keepdims=True)
    )
    np.testing.assert_allclose(result.detach().numpy(), REFERENCES[name](wide, dim), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(tensor.grad.numpy(), slope, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(2, 6, 9, 15), (270, 6, 1, 1)])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_cross_entropy_of_maps(reduction, shape):
    x, target = data(*shape), np.random.default_rng(1).integers(0, 6, (shape[0], *shape[2:]))
    target.reshape(-1)[45:60:4] = -100
    tensor = numod.tensor(x, requires_grad=True)
    loss = F.cross_entropy(tensor, numod.tensor(target), reduction=reduction)
    loss.sum().backward()
    hot = (np.arange(6)[None, :, None, None] == target[:, None]).astype(float)
    losses = -(log_softmax(x, 1) * hot).sum(1)
    weight_sums = hot.sum(1, keepdims=True)
    share = weight_sums.sum() if reduction == "mean" else 1
    expected = losses if reduction == "none" else losses.sum() / share
    np.testing.assert_allclose(loss.detach().numpy(), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(tensor.grad.numpy(), weight_sums * (softmax(x, 1) - hot) / share, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", REFERENCES)
def test_strided(name):
    x = data(6, 5, 8)
    np.testing.assert_allclose(
        getattr(numod.tensor(x).permute(2, 0, 1)[::2, 1:], name)(1).numpy(),
        REFERENCES[name](x.transpose(2, 0, 1)[::2, 1:], 1),
        rtol=1e-12,
    )


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("name", REFERENCES)
def test_long_rows(name):
    x = data(2, 50_000, dtype=np.float32)
    np.testing.assert_allclose(
        getattr(numod.tensor(x), name)(1).numpy(), REFERENCES[name](x.astype(np.float64), 1), rtol=1e-4
    )


def test_zero_dimensional_and_empty():
    assert numod.tensor(3.0).softmax(0).item() == 1.0
    assert numod.tensor(3.0).log_softmax(-1).item() == 0.0
    assert numod.zeros(2, 0).softmax(1).shape == (2, 0)
    assert numod.zeros(0, 3).log_softmax(1).shape == (0, 3)


@pytest.mark.on_cuda(simulator=False)
def test_large_logits_do_not_overflow():
    x = numod.tensor([[1000.0, 1000.0], [-1000.0, 0.0], [3e38, -3e38]])
    assert x.softmax(1).tolist() == [[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]]
    assert numod.isfinite(x[:2].log_softmax(1)).all()


def test_minus_infinity_masks():
    x = numod.tensor([[-math.inf, 0.0, 0.0], [0.0, -math.inf, -math.inf]])
    assert x.softmax(1).tolist() == [[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]
    assert x.log_softmax(1)[1].tolist() == [0.0, -math.inf, -math.inf]


@pytest.mark.parametrize("name", REFERENCES)
def test_short_rows_do_not_touch_each_other(name):
    x = data(200, 10, dtype=np.float32)
    plain = getattr(numod.tensor(x), name)(1).numpy()
    odd = x.copy()
    odd[3, 4], odd[130, 0], odd[131], odd[199, 9] = math.nan, math.inf, -math.inf, math.nan
    result = getattr(numod.tensor(odd), name)(1).numpy()
    apart = np.isin(np.arange(200), [3, 130, 131, 199])
    assert np.isnan(result[apart]).any(1).all()
    np.testing.assert_array_equal(result[~apart], plain[~apart])


@pytest.mark.parametrize("row", [[math.nan, 1.0], [1.0, math.nan], [math.inf, 1.0], [-math.inf, -math.inf]])
@pytest.mark.parametrize("name", REFERENCES)
def test_nan(name, row):
    assert any(map(math.isnan, getattr(numod.tensor(row), name)(0).tolist()))


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize(
    "bits", [np.int32([-1, 0x7FC00155]), np.int64([-1, 0x7FF00000000007A2])], ids=["float32", "float64"]
)
def test_nan_of_any_bits(name, bits):
    rows = np.zeros((2, 40), f"f{bits.itemsize}")
    rows[:, 3] = bits.view(rows.dtype)
    assert np.isnan(getattr(numod.from_numpy(rows), name)(1).numpy()).all()


def test_dtype_argument():
    result = numod.tensor([1.0, 2.0]).softmax(0, dtype=numod.float64)
    assert result.dtype is numod.float64
    assert F.softmax(numod.tensor([1, 1]), 0, dtype=numod.float32).tolist() == [0.5, 0.5]


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("dim", [0, 1])
def test_gradients(name, dim):
    x = numod.tensor(data(2, 3), requires_grad=True)
    assert gradcheck(lambda x: getattr(x, name)(dim), (x,))
    assert gradgradcheck(lambda x: getattr(x, name)(dim), (x,))


def test_integers():
    with pytest.raises(RuntimeError, match="\"softmax\" not implemented for 'Long'|softmax.*Long"):
        numod.tensor([1, 2]).softmax(0)


def test_dim_out_of_range():
    with pytest.raises(IndexError, match="Dimension out of range"):
        numod.ones(2, 2).softmax(2)


# ---- cross-entropy


def cross_entropy(x, target, weight=None, ignored=-100, reduction="mean", smoothing=0.0):
    """By the definition; x (N, C, ...)."""
    logits = np.moveaxis(log_softmax(x, 1), 1, -1)
    weight = np.ones(x.shape[1]) if weight is None else weight
    counted = target != ignored
    safe = np.where(counted, target, 0)
    exact = -np.take_along_axis(logits, safe[..., None], -1)[..., 0] * weight[safe]
    spread = -(logits * weight).sum(-1) / x.shape[1]
    loss = np.where(counted, (1 - smoothing) * exact + smoothing * spread, 0)
    return {"none": loss, "sum": loss.sum(), "mean": loss.sum() / (weight[safe] * counted).sum()}[reduction]


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight": True},
        {"ignored": 1},
        {"smoothing": 0.1},
        {"weight": True, "ignored": 1},
        {"weight": True, "ignored": 1, "smoothing": 0.2},
    ],
)
@pytest.mark.parametrize("shape", [(5, 4), (2, 4, 3)])
def test_cross_entropy(shape, options, reduction):
    x, target = data(*shape), np.random.default_rng(1).integers(0, 4, shape[:1] + shape[2:])
    weight = np.array([0.5, 1.0, 2.0, 0.25]) if options.get("weight") else None
    ignored, smoothing = options.get("ignored", -100), options.get("smoothing", 0.0)
    result = F.cross_entropy(
        numod.tensor(x),
        numod.tensor(target),
        None if weight is None else numod.tensor(weight),
        ignore_index=ignored,
        reduction=reduction,
        label_smoothing=smoothing,
    )
    np.testing.assert_allclose(
        result.numpy(), cross_entropy(x, target, weight, ignored, reduction, smoothing), rtol=1e-10
    )


def test_cross_entropy_ignores_outside_indices():
    x, target = data(4, 3), np.array([0, -100, 2, -100])
    np.testing.assert_allclose(
        F.cross_entropy(numod.tensor(x), numod.tensor(target)).item(), cross_entropy(x, target), rtol=1e-12
    )


def test_cross_entropy_of_all_ignored_is_nan():
    assert math.isnan(F.cross_entropy(numod.zeros(2, 3), numod.tensor([-100, -100])).item())


@pytest.mark.parametrize("shape", [(0, 5), (2, 5, 0), (0, 5, 3)])
def test_cross_entropy_of_no_targets(shape):
    x = numod.zeros(shape, requires_grad=True)
    target = numod.zeros((shape[0], *shape[2:]), dtype=numod.int64)
    assert F.cross_entropy(x, target, reduction="sum").item() == 0.0 and math.isnan(F.cross_entropy(x, target).item())


def test_cross_entropy_of_probabilities():
    x, p = data(5, 4), softmax(data(5, 4, seed=1), 1)
    np.testing.assert_allclose(
        F.cross_entropy(numod.tensor(x), numod.tensor(p)).item(), -(log_softmax(x, 1) * p).sum(1).mean(), rtol=1e-12
    )


def test_cross_entropy_of_one_sample():
    assert F.cross_entropy(numod.tensor([0.0, 0.0]), numod.tensor(1)).item() == pytest.approx(math.log(2))


def test_cross_entropy_of_extreme_logits():
    x = numod.tensor([[1e4, 0.0], [-1e4, 1e4]], requires_grad=True)
    loss = F.cross_entropy(x, numod.tensor([0, 0]), reduction="none")
    assert loss.tolist() == [0.0, 2e4]
    loss.sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0], [-1.0, 1.0]]


def test_nll_loss_of_log_softmax_is_cross_entropy():
    x, target = numod.tensor(data(5, 4)), numod.tensor([0, 1, 2, 3, 0])
    assert F.nll_loss(x.log_softmax(1), target).item() == pytest.approx(F.cross_entropy(x, target).item(), rel=1e-12)


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("options", [{}, {"ignore_index": 1}, {"label_smoothing": 0.1}, {"reduction": "none"}])
def test_cross_entropy_gradients(options):
    x = numod.tensor(data(3, 3, 2), requires_grad=True)
    target = numod.tensor([[0, 1], [2, 2], [1, 0]])
    assert gradcheck(lambda x: F.cross_entropy(x, target, **options), (x,))
    assert gradgradcheck(lambda x: F.cross_entropy(x, target, **options), (x,))


@pytest.mark.on_cuda(gpu=False)
@pytest.mark.parametrize("target, exception, message", [
    ([0, 3], IndexError, "Target 3 is out of bounds"),
    ([0, -1], IndexError, "Target -1 is out of bounds"),
    ([0, 1, 2], ValueError, "batch_size"),
    ([[0], [1]], RuntimeError, "target"),
])  # fmt: skip
def test_cross_entropy_bad_targets(target, exception, message):
    with pytest.raises(exception, match=message):
        F.cross_entropy(numod.zeros(2, 3), numod.tensor(target))


def test_cross_entropy_bad_target_dtype():
    with pytest.raises(RuntimeError, match="Long"):
        F.cross_entropy(numod.zeros(2, 3), numod.tensor([0, 1], dtype=numod.int32))


@pytest.mark.parametrize("dtype, far", [(np.float32, 100.0), (np.float64, 740.0)])
def test_the_least_softmaxes_are_subnormal_numbers(dtype, far):
    x = np.zeros((2, 70), dtype)
    x[:, 1::2] = -far
    x[1, 3::2] = -np.inf
    with np.errstate(under="ignore"):
        wanted = softmax(x.astype(np.longdouble), 1)
    np.testing.assert_allclose(
        numod.tensor(x).softmax(1).numpy(), wanted, rtol=1e-6, atol=float(np.finfo(dtype).smallest_subnormal)
    )
    assert (numod.tensor(x).softmax(1).numpy()[0, 1::2] > 0).all()
    np.testing.assert_allclose(numod.tensor(x).log_softmax(1).numpy(), x - np.log(35.0), rtol=1e-6)


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("dim", [0, 1])
def test_log_softmax_keeps_its_digits_beside_large_numbers(dim: int) -> None:
    x = numod.tensor([[1e5, 1e5 + 1], [1e5 - 3, 1e5 + 0.5]])
    exact = x.double() - x.double().logsumexp(dim, keepdim=True)
    np.testing.assert_allclose(numod.log_softmax(x, dim).numpy(), exact.numpy(), rtol=3e-7, atol=1e-7)


@pytest.mark.cpu_only
@pytest.mark.parametrize(("shape", "dim"), [((5,), 0), ((50, 3), 1), ((20, 100), 1), ((4, 3, 2), 1), ((4, 3, 50), 1)])
def test_confident_predictions_keep_their_digits_in_float64(shape, dim):
    """The maximum is subtracted first: 20 + log(1 + 1e-6) would lose 1e-15 of the loss."""
    rng = np.random.default_rng(0)
    x = np.moveaxis(rng.uniform(-2, 2, shape), dim, 0)
    x[0] += 20
    expected = -np.log1p(np.exp(x[1:] - x[0]).sum(0))
    x = numod.tensor(np.ascontiguousarray(np.moveaxis(x, 0, dim)))
    np.testing.assert_allclose(numod.log_softmax(x, dim).select(dim, 0).numpy(), expected, atol=3e-16)
    if len(shape) > 1:
        target = numod.zeros((shape[0], *shape[2:]), dtype=numod.int64)
        loss = numod.nn.functional.cross_entropy(x, target, reduction="none")
        np.testing.assert_allclose(loss.numpy(), -expected, atol=3e-16)
