"""Softmax along a row, along columns side by side, and along a line in the vectors of `kernel.lines`."""

from __future__ import annotations

from ..registers.primitives import greatest_of_line, lift_line, scale_line, sum_lifted
from ..language import real, uintp
from ..scalar import scalar
from .arithmetic import larger, lifted_exp
from .panels import turn


@scalar
def greatest(x, base, n, step):
    """The greatest of n elements; NaN where there is one."""
    high = x[uintp(base)]
    for k in range(n):
        high = larger(high, x[uintp(base + k * step)])
    return high


@scalar
def sum_of_exp(x, base, n, step, high):
    """exp(x - high), summed."""
    total = real(0.0)
    for k in range(n):
        total += lifted_exp(x[uintp(base + k * step)] - high)
    return total / lifted_exp(real(0.0))


@scalar
def write_softmax(x, out, base, n, step, weight):
    """out = weight * exp(x - max) / sum(exp(x - max))."""
    high = greatest(x, base, n, step)
    total = real(0.0)
    for k in range(n):
        value = lifted_exp(x[uintp(base + k * step)] - high)
        out[uintp(base + k * step)] = value
        total += value
    scale = weight / total
    for k in range(n):
        out[uintp(base + k * step)] *= scale
    return total


@scalar
def first_column(task, tiles, n, inner, columns):
    """Of x (outer, n, inner) and results (outer, inner): where the columns of a task begin in a result and in x, and
    how many they are.
    """
    first = task % tiles * columns
    return task // tiles * inner + first, task // tiles * n * inner + first, min(columns, inner - first)


@scalar
def strips(outer, inner, columns):
    """How many strips of up to `columns` places there are in results (outer, inner); of rows, where inner is 1."""
    return outer * ((inner + columns - 1) // columns) if inner != 1 else (outer + columns - 1) // columns


@scalar
def strip(x, rows, task, outer, n, inner, columns, lanes):
    """Of x (outer, n, inner) and results (outer, inner): where a strip begins in a result and in x, how many places it
    has, and how far apart their elements are. Where inner is 1, rows (size of x) holds the strip afterwards, turned.
    """
    if inner != 1:
        place, base, width = first_column(task, (inner + columns - 1) // columns, n, inner, columns)
        return place, base, width, inner
    place = task * columns
    base, width = place * n, min(columns, outer - place)
    turn(x, base, n, width, n, rows, base, width, lanes)
    return place, base, width, width


@scalar
def turn_back(made, out, base, n, width, inner, lanes):
    """out = the rows of a strip that lies turned in made; nothing where inner is not 1."""
    if inner == 1:
        turn(made, base, width, n, width, out, base, n, lanes)


@scalar
def highest_of_columns(x, base, n, inner, width, highs, place):
    """highs[place:] (width) = the greatest of the n elements of each column, which are `inner` apart; NaN where there
    is one.
    """
    for j in range(width):
        highs[uintp(place + j)] = x[uintp(base + j)]
    for k in range(1, n):
        for j in range(width):
            highs[uintp(place + j)] = larger(highs[uintp(place + j)], x[uintp(base + k * inner + j)])


@scalar
def sum_exp_of_columns(x, base, n, inner, width, highs, totals, place):
    """totals[place:] (width) = exp(x - high), summed over each column."""
    for j in range(width):
        totals[uintp(place + j)] = 0.0
    for k in range(n):
        for j in range(width):
            totals[uintp(place + j)] += lifted_exp(x[uintp(base + k * inner + j)] - highs[uintp(place + j)])
    for j in range(width):
        totals[uintp(place + j)] = totals[uintp(place + j)] / lifted_exp(real(0.0))


@scalar
def exp_of_columns(x, base, n, inner, width, highs, totals, place, out):
    """out = exp(x - high) and totals[place:] (width) their sums over each column, both lifted."""
    for j in range(width):
        totals[uintp(place + j)] = 0.0
    for k in range(n):
        for j in range(width):
            value = lifted_exp(x[uintp(base + k * inner + j)] - highs[uintp(place + j)])
            out[uintp(base + k * inner + j)] = value
            totals[uintp(place + j)] += value


@scalar
def scale_columns(out, base, n, inner, width, factors, place):
    """out *= each column's factor."""
    for k in range(n):
        for j in range(width):
            out[uintp(base + k * inner + j)] *= factors[uintp(place + j)]


@scalar
def greatest_in_line(x, base, n, step):
    """`greatest` where step is 1, of a processor with `kernel.lines`, as the next two; without NaN."""
    return greatest_of_line(x, base, n)


@scalar
def sum_of_exp_in_line(x, base, n, step, high):
    """The same as `sum_of_exp`."""
    return sum_lifted(x, base, n, high) / lifted_exp(real(0.0))


@scalar
def write_softmax_in_line(x, out, base, n, step, weight):
    """The same as `write_softmax`."""
    total = lift_line(x, base, out, base, n, greatest_of_line(x, base, n))
    scale_line(out, base, out, base, n, weight / total)
    return total
