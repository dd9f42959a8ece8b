"""Densities by numerical integration: they come to 1, and give the moments, entropies, cdfs and divergences that
formulas say. Samples by their statistics.
"""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod import distributions as D


def at(*values: float) -> numod.Tensor:
    return numod.tensor(values, dtype=numod.float64)


def grid(low: float, high: float, n: int = 40001) -> tuple[numod.Tensor, float]:
    """Midpoints of n equal parts, and their width; 0 and infinity are given by what is near enough."""
    width = (high - low) / n
    return numod.arange(n, dtype=numod.float64) * width + (low + width / 2), width


CASES = {  # name: (distribution, limits of its values)
    "Normal": (D.Normal(at(0.3), at(0.7)), (-6, 7)), "VonMises": (D.VonMises(at(0.3), at(1.7)), (-np.pi, np.pi)),
    "Kumaraswamy": (D.Kumaraswamy(at(2.0), at(1.5)), (0, 1)), "Gumbel": (D.Gumbel(at(0.3), at(0.7)), (-5, 25)),
    "ContinuousBernoulli": (D.ContinuousBernoulli(at(0.3)), (0, 1)),
    "ContinuousBernoulliHalf": (D.ContinuousBernoulli(at(0.5002)), (0, 1)),
    "FisherSnedecor": (D.FisherSnedecor(at(7.0), at(90.0)), (0, 25)),
    "GeneralizedPareto": (D.GeneralizedPareto(at(0.2), at(1.5), at(-0.4)), (0.2, 3.95)),
    "GeneralizedParetoFlat": (D.GeneralizedPareto(at(0.2), at(0.5), at(0.0)), (0.2, 20)),
    "Beta": (D.Beta(at(2.5), at(3.0)), (0, 1)), "Gamma": (D.Gamma(at(2.5), at(3.0)), (0, 15)),
}  # fmt: skip


# PyTorch has none of them either
OPEN = {
    ("VonMises", "entropy"),
    ("VonMises", "cdf"),
    ("FisherSnedecor", "entropy"),
    ("FisherSnedecor", "cdf"),
    ("Beta", "cdf"),
}


@pytest.mark.parametrize("name", CASES)
def test_density(name: str) -> None:
    d, limits = CASES[name]
    x, width = grid(*limits)
    density = d.log_prob(x).exp() * width
    assert abs(density.sum().item() - 1) < 1e-4
    if name != "VonMises":  # its moments are circular
        mean = (density * x).sum()
        np.testing.assert_allclose(d.mean.item(), mean.item(), rtol=1e-3)
        np.testing.assert_allclose(d.variance.item(), (density * (x - mean) ** 2).sum().item(), rtol=2e-3)
    else:
        np.testing.assert_allclose(1 - d.variance.item(), (density * (x - d.mean).cos()).sum().item(), rtol=1e-5)
    for what, value in (("entropy", -(density * d.log_prob(x)).sum()), ("cdf", density[:10000].sum())):
        if (name, what) in OPEN:
            continue
        result = d.entropy() if what == "entropy" else d.cdf(x[10000] - width / 2)
        np.testing.assert_allclose(result.item(), value.item(), atol=2e-3, err_msg=what)


@pytest.mark.parametrize("name", CASES)
def test_samples(name: str) -> None:
    d, limits = CASES[name]
    numod.manual_seed(0)
    x, width = grid(*limits)
    below = (d.log_prob(x).exp() * width).cumsum(0).numpy()
    actual = np.sort(d.sample((4000,)).numpy().ravel())
    expected = np.interp(actual, x.numpy(), below)
    # Kolmogorov's distance; 0.03 is passed once in 1000
    assert np.abs(expected - (np.arange(4000) + 0.5) / 4000).max() < 0.03


