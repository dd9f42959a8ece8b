"""Inverse trigonometric and hyperbolic functions."""

from __future__ import annotations

from ..instructions import (
    NAN,
    Number,
    absolute,
    bits,
    choose,
    library,
    like,
    multiply_add,
    polynomial,
    where,
    with_sign,
)
from .logarithm import log1p
from .registry import vector
from .trigonometric import HALF_PI

_ATAN = (  # (atan(t) - t) / t^3 over t^2, up to 1
    (-0.333333135, 0.199988425, -0.142663464, 0.109585822, -0.0841065422, 0.0579135418, -0.0309912898, 0.0107485,
    -0.00174370117),
    (-0.3333333333333324, 0.19999999999976292, -0.14285714283804404, 0.11111111038037112, -0.09090907471937215,
    0.0769228449548724, -0.06666436182172124,
     0.05880687567330869, -0.05254104584925623, 0.047239281212900844, -0.04222474230566516, 0.03669202432009072,
     -0.029958535406213186, 0.022023958131292425, -0.013912900461696331, 0.0071891110916522645, -0.002873362255050488,
     0.0008246772904945106,
     -0.00015020024403115636, 1.2979577084858152e-05),
)  # fmt: skip
_ASIN = (  # (asin(s) - s) / s^3 over s^2, up to 1/2
    (0.166667312, 0.0749566033, 0.0454669185, 0.0240503717, 0.042565763),
    (0.16666666666666172, 0.07500000000190286, 0.044642856925715436, 0.030381955955868418, 0.02237181721992248,
    0.01735903346199214, 0.013889990619151162,
     0.012148606657804366, 0.006577367728440281, 0.01948747983492236, -0.01628930583493327, 0.03203420054728153),
)  # fmt: skip


def _beyond(x: Number, count: int, angle: Number) -> Number:
    """count * pi / 2 - angle."""
    high, low, *_ = choose(x, *HALF_PI)
    return count * high - (angle - count * low)


def _arc(t: Number) -> Number:
    """atan(t) for t from 0 to 1."""
    square = t * t
    return multiply_add(t * square, polynomial(square, choose(t, *_ATAN)), t)


@vector
def atan(x: Number) -> Number:
    a = absolute(x)
    angle = _arc(where(a > 1.0, 1.0 / a, a))
    return with_sign(where(a > 1.0, _beyond(x, 1, angle), angle), x)


@vector
def atan2(y: Number, x: Number) -> Number:
    rise, run = absolute(y), absolute(x)
    steep = rise > run
    long, short = where(steep, rise, run), where(steep, run, rise)
    ratio = where(long == short, where(long == 0.0, long, 1.0), short / long)
    angle = _arc(ratio)
    angle = where(steep, _beyond(x, 1, angle), angle)
    return with_sign(where(bits(x) < 0, _beyond(x, 2, angle), angle), y)


def _halved(x: Number) -> tuple[Number, Number]:
    """Whether |x| > 1/2, and asin(|x|), or in that case asin(sqrt((1 - |x|) / 2)) = (pi / 2 - asin(|x|)) / 2."""
    a = absolute(x)
    outer = a > 0.5
    square = where(outer, 0.5 - 0.5 * a, a * a)
    s = where(outer, library("sqrt", square), a)
    return outer, multiply_add(s * square, polynomial(square, choose(x, *_ASIN)), s)


@vector
def asin(x: Number) -> Number:
    outer, angle = _halved(x)
    return with_sign(where(outer, _beyond(x, 1, 2.0 * angle), angle), x)


@vector
def acos(x: Number) -> Number:
    outer, angle = _halved(x)
    double = 2.0 * angle
    return where(outer, where(x < 0.0, _beyond(x, 2, double), double), _beyond(x, 1, with_sign(angle, x)))


@vector
def atanh(x: Number) -> Number:
    a = absolute(x)
    double = a + a
    return with_sign(0.5 * log1p(where(a < 0.5, multiply_add(double, a / (1.0 - a), double), double / (1.0 - a))), x)


def _log_of_double(x: Number, rest: Number) -> Number:
    """log(1 + rest), or log(2 x) where x is so large that its square overflows."""
    large = x > choose(x, 1e9, 1e18)
    return log1p(where(large, x, rest)) + where(large, like(x, 0.6931471805599453), 0.0)


@vector
def asinh(x: Number) -> Number:
    a = absolute(x)
    square = a * a
    return with_sign(_log_of_double(a, a + square / (1.0 + library("sqrt", 1.0 + square))), x)


@vector
def acosh(x: Number) -> Number:
    rest = x - 1.0
    return where(x < 1.0, NAN, _log_of_double(x, rest + library("sqrt", multiply_add(rest, rest, rest + rest))))
