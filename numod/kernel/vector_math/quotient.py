"""Remainders and floored quotients, rounding, and the greater or lesser of two, which the vectoriser recognises as
reductions.
"""

from __future__ import annotations

from ..branches import branching, while_any
from ..instructions import NAN, Number, absolute, choose, library, like, where, with_sign
from .registry import vector


def _rounded(name: str, x: Number) -> Number:
    """x rounded to an integer by LLVM's intrinsic `name`.

    Adding 0 keeps LLVM from rounding a float16 before it widens it: processors cannot do that, and the loop would stay
    scalar. The sum turns -0 into 0, so the sign of x is restored. (`llvm.canonicalize` instead of the addition ends the
    process on x86 where a loop is vectorised by two.)
    """
    return with_sign(library(name, x + 0.0), x) if x.width == 32 else library(name, x)


@vector
def floor(x: Number) -> Number:
    return _rounded("floor", x)


@vector
def ceil(x: Number) -> Number:
    return _rounded("ceil", x)


@vector
def trunc(x: Number) -> Number:
    return _rounded("trunc", x)


@vector
def round_even(x: Number) -> Number:
    return _rounded("rint", x)


def _remainder(x: Number, y: Number) -> Number:
    """The exact remainder of x / y for y > 0, with the sign of x.

    Long division: the quotient of each step is exact, so nothing is rounded.
    """
    scale = choose(x, 2.0**100, 2.0**700)
    large, huge = y * scale, y * scale * scale

    def subtract_multiple(rest: Number) -> list[Number]:
        size = absolute(rest)
        divisor = where(size >= huge, huge, where(size >= large, large, y))  # else the quotient may overflow
        return [library("fma", -library("trunc", rest / divisor), divisor, rest)]

    (rest,) = while_any([where(y == y, absolute(x), NAN)], lambda rest: absolute(rest) >= y, subtract_multiple)
    return with_sign(where(rest < 0.0, rest + y, rest), x)


@vector
@branching(32, 64)
def fmod(x: Number, y: Number) -> Number:
    return _remainder(x, absolute(y))


@vector
@branching(32, 64)
def modulus(x: Number, y: Number) -> Number:
    remainder = fmod(x, y)
    return where((remainder != 0.0) & ((y < 0.0) ^ (remainder < 0.0)), remainder + y, remainder)


@vector
@branching(32, 64)
def floor_quotient(x: Number, y: Number) -> Number:
    remainder = fmod(x, y)
    quotient = (x - remainder) / y
    quotient = where((remainder != 0.0) & ((y < 0.0) ^ (remainder < 0.0)), quotient - 1.0, quotient)
    floored = library("floor", quotient)
    floored = where(quotient - floored > 0.5, floored + 1.0, floored)
    ratio = x / y
    return where(y == 0.0, ratio, where(quotient == 0.0, with_sign(like(x, 0.0), ratio), floored))


@vector
def larger(x: Number, y: Number) -> Number:
    return library("maximum", x, y)


@vector
def smaller(x: Number, y: Number) -> Number:
    return library("minimum", x, y)