PAIRS = [
    ("Beta", "Gamma"), ("Beta", "ContinuousBernoulli"), ("Beta", D.Uniform(at(-0.2), at(1.5))), ("Beta", "Normal"),
    ("ContinuousBernoulli", D.Exponential(at(0.7))), ("ContinuousBernoulli", "Normal"),
    ("ContinuousBernoulli", D.ContinuousBernoulli(at(0.8))), ("Gamma", "Gumbel"),
    ("Normal", "Gumbel"), (D.Uniform(at(0.1), at(0.8)), "Beta"), (D.Uniform(at(0.1), at(0.8)), "Gamma"),
    (D.Uniform(at(0.1), at(0.8)), "Gumbel"), (D.Uniform(at(0.1), at(0.8)), D.Pareto(at(0.05), at(1.3))),
    (D.Uniform(at(0.1), at(0.8)), "ContinuousBernoulli"), (D.Uniform(at(0.1), at(0.8)), D.Exponential(at(0.7))),
]  # fmt: skip


@pytest.mark.parametrize("p, q", PAIRS)
def test_divergences(p, q) -> None:
    (p, limits) = CASES[p] if isinstance(p, str) else (p, (0.1, 0.8))
    q = CASES[q][0] if isinstance(q, str) else q
    x, width = grid(*limits)
    expected = (p.log_prob(x).exp() * (p.log_prob(x) - q.log_prob(x))).sum() * width
    np.testing.assert_allclose(D.kl_divergence(p, q).item(), expected.item(), rtol=1e-3, atol=1e-4)


def test_divergences_that_are_infinite_or_unknown() -> None:
    assert D.kl_divergence(D.Normal(at(0.0), at(1.0)), D.Beta(at(1.0), at(1.0))).item() == np.inf
    assert D.kl_divergence(D.Pareto(at(1.0), at(0.5)), D.Exponential(at(1.0))).item() == np.inf
    with pytest.raises(NotImplementedError, match="same transforms"):
        D.kl_divergence(D.Weibull(at(1.0), at(2.0)), D.Weibull(at(1.5), at(2.0)))


def test_low_rank_normal_is_the_dense_one() -> None:
    numod.manual_seed(0)
    loc, factor, diagonal = at(0.5, -1.0, 2.0), numod.randn(3, 2, dtype=numod.float64), at(0.5, 1.0, 2.0)
    low = D.LowRankMultivariateNormal(loc, factor, diagonal)
    full = D.MultivariateNormal(loc, factor @ factor.mT + diagonal.diag())
    x = numod.randn(4, 3, dtype=numod.float64)
    for mine, theirs in (
        (low.log_prob(x), full.log_prob(x)),
        (low.entropy(), full.entropy()),
        (low.variance, full.variance),
        (low.precision_matrix, full.precision_matrix),
        (low.scale_tril, full.scale_tril),
    ):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-9, atol=1e-12)
    assert abs(D.kl_divergence(low, full).item()) < 1e-9
    np.testing.assert_allclose(np.cov(low.sample((20000,)).numpy().T), full.covariance_matrix.numpy(), atol=0.3)


def test_wishart_of_one_by_one_is_a_gamma_and_its_moments() -> None:
    numod.manual_seed(0)
    x = at(0.5, 1.0, 3.0)
    np.testing.assert_allclose(
        D.Wishart(at(4.0)[0], at(2.0)[None]).log_prob(x[:, None, None]).numpy(),
        D.Gamma(at(2.0), at(0.25)).log_prob(x).numpy(),
        rtol=1e-9,
    )
    covariance = numod.tensor([[2.0, 0.3], [0.3, 1.0]], dtype=numod.float64)
    d = D.Wishart(numod.tensor(5.0, dtype=numod.float64), covariance)
    samples = d.sample((20000,))
    np.testing.assert_allclose(samples.mean(0).numpy(), d.mean.numpy(), rtol=0.05)
    np.testing.assert_allclose(samples.var(0).numpy(), d.variance.numpy(), rtol=0.1)
    np.testing.assert_allclose(d.entropy().item(), -d.log_prob(samples).mean().item(), rtol=0.02)
    assert abs(D.kl_divergence(d, d).item()) < 1e-9 and D.kl_divergence(d, D.Wishart(6.0, covariance)).item() > 0
    with pytest.raises(ValueError, match="greater than ndim - 1"):
        D.Wishart(0.5, covariance)


