"""Samples from gamma, Poisson and binomial distributions, and random permutations.

Rejection methods: each element has its own Philox counter and draws as many words as it needs, so a seed gives the same
samples on every device. All is computed in float64. Distributions with a closed formula are rows of `ops.table`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import cos, exp, fabs, lgamma, log, log1p, sqrt

from .. import dtypes
from ..device import Layout
from ..device.layout import layout
from ..kernel import bind
from ..kernel.language import ceil, float64, floor, int64, parallel_range, uintp
from ..kernel.library.random import philox, unit
from ..kernel.library.special import digamma
from ..kernel.scalar import scalar
from ..kernel.specialize import has, specialized
from .op import Op, Plan, no_derivative


def standard_gamma_kernel(alpha, out, seed, offset, n, *, least):
    """out = samples of gamma distributions of shape alpha and rate 1, at least `least`: their logarithms are finite."""
    for task in parallel_range(n):
        k = int64(task)
        out[uintp(k)] = max(gamma_variate(seed, int64(offset) + k, float64(alpha[uintp(k)])), least)


def standard_gamma_gradient_kernel(alpha, value, out, n):
    """out = d value / d alpha at a fixed quantile (implicit reparameterization)."""
    for task in parallel_range(n):
        k = int64(task)
        out[uintp(k)] = gamma_derivative(float64(alpha[uintp(k)]), float64(value[uintp(k)]))


def poisson_kernel(rate, out, seed, offset, n):
    """out = samples of Poisson distributions."""
    for task in parallel_range(n):
        k = int64(task)
        out[uintp(k)] = poisson_variate(seed, int64(offset) + k, float64(rate[uintp(k)]))


def binomial_kernel(count, probability, out, seed, offset, n):
    """out = samples of binomial distributions of `count` trials."""
    for task in parallel_range(n):
        k = int64(task)
        out[uintp(k)] = binomial_variate(
            seed, int64(offset) + k, float64(count[uintp(k)]), float64(probability[uintp(k)])
        )


@scalar
def word_pair(seed, counter, lane):
    """A uniform number in [0, 1) from words `lane` and `lane` + 1 of a counter."""
    return unit(philox(seed, counter, lane), philox(seed, counter, lane + 1))


@scalar
def gamma_variate(seed, counter, alpha):
    """A gamma sample: Marsaglia and Tsang, A simple method for generating gamma variables, 2000.

    For alpha < 1, a sample for alpha + 1 times u^(1/alpha).
    """
    scale = 1.0
    shape = alpha
    if alpha < 1.0:
        scale = (1.0 - word_pair(seed, counter, 0)) ** (1.0 / alpha)
        shape = alpha + 1.0
    d = shape - 0.3333333333333333
    c = 1.0 / sqrt(9.0 * d)
    value = d
    lane = 4
    searching = alpha == alpha
    while searching and lane < 4096:  # at most one in twenty proposals is rejected
        radius = sqrt(-2.0 * log(1.0 - word_pair(seed, counter, lane)))
        normal = radius * cos(6.283185307179586 * word_pair(seed, counter, lane + 2))
        v = 1.0 + c * normal
        if v > 0.0:
            v = v * v * v
            u = 1.0 - word_pair(seed, counter, lane + 4)
            if log(u) < 0.5 * normal * normal + d - d * v + d * log(v):
                value = d * v
                searching = False
        lane += 8
    return value * scale if alpha > 0.0 else alpha * 0.0


@scalar
def gamma_derivative(alpha, value):
    """-(dP/d alpha) / p for the gamma distribution function P and density p.

    P = sum over n of value^(alpha+n) e^-value / Gamma(alpha+n+1) is differentiated term by term.
    """
    if not (alpha > 0.0 and value > 0.0):
        return 0.0 * alpha * value
    # for large alpha, the Wilson-Hilferty approximation at a fixed normal quantile
    if alpha > 1000.0:
        root = (value / alpha) ** 0.3333333333333333
        return root * root * (1.5 - 0.5 * root + 0.16666666666666666 / alpha)
    logarithm = log(value) - digamma(alpha + 1.0)
    term = 1.0 / alpha
    total = term * logarithm
    n = 1.0
    while n < 20000.0:
        term = term * value / (alpha + n)
        logarithm -= 1.0 / (alpha + n)
        total += term * logarithm
        n = 1e9 if alpha + n > value and term * fabs(logarithm) < 1e-17 * fabs(total) else n + 1.0
    return -value * total


@scalar
def poisson_variate(seed, counter, rate):
    """A Poisson sample: Knuth's products of uniform numbers for rates below 10, else Hörmann, The transformed rejection
    method for generating Poisson random variables, 1993.
    """
    if not rate > 0.0:
        return rate * 0.0
    lane = 0
    value = 0.0
    if rate < 10.0:
        least_product = exp(-rate)
        product = 1.0 - word_pair(seed, counter, lane)
        while product > least_product:
            value += 1.0
            lane += 2
            product *= 1.0 - word_pair(seed, counter, lane)
        return value
    b = 0.931 + 2.53 * sqrt(rate)
    a = -0.059 + 0.02483 * b
    bound = 0.9277 - 3.6224 / (b - 2.0)
    searching = True
    while searching and lane < 4096:
        u = word_pair(seed, counter, lane) - 0.5
        v = 1.0 - word_pair(seed, counter, lane + 2)
        us = 0.5 - fabs(u)
        value = floor((2.0 * a / us + b) * u + rate + 0.43) if us > 0.0 else -1.0
        if us >= 0.07 and v <= bound:
            searching = False
        elif value >= 0.0 and not (us < 0.013 and v > us):
            searching = log(v) + log(1.1239 + 1.1328 / (b - 3.4)) - log(a / (us * us) + b) > value * log(
                rate
            ) - rate - lgamma(value + 1.0)
        lane += 4
    return value


@scalar
def binomial_variate(seed, counter, count, probability):
    """A binomial sample: geometric gaps between successes if fewer than 10 are expected, else Hörmann, The generation
    of binomial random variates, 1993. The rarer of the two outcomes is counted.
    """
    if not (count > 0.0 and probability > 0.0):
        return count * probability * 0.0
    if probability >= 1.0:
        return count
    p = min(probability, 1.0 - probability)
    lane = 0
    value = 0.0
    if count * p < 10.0:
        trial = ceil(log(1.0 - word_pair(seed, counter, lane)) / log1p(-p))
        while trial <= count:
            value += 1.0
            lane += 2
            trial += max(ceil(log(1.0 - word_pair(seed, counter, lane)) / log1p(-p)), 1.0)
    else:
        deviation = sqrt(count * p * (1.0 - p))
        b = 1.15 + 2.53 * deviation
        a = -0.0873 + 0.0248 * b + 0.01 * p
        mode = floor((count + 1.0) * p)
        peak = lgamma(mode + 1.0) + lgamma(count - mode + 1.0)
        searching = True
        while searching and lane < 4096:
            u = word_pair(seed, counter, lane) - 0.5
            v = 1.0 - word_pair(seed, counter, lane + 2)
            us = 0.5 - fabs(u)
            value = floor((2.0 * a / us + b) * u + count * p + 0.5) if us > 0.0 else -1.0
            if us >= 0.07 and v <= 0.92 - 4.2 / b:
                searching = False
            elif value >= 0.0 and value <= count:
                density = peak - lgamma(value + 1.0) - lgamma(count - value + 1.0) + (value - mode) * log(p / (1.0 - p))
                searching = log(v * (2.83 + 5.1 / b) * deviation / (a / (us * us) + b)) > density
            lane += 4
    return value if probability <= 0.5 else count - value


def permutation_kernel(keys, out, n):
    """out = a permutation of 0 .. n-1 by random keys (n) below 2^62, which are overwritten.

    Each element in turn is swapped with itself or a later one (Durstenfeld, 1964).
    """
    for k in range(n):
        keys[uintp(k)] = k + int64(float64(keys[uintp(k)] >> 9) * (0.5**53) * float64(n - k))
        out[uintp(k)] = k
    for k in range(n):
        other = keys[uintp(k)]
        value = out[uintp(other)]
        out[uintp(other)] = out[uintp(k)]
        out[uintp(k)] = value


class Sample(Op):
    """One sample for each element of dense floating tensors, the distribution's parameters.

    `gradients`: the gradient function of each parameter.
    """

    def __init__(self, name: str, kernel: Callable, **gradients: Callable) -> None:
        super().__init__(name)
        self.inputs, self.kernel, self.gradients = (*gradients, "seed", "offset"), kernel, gradients

    @property
    def takes(self) -> str:
        """See `Op.takes`."""
        return " ".join(f"{input}[*s]:f" for input in self.inputs[:-2]) + " seed#i offset#i;"

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        return _plan(self.name, self.kernel, arguments[0], len(self.gradients), ", int64, int64")


class GammaGradient(Op):
    """The derivative of a gamma sample with respect to its shape parameter. Not differentiable, as in PyTorch."""

    takes = "alpha[*s]:f value[*s];"
    inputs = ("alpha", "value")
    gradients = dict.fromkeys(inputs, lambda g: no_derivative("a gamma variate"))

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        return _plan(self.name, standard_gamma_gradient_kernel, arguments[0], 2, "")


class Permutation(Op):
    """A permutation, int64 (n), by n random keys from 0 to 2^62, which are overwritten.

    On the CPU only: the swaps are sequential.
    """

    takes = "keys[n]:int64;"
    inputs, differentiable = ("keys",), False

    def further_limits(self, arguments: tuple, attributes: tuple, sizes: dict) -> dict[int, int]:
        """See `Op.further_limits`."""
        return {0: 1 << 62}

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (keys,) = arguments
        if keys.device.type != "cpu":
            raise NotImplementedError(
                f"permutation: there is no kernel for {keys.device}; move the keys with .cpu() first"
            )
        return Plan(
            keys,
            bind.launcher(
                keys.device, self.name, specialized(permutation_kernel), "int64[], int64[], int64", dtypes.float64, 1
            ),
            (keys.size,),
        )


def _plan(name: str, kernel: Callable, like: Layout, inputs: int, numbers: str) -> Plan:
    out = layout(like.shape, like.dtype, like.device)
    if out.size == 0:
        return Plan(out, lambda *_: None)
    kernel = partial(kernel, least=float(dtypes.finfo(like.dtype).tiny)) if has(kernel, "least") else kernel
    source = specialized(kernel)
    signature = ", ".join([f"{like.storage.name}[]"] * (inputs + 1)) + numbers + ", int64"
    return Plan(out, bind.launcher(like.device, name, source, signature, dtypes.float64, 64 * out.size), (out.size,))


standard_gamma = Sample(
    "standard_gamma", standard_gamma_kernel, alpha=lambda g, alpha, out: g * standard_gamma_gradient.apply((alpha, out))
)
standard_gamma_gradient = GammaGradient("standard_gamma_gradient")
poisson = Sample("poisson", poisson_kernel, rate=lambda g: g * 0.0)
binomial = Sample("binomial", binomial_kernel, count=lambda g: g * 0.0, probability=lambda g: g * 0.0)
permutation = Permutation("permutation")
