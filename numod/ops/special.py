"""More rows of the table of pointwise ops: special functions, mantissa and exponent, integers.

The conventions of `table` hold; the mathematics is in `kernel.library.special`. As in PyTorch, the first inputs of zeta
and gammainc have no gradient: a backward pass that needs it raises.
"""

from __future__ import annotations

from .pointwise import pointwise
from .table import abs, exp, exp2, isfinite, isnan, log, log1p, maximum, sign, where, zero

INF = float("inf")

# ---- exponentials and logarithms

logaddexp2 = pointwise(
    "logaddexp2",
    lambda x, y: where(x == y, x + 1.0, maximum(x, y) + 1.4426950408889634 * log1p(exp2(-abs(x - y)))),
    dx=lambda g, x, y: g / (1.0 + exp2(y - x)),
    dy=lambda g, x, y: g / (1.0 + exp2(x - y)),
    accepts="f",
)
xlog1py = pointwise(
    "xlog1py",
    lambda x, y: where(isnan(y), y, where(x == 0.0, 0.0, x * log1p(y))),
    dx=lambda g, x, y: where((x == 0.0) & (y <= -1.0), 0.0, g * log1p(y)),
    dy=lambda g, x, y: where(x == 0.0, 0.0, g * x / (y + 1.0)),
    result="float",
)
entr = pointwise(
    "entr",
    lambda x: where(isnan(x), x, where(x > 0.0, -x * log(where(x > 0.0, x, 1.0)), where(x == 0.0, 0.0, -INF))),
    dx=lambda g, x: g * (-1.0 - log(x)),
    result="float",
)

# ---- gamma and its relatives

lgamma = pointwise("lgamma", "lgamma(float64(x))", dx=lambda g, x: g * digamma(x), result="float")
digamma = pointwise("digamma", "digamma(float64(x))", dx=lambda g, x: g * trigamma(x), result="float")
trigamma = pointwise("trigamma", "trigamma(float64(x))", dx=lambda g, x: g * polygamma(2.0, x), result="float")
polygamma = pointwise(
    "polygamma",
    "polygamma(float64(x), float64(y))",
    dx=zero,
    dy=lambda g, x, y: g * polygamma(x + 1.0, y),
    result="float",
)
zeta = pointwise(
    "zeta", "zeta(float64(x), float64(y))", dx=zero, dy=lambda g, x, y: -g * x * zeta(x + 1.0, y), result="float"
)
gammainc = pointwise(
    "gammainc",
    "incomplete_gamma(float64(x), float64(y), 0)",
    dy=lambda g, x, y: g * incomplete_gamma_slope(x, y),
    result="float",
)
gammaincc = pointwise(
    "gammaincc",
    "incomplete_gamma(float64(x), float64(y), 1)",
    dy=lambda g, x, y: -g * incomplete_gamma_slope(x, y),
    result="float",
)
incomplete_gamma_slope = pointwise(  # y^(x - 1) exp(-y) / gamma(x)
    "incomplete_gamma_slope",
    "incomplete_gamma_slope(float64(x), float64(y))",
    dx=lambda g, x, y, out: g * out * (log(y) - digamma(x)),
    dy=lambda g, x, y, out: g * out * ((x - 1.0) / y - 1.0),
    result="float",
)
for _row, _name in ((zeta, "special_zeta: self"), (gammainc, "igamma: input"), (gammaincc, "igammac: input")):
    _row.refuse(0, _name)

# ---- error function and normal distribution

erfcx = pointwise("erfcx", "erfcx(float64(x))", dx=lambda g, x: g * erfcx_slope(x), result="float")
erfcx_slope = pointwise(
    "erfcx_slope", "erfcx_slope(float64(x))", dx=lambda g, x, out: 2.0 * g * (erfcx(x) + x * out), result="float"
)
ndtr = pointwise(
    "ndtr",
    "0.5 * erfc(float64(-0.7071067811865476) * float64(x))",
    dx=lambda g, x: 0.3989422804014327 * g * exp(-0.5 * x * x),
    result="float",
)
log_ndtr = pointwise("log_ndtr", "log_ndtr(float64(x))", dx=lambda g, x: g * log_ndtr_slope(x), result="float")
log_ndtr_slope = pointwise(  # below 0 by the derivative of erfcx, since x + out cancels
    "log_ndtr_slope",
    "log_ndtr_slope(float64(x))",
    dx=lambda g, x, out: (
        g * out * where(x < 0.0, 0.886226925452758 * out * erfcx_slope(-0.7071067811865476 * x), -x - out)
    ),
    result="float",
)
ndtri = pointwise(
    "ndtri", "ndtri(float64(x))", dx=lambda g, out: 2.5066282746310002 * g * exp(0.5 * out * out), result="float"
)

