"""Exact values of functions of two inputs and of losses, by mpmath, at points where formulas lose digits, overflow or
underflow on the way. The reference of `ops/test_accuracy` and `nn/test_loss_digits`.
"""

from __future__ import annotations

from itertools import product

import mpmath as mp

import numod
from cases import Case
from numod import special
from numod.nn import functional as F

SIZES = (1e-30, 1e-19, 1e-5, 0.3, 0.5, 1.0, 1.0000001, 3.0, 20.0, 88.0, 1e5, 1e19, 1e30)
SIGNED = (*SIZES, *(-x for x in SIZES))
MODERATE = tuple(x for x in SIGNED if 1e-6 < abs(x) < 1e6)
UNDER_200 = tuple(x for x in SIGNED if abs(x) < 200)
LOGITS = (*UNDER_200, 700.0, -700.0)
PROBABILITIES = (1e-30, 1e-13, 1e-5, 0.3, 0.5, 0.9, 0.9999999)
TARGETS = (1e-5, 0.3, 0.5, 0.9999999)


def pairs(*columns: tuple) -> list:
    return list(product(*columns))


def below(x, y, base):
    """log(base^x + base^y) in that base."""
    return max(x, y) + mp.log1p(mp.mpf(base) ** -abs(x - y)) / mp.log(base)


def softplus(x):
    return mp.log1p(mp.exp(x)) if x < 200 else x + mp.log1p(mp.exp(-x))


def remainder(x, y):
    return x - mp.floor(x / y) * y


def fmod(x, y):
    return x - mp.mpf(int(x / y)) * y


