"""The table of pointwise ops: one row per formula, with its gradients. Everything else is derived from the row.

A string is an operation of every target; a lambda is composed of other rows and inlined. `g` is the gradient of the
result. Conventions: no branches (`where`), no overflow in the branch not taken, NaN propagates, gradients at kinks as
in PyTorch. Inputs of a lambda without a gradient rule are differentiated symbolically; strings need explicit rules.
"""

from __future__ import annotations

from ..kernel.expression import Formula
from .pointwise import pointwise, rows

NUMBER, INTEGER, FLOAT = "uif", "bui", "f"  # kinds of dtypes that a row accepts
ALL_REAL = "buwif"  # also uint16, uint32 and uint64, in the rows where PyTorch accepts them
NAN = float("nan")


def acosh_derivative(x):
    """1 / sqrt(x^2 - 1) on the branch of the complex acosh; for x below -1, where acosh is NaN, PyTorch's value."""
    slope = rsqrt(x + 1.0) * rsqrt(x - 1.0)
    return where(slope == slope, slope, rsqrt(x * x - 1.0))


def near_zero(x):
    """x clamped to [-30, 30]: beyond, the gate of `gelu_tanh` is 0 or 1, and x^3 could overflow."""
    return minimum(maximum(x, -30.0), 30.0)


def tanh_gate(x):
    """Twice the argument u of tanh in `gelu_tanh`, since (1 + tanh(u)) / 2 = sigmoid(2 u) loses no digits."""
    return 1.5957691216057308 * (x + 0.044715 * x * x * x)


def tanh_gate_derivative(x):
    """The derivative of x sigmoid(tanh_gate(x)).

    One exponential gives both the gate and 1 - gate without cancellation.
    """
    argument = tanh_gate(x)
    exponential = exp(-abs(argument))
    large = 1.0 / (1.0 + exponential)
    small = exponential * large
    gate, complement = where(argument >= 0.0, large, small), where(argument >= 0.0, small, large)
    return gate * (1.0 + x * complement * (1.5957691216057308 + 0.21406444881780073 * x * x))


def silu_derivative(x):
    """The derivative of x sigmoid(x)."""
    gate = sigmoid(x)
    return gate * (1.0 + x * (1.0 - gate))


def mish_gate(x):
    """tanh(softplus(x)) = n / (n + 2) with n = e (e + 2), e = exp(x); 1 beyond 40."""
    exponential = exp(minimum(x, 40.0))
    square = exponential * (exponential + 2.0)
    return square / (square + 2.0)


def mish_derivative(x):
    """The derivative of x mish_gate(x)."""
    limited = minimum(x, 40.0)
    exponential = exp(limited)
    square = exponential * (exponential + 2.0)
    share = 1.0 / (square + 2.0)
    return square * share + limited * (4.0 * exponential * (exponential + 1.0) * share * share)


def sinc_derivative(x):
    """The derivative of sinc. A Taylor series below 1/4, where (cos(pi x) - sinc(x)) / x cancels."""
    is_small = near_origin.express(x)
    inner, divisor = where(is_small, x, 0.0), where(is_small, 1.0, x)
    square = 9.869604401089358 * inner * inner
    terms = (-1 / 10, 1 / 280, -1 / 15120, 1 / 1330560, -1 / 172972800, 1 / 31135104000, -1 / 7410154752000)
    series = 0.0
    for term in reversed(terms):
        series = square * (series + term)
    return where(
        is_small,
        -3.289868133696453 * inner * (1.0 + series),
        (cos(3.141592653589793 * divisor) - sinc(divisor)) / divisor,
    )


def share_of_squares(x, y):
    """x / (x^2 + y^2), computed by ratios, since squares may overflow or underflow. 0 if both are 0."""
    larger = where(abs(x) >= abs(y), x, y)
    ratio = where(abs(x) >= abs(y), y, x) / larger
    return where(larger == 0.0, 0.0, where(abs(x) >= abs(y), 1.0, ratio) / larger / (1.0 + ratio * ratio))


