"""Every row of the pointwise table against a NumPy reference of its own: layouts, dtypes, special values, gradients to second order.

A row costs a compiled kernel per dtype and layout class, so each test here is chosen to add at most one.
"""

from __future__ import annotations

import math
import random
import zlib
from dataclasses import dataclass
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest

import numod
from numod.autograd import gradcheck, gradgradcheck
from numod.core.apply import apply
from numod.ops.pointwise import rows

INF, NAN = math.inf, math.nan
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.0, -3.0, 7.25, 40.0, -40.0, 1e-40, -1e-40, 1e-30, 3e38, -3e38]
_erf, _erfc = np.vectorize(math.erf, otypes=[float]), np.vectorize(math.erfc, otypes=[float])

# ---- references, in float64 or in the integer dtype at hand


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
    return np.where(np.equal(y, 0), np.divide(x, y), np.floor_divide(x, y)) if np.asarray(x).dtype.kind == "f" else np.floor_divide(x, y)


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
    return lambda *values: function(*(np.asarray(each) != 0 for each in values))


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

    `low`, `high`: bounds per input (the last repeats). `special`: "exact" compares also the sign of zeros, "close" does not, "" leaves special values out
    (the reference does not define them). `points`: where the gradient is checked, a list per tensor input.
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
    "reciprocal": Case(lambda x: 1 / x, **EXACT),
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
    "lerp": Case(lambda x, end, weight: x + weight * (end - x), (-3.0, -3.0, 0.0), (3.0, 3.0, 1.0), special="", points=([-1.3, 0.4], [0.7, -0.9], [0.3, 0.8])),
    "addcmul": Case(lambda x, a, b, value=1: x + value * a * b, numbers=(2,)),
    "addcdiv": Case(lambda x, a, b, value=1: x + value * a / b, (-3.0, -3.0, 0.5), numbers=(2,)),
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
    "sign": Case(lambda x: np.where(np.isnan(x), 0, np.sign(x)) if np.asarray(x).dtype.kind == "f" else x if np.asarray(x).dtype == bool else np.sign(x)),
    "floor": Case(np.floor, **EXACT),
    "ceil": Case(np.ceil, **EXACT),
    "trunc": Case(np.trunc, **EXACT),
    "round": Case(np.round, **EXACT),
    "frac": Case(lambda x: x - np.trunc(x)),
    "copysign": Case(np.copysign, **EXACT),
    "heaviside": Case(lambda x, values: np.where(np.isnan(x), x, np.where(x == 0, values, np.where(x > 0, 1, 0)))),
    "nan_to_num": Case(lambda x, nan, posinf, neginf: np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf), numbers=(4.0, 5.0, -6.0), integer=lambda x, *_: x),
    # checks of indices: added up, they say in one number whether any is outside, any negative
    "bounds": Case(lambda x, low, high: np.where((x < low) | (x >= high), 2**32, np.where(x < 0, 1, 0)), numbers=(-4, 5)),
    "class_bounds": Case(lambda x, classes, ignored: np.where(x == ignored, 1, np.where((x < 0) | (x >= classes), 2**32, 0)), numbers=(5, -3)),
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
    "entr": unary(lambda x: np.where(x > 0, -x * np.log(x), np.where(np.isnan(x), x, np.where(x == 0, 0.0, -np.inf))), 0.1),
    "lgamma": unary(np.vectorize(math.lgamma, otypes=[float]), 0.1, 5.0, special=""),
    "digamma": unary(digamma, 0.1, 5.0, special=""),
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
    "selu": unary(lambda x: 1.0507009873554804934193349852946 * np.where(x > 0, x, 1.6732632423543772848170429916717 * np.expm1(np.minimum(x, 0)))),
    "celu": Case(lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)), numbers=(1.5,)),
    "gelu": unary(lambda x: x * 0.5 * (1 + _erf(x / math.sqrt(2))), rtol=1e-5),
    "gelu_tanh": unary(lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), rtol=1e-5),
    "silu": unary(lambda x: x * sigmoid(x)),
    "softplus": Case(softplus, numbers=(2.0, 5.0)),
    "mish": unary(lambda x: x * np.tanh(softplus(x))),
    "logsigmoid": unary(lambda x: -np.logaddexp(0, -x)),
    "softsign": unary(lambda x: x / (1 + np.abs(x))),
    "tanhshrink": unary(lambda x: x - np.tanh(x), rtol=1e-4),
    "softshrink": Case(lambda x, lambd=0.5: np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, 0 * x)), numbers=(0.7,)),
    "hardshrink": Case(lambda x, lambd=0.5: np.where((x >= -lambd) & (x <= lambd), 0, x), numbers=(0.7,)),
    "threshold": Case(lambda x, threshold, value: np.where(x <= threshold, value, x), numbers=(1, 7)),
    "hardsigmoid": unary(lambda x: clip6(x) / 6),
    "hardswish": unary(lambda x: x * clip6(x) / 6, special=""),
    "prelu": Case(lambda x, weight: np.where(x > 0, x, weight * x)),
    # elementwise losses
    "squared_error": Case(lambda x, target: (x - target) ** 2),
    "absolute_error": Case(lambda x, target: np.abs(x - target)),
    "smooth_l1": Case(smooth_l1, numbers=(1.5,)),
    "huber": Case(huber, numbers=(1.5,)),
    "binary_cross_entropy": Case(binary_cross_entropy, (0.05,), (0.95,), special="", points=([0.2, 0.7], [0.9, 0.4])),
    "binary_cross_entropy_with_logits": Case(with_logits, (-3.0, 0.0, 0.5), (3.0, 1.0, 2.0), special="", points=([-1.3, 0.4], [0.9, 0.4], [0.7, 1.6]), rtol=1e-5),
}
CONSTANT = {"index", "fill", "arange", "linspace", "random_uniform", "random_normal", "random_below", "uniform", "normal", "randint"}
RANDOM = {"bernoulli", "dropout"}
FIRST_IS_CONSTANT = {"polygamma", "zeta", "gammainc", "gammaincc"}  # no library has a gradient for their first input
POINTS = ([-1.3, 0.4, 2.1], [0.7, -0.9, 1.2], [1.6, 0.8, -0.3])
NAMES = list(REFERENCES)
FLOATING = [name for name in NAMES if name in rows and "f" in rows[name].accepts]
POSITIVE = set("lgamma digamma polygamma zeta gammainc gammaincc ndtri bessel_y0 bessel_y1".split()) | {name for name in NAMES if "bessel_k" in name}  # as written here
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
    wide = [each.astype(np.float64) if each.dtype.kind == "f" else each for each in arrays]
    with np.errstate(all="ignore"):
        return np.asarray(REFERENCES[name].reference(*wide, *numbers))


