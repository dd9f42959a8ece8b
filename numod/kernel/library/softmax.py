"""Device functions of softmax: along a row with any step, along adjacent columns, and along a contiguous row."""

from __future__ import annotations

from ..registers.primitives.attention import greatest_of_line, lift_line, scale_line, sum_lifted
from ..language import real, uintp
from ..scalar import scalar
from .arithmetic import larger, lifted_exp
from .panels import transpose


@scalar
def greatest(x, base, n, step):
    """The maximum of n elements; NaN if one is NaN."""
    high = x[uintp(base)]
    for k in range(n):
        high = larger(high, x[uintp(base + k * step)])
    return high


@scalar
def sum_of_exp(x, base, n, step, high):
    """The sum of exp(x - high)."""
    total = real(0.0)
    for k in range(n):
        total += lifted_exp(x[uintp(base + k * step)] - high)
    return total / lifted_exp(real(0.0))


@scalar
def write_softmax(x, out, base, n, step, weight):
    """out = weight * exp(x - max) / sum(exp(x - max)). Returns the sum, scaled (see `lifted_exp`)."""
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
    """The columns of a task: (first index in a result, first index in x, number of columns).

    x is (outer, n, inner), results are (outer, inner).
    """
    first = task % tiles * columns
    return task // tiles * inner + first, task // tiles * n * inner + first, min(columns, inner - first)


@scalar
def strips(outer, inner, columns):
    """The number of strips of up to `columns` columns of results (outer, inner)."""
    return outer * ((inner + columns - 1) // columns) if inner != 1 else (outer + columns - 1) // columns


@scalar
def strip(x, rows, task, outer, n, inner, columns, lanes):
    """A strip of columns: (first index in a result, first index in x, number of columns, distance of the n elements).

    x is (outer, n, inner), results are (outer, inner). If inner is 1, the strip is transposed into rows (of the size of
    x).
    """
    if inner != 1:
        column, base, width = first_column(task, (inner + columns - 1) // columns, n, inner, columns)
        return column, base, width, inner
    column = task * columns
    base, width = column * n, min(columns, outer - column)
    transpose(x, base, n, width, n, rows, base, width, lanes)
    return column, base, width, width


@scalar
def transpose_back(results, out, base, n, width, inner, lanes):
    """Transpose the results of a strip into out if inner is 1; otherwise they are in out already."""
    if inner == 1:
        transpose(results, base, width, n, width, out, base, n, lanes)


@scalar
def highest_of_columns(x, base, n, inner, width, highs, column):
    """highs[column:] (width) = the maximum of each column of n elements, `inner` apart; NaN if one is NaN."""
    for j in range(width):
        highs[uintp(column + j)] = x[uintp(base + j)]
    for k in range(1, n):
        for j in range(width):
            highs[uintp(column + j)] = larger(highs[uintp(column + j)], x[uintp(base + k * inner + j)])


@scalar
def sum_exp_of_columns(x, base, n, inner, width, highs, totals, column):
    """totals[column:] (width) = the sum of exp(x - high) over each column."""
    for j in range(width):
        totals[uintp(column + j)] = 0.0
    for k in range(n):
        for j in range(width):
            totals[uintp(column + j)] += lifted_exp(x[uintp(base + k * inner + j)] - highs[uintp(column + j)])
    for j in range(width):
        totals[uintp(column + j)] = totals[uintp(column + j)] / lifted_exp(real(0.0))


@scalar
def exp_of_columns(x, base, n, inner, width, highs, totals, column, out):
    """out = exp(x - high), and totals[column:] (width) = its sums over each column, both scaled (see `lifted_exp`)."""
    for j in range(width):
        totals[uintp(column + j)] = 0.0
    for k in range(n):
        for j in range(width):
            value = lifted_exp(x[uintp(base + k * inner + j)] - highs[uintp(column + j)])
            out[uintp(base + k * inner + j)] = value
            totals[uintp(column + j)] += value


@scalar
def scale_columns(out, base, n, inner, width, factors, column):
    """Multiply each column of out by its factor."""
    for k in range(n):
        for j in range(width):
            out[uintp(base + k * inner + j)] *= factors[uintp(column + j)]


@scalar
def greatest_in_line(x, base, n, step):
    """`greatest` of a contiguous row, by vectors (`kernel.lines`); ignores NaN."""
    return greatest_of_line(x, base, n)


@scalar
def sum_of_exp_in_line(x, base, n, step, high):
    """`sum_of_exp` of a contiguous row, by vectors."""
    return sum_lifted(x, base, n, high) / lifted_exp(real(0.0))


@scalar
def write_softmax_in_line(x, out, base, n, step, weight):
    """`write_softmax` of a contiguous row, by vectors."""
    total = lift_line(x, base, out, base, n, greatest_of_line(x, base, n))
    scale_line(out, base, out, base, n, weight / total)
    return total
