"""Gamma, Poisson and binomial samples: moments, the derivative of gamma samples, reproducibility, extreme parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest

import numod
from numod.core.apply import apply
from numod.ops import sampling

pytestmark = pytest.mark.on_cuda(simulator=False)

COUNT = 40000


def check_moments(result, mean, variance):
    """Within five standard errors of the mean, and a tenth of the variance."""
    assert abs(result.mean() - mean) < 5 * math.sqrt(variance / result.size)
    assert abs(result.var() / variance - 1) < 0.1


@pytest.mark.parametrize("alpha", [0.2, 1.0, 7.5, 3000.0])
def test_gamma_moments(alpha):
    result = numod._standard_gamma(
        numod.full((COUNT,), alpha, dtype=numod.float64), numod.Generator().manual_seed(1)
    ).numpy()
    assert (result > 0).all()
    check_moments(result, alpha, alpha)


@pytest.mark.parametrize("rate", [0.3, 4.0, 12.0, 5000.0])
def test_poisson_moments(rate):
    result = numod.poisson(numod.full((COUNT,), rate, dtype=numod.float64), numod.Generator().manual_seed(1)).numpy()
    assert (result >= 0).all() and (result == np.floor(result)).all()
    check_moments(result, rate, rate)


def test_poisson_frequencies_below_and_above_the_change_of_method():
    for rate in (9.5, 10.5):
        result = numod.poisson(numod.full((COUNT,), rate), numod.Generator().manual_seed(2)).numpy()
        for k in range(4, 18):
            chance = math.exp(k * math.log(rate) - rate - math.lgamma(k + 1))
            assert abs((result == k).mean() - chance) < 5 * math.sqrt(chance / COUNT)


@pytest.mark.parametrize(
    "count, probability", [(1, 0.3), (40, 0.05), (40, 0.9), (30, 0.5), (100000, 0.3), (100000, 0.99), (1000000, 1e-6)]
)
def test_binomial_frequencies(count, probability):
    counts = numod.full((COUNT,), float(count), dtype=numod.float64)
    result = numod.binomial(
        counts, numod.tensor(probability, dtype=numod.float64), numod.Generator().manual_seed(3)
    ).numpy()
    assert (result >= 0).all() and (result <= count).all() and (result == np.floor(result)).all()
    check_moments(result, count * probability, count * probability * (1 - probability))
    middle = round(count * probability)
    for k in range(max(middle - 6, 0), min(middle + 6, count) + 1):
        choices = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
        chance = math.exp(choices + k * math.log(probability) + (count - k) * math.log1p(-probability))
        assert abs((result == k).mean() - chance) < 5 * math.sqrt(chance / COUNT)


def distribution(alpha, value):
    """P(alpha, value), by the trapezoidal rule in the logarithm of the variable."""
    u = np.linspace(math.log(value) - 60 / min(alpha, 1.0), math.log(value), 400001)
    return np.trapezoid(np.exp(alpha * u - np.exp(u) - math.lgamma(alpha)), u)


@pytest.mark.parametrize(
    "alpha, value", [(0.4, 0.02), (0.4, 1.5), (1.0, 0.7), (3.0, 1.0), (3.0, 6.0), (30.0, 36.0), (1200.0, 1180.0)]
)
def test_slope_of_gamma_numbers(alpha, value):
    step = 1e-4 * alpha
    density = math.exp((alpha - 1) * math.log(value) - value - math.lgamma(alpha))
    expected = -(distribution(alpha + step, value) - distribution(alpha - step, value)) / (2 * step) / density
    actual = apply(
        sampling.standard_gamma_gradient,
        (numod.tensor(alpha, dtype=numod.float64), numod.tensor(value, dtype=numod.float64)),
    ).item()
    assert actual == pytest.approx(expected, rel=1e-4)


def test_gradient_reaches_the_shape():
    alpha = numod.tensor([0.5, 2.0, 9.0], dtype=numod.float64, requires_grad=True)
    sample = numod._standard_gamma(alpha)
    sample.backward(numod.tensor([1.0, 2.0, 3.0], dtype=numod.float64))
    slope = apply(sampling.standard_gamma_gradient, (alpha.detach(), sample.detach()))
    assert alpha.grad.tolist() == (slope * numod.tensor([1.0, 2.0, 3.0], dtype=numod.float64)).tolist()


def test_the_same_seed_gives_the_same_numbers_in_any_layout():
    rates = numod.rand(6, 5) * 20
    for make in (numod._standard_gamma, numod.poisson, numod._sample_dirichlet):
        first, second = (make(rate, numod.Generator().manual_seed(4)) for rate in (rates, rates.t().contiguous().t()))
        assert first.equal(second) and not first.equal(make(rates, numod.Generator().manual_seed(5)))


def test_corners():
    nan = float("nan")
    assert numod.poisson(numod.tensor([0.0, nan])).isnan().tolist() == [False, True]
    assert numod._standard_gamma(numod.tensor([1e-6])).item() > 0
    assert numod._sample_dirichlet(numod.tensor([[0.1, 2.0, 5.0]])).sum().item() == pytest.approx(1, abs=1e-6)
    corners = numod._sample_dirichlet(numod.full((4096, 2), 0.01))  # whose gammas are often all too small for float32
    assert 0 < corners.min() < 1e-30 and corners.max() < 1
    assert (corners.sub(0.5).abs() < 0.4).sum() < 400
    assert numod.poisson(numod.zeros(0)).shape == (0,)
    attention_weights = numod.tensor([0.0, 1.0, nan], requires_grad=True)
    result = numod.binomial(numod.tensor([[7.0], [0.0]]), attention_weights)
    assert result.nan_to_num(-1).tolist() == [[0, 7, -1], [0, 0, -1]]
    result[:, :2].sum().backward()
    assert attention_weights.grad[:2].tolist() == [0, 0]
    with pytest.raises(ValueError, match="binomial only supports floating-point dtypes"):
        numod.binomial(numod.tensor([7]), numod.tensor([0.5]))
