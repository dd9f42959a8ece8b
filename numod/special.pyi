# Written by tests/stubs.py: signatures of what tables add to this module at import.
from builtins import bool as _bool, complex as _complex, float as _float, int as _int
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from .device.layout import Size as _Size
from .device.device import Device as _device
from .dtypes import dtype as _dtype
from .formats import layout as _layout, memory_format as _memory_format
from .core.tensor import Tensor

@overload
def airy_ai(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Airy function Ai."""
@overload
def airy_ai(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Airy function Ai."""
def bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Bessel function of the first kind, order 0."""
def bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Bessel function of the first kind, order 1."""
def bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Bessel function of the second kind, order 0; minus infinity at 0."""
def bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Bessel function of the second kind, order 1; minus infinity at 0."""
@overload
def chebyshev_polynomial_t(input: Tensor, n: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomial of the first kind, T_n(input)."""
@overload
def chebyshev_polynomial_t(x: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomial of the first kind, T_n(input)."""
@overload
def chebyshev_polynomial_u(input: Tensor, n: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomial of the second kind, U_n(input)."""
@overload
def chebyshev_polynomial_u(x: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomial of the second kind, U_n(input)."""
@overload
def chebyshev_polynomial_v(input: Tensor, n: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomial of the third kind, V_n(input)."""
@overload
def chebyshev_polynomial_v(x: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomial of the third kind, V_n(input)."""
@overload
def chebyshev_polynomial_w(input: Tensor, n: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomial of the fourth kind, W_n(input)."""
@overload
def chebyshev_polynomial_w(x: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomial of the fourth kind, W_n(input)."""
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Digamma function: the derivative of `lgamma`."""
def entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Entropy of each element, -x log(x): 0 at 0, minus infinity below."""
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0."""
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complementary error function, 1 - erf(input), accurate for large elements."""
def erfcx(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Scaled complementary error function, exp(x**2) erfc(x)."""
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse of `erf` on (-1, 1); infinite at -1 and 1."""
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """2 to the power of each element."""
def expit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logistic sigmoid, 1 / (1 + exp(-input))."""
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(input) - 1, accurate near 0."""
def gammainc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Regularised lower incomplete gamma function P(input, other). There is no gradient for `input`."""
def gammaincc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Regularised upper incomplete gamma function Q(input, other) = 1 - P(input, other)."""
def gammaln(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the absolute value of the gamma function."""
@overload
def hermite_polynomial_h(input: Tensor, n: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Physicists' Hermite polynomial, H_n(input)."""
@overload
def hermite_polynomial_h(x: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Physicists' Hermite polynomial, H_n(input)."""
@overload
def hermite_polynomial_he(input: Tensor, n: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Probabilists' Hermite polynomial, He_n(input)."""
@overload
def hermite_polynomial_he(x: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Probabilists' Hermite polynomial, He_n(input)."""
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Modified Bessel function of the first kind, order 0."""
def i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Exponentially scaled Bessel function, exp(-abs(x)) i0(x)."""
def i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Modified Bessel function of the first kind, order 1."""
def i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Exponentially scaled Bessel function, exp(-abs(x)) i1(x)."""
@overload
def laguerre_polynomial_l(input: Tensor, n: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Laguerre polynomial, L_n(input)."""
@overload
def laguerre_polynomial_l(x: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Laguerre polynomial, L_n(input)."""
@overload
def legendre_polynomial_p(input: Tensor, n: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Legendre polynomial, P_n(input)."""
@overload
def legendre_polynomial_p(x: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Legendre polynomial, P_n(input)."""
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(1 + input), accurate near 0."""
def log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of `ndtr`, accurate where that is nearly 0."""
def log_softmax(input: Tensor, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
    """log(softmax(x)) along a dimension, computed directly."""
def logit(input: Tensor, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(x / (1 - x)), x kept within [eps, 1 - eps] where eps is given."""
def logsumexp(input: Tensor, dim: _int | Sequence[_int], keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """log(sum(exp(x))) over dimensions, shifted by the maximum so that nothing overflows."""
def modified_bessel_i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Modified Bessel function of the first kind, order 0."""
def modified_bessel_i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Modified Bessel function of the first kind, order 1."""
def modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Modified Bessel function of the second kind, order 0; infinite at 0."""
def modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Modified Bessel function of the second kind, order 1; infinite at 0."""
def multigammaln(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the multivariate gamma function of dimension p: log gamma(x - k / 2) summed over k < p, and p (p - 1) / 4 * log(pi)."""
def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Distribution function of the standard normal distribution."""
def ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Quantile of the standard normal distribution, the inverse of `ndtr`."""
def polygamma(n: _int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma, element by element."""
def psi(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Digamma function: the derivative of `lgamma`."""
def round(input: Tensor, *, decimals: _int = 0, out: Tensor | None = None) -> Tensor:
    """Nearest integer (or multiple of 10^-decimals), halves to even."""
@overload
def scaled_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Exponentially scaled Bessel function, exp(x) modified_bessel_k0(x)."""
@overload
def scaled_modified_bessel_k0(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Exponentially scaled Bessel function, exp(x) modified_bessel_k0(x)."""
@overload
def scaled_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Exponentially scaled Bessel function, exp(x) modified_bessel_k1(x)."""
@overload
def scaled_modified_bessel_k1(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Exponentially scaled Bessel function, exp(x) modified_bessel_k1(x)."""
@overload
def shifted_chebyshev_polynomial_t(input: Tensor, n: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Shifted Chebyshev polynomial of the first kind, T_n(2 input - 1)."""
@overload
def shifted_chebyshev_polynomial_t(x: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Shifted Chebyshev polynomial of the first kind, T_n(2 input - 1)."""
@overload
def shifted_chebyshev_polynomial_u(input: Tensor, n: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Shifted Chebyshev polynomial of the second kind, U_n(2 input - 1)."""
@overload
def shifted_chebyshev_polynomial_u(x: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Shifted Chebyshev polynomial of the second kind, U_n(2 input - 1)."""
@overload
def shifted_chebyshev_polynomial_v(input: Tensor, n: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Shifted Chebyshev polynomial of the third kind, V_n(2 input - 1)."""
@overload
def shifted_chebyshev_polynomial_v(x: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Shifted Chebyshev polynomial of the third kind, V_n(2 input - 1)."""
@overload
def shifted_chebyshev_polynomial_w(input: Tensor, n: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Shifted Chebyshev polynomial of the fourth kind, W_n(2 input - 1)."""
@overload
def shifted_chebyshev_polynomial_w(x: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Shifted Chebyshev polynomial of the fourth kind, W_n(2 input - 1)."""
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0."""
def softmax(input: Tensor, dim: _int, dtype: _dtype | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along a dimension."""
@overload
def spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin(x) / x; 1 at 0, and 0 at infinity."""
@overload
def spherical_bessel_j0(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin(x) / x; 1 at 0, and 0 at infinity."""
def xlog1py(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """input * log1p(other), and 0 where `input` is 0."""
def xlogy(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """input * log(other), and 0 where `input` is 0."""
def zeta(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Hurwitz' zeta function, the sum of (other + k)^-input over k >= 0. There is no gradient for `input`."""
