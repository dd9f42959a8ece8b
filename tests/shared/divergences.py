"""Exact divergences, entropies, densities and distribution functions, by mpmath, at parameters where formulas lose
digits: pairs that are nearly equal, probabilities that round to 0 or 1, tails, large parameters. The reference of `distributions/test_distributions_digits`. A case's
points are (parameters of p, parameters of q), or the arguments of `call`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import mpmath as mp

from cases import Case
from numod import Tensor, distributions as D, ones_like, stack, zeros_like

log = mp.log


def lgamma(x: mp.mpf) -> mp.mpf:
    return mp.re(mp.loggamma(x))


def sigmoid(x: mp.mpf) -> mp.mpf:
    return 1 / (1 + mp.exp(-x))


def normal(m, s, n, t):
    return log(t / s) + (s * s + (m - n) ** 2) / (2 * t * t) - mp.mpf(1) / 2


def laplace(m, s, n, t):
    return log(t / s) + abs(m - n) / t + s / t * mp.exp(-abs(m - n) / s) - 1


def cauchy(m, s, n, t):
    return log(((s + t) ** 2 + (m - n) ** 2) / (4 * s * t))


def gumbel(m, s, n, t):
    return log(t / s) + (m - n) / t + mp.euler * (s / t - 1) + mp.exp((n - m) / t + lgamma(1 + s / t)) - 1


def exponential(p, q):
    return log(p / q) + q / p - 1


def poisson(p, q):
    return p * log(p / q) - p + q


def gamma(a, r, b, s):
    return b * log(r / s) + lgamma(b) - lgamma(a) + (a - b) * mp.digamma(a) + (s - r) * a / r


def beta(a, b, c, d):
    first = lgamma(c) + lgamma(d) + lgamma(a + b) - lgamma(a) - lgamma(b) - lgamma(c + d)
    return first + (a - c) * mp.digamma(a) + (b - d) * mp.digamma(b) + (c + d - a - b) * mp.digamma(a + b)


def pareto(s, a, t, b):
    return b * log(s / t) - log(b / a) + b / a - 1


def bernoulli(p, q):
    return p * log(p / q) + (1 - p) * log((1 - p) / (1 - q))


def of_logits(a, b):
    return sigmoid(a) * log(sigmoid(a) / sigmoid(b)) + sigmoid(-a) * log(sigmoid(-a) / sigmoid(-b))


def categorical(a, b):
    """Of the logits (a, 0, 1) and (b, 0, 1)."""
    one, other = (log(mp.exp(x) + 1 + mp.e) for x in (a, b))
    return sum(mp.exp(x - one) * ((x - one) - (y - other)) for x, y in ((a, b), (0, 0), (1, 1)))


def entropy(p):
    return -p * log(p) - (1 - p) * mp.log1p(-p)


CONCENTRATIONS = [(a, r) for a in (1e-3, 0.3, 1.3, 4.0, 15.9, 16.1, 31.0, 33.0, 100.0, 1e4, 1e8) for r in (0.5, 3.0)]


def student_entropy(df, loc, scale):
    half = df / 2
    gap = mp.digamma(half + 0.5) - mp.digamma(half)
    return log(scale) + (half + 0.5) * gap + log(df) / 2 + lgamma(half) + lgamma(mp.mpf(0.5)) - lgamma(half + 0.5)


def beta_entropy(a, b):
    first = lgamma(a) + lgamma(b) - lgamma(a + b)
    return first - (a - 1) * mp.digamma(a) - (b - 1) * mp.digamma(b) + (a + b - 2) * mp.digamma(a + b)


def entropy_of_logit(a):
    return -sigmoid(a) * log(sigmoid(a)) - sigmoid(-a) * log(sigmoid(-a))


def pair(kind: type, **names: str) -> Callable:
    """The divergence of two distributions of one kind, by the position of their parameters, or by one name."""
    make = (
        (lambda values: kind(**{names["by"]: values[0]}, validate_args=False))
        if names
        else lambda values: kind(*values, validate_args=False)
    )
    return lambda *values: D.kl_divergence(make(values[: len(values) // 2]), make(values[len(values) // 2 :]))


def at(kind: type, what: str, *names: str) -> Callable:
    """An entropy, or a function of the first argument."""

    def call(*values: Tensor) -> Tensor:
        if what == "entropy":
            return kind(**dict(zip(names, values)), validate_args=False).entropy()
        return getattr(kind(**dict(zip(names, values[1:])), validate_args=False), what)(values[0])

    return call


def three(x: Tensor) -> Tensor:
    return stack([x, zeros_like(x), ones_like(x)], -1)


NEAR = (0.0009765625, 0.25, -0.5, 30.0)  # changes of a scale; float32 holds the first one's multiples nearly
SHIFTED = [
    (m, s, m + k * s, s * (1 + e)) for m, s, k, e in product((0.5,), (0.0078125, 8.0), (0.0009765625, 10.0), NEAR)
]
FAR = [(0.5, 7.0, 0.5 + k, t) for k, t in product((0.0, 60.0, -5.0), (0.7, 0.5, 217.0, 2000.0))]
FAR_SHARES = [(3.0, 2.0, 0.3, 30.0), (0.5, 8.0, 1000.0, 2000.0), (100.0, 0.01, 0.02, 5.0), (7.0, 7.0, 1e5, 2e5)]
RATES = [(x, x * (1 + e)) for x in (1e-30, 1e-6, 0.3, 7.0, 1e6, 1e30) for e in (1e-6, 1e-3, 0.1, -0.3, 1.0, 100.0)]
LOGITS = [
    (a, a + e)
    for a in (-100.0, -88.0, -50.0, -20.0, -3.0, 0.625, 17.0, 60.0)
    for e in (0.0009765625, 0.25, -0.5, 2.0, -7.0)
]
PROBS = [(p, p * (1 + e)) for p in (1e-30, 1e-6, 1e-3, 0.3, 0.5) for e in (1e-6, 1e-3, 0.3, -0.5)] + [
    (1 - 2.0**-20, 1 - 2.0**-21),
    (0.9, 0.1),
    (1e-6, 1 - 2.0**-20),
]
SHAPES = [
    (a, r, a * (1 + e), r * (1 + h))
    for a, r, e, h in product((1e-6, 3.0, 1e6), (1e-3, 1e4), (1e-6, 0.25, -0.9), (1e-3, 2.0))
]
SHARES_OF_ONE = [
    (a, k * a, a * (1 + e), k * a * (1 + h))
    for a, k, e, h in product((1e-6, 3.0, 1e6), (0.25, 2.0), (1e-3, -0.5), (2e-3, 0.25))
]
SINGLE = [(a,) for a in (-100.0, -88.0, -30.0, -12.0, -3.0, 0.5, 7.0, 30.0, 80.0)]
TAILS = [(z, s) for z in (-1e30, -1e4, -10.0, -3.0, -1.0, -1e-6, 1e-6, 0.7, 10.0, 1e4) for s in (1.0, 8.0)]
ABOVE = [(z, s) for z in (1e-30, 1e-6, 0.5, 3.0) for s in (1e-2, 1.0, 30.0)]
SHARES = [(v, s) for v in (1e-30, 1e-10, 1e-3, 0.2, 0.3, 0.7, 0.9) for s in (1e-3, 8.0)]

# parameters from small to so large that log gammas cancel, at points up to some deviations from the mean
WEIGHTS = [
    (a / r * (1 + k / mp.sqrt(a)), a, r)
    for a, r, k in product((0.01, 0.7, 5.0, 40.0, 1e4, 1e6), (0.125, 3.0), (0.4, 2.5, -0.7))
    if k > 0 or a > 1
]
PARTS = [
    (float(x), a, b)
    for a, b in product((0.02, 0.7, 6.0, 60.0, 3e4, 1e6), (0.5, 8.0, 1e5))
    for x in (a / (a + b) * 1.01, 0.3 * a / (a + b))
    if x < 0.999
]
FREEDOM = [(x, v) for x in (-30.0, -1.7, 0.4, 2.5) for v in (0.1, 3.0, 19.0, 25.0, 1e3, 1e6)]
COUNTED = [(rate, k) for rate in (1e-3, 0.7, 20.0, 1e4, 1e6) for k in (0.0, 1.0, 9.0, 1.1e4, 1001000.0)]


def log_gamma_density(x, a, r):
    return a * log(r) + (a - 1) * log(x) - r * x - lgamma(a)


def log_beta_density(x, a, b):
    return (a - 1) * log(x) + (b - 1) * mp.log1p(-x) + lgamma(a + b) - lgamma(a) - lgamma(b)


def log_student_density(x, v):
    return lgamma((v + 1) / 2) - lgamma(v / 2) - log(v * mp.pi) / 2 - (v + 1) / 2 * mp.log1p(x * x / v)


CASES: dict[str, Case] = {
    "Normal": Case(pair(D.Normal), normal, SHIFTED),
    "Laplace": Case(pair(D.Laplace), laplace, SHIFTED),
    "Cauchy": Case(pair(D.Cauchy), cauchy, SHIFTED),
    "Gumbel": Case(pair(D.Gumbel), gumbel, [*SHIFTED, *FAR], (2, 256), (2, 512)),
    "Exponential": Case(pair(D.Exponential), exponential, RATES),
    "Poisson": Case(pair(D.Poisson), poisson, RATES),
    "Gamma": Case(pair(D.Gamma), gamma, SHAPES, (4, 8), (24, 24)),
    "Beta": Case(pair(D.Beta), beta, [*SHARES_OF_ONE, *FAR_SHARES], (160, 256), (48, 96)),
    "Pareto": Case(pair(D.Pareto), pareto,
        [(s * 1.25, a, s, a * (1 + e)) for s in (1e-3, 1e4) for a in (1e-2, 50.0) for e in NEAR]),
    "Bernoulli by logits": Case(pair(D.Bernoulli, by="logits"), of_logits, LOGITS),
    "Bernoulli by probs": Case(pair(D.Bernoulli, by="probs"), bernoulli, PROBS),
    "Geometric by logits": Case(pair(D.Geometric, by="logits"), lambda a, b: of_logits(a, b) / sigmoid(a), LOGITS),
    "Geometric by probs": Case(pair(D.Geometric, by="probs"), lambda p, q: bernoulli(p, q) / p, PROBS),
    "Categorical": Case(
        lambda a, b: D.kl_divergence(D.Categorical(logits=three(a)), D.Categorical(logits=three(b))), categorical,
        [(a, a + e) for a in (-80.0, -50.0, -3.0, 0.625) for e in (0.25, -0.5, 40.0, -30.0)], (64, 64), (64, 64),
    ),
    "entropy of Gamma": Case(at(D.Gamma, "entropy", "concentration", "rate"),
        lambda a, r: a - log(r) + lgamma(a) + (1 - a) * mp.digamma(a), CONCENTRATIONS, (32, 64), (40, 400)),
    "entropy of InverseGamma": Case(at(D.InverseGamma, "entropy", "concentration", "rate"),
        lambda a, r: a + log(r) + lgamma(a) - (1 + a) * mp.digamma(a), CONCENTRATIONS, (32, 64), (24, 400)),
    "entropy of StudentT": Case(at(D.StudentT, "entropy", "df", "loc", "scale"), student_entropy,
        [(a, 0.0, s) for a, s in CONCENTRATIONS], (32, 64), (500, 500), fixed=(1,)),
    "entropy of Beta": Case(at(D.Beta, "entropy", "concentration1", "concentration0"), beta_entropy,
        [(a, b) for a in (0.3, 2.5, 30.0, 1e4, 3e7) for b in (0.7, 20.0, 1e5)], (64, 64), (400, 400), slack=1e-3),
    "entropy of Bernoulli by logits": Case(at(D.Bernoulli, "entropy", "logits"), entropy_of_logit,
        [(-80.0,), *SINGLE[2:]]),
    "entropy of Bernoulli by probs": Case(at(D.Bernoulli, "entropy", "probs"), entropy,
        [(p,) for p in (1e-30, 1e-6, 0.3, 0.9, 1 - 2.0**-20)]),
    "entropy of Geometric by logits": Case(at(D.Geometric, "entropy", "logits"),
        lambda a: entropy_of_logit(a) / sigmoid(a), SINGLE),
    "entropy of Geometric by probs": Case(at(D.Geometric, "entropy", "probs"), lambda p: entropy(p) / p,
        [(p,) for p in (1e-30, 1e-6, 0.3, 0.9, 1 - 2.0**-20)]),
    "cdf of Normal": Case(lambda x, s: D.Normal(0.0 * s, s).cdf(x), lambda x, s: mp.erfc(-x / s / mp.sqrt(2)) / 2,
        TAILS, (4, 40), (64, 128)),
    "cdf of Laplace": Case(lambda x, s: D.Laplace(0.0 * s, s).cdf(x), lambda x,
        s: mp.exp(x / s) / 2 if x < 0 else 1 - mp.exp(-x / s) / 2, TAILS),
    "cdf of Cauchy": Case(lambda x, s: D.Cauchy(0.0 * s, s).cdf(x), lambda x, s: mp.atan2(s, -x) / mp.pi, TAILS),
    "cdf of Exponential": Case(at(D.Exponential, "cdf", "rate"), lambda x, r: -mp.expm1(-r * x), ABOVE),
    "cdf of HalfNormal": Case(at(D.HalfNormal, "cdf", "scale"), lambda x, s: mp.erf(x / s / mp.sqrt(2)), ABOVE,
        (16, 16), (16, 16)),
    "cdf of HalfCauchy": Case(at(D.HalfCauchy, "cdf", "scale"), lambda x, s: 2 * mp.atan(x / s) / mp.pi, ABOVE),
    "icdf of Normal": Case(lambda v, s: D.Normal(0.0 * s, s).icdf(v), lambda v,
        s: -s * mp.sqrt(2) * mp.erfinv(1 - 2 * v), SHARES, (8, 8), (64, 128)),
    "icdf of Laplace": Case(lambda v, s: D.Laplace(0.0 * s, s).icdf(v), lambda v,
        s: s * log(2 * v) if v < 0.5 else -s * log(2 * (1 - v)), SHARES),
    "icdf of Cauchy": Case(lambda v, s: D.Cauchy(0.0 * s, s).icdf(v), lambda v, s: -s * mp.cot(mp.pi * v), SHARES),
    "density of Gamma": Case(at(D.Gamma, "log_prob", "concentration", "rate"), log_gamma_density,
        [tuple(map(float, row)) for row in WEIGHTS], (2, 128), (2, 1024)),
    "density of Beta": Case(at(D.Beta, "log_prob", "concentration1", "concentration0"), log_beta_density, PARTS,
        (2, 96), (2, 512)),
    "density of StudentT": Case(at(D.StudentT, "log_prob", "df"), log_student_density, FREEDOM, (2, 8), (3, 32)),
    "density of Poisson": Case(lambda rate, k: D.Poisson(rate, validate_args=False).log_prob(k),
        lambda rate, k: k * log(rate) - rate - lgamma(k + 1), COUNTED, (2, 10), (2, 4), (1,)),
}  # fmt: skip
