"""Rows of norms: their sums and moments with errors that do not grow with the length, and what is written with them."""

from __future__ import annotations

from ..language import float64, real, uintp
from ..scalar import scalar


@scalar
def row_sum(x, base, n):
    """The sum of x[base : base + n], in blocks of 512 that join a float64: the error does not grow with n."""
    total = float64(0)
    for low in range(0, n, 512):
        part = x.dtype.type(0)
        for k in range(low, min(low + 512, n)):
            part += x[uintp(base + k)]
        total += float64(part)
    return total


@scalar
def row_squares(x, base, n):
    """The sum of their squares, likewise."""
    total = float64(0)
    for low in range(0, n, 512):
        part = x.dtype.type(0)
        for k in range(low, min(low + 512, n)):
            part += x[uintp(base + k)] * x[uintp(base + k)]
        total += float64(part)
    return total


@scalar
def moments(x, base, n, before, mean, squares):
    """Of `before` elements and x[base : base + n] together: their mean, and the sum of their squares about it, from
    those of the former.

    Blocks of 512 are read twice while they are in the nearest cache, and join as Chan, Golub and LeVeque do (1983):
    longer rows are read once.
    """
    for low in range(0, n, 512):
        high = min(low + 512, n)
        part = x.dtype.type(0)
        for k in range(low, high):
            part += x[uintp(base + k)]
        count = float64(high - low)
        level = float64(part) / count
        middle = real(level)
        rest = x.dtype.type(0)
        for k in range(low, high):
            rest += (x[uintp(base + k)] - middle) * (x[uintp(base + k)] - middle)
        apart = level - mean
        share = count / (before + count)
        squares += float64(rest) + apart * (apart * before * share)
        mean += apart * share
        before += count
    return mean, squares


@scalar
def write_scaled(x, out, base, n, middle, scale, shift):
    """out = (x - middle) * scale + shift, from `base` on: a loop of its own is vectorised whatever stands around it."""
    for k in range(n):
        out[uintp(base + k)] = (x[uintp(base + k)] - middle) * scale + shift


@scalar
def slope_sums(g, x, base, n, middle):
    """The sums of g and of g * (x - middle), in blocks as in row_sum."""
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
def write_slopes(g, x, out, base, n, middle, factor, scale, level, slope):
    """out = scale * (g * factor - level - (x - middle) * slope), likewise a loop of its own."""
    for k in range(n):
        out[uintp(base + k)] = scale * (g[uintp(base + k)] * factor - level - (x[uintp(base + k)] - middle) * slope)
