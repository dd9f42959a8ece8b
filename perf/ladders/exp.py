"""exp of 64 k floats: from the C library's to a polynomial without branches."""

from __future__ import annotations

import numpy as np

from . import Ladder, Version, compiled, into

COUNT = 1 << 16
SIGNATURE = "float32[], float32[], int64"


def calls(x, out, n):
    """A call for each element."""
    for i in range(n):
        out[uintp(i)] = exp(x[uintp(i)])


def polynomial(x, out, n):
    """x = k log 2 + r, exp(x) = 2^k exp(r): a polynomial of r, and k put into a float's exponent."""
    for i in range(n):
        k = floor(x[uintp(i)] * 1.4426950408889634 + 0.5)
        r = x[uintp(i)] - k * 0.6931471805599453
        p = 1.0 + r * (1.0 + r * (0.5 + r * (0.16666667 + r * (0.041666668 + r * (0.008333334 + r * 0.0013888889)))))
        out[uintp(i)] = p * float_of_bits32(uint32(int32(k) + int32(127)) << uint32(23))


def rounded_by_addition(x, out, n):
    """To add 1.5 * 2^23 rounds to a whole number, which then stands in the low bits; log 2 in two parts keeps r exact."""
    for i in range(n):
        moved = x[uintp(i)] * 1.4426950408889634 + 12582912.0
        k = moved - 12582912.0
        r = (x[uintp(i)] - k * 0.693359375) + k * 2.12194440e-4
        p = 0.041666456 + r * (0.008369233 + r * 0.0013935765)
        p = (r * r) * (0.5 + r * (0.16666515 + r * p)) + r
        out[uintp(i)] = (p + 1.0) * float_of_bits32(uint32((bits32(moved) + uint32(127)) << uint32(23)))


def ladder() -> Ladder:
    """From the C library's function to numod's, NumPy's beside it."""
    import numod

    x = np.random.default_rng(0).uniform(-20.0, 2.0, COUNT).astype(np.float32)
    out, tensor = np.empty_like(x), numod.tensor(x)
    return Ladder(f"exp of {COUNT} floats", np.exp(x.astype(np.float64)), 1e-6, [
        Version("1 the C library's", "a call for each element, with branches",
            into(compiled(calls, SIGNATURE, library="from math import exp"), out, x, COUNT)),
        Version("2 a polynomial", "no calls, no branches: LLVM makes vectors of it",
            into(compiled(polynomial, SIGNATURE, library="from numpy import floor"), out, x, COUNT)),
        Version("3 rounded by an addition", "no conversion to an integer and back; one polynomial coefficient less",
            into(compiled(rounded_by_addition, SIGNATURE), out, x, COUNT)),
        Version("4 numod", "the whole range, subnormals, infinities and NaN, in explicit fused operations",
            lambda: tensor.exp()),
        Version("  NumPy", "", lambda: np.exp(x, out=out)),
    ], COUNT, 8 * COUNT)  # fmt: skip
