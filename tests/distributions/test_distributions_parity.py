"""Distributions beside PyTorch's: densities, moments, entropies, divergences, gradients; samples by their
statistics.
"""

from __future__ import annotations

import numpy as np
import pytest
from parity import same_error, torch

import numod

pytestmark = pytest.mark.parity


def at(t, values, gradient: bool = True):
    return t.tensor(np.array(values, dtype=np.float64), requires_grad=gradient)


SYMMETRIC = [[2.0, 0.3], [0.3, 1.0]]
CASES = {  # name: (what makes the distribution of tensors, the parameters, values inside the support)
    "Normal": (lambda D, a, b: D.Normal(a, b), ([0.5, -1.0], [1.5, 0.7]), [0.2, 1.0]),
    "LogNormal": (lambda D, a, b: D.LogNormal(a, b), ([0.5, -1.0], [0.5, 0.7]), [0.2, 1.0]),
    "Laplace": (lambda D, a, b: D.Laplace(a, b), ([0.5, -1.0], [1.5, 0.7]), [0.2, 1.0]),
    "Cauchy": (lambda D, a, b: D.Cauchy(a, b), ([0.5, -1.0], [1.5, 0.7]), [0.2, 1.0]),
    "Gumbel": (lambda D, a, b: D.Gumbel(a, b), ([0.5, -1.0], [1.5, 0.7]), [0.2, 1.0]),
    "Uniform": (lambda D, a, b: D.Uniform(a, b), ([0.0, -1.0], [1.5, 0.7]), [0.2, 0.1]),
    "Exponential": (lambda D, a: D.Exponential(a), ([0.5, 2.0],), [0.2, 1.0]),
    "Gamma": (lambda D, a, b: D.Gamma(a, b), ([0.5, 3.0], [1.5, 0.7]), [0.2, 1.0]),
    "Chi2": (lambda D, a: D.Chi2(a), ([1.5, 3.0],), [0.2, 1.0]),
    "HalfNormal": (lambda D, a: D.HalfNormal(a), ([0.5, 2.0],), [0.2, 1.0]),
    "Beta": (lambda D, a, b: D.Beta(a, b), ([0.5, 3.0], [1.5, 0.7]), [0.2, 0.9]),
    "StudentT": (lambda D, a, b, c: D.StudentT(a, b, c), ([2.5, 3.0], [0.5, 0.0], [1.0, 2.0]), [0.2, 1.0]),
    "Bernoulli": (lambda D, a: D.Bernoulli(a), ([0.3, 0.9],), [1.0, 0.0]),
    "BernoulliLogits": (lambda D, a: D.Bernoulli(logits=a), ([0.3, -0.9],), [1.0, 0.0]),
    "Geometric": (lambda D, a: D.Geometric(a), ([0.3, 0.9],), [3.0, 0.0]),
    "Binomial": (lambda D, a: D.Binomial(5, a), ([0.3, 0.9],), [2.0, 5.0]),
    "Poisson": (lambda D, a: D.Poisson(a), ([0.7, 4.0],), [2.0, 5.0]),
    "Categorical": (lambda D, a: D.Categorical(a), ([[0.2, 0.5, 0.6], [1.0, 1.0, 2.0]],), [1.0, 2.0]),
    "CategoricalLogits": (lambda D, a: D.Categorical(logits=a), ([[0.2, -0.5, 0.6], [1.0, 1.0, 2.0]],), [1.0, 2.0]),
    "OneHotCategorical": (lambda D, a: D.OneHotCategorical(a), ([[0.2, 0.5, 0.6], [1.0, 1.0, 2.0]],),
        [[0, 1.0, 0], [0, 0, 1.0]]),
    "Multinomial": (lambda D, a: D.Multinomial(4, a), ([[0.2, 0.5, 0.6], [1.0, 1.0, 2.0]],), [[1.0, 1, 2], [0, 0, 4]]),
    "Dirichlet": (lambda D, a: D.Dirichlet(a), ([[0.5, 1.5, 2.0], [3.0, 1.0, 2.0]],),
        [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]),
    "MultivariateNormal": (lambda D, a, b: D.MultivariateNormal(a, b), ([0.5, -1.0], SYMMETRIC), [0.2, 1.0]),
    "MultivariateNormalPrecision": (lambda D, a, b: D.MultivariateNormal(a, precision_matrix=b),
        ([0.5, -1.0], SYMMETRIC), [0.2, 1.0]),
        "Independent": (lambda D, a, b: D.Independent(D.Normal(a, b), 1), ([0.5, -1.0], [1.5, 0.7]), [0.2, 1.0]),
    "Mixture": (lambda D, w, a, b: D.MixtureSameFamily(D.Categorical(w), D.Normal(a, b)),
        ([0.3, 0.7], [0.5, -1.0], [1.5, 0.7]), 0.2),
        "TanhNormal": (lambda D, a,
            b: D.TransformedDistribution(D.Normal(a, b), [D.AffineTransform(0.1, 2.0), D.TanhTransform()]),
            ([0.5, -1.0], [1.5, 0.7]), [0.2, -0.6]),
    "SigmoidNormal": (lambda D, a, b: D.TransformedDistribution(D.Normal(a, b), [D.SigmoidTransform()]),
        ([0.5, -1.0], [1.5, 0.7]), [0.2, 0.6]),
        "StickBreaking": (lambda D, a, b: D.TransformedDistribution(D.Normal(a, b), D.StickBreakingTransform()),
            ([0.5, -1.0], [1.5, 0.7]), [0.2, 0.5, 0.3]),
    "RelaxedBernoulli": (lambda D, t, a: D.RelaxedBernoulli(t, a), (0.7, [0.3, 0.8]), [0.2, 0.6]),
    "RelaxedOneHotCategorical": (lambda D, t, a: D.RelaxedOneHotCategorical(t, a), (0.7, [[0.2, 0.5, 0.3]]),
        [[0.2, 0.3, 0.5]]),
    "VonMises": (lambda D, a, b: D.VonMises(a, b), ([0.5, -1.0], [1.5, 0.7]), [0.2, 1.0]),
    "Kumaraswamy": (lambda D, a, b: D.Kumaraswamy(a, b), ([1.5, 2.0], [1.5, 1.7]), [0.2, 0.9]),
    "ContinuousBernoulli": (lambda D, a: D.ContinuousBernoulli(a), ([0.3, 0.5, 0.9],), [0.2, 0.6, 1.0]),
    "FisherSnedecor": (lambda D, a, b: D.FisherSnedecor(a, b), ([1.5, 5.0], [3.5, 7.0]), [0.2, 0.9]),
    "LKJCholesky": (lambda D, a: D.LKJCholesky(2, a), ([1.5, 0.7],), [[1.0, 0.0], [0.6, 0.8]]),
    "LowRank": (lambda D, a, b, c: D.LowRankMultivariateNormal(a, b, c), ([0.5, -1.0], [[1.5], [0.7]], [0.5, 2.0]),
        [0.2, 0.9]), "Wishart": (lambda D, a, b: D.Wishart(a, b), (4.5, SYMMETRIC), [[1.5, 0.2], [0.2, 0.9]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_densities_and_moments(name: str) -> None:
    make, parameters, value = CASES[name]
    results = []
    for t in (numod, torch):
        tensors = [at(t, parameter) for parameter in parameters]
        d = make(t.distributions, *tensors)
        log_prob = d.log_prob(at(t, value, False))
        log_prob.sum().backward()
        row = {
            "shapes": np.array([*d.batch_shape, 99, *d.event_shape]),
            "log_prob": log_prob.detach().numpy(),
            **{f"grad{k}": tensor.grad.numpy() for k, tensor in enumerate(tensors) if tensor.grad is not None},
        }
        for what in ("mean", "variance", "stddev", "mode"):
            try:
                row[what] = getattr(d, what).detach().numpy()
            except (NotImplementedError, AttributeError):
                continue
        for what, call in (
            ("entropy", lambda d=d: d.entropy()),
            ("cdf", lambda d=d, t=t: d.cdf(at(t, value, False))),
            ("icdf", lambda d=d, t=t: d.icdf(at(t, 0.3, False))),
        ):
            try:
                row[what] = call().detach().numpy()
            except (NotImplementedError, RuntimeError):
                continue
        results.append(row)
    missing = set(results[1]) - set(results[0])
    assert missing <= {"mode", "cdf", "icdf", "variance", "mean", "stddev"} and len(missing) < 3, missing
    for key in set(results[0]) & set(results[1]):
        np.testing.assert_allclose(results[0][key], results[1][key], rtol=1e-6, atol=1e-8, err_msg=key)


# without a variance, of a heavy tail, and one where PyTorch warns of itself
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("Cauchy", "FisherSnedecor", "Wishart")])
def test_samples(name: str) -> None:
    make, parameters, _ = CASES[name]
    numod.manual_seed(0)
    torch.manual_seed(0)
    mine = make(numod.distributions, *[at(numod, parameter, False) for parameter in parameters])
    theirs = make(torch.distributions, *[at(torch, parameter, False) for parameter in parameters])
    ours, other = mine.sample((20_000,)), theirs.sample((20_000,))
    assert tuple(ours.shape) == tuple(other.shape)
    spread = other.double().std(0).numpy() + 1e-3
    np.testing.assert_allclose(
        ours.double().mean(0).numpy() / spread,
        other.double().mean(0).numpy() / spread,
        atol=0.06 if name != "StudentT" else 0.2,
    )
    if name not in ("StudentT", "LogNormal"):
        np.testing.assert_allclose(
            ours.double().std(0).numpy() / spread, other.double().std(0).numpy() / spread, atol=0.06
        )


PAIRS = [
    "Normal", "LogNormal", "Laplace", "Exponential", "Gamma", "Beta", "Dirichlet", "Bernoulli", "Categorical",
    "OneHotCategorical", "Poisson", "Geometric", "MultivariateNormal", "Independent", "Uniform",
]  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_divergences(name: str) -> None:
    make, parameters, _ = CASES[name]
    results = []
    for t in (numod, torch):
        first = [at(t, parameter) for parameter in parameters]
        second = [
            at(
                t,
                np.array(parameter) * 1.1
                + (0.05 if name not in ("Bernoulli", "Geometric", "MultivariateNormal") else 0.0),
            )
            for parameter in parameters
        ]
        if name in ("Bernoulli", "Geometric"):
            second = [at(t, [0.4, 0.5])]
        value = t.distributions.kl_divergence(make(t.distributions, *first), make(t.distributions, *second))
        results.append(value.detach().numpy())
    np.testing.assert_allclose(*results, rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["Normal", "Gamma", "Beta", "Dirichlet", "MultivariateNormal", "Laplace", "Uniform", "TanhNormal"]
)
def test_gradients_flow_through_samples(name: str) -> None:
    make, parameters, _ = CASES[name]
    tensors = [at(numod, parameter) for parameter in parameters]
    make(numod.distributions, *tensors).rsample((5,)).sum().backward()
    assert all(tensor.grad is not None and bool(tensor.grad.isfinite().all()) for tensor in tensors)


@pytest.mark.parametrize("call", [
    lambda t: t.distributions.Normal(0.0, -1.0), lambda t: t.distributions.Normal(0.0, 1.0).log_prob(t.tensor(float("nan"))), lambda t: t.distributions.Bernoulli(1.5), lambda t: t.distributions.Bernoulli(), lambda t: t.distributions.Bernoulli(0.5, 0.5), lambda t: t.distributions.Categorical(t.tensor([-1.0, 0.5])),
    lambda t: t.distributions.Categorical(t.tensor(0.5)), lambda t: t.distributions.Uniform(1.0, 0.0), lambda t: t.distributions.MultivariateNormal(t.zeros(2)), lambda t: t.distributions.Independent(t.distributions.Normal(0.0, 1.0), 1), lambda t: t.distributions.Normal(t.zeros(2), 1.0).log_prob(t.zeros(3)), lambda t: t.distributions.Normal("a", 1.0),
    lambda t: t.distributions.kl_divergence(t.distributions.Normal(0.0, 1.0), t.distributions.Poisson(1.0)), lambda t: t.distributions.Bernoulli(0.5).rsample(), lambda t: t.distributions.Categorical(t.ones(3)).log_prob(t.tensor(3)), lambda t: t.distributions.Dirichlet(t.tensor(1.0)),
])  # fmt: skip
def test_errors(call) -> None:
    same_error(call)


@pytest.mark.parametrize(
    "make",
    [
        lambda D, t: D.Normal(0.0, 1.0),
        lambda D, t: D.Normal(t.zeros(2, 3), 1.0),
        lambda D, t: D.Bernoulli(t.ones(2)),
        lambda D, t: D.Categorical(t.ones(2, 3)),
        lambda D, t: D.Independent(D.Normal(t.zeros(2), 1.0), 1),
        lambda D, t: D.Uniform(0.0, 1.0),
    ],
)
def test_reprs_and_expansion(make) -> None:
    mine, theirs = make(numod.distributions, numod), make(torch.distributions, torch)
    assert repr(mine).replace("numod", "torch") == repr(theirs)
    assert tuple(mine.expand((4, *mine.batch_shape)).sample().shape) == tuple(
        theirs.expand((4, *theirs.batch_shape)).sample().shape
    )