def test_lkj_of_two_is_a_beta() -> None:
    numod.manual_seed(0)
    d, r = D.LKJCholesky(2, at(1.5)), at(-0.6, 0.1, 0.8)
    low = numod.stack(
        [numod.stack([numod.ones_like(r), numod.zeros_like(r)], -1), numod.stack([r, (1 - r * r).sqrt()], -1)], -2
    )
    # of the correlation, as its factor's second row is (r, sqrt(1 - r^2))
    expected = D.Beta(at(1.5), at(1.5)).log_prob((r + 1) / 2) - np.log(2)
    np.testing.assert_allclose(d.log_prob(low).numpy(), expected.numpy(), rtol=1e-9)
    samples = D.LKJCholesky(3, 1.0).sample((500,))
    np.testing.assert_allclose((samples @ samples.mT).diagonal(0, -2, -1).numpy(), 1, rtol=1e-5)
    assert D.LKJCholesky(3, at(1.0)).expand((4,)).sample((2,)).shape == (2, 4, 3, 3)


def test_an_exponential_family_of_ones_own() -> None:
    class Exponential(D.ExponentialFamily):
        _natural_params, _mean_carrier_measure = property(lambda self: (-self.rate,)), 0

        def __init__(self, rate: numod.Tensor) -> None:
            self.rate = rate
            super().__init__(rate.shape, validate_args=False)

        def _log_normalizer(self, x: numod.Tensor) -> numod.Tensor:
            return -(-x).log()

    mine, other = at(0.5, 2.0), at(1.0, 3.0)
    np.testing.assert_allclose(Exponential(mine).entropy().detach().numpy(), D.Exponential(mine).entropy().numpy())
    np.testing.assert_allclose(
        D.kl_divergence(Exponential(mine), Exponential(other)).detach().numpy(),
        D.kl_divergence(D.Exponential(mine), D.Exponential(other)).numpy(),
    )


def test_cdfs_keep_the_precision_of_values_and_tell_of_gradients_they_lack() -> None:
    assert D.Normal(0.0, 1.0).cdf(at(0.3)).item() == pytest.approx(0.6179114221889526, abs=1e-15)
    for make in (D.Gamma, D.InverseGamma):
        shaped = make(at(2.0).requires_grad_(), at(1.0)).cdf(at(1.0))
        assert 0.0 < shaped.item() < 1.0
        with pytest.raises(NotImplementedError, match="igamma"):
            shaped.backward()
        rate = at(1.0).requires_grad_()
        make(at(2.0), rate).cdf(at(1.5)).backward()
        assert rate.grad.item() != 0


def test_the_draw_that_other_libraries_distributions_import() -> None:
    from numod.distributions.utils import _standard_normal

    numod.manual_seed(0)
    drawn = _standard_normal((1000, 2), dtype=numod.float64, device="cpu")
    assert (
        drawn.shape == (1000, 2)
        and drawn.dtype is numod.float64
        and abs(drawn.mean().item()) < 0.1
        and abs(drawn.std().item() - 1) < 0.1
    )


def test_concatenated_transforms_of_events_add_their_volumes() -> None:
    scale = D.AffineTransform(0, at(2.0, 2.0), event_dim=1)
    x = numod.ones(3, 4, dtype=numod.float64)
    events = D.CatTransform([scale, scale], dim=1, lengths=[2, 2])
    np.testing.assert_allclose(events.log_abs_det_jacobian(x, events(x)).numpy(), np.full(3, 4 * np.log(2)))
    rows = D.CatTransform([scale, scale], dim=0, lengths=[1, 2])
    np.testing.assert_allclose(rows.log_abs_det_jacobian(x[:, :2], rows(x[:, :2])).numpy(), np.full(3, 2 * np.log(2)))


@pytest.mark.parametrize(
    ("base", "arguments"), [(D.Kumaraswamy, (2.0, 1.5)), (D.LKJCholesky, (3, 1.5)), (D.Normal, (0.0, 1.0))]
)
def test_expand_keeps_the_class(base: type, arguments: tuple) -> None:
    class Own(base):
        pass

    assert type(Own(*arguments).expand((2,))) is Own