# ---- Bessel functions

i0 = pointwise("i0", "bessel_i0(float64(x))", dx=lambda g, x: g * i1(x), result="float")
i0e = pointwise("i0e", "bessel_i0e(float64(x))", dx=lambda g, x: -g * sign(x) * bessel_i_gap(x), result="float")
i1 = pointwise(
    "i1",
    "bessel_i1(float64(x))",
    dx=lambda g, x, out: g * where(x == 0.0, 0.5, i0(x) - where(isfinite(out), out, 0.0) / where(x == 0.0, 1.0, x)),
    result="float",
)
i1e = pointwise(
    "i1e",
    "bessel_i1e(float64(x))",
    dx=lambda g, x, out: g * where(x == 0.0, 0.5, bessel_i_gap(x) - out / where(x == 0.0, 1.0, x)),
    result="float",
)
bessel_i_gap = pointwise(  # exp(-|x|) (I0(x) - I1(|x|))
    "bessel_i_gap",
    "bessel_i_gap(float64(x))",
    dx=lambda g, x, out: g * sign(x) * (where(x == 0.0, 0.5, i1e(x) / where(x == 0.0, 1.0, x)) - 2.0 * out),
    result="float",
)
bessel_j0 = pointwise("bessel_j0", "bessel_j0(float64(x))", dx=lambda g, x: -g * bessel_j1(x), result="float")
bessel_j1 = pointwise(
    "bessel_j1",
    "bessel_j1(float64(x))",
    dx=lambda g, x, out: g * where(x == 0.0, 0.5, bessel_j0(x) - out / where(x == 0.0, 1.0, x)),
    result="float",
)
bessel_y0 = pointwise("bessel_y0", "bessel_y0(float64(x))", dx=lambda g, x: -g * bessel_y1(x), result="float")
bessel_y1 = pointwise(
    "bessel_y1", "bessel_y1(float64(x))", dx=lambda g, x, out: g * (bessel_y0(x) - out / x), result="float"
)
scaled_modified_bessel_k0 = pointwise(
    "scaled_modified_bessel_k0", "bessel_k0e(float64(x))", dx=lambda g, x: -g * bessel_k_gap(x), result="float"
)
scaled_modified_bessel_k1 = pointwise(
    "scaled_modified_bessel_k1",
    "bessel_k1e(float64(x))",
    dx=lambda g, x, out: g * (bessel_k_gap(x) - out / x),
    result="float",
)
bessel_k_gap = pointwise(  # exp(x) (K1(x) - K0(x))
    "bessel_k_gap",
    "bessel_k_gap(float64(x))",
    dx=lambda g, x, out: g * (2.0 * out - scaled_modified_bessel_k1(x) / x),
    result="float",
)
airy_ai = pointwise("airy_ai", "airy_ai(float64(x))", result="float")
modified_bessel_k0 = pointwise(
    "modified_bessel_k0",
    "exp(-float64(x)) * bessel_k0e(float64(x))",
    dx=lambda g, x: -g * modified_bessel_k1(x),
    result="float",
)
modified_bessel_k1 = pointwise(
    "modified_bessel_k1",
    "exp(-float64(x)) * bessel_k1e(float64(x))",
    dx=lambda g, x, out: -g * (modified_bessel_k0(x) + out / x),
    result="float",
)

# ---- mantissa and exponent, neighbouring floats, integers

mantissa = pointwise(
    "mantissa", "frexp(x)[0] if x - x == 0 else x", dx=lambda g, x: g * exp2(-exponent(x)), accepts="f"
)
exponent = pointwise("exponent", "frexp(x)[1] if x - x == 0 else 0", dx=zero, accepts="f")
angle = pointwise(
    "angle", lambda x: where(isnan(x), x, where(x < 0.0, 3.141592653589793, 0.0)), dx=zero, result="float"
)
nextafter = pointwise("nextafter", "neighbour(x, y)", dx=lambda g: g, dy=zero, accepts="f")
gcd = pointwise("gcd", "greatest_divisor(int64(x), int64(y))", accepts="ui")
lcm = pointwise("lcm", "(abs(int64(x)) // max(greatest_divisor(int64(x), int64(y)), 1)) * abs(int64(y))", accepts="ui")