def cross_entropy_derivative(x, negative, positive):
    """negative * sigmoid(x) - positive * sigmoid(-x), with one exponential and one division."""
    exponential = exp(-abs(x))
    return where(x >= 0.0, negative - positive * exponential, negative * exponential - positive) / (1.0 + exponential)


def zero(g):
    """The gradient of a step function."""
    return 0.0


# ---- arithmetic

add = pointwise("add", "x + y", dx=lambda g: g, dy=lambda g: g, complex=True)
sub = pointwise("sub", "x - y", dx=lambda g: g, dy=lambda g: -g, accepts=NUMBER, complex=True)
mul = pointwise("mul", "x * y", dx=lambda g, y: g * y, dy=lambda g, x: g * x, complex=True, accepts=ALL_REAL)
div = pointwise(
    "div",
    "x / y",
    dx=lambda g, y: g / y,
    dy=lambda g, x, y: -g * (x / y / y),
    result="float",
    complex="complex_quotient(x, y)",
)
neg = pointwise("neg", "-x", dx=lambda g: -g, accepts=NUMBER, complex=True)
abs = pointwise("abs", "fabs(x)", integer="x if x >= 0 else -x", dx=lambda g, x: g * sign(x), accepts=NUMBER)
add_scaled = pointwise("add_scaled", lambda x, y, alpha: x + alpha * y, complex=True, fitting=True)
near_origin = Formula(
    "near_origin", "fabs(x) < 0.25", {}, result="bool", complex="x.real * x.real + x.imag * x.imag < 0.0625"
)
nonnegative = Formula("nonnegative", "x >= 0", {}, result="bool", complex="x.real >= 0")
square = pointwise("square", lambda x: x * x, dx=lambda g, x: 2.0 * g * x, result="number", complex=True)
cube = pointwise("cube", lambda x: x * x * x, dx=lambda g, x: 3.0 * g * x * x, complex=True)
reciprocal = pointwise("reciprocal", lambda x: 1.0 / x, dx=lambda g, out: -g * out * out, result="float", complex=True)
# x ** -1: PyTorch saves its input
inverse = pointwise("inverse", lambda x: 1.0 / x, dx=lambda g, x: -g / (x * x), result="float", complex=True)
pow = pointwise(
    "pow",
    "power(x, y)",
    integer="whole_power(x, y)",
    dx=lambda g, x, y: where(y == 0.0, 0.0, g * y * pow(x, y - 1.0)),
    dy=lambda g, x, y, out: where((x == 0.0) & nonnegative.express(y), 0.0, g * out * log(x)),
    complex="complex_power(x, y)",
    fitting=("y",),
)
floor_divide = pointwise(
    "floor_divide", "floor_quotient(x, y)", integer="whole_quotient(x, y)", dx=zero, dy=zero, accepts=NUMBER
)
trunc_divide = pointwise("trunc_divide", "trunc(x / y)", integer="truncated(x, y)", dx=zero, dy=zero, accepts=NUMBER)
remainder = pointwise(
    "remainder",
    "modulus(x, y)",
    integer="x - whole_quotient(x, y) * y",
    dx=lambda g: g,
    dy=lambda g, x, y: -g * floor_divide(x, y),
    accepts=NUMBER,
)
fmod = pointwise(
    "fmod",
    "fmod(x, y)",
    integer="x - truncated(x, y) * y",
    dx=lambda g: g,
    dy=lambda g, x, y: -g * trunc(x / y),
    accepts=NUMBER,
)
maximum = pointwise(
    "maximum",
    "x if (x > y) | (x != x) else y",
    dx=lambda g, x, y: where(x == y, 0.5 * g, where(x < y, 0.0, g)),
    dy=lambda g, x, y: where(x == y, 0.5 * g, where(x > y, 0.0, g)),
)
minimum = pointwise(
    "minimum",
    "x if (x < y) | (x != x) else y",
    dx=lambda g, x, y: where(x == y, 0.5 * g, where(x > y, 0.0, g)),
    dy=lambda g, x, y: where(x == y, 0.5 * g, where(x < y, 0.0, g)),
)
larger = pointwise("larger", "larger(x, y)", integer="x if x > y else y")  # `maximum` for reductions: -0 is less than 0
smaller = pointwise("smaller", "smaller(x, y)", integer="x if x < y else y")
fmax = pointwise(
    "fmax",
    lambda x, y: where(isnan(x), y, where(isnan(y), x, maximum(x, y))),
    dx=lambda g, x, y: where((x >= y) | isnan(y), g, 0.0),
    dy=lambda g, x, y: where((x >= y) | isnan(y), 0.0, g),
)
fmin = pointwise(
    "fmin",
    lambda x, y: where(isnan(x), y, where(isnan(y), x, minimum(x, y))),
    dx=lambda g, x, y: where((x <= y) | isnan(y), g, 0.0),
    dy=lambda g, x, y: where((x <= y) | isnan(y), 0.0, g),
)
clamp = pointwise(
    "clamp",
    lambda x, min, max: minimum(maximum(x, min), max),
    dx=lambda g, x, min, max: where((x >= min) & (x <= max), g, 0.0),
    dmin=lambda g, x, min, max: where((x < min) & (min < max), g, 0.0),
    dmax=lambda g, x, min, max: where((x > max) | (max < min), g, 0.0),
    accepts=NUMBER,
    fitting=True,
)
clamp_min = pointwise(
    "clamp_min",
    lambda x, min: maximum(x, min),
    dx=lambda g, x, min: where(x >= min, g, 0.0),
    dmin=lambda g, x, min: where(x < min, g, 0.0),
    accepts=NUMBER,
    fitting=True,
)
clamp_max = pointwise(
    "clamp_max",
    lambda x, max: minimum(x, max),
    dx=lambda g, x, max: where(x <= max, g, 0.0),
    dmax=lambda g, x, max: where(x > max, g, 0.0),
    accepts=NUMBER,
    fitting=True,
)
lerp = pointwise(
    "lerp",
    lambda x, end, weight: where(abs(weight) < 0.5, x + weight * (end - x), end - (end - x) * (1.0 - weight)),
    dx=lambda g, weight: g * (1.0 - weight),
    dend=lambda g, weight: g * weight,
    dweight=lambda g, x, end: g * (end - x),
    accepts=FLOAT,
    complex=lambda x, end, weight: x + weight * (end - x),
)
addcmul = pointwise(
    "addcmul", lambda x, tensor1, tensor2, value=1: x + value * tensor1 * tensor2, complex=True, fitting=True
)
addcdiv = pointwise(
    "addcdiv", lambda x, tensor1, tensor2, value=1: x + value * tensor1 / tensor2, accepts=FLOAT, complex=True
)
weighted_sum = pointwise("weighted_sum", lambda x, y, share, other: share * x + other * y, accepts=FLOAT)
inverse_deviation = pointwise("inverse_deviation", lambda var, weight, eps: weight * rsqrt(var + eps), accepts=FLOAT)