def check(name, result, reference, factor=1.0):
    """Values, and that a float result did not change its width."""
    kind = result.dtype.numpy
    with np.errstate(over="ignore"):
        reference = reference.astype(kind)
    rtol = REFERENCES[name].rtol * factor if kind == np.float32 else 1e-12 * max(1.0, REFERENCES[name].rtol / 2e-6)
    assert result.shape == reference.shape
    np.testing.assert_allclose(result.detach().numpy(), reference, rtol=rtol, atol=rtol if kind.kind == "f" else 0, equal_nan=True)


def test_every_row_has_a_reference():
    assert set(rows) - set(REFERENCES) == CONSTANT | RANDOM


def test_every_reference_has_a_row():
    assert not set(REFERENCES) - set(rows)


# ---- values and layouts


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FLOATING)
def test_dense(name, dtype):
    arrays, numbers = sample(name, [(3, 7)] * tensors_of(name), dtype), REFERENCES[name].numbers
    result = rows[name](*map(numod.tensor, arrays), *numbers)
    assert result.dtype is (numod.bool if rows[name].result == "bool" else numod.dtypes.from_numpy(dtype))
    check(name, result, expected(name, arrays, numbers))


@pytest.mark.parametrize("name", FLOATING)
def test_transposed_sliced_and_broadcast(name):
    """The first input transposed and sliced with a step, the second a sliced row, the third a column."""
    wholes = sample(name, [(9, 8), (9,), (4, 1)][: tensors_of(name)])
    take = [lambda x: x.T[::2, 1::3], lambda x: x[::3], lambda x: x]
    arrays = [cut(each) for cut, each in zip(take, wholes)]
    places = [lambda x: x.T[::2, 1::3], lambda x: x[::3], lambda x: x]
    inputs = [cut(numod.tensor(each)) for cut, each in zip(places, wholes)]
    assert not inputs[0].is_contiguous()
    result = rows[name](*inputs, *REFERENCES[name].numbers)
    check(name, result, expected(name, arrays, REFERENCES[name].numbers))


