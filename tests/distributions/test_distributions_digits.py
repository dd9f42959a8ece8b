"""Divergences, entropies and distribution functions against mpmath where formulas lose digits, value and gradients,
within the bars that `shared/divergences` states. mpmath takes most of the time.
"""

from __future__ import annotations

import numpy as np
import pytest
from selection import every

import numod
from cases import check
from divergences import CASES
from numod import distributions as D


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("name", every(2, CASES, others=pytest.mark.fuzz))
def test_digits(name, dtype):
    check(CASES[name], dtype)


def test_nearly_equal_normals_of_several_dimensions():
    loc, scale = numod.tensor([0.5, -1.0, 3.0]), numod.tensor([0.5, 2.0, 8.0])
    near = scale * (1 + 2.0**-12)
    tril = [numod.distributions.MultivariateNormal(loc, scale_tril=scales.diag()) for scales in (scale, near)]
    alone = D.kl_divergence(D.Normal(loc, scale), D.Normal(loc, near)).sum()
    np.testing.assert_allclose(D.kl_divergence(*tril).item(), alone.item(), rtol=1e-6)
    np.testing.assert_allclose(alone.item(), 3 * 2.0**-24, rtol=1e-3)


def test_equal_distributions_are_not_apart():
    for kind, values in (
        (D.Normal, (0.3, 0.7)),
        (D.Gumbel, (0.3, 0.7)),
        (D.Gamma, (0.3, 0.7)),
        (D.Beta, (0.3, 0.7)),
        (D.Poisson, (0.7,)),
        (D.Cauchy, (0.3, 0.7)),
    ):
        parameters = [numod.tensor(value, requires_grad=True) for value in values]
        divergence = D.kl_divergence(kind(*parameters), kind(*values))
        assert divergence.item() == 0, kind
        assert [gradient.item() for gradient in numod.autograd.grad(divergence, parameters)] == [0.0] * len(values), (
            kind
        )
    for kind in (D.Bernoulli, D.Geometric):
        for logit in (-200.0, 0.3, 200.0):
            assert D.kl_divergence(kind(logits=numod.tensor(logit)), kind(logits=numod.tensor(logit))).item() == 0


def test_certain_and_impossible_outcomes():
    inf = float("inf")
    p, q = numod.tensor([0.0, 1.0, 0.0, 1.0, 0.5, 0.25]), numod.tensor([0.0, 1.0, 0.5, 0.5, 1.0, 0.0])
    result = D.kl_divergence(D.Bernoulli(p, validate_args=False), D.Bernoulli(q, validate_args=False))
    np.testing.assert_allclose(result.tolist(), [0, 0, np.log(2), np.log(2), inf, inf], rtol=1e-6)
    np.testing.assert_allclose(
        D.kl_divergence(D.Poisson(numod.tensor([0.0, 0.0, 2.0])), D.Poisson(numod.tensor([0.0, 3.0, 0.0]))).tolist(),
        [0, 3, inf],
    )
    logits = numod.tensor([-inf, 0.0, 1.0])
    assert D.kl_divergence(D.Categorical(logits=logits), D.Categorical(logits=logits)).item() == 0
    assert D.kl_divergence(D.Categorical(logits=numod.zeros(3)), D.Categorical(logits=logits)).item() == inf


def test_divergences_from_gumbel_do_not_multiply_zero_by_infinity():
    q = D.Gumbel(numod.tensor(100.0), numod.tensor(1.0))
    for p in (
        D.Normal(numod.tensor(100.0), numod.tensor(1.0)),
        D.Uniform(numod.tensor(99.0), numod.tensor(101.0)),
        D.Gamma(numod.tensor(1e4), numod.tensor(100.0)),
    ):
        assert 0 < D.kl_divergence(p, q).item() < 10


@pytest.mark.parametrize("kind", [D.Normal, D.Gamma])
def test_an_infinite_divergence_has_gradients_of_zero(kind):
    parameters = [numod.tensor([0.5, 3.0], requires_grad=True) for _ in range(4)]
    divergence = D.kl_divergence(D.Pareto(*parameters[:2]), kind(*parameters[2:]))
    assert divergence[0] == float("inf") and divergence[1].isfinite()
    gradients = numod.autograd.grad(divergence.sum(), parameters)
    assert all(gradient[0] == 0 and gradient[1].isfinite() and gradient[1] != 0 for gradient in gradients)