# ---- copies and constants

copy = pointwise("copy", "x", dx=lambda g: g, complex=True, accepts=ALL_REAL)
row_major = pointwise("row_major", "x", dx=lambda g: g, keeps_order=False, complex=True, accepts=ALL_REAL)
index = pointwise("index", "index", inputs=())
fill = pointwise("fill", lambda value: value, complex=True, accepts=ALL_REAL)
arange = pointwise("arange", lambda start, step: start + step * index())
linspace = pointwise(
    "linspace",
    lambda start, end, step, half, last: where(index() < half, start + step * index(), end - step * (last - index())),
)

# ---- comparison and logic

eq = pointwise("eq", "x == y", result="bool", complex=True, accepts=ALL_REAL)
ne = pointwise("ne", "x != y", result="bool", complex=True, accepts=ALL_REAL)
lt = pointwise("lt", "x < y", result="bool")
le = pointwise("le", "x <= y", result="bool")
gt = pointwise("gt", "x > y", result="bool")
ge = pointwise("ge", "x >= y", result="bool")
logical_and = pointwise("logical_and", "x & y", result="bool", conditions=("x", "y"), complex=True)
logical_or = pointwise("logical_or", "x | y", result="bool", conditions=("x", "y"), complex=True)
logical_xor = pointwise("logical_xor", "x ^ y", result="bool", conditions=("x", "y"), complex=True)
logical_not = pointwise("logical_not", "not x", result="bool", conditions=("x",), complex=True)
isnan = pointwise("isnan", "x != x", result="bool", complex=True, accepts=ALL_REAL)
isfinite = pointwise("isfinite", "x - x == x - x", integer="x == x", result="bool", complex=True, accepts=ALL_REAL)
isinf = pointwise(
    "isinf", lambda x: logical_not(isfinite(x)) & (x == x), result="bool", complex="complex_isinf(x)", accepts=ALL_REAL
)
isposinf = pointwise("isposinf", lambda x: isinf(x) & (x > 0), result="bool", accepts=ALL_REAL)
isneginf = pointwise("isneginf", lambda x: isinf(x) & (x < 0), result="bool", accepts=ALL_REAL)
signbit = pointwise("signbit", "copysign(real(1.0), x) < 0", integer="x < 0", result="bool", accepts=ALL_REAL)
where = pointwise(
    "where",
    "x if condition else y",
    conditions=("condition",),
    dx=lambda g, condition: where(condition, g, 0.0),
    dy=lambda g, condition: where(condition, 0.0, g),
    complex=True,
    fitting=True,
    accepts=ALL_REAL,
)
bitwise_and = pointwise("bitwise_and", "x & y", accepts=INTEGER + "w")
bitwise_or = pointwise("bitwise_or", "x | y", accepts=INTEGER + "w")
bitwise_xor = pointwise("bitwise_xor", "x ^ y", accepts=INTEGER + "w")
bitwise_not = pointwise("bitwise_not", "~x", accepts="ui")
bitwise_left_shift = pointwise("bitwise_left_shift", "(x << (y & 63)) if (y >= 0) & (y < 64) else 0", accepts="ui")
bitwise_right_shift = pointwise("bitwise_right_shift", "x >> (y if (y >= 0) & (y < 64) else 63)", accepts="ui")