@pytest.mark.parametrize("name", FLOATING)
def test_empty(name):
    inputs = [numod.zeros(2, 0, 3)] * tensors_of(name)
    result = rows[name](*inputs, *REFERENCES[name].numbers)
    assert result.shape == (2, 0, 3)
    assert rows[name](*[each.permute(2, 0, 1) for each in inputs], *REFERENCES[name].numbers).shape == (3, 2, 0)


@pytest.mark.parametrize("name", FLOATING)
def test_zero_dimensional(name):
    arrays, numbers = sample(name, [()] * tensors_of(name)), REFERENCES[name].numbers
    result = rows[name](*map(numod.tensor, arrays), *numbers)
    assert result.shape == ()
    check(name, result, expected(name, arrays, numbers))


@pytest.mark.parametrize("name", BINARY)
def test_number_as_second_input(name):
    (x, y) = sample(name, [(6,), ()])
    result = rows[name](numod.tensor(x), float(y))
    assert result.dtype in (numod.float32, numod.bool)
    check(name, result, expected(name, [x, np.full(6, y, np.float32)]))


@pytest.mark.parametrize("name", ["add", "sub", "div", "pow", "lt", "atan2", "maximum", "fmod"])
def test_number_as_first_input(name):
    (x, y) = sample(name, [(), (6,)])
    check(name, rows[name](float(x), numod.tensor(y)), expected(name, [np.full(6, x, np.float32), y]))


def test_packed_inputs_keep_their_strides():
    x = numod.tensor(np.arange(6.0, dtype=np.float32).reshape(2, 3)).t()
    assert (x + x).stride() == x.stride() == (1, 3)


def test_broadcast_over_new_dimensions():
    x, y = np.arange(12.0, dtype=np.float32).reshape(3, 1, 4), np.arange(10.0, dtype=np.float32).reshape(2, 1, 5, 1)
    np.testing.assert_array_equal((numod.tensor(x) * numod.tensor(y)).numpy(), x * y)


def test_sizes_that_do_not_broadcast():
    with pytest.raises(RuntimeError, match=r"size of tensor a \(3\) must match the size of tensor b \(4\) at non-singleton dimension 1"):
        numod.ones(2, 3) + numod.ones(2, 4)


def test_no_tensor():
    with pytest.raises(TypeError, match="at least one Tensor"):
        rows["add"](1.0, 2.0)


def test_missing_input():
    with pytest.raises(TypeError, match=r"clamp\(\) takes inputs \(x, min, max\)"):
        rows["clamp"](numod.ones(2))


def test_parallel_loop_equals_serial_loop():
    """Past the threshold of work a kernel runs on threads; dense and strided."""
    x = np.random.default_rng(0).standard_normal((1200, 900)).astype(np.float32)
    a = numod.tensor(x)
    np.testing.assert_array_equal((a * a).numpy(), x * x)
    np.testing.assert_array_equal((a.t() * numod.tensor(x[:1].repeat(900, 0)[:, :900].copy()[:, :1])).numpy(), x.T * x[:1].repeat(900, 0)[:, :1])


