"""The standard's functions of elements. Most are numod's."""

from __future__ import annotations

from typing import Any

import numod

from .. import (
    Tensor, abs, acos, acosh, add, asin, asinh, atan, atan2, atanh, bitwise_and, bitwise_left_shift, bitwise_or,
    bitwise_right_shift, bitwise_xor, ceil, copysign, cos, cosh, divide, exp, expm1, floor, floor_divide, greater,
    greater_equal, hypot, isfinite, isinf, isnan, less, less_equal, log, log1p, log2, log10, logaddexp, logical_and,
    logical_not, logical_or, logical_xor, maximum, minimum, multiply, negative, not_equal, positive, pow, real,
    reciprocal, remainder, round, signbit, sin, sinh, sqrt, square, subtract, tan, tanh, trunc,
)  # fmt: skip
from .. import bitwise_not as bitwise_invert, eq as equal, imag
from .. import nextafter

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign", "cos",
    "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot", "imag",
    "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal",
    "positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square",
    "subtract", "tan", "tanh", "trunc",
]  # fmt: skip


def conj(x: Tensor, /) -> Tensor:
    """The complex conjugate."""
    return numod.conj(x)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1, NaN for NaN; of a complex number x / |x|."""
    if x.is_complex():
        return numod.sgn(x)
    return numod.where(numod.isnan(x), x, numod.sign(x)) if x.is_floating_point() else numod.sign(x)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """The elements limited to [min, max], in x's dtype; NaN where a limit is NaN."""
    if min is None and max is None:
        return x.clone()
    limits = [limit.to(x.dtype) if isinstance(limit, Tensor) else limit for limit in (min, max)]
    if any(isinstance(limit, Tensor) for limit in limits):
        limits = [
            numod.asarray(limit, dtype=x.dtype, device=x.device) if limit is not None else None for limit in limits
        ]
    return numod.clip(x, *limits).to(x.dtype)