# ---- rounding and signs

sign = pointwise("sign", "int(x > 0) - int(x < 0)", dx=zero)
floor = pointwise("floor", "floor(x)", integer="x", dx=zero, accepts=NUMBER + "w")
ceil = pointwise("ceil", "ceil(x)", integer="x", dx=zero, accepts=NUMBER + "w")
trunc = pointwise("trunc", "trunc(x)", integer="x", dx=zero, accepts=NUMBER + "w")
round = pointwise("round", "round_even(x)", integer="x", dx=zero, accepts=NUMBER + "w")
frac = pointwise("frac", lambda x: x - trunc(x), dx=lambda g: g, accepts=FLOAT)
copysign = pointwise(
    "copysign", "copysign(x, y)", dx=lambda g, x, out: where(x == 0.0, 0.0, g * out / x), dy=zero, result="float"
)
heaviside = pointwise("heaviside", lambda x, values: where(x == 0, values, where(x > 0, 1, 0)), dx=zero, dvalues=zero)
nan_to_num = pointwise(
    "nan_to_num",
    lambda x, nan, posinf, neginf: where(isnan(x), nan, where(isposinf(x), posinf, where(isneginf(x), neginf, x))),
    dx=lambda g, x: where(isfinite(x), g, 0.0),
)

# ---- exponentials and logarithms

