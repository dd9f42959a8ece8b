"""Logarithms: x = 2^k (1 + f) with 1 + f from sqrt(1/2) to sqrt(2), log(x) = k log 2 + log(1 + f)."""

from __future__ import annotations

from ..instructions import INF, NAN, Number, bits, choose, like, multiply_add, number, polynomial, where
from .exponential import LOG2, LOG2E
from .registry import vector

# (log(1 + f) - f + f^2 / 2) / f^3
_LOG = (0.3333331, -0.25, 0.20002227, -0.16668527, 0.14218122, -0.12396421, 0.11888593, -0.11725829, 0.06804918)
_LOG_RATIO = (  # log((1 + s) / (1 - s)) / s - 2 over z = s^2, with s = f / (2 + f)
    0.6666666666666736, 0.3999999999940507, 0.2857142874413889, 0.22222198419192385, 0.1818357138419732,
    0.15313888042339555, 0.1479743510950102,
)  # fmt: skip
_ROOT = 0x3F3504F3, 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)


def split(x: Number, subnormals: bool = True) -> tuple[Number, Number]:
    """k, as a float, and f, for x > 0."""
    lift = 0
    if subnormals:
        tiny = x < choose(x, 2.0**-126, 2.0**-1022)
        lift = where(tiny, like(x, -54.0), 0.0)
        x = where(tiny, x * 2.0**54, x)
    code = bits(x)
    k = (code - choose(x, *_ROOT)) >> x.mantissa
    addend = like(x, 1.5 * 2.0**x.mantissa)
    return number(bits(addend) + k) - addend + lift, number(code - (k << x.mantissa)) - 1.0


def _tail(f: Number) -> Number:
    """f - log(1 + f)."""
    half = 0.5 * f * f
    if f.width == 32:
        return half - f * (f * f) * polynomial(f, _LOG)
    s = f / (2.0 + f)
    z = s * s
    return half - s * (half + z * polynomial(z, _LOG_RATIO))


def of_positive(x: Number, result: Number, pole: float = 0.0) -> Number:
    """`result` where x is finite and above the logarithm's pole; -inf at the pole, NaN below it, inf at inf."""
    return where((x > pole) & (x < INF), result, where(x == pole, like(x, -INF), where(x > pole, x, NAN)))


@vector
def log(x: Number) -> Number:
    k, f = split(x)
    high, low = choose(x, *LOG2)
    return of_positive(x, multiply_add(k, high, f - (_tail(f) - k * low)))


@vector
def log1p(x: Number) -> Number:
    total = 1.0 + x
    rest = total - x
    lost = (1.0 - rest) + (x - (total - rest))  # the rounding error of the sum, exactly
    k, f = split(total, False)
    high, low = choose(x, *LOG2)
    result = multiply_add(k, high, f - (_tail(f) - multiply_add(k, low, lost / total)))
    return where(total == 1.0, x, of_positive(x, result, -1.0))


def _log_of_base(x: Number, factor: tuple[float, float], unit: tuple[float, float]) -> Number:
    """log(x) * factor, where `unit` is log(2) * factor.

    Both are given as (high, low); k times the high part of `unit` is exact.
    """
    k, f = split(x)
    natural = f - _tail(f)
    small = (
        multiply_add(natural, factor[1], multiply_add(k, unit[1], natural * factor[0]))
        if unit[1]
        else multiply_add(natural, factor[1], natural * factor[0])
    )
    return of_positive(x, multiply_add(k, unit[0], small))


@vector
def log2(x: Number) -> Number:
    return _log_of_base(x, choose(x, (1.442695, 1.9259629911266175e-08), (LOG2E, 2.0355273740931033e-17)), (1.0, 0.0))


@vector
def log10(x: Number) -> Number:
    factor = choose(x, (0.4342944920063019, -1.0103050052231683e-08), (0.4342944819032518, 1.098319650216765e-17))
    return _log_of_base(
        x, factor, choose(x, (0.301025390625, 4.605038981195214e-06), (0.301029995663157, 8.241712586023572e-13))
    )
