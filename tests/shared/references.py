"""Reference functions of each pointwise row, in NumPy and Python, and the domain of its inputs."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from numod.ops.pointwise import rows

INF, NAN = math.inf, math.nan
_erf, _erfc = np.vectorize(math.erf, otypes=[float]), np.vectorize(math.erfc, otypes=[float])


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def softplus(x, beta=1.0, threshold=20.0):
    return np.where(x * beta > threshold, x, np.logaddexp(0, x * beta) / beta)


def clip6(x):
    return np.minimum(np.maximum(x + 3, 0), 6)


def pick(condition, x, y):
    return np.where(np.asarray(condition) != 0, x, y)


def trunc_divide(x, y):
    if np.asarray(x).dtype.kind == "f":
        return np.trunc(np.divide(x, y))
    return (np.abs(x) // np.abs(y) * np.sign(x) * np.sign(y)).astype(x.dtype)


def floor_divide(x, y):
    """PyTorch's: a number over zero is an infinity, as in Python's `//` but without the error."""
    return (
        np.where(np.equal(y, 0), np.divide(x, y), np.floor_divide(x, y))
        if np.asarray(x).dtype.kind == "f"
        else np.floor_divide(x, y)
    )


def erfinv(x):
    """Bisection on math.erf and math.erfc; slow and plain."""

    def one(value):
        if math.isnan(value) or abs(value) > 1:
            return NAN
        if abs(value) == 1 or value == 0:
            return math.copysign(INF, value) if value else value
        low, high = 0.0, 6.0
        for _ in range(200):
            middle = 0.5 * (low + high)
            below = math.erf(middle) < abs(value) if abs(value) < 0.5 else math.erfc(middle) > 1 - abs(value)
            low, high = (middle, high) if below else (low, middle)
        return math.copysign(low, value)

    return np.vectorize(one, otypes=[float])(x)


def binary_cross_entropy(x, target):
    return (target - 1) * np.maximum(np.log1p(-x), -100) - target * np.maximum(np.log(x), -100)


def with_logits(x, target, pos_weight=1.0):
    return pos_weight * target * softplus(-x, 1.0, INF) + (1 - target) * softplus(x, 1.0, INF)


def huber(x, target, delta=1.0):
    d = np.abs(x - target)
    return np.where(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta))


def smooth_l1(x, target, beta=1.0):
    d = np.abs(x - target)
    return np.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)


def lift(function):
    """A bool result as NumPy gives it, for inputs of any dtype."""
    return lambda *values: function(*values).astype(bool)


def truth(function):
    return lambda *values: function(*(np.asarray(value) != 0 for value in values))


# ---- special functions by integrals and sums, as slow and plain as they are independent

NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)


def integral(function, low, high):
    """Of function(t, *others) over [low, high], a bound per element or a number: 400 points of Gauss and Legendre."""

    def one(*others):
        bottom, top = (bound(*others) if callable(bound) else bound for bound in (low, high))
        t = 0.5 * (bottom + top) + 0.5 * (top - bottom) * NODES
        return 0.5 * (top - bottom) * np.sum(WEIGHTS * function(t, *others))

    return np.vectorize(one, otypes=[float])


def bessel_i(n):
    return integral(lambda t, x: np.exp(x * np.cos(t)) * np.cos(n * t) / np.pi, 0, np.pi)


def bessel_j(n):
    return integral(lambda t, x: np.cos(n * t - x * np.sin(t)) / np.pi, 0, np.pi)


def bessel_y(n):
    waves = integral(lambda t, x: np.sin(x * np.sin(t) - n * t) / np.pi, 0, np.pi)
    rest = integral(lambda t, x: (np.exp(n * t) + (-1) ** n * np.exp(-n * t)) * np.exp(-x * np.sinh(t)) / np.pi, 0, 8)
    return lambda x: waves(x) - rest(x)


def bessel_k(n):
    return integral(lambda t, x: np.exp(-x * np.cosh(t)) * np.cosh(n * t), 0, 8)


def digamma(x):
    total = sum(-1 / (x + k) for k in range(2000))
    return total + np.log(x + 2000) - 0.5 / (x + 2000) - 1 / (12 * (x + 2000) ** 2)


def zeta(s, q):
    total, end = sum((q + k) ** -s for k in range(2000)), q + 2000
    return total + end ** (1 - s) / (s - 1) + 0.5 * end**-s + s / 12 * end ** (-s - 1)


def polygamma(n, x):
    """Of orders that are not even."""
    return np.vectorize(math.gamma, otypes=[float])(n + 1) * zeta(n + 1, x)


def gammainc(a, x):
    gamma = np.vectorize(math.gamma, otypes=[float])
    return 20 * x**a / gamma(a) * integral(lambda s, a, x: s ** (20 * a - 1) * np.exp(-x * s**20), 0, 1)(a, x)


@dataclass
class Case:
    """A row's reference, where its inputs may lie, numbers for its last inputs, and which tests it takes part in.

    `low`, `high`: bounds per input (the last repeats). `special`: "exact" compares also the sign of zeros, "close" does
    not, "" leaves special values out (the reference does not define them). `points`: where the gradient is checked, a
    list per tensor input.
    """

    reference: Callable
    low: tuple = (-3.0,)
    high: tuple = (3.0,)
    numbers: tuple = ()
    special: str = "close"
    points: tuple | None = None
    integer: Callable | None = None
    rtol: float = 2e-6
    pairs: bool = True


def unary(reference, low=-3.0, high=3.0, **options):
    return Case(reference, (low,), (high,), **options)


EXACT = {"special": "exact"}
REFERENCES: dict[str, Case] = {
    # arithmetic
    "add": Case(np.add, **EXACT),
    "sub": Case(np.subtract, **EXACT),
    "mul": Case(np.multiply, **EXACT),
    "div": Case(np.divide, **EXACT),
    "neg": Case(np.negative, **EXACT),
    "abs": Case(np.abs, **EXACT),
    "add_scaled": Case(lambda x, y, alpha: x + alpha * y, numbers=(3,)),
    "square": Case(np.square, **EXACT),
    "cube": Case(lambda x: x * x * x, **EXACT),
    "reciprocal": Case(lambda x: 1 / x, **EXACT),
    "inverse": Case(lambda x: 1 / x, **EXACT),
    "pow": Case(np.power, (0.2, -2.0), (3.0, 3.0), points=([0.4, 1.3, 2.1], [1.7, -0.6, 2.5])),
    "floor_divide": Case(floor_divide),
    "trunc_divide": Case(trunc_divide),
    "remainder": Case(np.remainder),
    "fmod": Case(np.fmod),
    "maximum": Case(np.maximum),
    "minimum": Case(np.minimum),
    "larger": Case(np.maximum),
    "smaller": Case(np.minimum),
    "fmax": Case(np.fmax),
    "fmin": Case(np.fmin),
    "clamp": Case(lambda x, low, high: np.minimum(np.maximum(x, low), high), numbers=(-1, 2)),
    "clamp_min": Case(np.maximum),
    "clamp_max": Case(np.minimum),
    "lerp": Case(
        lambda x, end, weight: x + weight * (end - x),
        (-3.0, -3.0, 0.0),
        (3.0, 3.0, 1.0),
        special="",
        points=([-1.3, 0.4], [0.7, -0.9], [0.3, 0.8]),
    ),
    "addcmul": Case(lambda x, a, b, value=1: x + value * a * b, numbers=(2,)),
    "addcdiv": Case(lambda x, a, b, value=1: x + value * a / b, (-3.0, -3.0, 0.5), numbers=(2,)),
    "weighted_sum": Case(lambda x, y, share, other: share * x + other * y, numbers=(0.75, 1.5)),
    "inverse_deviation": Case(lambda var, weight, eps: weight / np.sqrt(var + eps), (0.1, -3.0, 0.1)),
    # copies and constants (the latter have tests of their own)
    "copy": Case(lambda x: x, **EXACT),
    "row_major": Case(lambda x: x, **EXACT),
    # comparison and logic
    "eq": Case(np.equal),
    "ne": Case(np.not_equal),
    "lt": Case(np.less),
    "le": Case(np.less_equal),
    "gt": Case(np.greater),
    "ge": Case(np.greater_equal),
    "logical_and": Case(np.logical_and),
    "logical_or": Case(np.logical_or),
    "logical_xor": Case(np.logical_xor),
    "logical_not": Case(np.logical_not),
    "isnan": Case(np.isnan),
    "isfinite": Case(np.isfinite),
    "isinf": Case(np.isinf),
    "isposinf": Case(lambda x: x == np.inf),
    "isneginf": Case(lambda x: x == -np.inf),
    "signbit": Case(np.signbit),
    "where": Case(pick, **EXACT),
    "bitwise_and": Case(np.bitwise_and),
    "bitwise_or": Case(np.bitwise_or),
    "bitwise_xor": Case(np.bitwise_xor),
    "bitwise_not": Case(np.bitwise_not),
    "bitwise_left_shift": Case(np.left_shift, integer=lambda x, y: np.left_shift(x, y)),
    "bitwise_right_shift": Case(np.right_shift),
    # rounding and signs
    "sign": Case(
        lambda x: (
            np.where(np.isnan(x), 0, np.sign(x))
            if np.asarray(x).dtype.kind == "f"
            else x
            if np.asarray(x).dtype == bool
            else np.sign(x)
        )
    ),
    "floor": Case(np.floor, **EXACT),
    "ceil": Case(np.ceil, **EXACT),
    "trunc": Case(np.trunc, **EXACT),
    "round": Case(np.round, **EXACT),
    "frac": Case(lambda x: x - np.trunc(x)),
    "copysign": Case(np.copysign, **EXACT),
    "heaviside": Case(lambda x, values: np.where(x == 0, values, np.where(x > 0, 1, 0))),
    "nan_to_num": Case(
        lambda x, nan, posinf, neginf: np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf),
        numbers=(4.0, 5.0, -6.0),
        integer=lambda x, *_: x,
    ),
    # checks of indices: added up, they say in one number whether any is outside, any negative
    "bounds": Case(
        lambda x, low, high: np.where((x < low) | (x >= high), 2**32, np.where(x < 0, 1, 0)), numbers=(-4, 5)
    ),
    "linear_place": Case(
        lambda x, y, n, m: np.where(
            (x < -n) | (x >= n) | (y < -m) | (y >= m), -1, np.where(x < 0, x + n, x) * m + np.where(y < 0, y + m, y)
        ),
        numbers=(2, 3),
    ),
    "class_bounds": Case(
        lambda x, classes, ignored: np.where(x == ignored, 1, np.where((x < 0) | (x >= classes), 2**32, 0)),
        numbers=(5, -3),
    ),
    # exponentials and logarithms
    "exp": unary(np.exp),
    "exp2": unary(np.exp2),
    "expm1": unary(np.expm1, **EXACT),
    "log": unary(np.log, 0.1),
    "log2": unary(np.log2, 0.1),
    "log10": unary(np.log10, 0.1),
    "log1p": unary(np.log1p, -0.9, **EXACT),
    "logaddexp": Case(np.logaddexp),
    "sqrt": unary(np.sqrt, 0.1, **EXACT),
    "root": unary(np.sqrt, 0.1, **EXACT),
    "deviation": unary(np.sqrt, 0.1, **EXACT),
    "rsqrt": unary(lambda x: 1 / np.sqrt(x), 0.1),
    "xlogy": Case(lambda x, y: np.where(np.isnan(y), y, np.where(x == 0, 0.0, x * np.log(y))), (-3.0, 0.1)),
    "logit": unary(lambda x: np.log(x / (1 - x)), 0.05, 0.95, rtol=1e-5, special=""),
    # trigonometric and hyperbolic
    "sin": unary(np.sin, **EXACT),
    "cos": unary(np.cos),
    "tan": unary(np.tan, -1.4, 1.4, rtol=1e-5, **EXACT),
    "asin": unary(np.arcsin, -0.95, 0.95, **EXACT),
    "acos": unary(np.arccos, -0.95, 0.95),
    "atan": unary(np.arctan, **EXACT),
    "atan2": Case(np.arctan2, **EXACT),
    "sinh": unary(np.sinh, **EXACT),
    "cosh": unary(np.cosh),
    "tanh": unary(np.tanh, **EXACT),
    "asinh": unary(np.arcsinh, **EXACT),
    "acosh": unary(np.arccosh, 1.1, 4.0),
    "atanh": unary(np.arctanh, -0.9, 0.9, **EXACT),
    "hypot": Case(np.hypot),
    "sinc": unary(np.sinc, rtol=1e-4, special=""),
    "deg2rad": unary(np.deg2rad),
    "rad2deg": unary(np.rad2deg),
    # error function
    "erf": unary(_erf, **EXACT),
    "erfc": unary(_erfc),
    "erfinv": unary(erfinv, -0.97, 0.97),
    "normal_cdf": unary(lambda x: _erfc(-x / math.sqrt(2)) / 2),
    # special functions (their special values are in tests/core/test_special.py)
    "logaddexp2": Case(np.logaddexp2),
    "xlog1py": Case(lambda x, y: np.where(np.isnan(y), y, np.where(x == 0, 0.0, x * np.log1p(y))), (-3.0, -0.9)),
    "entr": unary(
        lambda x: np.where(x > 0, -x * np.log(x), np.where(np.isnan(x), x, np.where(x == 0, 0.0, -np.inf))), 0.1
    ),
    "lgamma": unary(np.vectorize(math.lgamma, otypes=[float]), 0.1, 5.0, special=""),
    "digamma": unary(digamma, 0.1, 5.0, special=""),
    "trigamma": unary(lambda x: zeta(2.0, x), 0.1, 5.0, special=""),
    "polygamma": Case(polygamma, (1.1, 0.5), (1.9, 3.0), special="", points=([1.0, 2.0, 3.0], [0.7, 1.2, 2.3])),
    "zeta": Case(zeta, (2.1, 0.5), (4.0, 3.0), special=""),
    "gammainc": Case(gammainc, (0.6,), (3.0,), special=""),
    "gammaincc": Case(lambda a, x: 1 - gammainc(a, x), (0.6,), (3.0,), special=""),
    "erfcx": unary(lambda x: np.exp(x * x) * _erfc(x), special=""),
    "ndtr": unary(lambda x: _erfc(-x / math.sqrt(2)) / 2),
    "log_ndtr": unary(lambda x: np.log(_erfc(-x / math.sqrt(2)) / 2), special=""),
    "ndtri": unary(np.vectorize(NormalDist().inv_cdf, otypes=[float]), 0.01, 0.99, special=""),
    "i0": unary(bessel_i(0), special=""),
    "i0e": unary(lambda x: bessel_i(0)(x) * np.exp(-np.abs(x)), special=""),
    "i1": unary(bessel_i(1), special=""),
    "i1e": unary(lambda x: bessel_i(1)(x) * np.exp(-np.abs(x)), special=""),
    "bessel_j0": unary(bessel_j(0), -30.0, 30.0, special=""),
    "bessel_j1": unary(bessel_j(1), -30.0, 30.0, special=""),
    "bessel_y0": unary(bessel_y(0), 0.5, 30.0, special=""),
    "bessel_y1": unary(bessel_y(1), 0.5, 30.0, special=""),
    "airy_ai": unary(lambda x: np.sqrt(x / 3) * bessel_k(1 / 3)(x**1.5 / 1.5) / np.pi, 0.5, 5.0, special=""),
    "modified_bessel_k0": unary(bessel_k(0), 0.3, 9.0, special=""),
    "modified_bessel_k1": unary(bessel_k(1), 0.3, 9.0, special=""),
    "scaled_modified_bessel_k0": unary(lambda x: bessel_k(0)(x) * np.exp(x), 0.3, 9.0, special=""),
    "scaled_modified_bessel_k1": unary(lambda x: bessel_k(1)(x) * np.exp(x), 0.3, 9.0, special=""),
    # numbers taken apart, neighbours, whole numbers
    "mantissa": unary(lambda x: np.frexp(x)[0], **EXACT),
    "exponent": unary(lambda x: np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(float)),
    "angle": unary(lambda x: np.where(np.isnan(x), x, np.where(x < 0, np.pi, 0.0))),
    "nextafter": Case(np.nextafter, special=""),
    "gcd": Case(np.gcd),
    "lcm": Case(np.lcm),
    # activations
    "sigmoid": unary(sigmoid),
    "relu": unary(lambda x: np.maximum(x, 0)),
    "hardtanh": Case(lambda x, low=-1.0, high=1.0: np.minimum(np.maximum(x, low), high), numbers=(-1, 2)),
    "leaky_relu": Case(lambda x, slope=0.01: np.where(x > 0, x, slope * x), numbers=(0.1,)),
    "elu": Case(lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))), numbers=(1.5,)),
    "selu": unary(
        lambda x: (
            1.0507009873554804934193349852946
            * np.where(x > 0, x, 1.6732632423543772848170429916717 * np.expm1(np.minimum(x, 0)))
        )
    ),
    "celu": Case(lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)), numbers=(1.5,)),
    "gelu": unary(lambda x: x * 0.5 * (1 + _erf(x / math.sqrt(2))), rtol=1e-5),
    "gelu_tanh": unary(lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), rtol=1e-5),
    "silu": unary(lambda x: x * sigmoid(x)),
    "softplus": Case(softplus, numbers=(2.0, 5.0)),
    "mish": unary(lambda x: x * np.tanh(softplus(x))),
    "logsigmoid": unary(lambda x: -np.logaddexp(0, -x)),
    "softsign": unary(lambda x: x / (1 + np.abs(x))),
    "tanhshrink": unary(lambda x: x - np.tanh(x), rtol=1e-4),
    "softshrink": Case(
        lambda x, lambd=0.5: np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, 0 * x)), numbers=(0.7,)
    ),
    "hardshrink": Case(lambda x, lambd=0.5: np.where((x >= -lambd) & (x <= lambd), 0, x), numbers=(0.7,)),
    "threshold": Case(lambda x, threshold, value: np.where(x <= threshold, value, x), numbers=(1, 7)),
    "hardsigmoid": unary(lambda x: clip6(x) / 6),
    "hardswish": unary(lambda x: x * clip6(x) / 6, special=""),
    "margin_gap": Case(
        lambda use, x, correct, margin: np.where(use, np.maximum(margin - correct + x, 0), 0),
        numbers=(0.7,),
        special="",
    ),
    "prelu": Case(lambda x, weight: np.where(x > 0, x, weight * x)),
    # elementwise losses
    "squared_error": Case(lambda x, target: (x - target) ** 2),
    "absolute_error": Case(lambda x, target: np.abs(x - target)),
    "smooth_l1": Case(smooth_l1, numbers=(1.5,)),
    "huber": Case(huber, numbers=(1.5,)),
    "binary_cross_entropy": Case(binary_cross_entropy, (0.05,), (0.95,), special="", points=([0.2, 0.7], [0.9, 0.4])),
    "binary_cross_entropy_with_logits": Case(
        with_logits,
        (-3.0, 0.0, 0.5),
        (3.0, 1.0, 2.0),
        special="",
        points=([-1.3, 0.4], [0.9, 0.4], [0.7, 1.6]),
        rtol=1e-5,
    ),
}
CONSTANT = {
    "index", "fill", "arange", "linspace", "random_uniform", "random_normal", "random_below", "uniform", "normal",
    "randint",
}  # fmt: skip
RANDOM = {"exponential", "bernoulli", "dropout"}
# Helper rows: parts of other rows or of divergences. Each is listed with the case that compares it with mpmath: a name of
# `accuracy.UNARY` or `two_inputs.BINARY` (ops/test_ops_accuracy) or of `divergences.CASES` (distributions/test_distributions_digits).
HELPERS = {
    "erfcx_slope": "erfcx",
    "log_ndtr_slope": "log_ndtr",
    "incomplete_gamma_slope": "gammainc",
    "bessel_i_gap": "i0e",
    "bessel_k_gap": "scaled_modified_bessel_k0",
    "exp_excess": "Laplace",
    "laplace_gap": "Laplace",
    "itakura_saito": "Exponential",
    "log_ratio": "Gamma",
    "entropy_gap": "Poisson",
    "logit_divergence": "Bernoulli by logits",
    "geometric_divergence": "Geometric by logits",
    "geometric_rise": "Geometric by logits",
    "gumbel_divergence": "Gumbel",
    "gumbel_slope_by_shift": "Gumbel",
    "gumbel_slope_by_scale": "Gumbel",
    "gumbel_slope_by_other": "Gumbel",
    "digamma_rise": "Gamma",
    "lgamma_divergence": "Gamma",
    "bernoulli_entropy": "entropy of Bernoulli by logits",
    "failure_information": "entropy of Geometric by logits",
    "geometric_entropy": "entropy of Geometric by logits",
}
HELPERS |= {f"gamma_{name}": "density of Gamma" for name in "log_density value_slope shape_slope rate_slope".split()}
HELPERS |= {f"beta_{name}": "density of Beta" for name in "log_density value_slope shape_slope rest_slope".split()}
HELPERS |= {f"student_{name}": "density of StudentT" for name in ("log_density", "df_slope")}
# rows with references in tests/ops/test_quantize.py
QUANTIZED = set(
    "quantize_int8 quantize_uint8 quantize_int32 requantize_int8 requantize_uint8 fake_quantize range_scale "
    "range_zero dequantize_product shifted scaled_by_bits quotient_by_integers shifted_sum_int8 shifted_sum_uint8 "
    "scaled_sum_int8 scaled_sum_uint8 mean_sum_int8 mean_sum_uint8".split()
)
FIRST_IS_CONSTANT = {"polygamma", "zeta", "gammainc", "gammaincc"}  # no library has a gradient for their first input
POINTS = ([-1.3, 0.4, 2.1], [0.7, -0.9, 1.2], [1.6, 0.8, -0.3])
NAMES = list(REFERENCES)
FLOATING = [name for name in NAMES if name in rows and "f" in rows[name].accepts]
# as written here
POSITIVE = set(
    "lgamma digamma trigamma polygamma zeta gammainc gammaincc ndtri bessel_y0 bessel_y1 airy_ai".split()
) | {name for name in NAMES if "bessel_k" in name}
INTEGRAL = [name for name in NAMES if name in rows and "i" in rows[name].accepts and name not in POSITIVE]
BINARY = [name for name in FLOATING if len(rows[name].inputs) == 2 and not REFERENCES[name].numbers]


def tensors_of(name):
    """How many of a row's inputs are given as tensors."""
    return len(rows[name].inputs) - len(REFERENCES[name].numbers)


