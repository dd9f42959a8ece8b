"""Help texts of elementwise functions: a sentence, and an example with its output.

`tests/core/test_docstrings_examples.py` runs the examples.
"""

from __future__ import annotations

import inspect

# name: (sentence, example, output)
TEXTS = {
    "abs": (
        "Absolute value of each element; the magnitude of complex ones.",
        "torch.abs(torch.tensor([-1.5, 0.0, 2.0]))",
        "tensor([1.5000, 0.0000, 2.0000])",
    ),
    "acos": (
        "Inverse cosine of each element, in radians; NaN outside [-1, 1].",
        "torch.acos(torch.tensor([1.0, 0.0, -1.0]))",
        "tensor([0.0000, 1.5708, 3.1416])",
    ),
    "acosh": (
        "Inverse hyperbolic cosine of each element; NaN below 1.",
        "torch.acosh(torch.tensor([1.0, 2.0]))",
        "tensor([0.0000, 1.3170])",
    ),
    "addcdiv": (
        "`input + value * tensor1 / tensor2`.",
        "torch.addcdiv(torch.tensor([1.0, 1.0]), torch.tensor([2.0, 3.0]), torch.tensor([4.0, 2.0]), value=0.5)",
        "tensor([1.2500, 1.7500])",
    ),
    "addcmul": (
        "`input + value * tensor1 * tensor2`.",
        "torch.addcmul(torch.tensor([1.0, 1.0]), torch.tensor([2.0, 3.0]), torch.tensor([4.0, 2.0]), value=0.5)",
        "tensor([5., 4.])",
    ),
    "angle": (
        "Angle of each element in radians: 0 or pi for real numbers, the argument for complex ones.",
        "torch.angle(torch.tensor([-2.0, 3.0]))",
        "tensor([3.1416, 0.0000])",
    ),
    "asin": (
        "Inverse sine of each element, in radians; NaN outside [-1, 1].",
        "torch.asin(torch.tensor([-1.0, 0.0, 1.0]))",
        "tensor([-1.5708,  0.0000,  1.5708])",
    ),
    "asinh": (
        "Inverse hyperbolic sine of each element.",
        "torch.asinh(torch.tensor([0.0, 1.0]))",
        "tensor([0.0000, 0.8814])",
    ),
    "atan": (
        "Inverse tangent of each element, in radians, in (-pi/2, pi/2).",
        "torch.atan(torch.tensor([0.0, 1.0]))",
        "tensor([0.0000, 0.7854])",
    ),
    "atan2": (
        "Angle of the point (other, input) in radians, in (-pi, pi].",
        "torch.atan2(torch.tensor([1.0, -1.0]), torch.tensor([-1.0, -1.0]))",
        "tensor([ 2.3562, -2.3562])",
    ),
    "atanh": (
        "Inverse hyperbolic tangent of each element; infinite at -1 and 1.",
        "torch.atanh(torch.tensor([0.0, 0.5]))",
        "tensor([0.0000, 0.5493])",
    ),
    "bitwise_and": (
        "Bitwise and of integers; logical and of bool.",
        "torch.bitwise_and(torch.tensor([6, 5]), torch.tensor([3, 4]))",
        "tensor([2, 4])",
    ),
    "bitwise_left_shift": (
        "`input << other` for integers.",
        "torch.bitwise_left_shift(torch.tensor([1, 3]), torch.tensor([2, 1]))",
        "tensor([4, 6])",
    ),
    "bitwise_or": (
        "Bitwise or of integers; logical or of bool.",
        "torch.bitwise_or(torch.tensor([6, 5]), torch.tensor([3, 4]))",
        "tensor([7, 5])",
    ),
    "bitwise_right_shift": (
        "`input >> other` for integers; the sign is kept.",
        "torch.bitwise_right_shift(torch.tensor([8, -8]), torch.tensor([1, 2]))",
        "tensor([ 4, -2])",
    ),
    "bitwise_xor": (
        "Bitwise exclusive or of integers; logical exclusive or of bool.",
        "torch.bitwise_xor(torch.tensor([6, 5]), torch.tensor([3, 4]))",
        "tensor([5, 1])",
    ),
    "ceil": (
        "Smallest integer that is not less than each element.",
        "torch.ceil(torch.tensor([-1.5, 0.2, 2.0]))",
        "tensor([-1.,  1.,  2.])",
    ),
    "clamp_max": (
        "Minimum of each element and `max`.",
        "torch.clamp_max(torch.tensor([-1.0, 3.0]), 2.0)",
        "tensor([-1.,  2.])",
    ),
    "clamp_min": (
        "Maximum of each element and `min`.",
        "torch.clamp_min(torch.tensor([-1.0, 3.0]), 0.0)",
        "tensor([0., 3.])",
    ),
    "copysign": (
        "Magnitude of `input` with the sign of `other`.",
        "torch.copysign(torch.tensor([1.0, -2.0]), torch.tensor([-0.0, 3.0]))",
        "tensor([-1.,  2.])",
    ),
    "cos": ("Cosine of each element, in radians.", "torch.cos(torch.tensor([0.0, 3.1416]))", "tensor([ 1., -1.])"),
    "cosh": ("Hyperbolic cosine of each element.", "torch.cosh(torch.tensor([0.0, 1.0]))", "tensor([1.0000, 1.5431])"),
    "deg2rad": ("Degrees to radians.", "torch.deg2rad(torch.tensor([180.0, 90.0]))", "tensor([3.1416, 1.5708])"),
    "digamma": (
        "Digamma function: the derivative of `lgamma`.",
        "torch.digamma(torch.tensor([1.0, 0.5]))",
        "tensor([-0.5772, -1.9635])",
    ),
    "eq": (
        "Whether elements are equal: a bool tensor. NaN equals nothing.",
        "torch.eq(torch.tensor([1, 2]), torch.tensor([1, 3]))",
        "tensor([ True, False])",
    ),
    "erf": (
        "Error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0.",
        "torch.erf(torch.tensor([0.0, 1.0]))",
        "tensor([0.0000, 0.8427])",
    ),
    "erfc": (
        "Complementary error function, 1 - erf(input), accurate for large elements.",
        "torch.erfc(torch.tensor([0.0, 3.0]))",
        "tensor([1.0000e+00, 2.2090e-05])",
    ),
    "erfinv": (
        "Inverse of `erf` on (-1, 1); infinite at -1 and 1.",
        "torch.erfinv(torch.tensor([0.0, 0.5]))",
        "tensor([0.0000, 0.4769])",
    ),
    "exp": (
        "Exponential of each element, e ** input.",
        "torch.exp(torch.tensor([0.0, 1.0]))",
        "tensor([1.0000, 2.7183])",
    ),
    "exp2": ("2 to the power of each element.", "torch.exp2(torch.tensor([0.0, 3.0]))", "tensor([1., 8.])"),
    "expit": (
        "Logistic sigmoid, 1 / (1 + exp(-input)).",
        "torch.expit(torch.tensor([-1.0, 0.0]))",
        "tensor([0.2689, 0.5000])",
    ),
    "expm1": (
        "exp(input) - 1, accurate near 0.",
        "torch.expm1(torch.tensor([0.0, 1e-5]))",
        "tensor([0.0000e+00, 1.0000e-05])",
    ),
    "fix": ("Each element rounded towards 0.", "torch.fix(torch.tensor([-1.5, 1.5]))", "tensor([-1.,  1.])"),
    "floor": (
        "Greatest integer that is not greater than each element.",
        "torch.floor(torch.tensor([-1.5, 1.5]))",
        "tensor([-2.,  1.])",
    ),
    "fmax": (
        "Larger of two elements; the number where the other one is NaN.",
        "torch.fmax(torch.tensor([1.0, torch.nan]), torch.tensor([2.0, 3.0]))",
        "tensor([2., 3.])",
    ),
    "fmin": (
        "Smaller of two elements; the number where the other one is NaN.",
        "torch.fmin(torch.tensor([1.0, torch.nan]), torch.tensor([2.0, 3.0]))",
        "tensor([1., 3.])",
    ),
    "frac": (
        "Fractional part of each element, with its sign.",
        "torch.frac(torch.tensor([1.5, -2.25]))",
        "tensor([ 0.5000, -0.2500])",
    ),
    "gcd": (
        "Greatest common divisor of integers.",
        "torch.gcd(torch.tensor([12, 18]), torch.tensor([8, 27]))",
        "tensor([4, 9])",
    ),
    "ge": (
        "Whether `input >= other`: a bool tensor.",
        "torch.ge(torch.tensor([1, 2]), torch.tensor([2, 2]))",
        "tensor([False,  True])",
    ),
    "gt": (
        "Whether `input > other`: a bool tensor.",
        "torch.gt(torch.tensor([1, 3]), torch.tensor([2, 2]))",
        "tensor([False,  True])",
    ),
    "heaviside": (
        "Step function: 0 below 0, 1 above, `values` at 0.",
        "torch.heaviside(torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([0.5, 0.5, 0.5]))",
        "tensor([0.0000, 0.5000, 1.0000])",
    ),
    "hypot": (
        "sqrt(input**2 + other**2), without overflow.",
        "torch.hypot(torch.tensor([3.0, 5.0]), torch.tensor([4.0, 12.0]))",
        "tensor([ 5., 13.])",
    ),
    "i0": (
        "Modified Bessel function of the first kind, order 0.",
        "torch.i0(torch.tensor([0.0, 1.0]))",
        "tensor([1.0000, 1.2661])",
    ),
    "isfinite": (
        "Whether elements are neither infinite nor NaN: a bool tensor.",
        "torch.isfinite(torch.tensor([1.0, torch.inf, torch.nan]))",
        "tensor([ True, False, False])",
    ),
    "isinf": (
        "Whether elements are infinite: a bool tensor.",
        "torch.isinf(torch.tensor([1.0, -torch.inf, torch.nan]))",
        "tensor([False,  True, False])",
    ),
    "isnan": (
        "Whether elements are NaN: a bool tensor.",
        "torch.isnan(torch.tensor([1.0, torch.inf, torch.nan]))",
        "tensor([False, False,  True])",
    ),
    "isneginf": (
        "Whether elements are minus infinity: a bool tensor.",
        "torch.isneginf(torch.tensor([-torch.inf, torch.inf, 0.0]))",
        "tensor([ True, False, False])",
    ),
    "isposinf": (
        "Whether elements are plus infinity: a bool tensor.",
        "torch.isposinf(torch.tensor([-torch.inf, torch.inf, 0.0]))",
        "tensor([False,  True, False])",
    ),
    "lcm": (
        "Least common multiple of integers.",
        "torch.lcm(torch.tensor([4, 6]), torch.tensor([6, 8]))",
        "tensor([12, 24])",
    ),
    "le": (
        "Whether `input <= other`: a bool tensor.",
        "torch.le(torch.tensor([1, 3]), torch.tensor([2, 2]))",
        "tensor([ True, False])",
    ),
    "lerp": (
        "Linear interpolation, `input + weight * (end - input)`.",
        "torch.lerp(torch.tensor([0.0, 10.0]), torch.tensor([1.0, 20.0]), 0.25)",
        "tensor([ 0.2500, 12.5000])",
    ),
    "lgamma": (
        "Logarithm of the absolute value of the gamma function.",
        "torch.lgamma(torch.tensor([1.0, 5.0]))",
        "tensor([0.0000, 3.1781])",
    ),
    "log": (
        "Natural logarithm of each element; NaN below 0, minus infinity at 0.",
        "torch.log(torch.tensor([1.0, 10.0]))",
        "tensor([0.0000, 2.3026])",
    ),
    "log10": ("Logarithm to base 10 of each element.", "torch.log10(torch.tensor([1.0, 1000.0]))", "tensor([0., 3.])"),
    "log1p": (
        "log(1 + input), accurate near 0.",
        "torch.log1p(torch.tensor([0.0, 1e-5]))",
        "tensor([0.0000e+00, 9.9999e-06])",
    ),
    "log2": ("Logarithm to base 2 of each element.", "torch.log2(torch.tensor([1.0, 8.0]))", "tensor([0., 3.])"),
    "logaddexp": (
        "log(exp(input) + exp(other)), without overflow.",
        "torch.logaddexp(torch.tensor([0.0, 100.0]), torch.tensor([0.0, 100.0]))",
        "tensor([  0.6931, 100.6931])",
    ),
    "logaddexp2": (
        "log2(2**input + 2**other), without overflow.",
        "torch.logaddexp2(torch.tensor([0.0, 100.0]), torch.tensor([0.0, 100.0]))",
        "tensor([  1., 101.])",
    ),
    "logical_and": (
        "Whether both elements are nonzero: a bool tensor.",
        "torch.logical_and(torch.tensor([0, 1, 2]), torch.tensor([1, 0, 3]))",
        "tensor([False, False,  True])",
    ),
    "logical_not": (
        "Whether elements are zero: a bool tensor.",
        "torch.logical_not(torch.tensor([0, 1, 2]))",
        "tensor([ True, False, False])",
    ),
    "logical_or": (
        "Whether at least one of two elements is nonzero: a bool tensor.",
        "torch.logical_or(torch.tensor([0, 0, 2]), torch.tensor([1, 0, 3]))",
        "tensor([ True, False,  True])",
    ),
    "logical_xor": (
        "Whether exactly one of two elements is nonzero: a bool tensor.",
        "torch.logical_xor(torch.tensor([0, 0, 2]), torch.tensor([1, 0, 3]))",
        "tensor([ True, False, False])",
    ),
    "lt": (
        "Whether `input < other`: a bool tensor.",
        "torch.lt(torch.tensor([1, 3]), torch.tensor([2, 2]))",
        "tensor([ True, False])",
    ),
    "maximum": (
        "Larger of two elements; NaN if one is NaN.",
        "torch.maximum(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 3.0]))",
        "tensor([2., 4.])",
    ),
    "minimum": (
        "Smaller of two elements; NaN if one is NaN.",
        "torch.minimum(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 3.0]))",
        "tensor([1., 3.])",
    ),
    "mul": (
        "Product of two tensors, or of a tensor and a number.",
        "torch.mul(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))",
        "tensor([3., 8.])",
    ),
    "ne": (
        "Whether elements differ: a bool tensor. NaN differs from everything.",
        "torch.ne(torch.tensor([1, 2]), torch.tensor([1, 3]))",
        "tensor([False,  True])",
    ),
    "neg": ("Negative of each element.", "torch.neg(torch.tensor([1.0, -2.0]))", "tensor([-1.,  2.])"),
    "polygamma": (
        "n-th derivative of the digamma function; `n` is an integer, not negative.",
        "torch.polygamma(1, torch.tensor([1.0, 0.5]))",
        "tensor([1.6449, 4.9348])",
    ),
    "rad2deg": ("Radians to degrees.", "torch.rad2deg(torch.tensor([3.1416, 1.5708]))", "tensor([180.0004,  90.0002])"),
    "reciprocal": ("1 / input.", "torch.reciprocal(torch.tensor([2.0, -0.5]))", "tensor([ 0.5000, -2.0000])"),
    "relu": (
        "Each element, or 0 if it is negative.",
        "torch.relu(torch.tensor([-1.0, 0.0, 2.0]))",
        "tensor([0., 0., 2.])",
    ),
    "rsqrt": (
        "1 / sqrt(input); infinite at 0, NaN below.",
        "torch.rsqrt(torch.tensor([4.0, 0.25]))",
        "tensor([0.5000, 2.0000])",
    ),
    "sigmoid": (
        "Logistic sigmoid, 1 / (1 + exp(-input)).",
        "torch.sigmoid(torch.tensor([-1.0, 0.0]))",
        "tensor([0.2689, 0.5000])",
    ),
    "sign": (
        "Sign of each element: -1, 0 or 1.",
        "torch.sign(torch.tensor([-2.0, 0.0, 3.0]))",
        "tensor([-1.,  0.,  1.])",
    ),
    "signbit": (
        "Whether the sign bit is set, also of -0.0: a bool tensor.",
        "torch.signbit(torch.tensor([-1.0, -0.0, 0.0]))",
        "tensor([ True,  True, False])",
    ),
    "sin": ("Sine of each element, in radians.", "torch.sin(torch.tensor([0.0, 1.5708]))", "tensor([0., 1.])"),
    "sinc": ("sin(pi x) / (pi x), and 1 at 0.", "torch.sinc(torch.tensor([0.0, 0.5]))", "tensor([1.0000, 0.6366])"),
    "sinh": ("Hyperbolic sine of each element.", "torch.sinh(torch.tensor([0.0, 1.0]))", "tensor([0.0000, 1.1752])"),
    "sqrt": (
        "Square root of each element; NaN below 0.",
        "torch.sqrt(torch.tensor([4.0, 2.0]))",
        "tensor([2.0000, 1.4142])",
    ),
    "square": ("Square of each element.", "torch.square(torch.tensor([-3.0, 2.0]))", "tensor([9., 4.])"),
    "tan": ("Tangent of each element, in radians.", "torch.tan(torch.tensor([0.0, 1.0]))", "tensor([0.0000, 1.5574])"),
    "tanh": ("Hyperbolic tangent of each element.", "torch.tanh(torch.tensor([0.0, 1.0]))", "tensor([0.0000, 0.7616])"),
    "trunc": ("Each element rounded towards 0.", "torch.trunc(torch.tensor([-1.5, 1.5]))", "tensor([-1.,  1.])"),
    "xlogy": (
        "input * log(other), and 0 where `input` is 0.",
        "torch.xlogy(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 3.0]))",
        "tensor([0.0000, 2.1972])",
    ),
    "airy_ai": ("Airy function Ai.", "torch.special.airy_ai(torch.tensor([0.0, 1.0]))", "tensor([0.3550, 0.1353])"),
    "bessel_j0": (
        "Bessel function of the first kind, order 0.",
        "torch.special.bessel_j0(torch.tensor([0.0, 1.0]))",
        "tensor([1.0000, 0.7652])",
    ),
    "bessel_j1": (
        "Bessel function of the first kind, order 1.",
        "torch.special.bessel_j1(torch.tensor([0.0, 1.0]))",
        "tensor([0.0000, 0.4401])",
    ),
    "bessel_y0": (
        "Bessel function of the second kind, order 0; minus infinity at 0.",
        "torch.special.bessel_y0(torch.tensor([1.0, 2.0]))",
        "tensor([0.0883, 0.5104])",
    ),
    "bessel_y1": (
        "Bessel function of the second kind, order 1; minus infinity at 0.",
        "torch.special.bessel_y1(torch.tensor([1.0, 2.0]))",
        "tensor([-0.7812, -0.1070])",
    ),
    "entr": (
        "Entropy of each element, -x log(x): 0 at 0, minus infinity below.",
        "torch.special.entr(torch.tensor([0.0, 0.5]))",
        "tensor([0.0000, 0.3466])",
    ),
    "erfcx": (
        "Scaled complementary error function, exp(x**2) erfc(x).",
        "torch.special.erfcx(torch.tensor([0.0, 30.0]))",
        "tensor([1.0000, 0.0188])",
    ),
    "gammaln": (
        "Logarithm of the absolute value of the gamma function.",
        "torch.special.gammaln(torch.tensor([1.0, 5.0]))",
        "tensor([0.0000, 3.1781])",
    ),
    "i0e": (
        "Exponentially scaled Bessel function, exp(-abs(x)) i0(x).",
        "torch.special.i0e(torch.tensor([0.0, 100.0]))",
        "tensor([1.0000, 0.0399])",
    ),
    "i1": (
        "Modified Bessel function of the first kind, order 1.",
        "torch.special.i1(torch.tensor([0.0, 1.0]))",
        "tensor([0.0000, 0.5652])",
    ),
    "i1e": (
        "Exponentially scaled Bessel function, exp(-abs(x)) i1(x).",
        "torch.special.i1e(torch.tensor([0.0, 100.0]))",
        "tensor([0.0000, 0.0397])",
    ),
    "log_ndtr": (
        "Logarithm of `ndtr`, accurate where that is nearly 0.",
        "torch.special.log_ndtr(torch.tensor([0.0, -20.0]))",
        "tensor([  -0.6931, -203.9172])",
    ),
    "modified_bessel_i0": (
        "Modified Bessel function of the first kind, order 0.",
        "torch.special.modified_bessel_i0(torch.tensor([0.0, 1.0]))",
        "tensor([1.0000, 1.2661])",
    ),
    "modified_bessel_i1": (
        "Modified Bessel function of the first kind, order 1.",
        "torch.special.modified_bessel_i1(torch.tensor([0.0, 1.0]))",
        "tensor([0.0000, 0.5652])",
    ),
    "modified_bessel_k0": (
        "Modified Bessel function of the second kind, order 0; infinite at 0.",
        "torch.special.modified_bessel_k0(torch.tensor([1.0, 2.0]))",
        "tensor([0.4210, 0.1139])",
    ),
    "modified_bessel_k1": (
        "Modified Bessel function of the second kind, order 1; infinite at 0.",
        "torch.special.modified_bessel_k1(torch.tensor([1.0, 2.0]))",
        "tensor([0.6019, 0.1399])",
    ),
    "ndtr": (
        "Distribution function of the standard normal distribution.",
        "torch.special.ndtr(torch.tensor([0.0, 1.96]))",
        "tensor([0.5000, 0.9750])",
    ),
    "ndtri": (
        "Quantile of the standard normal distribution, the inverse of `ndtr`.",
        "torch.special.ndtri(torch.tensor([0.5, 0.975]))",
        "tensor([0.0000, 1.9600])",
    ),
    "psi": (
        "Digamma function: the derivative of `gammaln`.",
        "torch.special.psi(torch.tensor([1.0, 0.5]))",
        "tensor([-0.5772, -1.9635])",
    ),
    "scaled_modified_bessel_k0": (
        "Exponentially scaled Bessel function, exp(x) modified_bessel_k0(x).",
        "torch.special.scaled_modified_bessel_k0(torch.tensor([1.0, 100.0]))",
        "tensor([1.1445, 0.1252])",
    ),
    "scaled_modified_bessel_k1": (
        "Exponentially scaled Bessel function, exp(x) modified_bessel_k1(x).",
        "torch.special.scaled_modified_bessel_k1(torch.tensor([1.0, 100.0]))",
        "tensor([1.6362, 0.1258])",
    ),
    "xlog1py": (
        "input * log1p(other), and 0 where `input` is 0.",
        "torch.special.xlog1py(torch.tensor([0.0, 2.0]), torch.tensor([-1.0, 3.0]))",
        "tensor([0.0000, 2.7726])",
    ),
    "chebyshev_polynomial_t": (
        "Chebyshev polynomial of the first kind, T_n(input).",
        "torch.special.chebyshev_polynomial_t(torch.tensor([0.5, 1.0]), torch.tensor([2, 3]))",
        "tensor([-0.5000,  1.0000])",
    ),
    "chebyshev_polynomial_u": (
        "Chebyshev polynomial of the second kind, U_n(input).",
        "torch.special.chebyshev_polynomial_u(torch.tensor([0.5, 1.0]), torch.tensor([2, 3]))",
        "tensor([0., 4.])",
    ),
    "chebyshev_polynomial_v": (
        "Chebyshev polynomial of the third kind, V_n(input).",
        "torch.special.chebyshev_polynomial_v(torch.tensor([0.5, 1.0]), torch.tensor([2, 3]))",
        "tensor([-1.,  1.])",
    ),
    "chebyshev_polynomial_w": (
        "Chebyshev polynomial of the fourth kind, W_n(input).",
        "torch.special.chebyshev_polynomial_w(torch.tensor([0.5, 1.0]), torch.tensor([2, 3]))",
        "tensor([1., 7.])",
    ),
    "hermite_polynomial_h": (
        "Physicists' Hermite polynomial, H_n(input).",
        "torch.special.hermite_polynomial_h(torch.tensor([0.5, 1.0]), torch.tensor([2, 3]))",
        "tensor([-1., -4.])",
    ),
    "hermite_polynomial_he": (
        "Probabilists' Hermite polynomial, He_n(input).",
        "torch.special.hermite_polynomial_he(torch.tensor([0.5, 1.0]), torch.tensor([2, 3]))",
        "tensor([-0.7500, -2.0000])",
    ),
    "laguerre_polynomial_l": (
        "Laguerre polynomial, L_n(input).",
        "torch.special.laguerre_polynomial_l(torch.tensor([0.5, 1.0]), torch.tensor([2, 3]))",
        "tensor([ 0.1250, -0.6667])",
    ),
    "legendre_polynomial_p": (
        "Legendre polynomial, P_n(input).",
        "torch.special.legendre_polynomial_p(torch.tensor([0.5, 1.0]), torch.tensor([2, 3]))",
        "tensor([-0.1250,  1.0000])",
    ),
    "shifted_chebyshev_polynomial_t": (
        "Shifted Chebyshev polynomial of the first kind, T_n(2 input - 1).",
        "torch.special.shifted_chebyshev_polynomial_t(torch.tensor([0.5, 1.0]), torch.tensor([2, 3]))",
        "tensor([-1.,  1.])",
    ),
    "shifted_chebyshev_polynomial_u": (
        "Shifted Chebyshev polynomial of the second kind, U_n(2 input - 1).",
        "torch.special.shifted_chebyshev_polynomial_u(torch.tensor([0.5, 1.0]), torch.tensor([2, 3]))",
        "tensor([-1.,  4.])",
    ),
    "shifted_chebyshev_polynomial_v": (
        "Shifted Chebyshev polynomial of the third kind, V_n(2 input - 1).",
        "torch.special.shifted_chebyshev_polynomial_v(torch.tensor([0.5, 1.0]), torch.tensor([2, 3]))",
        "tensor([-1.,  1.])",
    ),
    "shifted_chebyshev_polynomial_w": (
        "Shifted Chebyshev polynomial of the fourth kind, W_n(2 input - 1).",
        "torch.special.shifted_chebyshev_polynomial_w(torch.tensor([0.5, 1.0]), torch.tensor([2, 3]))",
        "tensor([-1.,  7.])",
    ),
    "elu": (
        "`x` for x > 0, else alpha * (exp(x) - 1). Clevert, Unterthiner and Hochreiter, 2016.",
        "torch.nn.functional.elu(torch.tensor([-1.0, 0.0, 2.0]))",
        "tensor([-0.6321,  0.0000,  2.0000])",
    ),
    "selu": (
        "scale * (max(0, x) + min(0, alpha * (exp(x) - 1))), alpha = 1.6733, scale = 1.0507. Klambauer et al., 2017.",
        "torch.nn.functional.selu(torch.tensor([-1.0, 0.0, 2.0]))",
        "tensor([-1.1113,  0.0000,  2.1014])",
    ),
    "silu": (
        "x * sigmoid(x), also called swish.",
        "torch.nn.functional.silu(torch.tensor([-1.0, 0.0, 2.0]))",
        "tensor([-0.2689,  0.0000,  1.7616])",
    ),
    "mish": (
        "x * tanh(softplus(x)). Misra, 2019.",
        "torch.nn.functional.mish(torch.tensor([-1.0, 0.0, 2.0]))",
        "tensor([-0.3034,  0.0000,  1.9440])",
    ),
    "hardswish": (
        "x * relu6(x + 3) / 6. Howard et al., 2019.",
        "torch.nn.functional.hardswish(torch.tensor([-1.0, 0.0, 2.0]))",
        "tensor([-0.3333,  0.0000,  1.6667])",
    ),
    "hardsigmoid": (
        "relu6(x + 3) / 6.",
        "torch.nn.functional.hardsigmoid(torch.tensor([-1.0, 0.0, 2.0]))",
        "tensor([0.3333, 0.5000, 0.8333])",
    ),
    "softplus": (
        "log(1 + exp(beta * x)) / beta; `x` itself where beta * x > threshold.",
        "torch.nn.functional.softplus(torch.tensor([-1.0, 0.0, 2.0]))",
        "tensor([0.3133, 0.6931, 2.1269])",
    ),
    "hardshrink": (
        "`x` where abs(x) > lambd, else 0.",
        "torch.nn.functional.hardshrink(torch.tensor([-1.0, 0.0, 2.0]))",
        "tensor([-1.,  0.,  2.])",
    ),
    "logsigmoid": (
        "log(sigmoid(x)), accurate for negative x.",
        "torch.nn.functional.logsigmoid(torch.tensor([-1.0, 0.0, 2.0]))",
        "tensor([-1.3133, -0.6931, -0.1269])",
    ),
    "softsign": (
        "x / (1 + abs(x)).",
        "torch.nn.functional.softsign(torch.tensor([-1.0, 0.0, 2.0]))",
        "tensor([-0.5000,  0.0000,  0.6667])",
    ),
    "tanhshrink": (
        "x - tanh(x).",
        "torch.nn.functional.tanhshrink(torch.tensor([-1.0, 0.0, 2.0]))",
        "tensor([-0.2384,  0.0000,  1.0360])",
    ),
    "leaky_relu": (
        "`x` for x > 0, else negative_slope * x.",
        "torch.nn.functional.leaky_relu(torch.tensor([-1.0, 0.0, 2.0]))",
        "tensor([-0.0100,  0.0000,  2.0000])",
    ),
    # the copying forms of in-place functions
    "fill": (
        "A tensor of the shape and dtype of `input`, filled with `value`.",
        "torch.fill(torch.zeros(2), 3.0)",
        "tensor([3., 3.])",
    ),
    "index_add": (
        "A copy of `input` with `alpha * source` added to the slices `index` of dimension `dim`.",
        "torch.index_add(torch.zeros(3), 0, torch.tensor([0, 2, 0]), torch.tensor([1.0, 2.0, 3.0]))",
        "tensor([4., 0., 2.])",
    ),
    "index_copy": (
        "A copy of `input` whose slices `index` of dimension `dim` are those of `source`.",
        "torch.index_copy(torch.zeros(3), 0, torch.tensor([2, 0]), torch.tensor([1.0, 2.0]))",
        "tensor([2., 0., 1.])",
    ),
    "index_fill": (
        "A copy of `input` with `value` in the slices `index` of dimension `dim`.",
        "torch.index_fill(torch.zeros(3), 0, torch.tensor([0, 2]), 7.0)",
        "tensor([7., 0., 7.])",
    ),
    "put": (
        "A copy of `input` with the elements of `source` at the positions `index` of its elements in row-major order.",
        "torch.put(torch.zeros(2, 2), torch.tensor([0, 3]), torch.tensor([1.0, 2.0]))",
        "tensor([[1., 0.],\n        [0., 2.]])",
    ),
    "scatter": (
        "A copy of `input` with the elements of `src`, or a number, at the positions `index` along `dim`.",
        "torch.scatter(torch.zeros(3), 0, torch.tensor([2, 0]), torch.tensor([1.0, 2.0]))",
        "tensor([2., 0., 1.])",
    ),
    "scatter_add": (
        "A copy of `input` with the elements of `src` added at the positions `index` along `dim`.",
        "torch.scatter_add(torch.zeros(3), 0, torch.tensor([2, 2]), torch.tensor([1.0, 2.0]))",
        "tensor([0., 0., 3.])",
    ),
}