exp = pointwise("exp", "exp(x)", dx=lambda g, out: g * out, result="float", complex="complex_exp(x)")
exp2 = pointwise(
    "exp2",
    "exp2(x)",
    dx=lambda g, out: g * out * 0.6931471805599453,
    result="float",
    complex="complex_exp2(x)",
)
expm1 = pointwise("expm1", "expm1(x)", dx=lambda g, x: g * exp(x), result="float", complex="complex_expm1(x)")
log = pointwise("log", "log(x)", dx=lambda g, x: g / x, result="float", complex="complex_log(x)")
log2 = pointwise(
    "log2", "log2(x)", dx=lambda g, x: g / (x * 0.6931471805599453), result="float", complex="complex_log2(x)"
)
log10 = pointwise(
    "log10", "log10(x)", dx=lambda g, x: g / (x * 2.302585092994046), result="float", complex="complex_log10(x)"
)
log1p = pointwise("log1p", "log1p(x)", dx=lambda g, x: g / (x + 1.0), result="float", complex="complex_log1p(x)")
logaddexp = pointwise(
    "logaddexp",
    lambda x, y: where(x == y, x + 0.6931471805599453, maximum(x, y) + log1p(exp(-abs(x - y)))),
    dx=lambda g, x, y: g * sigmoid(x - y),
    dy=lambda g, x, y: g * sigmoid(y - x),
    accepts=FLOAT,
)
sqrt = pointwise("sqrt", "sqrt(x)", dx=lambda g, out: g / (2.0 * out), result="float", complex="complex_sqrt(x)")
deviation = pointwise(
    "deviation", lambda x: sqrt(x), dx=lambda g, out: where(out == 0.0, 0.0, g / (2.0 * out)), result="float"
)
# x ** 0.5: PyTorch saves its input
root = pointwise("root", lambda x: sqrt(x), dx=lambda g, x: 0.5 * g / sqrt(x), result="float", complex=True)
rsqrt = pointwise(
    "rsqrt", lambda x: 1.0 / sqrt(x), dx=lambda g, out: -0.5 * g * out * out * out, result="float", complex=True
)
xlogy = pointwise(
    "xlogy",
    lambda x, y: where(isnan(y), y, where(x == 0.0, 0.0, x * log(y))),
    dx=lambda g, x, y: where((x == 0.0) & (y <= 0.0), 0.0, g * log(y)),
    dy=lambda g, x, y: where(x == 0.0, 0.0, g * x / y),
    result="float",
)
logit = pointwise(
    "logit",
    lambda x: log(x / (1.0 - x)),
    dx=lambda g, x: where((x < 0.0) | (x > 1.0), NAN, g / (x * (1.0 - x))),
    result="float",
)

# ---- trigonometric and hyperbolic

sin = pointwise("sin", "sin(x)", dx=lambda g, x: g * cos(x), result="float", complex="complex_sin(x)")
cos = pointwise("cos", "cos(x)", dx=lambda g, x: -g * sin(x), result="float", complex="complex_cos(x)")
tan = pointwise("tan", "tan(x)", dx=lambda g, out: g * (1.0 + out * out), result="float", complex="complex_tan(x)")
asin = pointwise("asin", "asin(x)", dx=lambda g, x: g * rsqrt(1.0 - x * x), result="float", complex="complex_asin(x)")
acos = pointwise("acos", "acos(x)", dx=lambda g, x: -g * rsqrt(1.0 - x * x), result="float", complex="complex_acos(x)")
atan = pointwise("atan", "atan(x)", dx=lambda g, x: g / (x * x + 1.0), result="float", complex="complex_atan(x)")
atan2 = pointwise(
    "atan2",
    "atan2(x, y)",
    dx=lambda g, x, y: g * share_of_squares(y, x),
    dy=lambda g, x, y: -g * share_of_squares(x, y),
    result="float",
)
sinh = pointwise("sinh", "sinh(x)", dx=lambda g, x: g * cosh(x), result="float", complex="complex_sinh(x)")
cosh = pointwise("cosh", "cosh(x)", dx=lambda g, x: g * sinh(x), result="float", complex="complex_cosh(x)")
tanh = pointwise("tanh", "tanh(x)", dx=lambda g, out: g * (1.0 - out * out), result="float", complex="complex_tanh(x)")
asinh = pointwise(
    "asinh", "asinh(x)", dx=lambda g, x: g * rsqrt(x * x + 1.0), result="float", complex="complex_asinh(x)"
)
acosh = pointwise(
    "acosh", "acosh(x)", dx=lambda g, x: g * acosh_derivative(x), result="float", complex="complex_acosh(x)"
)
atanh = pointwise("atanh", "atanh(x)", dx=lambda g, x: g / (1.0 - x * x), result="float", complex="complex_atanh(x)")
hypot = pointwise(
    "hypot", "hypot(x, y)", dx=lambda g, x, out: g * (x / out), dy=lambda g, y, out: g * (y / out), accepts=FLOAT
)
sinc = pointwise(
    "sinc",
    lambda x: where(x == 0.0, 1.0, sin(3.141592653589793 * x) / (3.141592653589793 * where(x == 0.0, 1.0, x))),
    dx=lambda g, x: g * sinc_derivative(x),
    result="float",
    complex=True,
)
deg2rad = pointwise("deg2rad", lambda x: x * 0.017453292519943295, result="float")
rad2deg = pointwise("rad2deg", lambda x: x * 57.29577951308232, result="float")

