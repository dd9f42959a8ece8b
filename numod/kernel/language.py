"""What kernels may call, besides `math` and the functions of `kernel.scalar`: for tools, for readers, and as values of
compile-time parameters.

A kernel's source names these; the back end provides what they compile to. The bodies here say what they do, in plain
Python, so that a kernel can be stepped through in a debugger.
"""

from __future__ import annotations


def greater(a, b):
    """a > b"""
    return a > b


def greater_or_equal(a, b):
    """a >= b"""
    return a >= b


def less(a, b):
    """a < b"""
    return a < b


def less_or_equal(a, b):
    """a <= b"""
    return a <= b


def greatest_in_row(x, first, n):
    """The place, counted from `first`, of the first greatest of n elements of x; of the first NaN where there is
    one.
    """
    return _first(x, first, n, greater)


def least_in_row(x, first, n):
    """The place, counted from `first`, of the first least of n elements of x; of the first NaN where there is one."""
    return _first(x, first, n, less)


def greatest_in_columns(x, first, step, n, line, values, values_at, where, where_at, columns):
    """Update the first greatest value of each column, and its line, by n lines of x, `step` apart, the first of which
    is number `line`.
    """
    _update(x, first, step, n, line, values, values_at, where, where_at, columns, greater)


def least_in_columns(x, first, step, n, line, values, values_at, where, where_at, columns):
    """Update the first least value of each column, and its line, by n lines of x, `step` apart, the first of which is
    number `line`.
    """
    _update(x, first, step, n, line, values, values_at, where, where_at, columns, less)


# a kernel's source calls these by name
EMITTED = frozenset({greatest_in_row, least_in_row, greatest_in_columns, least_in_columns})


def _first(x, first, n, beats):
    best = 0
    for k in range(1, n):
        if _better(x[first + k], x[first + best], beats):
            best = k
    return best


def _update(x, first, step, n, line, values, values_at, where, where_at, columns, beats):
    for k in range(n):
        for c in range(columns):
            if _better(x[first + k * step + c], values[values_at + c], beats):
                values[values_at + c], where[where_at + c] = x[first + k * step + c], line + k


def _better(value, best, beats):
    return beats(value, best) or (value != value and best == best)