_IN_PLACE = "In-place `{}`: overwrites the tensor and returns it."


def text(name: str, inputs: int | None, has_out: bool = True) -> str | None:
    """The docstring of a function with so many inputs, None: not elementwise; None if the table does not have it."""
    if name not in TEXTS:
        return None
    sentence, example, output = TEXTS[name]
    shapes = "\n\nShapes: tensors broadcast against each other. Numbers are allowed in place of all but one."
    if inputs == 1 or inputs is None:
        shapes = "\n\nShape: any; the result has the same shape." if inputs else ""
    shapes += " `out` receives the result." if has_out else ""
    return f"{sentence}{shapes}\n\nExample:\n\n    >>> {example}\n    {_indented(output)}\n"


def method_text(name: str, is_in_place: bool = False) -> str | None:
    """The docstring of a method, `x.NAME()` or `x.NAME_()`, whose example is the function's; None as above."""
    return _as_method(name, TEXTS[name], is_in_place) if name in TEXTS else None


def in_place_text(name: str, function_text: str) -> str | None:
    """The docstring of `x.NAME_()`, made of the function's, whose example must be one call; None for another one."""
    sentence, _, example = inspect.cleandoc(function_text).partition("Example:\n\n    >>> ")
    call, _, output = example.partition("\n")
    if not call.startswith(f"torch.{name}(") or ">>>" in output:
        return None
    output = output.rstrip().removeprefix("    ").replace("\n    ", "\n")
    return _as_method(name, (sentence.strip(), call, output), True)