# ---- error function

erf = pointwise("erf", "erf(x)", dx=lambda g, x: 1.1283791670955126 * g * exp(-x * x), result="float")
erfc = pointwise("erfc", "erfc(x)", dx=lambda g, x: -1.1283791670955126 * g * exp(-x * x), result="float")
erfinv = pointwise("erfinv", "erfinv(x)", dx=lambda g, out: 0.886226925452758 * g * exp(out * out), result="float")
normal_cdf = pointwise(
    "normal_cdf", "normal_cdf(x)", dx=lambda g, x: 0.3989422804014327 * g * exp(-0.5 * x * x), accepts=FLOAT
)

# ---- activations

sigmoid = pointwise(
    "sigmoid",
    "sigmoid_of(x)",
    dx=lambda g, out: g * out * (1.0 - out),
    result="float",
    complex=lambda x: 1.0 / (1.0 + exp(-x)),
)
relu = pointwise("relu", lambda x: maximum(x, 0), dx=lambda g, out: where(out <= 0.0, 0.0, g), accepts=NUMBER)
hardtanh = pointwise(
    "hardtanh",
    lambda x, min_val=-1.0, max_val=1.0: minimum(maximum(x, min_val), max_val),
    dx=lambda g, x, min_val, max_val: where((x > min_val) & (x < max_val), g, 0.0),
    accepts=NUMBER,
    fitting=True,
)
leaky_relu = pointwise(
    "leaky_relu", lambda x, negative_slope=0.01: where(x > 0.0, x, negative_slope * x), accepts=FLOAT
)
elu = pointwise(
    "elu",
    lambda x, alpha=1.0: where(x > 0.0, x, alpha * expm1(minimum(x, 0.0))),
    dx=lambda g, x, alpha: where(x > 0.0, g, g * alpha * exp(minimum(x, 0.0))),
    accepts=FLOAT,
)
selu = pointwise(
    "selu",
    lambda x: 1.0507009873554805 * where(x > 0.0, x, 1.6732632423543772 * expm1(minimum(x, 0.0))),
    dx=lambda g, x: 1.0507009873554805 * where(x > 0.0, g, g * 1.6732632423543772 * exp(minimum(x, 0.0))),
    accepts=FLOAT,
)
celu = pointwise(
    "celu",
    lambda x, alpha=1.0: where(x > 0.0, x, alpha * expm1(minimum(x, 0.0) / alpha)),
    dx=lambda g, x, alpha: where(x > 0.0, g, g * exp(minimum(x, 0.0) / alpha)),
    accepts=FLOAT,
)
gelu = pointwise("gelu", lambda x: x * normal_cdf(x), accepts=FLOAT)
gelu_tanh = pointwise(
    "gelu_tanh",
    lambda x: x * sigmoid(tanh_gate(x)),
    dx=lambda g, x: g * tanh_gate_derivative(near_zero(x)),
    accepts=FLOAT,
)
silu = pointwise("silu", lambda x: x * sigmoid(x), dx=lambda g, x: g * silu_derivative(x), accepts=FLOAT, complex=True)
softplus = pointwise(
    "softplus",
    lambda x, beta=1.0, threshold=20.0: where(
        x * beta > threshold, x, (maximum(x * beta, 0.0) + log1p(exp(-abs(x * beta)))) / beta
    ),
    dx=lambda g, x, beta, threshold: where(x * beta > threshold, g, g * sigmoid(x * beta)),
    accepts=FLOAT,
)
mish = pointwise("mish", lambda x: x * mish_gate(x), dx=lambda g, x: g * mish_derivative(x), accepts=FLOAT)
logsigmoid = pointwise(
    "logsigmoid", lambda x: minimum(x, 0.0) - log1p(exp(-abs(x))), dx=lambda g, x: g * sigmoid(-x), accepts=FLOAT
)
softsign = pointwise(
    "softsign", lambda x: x / (1.0 + abs(x)), dx=lambda g, x: g / (1.0 + abs(x)) / (1.0 + abs(x)), result="float"
)
tanhshrink = pointwise(
    "tanhshrink", lambda x: x - tanh(x), dx=lambda g, x: g * square(tanh(x)), result="float", complex=True
)
softshrink = pointwise(
    "softshrink",
    lambda x, lambd=0.5: where(x > lambd, x - lambd, where(x < -lambd, x + lambd, 0.0 * x)),
    dx=lambda g, x, lambd: where((x > lambd) | (x < -lambd), g, 0.0),
    accepts=FLOAT,
)
hardshrink = pointwise(
    "hardshrink",
    lambda x, lambd=0.5: where((x >= -lambd) & (x <= lambd), 0.0, x),
    dx=lambda g, x, lambd: where((x > lambd) | (x < -lambd), g, 0.0),
    accepts=FLOAT,
)
threshold = pointwise(
    "threshold", lambda x, threshold, value: where(x <= threshold, value, x), accepts=NUMBER, fitting=True
)
hardsigmoid = pointwise(
    "hardsigmoid",
    lambda x: minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0,
    dx=lambda g, x: where((x > -3.0) & (x < 3.0), g / 6.0, 0.0),
    accepts=FLOAT,
)
hardswish = pointwise(
    "hardswish",
    lambda x: x * minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0,
    dx=lambda g, x: where(x <= -3.0, 0.0, where(x < 3.0, g * (x / 3.0 + 0.5), g)),
    accepts=FLOAT,
)
prelu = pointwise("prelu", lambda x, weight: where(x > 0.0, x, weight * x), accepts=FLOAT)

