"""Python's `math` with GPU semantics, for Numba's simulator: an infinity or NaN where `math` raises."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

_NUMPY = {"pow": "power", "acosh": "arccosh", "atanh": "arctanh", "acos": "arccos", "asin": "arcsin"}


def _forgiving(function: Callable, name: str) -> Callable:
    @functools.wraps(function)
    def call(*arguments: float) -> float:
        try:
            return function(*arguments)
        except (ValueError, OverflowError):
            if not hasattr(np, _NUMPY.get(name, name)):
                return math.inf  # lgamma at its poles
            with np.errstate(all="ignore"):
                return float(getattr(np, _NUMPY.get(name, name))(*map(np.float64, arguments)))

    return call


globals().update(
    {
        name: _forgiving(function, name)
        for name, function in vars(math).items()
        if callable(function) and not name.startswith("_")
    }
)