def in_place_sentence(name: str, function: object) -> str:
    """The docstring of `x.NAME_()` without an example, from the function's if there is one."""
    sentence, _, _ = (getattr(function, "__doc__", None) or "").partition("\n\n")
    return f"{_IN_PLACE.format(name)} {sentence}".rstrip()


def _as_method(name: str, text: tuple[str, str, str], is_in_place: bool) -> str | None:
    sentence, example, output = text
    _, _, arguments = example.partition(f"{name}(")
    tensor, rest = _first_argument(arguments[:-1])
    # the function's first argument may be another; a bool becomes a number where it is written to the tensor
    if not tensor.startswith("torch.") or (is_in_place and ("True" in output or "False" in output)):
        return None
    if is_in_place:
        sentence = f"{_IN_PLACE.format(name)} {sentence}"
    call = f"x.{name}{'_' * is_in_place}({rest})"
    return f"{sentence}\n\nExample:\n\n    >>> x = {tensor}\n    >>> {call}\n    {_indented(output)}\n"


def _indented(output: str) -> str:
    return output.replace("\n", "\n    ")


def _first_argument(arguments: str) -> tuple[str, str]:
    """(the first of some arguments, the others)."""
    depth = 0
    for position, letter in enumerate(arguments):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            return arguments[:position], arguments[position + 1 :].strip()
    return arguments, ""


def copy_text(name: str, view_text: str | None) -> str:
    """The docstring of `NAME_copy`, with the example of the function that returns a view."""
    _, title, example = (view_text or "").partition("Example:")
    has_call = f"torch.{name}(" in example
    example = f"\n\n{title}{example}".replace(f"torch.{name}(", f"torch.{name}_copy(") if has_call else ""
    return f"A copy of the view that `{name}` returns.{example}"