# ---- elementwise losses

squared_error = pointwise("squared_error", lambda x, target: square(x - target), accepts=FLOAT)
absolute_error = pointwise("absolute_error", lambda x, target: abs(x - target), accepts=FLOAT)
smooth_l1 = pointwise(
    "smooth_l1",
    lambda x, target, beta=1.0: where(
        abs(x - target) < beta, 0.5 * square(x - target) / beta, abs(x - target) - 0.5 * beta
    ),
    dx=lambda g, x, target, beta: g * hardtanh((x - target) / beta, -1.0, 1.0),
    dtarget=lambda g, x, target, beta: -g * hardtanh((x - target) / beta, -1.0, 1.0),
    accepts=FLOAT,
)
huber = pointwise(
    "huber",
    lambda x, target, delta=1.0: where(
        abs(x - target) <= delta, 0.5 * square(x - target), delta * (abs(x - target) - 0.5 * delta)
    ),
    dx=lambda g, x, target, delta: g * hardtanh(x - target, -delta, delta),
    dtarget=lambda g, x, target, delta: -g * hardtanh(x - target, -delta, delta),
    accepts=FLOAT,
)
margin_gap = pointwise(
    "margin_gap",
    lambda use, x, target_score, margin: where(use, maximum(margin - target_score + x, 0.0), 0.0),
    conditions=("use",),
    dx=lambda g, use, x, target_score, margin: where(use & (margin - target_score + x > 0.0), g, 0.0),
    dtarget_score=lambda g, use, x, target_score, margin: where(use & (margin - target_score + x > 0.0), -g, 0.0),
    accepts=FLOAT,
)
binary_cross_entropy = pointwise(
    "binary_cross_entropy",
    lambda x, target: (target - 1.0) * maximum(log1p(-x), -100.0) - target * maximum(log(x), -100.0),
    dx=lambda g, x, target: g * (x - target) / maximum(x * (1.0 - x), 1e-12),
    accepts=FLOAT,
)
# (1 - target) softplus(x) + pos_weight target softplus(-x), with the common term factored out: nothing cancels
binary_cross_entropy_with_logits = pointwise(
    "binary_cross_entropy_with_logits",
    lambda x, target, pos_weight=1.0: (
        (1.0 - target) * maximum(x, 0.0)
        + pos_weight * target * maximum(-x, 0.0)
        + (1.0 - target + pos_weight * target) * log1p(exp(-abs(x)))
    ),
    dx=lambda g, x, target, pos_weight: g * cross_entropy_derivative(x, 1.0 - target, pos_weight * target),
    dtarget=lambda g, x, target, pos_weight: (
        g * (where(pos_weight == 1.0, 0.0, (1.0 - pos_weight) * logsigmoid(x)) - x)
    ),
    dpos_weight=lambda g, x, target: -g * target * logsigmoid(x),
    accepts=FLOAT,
)