def lower_gamma(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def upper_gamma(a, x):
    return mp.gammainc(a, x, mp.inf, regularized=True)


def multigammaln(a, p):
    return p * (p - 1) / mp.mpf(4) * mp.log(mp.pi) + sum(mp.loggamma(a - j / mp.mpf(2)) for j in range(p))


SHAPES, LIMITS = (1e-3, 0.5, 1.0, 1.5, 5.0, 20.0, 30.0, 1e3), (1e-3, 0.5, 1.0, 1.6, 5.0, 20.5, 30.0, 990.0, 1010.0)
# where neither function nor density is a subnormal float32
CLOSE = [(x, y) for x, y in pairs(UNDER_200, UNDER_200) if max(x, y) > -1 / 2 or max(x, y) < -2]  # no sum is near 1
GAMMAS = [
    (a, x) for a, x in product(SHAPES, LIMITS) if 1e-30 < mp.gammainc(a, 0, x, regularized=True) and x < 60 + 3 * a
]
ABOVE = (1e-3, 0.1, 0.5, 1.0, 1.5, 3.0, 10.0, 100.0, 1e5)
# where the quotient is no whole number, and none by rounding
DIVIDED = [(x, y) for x, y in pairs(UNDER_200, (0.3, -0.3, 1.1, 7.0, -7.0)) if abs(x / y - round(x / y)) > 1e-4]

BINARY: dict[str, Case] = {
    "pow": Case(numod.pow, mp.power,
        [(x, y) for x, y in product((1e-5, 0.5, 0.9999999, 1.0000001, 2.0, 3.0, 100.0, 1e10), (*MODERATE, 2.5, -2.5, 0.33))
            if 1e-30 < mp.mpf(x) ** mp.mpf(y) < 1e30 and 1e-30 < mp.mpf(x) ** mp.mpf(y - 1) < 1e30], (2, 2), (64, 64)),
    "fmod": Case(numod.fmod, fmod, DIVIDED, (0, 0), (1, 1)),
    "remainder": Case(numod.remainder, remainder, DIVIDED, (1, 1), (1, 1)),
    "div": Case(numod.div, lambda x, y: x / y, [(x, y) for x, y in pairs(SIGNED, SIGNED) if 1e-30 < abs(x / y) < 1e30 and
        abs(y) > 1e-6], (1, 1), (2, 2)),
    "atan2": Case(numod.atan2, mp.atan2, pairs(SIGNED, SIGNED), (2, 2), (4, 4)),
    "hypot": Case(numod.hypot, lambda x, y: mp.sqrt(x * x + y * y), pairs(SIGNED, SIGNED), (2, 2), (3, 3)),
    "xlogy": Case(numod.xlogy, lambda x, y: x * mp.log(y), [(x, y) for x, y in pairs(SIGNED, SIZES) if y != 1.0], (3, 3),
        (3, 3)),
    "xlog1py": Case(special.xlog1py, lambda x, y: x * mp.log1p(y), pairs(SIGNED, (*SIZES, -0.9999999, -0.5, -1e-5)),
        (2, 2), (3, 3)),
    "logaddexp": Case(numod.logaddexp, lambda x, y: below(x, y, mp.e), CLOSE, (4, 8), (64, 96)),
    "logaddexp2": Case(numod.logaddexp2, lambda x, y: below(x, y, 2), CLOSE, (4, 8), (64, 64)),
    "copysign": Case(numod.copysign, lambda x, y: abs(x) if y > 0 else -abs(x), pairs(SIGNED, (1.0, -1e-30)), (0, 0),
        (1, 1)),
    "ldexp": Case(numod.ldexp, lambda x, n: x * mp.mpf(2) ** n, pairs(MODERATE, (-60.0, -1.0, 0.5, 3.0, 50.0)), (3, 3),
        (4, 4), fixed=(1,)),
    "polygamma of order 2": Case(lambda x: numod.polygamma(2, x), lambda x: mp.polygamma(2, x),
        [(x,) for x in (*ABOVE, -0.3, -1.6)], (2, 12), (2, 12)),
    "polygamma of order 5": Case(lambda x: numod.polygamma(5, x), lambda x: mp.polygamma(5, x),
        [(x,) for x in (*ABOVE[1:], -0.3, -1.6)], (2, 12), (2, 12)),
    "zeta": Case(special.zeta, mp.zeta, [(s, q) for s, q in product((1.001, 1.1, 1.5, 2.0, 3.0, 10.0), ABOVE) if
        1e-30 < mp.zeta(s, q) < 1e30 and q ** (-s - 1) < 1e30], (2, 8), (40, 12), fixed=(0,)),
    "gammainc": Case(special.gammainc, lower_gamma, GAMMAS, (2, 32), (4, 16), fixed=(0,)),
    "gammaincc": Case(special.gammaincc, upper_gamma, GAMMAS, (2, 64), (4, 16), fixed=(0,)),
    "multigammaln": Case(lambda a: special.multigammaln(a, 3), lambda a: multigammaln(a, 3),
        [(a,) for a in (1.001, 1.1, 1.5, 3.0, 10.0, 100.0, 1e5)], (8, 16), (8, 16)),
}  # fmt: skip


def none(loss, *fixed, **numbers):
    return lambda *given: loss(*given, *fixed, reduction="none", **numbers)


def cross_entropy(target, weights=(1, 1, 1), smoothing=0):
    """Of the logits (x, y, 0)."""

    def exact(x, y):
        total = mp.log(mp.exp(x) + mp.exp(y) + 1)
        logs = [weight * (total - logit) for logit, weight in zip((x, y, mp.mpf(0)), weights)]
        return (1 - mp.mpf(smoothing)) * logs[target] + mp.mpf(smoothing) * sum(logs) / 3

    return exact


def classes(**options):
    def call(x, y):
        logits = numod.stack([x, y, numod.zeros_like(x)], -1)
        weight = options.get("weight")
        chosen = {**options, "weight": numod.tensor(weight, dtype=x.dtype)} if weight else options
        return F.cross_entropy(logits, numod.zeros(len(x), dtype=numod.int64), reduction="none", **chosen)

    return call


def smooth(x, t, beta=1):
    d = abs(x - t)
    return d * d / (2 * beta) if d < beta else d - mp.mpf(beta) / 2


def huber(x, t, delta=2):
    d = abs(x - t)
    return d * d / 2 if d <= delta else delta * (d - mp.mpf(delta) / 2)


# away from kinks, and from where a gradient is 0
APART = [(x, t) for x, t in pairs(MODERATE, (-2.0, 0.125, 0.75, 1e4)) if x != t]
SQUARES = [(x, t) for x, t in pairs((*MODERATE, 1e17, 1e-15), (-2.0, 0.125, 1e4)) if x != t]
ONES = pairs(LOGITS, (1.0, -1.0))
COUNTS = (1.5, 2.0, 7.0, 100.0, 1e5)

LOSSES: dict[str, Case] = {
    "mse_loss": Case(none(F.mse_loss), lambda x, t: (x - t) ** 2, SQUARES, (3, 3), (2, 2)),
    "l1_loss": Case(none(F.l1_loss), lambda x, t: abs(x - t), SQUARES, (1, 1), (1, 1)),
    "smooth_l1_loss": Case(none(F.smooth_l1_loss), smooth, APART, (4, 4), (2, 2)),
    "huber_loss": Case(none(F.huber_loss, delta=2.0), huber, APART, (4, 4), (2, 2)),
    "binary_cross_entropy": Case(none(F.binary_cross_entropy), lambda x, t: -(t * mp.log(x) + (1 - t) * mp.log1p(-x)),
        [(x, t) for x, t in pairs(PROBABILITIES, TARGETS) if x != t and x > 1e-10], (4, 4), (8, 8), fixed=(1,)),
    "binary_cross_entropy_with_logits": Case(none(F.binary_cross_entropy_with_logits),
        lambda x, t: (1 - t) * softplus(x) + t * softplus(-x), pairs(LOGITS, TARGETS), (4, 4), (4, 4), (1,), 1.0),
    "binary_cross_entropy_with_logits, target 0": Case(
        lambda x: F.binary_cross_entropy_with_logits(x, x.detach() * 0, reduction="none"), softplus,
        [(x,) for x in LOGITS if x > -80], (4, 4), (4, 4)),
    "binary_cross_entropy_with_logits, target 1": Case(
        lambda x: F.binary_cross_entropy_with_logits(x, x.detach() * 0 + 1, reduction="none"), lambda x: softplus(-x),
        [(x,) for x in LOGITS if x < 80], (4, 4), (4, 4)),
    "kl_div": Case(none(F.kl_div), lambda x, t: t * (mp.log(t) - x), pairs(LOGITS, TARGETS), (16, 16), (4, 4), slack=2.0),
    "soft_margin_loss": Case(none(F.soft_margin_loss), lambda x, t: softplus(-t * x),
        [(x, t) for x, t in ONES if t * x < 80], (4, 4), (4, 4), (1,)),
    "hinge_embedding_loss": Case(none(F.hinge_embedding_loss), lambda x, t: x if t > 0 else max(mp.mpf(0), 1 - x),
        [(x, t) for x, t in ONES if x != 1.0], (2, 2), (1, 1), (1,)),
    "poisson_nll_loss": Case(none(F.poisson_nll_loss), lambda x, t: mp.exp(x) - t * x,
        [(x, t) for x, t in pairs(LOGITS, COUNTS) if x < 88 and not 0 < x < 3.5], (4, 4), (4, 4), (1,)),
    "margin_ranking_loss": Case(lambda x, y: F.margin_ranking_loss(x, y, numod.ones_like(x), 0.5, reduction="none"),
        lambda x, y: max(mp.mpf(0), y - x + mp.mpf(0.5)), pairs(MODERATE, (-2.0, 0.125, 1e4)), (2, 2), (1, 1)),
    "gaussian_nll_loss": Case(lambda x, v: F.gaussian_nll_loss(x, x.detach() * 0 + 0.25, v, reduction="none"),
        lambda x, v: (mp.log(v) + (x - mp.mpf(0.25)) ** 2 / v) / 2,
        pairs((1e-5, 1.5, -3.0, 100.0), (1e-4, 0.4, 3.0, 1e6)), (8, 8), (8, 8)),
    "cross_entropy": Case(classes(), cross_entropy(0), [(x, y) for x, y in pairs(UNDER_200, (-30.0, 0.25, 50.0)) if x < 2.5],
        (4, 8), (4, 4), slack=1.0),
    "cross_entropy with weights": Case(classes(weight=[0.3, 2.0, 1.0]), cross_entropy(0, (mp.mpf(0.3), 2, 1)),
        [(x, y) for x, y in pairs(UNDER_200, (-30.0, 0.25)) if x < 2.5], (4, 8), (4, 4), slack=1.0),
    "cross_entropy with smoothing": Case(classes(label_smoothing=0.125), cross_entropy(0, (1, 1, 1), 0.125),
        pairs(UNDER_200, (-30.0, 0.25)), (4, 4), (8, 8), slack=1.0),
}  # fmt: skip
