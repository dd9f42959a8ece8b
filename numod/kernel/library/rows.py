"""Device functions of norms: sums and moments of rows, with errors that do not grow with the length, and results."""

from __future__ import annotations

from ..language import float64, real, uintp
from ..scalar import scalar


@scalar
def row_sum(x, base, n):
    """The sum of x[base : base + n], in blocks of 512 that are added in float64."""
    total = float64(0)
    for low in range(0, n, 512):
        part = x.dtype.type(0)
        for k in range(low, min(low + 512, n)):
            part += x[uintp(base + k)]
        total += float64(part)
    return total


@scalar
def row_squares(x, base, n):
    """The sum of squares of x[base : base + n], in blocks as in `row_sum`."""
    total = float64(0)
    for low in range(0, n, 512):
        part = x.dtype.type(0)
        for k in range(low, min(low + 512, n)):
            part += x[uintp(base + k)] * x[uintp(base + k)]
        total += float64(part)
    return total


@scalar
def moments(x, base, n, before, mean, squares):
    """Update the mean and the sum of squares about it of `before` elements by x[base : base + n].

    Blocks of 512 are read twice while they are in the first-level cache, and combined by the method of Chan, Golub and
    LeVeque (1983).
    """
    for low in range(0, n, 512):
        high = min(low + 512, n)
        total = x.dtype.type(0)
        for k in range(low, high):
            total += x[uintp(base + k)]
        count = float64(high - low)
        block_mean = float64(total) / count
        rounded_mean = real(block_mean)
        block_squares = x.dtype.type(0)
        for k in range(low, high):
            block_squares += (x[uintp(base + k)] - rounded_mean) * (x[uintp(base + k)] - rounded_mean)
        difference = block_mean - mean
        share = count / (before + count)
        squares += float64(block_squares) + difference * (difference * before * share)
        mean += difference * share
        before += count
    return mean, squares


@scalar
def write_scaled(x, out, base, n, middle, scale, shift):
    """out = (x - middle) * scale + shift, from `base` on. A function, so that LLVM vectorises the loop everywhere."""
    for k in range(n):
        out[uintp(base + k)] = (x[uintp(base + k)] - middle) * scale + shift


@scalar
def gradient_sums(g, x, base, n, middle):
    """The sums of g and of g * (x - middle), in blocks as in `row_sum`."""
    first = float64(0)
    second = float64(0)
    for low in range(0, n, 512):
        a = x.dtype.type(0)
        b = x.dtype.type(0)
        for k in range(low, min(low + 512, n)):
            a += g[uintp(base + k)]
            b += g[uintp(base + k)] * (x[uintp(base + k)] - middle)
        first += float64(a)
        second += float64(b)
    return first, second


@scalar
def write_gradients(g, x, out, base, n, middle, factor, scale, level, slope):
    """out = scale * (g * factor - level - (x - middle) * slope), from `base` on: the input's gradient of a norm.

    `level` is the mean of g * factor, `slope` the mean of g * factor * (x - middle) divided by the variance.
    """
    for k in range(n):
        out[uintp(base + k)] = scale * (g[uintp(base + k)] * factor - level - (x[uintp(base + k)] - middle) * slope)