# ---- special values


def special_inputs(name, dtype):
    """NaN, infinities, zeros of both signs, subnormal and huge values; all pairs where there are two inputs."""
    values = np.array(SPECIAL, dtype)
    if tensors_of(name) == 1:
        return [values]
    first, second = (each.ravel() for each in np.meshgrid(values, values))
    return [first, second] if tensors_of(name) == 2 else [first, second, second[::-1].copy()]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [name for name in FLOATING if REFERENCES[name].special])
def test_special_values(name, dtype):
    arrays, numbers = special_inputs(name, dtype), REFERENCES[name].numbers
    result = rows[name](*map(numod.tensor, arrays), *numbers).numpy()
    kind = result.dtype
    with np.errstate(all="ignore"):
        reference = expected(name, arrays, numbers).astype(kind)
        alone = np.asarray(REFERENCES[name].reference(*arrays, *(np.asarray(n, dtype) for n in numbers))).astype(kind)
    rtol = 1e-5 if kind == np.float32 else 1e-12
    agrees = np.isclose(result, reference, rtol=rtol, atol=1e-6, equal_nan=True) | np.isclose(result, alone, rtol=rtol, atol=1e-6, equal_nan=True)
    wrong = np.flatnonzero(~agrees)[:5]
    assert not wrong.size, [([float(each[k]) for each in arrays], float(result[k]), float(reference[k])) for k in wrong]
    if REFERENCES[name].special == "exact":
        zeros = np.flatnonzero((reference == 0) & (np.signbit(result) != np.signbit(reference)))[:5]
        assert not zeros.size, [([float(each[k]) for each in arrays], float(result[k]), float(reference[k])) for k in zeros]


@pytest.mark.parametrize("name", ["sigmoid", "softplus", "logsigmoid", "silu", "mish", "elu", "selu", "logaddexp", "tanh", "gelu", "celu", "hardswish"])
def test_gradient_is_finite_where_the_function_is_flat(name):
    """The part of a formula that is not chosen must not overflow into the gradient."""
    x = numod.tensor([-200.0, -50.0, 0.0, 50.0, 200.0], requires_grad=True)
    others = (numod.zeros(5),) if name == "logaddexp" else REFERENCES[name].numbers
    rows[name](x, *others).sum().backward()
    assert bool(numod.isfinite(x.grad).all())


def test_binary_cross_entropy_is_clamped():
    loss = rows["binary_cross_entropy"](numod.tensor([0.0, 1.0, 0.0, 1.0]), numod.tensor([1.0, 0.0, 0.0, 1.0]))
    assert loss.tolist() == [100.0, 100.0, 0.0, 0.0]


def test_with_logits_does_not_overflow():
    loss = rows["binary_cross_entropy_with_logits"](numod.tensor([-1000.0, 1000.0, 1000.0]), numod.tensor([0.0, 1.0, 0.0]))
    assert loss.tolist() == [0.0, 0.0, 1000.0]


def test_lerp_meets_both_ends():
    x, end = numod.tensor([0.1, 1e8]), numod.tensor([0.7, 1.0])
    assert rows["lerp"](x, end, 0.0).tolist() == x.tolist()
    assert rows["lerp"](x, end, 1.0).tolist() == end.tolist()


# ---- integers and bool


