"""Elementary and special functions for the loop vectoriser: branch-free polynomials in float32 and float64, for the
CPU. CUDA has its own library's.

Every function but `lifted_exp` covers its whole range: subnormal arguments and results, zeros with their sign,
infinities and NaN. Coefficients are near-minimax fits; each is rounded in turn and the remaining ones are fitted again.
The methods are those of Cody and Waite, Software Manual for the Elementary Functions, 1980.
"""

from __future__ import annotations

from . import bessel, error_function, exponential, gamma, inverse, logarithm, power, quotient, registry, trigonometric
from .registry import formulas

MODULES = (bessel, error_function, exponential, gamma, inverse, logarithm, power, quotient, registry, trigonometric)

__all__ = ["MODULES", "formulas"]
