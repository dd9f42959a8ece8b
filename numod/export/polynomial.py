"""Polynomials of sizes: integers of a program as functions of its dynamic dimensions.

A fit uses more points than the polynomial has coefficients, so each fit is also checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import prod

Terms = tuple[tuple[int, tuple[int, ...]], ...]  # (coefficient, exponents of the symbols) for each term
MAX_EXPONENT = 2


def constant(number: int, symbols: int) -> Terms:
    """A constant polynomial."""
    return ((number, (0,) * symbols),)


def value(terms: Terms, point: Sequence[int]) -> int:
    """The polynomial's value."""
    return sum(
        coefficient * prod(size**exponent for size, exponent in zip(point, exponents))
        for coefficient, exponents in terms
    )


def fit(points: Sequence[tuple[int, ...]], values: Sequence[int]) -> Terms | None:
    """The simplest polynomial with integer coefficients through these points; None if there is none.

    Only polynomials with fewer coefficients than points are tried.
    """
    for exponents in _bases(len(points[0])):
        if len(exponents) >= len(points):
            return None
        rows = [
            [Fraction(prod(size**power for size, power in zip(point, powers))) for powers in exponents]
            for point in points
        ]
        solution = _solve(rows, [Fraction(value) for value in values])
        if solution is not None and all(coefficient.denominator == 1 for coefficient in solution):
            return tuple([(int(c), powers) for c, powers in zip(solution, exponents) if c]) or constant(
                0, len(points[0])
            )
    return None


def text(terms: Terms, names: Sequence[str]) -> str:
    """The polynomial as an expression that is valid in Python and in C."""
    parts = []
    for coefficient, exponents in terms:
        factors = [name for name, exponent in zip(names, exponents) for _ in range(exponent)]
        factors = factors if coefficient == 1 and factors else [str(coefficient), *factors]
        parts.append("*".join(factors))
    return " + ".join(parts).replace("+ -", "- ")


def _bases(symbols: int) -> Iterator[list[tuple[int, ...]]]:
    """Lists of exponents, the simplest first: a constant, one symbol, sums, products, squares."""
    powers_by_degree = sorted(
        product(range(MAX_EXPONENT + 1), repeat=symbols), key=lambda powers: (sum(powers), max(powers))
    )
    zero = (0,) * symbols
    yield [zero]
    for powers in powers_by_degree[1:]:
        yield [powers]
    for powers in powers_by_degree[1:]:
        yield [zero, powers]
    yield [powers for powers in powers_by_degree if sum(powers) <= 1]
    yield [powers for powers in powers_by_degree if max(powers) <= 1]
    yield powers_by_degree


def _solve(rows: list[list[Fraction]], values: list[Fraction]) -> list[Fraction] | None:
    """The solution of an overdetermined linear system; None if the equations contradict."""
    table, unknowns = [[*row, value] for row, value in zip(rows, values)], len(rows[0])
    for column in range(unknowns):
        pivot = next((k for k in range(column, len(table)) if table[k][column]), None)
        if pivot is None:
            return None
        table[column], table[pivot] = table[pivot], table[column]
        table[column] = [entry / table[column][column] for entry in table[column]]
        for k, row in enumerate(table):
            if k != column and row[column]:
                table[k] = [entry - row[column] * first for entry, first in zip(row, table[column])]
    if any(row[-1] for row in table[unknowns:]):
        return None
    return [row[-1] for row in table[:unknowns]]