def test_a_transform_and_a_distribution_may_be_modules() -> None:
    class Scale(D.Transform, numod.nn.Module):
        domain = codomain = D.constraints.real
        bijective = True

        def __init__(self) -> None:
            super().__init__(cache_size=1)
            self.factor = numod.nn.Parameter(numod.tensor(2.0))

        def _call(self, x: numod.Tensor) -> numod.Tensor:
            return x * self.factor

        def _inverse(self, y: numod.Tensor) -> numod.Tensor:
            return y / self.factor

        def log_abs_det_jacobian(self, x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
            return self.factor.abs().log().expand(x.shape)

    class Flow(D.Normal, numod.nn.Module):
        pass

    scale = Scale()
    D.TransformedDistribution(Flow(0.0, 1.0), [scale]).log_prob(numod.tensor(4.0)).backward()
    assert scale.factor.grad.item() == 1.5  # d/df of -(4/f)^2/2 - log f, at 2
    assert isinstance(scale.inv, D.transforms._InverseTransform)


def test_a_library_s_own_distribution_expands_by_the_class_it_extends() -> None:
    class Diagonal(D.Independent):
        def __init__(self, loc: numod.Tensor, scale: numod.Tensor) -> None:
            super().__init__(D.Normal(loc, scale), 1)

        def expand(self, batch_shape: tuple, new: object = None) -> D.Distribution:
            return super().expand(batch_shape, self._get_checked_instance(Diagonal, new))

    class Noted(D.Normal):
        def __init__(self, loc: numod.Tensor, scale: float, note: numod.Tensor) -> None:
            self.note = note
            super().__init__(loc, scale)

        def expand(self, batch_shape: tuple, _instance: object = None) -> D.Distribution:
            new = self._get_checked_instance(Noted, _instance)
            new.note = self.note + 1
            super().expand(batch_shape, _instance=new)
            return new

    class Bare(D.Normal):
        def __init__(self) -> None:
            super().__init__(0.0, 1.0)

    wide = Diagonal(numod.zeros(3), numod.ones(3)).expand((2,))
    assert type(wide) is Diagonal and wide.log_prob(numod.zeros(2, 3)).shape == (2,)
    noted = Noted(numod.zeros(2), 1.0, numod.ones(2)).expand((4, 2))
    assert type(noted) is Noted and noted.sample().shape == (4, 2) and noted.note.tolist() == [2, 2]
    with pytest.raises(NotImplementedError, match="must also define a custom .expand"):
        Bare()._get_checked_instance(D.Normal)


def test_logits_far_out_keep_their_digits() -> None:
    """In float32, where a sigmoid rounds to 0 or 1."""
    logits, zero = numod.tensor([-20.0, 20.0, 100.0], requires_grad=True), numod.zeros(3)
    softplus = np.logaddexp(0, [-20.0, 20.0, 100.0])
    for density in (D.Bernoulli(logits=logits), D.Binomial(1, logits=logits), D.NegativeBinomial(1.0, logits=logits)):
        result = density.log_prob(zero)
        np.testing.assert_allclose(result.tolist(), -softplus, rtol=1e-5)
        np.testing.assert_allclose(
            numod.autograd.grad(result.sum(), logits)[0].tolist(), [-2.0611537e-09, -1, -1], rtol=1e-5
        )
    np.testing.assert_allclose(D.Geometric(logits=logits).log_prob(zero + 1).tolist(), [-20, -20, -100], rtol=1e-5)
    other = numod.tensor([-21.0, 25.0, 90.0])
    for kind in (D.Bernoulli, D.Geometric):
        assert D.kl_divergence(kind(logits=logits), kind(logits=other)).isfinite().all()
    np.testing.assert_allclose(
        D.kl_divergence(D.Bernoulli(logits=logits), D.Bernoulli(logits=other))[:2].tolist(),
        [7.58256e-10, 8.2585e-09],
        rtol=1e-3,
    )
    assert D.kl_divergence(D.Bernoulli(0.5), D.Bernoulli(0.0)).item() == np.inf
