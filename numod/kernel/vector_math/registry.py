"""The table of vectorised formulas by the name of the `math` function that they replace, and two ways to add one."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ..branches import branching
from ..instructions import Number, narrowed, widened

formulas: dict[str, Callable] = {}


def vector(formula: Callable) -> Callable:
    """Let kernels use this function instead of the `math` function of its name."""
    formulas[formula.__name__] = formula
    return formula


def wide_vector(formula: Callable) -> Callable:
    """`vector` for a formula of float64, which may branch; float32 arguments are converted to float64 for it."""
    inside = branching(64)(formula)

    @vector
    @functools.wraps(formula)
    def either(x: Number) -> Number:
        return inside(x) if x.width == 64 else narrowed(inside(widened(x)))

    return either