# ---- checks of index tensors: their sum is 0 if all indices are valid

bounds = pointwise(
    "bounds", lambda x, low, high: where((x < low) | (x >= high), 4294967296, where(x < 0, 1, 0)), accepts="iu"
)
linear_place = pointwise(
    "linear_place",
    lambda x, y, n, m: where(
        (x < -n) | (x >= n) | (y < -m) | (y >= m), -1, (x + where(x < 0, n, 0)) * m + y + where(y < 0, m, 0)
    ),
    accepts="iu",
)
class_bounds = pointwise(
    "class_bounds",
    lambda x, classes, ignored: where(x == ignored, 1, where((x < 0) | (x >= classes), 4294967296, 0)),
    accepts="iu",
)

# ---- random: numbers depend only on (seed, offset, position), for every device and number of threads

random_uniform = pointwise("random_uniform", "random_uniform(x, y, index)", dx=zero, dy=zero, integers=("x", "y"))
random_normal = pointwise("random_normal", "random_normal(x, y, index)", dx=zero, dy=zero, integers=("x", "y"))
random_below = pointwise(
    "random_below", "random_below(x, y, index, z)", dx=zero, dy=zero, dz=zero, integers=("x", "y", "z")
)
exponential = pointwise(
    "exponential",
    lambda seed, offset, rate: neg(log(1.0 - random_uniform(seed, offset))) / rate,
    integers=("seed", "offset"),
    accepts=FLOAT,
)
uniform = pointwise(
    "uniform",
    lambda seed, offset, low, high: low + (high - low) * random_uniform(seed, offset),
    integers=("seed", "offset"),
    accepts=FLOAT,
)
normal = pointwise(
    "normal",
    lambda seed, offset, mean, std: mean + std * random_normal(seed, offset),
    dmean=zero,
    dstd=zero,
    integers=("seed", "offset"),
    accepts=FLOAT,
)
randint = pointwise(
    "randint",
    lambda seed, offset, low, span: low + random_below(seed, offset, span),
    integers=("seed", "offset", "span"),
    accepts=ALL_REAL,
)
bernoulli = pointwise(
    "bernoulli",
    lambda p, seed, offset: where(random_uniform(seed, offset) < p, 1.0, 0.0),
    dp=zero,
    integers=("seed", "offset"),
    accepts=FLOAT,
)
dropout = pointwise(  # a product: dropped infinities and NaNs give NaN, as in PyTorch
    "dropout",
    lambda x, p, seed, offset: x * where(random_uniform(seed, offset) < p, 0.0, 1.0 / (1.0 - p)),
    dx=lambda g, p, seed, offset: g * where(random_uniform(seed, offset) < p, 0.0, 1.0 / (1.0 - p)),
    integers=("seed", "offset"),
    accepts=FLOAT,
)

__all__ = list(rows)
