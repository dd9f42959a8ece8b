"""Exact values of functions of two inputs, by mpmath, at points where formulas lose digits, overflow or underflow on
the way. The reference of `ops/test_ops_accuracy`.
"""

from __future__ import annotations

from itertools import product

import mpmath as mp

import numod
from cases import Case
from numod import special

SIZES = (1e-30, 1e-19, 1e-5, 0.3, 0.5, 1.0, 1.0000001, 3.0, 20.0, 88.0, 1e5, 1e19, 1e30)
SIGNED = (*SIZES, *(-x for x in SIZES))
MODERATE = tuple(x for x in SIGNED if 1e-6 < abs(x) < 1e6)
UNDER_200 = tuple(x for x in SIGNED if abs(x) < 200)


def pairs(*columns: tuple) -> list:
    return list(product(*columns))


def below(x, y, base):
    """log(base^x + base^y) in that base."""
    return max(x, y) + mp.log1p(mp.mpf(base) ** -abs(x - y)) / mp.log(base)


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
    "spherical_bessel_j0": Case(special.spherical_bessel_j0, lambda x: mp.sin(x) / x,
        [(x,) for x in (1e-30, 1e-5, 1e-3, 0.1, 0.5, 0.9999, 1.0, 1.0001, 1.5, 2.5, -0.3, -5.5, 20.5)], (2, 2), (8, 8)),
    "multigammaln": Case(lambda a: special.multigammaln(a, 3), lambda a: multigammaln(a, 3),
        [(a,) for a in (1.001, 1.1, 1.5, 3.0, 10.0, 100.0, 1e5)], (8, 16), (8, 16)),
}  # fmt: skip