def integers(name, dtype):
    """Small integers (nonzero in divisors, shifts and exponents within range), and some of the greatest."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    low = 0 if dtype == np.uint8 else -9
    values = [generator.integers(low, 10, 24).astype(dtype) for _ in range(tensors_of(name))]
    if name in ("floor_divide", "trunc_divide", "remainder", "fmod"):
        values[1] = np.where(values[1] == 0, 3, values[1]).astype(dtype)
    if "shift" in name or name == "pow":
        values[1] = np.abs(values[1]) % 5
    return values


def expected_of_integers(name, arrays):
    row, case = rows[name], REFERENCES[name]
    if row.result == "float":
        return expected(name, [each.astype(np.float32) for each in arrays], case.numbers)
    with np.errstate(all="ignore"):
        return np.asarray((case.integer or case.reference)(*arrays, *case.numbers))


@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
@pytest.mark.parametrize("name", INTEGRAL)
def test_integers(name, dtype):
    if dtype == np.uint8 and REFERENCES[name].numbers and name != "threshold":
        pytest.skip("its numbers do not fit in uint8")
    if name == "nan_to_num":
        pytest.skip("the public function returns integers unchanged")
    if name == "signbit" and dtype == np.uint8:
        pytest.skip("NumPy has no sign bit of an unsigned integer; see test_signbit_of_unsigned")
    arrays = integers(name, dtype)
    result = rows[name](*map(numod.tensor, arrays), *REFERENCES[name].numbers)
    wanted = {"bool": numod.bool, "float": numod.float32, "same": numod.dtypes.from_numpy(dtype)}[rows[name].result]
    assert result.dtype is wanted
    check(name, result, expected_of_integers(name, arrays), 4.0)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
@pytest.mark.parametrize("name", ["add", "floor_divide", "lt", "exp"])
def test_other_integers(name, dtype):
    arrays = integers(name, dtype)
    check(name, rows[name](*map(numod.tensor, arrays)), expected_of_integers(name, arrays), 4.0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64])
def test_integer_arithmetic_wraps(dtype):
    x, y = np.array([np.iinfo(dtype).max, np.iinfo(dtype).min, 3], dtype), np.array([2, 1, 5], dtype)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal((numod.tensor(x) + numod.tensor(y)).numpy(), x + y)
        np.testing.assert_array_equal((numod.tensor(x) - numod.tensor(y)).numpy(), x - y)
        np.testing.assert_array_equal((numod.tensor(x) * numod.tensor(y)).numpy(), x * y)


def test_large_integers_are_exact():
    x = numod.tensor([2**62, -(2**53) - 1])
    assert (x + 1).tolist() == [2**62 + 1, -(2**53)]
    assert (x // 3).tolist() == [2**62 // 3, (-(2**53) - 1) // 3]
    assert (x == numod.tensor([2**62, -(2**53)])).tolist() == [True, False]


@pytest.mark.parametrize("name, wanted", [
    ("add", [True, True, True, False]), ("mul", [True, False, False, False]), ("maximum", [True, True, True, False]), ("minimum", [True, False, False, False]),
    ("eq", [True, False, False, True]), ("lt", [False, False, True, False]), ("logical_xor", [False, True, True, False]), ("bitwise_and", [True, False, False, False]),
    ("bitwise_or", [True, True, True, False]), ("bitwise_xor", [False, True, True, False]),
])  # fmt: skip
def test_bool(name, wanted):
    result = rows[name](numod.tensor([True, True, False, False]), numod.tensor([True, False, True, False]))
    assert result.dtype is numod.bool
    assert result.tolist() == wanted


@pytest.mark.parametrize("name", ["exp", "sigmoid", "sqrt"])
def test_bool_to_float(name):
    check(name, rows[name](numod.tensor([True, False])), expected(name, [np.array([1.0, 0.0])]))


def test_signbit_of_unsigned():
    assert rows["signbit"](numod.tensor([0, 255], dtype=numod.uint8)).tolist() == [False, False]


REFUSED = [(name, kind) for name in NAMES if name in rows for kind in "buif" if kind not in rows[name].accepts]


@pytest.mark.parametrize("name, kind", REFUSED)
def test_refuses_other_dtypes(name, kind):
    dtype = {"b": numod.bool, "u": numod.uint8, "i": numod.int64, "f": numod.float32}[kind]
    numbers = (True,) * len(REFERENCES[name].numbers) if kind == "b" else (1,) * len(REFERENCES[name].numbers)
    words = "Negation, .* on a bool tensor is not supported" if (name, kind) == ("neg", "b") else f"\"{name}\" not implemented for '{dtype.short}'"
    with pytest.raises(RuntimeError, match=words):
        rows[name](*[numod.ones(2, dtype=dtype)] * tensors_of(name), *numbers)


# ---- gradients

DIFFERENTIABLE = [name for name in FLOATING if rows[name].differentiable]


def gradient_inputs(name):
    case, count = REFERENCES[name], tensors_of(name)
    points = case.points
    if points is None:
        thirds = [(case.low[min(k, len(case.low) - 1)], case.high[min(k, len(case.high) - 1)]) for k in range(count)]
        usual = case.low == (-3.0,) and case.high == (3.0,)
        points = POINTS if usual else [[low + (high - low) * share for share in (0.21 + 0.1 * k, 0.47 - 0.1 * k, 0.83)] for k, (low, high) in enumerate(thirds)]
    return [numod.tensor(each, dtype=numod.float64) for each in points[:count]]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_to_second_order(name):
    inputs = gradient_inputs(name)
    if name == "where":
        inputs[0] = numod.tensor([True, False, True])
    inputs = [each.requires_grad_(each.is_floating_point() and not (k == 0 and name in FIRST_IS_CONSTANT)) for k, each in enumerate(inputs)]

    def function(*given):
        return rows[name](*given, *REFERENCES[name].numbers)

    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


@pytest.mark.parametrize("name", ["mul", "div", "atan2", "prelu"])
def test_gradients_of_broadcast_and_strided_inputs(name):
    x = numod.tensor(np.linspace(0.3, 2.1, 12).reshape(3, 4), requires_grad=True)
    y = numod.tensor(np.linspace(0.5, 1.7, 6), requires_grad=True)
    assert gradcheck(lambda x, y: rows[name](x.t(), y[::2]), (x, y))


@pytest.mark.parametrize("name, x, wanted", [
    ("abs", [0.0, -0.0], [0.0, 0.0]), ("relu", [0.0, -0.0], [0.0, 0.0]), ("sign", [0.0, 2.0], [0.0, 0.0]), ("sinc", [0.0], [0.0]),
    ("hardsigmoid", [-3.0, 3.0], [0.0, 0.0]), ("hardswish", [-3.0, 3.0], [0.0, 1.0]), ("softsign", [0.0], [1.0]), ("silu", [0.0], [0.5]),
])  # fmt: skip
def test_gradient_at_a_kink(name, x, wanted):
    x = numod.tensor(x, requires_grad=True)
    rows[name](x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), wanted)


@pytest.mark.parametrize("name, wanted", [("maximum", 0.5), ("minimum", 0.5)])
def test_gradient_of_equal_values_is_shared(name, wanted):
    x, y = numod.tensor([2.0], requires_grad=True), numod.tensor([2.0], requires_grad=True)
    rows[name](x, y).sum().backward()
    assert (x.grad.item(), y.grad.item()) == (wanted, wanted)


def test_gradient_of_clamp_at_its_bounds():
    x = numod.tensor([-1.0, 2.0, 3.0], requires_grad=True)
    x.clamp(-1.0, 2.0).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("x, y, wanted", [(0.0, 0.0, (0.0, 0.0)), (0.0, 1.0, (1.0, 0.0)), (0.0, 2.0, (0.0, 0.0)), (0.0, -1.0, (-INF, -INF)), (-2.0, 3.0, (12.0, NAN))])
def test_gradient_of_pow_at_zero_and_below(x, y, wanted):
    x, y = numod.tensor(x, requires_grad=True), numod.tensor(y, requires_grad=True)
    (x**y).backward()
    np.testing.assert_array_equal([x.grad.item(), y.grad.item()], wanted)


def test_where_stops_the_gradient_of_the_other_side():
    """A NaN in the part not chosen must not reach the gradient of the chosen one."""
    x = numod.tensor([0.0, 4.0], requires_grad=True)
    numod.where(x > 0, x.detach().sqrt() * x, x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


# ---- in place and out=


@pytest.mark.parametrize("name", ["exp", "neg", "sigmoid", "relu", "floor"])
def test_in_place_unary(name):
    (x,) = sample(name, [(5,)])
    tensor = numod.tensor(x)
    assert getattr(tensor, f"{name}_")() is tensor
    check(name, tensor, expected(name, [x]))


def test_in_place_on_a_slice():
    x = numod.zeros(3, 4)
    x[:, 1::2].add_(numod.tensor([1.0, 2.0]))
    assert x.tolist() == [[0.0, 1.0, 0.0, 2.0]] * 3


def test_in_place_reads_before_it_writes():
    """An input that overlaps the target is read as it was."""
    x = numod.arange(6)
    x[1:].add_(x[:-1])
    assert x.tolist() == [0, 1, 3, 5, 7, 9]


def test_in_place_does_not_broadcast_the_target():
    with pytest.raises(RuntimeError, match=r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]"):
        numod.ones(3).add_(numod.ones(2, 3))


def test_in_place_does_not_lower_the_category():
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        numod.ones(3, dtype=numod.int64).add_(numod.ones(3))


def test_in_place_refuses_expanded_targets():
    with pytest.raises(RuntimeError, match="single memory location"):
        numod.zeros(1).expand(3).add_(1)


def test_out():
    out = numod.empty(3)
    assert numod.exp(numod.zeros(3), out=out) is out
    assert out.tolist() == [1.0, 1.0, 1.0]


# ---- rows without tensor inputs


def constant(name, inputs, shape, dtype=numod.float64):
    return apply(rows[name], inputs, (dtype, numod.device("cpu"), shape)).numpy()


def philox(seed, counter, block=0):
    """Philox4x32-10 (Salmon et al., 2011) in Python integers: four words for a 64-bit key and the counter (counter, block)."""
    mask = 0xFFFFFFFF
    key, words = [seed & mask, seed >> 32 & mask], [counter & mask, counter >> 32 & mask, block, 0]
    for _ in range(10):
        a, b = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [(b >> 32) ^ words[1] ^ key[0], b & mask, (a >> 32) ^ words[3] ^ key[1], a & mask]
        key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
    return words


def unit(high, low, wide=True):
    """A number in [0, 1): 53 bits of two words, or 24 of the first."""
    return (high << 21 | low >> 11) / 2**53 if wide else (high >> 8) / 2**24


def uniforms(seed, offset, count, wide=True):
    places = [(offset + k // 4, k % 4) for k in range(count)]
    return np.array([unit(philox(seed, counter)[lane], philox(seed, counter, 1)[lane], wide) for counter, lane in places])


def normals(seed, offset, count, wide=True):
    """Box and Muller, 1958."""
    words = [philox(seed, offset + k) for k in range(count)]
    pairs = [(unit(w[0], w[1], wide), unit(w[2], w[3], wide)) for w in words]
    return np.array([math.sqrt(-2 * math.log(1 - u)) * math.cos(2 * math.pi * v) for u, v in pairs])


def belows(seed, offset, bound, count):
    words = [philox(seed, offset + k) for k in range(count)]
    return np.array([((w[0] << 32 | w[1]) >> 1) % bound for w in words])


def test_philox_known_answers():
    """From the authors' Random123, kat_vectors."""
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_index_counts_in_row_major_order():
    np.testing.assert_array_equal(constant("index", (), (2, 3), numod.int64), [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize("dtype", [numod.float32, numod.int64, numod.uint8, numod.bool])
def test_fill(dtype):
    np.testing.assert_array_equal(constant("fill", (1,), (2, 3), dtype), np.ones((2, 3), dtype.numpy))


def test_arange_row():
    np.testing.assert_allclose(constant("arange", (0.5, 0.25), (5,)), np.arange(5) * 0.25 + 0.5)


def test_linspace_row():
    np.testing.assert_allclose(constant("linspace", (-1.0, 3.0, 4.0 / 6, 3, 6), (7,)), np.linspace(-1, 3, 7), rtol=1e-15)


SEED = 0x1234_5678_9ABC


@pytest.mark.parametrize("offset", [0, 5, 2**32 - 1])
def test_random_uniform(offset):
    np.testing.assert_array_equal(constant("random_uniform", (SEED, offset), (11,)), uniforms(SEED, offset, 11))


def test_random_numbers_of_float32():
    """24 bits, exact; the same leading bits as in float64."""
    np.testing.assert_array_equal(constant("random_uniform", (SEED, 5), (11,), numod.float32), uniforms(SEED, 5, 11, False).astype(np.float32))
    np.testing.assert_allclose(constant("random_normal", (SEED, 5), (11,), numod.float32), normals(SEED, 5, 11, False), rtol=2e-5, atol=1e-6)


def test_random_normal():
    np.testing.assert_allclose(constant("random_normal", (SEED, 7), (11,)), normals(SEED, 7, 11), rtol=1e-12, atol=1e-14)


def test_random_below():
    np.testing.assert_array_equal(constant("random_below", (SEED, 7, 10), (11,), numod.int64), belows(SEED, 7, 10, 11))


def test_uniform_row():
    np.testing.assert_allclose(constant("uniform", (SEED, 3, -2.0, 4.0), (2, 5)), uniforms(SEED, 3, 10).reshape(2, 5) * 6 - 2, rtol=1e-14, atol=1e-14)


def test_normal_row():
    np.testing.assert_allclose(constant("normal", (SEED, 3, 1.0, 2.0), (2, 5)), normals(SEED, 3, 10).reshape(2, 5) * 2 + 1, rtol=1e-12, atol=1e-13)


def test_randint_row():
    np.testing.assert_array_equal(constant("randint", (SEED, 3, -4, 9), (10,), numod.int64), belows(SEED, 3, 9, 10) - 4)


def test_bernoulli_row():
    p = np.linspace(0, 1, 12).reshape(3, 4)
    result = rows["bernoulli"](numod.tensor(p), SEED, 3).numpy()
    np.testing.assert_array_equal(result, uniforms(SEED, 3, 12).reshape(3, 4) < p)


def test_bernoulli_of_a_transposed_tensor_counts_in_row_major_order():
    p = np.full((3, 4), 0.5)
    result = rows["bernoulli"](numod.tensor(p).t(), SEED, 3).numpy()
    np.testing.assert_array_equal(result, uniforms(SEED, 3, 12).reshape(4, 3) < 0.5)


def test_dropout_row_and_gradient():
    x = numod.tensor(np.arange(1.0, 13.0), requires_grad=True)
    result = rows["dropout"](x, 0.25, SEED, 3)
    kept = uniforms(SEED, 3, 12) >= 0.25
    np.testing.assert_allclose(result.detach().numpy(), np.where(kept, np.arange(1.0, 13.0) / 0.75, 0.0))
    result.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), kept / 0.75)


def test_rows_of_any_order_and_runs_are_addressed_right():
    draw = random.Random(1)
    for _ in range(60):
        shape = [draw.choice([1, 2, 3, 5, 9, 17]) for _ in range(draw.randint(2, 4))]
        order = draw.sample(range(len(shape)), len(shape))
        x, y = np.random.default_rng(0).standard_normal((2, *shape))
        cut = tuple(slice(draw.randint(0, 1), None, draw.randint(1, 2)) for _ in shape)
        turned, plain = numod.tensor(x).permute(order)[cut], numod.tensor(y.transpose(order)[cut].copy())
        assert np.array_equal((turned * plain).numpy(), x.transpose(order)[cut] * y.transpose(order)[cut])
        target = numod.zeros(*shape, dtype=numod.float64).permute(order)[cut]
        assert np.array_equal(target.copy_(plain).numpy(), y.transpose(order)[cut])
