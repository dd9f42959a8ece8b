"""Orthogonal polynomials of `numod.special` by three-term recurrences (Abramowitz and Stegun, 22.7), and the spherical
Bessel function.
"""

from __future__ import annotations

from collections.abc import Callable

from ... import dtypes
from ...ops import table as t
from .arithmetic import result_type
from ..convert.copies import to
from .outputs import write_result
from .reductions import amax
from .. import row_texts
from ..tensor import Tensor
from ..create.values import as_tensor


def _polynomial(name: str, first: Callable, following: Callable, map_argument: Callable = lambda x: x) -> Callable:
    """The polynomials p with p[0] = 1, p[1] = first(x) and p[k + 1] = following(k, x, p[k], p[k - 1])."""

    def polynomial(input: Tensor | float, n: Tensor | int, *, out: Tensor | None = None) -> Tensor:
        x, degree = _operands(input, n)
        x = map_argument(x)
        before, value = x.new_ones(()), first(x)
        result = t.where(degree < 1, (degree == 0).to(x.dtype), value)
        for k in range(1, int(amax(degree)._observe()) if degree.numel() else 0):
            before, value = value, following(k, x, value, before)
            result = t.where(degree > k, value, result)
        return result if out is None else write_result(name, result, out)

    polynomial.__name__ = polynomial.__qualname__ = name
    polynomial.__doc__ = row_texts.text(name, 2)
    return polynomial


def _operands(input: Tensor | float, n: Tensor | int) -> tuple[Tensor, Tensor]:
    """Both as tensors: the argument in the floating dtype of the result, the degree as an integer."""
    dtype = result_type(input, n)
    x = as_tensor(input)
    degree = as_tensor(n, device=x.device)
    return to(x, dtype if dtype.is_floating_point else dtypes.get_default_dtype()), to(degree, dtypes.int64)


def _chebyshev(k: int, x: Tensor, value: Tensor, before: Tensor) -> Tensor:
    return 2.0 * x * value - before


def _twice_less_one(x: Tensor) -> Tensor:
    return 2.0 * x - 1.0


_CHEBYSHEV = {"t": lambda x: x, "u": lambda x: 2.0 * x, "v": lambda x: 2.0 * x - 1.0, "w": lambda x: 2.0 * x + 1.0}
POLYNOMIALS = {
    function.__name__: function for function in (
        *(_polynomial(f"chebyshev_polynomial_{kind}", first, _chebyshev) for kind, first in _CHEBYSHEV.items()),
        *(_polynomial(f"shifted_chebyshev_polynomial_{kind}", first, _chebyshev, _twice_less_one) for kind,
            first in _CHEBYSHEV.items()),
        _polynomial("hermite_polynomial_h", lambda x: 2.0 * x, lambda k, x, value,
            before: 2.0 * x * value - 2.0 * k * before),
        _polynomial("hermite_polynomial_he", lambda x: x, lambda k, x, value, before: x * value - k * before),
        _polynomial("laguerre_polynomial_l", lambda x: 1.0 - x, lambda k, x, value,
            before: ((2 * k + 1 - x) * value - k * before) / (k + 1)),
        _polynomial("legendre_polynomial_p", lambda x: x, lambda k, x, value,
            before: ((2 * k + 1) * x * value - k * before) / (k + 1)),
    )
}  # fmt: skip


def spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin(x) / x; 1 at 0, and 0 at infinity.

    Example:

        >>> torch.special.spherical_bessel_j0(torch.tensor([0.0, 1.0]))
        tensor([1.0000, 0.8415])
    """
    dtype = input.dtype if input.is_floating_point() else dtypes.get_default_dtype()
    x = to(input, dtype.compute)
    near = t.abs(x) < 1
    square = t.square(t.where(near, x, 0.0))
    series = 1.0 - square / 272.0
    for k in range(7, 0, -1):  # Taylor's series, since the derivative of sin(x) / x cancels near 0
        series = 1.0 - square * series / (2.0 * k * (2 * k + 1))
    is_infinite = t.isinf(x)
    far = t.where(near | is_infinite, 1.0, x)
    result = to(t.where(near, series, t.where(is_infinite, 0.0, t.sin(far) / far)), dtype)
    return result if out is None else write_result("special_spherical_bessel_j0", result, out)
