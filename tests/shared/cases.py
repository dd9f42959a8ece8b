"""Cases of `divergences`, `losses` and `two_inputs`: a call beside its exact value by mpmath, and the check of its value and
gradients within bars in ulps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import mpmath as mp
import numpy as np

import numod
from accuracy import slope, ulps


class Case(NamedTuple):
    """`call` of tensors and `exact` of mpmath numbers at `points`; the bars are in ulps of the value and of each
    gradient, for float32 and float64. Inputs in `fixed` have no gradient; `slack` is in ulps of 1, as in
    `accuracy.Row`, and `gradient` is None where there is none.
    """

    call: Callable
    exact: Callable
    points: list | tuple
    value: tuple[float, float] = (8, 8)
    gradient: tuple[float, float] | None = (12, 12)
    fixed: tuple = ()
    slack: float = 0.0


_EXACT: dict = {}


def exact(case: Case, row: tuple) -> list:
    """The value at a point, then the derivatives by those of its coordinates that have one (kept for the next call)."""
    key = (case.exact, row)
    if key not in _EXACT:
        with mp.workdps(120):
            point = [mp.mpf(number) for number in row]
            slopes = [
                slope(lambda x, k=k: case.exact(*point[:k], x, *point[k + 1 :]), point[k])
                for k in range(len(point))
                if case.gradient and k not in case.fixed
            ]
            _EXACT[key] = [case.exact(*point), *slopes]
    return _EXACT[key]


def worst(case: Case, dtype: type) -> tuple[tuple, tuple]:
    """The largest errors of the value and of the gradients: (ulps, point, found, right)."""
    columns = [np.array(column, dtype) for column in zip(*case.points)]
    inputs = [
        numod.tensor(column, requires_grad=case.gradient is not None and k not in case.fixed)
        for k, column in enumerate(columns)
    ]
    actual = case.call(*inputs)
    needed = [x for x in inputs if x.requires_grad]
    gradients = numod.autograd.grad(actual, needed, numod.ones_like(actual)) if needed else []
    errors = []
    for column in (actual, *gradients):
        errors.append([])
        for number, row in zip(column.tolist(), zip(*[column.tolist() for column in columns])):
            right = exact(case, row)[len(errors) - 1]
            slack = case.slack if len(errors) > 1 else 0.0
            errors[-1].append((ulps(number, right, dtype, slack), row, number, float(right)))
    value, *slopes = [max(column) for column in errors]
    return value, max(slopes, default=(0.0, (), 0.0, 0.0))


def check(case: Case, dtype: type) -> None:
    value, gradient = worst(case, dtype)
    assert value[0] <= case.value[dtype is np.float64], value
    assert case.gradient is None or gradient[0] <= case.gradient[dtype is np.float64], gradient
