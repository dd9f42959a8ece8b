"""Exact values of rows of the pointwise table, by mpmath to 60 digits, at points where formulas lose digits: the
reference of `ops/test_ops_accuracy`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import mpmath as mp
import numpy as np

import numod

INF = math.inf
ALL = (  # near 0, small, near 1, moderate, near zeros and poles of many functions, large
    1e-40, 1e-30, 1e-12, 1e-5, 1e-3, 0.1, 0.3, 0.5, 0.7, 0.99, 0.9999999, 1.0, 1.0000001, 1.01, 1.4616321, 1.5, 2.0,
    2.4048256, 3.0, 3.1415927, 5.5, 8.0, 13.0, 17.0, 20.5, 37.5, 60.0, 87.0, 100.0, 700.0, 1e4, 1e10, 1e30,
)  # fmt: skip


def both(points: tuple) -> tuple:
    """The points and their negatives."""
    return (*points, *(-x for x in points))


class Row(NamedTuple):
    """`exact` of mpmath numbers at `points`, within limits for each dtype; the bars are in ulps of the exact value and
    gradient, for float32 and float64.

    `slack` is what a gradient may be off beside its bar, in ulps of 1: of rows whose gradient is made of their result,
    which has been rounded.
    """

    exact: Callable
    points: tuple = both(ALL)
    value: tuple[float, float] = (3, 3)
    gradient: tuple[float, float] | None = (4, 8)
    slack: float = 0.0
    numbers: tuple = ()
    digits: int = 200  # of mpmath, for the derivative


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def softplus(x):
    return mp.log1p(mp.exp(x)) if x < 200 else x + mp.log1p(mp.exp(-x))


def bessel(order: int, scaled: bool) -> Callable:
    return lambda x: mp.besseli(order, x) * (mp.exp(-abs(x)) if scaled else 1)


SMALL = both((1e-30, 1e-5, 0.1, 0.7, 1.0, 1.4616321, 3.0, 5.5, 20.5))
NORMAL = tuple(x for x in both(ALL) if x > -80)  # where exp(x) is no subnormal number
LARGE, ABOVE = (*SMALL, -100.0, 100.0, 700.0), tuple(x for x in SMALL if x > 0)
UP_TO_8 = both(tuple(x for x in ALL if x <= 8))
GAMMA = tuple(x for x in ALL if 0.001 <= x < 1e4 and x not in (1.0, 1.4616321, 2.0))
BELOW_ONE = both(tuple(x for x in ALL if x < 1))
POSITIVE = ALL
UNARY: dict[str, Row] = {
    "exp": Row(mp.exp), "exp2": Row(lambda x: mp.mpf(2) ** x), "expm1": Row(mp.expm1, NORMAL),
    "log": Row(mp.log, POSITIVE), "log2": Row(lambda x: mp.log(x, 2), POSITIVE),
    "log10": Row(lambda x: mp.log(x, 10), POSITIVE), "log1p": Row(mp.log1p, (*POSITIVE, *(-x for x in ALL if x < 1))),
    "sqrt": Row(mp.sqrt, POSITIVE), "rsqrt": Row(lambda x: 1 / mp.sqrt(x), POSITIVE),
    "reciprocal": Row(lambda x: 1 / x), "square": Row(lambda x: x * x),
    "sin": Row(mp.sin), "cos": Row(mp.cos), "tan": Row(mp.tan), "asin": Row(mp.asin, BELOW_ONE),
    "acos": Row(mp.acos, BELOW_ONE), "atan": Row(mp.atan),
    "sinh": Row(mp.sinh), "cosh": Row(mp.cosh), "tanh": Row(mp.tanh, slack=1),
    "asinh": Row(mp.asinh, both(tuple(x for x in ALL if x < 1e18))),
    "acosh": Row(mp.acosh, tuple(x for x in ALL if x > 1)), "atanh": Row(mp.atanh, BELOW_ONE),
    "sinc": Row(lambda x: mp.sin(mp.pi * x) / (mp.pi * x),
        both((1e-30, 1e-5, 1e-3, 0.02, 0.1, 0.3, 0.5, 0.7, 1.5, 5.5)), (4, 4), (300, 300)),
    "erf": Row(mp.erf, UP_TO_8, gradient=(40, 40)), "erfc": Row(mp.erfc, UP_TO_8, gradient=(40, 40)),
    "erfinv": Row(mp.erfinv, BELOW_ONE, (3, 3), (16, 16)), "ndtr": Row(mp.ncdf, UP_TO_8, (2, 40), (40, 40)),
    "log_ndtr": Row(lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2), (*UP_TO_8, -100.0, 12.0, -1e10), (2, 128), (8, 16)),
    "erfcx": Row(lambda x: mp.exp(x * x) * mp.erfc(x), tuple(x for x in both(ALL) if -9 < x), (2, 4), (4, 16)),
    "ndtri": Row(lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), tuple(x for x in ALL if 1e-15 < x < 1), (2, 2), (20, 60)),
    "sigmoid": Row(sigmoid, slack=1), "logsigmoid": Row(lambda x: -softplus(-x)),
    "softplus": Row(softplus, numbers=(1.0, INF)), "silu": Row(lambda x: x * sigmoid(x), NORMAL, gradient=(12, 12)),
    "mish": Row(lambda x: x * mp.tanh(softplus(x)), NORMAL, gradient=(12, 12)),
    "gelu": Row(lambda x: x * mp.ncdf(x), (*ALL, *(-x for x in ALL if x < 12)), (40, 80), (60, 60)),
    "gelu_tanh": Row(lambda x: x * sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x**3)),
        tuple(x for x in both(ALL) if x > -6), (80, 80), (300, 300)),
    "tanhshrink": Row(lambda x: x - mp.tanh(x), tuple(x for x in both(ALL) if abs(x) >= 1)),
    "softsign": Row(lambda x: x / (1 + abs(x))),
    "elu": Row(lambda x: x if x > 0 else mp.expm1(x), NORMAL, numbers=(1.0,)),
    "logit": Row(lambda p: mp.log(p / (1 - p)), tuple(x for x in ALL if x < 1)),
    "entr": Row(lambda x: -x * mp.log(x), POSITIVE),
    "lgamma": Row(lambda x: mp.re(mp.loggamma(x)) if x > 0 else mp.log(abs(mp.gamma(x))), GAMMA, (2, 12), (4, 12)),
    "digamma": Row(mp.digamma, GAMMA, (3, 12)),
    "trigamma": Row(lambda x: mp.polygamma(1, x), GAMMA),
    "i0": Row(bessel(0, False), SMALL, (4, 4)), "i0e": Row(bessel(0, True), LARGE, (4, 4), (8, 40)),
    "i1e": Row(bessel(1, True), LARGE, (4, 4), (40, 80)), "i1": Row(bessel(1, False), SMALL, (4, 4), (4, 8)),
    "bessel_j0": Row(lambda x: mp.besselj(0, x), SMALL, (4, 8), (4, 8)),
    "bessel_j1": Row(lambda x: mp.besselj(1, x), SMALL, (4, 4), (4, 20)),
    "bessel_y0": Row(lambda x: mp.bessely(0, x), ABOVE, (4, 64), (4, 64), digits=50),
    "bessel_y1": Row(lambda x: mp.bessely(1, x), ABOVE, (4, 64), (4, 64), digits=50),
    "modified_bessel_k0": Row(lambda x: mp.besselk(0, x), ABOVE, (4, 16), digits=50),
    "modified_bessel_k1": Row(lambda x: mp.besselk(1, x), ABOVE, (4, 16), digits=50),
    "scaled_modified_bessel_k0": Row(lambda x: mp.besselk(0, x) * mp.exp(x), (*ABOVE, 100.0), (4, 8), (8, 20),
        digits=50),
    "scaled_modified_bessel_k1": Row(lambda x: mp.besselk(1, x) * mp.exp(x), (*ABOVE, 100.0), (4, 8), (8, 20),
        digits=50),
    "airy_ai": Row(mp.airyai, tuple(x for x in SMALL if -6 < x < 10), (4, 128), None),
}  # fmt: skip
ROOTS = {  # where float64 keeps its digits next to the root too
    "digamma": (1.4616321449683622,), "lgamma": (1.0, 2.0, -2.4570247382208006, -2.7476826467274127),
    "bessel_j0": (2.404825557695773, 5.520078110286311), "bessel_j1": (3.8317059702075125, 7.015586669815619),
    "bessel_y0": (0.8935769662791675,),
}  # fmt: skip


def around(root: float) -> list[float]:
    """The floats next to a root, and some farther away."""
    return [math.nextafter(root, side) for side in (-INF, INF)] + [
        root * (1 + sign * distance) for distance in (1e-14, 1e-10, 1e-6, 1e-3, 0.02) for sign in (-1, 1)
    ]


@cache
def exact(name: str, dtype: type) -> tuple[np.ndarray, list, list]:
    """(points that the dtype holds, the exact values there, the exact derivatives)."""
    row, tiny = UNARY[name], float(np.finfo(dtype).tiny)
    points = [x for x in map(dtype, row.points) if abs(x) >= tiny]
    with mp.workdps(60):
        values = [row.exact(mp.mpf(float(x))) for x in points]
        slopes = [slope(row.exact, mp.mpf(float(x)), row.digits) for x in points] if row.gradient else []
    return np.array(points), values, slopes


def slope(function: Callable, x: mp.mpf, digits: int = 200) -> mp.mpf:
    """The derivative, by a central difference whose step and precision leave 20 digits and more."""
    with mp.workdps(digits):
        step = abs(x) * mp.mpf(10) ** -(digits // 5)
        return (function(x + step) - function(x - step)) / (2 * step)


def ulps(actual: float, right: mp.mpf, dtype: object, slack: float = 0.0) -> float:
    """How far a number is off, in ulps of the right one.

    Beyond the dtype's range infinities are right; below its normal numbers, the least normal's ulp counts.
    """
    info = numod.finfo(dtype) if isinstance(dtype, numod.dtype) else np.finfo(dtype)
    if abs(right) > float(info.max):
        return 0.0 if abs(actual) >= float(info.max) * 0.999 else INF
    if not math.isfinite(actual):
        return INF
    size = max(float(abs(right)), float(info.tiny))
    return max(float(abs(mp.mpf(float(actual)) - right)) - slack * float(info.eps), 0.0) / (
        2.0 ** math.floor(math.log2(size)) * float(info.eps)
    )
