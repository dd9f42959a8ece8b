"""Softmax of 256 rows of 1000 floats: fewer exponentials, and those as vectors."""

from __future__ import annotations

import numpy as np

from . import Ladder, Version, compiled, into

ROWS, COUNT = 256, 1000
SIGNATURE = "float32[], float32[], int64, int64"


def as_defined(x, out, rows, n):
    """Greatest, sum of exponentials, then each exponential again over the sum."""
    for row in range(rows):
        high = x[uintp(row * n)]
        for k in range(n):
            high = max(high, x[uintp(row * n + k)])
        total = 0.0
        for k in range(n):
            total += exp(x[uintp(row * n + k)] - high)
        for k in range(n):
            out[uintp(row * n + k)] = exp(x[uintp(row * n + k)] - high) / total


def stored_exponentials(x, out, rows, n):
    """Exponentials are written where the result will stand."""
    for row in range(rows):
        high = x[uintp(row * n)]
        for k in range(n):
            high = max(high, x[uintp(row * n + k)])
        total = 0.0
        for k in range(n):
            out[uintp(row * n + k)] = exp(x[uintp(row * n + k)] - high)
            total += out[uintp(row * n + k)]
        for k in range(n):
            out[uintp(row * n + k)] = out[uintp(row * n + k)] / total


def apart(x, out, rows, n):
    """The exponentials have a loop of their own, and so has the sum: neither keeps the other from being vectors."""
    for row in range(rows):
        high = x[uintp(row * n)]
        for k in range(n):
            high = max(high, x[uintp(row * n + k)])
        for k in range(n):
            out[uintp(row * n + k)] = exp(x[uintp(row * n + k)] - high)
        total = 0.0
        for k in range(n):
            total += out[uintp(row * n + k)]
        scale = 1.0 / total
        for k in range(n):
            out[uintp(row * n + k)] *= scale


def ladder() -> Ladder:
    """From the definition to numod's."""
    import numod

    x = np.random.default_rng(0).standard_normal((ROWS, COUNT), np.float32)
    exponentials = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    out, tensor, flat = np.empty(x.size, np.float32), numod.tensor(x), x.ravel()
    library, sizes = "from math import exp", (ROWS, COUNT)
    return Ladder(f"softmax of {ROWS}×{COUNT} floats", exponentials / exponentials.sum(1, keepdims=True), 2e-6, [
        Version("1 as it is defined", "two exponentials for each element, by the C library",
            into(compiled(as_defined, SIGNATURE, library=library), out, flat, *sizes)),
        Version("2 exponentials are kept", "one for each element",
            into(compiled(stored_exponentials, SIGNATURE, library=library), out, flat, *sizes)),
        Version("3 exp as a polynomial", "our own exp", into(compiled(stored_exponentials, SIGNATURE), out, flat, *sizes)),
        Version("4 a loop for each", "exponentials are vectors; a product in the place of the quotient",
            into(compiled(apart, SIGNATURE), out, flat, *sizes)),
        Version("5 sums may be reordered", "partial sums side by side: the sum is vectors as well",
            into(compiled(apart, SIGNATURE, fast=True), out, flat, *sizes)),
        Version("6 numod", "the greatest by several at once; any axis, any thread", lambda: tensor.softmax(1)),
    ], 4 * x.size, 8 * x.size)  # fmt: skip