def sample(name, shapes, dtype=np.float32):
    """An array per shape within the row's bounds, the same in every run."""
    case, generator = REFERENCES[name], np.random.default_rng(zlib.crc32(name.encode()))
    values = []
    for k, shape in enumerate(shapes):
        low, high = case.low[min(k, len(case.low) - 1)], case.high[min(k, len(case.high) - 1)]
        values.append(generator.uniform(low, high, shape).astype(dtype))
    return values


def expected(name, arrays, numbers=()):
    """The reference in float64 (floating inputs) or in the dtype at hand."""
    wide = [array.astype(np.float64) if array.dtype.kind == "f" else array for array in arrays]
    with np.errstate(all="ignore"):
        return np.asarray(REFERENCES[name].reference(*wide, *numbers))


def check(name, result, reference, factor=1.0):
    """Values, and that a float result did not change its width."""
    kind = result.dtype.numpy
    with np.errstate(over="ignore"):
        reference = reference.astype(kind)
    rtol = REFERENCES[name].rtol * factor if kind == np.float32 else 1e-12 * max(1.0, REFERENCES[name].rtol / 2e-6)
    assert result.shape == reference.shape
    np.testing.assert_allclose(
        result.detach().numpy(), reference, rtol=rtol, atol=rtol if kind.kind == "f" else 0, equal_nan=True
    )
