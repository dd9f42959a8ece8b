"""Entropies whose formulas are differences of large numbers: from `_SERIES_START` on they are series in the reciprocal.

The series are Stirling's for lgamma and digamma, in which the large terms cancel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..core import Tensor, functions as f

_SERIES_START = 16.0  # the first term left out of a series is below 3e-15
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_GAMMA = (0.5, -1 / 3, -1 / 12, -1 / 90, 1 / 120, 1 / 210, -1 / 252, -1 / 210, 1 / 240, 5 / 594, -1 / 132)
_STUDENT = (
    0.5, 1 / 2, 1 / 16, -1 / 48, -1 / 128, 3 / 320, 1 / 256, -17 / 1792, -17 / 4096, 155 / 9216, 31 / 4096,
    -2073 / 45056, -691 / 32768,
)  # fmt: skip


def gamma_entropy(a: Tensor) -> Tensor:
    """The entropy of Gamma(a, 1): a + lgamma(a) + (1 - a) digamma(a)."""
    small, large = a.clamp(max=_SERIES_START), a.clamp(min=_SERIES_START)
    exact = small + small.lgamma() + (1.0 - small) * small.digamma()
    return f.where(a < _SERIES_START, exact, 0.5 * large.log() + (_series(_GAMMA, large) + _HALF_LOG_TWO_PI))


def student_entropy(df: Tensor) -> Tensor:
    """The entropy of Student's t with `df` degrees of freedom and scale 1."""
    half = 0.5 * df
    small, large = half.clamp(max=_SERIES_START), half.clamp(min=_SERIES_START)
    shifted = small + 0.5
    exact = shifted * (shifted.digamma() - small.digamma()) + 0.5 * (2 * small).log()
    exact = exact + (small.lgamma() - shifted.lgamma() + math.lgamma(0.5))
    return f.where(half < _SERIES_START, exact, _series(_STUDENT, large) + _HALF_LOG_TWO_PI)


def _series(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """The polynomial in 1 / x with these coefficients, the constant first."""
    inverse, result = x.reciprocal(), x.new_full((), coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = result * inverse + coefficient
    return result
